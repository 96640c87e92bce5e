//! Distributed stores of objects: where their nodes and proxies are, and what they are.

use super::{Finding, Input, Role, RoleEnd};
use serde::Deserialize;
use virtlab_store::{Given, Policy};

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
    /// Disks of guests that keep their blocks in it.
    #[serde(default)]
    pub disks: Vec<StoredDisk>,
    /// Links that the timeline cuts, each with the places of nodes that nothing reaches then.
    #[serde(default)]
    pub behind: Vec<(String, Vec<usize>)>,
    /// How contents go in bulk; absent: packet by packet.
    #[serde(default)]
    pub fluid: Option<Fluid>,
    /// How all goes as messages without packets; absent: it does not.
    #[serde(default)]
    pub messages: Option<Messages>,
}

/// The disk of a guest whose blocks are objects.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoredDisk {
    /// Place of the guest.
    pub guest: usize,
    /// Of each block but the last.
    pub block_bytes: u64,
    /// Where its client is.
    pub end: RoleEnd,
}

/// For whom a client of a store asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asker {
    /// A role of the Plan, by its place.
    Role(usize),
    /// The disk of a guest, by its place.
    Disk(usize),
}

/// Which lines the contents of a store cross.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fluid {
    /// Links, each with a direction.
    pub lines: Vec<(String, String)>,
    /// By the peer that sends and the one that hears: places of lines.
    pub ways: Vec<Vec<Vec<usize>>>,
}

/// Which lines the messages of a store cross, all of them.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Messages {
    /// Those between two peers.
    pub ways: Fluid,
    /// By the peer that says something to all nodes: where it goes; empty where none does.
    #[serde(default)]
    pub floods: Vec<Branches>,
}

/// Where something goes that is for all.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Branches {
    /// Places of lines, each with that of the branch before it.
    pub branches: Vec<(usize, Option<usize>)>,
    /// By node: the branch behind which it is; none: no line is between.
    pub nodes: Vec<Option<usize>>,
}

impl Fluid {
    /// Places of the lines from a peer to another; none where no line lies between.
    pub fn way(&self, from: usize, to: usize) -> &[usize] {
        self.ways.get(from).and_then(|ways| ways.get(to)).map_or(&[], Vec::as_slice)
    }
}

impl Store {
    /// What it is, or why there is no such store.
    pub fn policy(&self) -> Result<Policy, Finding> {
        self.parameters.policy(self.nodes.len(), self.proxies.len()).map_err(|nonsense| {
            Finding::new(
                format!("services.{}", self.service),
                nonsense.to_string(),
                "mend the store's parameters",
            )
        })
    }

    /// The ends of all of its peers: nodes, proxies, then the clients of a world, which are roles that ask it, and
    /// disks.
    pub fn peers<'a>(&'a self, roles: &'a [Role]) -> impl Iterator<Item = (&'a RoleEnd, Option<Asker>)> + 'a {
        let own = self.nodes.iter().chain(&self.proxies).map(|end| (end, None));
        let asks = |role: &Role| role.parameters.get("service").is_some_and(|name| *name == *self.service);
        own.chain(
            roles
                .iter()
                .enumerate()
                .filter(move |(_, role)| asks(role))
                .map(|(place, role)| (&role.ends[0], Some(Asker::Role(place)))),
        )
        .chain(self.disks.iter().map(|disk| (&disk.end, Some(Asker::Disk(disk.guest)))))
    }

    /// What it adds to the roles of the network: each peer by itself, then each pair that has a connection, the later
    /// one first.
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
        if self.messages.is_some() {
            return alone.collect();
        }
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
