//! Guests that share processors: with V vCPUs each on the P processors of a pool, or one guest on processors of its
//! own.
//!
//! ```text
//! A        vCPUs that are active: over all guests the sum of min(V, tasks)
//! P0       P less what idle vCPUs take of them: a timer and a look at each, whether it works or not
//! time     each active vCPU is on a processor for min(1, P0 / A) of the time
//! speed    and works there by (1 - e * max(0, 1 - P0 / A)): where vCPUs take turns, caches are cold and locks are held by some
//!          that wait, the more of them the fewer run at once
//! ```
//! All vCPUs of a pool work at one speed. So the pool has a clock of its own, which shows how much work a vCPU that was
//! always active would have done, and each guest shares its vCPUs by that clock as if they were processors ([`Tasks`]).
//! A change of A bends the clock and moves nothing in any guest. An event costs O(guests of the pool + log n).
//!
//! A guest alone has a clock that shows virtual time.
//!
//! The form of P0 and of the speed is the least that has the shape of published measurements of guests with more vCPUs
//! than processors (`published/vcpu_over_allocation.csv`); without idle cost and loss it is processor sharing on two
//! levels.

use super::{Asker, PER_PROCESSOR, Planned, Rest, Tasks};

const FRACTION_BITS: u32 = super::FRACTION_BITS;
const FULL: u64 = 1 << FRACTION_BITS;

/// In 2^-32.
fn fixed(ratio: f64) -> u64 {
    ((ratio * FULL as f64) as u64).clamp(1, FULL)
}

/// What a pool has for its guests.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Supply {
    /// Processors.
    pub processors: f64,
    /// Of them, what the vCPUs of all its guests take when idle.
    pub idle: f64,
    /// The share of its speed that a vCPU would lose if infinitely many were active.
    pub contention: f64,
}

impl Supply {
    /// With so many thousandths of vCPUs active: for how much of the time each is on a processor, and its speed; both
    /// in 2^-32.
    fn rates(&self, active: u64) -> (u64, u64) {
        let left = (self.processors - self.idle) * PER_PROCESSOR as f64;
        let wanted = active as f64;
        if wanted <= left {
            return (FULL, FULL);
        }
        let time = left / wanted;
        let speed = time * (1.0 - self.contention * (1.0 - time));
        (fixed(time), fixed(speed))
    }

    /// With so many vCPUs on processors, of so many that are active: how much of the time each has, and its speed; both
    /// in 2^-32.
    fn rates_on(&self, on: u64, active: u64) -> (u64, u64) {
        let left = self.processors - self.idle;
        let share = |wanted: u64| if wanted as f64 <= left { 1.0 } else { left / wanted as f64 };
        let time = share(on);
        let speed = time * (1.0 - self.contention * (1.0 - share(active)));
        (fixed(time), fixed(speed))
    }
}

/// What a vCPU that was always active would have had by now.
#[derive(Debug)]
pub(super) struct Clock {
    since_ns: u64,
    /// Work, in 2^-32 ns.
    work: u128,
    /// Time on a processor, in 2^-32 ns.
    time: u128,
    speed: u64,
    time_speed: u64,
}

impl Clock {
    /// At the beginning of time, at full speed.
    pub(super) const fn new() -> Self {
        Self { since_ns: 0, work: 0, time: 0, speed: FULL, time_speed: FULL }
    }

    /// When it was looked at last.
    pub(super) const fn now_ns(&self) -> u64 {
        self.since_ns
    }

    /// Work, in 2^-32 ns.
    pub(super) const fn work(&self) -> u128 {
        self.work
    }

    /// Time on a processor, in 2^-32 ns.
    pub(super) const fn time(&self) -> u128 {
        self.time
    }

    /// From now on so many vCPUs are on processors, of so many that are active.
    pub(super) fn share(&mut self, supply: &Supply, on: usize, active: usize) {
        (self.time_speed, self.speed) = supply.rates_on(on as u64, active as u64);
    }

    pub(super) fn go_on(&mut self, now_ns: u64) {
        let passed = u128::from(now_ns - self.since_ns);
        self.work += passed * u128::from(self.speed);
        self.time += passed * u128::from(self.time_speed);
        self.since_ns = now_ns;
    }

