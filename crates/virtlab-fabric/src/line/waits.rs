//! How long frames waited, as counts in buckets: little to note for each frame, quantiles within an eighth.

use virtlab_wire::Nanos;

/// Waits in buckets of a quarter of an octave: 1 ns to 4 s, and longer ones in the last.
#[derive(Clone, Debug)]
pub(crate) struct Waits([u32; Self::BUCKETS]);

impl Default for Waits {
    fn default() -> Self {
        Self([0; Self::BUCKETS])
    }
}

impl Waits {
    const BUCKETS: usize = 128;

    pub(crate) fn note(&mut self, wait: Nanos) {
        self.note_many(wait, 1);
    }

    /// As many equal waits.
    #[inline]
    pub(crate) fn note_many(&mut self, wait: Nanos, count: u32) {
        let octave = 63 - (wait.0 | 1).leading_zeros();
        let quarter = if octave < 2 { 0 } else { wait.0 >> (octave - 2) & 3 };
        let at = (4 * octave as usize + quarter as usize).min(Self::BUCKETS - 1);
        self.0[at] = self.0[at].saturating_add(count);
    }

    /// The middle of the bucket in which a share of `frames` is reached; 0 of none. Those not noted here did not wait.
    pub(crate) fn quantile(&self, share: f64, frames: u64) -> u64 {
        let noted: u64 = self.0.iter().map(|count| u64::from(*count)).sum();
        let wanted = (frames.max(noted) as f64 * share).ceil() as u64;
        let mut seen = frames.saturating_sub(noted);
        if seen >= wanted {
            return 0;
        }
        for (at, count) in self.0.iter().enumerate().filter(|(_, count)| **count > 0) {
            seen += u64::from(*count);
            if seen >= wanted {
                let low = (1u64 << (at / 4)) + (((1u64 << (at / 4)) * (at as u64 % 4)) >> 2);
                return if at == 0 { 0 } else { low + ((1u64 << (at / 4)) >> 3) };
            }
        }
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_of_waits_are_within_an_eighth() {
        let mut waits = Waits::default();
        assert_eq!(waits.quantile(0.5, 0), 0);
        (0..10_000).for_each(|wait| waits.note(Nanos(wait * 1000)));
        for (share, wanted) in [(0.5, 5e6), (0.99, 9.9e6)] {
            let found = waits.quantile(share, 10_000) as f64;
            assert!((found / wanted - 1.0).abs() <= 0.125, "{found} for {wanted}");
        }
        assert_eq!(waits.quantile(0.5, 20_000), 0, "as many did not wait at all");
    }
}
