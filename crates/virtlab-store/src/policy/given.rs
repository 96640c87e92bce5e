//! How a Plan says what a store is.

use crate::policy::{Ack, Form, Lookup, Nonsense, Policy, Scan, WrittenBy};
use serde::Deserialize;
use virtlab_wire::Nanos;

/// How a Plan says what a store is.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Given {
    /// Of each object.
    pub copies: u32,
    /// Copies that stand before a write is answered; absent: more than half of them.
    #[serde(default)]
    pub write_quorum: Option<u32>,
    /// Holders that are heard before a read is answered; absent: so many that one of them has the last write.
    #[serde(default)]
    pub read_quorum: Option<u32>,
    /// How holders are found.
    pub lookup: Finder,
    /// Of a ring.
    #[serde(default)]
    pub partitions: Option<u32>,
    /// Of a ring; absent: a zone for each node.
    #[serde(default)]
    pub zones: Option<u32>,
    /// Who sends the copies.
    pub written_by: Writer,
    /// Where a copy is that is confirmed.
    pub ack: Kept,
    /// Of the write-back cache of each node.
    #[serde(default)]
    pub cache_bytes: u64,
    /// A question without an answer is asked again after it.
    pub question_ns: u64,
    /// An operation that is not done after it has failed.
    pub timeout_ns: u64,
    /// What messages cost a node's processor.
    #[serde(default)]
    pub node_ns: Option<u64>,
    /// And what they have in them.
    #[serde(default)]
    pub node_byte_per_s: Option<u64>,
    /// What messages cost a proxy's processor.
    #[serde(default)]
    pub proxy_ns: Option<u64>,
    /// And what they have in them.
    #[serde(default)]
    pub proxy_byte_per_s: Option<u64>,
    /// How lost copies are made again.
    #[serde(flatten)]
    pub recovery: Recovery,
}

/// Processor time of a node or a proxy: one message after another, in the order in which they come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Effort {
    /// Of each message that it hears.
    pub message_ns: u64,
    /// At which it takes what it hears, and gives what it says; absent: in no time.
    pub byte_per_s: Option<u64>,
}

impl Effort {
    /// For so many octets.
    #[must_use]
    pub fn of_bytes(&self, bytes: u64) -> u64 {
        let rate = self.byte_per_s.filter(|rate| *rate > 0);
        rate.map_or(0, |rate| (u128::from(bytes) * 1_000_000_000).div_ceil(u128::from(rate)) as u64)
    }

    /// Whether messages take no time.
    #[must_use]
    pub const fn is_none(&self) -> bool {
        self.message_ns == 0 && self.byte_per_s.is_none()
    }
}

/// How lost copies are made again.
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct Recovery {
    /// Objects that are under way at the same time; absent: 16.
    #[serde(default)]
    pub recovery_streams: Option<u32>,
    /// No more than that; absent: as fast as links and disks allow.
    #[serde(default)]
    pub recovery_byte_per_s: Option<u64>,
    /// What each partition of a ring costs before its objects are looked for.
    #[serde(default)]
    pub scan_ns: Option<u64>,
    /// Partitions that are scanned at the same time; absent: one.
    #[serde(default)]
    pub scans: Option<u32>,
    /// How often nodes tell each other that they are there; absent: they do not.
    #[serde(default)]
    pub beat_ns: Option<u64>,
    /// After how long a silent node is taken for lost; absent: four beats.
    #[serde(default)]
    pub silence_ns: Option<u64>,
}

/// Objects that are under way to a node that recovers.
const STREAMS: u32 = 16;
/// Beats that may be missed.
const BEATS: u64 = 4;

/// How holders are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Finder {
    /// See [`Lookup::Multicast`].
    Multicast,
    /// See [`Lookup::Ring`].
    Ring,
    /// See [`Lookup::ElasticHash`].
    ElasticHash,
}

/// Who sends the copies of an object to its holders.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Writer {
    /// The client itself.
    Client,
    /// A proxy.
    Proxy,
    /// The first of its holders.
    Primary,
}

/// Where a copy is that a node confirms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kept {
    /// In its cache.
    Memory,
    /// On its disk.
    Disk,
}

impl Given {
    /// The store of so many nodes and proxies.
    ///
    /// # Errors
    /// Why there is no such store.
    pub fn policy(&self, nodes: usize, proxies: usize) -> Result<Policy, Nonsense> {
        let nodes = u32::try_from(nodes).unwrap_or(u32::MAX);
        let write_quorum = self.write_quorum.unwrap_or(self.copies / 2 + 1);
        let policy = Policy {
            nodes,
            copies: self.copies,
            write_quorum,
            read_quorum: self.read_quorum.unwrap_or((self.copies + 1).saturating_sub(write_quorum)),
            lookup: match self.lookup {
                Finder::Multicast => Lookup::Multicast,
                Finder::Ring => Lookup::Ring {
                    partitions: self.partitions.unwrap_or(0),
                    zones: self.zones.unwrap_or(nodes),
                },
                Finder::ElasticHash => Lookup::ElasticHash,
            },
            written_by: match self.written_by {
                Writer::Client => WrittenBy::Client,
                Writer::Proxy => WrittenBy::Proxy,
                Writer::Primary => WrittenBy::Primary,
            },
            ack: match self.ack {
                Kept::Memory => Ack::Memory { cache_bytes: self.cache_bytes },
                Kept::Disk => Ack::Disk,
            },
            proxies: u32::try_from(proxies).unwrap_or(u32::MAX),
            question: Nanos(self.question_ns),
            give_up: Nanos(self.timeout_ns),
            recovery: Form {
                streams: self.recovery.recovery_streams.unwrap_or(STREAMS),
                rate_byte_per_s: self.recovery.recovery_byte_per_s,
                scan: self
                    .recovery
                    .scan_ns
                    .map(|cost| Scan { cost: Nanos(cost), at_once: self.recovery.scans.unwrap_or(1) }),
            },
        };
        policy.check()?;
        Ok(policy)
    }

    /// What messages cost the processor of a node.
    #[must_use]
    pub fn of_node(&self) -> Effort {
        Effort { message_ns: self.node_ns.unwrap_or(0), byte_per_s: self.node_byte_per_s }
    }

    /// And of a proxy.
    #[must_use]
    pub fn of_proxy(&self) -> Effort {
        Effort { message_ns: self.proxy_ns.unwrap_or(0), byte_per_s: self.proxy_byte_per_s }
    }

    /// How often its nodes tell each other that they are there, and after how long one is taken for lost, if they do.
    #[must_use]
    pub fn watch(&self) -> Option<(Nanos, Nanos)> {
        let Recovery { beat_ns, silence_ns, .. } = self.recovery;
        let beat_ns = beat_ns?;
        Some((Nanos(beat_ns), Nanos(silence_ns.unwrap_or(BEATS * beat_ns))))
    }
}
