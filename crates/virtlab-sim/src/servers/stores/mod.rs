//! Distributed stores: the machines of `virtlab-store` in guests of a world, and what their clients know of objects.
//!
//! Nodes, proxies and clients are *peers*, in this order. A store knows what its peers want and nothing of the network:
//! what they say waits in an outbox for each two of them until it is carried. A node that has failed does and hears
//! nothing, until it is healed.

mod mail;
mod peer;
mod processor;
mod store;

pub use mail::{Call, Item, Letter, Mail, Pair, Reply, Transit};
pub use peer::Machine;
pub use processor::Processor;
pub use store::{Store, Want, Watch, Ways};
use virtlab_wire::Nanos;

/// All of a world.
#[derive(Default)]
pub struct Stores {
    pub all: Vec<Store>,
    /// What is under way without packets.
    pub mail: Mail,
}

impl Stores {
    /// One more; its place.
    pub fn add(&mut self, store: Store) -> usize {
        self.all.push(store);
        self.all.len() - 1
    }

    /// The one at a place.
    pub fn at(&mut self, place: usize) -> &mut Store {
        &mut self.all[place]
    }

    /// The place of the store that a service is.
    pub fn of_service(&self, service: &str) -> Option<usize> {
        self.all.iter().position(|store| store.service == service)
    }

    /// The place of the store that a role asks, and of its client among the peers.
    pub fn of_client(&self, role: usize) -> Option<(usize, usize)> {
        self.all.iter().enumerate().find_map(|(place, store)| Some((place, store.client_of(role)?)))
    }

    /// A link is cut, or whole again.
    pub fn change_link(&mut self, now_ns: u64, link: &str, up: bool) {
        self.all.iter_mut().for_each(|store| store.change_link(Nanos(now_ns), link, up));
    }

    /// Processor time that nodes and proxies in a guest have used until now.
    pub fn used_ns(&self, guest: usize, now: Nanos) -> u64 {
        self.all.iter().map(|store| store.used_ns(guest, now)).sum()
    }

    /// A datagram is certain to come, of the role that a line is, by its number: whether nothing follows from it, so
    /// that it may be heard later, before anything else is.
    pub fn is_quiet(&mut self, role: usize, number: u64) -> bool {
        let of_role = self.all.iter_mut().find(|store| store.has_line(role));
        of_role.is_some_and(|store| store.is_quiet(number))
    }

    /// What came of what a role did, told at the end.
    pub fn counters(&self, role: usize) -> Vec<(&'static str, u64)> {
        let client = self.of_client(role);
        client.map(|(place, peer)| self.all[place].counters(peer)).unwrap_or_default()
    }
}