    /// When it will show that much work, at this speed.
    pub(super) fn at(&self, work: u128) -> u64 {
        let left = work.saturating_sub(self.work);
        let wait = match (u64::try_from(left), self.speed) {
            (_, FULL) => u64::try_from((left + u128::from(FULL - 1)) >> FRACTION_BITS).unwrap_or(u64::MAX),
            (Ok(left), speed) => left.div_ceil(speed),
            (_, speed) => u64::try_from(left.div_ceil(u128::from(speed))).unwrap_or(u64::MAX),
        };
        self.since_ns.saturating_add(wait)
    }
}

/// Guests on the same processors.
#[derive(Debug)]
pub struct Pool {
    /// Absent: each vCPU has a processor.
    supply: Option<Supply>,
    clock: Clock,
    guests: Vec<Tasks>,
    /// Thousandths of vCPUs that are active.
    active: u64,
    planned: Planned,
}

impl Pool {
    /// One guest with so many processors of its own, a part of one too.
    #[must_use]
    pub fn alone(processors: f64) -> Self {
        Self::made(None, vec![Tasks::new(processors)])
    }

    /// Guests with so many vCPUs each.
    #[must_use]
    pub fn shared(supply: Supply, vcpus: &[f64]) -> Self {
        Self::made(Some(supply), vcpus.iter().copied().map(Tasks::new).collect())
    }

    const fn made(supply: Option<Supply>, guests: Vec<Tasks>) -> Self {
        Self { supply, clock: Clock::new(), guests, active: 0, planned: Planned(None) }
    }

    /// From now on this much work is wanted in a guest, too.
    pub fn ask(&mut self, now_ns: u64, guest: usize, demand: Rest, asker: Asker) {
        self.clock.go_on(now_ns);
        self.change(guest, |tasks, clock| tasks.ask(clock.work, demand, asker));
    }

    /// Who is done by now, one after another.
    pub fn done(&mut self, now_ns: u64) -> Option<Asker> {
        self.clock.go_on(now_ns);
        let guest = self.first()?;
        self.change(guest, |tasks, clock| tasks.done(clock.work))
    }

    /// When someone is done if no one asks meanwhile.
    #[must_use]
    pub fn next_ns(&self) -> Option<u64> {
        let work = self.guests.iter().filter_map(Tasks::next).min()?;
        Some(self.clock.at(work))
    }

    /// An instant to look again that is not planned yet; it is from now on. A look that comes too early plans another.
    pub fn plan(&mut self) -> Option<u64> {
        let next_ns = self.next_ns()?;
        self.planned.plan(next_ns)
    }

    /// A planned instant has come.
    pub fn looked(&mut self, now_ns: u64) {
        self.planned.looked(now_ns);
    }

    /// Takes the demands of a server back: which, and what is left of each. It can `ask` for them again.
    pub fn take_back(&mut self, now_ns: u64, guest: usize, server: usize) -> Vec<(u64, Rest)> {
        self.clock.go_on(now_ns);
        self.change(guest, |tasks, clock| tasks.take_back(clock.work, server))
    }

    /// What one demand of a guest was for is over, and its thread does something else on the spot.
    pub fn become_other(&mut self, now_ns: u64, guest: usize, asker: Asker, demand: Rest, other: Asker) {
        self.clock.go_on(now_ns);
        self.change(guest, |tasks, clock| tasks.become_other(clock.work, asker, demand, other));
    }

    /// Time that the vCPUs of a guest were on processors until now, in ns.
    pub fn used_ns(&mut self, now_ns: u64, guest: usize) -> f64 {
        self.clock.go_on(now_ns);
        self.guests[guest].used_ns(self.clock.time)
    }

    /// Processors that idle vCPUs take.
    #[must_use]
    pub fn idle(&self) -> f64 {
        self.supply.map_or(0.0, |supply| supply.idle)
    }

    /// The guest of which someone is done first.
    fn first(&self) -> Option<usize> {
        let of = |(guest, tasks): (usize, &Tasks)| tasks.next().map(|work| (work, guest));
        self.guests.iter().enumerate().filter_map(of).min().map(|(_, guest)| guest)
    }

