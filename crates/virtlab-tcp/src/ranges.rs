//! A set of byte numbers as disjoint ranges `[begin, end)`, for what came out of order and what was acknowledged so.

use std::collections::BTreeMap;

/// The set.
#[derive(Clone, Debug, Default)]
pub struct Ranges(BTreeMap<u64, u64>);

impl Ranges {
    /// Adds a range; the whole range that it is part of now.
    pub fn insert(&mut self, mut begin: u64, mut end: u64) -> (u64, u64) {
        while let Some((&low, &high)) = self.0.range(..=end).next_back().filter(|(_, high)| **high >= begin) {
            (begin, end) = (begin.min(low), end.max(high));
            self.0.remove(&low);
        }
        self.0.insert(begin, end);
        (begin, end)
    }

    /// Takes the range that begins at or before `at` and continues beyond it; its end.
    pub fn take_from(&mut self, at: u64) -> Option<u64> {
        let (&low, &high) = self.0.range(..=at).next_back().filter(|(_, high)| **high > at)?;
        self.0.remove(&low);
        Some(high)
    }

    /// Forgets everything below.
    pub fn forget_below(&mut self, at: u64) {
        while let Some((&low, &high)) = self.0.first_key_value().filter(|(low, _)| **low < at) {
            self.0.remove(&low);
            if high > at {
                self.0.insert(at, high);
            }
        }
    }

    /// The parts of `[begin, end)` that are not in the set.
    pub fn missing(&self, begin: u64, end: u64) -> Vec<(u64, u64)> {
        let mut gaps = Vec::new();
        let mut at = begin;
        let before = self.0.range(..=begin).next_back();
        for (&low, &high) in before.into_iter().chain(self.0.range(begin + 1..end.max(begin + 1))) {
            if low > at {
                gaps.push((at, low.min(end)));
            }
            at = at.max(high);
        }
        if at < end {
            gaps.push((at, end));
        }
        gaps
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All, from the lowest.
    #[cfg(test)]
    pub fn iter(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.0.iter().map(|(low, high)| (*low, *high))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn the_set_is_what_a_set_of_numbers_would_be(
            parts in prop::collection::vec((0u64..60, 1u64..12), 0..20), probe in 0u64..60, length in 1u64..20, low in 0u64..60
        ) {
            let (mut ranges, mut numbers) = (Ranges::default(), BTreeSet::new());
            for (begin, bytes) in parts {
                let (from, to) = ranges.insert(begin, begin + bytes);
                prop_assert!(from <= begin && begin + bytes <= to);
                numbers.extend(begin..begin + bytes);
            }
            let missing: Vec<u64> = ranges.missing(probe, probe + length).into_iter().flat_map(|(a, b)| a..b).collect();
            prop_assert_eq!(missing, (probe..probe + length).filter(|n| !numbers.contains(n)).collect::<Vec<_>>());
            ranges.forget_below(low);
            numbers = numbers.split_off(&low);
            prop_assert_eq!(ranges.iter().flat_map(|(a, b)| a..b).collect::<BTreeSet<_>>(), numbers.clone());
            let run = (probe..).take_while(|n| numbers.contains(n)).last().map(|n| n + 1);
            prop_assert_eq!(ranges.take_from(probe), run);
        }
    }
}
