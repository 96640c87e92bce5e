//! How long before a departure the switch must be awake: the overshoot that its own sleeps exceed once in a hundred.
//!
//! What a sleep overshoots by is no constant: a machine that becomes quiet falls into deeper idle states, one that
//! becomes busy shares the core. So every sleep that ended by its timer moves the budget, by stochastic approximation
//! of a quantile (Robbins and Monro 1951): up by 0.99 of a step when the sleep overshot by more, down by 0.01 of a step
//! when not. It rests where 1 % are longer. A step is a sixteenth of the budget, whatever the sleep overshot by, so one
//! stall of 10 ms moves it as little as one of 100 us; ten late sleeps nearly double it, and it halves in about a
//! thousand that are in time. Constant time and memory, and nothing in the loop that forwards. Pure: overshoots come
//! in.

use virtlab_wire::Nanos;

/// Longest budget: where sleeps overshoot by more, spinning for all of it would take the whole core for ever.
pub const BUDGET_MAXIMUM: Nanos = Nanos(250_000);
/// Shortest: a wake-up through epoll takes about as long even where nothing sleeps.
pub const BUDGET_MINIMUM: Nanos = Nanos(5_000);
/// A step, as a share of the budget.
const STEP: f64 = 1.0 / 16.0;
const QUANTILE: f64 = 0.99;

/// The spin budget of a switch.
#[derive(Clone, Debug, PartialEq)]
pub struct Budget {
    estimate_ns: f64,
    adapts: bool,
    least_ns: u64,
    most_ns: u64,
}

impl Budget {
    /// Begins at the overshoot measured before any frame flows.
    #[must_use]
    pub fn new(measured: Nanos) -> Self {
        let start = measured.0.clamp(BUDGET_MINIMUM.0, BUDGET_MAXIMUM.0);
        Self { estimate_ns: start as f64, adapts: true, least_ns: start, most_ns: start }
    }

    /// Never spins.
    #[must_use]
    pub fn none() -> Self {
        Self { estimate_ns: 0.0, adapts: false, least_ns: 0, most_ns: 0 }
    }

    /// A sleep ended by its timer, so much too late.
    pub fn note(&mut self, overshoot: Nanos) {
        if !self.adapts {
            return;
        }
        let weight = if overshoot.0 as f64 > self.estimate_ns { QUANTILE } else { QUANTILE - 1.0 };
        let moved = self.estimate_ns * (1.0 + STEP * weight);
        self.estimate_ns = moved.clamp(BUDGET_MINIMUM.0 as f64, BUDGET_MAXIMUM.0 as f64);
        self.least_ns = self.least_ns.min(self.estimate_ns as u64);
        self.most_ns = self.most_ns.max(self.estimate_ns as u64);
    }

    /// Now.
    #[must_use]
    #[inline]
    pub fn value(&self) -> Nanos {
        Nanos(self.estimate_ns as u64)
    }

    /// Shortest and longest since the last [`Self::forget`].
    #[must_use]
    pub fn range(&self) -> (Nanos, Nanos) {
        (Nanos(self.least_ns), Nanos(self.most_ns))
    }

    /// The range begins again at what holds now.
    pub fn forget(&mut self) {
        (self.least_ns, self.most_ns) = (self.value().0, self.value().0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use virtlab_load::random::Stream;

    fn after(budget: &mut Budget, sleeps: usize, mut overshoot: impl FnMut() -> u64) -> u64 {
        (0..sleeps).for_each(|_| budget.note(Nanos(overshoot())));
        budget.value().0
    }

    #[test]
    fn it_rests_near_the_overshoot_that_one_sleep_in_a_hundred_exceeds() {
        let mut draws = Stream::new(1, "overshoot");
        let mut budget = Budget::new(Nanos(20_000));
        after(&mut budget, 5_000, || 40_000 + draws.below(10_000));
        let values: Vec<u64> =
            (0..20_000).map(|_| after(&mut budget, 1, || 40_000 + draws.below(10_000))).collect();
        let mean = values.iter().sum::<u64>() as f64 / values.len() as f64;
        assert!((47_000.0..53_000.0).contains(&mean), "mean budget {mean} ns, quantile 49900 ns");
        assert!(values.iter().all(|&value| value < 60_000));
    }

    #[test]
    fn a_machine_that_falls_into_deeper_idle_is_followed_within_some_tens_of_sleeps() {
        let mut budget = Budget::new(Nanos(60_000));
        assert!(after(&mut budget, 20, || 130_000) >= 130_000);
    }

    #[test]
    fn a_quick_machine_gets_its_core_back_slowly() {
        let mut budget = Budget::new(Nanos(200_000));
        let value = after(&mut budget, 1_200, || 10_000);
        assert!((60_000..110_000).contains(&value), "{value} ns after 1200 sleeps");
        after(&mut budget, 10_000, || 0);
        assert_eq!(budget.value(), BUDGET_MINIMUM);
    }

    #[test]
    fn a_stall_is_no_overshoot_to_spin_for() {
        let mut budget = Budget::new(Nanos(50_000));
        after(&mut budget, 1, || 10_000_000_000);
        assert!(budget.value() < Nanos(53_200));
        after(&mut budget, 1_000, || 10_000_000_000);
        assert_eq!(budget.value(), BUDGET_MAXIMUM);
        assert_eq!(budget.range(), (Nanos(50_000), BUDGET_MAXIMUM));
        budget.forget();
        assert_eq!(budget.range(), (BUDGET_MAXIMUM, BUDGET_MAXIMUM));
    }

    #[test]
    fn who_never_spins_never_learns_to() {
        let mut budget = Budget::none();
        assert_eq!(after(&mut budget, 100, || 90_000), 0);
    }
}
