//! Which port of a switch leads to which station: static entries, and learned ones that age (IEEE 802.1Q, 8.8).
//!
//! One table for all VLANs (shared learning): a switch without configuration knows no VLANs and passes tags on.
//!
//! Static entries come from the Plan, so they may be found by a simple hash; learned ones come from stations, who could
//! choose addresses that collide, so they are in a tree.

use crate::Mac;
use std::collections::BTreeMap;
use virtlab_wire::Nanos;

/// A learned entry that was not confirmed for this long is forgotten; the default of IEEE 802.1Q.
pub const AGEING: Nanos = Nanos(300_000_000_000);
/// Most learned entries; further stations stay unknown, so their frames are flooded.
pub const MAXIMUM_LEARNED: usize = 16_384;

/// The table of one switch; ports are the indexes of the lines that leave through them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Table {
    fixed: Fixed,
    learned: BTreeMap<Mac, (usize, Nanos)>,
}

impl Table {
    pub(crate) fn fix(&mut self, mac: Mac, line: usize) {
        self.fixed.insert(number(mac), line);
    }

    /// The line towards `mac` that its static entry gives.
    #[inline]
    pub(crate) fn fixed(&self, mac: Mac) -> Option<usize> {
        self.fixed.find(number(mac))
    }

    /// Notes that `mac` was seen behind `line`; false when that address is never learned.
    pub(crate) fn learn(&mut self, mac: Mac, line: usize, now: Nanos) -> bool {
        if mac.is_group() || self.fixed.find(number(mac)).is_some() {
            return false;
        }
        if self.learned.len() >= MAXIMUM_LEARNED && !self.learned.contains_key(&mac) {
            self.learned.retain(|_, (_, seen)| now.since(*seen) < AGEING);
            if self.learned.len() >= MAXIMUM_LEARNED {
                return true;
            }
        }
        self.learned.insert(mac, (line, now));
        true
    }

    /// The line towards `mac`, `None` when it is not known.
    pub(crate) fn find(&self, mac: Mac, now: Nanos) -> Option<usize> {
        if let Some(line) = self.fixed.find(number(mac)) {
            return Some(line);
        }
        self.learned.get(&mac).filter(|(_, seen)| now.since(*seen) < AGEING).map(|&(line, _)| line)
    }
}

fn number(Mac([a, b, c, d, e, f]): Mac) -> u64 {
    u64::from_be_bytes([0, 0, a, b, c, d, e, f])
}

/// Addresses by an open hash, at most a quarter full. An address is below 2^48, so no place is taken by
/// [`Fixed::FREE`].
#[derive(Clone, Debug, Default)]
struct Fixed {
    places: Vec<(u64, usize)>,
    count: usize,
}

impl Fixed {
    const FREE: u64 = u64::MAX;

    #[inline]
    fn place(&self, mac: u64) -> usize {
        // Fibonacci hashing: the upper bits of a product with 2^64 / golden ratio.
        let bits = self.places.len().trailing_zeros();
        let mut place = (mac.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - bits)) as usize;
        while self.places[place].0 != mac && self.places[place].0 != Self::FREE {
            place = (place + 1) & (self.places.len() - 1);
        }
        place
    }

    fn insert(&mut self, mac: u64, line: usize) {
        if self.places.len() <= 4 * self.count {
            let size = (8 * (self.count + 1)).next_power_of_two();
            let old = std::mem::replace(&mut self.places, vec![(Self::FREE, 0); size]);
            for (mac, line) in old.into_iter().filter(|(mac, _)| *mac != Self::FREE) {
                let place = self.place(mac);
                self.places[place] = (mac, line);
            }
        }
        let place = self.place(mac);
        self.count += usize::from(self.places[place].0 == Self::FREE);
        self.places[place] = (mac, line);
    }

    #[inline]
    fn find(&self, mac: u64) -> Option<usize> {
        if self.count == 0 {
            return None;
        }
        let (found, line) = self.places[self.place(mac)];
        (found == mac).then_some(line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const A: Mac = Mac([2, 0, 0, 0, 0, 1]);

    #[test]
    fn a_station_that_moves_is_found_at_its_new_port() {
        let mut table = Table::default();
        table.learn(A, 1, Nanos(0));
        table.learn(A, 2, Nanos(1));
        assert_eq!(table.find(A, Nanos(2)), Some(2));
    }

    #[test]
    fn learned_entries_age_and_static_ones_do_not() {
        let mut table = Table::default();
        table.learn(A, 1, Nanos(0));
        assert_eq!(table.find(A, AGEING), None);
        table.fix(A, 3);
        table.learn(A, 1, AGEING);
        assert_eq!(table.find(A, AGEING + AGEING), Some(3));
    }

    #[test]
    fn a_flood_of_addresses_does_not_grow_the_table_without_bound() {
        let mut table = Table::default();
        for n in 0..MAXIMUM_LEARNED as u32 + 1000 {
            let [a, b, c, d] = n.to_be_bytes();
            table.learn(Mac([2, 0, a, b, c, d]), 1, Nanos(0));
        }
        assert_eq!(table.learned.len(), MAXIMUM_LEARNED);
        table.learn(Mac([6, 0, 0, 0, 0, 0]), 1, AGEING);
        assert_eq!(table.learned.len(), 1);
    }

    proptest! {
        #[test]
        fn static_entries_are_those_of_a_map(macs in prop::collection::vec((any::<[u8; 6]>(), 0usize..9), 0..300)) {
            let mut table = Table::default();
            let mut map = BTreeMap::new();
            for (mac, line) in &macs {
                table.fix(Mac(*mac), *line);
                map.insert(*mac, *line);
            }
            for (mac, _) in &macs {
                prop_assert_eq!(table.find(Mac(*mac), Nanos(0)), map.get(mac).copied());
                let other = [mac[0] ^ 4, mac[1], mac[2], mac[3], mac[4], mac[5]];
                prop_assert_eq!(table.find(Mac(other), Nanos(0)), map.get(&other).copied());
            }
        }
    }
}
