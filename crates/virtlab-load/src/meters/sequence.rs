//! Which packets of a numbered flow arrived: once, again, out of order, never.
//!
//! A packet is reordered when its number is below the next expected one (RFC 4737, type-P reordered), where "next
//! expected" is one above the largest seen. A second copy of a number is a duplicate and nothing else. Numbers seen are
//! kept in a window of bits behind the largest; what arrives from further back than the window counts as reordered, and
//! as `beyond_window`, since whether it came before can no longer be said.

/// What one arrival was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// New, and above all before it.
    InOrder,
    /// New, below the largest seen.
    Reordered,
    /// Seen before.
    Duplicate,
}

/// Numbers seen so far.
#[derive(Clone, Debug)]
pub struct Sequence {
    seen: Vec<u64>,
    next_expected: u64,
    /// Distinct numbers that arrived.
    pub received: u64,
    /// Second and further copies.
    pub duplicates: u64,
    /// Distinct numbers that came late.
    pub reordered: u64,
    /// Arrivals from before the window.
    pub beyond_window: u64,
}

impl Default for Sequence {
    fn default() -> Self {
        Self::with_window(1 << 16)
    }
}

impl Sequence {
    /// Remembers `window` numbers (rounded up to a power of two, at least 64) behind the largest.
    #[must_use]
    pub fn with_window(window: usize) -> Self {
        let words = window.next_power_of_two().max(64) / 64;
        Self {
            seen: vec![0; words],
            next_expected: 0,
            received: 0,
            duplicates: 0,
            reordered: 0,
            beyond_window: 0,
        }
    }

    /// Takes one arrival.
    pub fn record(&mut self, seq: u64) -> Arrival {
        let window = self.seen.len() as u64 * 64;
        if seq >= self.next_expected {
            let skipped = seq - self.next_expected;
            if skipped >= window {
                self.seen.fill(0);
            } else {
                (self.next_expected..=seq).for_each(|number| self.clear(number));
            }
            self.next_expected = seq + 1;
            self.set(seq);
            self.received += 1;
            return Arrival::InOrder;
        }
        if self.next_expected - seq > window {
            self.beyond_window += 1;
        } else if self.is_set(seq) {
            self.duplicates += 1;
            return Arrival::Duplicate;
        } else {
            self.set(seq);
        }
        self.received += 1;
        self.reordered += 1;
        Arrival::Reordered
    }

    /// Numbers lost of `sent` numbers 0, 1, ..., sent - 1.
    #[must_use]
    pub fn lost(&self, sent: u64) -> u64 {
        sent.saturating_sub(self.received)
    }

    /// One above the largest number seen: at least so many were sent.
    #[must_use]
    pub fn next_expected(&self) -> u64 {
        self.next_expected
    }

    fn place(&self, seq: u64) -> (usize, u64) {
        ((seq / 64) as usize & (self.seen.len() - 1), 1 << (seq % 64))
    }

    fn is_set(&self, seq: u64) -> bool {
        let (word, bit) = self.place(seq);
        self.seen[word] & bit != 0
    }

    fn set(&mut self, seq: u64) {
        let (word, bit) = self.place(seq);
        self.seen[word] |= bit;
    }

    fn clear(&mut self, seq: u64) {
        let (word, bit) = self.place(seq);
        self.seen[word] &= !bit;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[test]
    fn two_swapped_packets_are_one_reordered() {
        let mut sequence = Sequence::default();
        assert_eq!(
            [0, 2, 1, 3, 3].map(|seq| sequence.record(seq)),
            [Arrival::InOrder, Arrival::InOrder, Arrival::Reordered, Arrival::InOrder, Arrival::Duplicate]
        );
        assert_eq!(
            (sequence.received, sequence.duplicates, sequence.reordered, sequence.lost(5)),
            (4, 1, 1, 1)
        );
    }

    proptest! {
        #[test]
        fn it_agrees_with_a_set_of_all_numbers(arrivals in prop::collection::vec(0u64..300, 0..400)) {
            let mut sequence = Sequence::with_window(512);
            let mut all = BTreeSet::new();
            let mut reordered = 0;
            for seq in arrivals {
                let largest = all.last().copied();
                let fresh = all.insert(seq);
                let wanted = match (fresh, largest) {
                    (false, _) => Arrival::Duplicate,
                    (true, Some(largest)) if seq < largest => { reordered += 1; Arrival::Reordered }
                    _ => Arrival::InOrder,
                };
                prop_assert_eq!(sequence.record(seq), wanted);
            }
            prop_assert_eq!((sequence.received, sequence.reordered), (all.len() as u64, reordered));
            prop_assert_eq!(sequence.lost(300) + sequence.received, 300);
        }

        #[test]
        fn jumps_beyond_the_window_never_panic(arrivals in prop::collection::vec(any::<u32>(), 0..100)) {
            let mut sequence = Sequence::with_window(64);
            arrivals.iter().for_each(|&seq| { sequence.record(u64::from(seq)); });
            prop_assert_eq!(sequence.received + sequence.duplicates, arrivals.len() as u64);
        }
    }
}
