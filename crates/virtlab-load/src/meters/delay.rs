//! Delays of many packets: what ping prints, and delay variation.

use virtlab_wire::Nanos;

/// The last line of `ping`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RttSummary {
    n: u64,
    smallest: u64,
    largest: u64,
    sum: u128,
    sum_of_squares: u128,
}

impl RttSummary {
    /// Counts one round trip.
    pub fn record(&mut self, rtt: Nanos) {
        self.smallest = if self.n == 0 { rtt.0 } else { self.smallest.min(rtt.0) };
        self.largest = self.largest.max(rtt.0);
        self.n += 1;
        self.sum += u128::from(rtt.0);
        self.sum_of_squares = self.sum_of_squares.saturating_add(u128::from(rtt.0) * u128::from(rtt.0));
    }

    /// Round trips counted.
    #[must_use]
    pub const fn len(&self) -> u64 {
        self.n
    }

    /// Whether none was counted.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.n == 0
    }

    /// Smallest; `None` without samples, as the others.
    #[must_use]
    pub fn min(&self) -> Option<Nanos> {
        (self.n > 0).then_some(Nanos(self.smallest))
    }

    /// Largest.
    #[must_use]
    pub fn max(&self) -> Option<Nanos> {
        (self.n > 0).then_some(Nanos(self.largest))
    }

    /// Mean in ns.
    #[must_use]
    pub fn avg_ns(&self) -> Option<f64> {
        (self.n > 0).then(|| self.sum as f64 / self.n as f64)
    }

    /// Population standard deviation in ns: `sqrt(sum(x^2) / n - (sum(x) / n)^2)`, computed as
    /// `sqrt(n sum(x^2) - sum(x)^2) / n` in whole numbers, so that nothing cancels.
    #[must_use]
    pub fn mdev_ns(&self) -> Option<f64> {
        let n = u128::from(self.n);
        let spread = n.checked_mul(self.sum_of_squares)?.checked_sub(self.sum.checked_mul(self.sum)?)?;
        (self.n > 0).then(|| (spread as f64).sqrt() / self.n as f64)
    }
}

/// IPDV of consecutive sequence numbers (RFC 3393): `delay(seq) - delay(seq - 1)` where both packets arrived once.
/// `delays` pairs sequence number and delay in ns, in any order; the result is in order of sequence.
#[must_use]
pub fn ipdv_ns(delays: &[(u64, i64)]) -> Vec<i64> {
    let mut sorted = delays.to_vec();
    sorted.sort_unstable();
    sorted.dedup_by_key(|(seq, _)| *seq);
    sorted.windows(2).filter(|pair| pair[1].0 == pair[0].0 + 1).map(|pair| pair[1].1 - pair[0].1).collect()
}

/// PDV of each packet (RFC 5481): its delay minus the smallest delay of all. A constant clock offset cancels.
#[must_use]
pub fn pdv_ns(delays_ns: &[i64]) -> Vec<i64> {
    let smallest = delays_ns.iter().copied().min().unwrap_or_default();
    delays_ns.iter().map(|delay| delay - smallest).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn mdev_is_the_population_standard_deviation() {
        let mut summary = RttSummary::default();
        [2_000_000, 4_000_000, 4_000_000, 4_000_000, 5_000_000, 5_000_000, 7_000_000, 9_000_000]
            .iter()
            .for_each(|&ns| summary.record(Nanos(ns)));
        assert_eq!((summary.min(), summary.max()), (Some(Nanos(2_000_000)), Some(Nanos(9_000_000))));
        assert_eq!((summary.avg_ns(), summary.mdev_ns()), (Some(5e6), Some(2e6)));
    }

    #[test]
    fn without_round_trips_there_is_no_figure() {
        let summary = RttSummary::default();
        assert_eq!((summary.min(), summary.avg_ns(), summary.mdev_ns()), (None, None, None));
    }

    #[test]
    fn a_gap_in_the_sequence_has_no_ipdv() {
        assert_eq!(ipdv_ns(&[(0, 10), (1, 15), (3, 20), (4, 18)]), [5, -2]);
    }

    proptest! {
        #[test]
        fn mdev_lies_between_zero_and_half_the_range(values in prop::collection::vec(0u64..10_000_000_000, 1..100)) {
            let mut summary = RttSummary::default();
            values.iter().for_each(|&value| summary.record(Nanos(value)));
            let range = (summary.max().unwrap().0 - summary.min().unwrap().0) as f64;
            prop_assert!(summary.mdev_ns().unwrap() <= range / 2.0 + 1e-6 * range + 1e-3);
        }

        #[test]
        fn variation_does_not_see_a_clock_offset(
            delays in prop::collection::vec(-1_000_000_000i64..1_000_000_000, 1..100), offset in -1_000_000_000i64..1_000_000_000,
        ) {
            let shifted: Vec<i64> = delays.iter().map(|delay| delay + offset).collect();
            prop_assert_eq!(pdv_ns(&delays), pdv_ns(&shifted));
            prop_assert!(pdv_ns(&delays).iter().all(|&pdv| pdv >= 0));
            let by_seq = |values: &[i64]| values.iter().enumerate().map(|(seq, &delay)| (seq as u64, delay)).collect::<Vec<_>>();
            prop_assert_eq!(ipdv_ns(&by_seq(&delays)), ipdv_ns(&by_seq(&shifted)));
        }
    }
}
