//! Where the copies of a key lie.
//!
//! - **Ring**, as in the study of distributed storage: the first copy of partition p is on the device of p, copy i on
//!   that of p + i * P / copies (modulo the P partitions; with 2^18 partitions and 3 copies the offset is 87381). A
//!   device is a node here. Partitions are dealt to zones in turn and within a zone to its nodes in turn, so every node
//!   has nearly as many. Where an offset leads to a zone that has a copy already, the next zone in turn takes it.
//! - **Elastic hash**: nodes are in groups of as many as there are copies; the hash gives the group.
//! - **Multicast**: nothing follows from the key. The least loaded nodes of those that answered become holders.

use crate::nouns::{Key, Peer};
use crate::policy::{Lookup, Policy};

impl Policy {
    /// The partition of a key in a ring of that many: the upper bits of its hash, so that any number will do.
    #[must_use]
    pub fn partition(key: Key, partitions: u32) -> u32 {
        let part = (u128::from(key.mixed(0)) * u128::from(partitions)) >> 64;
        u32::try_from(part).unwrap_or(u32::MAX)
    }

    /// The nodes that ought to hold a key, where that follows from the key.
    #[must_use]
    pub fn places(&self, key: Key) -> Option<Vec<Peer>> {
        match self.lookup {
            Lookup::Multicast => None,
            Lookup::Ring { partitions, zones } => {
                Some(self.of_partition(Self::partition(key, partitions), partitions, zones))
            }
            Lookup::ElasticHash => {
                let group = Self::partition(key, self.nodes / self.copies);
                Some((0..self.copies).map(|at| Peer(group * self.copies + at)).collect())
            }
        }
    }

    /// The nodes of a partition.
    #[must_use]
    pub fn of_partition(&self, partition: u32, partitions: u32, zones: u32) -> Vec<Peer> {
        let mut taken: Vec<u32> = Vec::new();
        let mut places = Vec::new();
        for copy in 0..self.copies {
            let offset = u64::from(copy) * u64::from(partitions / self.copies);
            let at = (u64::from(partition) + offset) % u64::from(partitions);
            let mut zone = u32::try_from(at % u64::from(zones)).unwrap_or(0);
            while taken.contains(&zone) {
                zone = (zone + 1) % zones;
            }
            taken.push(zone);
            let (first, size) = self.zone(zone, zones);
            let within = u32::try_from((at / u64::from(zones)) % u64::from(size)).unwrap_or(0);
            places.push(Peer(first + within));
        }
        places
    }

    /// The first node of a zone, and how many it has.
    const fn zone(&self, zone: u32, zones: u32) -> (u32, u32) {
        let first = zone * self.nodes / zones;
        (first, (zone + 1) * self.nodes / zones - first)
    }

    /// Where a copy goes while one of its holders is away: to the nodes behind the last holder, in turn.
    #[must_use]
    pub fn stand_in(&self, holders: &[Peer], lost: Peer, away: &[Peer]) -> Option<Peer> {
        let place = holders.iter().position(|&one| one == lost)?;
        let start = holders.last()?.0 + 1 + u32::try_from(place).unwrap_or(0);
        (0..self.nodes)
            .map(|step| Peer((start + step) % self.nodes))
            .find(|one| !holders.contains(one) && !away.contains(one))
    }

    /// Of nodes with their loads, those that take a new object; among equal loads the key decides.
    #[must_use]
    pub fn least_loaded(&self, key: Key, answered: Vec<(u32, Peer)>) -> Vec<Peer> {
        let most = self.copies as usize;
        let mut least: Vec<((u32, u64), Peer)> = Vec::with_capacity(most + 1);
        for (load, peer) in answered {
            let rank = (load, key.mixed(u64::from(peer.0) + 1));
            let place = least.partition_point(|(before, _)| *before <= rank);
            if place < most {
                least.insert(place, (rank, peer));
                least.truncate(most);
            }
        }
        least.into_iter().map(|(_, peer)| peer).collect()
    }
}
