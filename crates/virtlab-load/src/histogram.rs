//! Quantiles of durations in constant memory: a log-linear histogram.
//!
//! Values below 64 ns have a bucket each; above, every power of two is cut in 64 equal buckets, so a quantile is at
//! most 1/64 above the true value. Used for a probe's own pacing errors and stalls, never for measured delays: those
//! are all kept.

use virtlab_wire::Nanos;

const SUB_BUCKET_BITS: u32 = 6;
const SUB_BUCKETS: usize = 1 << SUB_BUCKET_BITS;

/// Counts of durations.
#[derive(Clone, Debug)]
pub struct Histogram {
    counts: Vec<u64>,
    n: u64,
    largest: Nanos,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { counts: vec![0; SUB_BUCKETS * (65 - SUB_BUCKET_BITS as usize)], n: 0, largest: Nanos::ZERO }
    }
}

impl Histogram {
    /// Counts one duration.
    pub fn record(&mut self, duration: Nanos) {
        self.counts[bucket(duration.0)] += 1;
        self.n += 1;
        self.largest = self.largest.max(duration);
    }

    /// Adds all counts of another.
    pub fn merge(&mut self, other: &Self) {
        self.counts.iter_mut().zip(&other.counts).for_each(|(here, there)| *here += there);
        self.n += other.n;
        self.largest = self.largest.max(other.largest);
    }

    /// Durations counted.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.n
    }

    /// Whether nothing was counted.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.n == 0
    }

    /// The largest, exactly.
    #[must_use]
    pub fn largest(&self) -> Nanos {
        self.largest
    }

    /// The smallest bucket edge that at least `ratio` of the durations do not exceed; `None` without durations.
    #[must_use]
    pub fn quantile(&self, ratio: f64) -> Option<Nanos> {
        let rank = ((self.n as f64 * ratio).ceil() as u64).clamp(1, self.n.max(1));
        let mut seen = 0;
        self.counts
            .iter()
            .position(|count| {
                seen += count;
                seen >= rank && self.n > 0
            })
            .map(|index| Nanos(upper_edge(index)).min(self.largest))
    }

    /// How many exceed `limit`, to the resolution of a bucket: those in buckets wholly above it.
    #[must_use]
    pub fn above(&self, limit: Nanos) -> u64 {
        self.counts[bucket(limit.0) + 1..].iter().sum()
    }
}

fn bucket(value: u64) -> usize {
    if value < SUB_BUCKETS as u64 {
        return value as usize;
    }
    let shift = 63 - value.leading_zeros() - SUB_BUCKET_BITS;
    SUB_BUCKETS * (shift as usize + 1) + ((value >> shift) as usize - SUB_BUCKETS)
}

fn upper_edge(index: usize) -> u64 {
    if index < SUB_BUCKETS {
        return index as u64;
    }
    let shift = (index / SUB_BUCKETS - 1) as u32;
    let low = ((index % SUB_BUCKETS + SUB_BUCKETS) as u64) << shift;
    low + ((1u64 << shift) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn without_durations_there_is_no_quantile() {
        assert_eq!(Histogram::default().quantile(0.5), None);
    }

    #[test]
    fn the_largest_duration_has_a_bucket() {
        let mut histogram = Histogram::default();
        histogram.record(Nanos(u64::MAX));
        assert_eq!(histogram.quantile(0.5), Some(Nanos(u64::MAX)));
    }

    proptest! {
        #[test]
        fn a_quantile_is_within_a_64th_of_the_true_one(mut values in prop::collection::vec(any::<u64>(), 1..200), ratio in 0.0f64..=1.0) {
            let mut histogram = Histogram::default();
            values.iter().for_each(|&value| histogram.record(Nanos(value)));
            values.sort_unstable();
            let rank = ((values.len() as f64 * ratio).ceil() as usize).clamp(1, values.len());
            let (truth, found) = (values[rank - 1], histogram.quantile(ratio).unwrap().0);
            prop_assert!(found >= truth && found - truth <= truth / 64 + 1, "{found} for {truth}");
        }
    }
}
