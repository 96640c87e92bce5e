//! Distributed stores of objects: where their nodes and proxies are, and what they are.

use super::{Finding, Input, Role, RoleEnd};
use serde::Deserialize;
use virtlab_store::{Ack, Form, Lookup, Policy, Scan, WrittenBy};
use virtlab_wire::Nanos;

/// A store.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Store {
    /// Its service.
    pub service: String,
    /// Its storage nodes, in the order of the service's guests.
    pub nodes: Vec<RoleEnd>,
    /// Its proxies.
    #[serde(default)]
    pub proxies: Vec<RoleEnd>,
    /// What it is.
    pub parameters: Given,
}

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
    /// How lost copies are made again.
    #[serde(flatten)]
    pub recovery: Recovery,
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

impl Store {
    /// What it is, or why there is no such store.
    pub fn policy(&self) -> Result<Policy, Finding> {
        let own = &self.parameters;
        let nodes = u32::try_from(self.nodes.len()).unwrap_or(u32::MAX);
        let write_quorum = own.write_quorum.unwrap_or(own.copies / 2 + 1);
        let policy = Policy {
            nodes,
            copies: own.copies,
            write_quorum,
            read_quorum: own.read_quorum.unwrap_or((own.copies + 1).saturating_sub(write_quorum)),
            lookup: match own.lookup {
                Finder::Multicast => Lookup::Multicast,
                Finder::Ring => Lookup::Ring {
                    partitions: own.partitions.unwrap_or(0),
                    zones: own.zones.unwrap_or(nodes),
                },
                Finder::ElasticHash => Lookup::ElasticHash,
            },
            written_by: match own.written_by {
                Writer::Client => WrittenBy::Client,
                Writer::Proxy => WrittenBy::Proxy,
                Writer::Primary => WrittenBy::Primary,
            },
            ack: match own.ack {
                Kept::Memory => Ack::Memory { cache_bytes: own.cache_bytes },
                Kept::Disk => Ack::Disk,
            },
            proxies: u32::try_from(self.proxies.len()).unwrap_or(u32::MAX),
            question: Nanos(own.question_ns),
            give_up: Nanos(own.timeout_ns),
            recovery: Form {
                streams: own.recovery.recovery_streams.unwrap_or(STREAMS),
                rate_byte_per_s: own.recovery.recovery_byte_per_s,
                scan: own
                    .recovery
                    .scan_ns
                    .map(|cost| Scan { cost: Nanos(cost), at_once: own.recovery.scans.unwrap_or(1) }),
            },
        };
        policy.check().map_err(|nonsense| {
            Finding::new(
                format!("services.{}", self.service),
                nonsense.to_string(),
                "mend the store's parameters",
            )
        })?;
        Ok(policy)
    }

    /// How often its nodes tell each other that they are there, and after how long one is taken for lost, if they do.
    pub fn watch(&self) -> Option<(Nanos, Nanos)> {
        let Recovery { beat_ns, silence_ns, .. } = self.parameters.recovery;
        let beat_ns = beat_ns?;
        Some((Nanos(beat_ns), Nanos(silence_ns.unwrap_or(BEATS * beat_ns))))
    }

    /// The ends of all of its peers: nodes, proxies, then the clients of a world, which are roles that ask it.
    pub fn peers<'a>(&'a self, roles: &'a [Role]) -> impl Iterator<Item = (&'a RoleEnd, Option<usize>)> + 'a {
        let own = self.nodes.iter().chain(&self.proxies).map(|end| (end, None));
        let asks = |role: &Role| role.parameters.get("service").is_some_and(|name| *name == *self.service);
        own.chain(
            roles
                .iter()
                .enumerate()
                .filter(move |(_, role)| asks(role))
                .map(|(place, role)| (&role.ends[0], Some(place))),
        )
    }

    /// What it adds to the roles of the network: each peer by itself, then each pair of peers, the later one first.
    pub fn roles(&self, roles: &[Role]) -> Vec<Role> {
        let ends: Vec<&RoleEnd> = self.peers(roles).map(|(end, _)| end).collect();
        let role = |pair: [&RoleEnd; 2]| Role {
            name: self.service.clone(),
            workload: String::new(),
            parameters: serde_json::Map::new(),
            ends: pair.map(Clone::clone),
            kept: false,
            most: None,
        };
        let alone = ends.iter().map(|end| role([end, end]));
        let pairs = (1..ends.len()).flat_map(|near| (0..near).map(move |far| (near, far)));
        alone.chain(pairs.map(|(near, far)| role([ends[near], ends[far]]))).collect()
    }
}

impl Input {
    /// Roles of the network that no Plan names: passive servers, then what stores are made of.
    pub fn roles_beside(&self) -> Vec<Role> {
        let passive = self.passive.iter().map(super::Passive::role);
        passive.chain(self.stores.iter().flat_map(|store| store.roles(&self.roles))).collect()
    }
}
