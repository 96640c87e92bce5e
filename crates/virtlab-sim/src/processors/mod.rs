//! All that has processors and shares them out, by classes.
//!
//! ```text
//! sharing       work of servers and programs, in a guest (here), in a pool at once (`pool`) or in turns (`slices`), behind one
//!               face (`Shared`)
//! in order      what processes do to send and to receive (`in_order`)
//! turns         frames that guests forward (`turns`)
//! reservations  budgets of guests with hard deadlines (`reservations`)
//! quotas        hold back guests of the first three (`bandwidth`)
//! ```
//! # Sharing in a guest
//! The processors of a guest, shared by whatever works in it: who asks for a demand is told when it is done. Guests may
//! share processors in turn ([`Pool`]).
//!
//! With n demands under way on c processors each is served at the rate min(1, c / n): egalitarian processor sharing, at
//! which a kernel's fair scheduler arrives over many of its slices. All demands are served at one rate, so one number,
//! the work that each has received since the beginning, says who is next: a demand that comes when it is V and takes d
//! is done when it is V + d. A change of n bends V and moves no one in the heap, so every event costs O(log n).
//!
//! V is kept in 2^-32 ns and rounded down, instants up, so nothing is done before its time; and where there are no more
//! demands than processors it is exact.
//!
//! Sources: L. Kleinrock, 'Time-shared Systems: A theoretical treatment', JACM 14 (1967); S. F. Yashkov,
//! 'Processor-sharing queues', Queueing Systems 2 (1987).

mod bandwidth;
mod in_order;
mod pool;
mod reservations;
mod shared;
mod slices;
mod turns;
mod usage;

pub use bandwidth::{Bandwidth, Quota};
pub use in_order::InOrder;
pub use pool::{Pool, Supply};
pub use reservations::{Reservation, Reservations};
pub use shared::Shared;
pub use slices::{Rules, Share, Slices};
pub use turns::Turns;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

const FRACTION_BITS: u32 = 32;
const PER_PROCESSOR: u64 = 1000;

/// Who asked: a server, and which of its demands.
pub type Asker = (usize, u64);

/// Work, in 2^-32 ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rest(u128);

impl Rest {
    /// All of a demand.
    #[must_use]
    pub fn of(demand_ns: u64) -> Self {
        Self(u128::from(demand_ns) << FRACTION_BITS)
    }
}

/// For when the next look is planned.
#[derive(Debug, Default)]
struct Planned(Option<u64>);

impl Planned {
    /// An instant to look again, if it is not planned yet; it is from now on. A look that comes too early plans
    /// another.
    fn plan(&mut self, next_ns: u64) -> Option<u64> {
        if self.0.is_some_and(|planned_ns| planned_ns <= next_ns) {
            return None;
        }
        self.0 = Some(next_ns);
        self.0
    }

    /// A planned instant has come.
    fn looked(&mut self, now_ns: u64) {
        self.0 = self.0.filter(|planned_ns| *planned_ns > now_ns);
    }
}

/// What works in one guest, on its processors or vCPUs. Its clock shows how much work one of them would have done that
/// always had some; alone on processors it is virtual time.
#[derive(Debug)]
struct Tasks {
    /// Thousandths of a processor.
    thousandths: u64,
    /// What each demand under way has received since the beginning, in 2^-32 ns.
    received: u128,
    /// By the clock, in 2^-32 ns.
    since: u128,
    /// At which of `received` a demand is done; in the order in which they came.
    under_way: BinaryHeap<Reverse<(u128, u64, Asker)>>,
    demands: u64,
    /// When the first of them is done if no one asks meanwhile, by the clock.
    next: Option<u128>,
    /// Time that was used of processors, in thousandths of 2^-32 ns, until an instant in 2^-32 ns.
    used: u128,
    used_until: u128,
}

impl Tasks {
    /// On so many processors, a part of one too.
    ///
    /// # Panics
    /// If there is not a thousandth of one.
    fn new(processors: f64) -> Self {
        let thousandths = (processors * PER_PROCESSOR as f64).round() as u64;
        assert!(thousandths > 0, "a guest has a thousandth of a processor at least");
        Self {
            thousandths,
            received: 0,
            since: 0,
            under_way: BinaryHeap::new(),
            demands: 0,
            next: None,
            used: 0,
            used_until: 0,
        }
    }

    fn ask(&mut self, clock: u128, demand: Rest, asker: Asker) {
        self.go_on(clock);
        self.demands += 1;
        self.under_way.push(Reverse((self.received + demand.0, self.demands, asker)));
        self.look();
    }

    fn done(&mut self, clock: u128) -> Option<Asker> {
        self.go_on(clock);
        let over = self.under_way.peek().is_some_and(|Reverse((done, ..))| *done <= self.received);
        let asker = if over { self.under_way.pop().map(|Reverse((_, _, asker))| asker) } else { None };
        self.look();
        asker
    }

    /// How many are under way.
    fn count(&self) -> usize {
        self.under_way.len()
    }

