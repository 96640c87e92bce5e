//! Guests that share processors, vCPU by vCPU: which of them is on which processor, and for how long.
//!
//! ```text
//! a vCPU    has tasks, which share it; it is idle, waits for a processor, is on one, or is held back by its guest's quota
//! a slice   after so long on a processor a vCPU gives way to one that waits and has had less; without one that waits it keeps it
//! a switch  a processor that takes another vCPU than its last does no work for so long
//! a weight  of a guest: vCPUs that wait at the same time get time in this proportion; each has it, or they share it
//! a quota   of a guest: so much time on processors in each period, then none before the next (`bandwidth`)
//! ```
//! Fair share: the vCPU that waits and has had the least, each time weighed, is next (virtual run time, as in Linux's
//! fair scheduler). One that wakes has had as much as the one that was last taken: what it did not want, it does not
//! get later. It does not displace one whose slice is not over. With credit (as Xen's credit scheduler has it), each
//! period hands out the processors' time by weight; who has credit left goes before who has overdrawn it, in turns; and
//! who wakes with credit left goes first and displaces one that has none, or is not just awake itself.
//!
//! What idle vCPUs take and what contention costs is as in the minimal model ([`super::Supply`]): they change the speed
//! of all vCPUs on processors. So those have one clock of work, and a vCPU's own clock is that one less an offset, from
//! when it was put on a processor. Events are slices that end while others wait, quotas that are used up, and demands
//! that are done; each costs O(processors + log vCPUs).
//!
//! A vCPU whose task is done and that is given another at that instant keeps its processor, and its slice.
//!
//! Deviations: a guest's tasks share its vCPU without slices of their own; a vCPU that has nothing to do takes a task
//! from one of its guest that has two, at no cost.
//!
//! Sources: Linux, `kernel/sched/fair.c`; Cherkasova, Gupta, Vahdat: Comparison of the three CPU schedulers in Xen, ACM
//! SIGMETRICS Performance Evaluation Review 35 (2007).

use super::pool::Clock;
use super::{Asker, Bandwidth, Planned, Quota, Rest, Supply, Tasks};
use std::collections::BTreeSet;

const FRACTION_BITS: u32 = super::FRACTION_BITS;

/// How processors are shared out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rules {
    /// How many processors there are, and what idle vCPUs and contention cost.
    pub supply: Supply,
    /// How long a vCPU may run while others wait.
    pub slice_ns: u64,
    /// What putting another vCPU on a processor costs it.
    pub switch_ns: u64,
    /// Of credit: how often it is handed out; absent: fair share.
    pub credit_ns: Option<u64>,
    /// Whether a guest's weight is that of each of its active vCPUs (0), or is shared among them (1); or in between.
    pub grouping: f64,
}

/// What a guest may have of them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Share {
    /// Its vCPUs.
    pub vcpus: usize,
    /// Its weight.
    pub weight: f64,
    /// Its quota of time; absent: none.
    pub quota: Option<Quota>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Idle,
    /// Its entry in the queue.
    Waiting(Turn),
    /// On which processor.
    On(usize),
    /// Until its guest has a quota again.
    Held,
}

/// Rank, then time had or number of the turn, then the vCPU.
type Turn = (u8, u64, usize);

const WOKEN: u8 = 0;
const IN_CREDIT: u8 = 1;
const OVERDRAWN: u8 = 2;

#[derive(Debug)]
struct Vcpu {
    guest: usize,
    tasks: Tasks,
    state: State,
    /// Its own clock of work; while it is on a processor, as it was then.
    clock: u128,
    /// By how much the clock of all is ahead of it while it is on a processor; it does not run before `clock`.
    offset: u128,
    /// Time that it was on processors, each weighed.
    had_ns: u64,
    /// Credit, in ns.
    credit_ns: i64,
    woken: bool,
}

impl Vcpu {
    fn now(&self, work: u128) -> u128 {
        match self.state {
            State::On(_) => work.saturating_sub(self.offset).max(self.clock),
            _ => self.clock,
        }
    }

