//! What a store is: how many nodes, where copies lie, who writes them, and what an answer promises.
//!
//! The combinations are meant to be compared with each other, so each choice is a field of its own. Named systems of
//! the literature are points among them and no more than that.

pub(crate) mod given;
pub(crate) mod placement;

use crate::message::nouns::Peer;
use virtlab_wire::Nanos;

const NS_PER_S: u128 = 1_000_000_000;

/// How the nodes that hold a key are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lookup {
    /// The key goes to all nodes at once. Those that hold it answer, with the other holders and their own load;
    /// of a key without holders, all answer, and the least loaded become its holders.
    Multicast,
    /// The key's hash is of a partition, and a table gives each partition a device in different zones.
    Ring {
        /// Of the whole store.
        partitions: u32,
        /// Nodes are dealt to zones in runs: with 24 nodes and 6 zones, nodes 0 to 3 are the first zone.
        zones: u32,
    },
    /// The key's hash is of a group of as many nodes as there are copies: mirrored pairs where copies are two.
    ElasticHash,
}

/// Who sends the copies of an object to the nodes that hold it. Where a store has proxies, clients ask these alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WrittenBy {
    /// The client sends each copy.
    Client,
    /// The client sends the object once to a proxy, and that sends each copy.
    Proxy,
    /// A node that holds the object gets it once, from the client or from a proxy, and sends the other copies.
    Primary,
}

/// What a node has done with a copy when it says that it has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ack {
    /// It is in a write-back cache, which a crash empties. What does not fit waits until the disk has made room.
    Memory {
        /// Of objects that the disk does not have yet.
        cache_bytes: u64,
    },
    /// It is written and flushed: a crash leaves it.
    Disk,
}

/// What the scan of a partition costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scan {
    /// Of each partition.
    pub cost: Nanos,
    /// Partitions that are scanned at the same time.
    pub at_once: u32,
}

/// How lost copies are made again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Form {
    /// Objects that are under way to a node at the same time; of `spread`, from a node.
    pub streams: u32,
    /// No more than that, if given: of a node that recovers, or of each that makes copies in `spread`.
    pub rate_byte_per_s: Option<u64>,
    /// In a ring: what each partition costs.
    pub scan: Option<Scan>,
}

impl Form {
    /// How long the next copy waits for one of so many bytes.
    pub(crate) fn pause(&self, bytes: u64) -> Nanos {
        let rate = self.rate_byte_per_s.map(|rate| u128::from(rate.max(1)));
        let ns = rate.map_or(0, |rate| (u128::from(bytes) * NS_PER_S).div_ceil(rate));
        Nanos(u64::try_from(ns).unwrap_or(u64::MAX))
    }
}

/// A store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Storage nodes: the peers 0 to `nodes` - 1.
    pub nodes: u32,
    /// Of each object, if all nodes are there.
    pub copies: u32,
    /// Copies that stand before a write is answered.
    pub write_quorum: u32,
    /// Holders that must have been heard before a read is answered.
    pub read_quorum: u32,
    /// How holders are found.
    pub lookup: Lookup,
    /// Who writes the copies.
    pub written_by: WrittenBy,
    /// What a node promises.
    pub ack: Ack,
    /// Proxies, which read for clients and pass writes on: the peers `nodes` to `nodes` + `proxies` - 1. Clients come
    /// behind them.
    pub proxies: u32,
    /// A question without an answer is asked again after it.
    pub question: Nanos,
    /// An operation that is not done after it has failed. What carries content is sent again after a quarter of it.
    pub give_up: Nanos,
    /// How lost copies are made again.
    pub recovery: Form,
}

/// Why there is no such store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Nonsense {
    /// More copies than nodes, or none.
    #[error("copies must be 1 to the number of nodes")]
    Copies,
    /// A quorum of none, or of more than there are copies.
    #[error("a quorum must be 1 to the number of copies")]
    Quorum,
    /// More zones than nodes, fewer than copies, or no partition for each.
    #[error("a ring needs as many zones as copies, as many nodes as zones, and a partition for each node")]
    Ring,
    /// Nodes that belong to no group.
    #[error("an elastic hash needs a number of nodes that copies divide")]
    Groups,
    /// Copies written by proxies without one.
    #[error("copies that a proxy writes need a proxy")]
    Proxies,
    /// Proxies beside clients that ask nodes themselves.
    #[error("a client that sends the copies itself asks no proxy")]
    Idle,
    /// A question that is asked without end, or not once.
    #[error("the time-out of a question must be above 0 and not above that of an operation")]
    Times,
}

impl Policy {
    /// Whether there is such a store.
    ///
    /// # Errors
    /// What of it makes no sense.
    pub const fn check(&self) -> Result<(), Nonsense> {
        if self.copies == 0 || self.copies > self.nodes {
            return Err(Nonsense::Copies);
        }
        if self.write_quorum == 0
            || self.write_quorum > self.copies
            || self.read_quorum == 0
            || self.read_quorum > self.copies
        {
            return Err(Nonsense::Quorum);
        }
        match self.lookup {
            Lookup::Multicast => {}
            Lookup::Ring { partitions, zones } => {
                if zones < self.copies || zones > self.nodes || partitions < self.nodes {
                    return Err(Nonsense::Ring);
                }
            }
            Lookup::ElasticHash => {
                if !self.nodes.is_multiple_of(self.copies) {
                    return Err(Nonsense::Groups);
                }
            }
        }
        if matches!(self.written_by, WrittenBy::Proxy) && self.proxies == 0 {
            return Err(Nonsense::Proxies);
        }
        if matches!(self.written_by, WrittenBy::Client) && self.proxies > 0 {
            return Err(Nonsense::Idle);
        }
        if self.question.0 == 0 || self.question.0 > self.give_up.0 {
            return Err(Nonsense::Times);
        }
        Ok(())
    }

    /// Whether a read never gives what an earlier answered write replaced: any two quorums have a node in common, of
    /// writes (so that their order is known) and of a read and a write. Source: D. Gifford, "Weighted Voting for
    /// Replicated Data", SOSP 1979. Other stores are worth studying, and are not refused.
    #[must_use]
    pub const fn is_strict(&self) -> bool {
        self.write_quorum + self.read_quorum > self.copies && 2 * self.write_quorum > self.copies
    }

    /// How many whole nodes must have been heard before it is known what all of the store has of a key: one of any
    /// `write_quorum` nodes is among them.
    #[must_use]
    pub const fn roll_call(&self) -> usize {
        (self.nodes - self.write_quorum + 1) as usize
    }

    /// How many whole holders must be among those that confirm a write: one of them has what any `write_quorum` holders
    /// confirmed before.
    #[must_use]
    pub const fn in_order(&self) -> usize {
        (self.copies - self.write_quorum + 1) as usize
    }

    /// How long a message that carries content may be under way before it is sent again.
    #[must_use]
    pub const fn patience(&self) -> Nanos {
        Nanos(self.give_up.0.div_ceil(4))
    }

    /// Whether a peer is a client.
    #[must_use]
    pub const fn is_client(&self, peer: Peer) -> bool {
        peer.0 as u64 >= self.nodes as u64 + self.proxies as u64
    }

    /// The storage nodes.
    pub fn peers(&self) -> impl Iterator<Item = Peer> + use<> {
        (0..self.nodes).map(Peer)
    }
}