    /// The one that is done last, for others to do; what is left of it.
    fn give_away(&mut self, clock: u128) -> Option<(Rest, Asker)> {
        self.go_on(clock);
        let mut all = std::mem::take(&mut self.under_way).into_sorted_vec();
        let last = if all.is_empty() { None } else { Some(all.remove(0)) };
        self.under_way = all.into();
        self.look();
        last.map(|Reverse((done, _, asker))| (Rest(done.saturating_sub(self.received)), asker))
    }

    /// What one of them asked becomes another demand, which somebody else asks, on the spot; false: it is not under
    /// way.
    fn become_other(&mut self, clock: u128, asker: Asker, demand: Rest, other: Asker) -> bool {
        self.go_on(clock);
        let before = self.under_way.len();
        self.under_way.retain(|Reverse((_, _, own))| *own != asker);
        let found = self.under_way.len() < before;
        if found {
            self.demands += 1;
            self.under_way.push(Reverse((self.received + demand.0, self.demands, other)));
        }
        self.look();
        found
    }

    const fn next(&self) -> Option<u128> {
        self.next
    }

    fn take_back(&mut self, clock: u128, server: usize) -> Vec<(u64, Rest)> {
        self.go_on(clock);
        let (back, stay): (Vec<_>, Vec<_>) = std::mem::take(&mut self.under_way)
            .into_sorted_vec()
            .into_iter()
            .rev()
            .partition(|Reverse((_, _, asker))| asker.0 == server);
        self.under_way = stay.into();
        self.look();
        let rest = |done: u128| Rest(done.saturating_sub(self.received));
        back.into_iter().map(|Reverse((done, _, asker))| (asker.1, rest(done))).collect()
    }

    fn go_on(&mut self, clock: u128) {
        let passed = clock - self.since;
        let (load, active) = (self.load(), self.active());
        if active == load {
            self.received += if load == 0 { 0 } else { passed };
        } else {
            self.received += passed * u128::from(active) / u128::from(load);
        }
        self.since = clock;
    }

    fn look(&mut self) {
        let (load, active) = (self.load(), self.active());
        self.next = self.under_way.peek().map(|Reverse((done, ..))| {
            let left = done.saturating_sub(self.received);
            let wait =
                if active == load { left } else { (left * u128::from(load)).div_ceil(u128::from(active)) };
            self.since + wait
        });
    }

    /// Thousandths of a processor that work.
    fn active(&self) -> u64 {
        self.load().min(self.thousandths)
    }

    /// Thousandths of a processor that would be wanted.
    fn load(&self) -> u64 {
        self.under_way.len() as u64 * PER_PROCESSOR
    }

    /// Until that time so many thousandths of processors were wanted.
    fn settle(&mut self, time: u128, active: u64) {
        self.used += (time - self.used_until) * u128::from(active);
        self.used_until = time;
    }