    /// Among those that wait, under credit.
    fn rank(&self) -> u8 {
        if self.woken {
            WOKEN
        } else if self.credit_ns >= 0 {
            IN_CREDIT
        } else {
            OVERDRAWN
        }
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Processor {
    on: Option<usize>,
    last: Option<usize>,
    /// Since when its time was not charged to the vCPU on it.
    since_ns: u64,
    /// Until when its slice lasts.
    until_ns: u64,
    /// The clock of work at which the first task of its vCPU is done.
    done: u128,
}

#[derive(Debug)]
struct Guest {
    /// The first of its vCPUs, and how many it has.
    vcpus: std::ops::Range<usize>,
    weight: f64,
    bandwidth: Option<Bandwidth>,
    /// How many of its vCPUs are active, and how many on processors.
    active: usize,
    running: usize,
    /// Until when its quota is charged.
    charged_ns: u64,
    /// When it may run again; absent: now.
    held_until_ns: Option<u64>,
    /// Time on processors, in 2^-32 ns of the clock of time, until `used_time` of it.
    used: u128,
    used_time: u128,
}

impl Guest {
    /// Of its active vCPUs.
    fn weight_of_each(&self, grouping: f64) -> f64 {
        self.weight * (self.active.max(1) as f64).powf(-grouping)
    }
}

/// Guests on the same processors, in slices.
#[derive(Debug)]
pub struct Slices {
    rules: Rules,
    clock: Clock,
    guests: Vec<Guest>,
    vcpus: Vec<Vcpu>,
    processors: Vec<Processor>,
    waiting: BTreeSet<Turn>,
    /// Weighed time that the vCPU had had that was last taken.
    floor_ns: u64,
    turns: u64,
    /// When credit is handed out next.
    credit_at_ns: u64,
    active: usize,
    /// A vCPU whose last task is done, and that is on its processor as long as nothing else happens: a thread that has
    /// other work at once stays where it is.
    freed: Option<usize>,
    planned: Planned,
}

impl Slices {
    /// Guests with their shares.
    #[must_use]
    pub fn new(rules: Rules, shares: &[Share]) -> Self {
        let (mut guests, mut vcpus) = (Vec::new(), Vec::new());
        for (guest, share) in shares.iter().enumerate() {
            let first = vcpus.len();
            for _ in 0..share.vcpus.max(1) {
                vcpus.push(Vcpu {
                    guest,
                    tasks: Tasks::new(1.0),
                    state: State::Idle,
                    clock: 0,
                    offset: 0,
                    had_ns: 0,
                    credit_ns: 0,
                    woken: false,
                });
            }
            guests.push(Guest {
                vcpus: first..vcpus.len(),
                weight: share.weight,
                bandwidth: share.quota.map(|quota| Bandwidth::new(quota, 0.0)),
                active: 0,
                running: 0,
                charged_ns: 0,
                held_until_ns: None,
                used: 0,
                used_time: 0,
            });
        }
        let count = rules.supply.processors.floor().max(1.0) as usize;
        Self {
            rules: Rules { slice_ns: rules.slice_ns.max(1), ..rules },
            clock: Clock::new(),
            guests,
            vcpus,
            processors: vec![Processor::default(); count],
            waiting: BTreeSet::new(),
            floor_ns: 0,
            turns: 0,
            credit_at_ns: rules.credit_ns.unwrap_or(u64::MAX),
            active: 0,
            freed: None,
            planned: Planned::default(),
        }
    }

    /// From now on this much work is wanted in a guest, too.
    pub fn ask(&mut self, now_ns: u64, guest: usize, demand: Rest, asker: Asker) {
        if now_ns == self.clock.now_ns()
            && let Some(vcpu) = self.freed.take_if(|vcpu| self.vcpus[*vcpu].guest == guest)
        {
            self.give(vcpu, demand, asker);
            return;
        }
        self.release();
        self.go_on(now_ns);
        let mut mine = self.guests[guest].vcpus.clone();
        let idle = mine.clone().find(|vcpu| self.vcpus[*vcpu].state == State::Idle);
        let vcpu = idle.or_else(|| mine.by_ref().min_by_key(|vcpu| self.vcpus[*vcpu].tasks.count()));
        let vcpu = vcpu.expect("a guest has a vCPU");
        self.give(vcpu, demand, asker);
        self.settle();
    }

    /// Who is done by now, one after another.
    pub fn done(&mut self, now_ns: u64) -> Option<Asker> {
        self.release();
        self.go_on(now_ns);
        let (work, vcpu) = self.first()?;
        if work > self.clock.work() {
            return None;
        }
        let own = &mut self.vcpus[vcpu];
        let clock = own.now(self.clock.work());
        let asker = own.tasks.done(clock);
        self.note(vcpu);
        if self.vcpus[vcpu].tasks.count() == 0 {
            self.freed = Some(vcpu);
        }
        asker
    }

    /// When someone is done, or a slice or a quota ends, if no one asks meanwhile.
    pub fn next_ns(&mut self) -> Option<u64> {
        self.release();
        let done_ns = self.first().map(|(work, _)| self.clock.at(work));
        self.turn_ns().into_iter().chain(done_ns).min().map(|at_ns| at_ns.max(self.clock.now_ns()))
    }

    /// An instant to look again that is not planned yet; it is from now on.
    pub fn plan(&mut self) -> Option<u64> {
        let next_ns = self.next_ns()?;
        self.planned.plan(next_ns)
    }

    /// A planned instant has come.
    pub fn looked(&mut self, now_ns: u64) {
        self.planned.looked(now_ns);
    }

    /// Takes the demands of a server back: which, and what is left of each.
    pub fn take_back(&mut self, now_ns: u64, guest: usize, server: usize) -> Vec<(u64, Rest)> {
        self.release();
        self.go_on(now_ns);
        let mut back = Vec::new();
        for vcpu in self.guests[guest].vcpus.clone() {
            let own = &mut self.vcpus[vcpu];
            let clock = own.now(self.clock.work());
            back.extend(own.tasks.take_back(clock, server));
            self.note(vcpu);
            let own = &self.vcpus[vcpu];
            if own.tasks.count() == 0 && own.state != State::Idle {
                self.rest(vcpu);
            }
        }
        self.settle();
        back
    }

    /// What one demand of a guest was for is over, and its thread does something else, on the vCPU where it is.
    pub fn become_other(&mut self, now_ns: u64, guest: usize, asker: Asker, demand: Rest, other: Asker) {
        self.go_on(now_ns);
        for vcpu in self.guests[guest].vcpus.clone() {
            let own = &mut self.vcpus[vcpu];
            let clock = own.now(self.clock.work());
            if own.tasks.become_other(clock, asker, demand, other) {
                self.note(vcpu);
                return;
            }
        }
    }

    /// Time that the vCPUs of a guest were on processors until now, in ns.
    pub fn used_ns(&mut self, now_ns: u64, guest: usize) -> f64 {
        self.go_on(now_ns);
        self.count_use(guest);
        (self.guests[guest].used >> FRACTION_BITS) as f64
    }

    /// Processors that idle vCPUs take.
    #[must_use]
    pub const fn idle(&self) -> f64 {
        self.rules.supply.idle
    }

    /// The clock of work at which the first task is done that is on a processor, and its vCPU.
    fn first(&self) -> Option<(u128, usize)> {
        let of = |processor: &Processor| processor.on.map(|vcpu| (processor.done, vcpu));
        self.processors.iter().filter_map(of).min()
    }

    /// When slices, quotas or credit change who is on processors.
    fn turn_ns(&self) -> Option<u64> {
        let waits = !self.waiting.is_empty();
        if !waits && self.guests.iter().all(|guest| guest.bandwidth.is_none()) {
            return None;
        }
        let ends = self.processors.iter().filter(|one| waits && one.on.is_some()).map(|one| one.until_ns);
        let quotas = self.guests.iter().filter_map(|guest| {
            let bandwidth = guest.bandwidth.as_ref()?;
            if let Some(at_ns) = guest.held_until_ns {
                return (guest.active > 0).then_some(at_ns);
            }
            let running = u64::try_from(guest.running).ok().filter(|count| *count > 0)?;
            let left_ns = u64::try_from(bandwidth.left_ns()).unwrap_or(0);
            Some((guest.charged_ns + left_ns.div_ceil(running)).min(bandwidth.ends_ns(guest.charged_ns)))
        });
        let credit = (waits && self.rules.credit_ns.is_some()).then_some(self.credit_at_ns);
        ends.chain(quotas).chain(credit).min()
    }

    /// Plays all turns until an instant.
    fn go_on(&mut self, now_ns: u64) {
        if now_ns > self.clock.now_ns() {
            self.release();
        }
        while let Some(at_ns) = self.turn_ns().filter(|at_ns| *at_ns <= now_ns) {
            self.pass(at_ns.max(self.clock.now_ns()));
            self.turn();
            self.settle();
        }
        self.pass(now_ns);
    }

    fn pass(&mut self, now_ns: u64) {
        self.clock.go_on(now_ns);
    }

    /// Slices, quotas and credit that end now.
    fn turn(&mut self) {
        for guest in 0..self.guests.len() {
            self.charge_quota(guest);
        }
        if let Some(period_ns) = self.rules.credit_ns.filter(|_| self.credit_at_ns <= self.clock.now_ns()) {
            self.hand_out(period_ns);
        }
        for place in 0..self.processors.len() {
            let Processor { on: Some(vcpu), until_ns, done, .. } = self.processors[place] else { continue };
            if until_ns > self.clock.now_ns() {
                continue;
            }
            if done <= self.clock.work() {
                // What is done with the slice's end needs no other, unless its vCPU is given something else.
                self.processors[place].until_ns = self.clock.now_ns() + 1;
                continue;
            }
            self.processors[place].until_ns = self.clock.now_ns() + self.rules.slice_ns;
            self.charge(place);
            let own = self.turn_of(vcpu);
            if self.waiting.first().is_some_and(|first| *first < own) {
                self.put_off(place);
                self.wait(vcpu, own);
            }
        }
    }

    /// Processors that have no vCPU take those that wait; then all work at the speed of so many.
    fn settle(&mut self) {
        let free = if self.waiting.is_empty() { 0 } else { self.processors.len() };
        for place in 0..free {
            while self.processors[place].on.is_none()
                && let Some((.., vcpu)) = self.waiting.pop_first()
            {
                self.put_on(place, vcpu);
            }
        }
        let supply = self.rules.supply;
        if supply.idle > 0.0 || supply.contention > 0.0 {
            let on = self.processors.iter().filter(|one| one.on.is_some()).count();
            self.clock.share(&supply, on, self.active);
        }
    }

    /// The tasks of a vCPU have changed.
    fn note(&mut self, vcpu: usize) {
        let own = &self.vcpus[vcpu];
        if let State::On(place) = own.state {
            self.processors[place].done = own.tasks.next().map_or(u128::MAX, |done| done + own.offset);
        }
    }

    /// A vCPU has one more task.
    fn give(&mut self, vcpu: usize, demand: Rest, asker: Asker) {
        let own = &mut self.vcpus[vcpu];
        let clock = own.now(self.clock.work());
        own.tasks.ask(clock, demand, asker);
        if own.state == State::Idle {
            self.wake(vcpu);
        } else {
            self.note(vcpu);
        }
    }

    fn wake(&mut self, vcpu: usize) {
        self.charge_quota(self.vcpus[vcpu].guest);
        let guest = &mut self.guests[self.vcpus[vcpu].guest];
        guest.active += 1;
        self.active += 1;
        let own = &mut self.vcpus[vcpu];
        own.had_ns = own.had_ns.max(self.floor_ns);
        if guest.held_until_ns.is_some() {
            own.state = State::Held;
            return;
        }
        own.woken = self.rules.credit_ns.is_some() && own.credit_ns >= 0;
        let turn = self.turn_of(vcpu);
        self.wait(vcpu, turn);
        if self.processors.iter().any(|one| one.on.is_none()) {
            return;
        }
        if turn.0 == WOKEN {
            for place in 0..self.processors.len() {
                self.charge(place);
            }
        }
        // Who has run for longer than its slice while none waited gives way at once, and to the woken who is not.
        let gives_way = |place: &usize| {
            let one = &self.processors[*place];
            let woken = one.on.is_some_and(|on| self.vcpus[on].woken);
            one.until_ns <= self.clock.now_ns() || (turn.0 == WOKEN && !woken)
        };
        let place = (0..self.processors.len()).filter(gives_way).min_by_key(|place| {
            let on = self.processors[*place].on.map(|on| self.vcpus[on].credit_ns);
            (self.processors[*place].until_ns, on)
        });
        if let Some(place) = place {
            self.charge(place);
            let Some(before) = self.processors[place].on else { return };
            let behind = self.turn_of(before);
            if turn < behind {
                self.put_off(place);
                self.wait(before, behind);
            } else {
                self.processors[place].until_ns = self.clock.now_ns() + self.rules.slice_ns;
            }
        }
    }

    /// Has a vCPU wait for its turn.
    fn wait(&mut self, vcpu: usize, turn: Turn) {
        self.vcpus[vcpu].state = State::Waiting(turn);
        self.waiting.insert(turn);
    }

    /// The turn of a vCPU that waits from now on.
    fn turn_of(&mut self, vcpu: usize) -> Turn {
        let own = &self.vcpus[vcpu];
        if self.rules.credit_ns.is_none() {
            return (IN_CREDIT, own.had_ns, vcpu);
        }
        self.turns += 1;
        (own.rank(), self.turns, vcpu)
    }

    /// Puts a vCPU on a processor, unless its guest has to be held back now.
    fn put_on(&mut self, place: usize, vcpu: usize) {
        let guest = self.vcpus[vcpu].guest;
        self.vcpus[vcpu].state = State::Held;
        self.charge_quota(guest);
        if self.guests[guest].held_until_ns.is_some() {
            return;
        }
        let processor = &mut self.processors[place];
        let switch_ns = if processor.last == Some(vcpu) { 0 } else { self.rules.switch_ns };
        let until_ns = self.clock.now_ns() + switch_ns + self.rules.slice_ns;
        *processor = Processor {
            on: Some(vcpu),
            last: Some(vcpu),
            since_ns: self.clock.now_ns(),
            until_ns,
            done: u128::MAX,
        };
        self.count_use(guest);
        self.guests[guest].running += 1;
        let own = &mut self.vcpus[vcpu];
        self.floor_ns = self.floor_ns.max(own.had_ns);
        own.offset = self.clock.work() + Rest::of(switch_ns).0 - own.clock;
        own.state = State::On(place);
        self.note(vcpu);
    }

    /// Takes the vCPU off a processor; its state has to be set then.
    fn put_off(&mut self, place: usize) {
        self.charge(place);
        let Some(vcpu) = self.processors[place].on.take() else { return };
        let guest = self.vcpus[vcpu].guest;
        self.charge_quota(guest);
        self.count_use(guest);
        self.guests[guest].running -= 1;
        let own = &mut self.vcpus[vcpu];
        own.clock = own.now(self.clock.work());
        own.state = State::Idle;
        own.woken = false;
    }

    /// Charges the time on a processor to the vCPU on it.
    fn charge(&mut self, place: usize) {
        let processor = &mut self.processors[place];
        let Some(vcpu) = processor.on else { return };
        let passed_ns = self.clock.now_ns() - processor.since_ns;
        processor.since_ns = self.clock.now_ns();
        let own = &mut self.vcpus[vcpu];
        let guest = &self.guests[own.guest];
        let weight = guest.weight_of_each(self.rules.grouping);
        own.had_ns += (passed_ns as f64 / weight) as u64;
        if let Some(period_ns) = self.rules.credit_ns {
            let least = -i64::try_from(period_ns).unwrap_or(i64::MAX);
            own.credit_ns = (own.credit_ns - i64::try_from(passed_ns).unwrap_or(i64::MAX)).max(least);
            if own.credit_ns < 0 {
                own.woken = false;
            }
        }
    }

    /// Hands credit out: the time of all processors in a period, by weight, to guests that have something to do.
    fn hand_out(&mut self, period_ns: u64) {
        for place in 0..self.processors.len() {
            self.charge(place);
        }
        let grouping = self.rules.grouping;
        let weight = |guest: &Guest| guest.weight_of_each(grouping) * guest.active as f64;
        let all: f64 = self.guests.iter().map(weight).sum();
        let supply_ns = period_ns as f64 * self.processors.len() as f64;
        let most = i64::try_from(period_ns).unwrap_or(i64::MAX);
        for guest in self.guests.iter().filter(|guest| guest.active > 0) {
            let each_ns = (supply_ns * weight(guest) / all / guest.active as f64) as i64;
            for own in self.vcpus[guest.vcpus.clone()].iter_mut().filter(|own| own.state != State::Idle) {
                own.credit_ns = own.credit_ns.saturating_add(each_ns).min(most);
            }
        }
        while self.credit_at_ns <= self.clock.now_ns() {
            self.credit_at_ns += period_ns.max(1);
        }
        for (_, turn, vcpu) in std::mem::take(&mut self.waiting) {
            self.wait(vcpu, (self.vcpus[vcpu].rank(), turn, vcpu));
        }
    }

    /// Who has found nothing else to do gives its processor up.
    fn release(&mut self) {
        if let Some(vcpu) = self.freed.take() {
            self.rest(vcpu);
            self.settle();
        }
    }

    /// A vCPU has nothing to do any more, unless another of its guest has two tasks.
    fn rest(&mut self, vcpu: usize) {
        let mine = self.guests[self.vcpus[vcpu].guest].vcpus.clone();
        let other = mine
            .max_by_key(|other| self.vcpus[*other].tasks.count())
            .filter(|other| self.vcpus[*other].tasks.count() > 1);
        if let Some(other) = other {
            let from = self.vcpus[other].now(self.clock.work());
            if let Some((rest, asker)) = self.vcpus[other].tasks.give_away(from) {
                let clock = self.vcpus[vcpu].now(self.clock.work());
                self.vcpus[vcpu].tasks.ask(clock, rest, asker);
                self.note(vcpu);
                self.note(other);
                return;
            }
        }
        match self.vcpus[vcpu].state {
            State::On(place) => self.put_off(place),
            State::Waiting(turn) => {
                self.waiting.remove(&turn);
            }
            State::Idle => return,
            State::Held => {}
        }
        self.vcpus[vcpu].state = State::Idle;
        self.guests[self.vcpus[vcpu].guest].active -= 1;
        self.active -= 1;
    }

    /// Charges a guest's quota for its vCPUs on processors; holds it back where it has none left, until it has again.
    fn charge_quota(&mut self, guest: usize) {
        let now_ns = self.clock.now_ns();
        let own = &mut self.guests[guest];
        let Some(bandwidth) = &mut own.bandwidth else { return };
        bandwidth.charge((now_ns - own.charged_ns).saturating_mul(own.running as u64));
        own.charged_ns = now_ns;
        let runnable_ns = bandwidth.runnable_ns(now_ns);
        if let Some(until_ns) = own.held_until_ns {
            if until_ns <= now_ns {
                own.held_until_ns = None;
                for vcpu in own.vcpus.clone() {
                    if self.vcpus[vcpu].state == State::Held {
                        self.vcpus[vcpu].had_ns = self.vcpus[vcpu].had_ns.max(self.floor_ns);
                        let turn = self.turn_of(vcpu);
                        self.wait(vcpu, turn);
                    }
                }
            }
        } else if runnable_ns > now_ns {
            own.held_until_ns = Some(runnable_ns);
            for vcpu in own.vcpus.clone() {
                match self.vcpus[vcpu].state {
                    State::On(place) => self.put_off(place),
                    State::Waiting(turn) => {
                        self.waiting.remove(&turn);
                    }
                    State::Idle | State::Held => continue,
                }
                self.vcpus[vcpu].state = State::Held;
            }
        }
    }

    fn count_use(&mut self, guest: usize) {
        let time = self.clock.time();
        let own = &mut self.guests[guest];
        own.used += (time - own.used_time) * own.running as u128;
        own.used_time = time;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::processors::Pool;
    use proptest::prelude::*;
    use virtlab_load::random::Stream;

    const MS: u64 = 1_000_000;
    const LONG: u64 = 1_000_000 * MS;

    fn rules(processors: f64, slice_ns: u64) -> Rules {
        let supply = Supply { processors, idle: 0.0, contention: 0.0 };
        Rules { supply, slice_ns, switch_ns: 0, credit_ns: None, grouping: 0.0 }
    }

    const fn plain(vcpus: usize) -> Share {
        Share { vcpus, weight: 1.0, quota: None }
    }

    const fn weighed(weight: f64) -> Share {
        Share { vcpus: 1, weight, quota: None }
    }

    /// Plays demands (when, of which guest, how much) in the order of their instants; when each is done.
    fn played(slices: &mut Slices, demands: &[(u64, usize, u64)]) -> Vec<u64> {
        let mut done = vec![0; demands.len()];
        let mut coming = demands.iter().enumerate().peekable();
        loop {
            let arrival_ns = coming.peek().map(|(_, (at_ns, ..))| *at_ns);
            let Some(now_ns) = arrival_ns.into_iter().chain(slices.next_ns()).min() else { return done };
            while let Some((_, number)) = slices.done(now_ns) {
                done[number as usize] = now_ns;
            }
            if let Some((number, (at_ns, guest, demand_ns))) = coming.next_if(|(_, each)| each.0 == now_ns) {
                slices.ask(*at_ns, *guest, Rest::of(*demand_ns), (0, number as u64));
            }
        }
    }

    /// What guests that always have one task each had of processors by an instant.
    fn shares_at(mut slices: Slices, guests: usize, until_ns: u64) -> Vec<f64> {
        for guest in 0..guests {
            slices.ask(0, guest, Rest::of(LONG), (0, guest as u64));
        }
        while let Some(now_ns) = slices.next_ns().filter(|now_ns| *now_ns <= until_ns) {
            assert_eq!(slices.done(now_ns), None);
        }
        (0..guests).map(|guest| slices.used_ns(until_ns, guest) / until_ns as f64).collect()
    }

    fn poisson(
        guests: usize,
        rate_per_s: f64,
        count: usize,
        mut demand: impl FnMut() -> f64,
    ) -> Vec<(u64, usize, u64)> {
        let mut gaps = Stream::new(3, "arrivals");
        let mut choice = Stream::new(5, "guests");
        let mut now = 0.0;
        (0..count)
            .map(|_| {
                now += gaps.exponential(1e9 / rate_per_s);
                (now as u64, (choice.uniform() * guests as f64) as usize, demand().max(1.0) as u64)
            })
            .collect()
    }

    /// After a tenth of the run.
    fn mean_ms(demands: &[(u64, usize, u64)], done: &[u64]) -> f64 {
        let times: Vec<f64> =
            demands.iter().zip(done).map(|((at_ns, ..), done)| (done - at_ns) as f64).collect();
        let steady = &times[times.len() / 10..];
        steady.iter().sum::<f64>() / steady.len() as f64 / 1e6
    }

    #[test]
    fn vcpus_take_turns_of_a_slice_and_without_one_that_waits_it_keeps_it() {
        let mut slices = Slices::new(rules(1.0, 3 * MS), &[plain(1), plain(1)]);
        // In turns of 3 ms: the first has 3, 3, 3 and 1 ms, and the second, of 4 ms, is done in its second turn.
        assert_eq!(played(&mut slices, &[(0, 0, 10 * MS), (0, 1, 4 * MS)]), [14 * MS, 10 * MS]);
        let mut slices = Slices::new(rules(1.0, 3 * MS), &[plain(1), plain(1)]);
        assert_eq!(played(&mut slices, &[(0, 0, 10 * MS)]), [10 * MS]);
        assert_eq!(slices.next_ns(), None);
        // One that comes when the slice is over has the processor at once.
        let mut slices = Slices::new(rules(1.0, 3 * MS), &[plain(1), plain(1)]);
        assert_eq!(played(&mut slices, &[(0, 0, 10 * MS), (5 * MS, 1, 2 * MS)]), [12 * MS, 7 * MS]);
    }

    #[test]
    fn more_vcpus_than_tasks_leave_processors_idle_and_tasks_share_a_vcpu() {
        let mut slices = Slices::new(rules(2.0, MS), &[plain(1), plain(1)]);
        assert_eq!(played(&mut slices, &[(0, 0, 10 * MS), (0, 0, 10 * MS)]), [20 * MS; 2]);
        // A vCPU that has nothing to do takes one of two tasks of the other.
        let mut slices = Slices::new(rules(2.0, MS), &[plain(2)]);
        let all = [(0, 0, 2 * MS), (0, 0, 10 * MS), (0, 0, 10 * MS), (0, 0, 10 * MS)];
        let done = played(&mut slices, &all);
        assert!(done.iter().all(|at_ns| *at_ns <= 17 * MS), "{done:?}");
        assert_eq!(*done.iter().max().unwrap(), 16 * MS, "both work until the end");
    }

    #[test]
    fn guests_have_time_by_their_weights() {
        let found = shares_at(Slices::new(rules(1.0, MS), &[weighed(2.0), weighed(1.0)]), 2, 3000 * MS);
        assert!((found[0] - 2.0 / 3.0).abs() < 1e-3 && (found[1] - 1.0 / 3.0).abs() < 1e-3, "{found:?}");
        // Grouped, a guest of three vCPUs has no more than one of one; else it has three times as much.
        for (grouping, expected) in [(1.0, 0.5), (0.0, 0.25)] {
            let shares = [plain(3), plain(1)];
            let mut slices = Slices::new(Rules { grouping, ..rules(1.0, MS) }, &shares);
            for task in 0..3 {
                slices.ask(0, 0, Rest::of(LONG), (0, task));
            }
            slices.ask(0, 1, Rest::of(LONG), (0, 3));
            let found = slices.used_ns(3000 * MS, 1) / 3000e6;
            assert!((found - expected).abs() < 1e-2, "{found}");
        }
    }

    #[test]
    fn credit_is_by_weight_too_and_who_wakes_with_credit_goes_first() {
        let credit = |weights: &[f64]| {
            let shares: Vec<Share> = weights.iter().copied().map(weighed).collect();
            Slices::new(Rules { credit_ns: Some(30 * MS), ..rules(1.0, 10 * MS) }, &shares)
        };
        let found = shares_at(credit(&[2.0, 1.0]), 2, 30_000 * MS);
        assert!((found[0] - 2.0 / 3.0).abs() < 0.02, "{found:?}");
        let mut slices = credit(&[1.0, 1.0]);
        // The first is in the middle of its slice when the second wakes, which does not wait.
        assert_eq!(played(&mut slices, &[(0, 0, 100 * MS), (2 * MS, 1, MS)]), [101 * MS, 3 * MS]);
        let mut fair = Slices::new(rules(1.0, 10 * MS), &[plain(1), plain(1)]);
        assert_eq!(played(&mut fair, &[(0, 0, 100 * MS), (2 * MS, 1, MS)]), [101 * MS, 11 * MS]);
    }

    #[test]
    fn a_quota_holds_a_guest_back_however_many_vcpus_it_has() {
        let quota = Some(Quota { quota_ns: 50 * MS, period_ns: 100 * MS });
        let capped = Share { vcpus: 2, weight: 1.0, quota };
        let mut slices = Slices::new(rules(4.0, MS), &[capped, plain(1)]);
        // Both run for 25 ms of each period.
        let all = [(0, 0, 60 * MS), (0, 0, 60 * MS), (0, 1, 300 * MS)];
        assert_eq!(played(&mut slices, &all), [210 * MS, 210 * MS, 300 * MS]);
        assert!((slices.used_ns(400 * MS, 0) - 120e6).abs() < 1.0);
        let found =
            shares_at(Slices::new(rules(1.0, MS), &[Share { vcpus: 1, ..capped }, plain(1)]), 2, 10_000 * MS);
        assert!(found[0] <= 0.5 + 1e-9 && (found[0] + found[1] - 1.0).abs() < 1e-6, "{found:?}");
    }

    #[test]
    fn a_switch_lowers_capacity_by_its_share_of_a_slice() {
        for switch_ns in [MS / 10, MS / 2] {
            let mut slices = Slices::new(Rules { switch_ns, ..rules(1.0, MS) }, &[plain(1), plain(1)]);
            let done = played(&mut slices, &[(0, 0, 5000 * MS), (0, 1, 5000 * MS)]);
            let capacity = 10_000.0 * MS as f64 / *done.iter().max().unwrap() as f64;
            let expected = MS as f64 / (MS + switch_ns) as f64;
            assert!((capacity / expected - 1.0).abs() < 1e-3, "{capacity} of {expected}");
        }
    }

    #[test]
    fn what_is_done_as_its_slice_ends_takes_no_other() {
        let mut slices = Slices::new(Rules { switch_ns: MS, ..rules(1.0, 2 * MS) }, &[plain(1), plain(1)]);
        assert_eq!(played(&mut slices, &[(0, 0, 2 * MS), (0, 1, 2 * MS)]), [3 * MS, 6 * MS]);
    }

    #[test]
    fn idle_vcpus_and_contention_cost_what_they_do_in_the_minimal_model() {
        let supply = Supply { processors: 20.0, idle: 2.0, contention: 0.5 };
        let mut slices = Slices::new(Rules { supply, ..rules(20.0, MS / 10) }, &[plain(20); 5]);
        let all: Vec<_> = (0..100).map(|task| (0, task % 5, 10 * MS)).collect();
        let done = played(&mut slices, &all);
        let expected = 10e6 / (0.18 * 0.59);
        // Until the first is done all are active; they are done within a few slices of each other.
        let first = *done.iter().min().unwrap() as f64;
        assert!((first / expected - 1.0).abs() < 0.02, "{first} of {expected}");
    }

    /// Processor sharing is what slices tend to as they become short.
    #[test]
    fn short_slices_without_costs_are_the_minimal_model() {
        let mut sizes = Stream::new(4, "demands");
        let demands = poisson(3, 170.0, 4000, || sizes.exponential(1e7));
        let supply = Supply { processors: 2.0, idle: 0.0, contention: 0.0 };
        let mut pool = Pool::shared(supply, &[2.0; 3]);
        let mut course = vec![0; demands.len()];
        let mut coming = demands.iter().enumerate().peekable();
        while let Some(now_ns) = coming.peek().map(|(_, each)| each.0).into_iter().chain(pool.next_ns()).min()
        {
            while let Some((_, number)) = pool.done(now_ns) {
                course[number as usize] = now_ns;
            }
            if let Some((number, each)) = coming.next_if(|(_, each)| each.0 == now_ns) {
                pool.ask(now_ns, each.1, Rest::of(each.2), (0, number as u64));
            }
        }
        let shared = mean_ms(&demands, &course);
        let errors = [10 * MS, MS, MS / 10].map(|slice_ns| {
            let done = played(&mut Slices::new(rules(2.0, slice_ns), &[plain(2); 3]), &demands);
            (mean_ms(&demands, &done) / shared - 1.0).abs()
        });
        assert!(errors[2] < 0.01, "{errors:?}");
        assert!(errors[0] > errors[2], "{errors:?}");
    }

    /// M/G/1-PS: the mean depends on the mean demand alone, E[S] / (1 - rho).
    #[test]
    fn one_processor_in_short_slices_does_not_mind_how_demands_are_distributed() {
        for wide in [false, true] {
            let mut sizes = Stream::new(6, "demands");
            let demands = poisson(1, 60.0, 60_000, || if wide { sizes.lognormal(1e7, 1.5) } else { 1e7 });
            let done = played(&mut Slices::new(rules(1.0, MS / 10), &[plain(64)]), &demands);
            let mean = mean_ms(&demands, &done);
            assert!((mean / 25.0 - 1.0).abs() < 0.06, "{wide}: {mean}");
        }
    }

    /// M/M/c whatever the slices: lambda 80, mu 10, c 10: C = 0.40918, W = 120.459 ms; and Little's law.
    #[test]
    fn vcpus_enough_answer_as_one_queue_of_the_pools_processors() {
        let mut sizes = Stream::new(4, "demands");
        let demands = poisson(5, 80.0, 150_000, || sizes.exponential(1e8));
        let done = played(&mut Slices::new(rules(10.0, 30 * MS), &[plain(200); 5]), &demands);
        let mean = mean_ms(&demands, &done);
        assert!((mean / 120.459 - 1.0).abs() < 0.02, "{mean}");
    }

    /// With slices longer than any demand it is first come, first served: Allen-Cunneen, W = S (1 + C / (c (1 - rho))
    /// (1 + cv^2) / 2), whose own error is a few per cent for constant demands.
    #[test]
    fn long_slices_are_one_queue_served_in_order() {
        let demands = poisson(1, 80.0, 150_000, || 1e8);
        let done = played(&mut Slices::new(rules(10.0, LONG), &[plain(400)]), &demands);
        let mean = mean_ms(&demands, &done);
        let waits = 0.5 * 20.459;
        assert!((mean / (100.0 + waits) - 1.0).abs() < 0.03, "{mean}");
        assert!(mean < 120.459 - 5.0, "half of the wait of exponential demands: {mean}");
    }

    proptest! {
        /// No processor is idle while a vCPU waits, and none works twice, whatever comes when.
        #[test]
        fn work_is_neither_lost_nor_gained(
            processors in 1_u32..4,
            slice_ns in 1_u64..5000,
            vcpus in prop::collection::vec(1_usize..4, 1..4),
            credit in any::<bool>(),
            steps in prop::collection::vec((0_u64..3000, 0_usize..4, 0_u64..10_000), 1..60),
        ) {
            let shares: Vec<Share> = vcpus.iter().copied().map(plain).collect();
            let credit_ns = credit.then_some(3 * slice_ns);
            let mut slices = Slices::new(Rules { credit_ns, ..rules(f64::from(processors), slice_ns) }, &shares);
            let mut at_ns = 0;
            let demands: Vec<_> = steps
                .iter()
                .map(|(gap, guest, demand)| { at_ns += gap; (at_ns, guest % shares.len(), *demand) })
                .collect();
            let done = played(&mut slices, &demands);
            let last = *done.iter().max().unwrap();
            let used: f64 = (0..shares.len()).map(|guest| slices.used_ns(last, guest)).sum();
            let mut instants: Vec<u64> = demands.iter().map(|each| each.0).chain(done.iter().copied()).collect();
            instants.sort_unstable();
            let mut expected = 0.0;
            for pair in instants.windows(2) {
                let busy: usize = vcpus
                    .iter()
                    .enumerate()
                    .map(|(guest, count)| {
                        let under_way = |((at_ns, own, _), done): &(&(u64, usize, u64), &u64)| {
                            *own == guest && *at_ns <= pair[0] && **done > pair[0]
                        };
                        demands.iter().zip(&done).filter(under_way).count().min(*count)
                    })
                    .sum();
                expected += busy.min(processors as usize) as f64 * (pair[1] - pair[0]) as f64;
            }
            prop_assert!((used - expected).abs() < 1e-3 * expected + 400.0, "{used} of {expected}");
            let work: u64 = demands.iter().map(|(.., demand)| demand).sum();
            prop_assert!((used - work as f64).abs() < 1e-3 * work as f64 + 400.0, "{used} of {work}");
        }
    }
}
