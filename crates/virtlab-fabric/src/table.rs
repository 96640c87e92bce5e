//! Which port of a switch leads to which station: static entries, and learned ones that age (IEEE 802.1Q, 8.8).
//!
//! One table for all VLANs (shared learning): a switch without configuration knows no VLANs and passes tags on.

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
    fixed: BTreeMap<Mac, usize>,
    learned: BTreeMap<Mac, (usize, Nanos)>,
}

impl Table {
    pub(crate) fn fix(&mut self, mac: Mac, line: usize) {
        self.fixed.insert(mac, line);
    }

    /// Notes that `mac` was seen behind `line`.
    pub(crate) fn learn(&mut self, mac: Mac, line: usize, now: Nanos) {
        if mac.is_group() || self.fixed.contains_key(&mac) {
            return;
        }
        if self.learned.len() >= MAXIMUM_LEARNED && !self.learned.contains_key(&mac) {
            self.learned.retain(|_, (_, seen)| now.since(*seen) < AGEING);
            if self.learned.len() >= MAXIMUM_LEARNED {
                return;
            }
        }
        self.learned.insert(mac, (line, now));
    }

    /// The line towards `mac`, `None` when it is not known.
    pub(crate) fn find(&self, mac: Mac, now: Nanos) -> Option<usize> {
        if let Some(&line) = self.fixed.get(&mac) {
            return Some(line);
        }
        self.learned.get(&mac).filter(|(_, seen)| now.since(*seen) < AGEING).map(|&(line, _)| line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
