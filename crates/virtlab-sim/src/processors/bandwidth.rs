//! A guest's share of the processors, as Linux's CFS bandwidth control gives it: a quota of running time each period.
//!
//! What a guest runs is taken off its quota. One that has none left is throttled until the next period begins; what
//! it ran beyond is taken off that period's quota, what it did not use is lost (`cpu.cfs_burst_us` is 0). Periods
//! follow each other whatever the guest does; when the first begins is drawn, as no experiment begins with a period
//! of the kernel's. Source: `Documentation/scheduler/sched-bwc.rst` and Turner, Rao, Rao: CPU bandwidth control for
//! CFS, Linux Symposium 2010. Deviation: time is taken off as work begins, not in slices of 5 ms per processor, so
//! no processor hoards any.

use serde::Deserialize;

/// What a guest is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Quota {
    /// Running time of each period.
    pub quota_ns: u64,
    /// Its length.
    pub period_ns: u64,
}

/// How much of it is left.
#[derive(Clone, Copy, Debug)]
pub struct Bandwidth {
    given: Quota,
    /// How far into a period the beginning of time lies.
    phase_ns: u64,
    /// The period that `left_ns` is of.
    period: u64,
    left_ns: i64,
}

impl Bandwidth {
    /// With a whole quota; `phase` in [0, 1) of a period has passed at the beginning.
    #[must_use]
    pub fn new(given: Quota, phase: f64) -> Self {
        let given = Quota { quota_ns: given.quota_ns.max(1), period_ns: given.period_ns.max(1) };
        let phase_ns = (phase * given.period_ns as f64) as u64;
        Self { given, phase_ns, period: 0, left_ns: given.quota_ns as i64 }
    }

    /// The first instant from `at_ns` on at which the guest may run. Requested instants may go back within a period.
    pub fn runnable_ns(&mut self, at_ns: u64) -> u64 {
        let period = (at_ns + self.phase_ns) / self.given.period_ns;
        let quota_ns = self.given.quota_ns as i64;
        if period > self.period {
            let passed = i64::try_from(period - self.period).unwrap_or(i64::MAX);
            self.left_ns = self.left_ns.saturating_add(quota_ns.saturating_mul(passed)).min(quota_ns);
            self.period = period;
        }
        if self.left_ns <= 0 {
            let missing_ns = self.left_ns.unsigned_abs();
            self.left_ns = quota_ns - (missing_ns % self.given.quota_ns) as i64;
            self.period = self.period.saturating_add(missing_ns / self.given.quota_ns + 1);
        }
        at_ns.max(self.period.saturating_mul(self.given.period_ns).saturating_sub(self.phase_ns))
    }

    /// How long it may run yet in the period of the instant that was last asked about; 0 or less: not at all.
    #[must_use]
    pub const fn left_ns(&self) -> i64 {
        self.left_ns
    }

    /// When the period ends that an instant is in.
    #[must_use]
    pub const fn ends_ns(&self, at_ns: u64) -> u64 {
        let period_ns = self.given.period_ns;
        ((at_ns + self.phase_ns) / period_ns + 1) * period_ns - self.phase_ns
    }

    /// It runs so long.
    pub fn charge(&mut self, work_ns: u64) {
        self.left_ns = self.left_ns.saturating_sub_unsigned(work_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn half() -> Bandwidth {
        Bandwidth::new(Quota { quota_ns: 50, period_ns: 100 }, 0.0)
    }

    /// Pieces of work one after the other, each as soon as it may: when each ends.
    fn ends(own: &mut Bandwidth, pieces: &[u64]) -> Vec<u64> {
        let mut now = 0;
        pieces
            .iter()
            .map(|work| {
                now = own.runnable_ns(now);
                own.charge(*work);
                now += work;
                now
            })
            .collect()
    }

    #[test]
    fn a_guest_runs_for_its_quota_and_waits_for_the_next_period() {
        assert_eq!(ends(&mut half(), &[20, 20, 10, 5, 45, 1]), [20, 40, 50, 105, 150, 201]);
    }

    #[test]
    fn what_it_ran_beyond_its_quota_is_taken_off_the_next() {
        assert_eq!(ends(&mut half(), &[40, 30, 30, 10]), [40, 70, 130, 210]);
        assert_eq!(
            ends(&mut half(), &[160, 10]),
            [160, 310],
            "three periods pay for it, and the fourth begins at 300"
        );
    }

    #[test]
    fn one_piece_of_many_quotas_is_paid_for_at_once() {
        let mut own = Bandwidth::new(Quota { quota_ns: 1, period_ns: 100 }, 0.0);
        own.charge(1_000_000_000_000);
        assert_eq!(own.runnable_ns(7), 100_000_000_000_000);
        let mut own = half();
        for (work, next) in [(100, 200), (50, 300), (49, 300), (1, 400)] {
            own.charge(work);
            assert_eq!(own.runnable_ns(0), next);
        }
    }

    #[test]
    fn what_it_did_not_use_is_lost() {
        let mut own = half();
        assert_eq!(own.runnable_ns(950), 950);
        own.charge(50);
        assert_eq!(own.runnable_ns(1000), 1000, "a new period");
        own.charge(50);
        assert_eq!(own.runnable_ns(1001), 1100);
    }

    #[test]
    fn the_first_period_ends_by_its_phase() {
        let mut own = Bandwidth::new(Quota { quota_ns: 50, period_ns: 100 }, 0.7);
        own.charge(50);
        assert_eq!(own.runnable_ns(0), 30);
    }

    proptest! {
        /// A window of n whole periods holds n + 1 quotas at most, and one piece that began in time.
        #[test]
        fn no_window_holds_more_than_its_quotas(
            pieces in proptest::collection::vec(1u64..30, 1..300),
            quota_ns in 1u64..100,
            phase in 0.0f64..1.0,
        ) {
            let mut own = Bandwidth::new(Quota { quota_ns, period_ns: 100 }, phase);
            let (mut now, mut done) = (0, 0);
            for work in pieces {
                now = own.runnable_ns(now);
                own.charge(work);
                now += work;
                done += work;
                let periods = now / 100 + 2;
                prop_assert!(done <= periods * quota_ns + 30, "{done} ns of work within {now} ns");
            }
        }
    }
}
