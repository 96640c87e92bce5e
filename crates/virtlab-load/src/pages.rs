//! Pages of memory that are due to be written, and what they are filled with.
//!
//! A writer is woken now and then and writes what has become due. What it could not write for [`PATIENCE`], as it got
//! no processor, it passes over and counts: a guest that was held back is not followed by a burst of writes.

use virtlab_wire::Nanos;

/// Of a page.
pub const PAGE_BYTES: u64 = 4096;
/// For which a page that is due may wait.
pub const PATIENCE: Nanos = Nanos(100_000_000);

/// Which pages are due at a rate.
#[derive(Clone, Debug)]
pub struct Due {
    rate_byte_per_s: u64,
    /// From when on the rate counts.
    since: Nanos,
    /// Due since then, as of the last look.
    seen: u64,
    /// Passed over.
    pub missed: u64,
}

impl Due {
    /// At a rate from an instant on.
    #[must_use]
    pub const fn new(rate_byte_per_s: u64, since: Nanos) -> Self {
        Self { rate_byte_per_s, since, seen: 0, missed: 0 }
    }

    /// Another rate, from an instant on.
    pub const fn change(&mut self, rate_byte_per_s: u64, since: Nanos) {
        (self.rate_byte_per_s, self.since, self.seen) = (rate_byte_per_s, since, 0);
    }

    /// Pages to write now.
    pub fn take(&mut self, now: Nanos) -> u64 {
        let pages = |lasts: Nanos| {
            let bytes = u128::from(self.rate_byte_per_s) * u128::from(lasts.0) / 1_000_000_000;
            u64::try_from(bytes / u128::from(PAGE_BYTES)).unwrap_or(u64::MAX)
        };
        let total = pages(now.since(self.since));
        let most = pages(PATIENCE).max(1);
        let due = total.saturating_sub(self.seen);
        self.seen = self.seen.max(total);
        self.missed += due.saturating_sub(most);
        due.min(most)
    }
}

/// Words that do not compress: xorshift64* (S. Vigna, "An experimental exploration of Marsaglia's xorshift generators,
/// scrambled", 2016). It is cheap where a processor is emulated, which is why it is not the generator of schedules.
#[derive(Clone, Debug)]
pub struct Filling(u64);

impl Filling {
    /// Of a seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(if seed == 0 { 0x9E37_79B9_7F4A_7C15 } else { seed })
    }

    /// Fills a page with new words.
    pub fn fill(&mut self, page: &mut [u64]) {
        for word in page {
            self.0 ^= self.0 >> 12;
            self.0 ^= self.0 << 25;
            self.0 ^= self.0 >> 27;
            *word = self.0.wrapping_mul(0x2545_F491_4F6C_DD1D);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_rate_is_kept_by_the_page() {
        let mut due = Due::new(4096 * 1000, Nanos(5));
        assert_eq!(due.take(Nanos(5)), 0);
        assert_eq!(due.take(Nanos(5 + 2_000_000)), 2);
        assert_eq!(due.take(Nanos(5 + 2_500_000)), 0);
        assert_eq!(due.take(Nanos(5 + 10_000_000)), 8);
        due.change(0, Nanos(20_000_000));
        assert_eq!((due.take(Nanos(900_000_000)), due.missed), (0, 0));
    }

    proptest! {
        #[test]
        fn every_page_that_was_due_is_written_or_passed_over(
            rate in 0u64..100_000_000, gaps in prop::collection::vec(0u64..400_000_000, 1..40),
        ) {
            let mut due = Due::new(rate, Nanos(7));
            let (mut now, mut written) = (7, 0);
            for gap in &gaps {
                now += gap;
                let pages = due.take(Nanos(now));
                prop_assert!(pages <= (rate / 10 / PAGE_BYTES).max(1));
                written += pages;
            }
            let all = u128::from(rate) * u128::from(now - 7) / 1_000_000_000 / u128::from(PAGE_BYTES);
            prop_assert_eq!(u128::from(written + due.missed), all);
            if gaps.iter().all(|gap| *gap < 90_000_000) && rate >= 40_960_000 {
                prop_assert_eq!(due.missed, 0);
            }
        }
    }

    #[test]
    fn pages_neither_compress_nor_repeat() {
        let (mut filling, mut page) = (Filling::new(0), vec![0; 512]);
        filling.fill(&mut page);
        let mut words = page.clone();
        filling.fill(&mut page);
        assert!(words.iter().zip(&page).all(|(before, now)| before != now));
        words.extend(&page);
        words.sort_unstable();
        words.dedup();
        assert_eq!(words.len(), 1024);
        // Bytes are spread over all values: 8192 of them, 32 of each on average.
        let mut counts = [0; 256];
        words.iter().flat_map(|word| word.to_le_bytes()).for_each(|byte| counts[usize::from(byte)] += 1);
        assert!(counts.iter().all(|count| (8..72).contains(count)), "{counts:?}");
    }
}
