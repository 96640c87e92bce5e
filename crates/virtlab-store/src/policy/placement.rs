//! Where the copies of a key lie.
//!
//! - **Ring**, as in the study of distributed storage: the first copy of partition p is on the device of p, copy i on
//!   that of p + i * P / copies (modulo the P partitions; with 2^18 partitions and 3 copies the offset is 87381). A
//!   device is a node here. Partitions are dealt to zones in turn and within a zone to its nodes in turn, so every node
//!   has nearly as many. Where an offset leads to a zone that has a copy already, the next zone in turn takes it.
//! - **Elastic hash**: nodes are in groups of as many as there are copies; the hash gives the group.
//! - **Multicast**: nothing follows from the key. The least loaded nodes of those that answered become holders.
//!
//! Who leads an attempt follows from its number, so that a proxy or a primary that does not answer is left out by the
//! next one. Of as many attempts as there are pairs of both, each has another pair.

use crate::message::nouns::{Holders, Key, Peer};
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

    /// The proxy that a client asks in an attempt.
    #[must_use]
    pub fn proxy_of(&self, client: Peer, attempt: u32) -> Option<Peer> {
        let turn = u64::from(client.0) + u64::from(attempt);
        let place = turn.checked_rem(u64::from(self.proxies))?;
        Some(Peer(self.nodes + u32::try_from(place).unwrap_or(0)))
    }

    /// The node that leads an attempt to write a key: one of its places, where these follow from it.
    #[must_use]
    pub fn primary_of(&self, key: Key, attempt: u32) -> Peer {
        let places = self.places(key);
        let first = if places.is_some() { 0 } else { key.mixed(7) % u64::from(self.nodes) };
        let places = places.unwrap_or_else(|| self.peers().collect());
        let many = places.len() as u64;
        let rounds = attempt.checked_div(in_step(self.proxies, many as u32)).unwrap_or(0);
        let turn = u64::from(attempt) + u64::from(rounds);
        places[usize::try_from((first + turn) % many).unwrap_or(0)]
    }

    /// Of nodes with their loads, those that take a new object; among equal loads the key decides.
    #[must_use]
    pub fn least_loaded(&self, key: Key, answered: impl IntoIterator<Item = (u32, Peer)>) -> Holders {
        let most = self.copies as usize;
        let mut least: Vec<(u128, Peer)> = Vec::with_capacity(most + 1);
        // Only what is below it can be one of the least.
        let mut bound = u128::MAX;
        for (load, peer) in answered {
            if u128::from(load) > bound >> u64::BITS {
                continue;
            }
            let rank = u128::from(load) << u64::BITS | u128::from(key.mixed(u64::from(peer.0) + 1));
            if rank >= bound {
                continue;
            }
            let place = least.iter().rposition(|(before, _)| *before <= rank).map_or(0, |before| before + 1);
            least.insert(place, (rank, peer));
            least.truncate(most);
            if let Some((worst, _)) = least.get(most - 1) {
                bound = *worst;
            }
        }
        least.into_iter().map(|(_, peer)| peer).collect()
    }
}

/// After how many turns two that go around so many are where they began: the least common multiple; 0 without one.
fn in_step(one: u32, other: u32) -> u32 {
    let (mut large, mut small) = (one, other);
    while small > 0 {
        (large, small) = (small, large % small);
    }
    one.checked_div(large).unwrap_or(0).saturating_mul(other)
}