    /// Has something happen in a guest, after which others may work at another speed.
    fn change<T>(&mut self, guest: usize, happens: impl FnOnce(&mut Tasks, &Clock) -> T) -> T {
        let tasks = &mut self.guests[guest];
        let before = tasks.active();
        let found = happens(tasks, &self.clock);
        let after = tasks.active();
        if before != after {
            tasks.settle(self.clock.time, before);
            self.active = self.active - before + after;
            if let Some(supply) = &self.supply {
                (self.clock.time_speed, self.clock.speed) = supply.rates(self.active);
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use virtlab_load::random::Stream;

    const MS: u64 = 1_000_000;

    fn supply(processors: f64) -> Supply {
        Supply { processors, idle: 0.0, contention: 0.0 }
    }

    /// Plays demands (when, of which guest, how much) in the order of their instants; when each is done.
    fn played(pool: &mut Pool, demands: &[(u64, usize, u64)]) -> Vec<u64> {
        let mut done = vec![0; demands.len()];
        let mut coming = demands.iter().enumerate().peekable();
        loop {
            let arrival_ns = coming.peek().map(|(_, (at_ns, ..))| *at_ns);
            let Some(now_ns) = arrival_ns.into_iter().chain(pool.next_ns()).min() else { return done };
            while let Some((_, number)) = pool.done(now_ns) {
                done[number as usize] = now_ns;
            }
            if let Some((number, (at_ns, guest, demand_ns))) = coming.next_if(|(_, each)| each.0 == now_ns) {
                pool.ask(*at_ns, *guest, Rest::of(*demand_ns), (0, number as u64));
            }
        }
    }

    /// Poisson arrivals per second in each guest, exponential demands with this mean.
    fn poisson(guests: usize, rate_per_s: f64, demand_ns: f64, count: usize) -> Vec<(u64, usize, u64)> {
        let mut gaps = Stream::new(3, "arrivals");
        let mut sizes = Stream::new(4, "demands");
        let mut choice = Stream::new(5, "guests");
        let mut now = 0.0;
        let all = rate_per_s * guests as f64;
        (0..count)
            .map(|_| {
                now += gaps.exponential(1e9 / all);
                let guest = (choice.uniform() * guests as f64) as usize;
                (now as u64, guest, sizes.exponential(demand_ns).max(1.0) as u64)
            })
            .collect()
    }

    #[test]
    fn vcpus_of_two_guests_share_the_processors_of_their_pool() {
        // Two demands of 10 ms on one vCPU each and one processor.
        let mut pool = Pool::shared(supply(1.0), &[1.0, 1.0]);
        assert_eq!(played(&mut pool, &[(0, 0, 10 * MS), (0, 1, 10 * MS)]), [20 * MS; 2]);
        // Two of one guest on its one vCPU leave one of two processors idle.
        let mut pool = Pool::shared(supply(2.0), &[1.0, 1.0]);
        assert_eq!(played(&mut pool, &[(0, 0, 10 * MS), (0, 0, 10 * MS)]), [20 * MS; 2]);
        // A guest with three active vCPUs and one with one: each vCPU has half of a processor, whosever it is.
        let mut pool = Pool::shared(supply(2.0), &[3.0, 1.0]);
        let all = [(0, 0, 10 * MS), (0, 0, 10 * MS), (0, 0, 10 * MS), (0, 1, 10 * MS)];
        assert_eq!(played(&mut pool, &all), [20 * MS; 4]);
        assert!((pool.used_ns(20 * MS, 0) / 30e6 - 1.0).abs() < 1e-6);
        assert!((pool.used_ns(40 * MS, 1) / 10e6 - 1.0).abs() < 1e-6);
    }

    #[test]
    fn a_vcpu_goes_on_at_once_when_another_has_nothing_to_do() {
        let mut pool = Pool::shared(supply(1.0), &[1.0, 1.0]);
        // Half speed for 10 ms, in which the second is done; then all of the processor for the rest of 15 ms.
        assert_eq!(played(&mut pool, &[(0, 0, 20 * MS), (0, 1, 5 * MS)]), [25 * MS, 10 * MS]);
    }

    #[test]
    fn idle_vcpus_and_contention_cost_what_the_formula_says() {
        // P0 = 20 - 100 * 0.02 = 18, A = 100: on a processor for 0.18 of the time, there by 1 - 0.5 * 0.82 = 0.59.
        let given = Supply { processors: 20.0, idle: 2.0, contention: 0.5 };
        let mut pool = Pool::shared(given, &[20.0; 5]);
        let all: Vec<_> = (0..100).map(|task| (0, task % 5, 10 * MS)).collect();
        let done = played(&mut pool, &all);
        let expected = 10e6 / (0.18 * 0.59);
        assert!(done.iter().all(|at_ns| (*at_ns as f64 / expected - 1.0).abs() < 1e-6), "{done:?}");
        let used: f64 = (0..5).map(|guest| pool.used_ns(done[0], guest)).sum();
        assert!((used / (18.0 * expected) - 1.0).abs() < 1e-6, "what is lost is used all the same");
        // Within P0 there is no loss.
        let mut pool = Pool::shared(given, &[20.0; 5]);
        assert_eq!(played(&mut pool, &all[..18]), [10 * MS; 18]);
    }

    #[test]
    fn a_pool_of_as_many_processors_as_vcpus_is_one_guest_alone() {
        for vcpus in [1.0, 2.5, 4.0] {
            let demands = poisson(1, 900.0 * vcpus, 1e6, 20_000);
            let alone = played(&mut Pool::alone(vcpus), &demands);
            assert_eq!(played(&mut Pool::shared(supply(vcpus), &[vcpus]), &demands), alone);
        }
    }

    /// Guests of one vCPU per task on P processors are M/M/P-PS, whose mean is that of M/M/P: with a = 8 and P = 10 the
    /// probability of waiting is 0.40918 (Erlang C), the mean response 1 / mu + C / (P mu - lambda).
    #[test]
    fn guests_with_vcpus_enough_answer_as_one_queue_of_the_pools_processors() {
        let demands = poisson(5, 16.0, 1e8, 400_000);
        let done = played(&mut Pool::shared(supply(10.0), &[1000.0; 5]), &demands);
        let times: Vec<f64> =
            demands.iter().zip(&done).map(|((at_ns, ..), done)| (done - at_ns) as f64).collect();
        let steady = &times[times.len() / 10..];
        let mean_ms = steady.iter().sum::<f64>() / steady.len() as f64 / 1e6;
        assert!((mean_ms / 120.459 - 1.0).abs() < 0.02, "{mean_ms}");
        // Little's law: as many are under way as come in the time that one takes.
        let span_ns = *done.iter().max().unwrap() as f64;
        let under_way = times.iter().sum::<f64>() / span_ns;
        let rate_per_ns = demands.len() as f64 / span_ns;
        let all_ns = times.iter().sum::<f64>() / times.len() as f64;
        assert!((under_way / (rate_per_ns * all_ns) - 1.0).abs() < 1e-9);
    }

    proptest! {
        /// What is used of processors is the work that was done: none is idle while a vCPU waits, and none works twice.
        #[test]
        fn no_processor_is_idle_while_a_vcpu_waits(
            processors in 1_u32..5,
            vcpus in prop::collection::vec(1_u32..6, 1..5),
            steps in prop::collection::vec((0_u64..3000, 0_usize..5, 1_u64..10_000), 1..80),
        ) {
            let each: Vec<f64> = vcpus.iter().map(|count| f64::from(*count)).collect();
            let mut pool = Pool::shared(supply(f64::from(processors)), &each);
            let mut at_ns = 0;
            let demands: Vec<_> = steps
                .iter()
                .map(|(gap, guest, demand)| { at_ns += gap; (at_ns, guest % each.len(), *demand) })
                .collect();
            let done = played(&mut pool, &demands);
            let last = *done.iter().max().unwrap();
            let work: u64 = demands.iter().map(|(.., demand)| demand).sum();
            let used: f64 = (0..each.len()).map(|guest| pool.used_ns(last, guest)).sum();
            prop_assert!((used - work as f64).abs() < 1e-3 * work as f64 + 200.0, "{used} of {work}");
            // In every interval between two changes as many processors work as there are active vCPUs, at most P.
            let mut instants: Vec<u64> = demands.iter().map(|each| each.0).chain(done.iter().copied()).collect();
            instants.sort_unstable();
            let mut expected = 0.0;
            for pair in instants.windows(2) {
                let busy: u32 = vcpus
                    .iter()
                    .enumerate()
                    .map(|(guest, count)| {
                        let under_way = demands
                            .iter()
                            .zip(&done)
                            .filter(|((at_ns, own, _), done)| {
                                *own == guest && *at_ns <= pair[0] && **done > pair[0]
                            })
                            .count();
                        (under_way as u32).min(*count)
                    })
                    .sum();
                expected += f64::from(busy.min(processors)) * (pair[1] - pair[0]) as f64;
            }
            prop_assert!((used - expected).abs() < 1e-3 * expected + 400.0, "{used} of {expected}");
        }
    }
}