    fn used_ns(&mut self, time: u128) -> f64 {
        self.settle(time, self.active());
        (self.used >> FRACTION_BITS) as f64 / PER_PROCESSOR as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use virtlab_load::random::Stream;

    /// Of each demand: when it came, how much it was, when it was done.
    type Course = Vec<(u64, u64, u64)>;

    /// Plays demands (when, how much) in the order of their instants.
    fn played(processors: f64, demands: &[(u64, u64)]) -> Course {
        let mut shared = Pool::alone(processors);
        let mut course: Course = demands.iter().map(|(at_ns, demand_ns)| (*at_ns, *demand_ns, 0)).collect();
        let mut coming = demands.iter().enumerate().peekable();
        loop {
            let arrival_ns = coming.peek().map(|(_, (at_ns, _))| *at_ns);
            let Some(now_ns) = arrival_ns.into_iter().chain(shared.next_ns()).min() else { return course };
            while let Some((_, number)) = shared.done(now_ns) {
                course[number as usize].2 = now_ns;
            }
            if let Some((number, (at_ns, demand_ns))) = coming.next_if(|(_, (at_ns, _))| *at_ns == now_ns) {
                shared.ask(*at_ns, 0, Rest::of(*demand_ns), (0, number as u64));
            }
        }
    }

    /// Mean response time over mean demand, after a tenth of the run, of Poisson arrivals at this utilisation of one
    /// processor; and the course.
    fn of_poisson(rho: f64, count: usize, mut demand: impl FnMut(&mut Stream) -> f64) -> (f64, Course) {
        let mut arrivals = Stream::new(11, "arrivals");
        let mut sizes = Stream::new(12, "demands");
        let mut now = 0.0;
        let demands: Vec<(u64, u64)> = (0..count)
            .map(|_| {
                now += arrivals.exponential(1e6 / rho);
                (now as u64, demand(&mut sizes) as u64)
            })
            .collect();
        let course = played(1.0, &demands);
        let steady = &course[count / 10..];
        let mean = |each: fn(&(u64, u64, u64)) -> u64| {
            steady.iter().map(|one| each(one) as f64).sum::<f64>() / steady.len() as f64
        };
        (mean(|one| one.2 - one.0) / mean(|one| one.1), course)
    }

    #[test]
    fn demands_take_their_time_while_there_are_processors_and_share_them_beyond() {
        assert_eq!(played(2.0, &[(0, 10), (5, 10)]), [(0, 10, 10), (5, 10, 15)]);
        assert_eq!(played(1.0, &[(0, 10), (5, 10)]), [(0, 10, 15), (5, 10, 20)]);
        assert_eq!(played(0.5, &[(0, 10)]), [(0, 10, 20)]);
        assert_eq!(played(1.0, &[(0, 0), (0, 7)]), [(0, 0, 0), (0, 7, 7)]);
        assert_eq!(played(1.5, &[(0, 30), (0, 30), (0, 30)]), [(0, 30, 60); 3]);
    }

    #[test]
    fn a_look_is_planned_once_and_again_when_someone_is_done_earlier() {
        let mut shared = Pool::alone(1.0);
        assert_eq!(shared.plan(), None);
        shared.ask(0, 0, Rest::of(100), (0, 0));
        assert_eq!((shared.plan(), shared.plan()), (Some(100), None));
        shared.ask(0, 0, Rest::of(10), (0, 1));
        assert_eq!(shared.plan(), Some(20));
        shared.looked(20);
        assert_eq!((shared.done(20), shared.done(20)), (Some((0, 1)), None));
        assert_eq!(shared.plan(), Some(110));
    }

    #[test]
    fn what_is_taken_back_keeps_what_it_received_and_others_go_faster() {
        let mut shared = Pool::alone(1.0);
        shared.ask(0, 0, Rest::of(100), (0, 7));
        shared.ask(0, 0, Rest::of(100), (1, 8));
        let back = shared.take_back(100, 0, 0);
        assert_eq!(back, [(7, Rest::of(50))]);
        assert_eq!(shared.next_ns(), Some(150));
        assert_eq!(shared.done(150), Some((1, 8)));
        shared.ask(200, 0, back[0].1, (0, 7));
        assert_eq!(shared.next_ns(), Some(250));
    }

    /// M/M/1-PS: the mean is that of M/M/1, E[S] / (1 - rho); and by Little's law rho / (1 - rho) are under way.
    #[test]
    fn exponential_demands_take_as_long_in_the_mean_as_in_a_queue() {
        for rho in [0.3, 0.5, 0.7] {
            let (stretch, course) = of_poisson(rho, 400_000, |sizes| sizes.exponential(1e6));
            assert!((stretch * (1.0 - rho) - 1.0).abs() < 0.03, "{rho}: {stretch}");
            let span = course.iter().map(|one| one.2).max().unwrap() as f64;
            let under_way = course.iter().map(|one| (one.2 - one.0) as f64).sum::<f64>() / span;
            assert!((under_way * (1.0 - rho) / rho - 1.0).abs() < 0.04, "{rho}: {under_way}");
        }
    }

    /// The response of a demand x is x / (1 - rho) in the mean (Kleinrock 1967), for small and large ones.
    #[test]
    fn a_demand_is_stretched_by_the_same_factor_whatever_its_size() {
        let (_, course) = of_poisson(0.5, 400_000, |sizes| sizes.exponential(1e6));
        for (low, high) in [(100_000, 300_000), (900_000, 1_100_000), (3_000_000, 5_000_000)] {
            let of_size: Vec<_> = course.iter().filter(|one| (low..high).contains(&one.1)).collect();
            let response: f64 = of_size.iter().map(|one| (one.2 - one.0) as f64).sum();
            let demand: f64 = of_size.iter().map(|one| one.1 as f64).sum();
            assert!((response / demand / 2.0 - 1.0).abs() < 0.06, "{low}: {}", response / demand);
        }
    }

    /// M/G/1-PS depends on the mean demand alone, where FIFO with the same lognormal demands is several times worse.
    #[test]
    fn the_mean_does_not_depend_on_how_demands_are_distributed() {
        let constant = of_poisson(0.6, 400_000, |_| 1e6).0;
        let wide = of_poisson(0.6, 800_000, |sizes| sizes.lognormal(1e6, 2.0)).0;
        for stretch in [constant, wide] {
            assert!((stretch * 0.4 - 1.0).abs() < 0.05, "{stretch}");
        }
    }

    proptest! {
        #[test]
        fn work_is_neither_lost_nor_gained(
            thousandths in 1_u32..5000,
            gaps in prop::collection::vec((0_u64..1000, 0_u64..100_000), 1..60),
        ) {
            let processors = f64::from(thousandths) / 1000.0;
            let mut at_ns = 0;
            let demands: Vec<_> = gaps.iter().map(|(gap, demand)| { at_ns += gap; (at_ns, *demand) }).collect();
            let course = played(processors, &demands);
            let total: u64 = demands.iter().map(|(_, demand)| demand).sum();
            let last = course.iter().map(|one| one.2).max().unwrap();
            // All processors at most from the first arrival on; and no demand faster than one processor.
            prop_assert!((last - demands[0].0) as f64 * processors + 1.0 >= total as f64 * 0.999_999);
            prop_assert!(course.iter().all(|one| one.2 >= one.0 + one.1));
        }
    }
}
