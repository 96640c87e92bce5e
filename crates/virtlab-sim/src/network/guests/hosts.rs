//! A guest as IP sees it: its addresses, its routes, what it puts together again; who has which address.

use crate::input::{Bridging, Guest, Input};
use crate::ip::addresses::{Book, Number};
use crate::ip::{self, Packet, Reassembly};
use core::net::IpAddr;
use std::collections::BTreeMap;
use virtlab_fabric::{Mac, Train};

/// A guest.
struct Host {
    given: Guest,
    reassembly: Reassembly,
    /// Its addresses.
    own: Vec<Number>,
    /// The bridge of a guest that forwards frames.
    bridging: Option<Bridging>,
}

/// All guests, and the addresses of the world.
pub struct Hosts {
    all: Vec<Host>,
    book: Book,
    neighbours: BTreeMap<Number, Mac>,
    /// Guests of the roles' sides.
    sides: Vec<[usize; 2]>,
}

impl Hosts {
    pub fn new(input: &Input) -> Self {
        let mut book = Book::default();
        let all = input.guests.iter().enumerate();
        Self {
            all: all
                .map(|(place, guest)| Host {
                    given: guest.clone(),
                    reassembly: Reassembly::default(),
                    own: guest.addresses.iter().map(|address| book.number(*address)).collect(),
                    bridging: input.bridging.iter().find(|each| each.guest == place).cloned(),
                })
                .collect(),
            neighbours: input.neighbours.iter().map(|(address, mac)| (book.number(*address), *mac)).collect(),
            book,
            sides: input
                .roles
                .iter()
                .map(|role| {
                    // A role without traffic has a guest, maybe one without a vNIC.
                    [0, 1]
                        .map(|side: usize| input.vnics.get(role.ends[side].vnic).map_or(0, |vnic| vnic.guest))
                })
                .collect(),
        }
    }

    /// The number of an address, a new one when it has none yet.
    pub fn number(&mut self, address: IpAddr) -> Number {
        self.book.number(address)
    }

    /// The number of an address that has one.
    pub fn find(&self, address: IpAddr) -> Option<Number> {
        self.book.find(address)
    }

    /// The address of a number.
    pub fn address(&self, number: Number) -> IpAddr {
        self.book.address(number)
    }

    /// Who has an address.
    pub fn mac_of(&self, number: Number) -> Option<Mac> {
        self.neighbours.get(&number).copied()
    }

    /// Guest of a role's side.
    pub fn of_side(&self, role: usize, side: usize) -> usize {
        self.sides[role][side]
    }

    /// Addresses of a guest.
    pub fn addresses(&self, guest: usize) -> &[Number] {
        &self.all[guest].own
    }

    /// A guest takes what is sent to a group, as what is sent to itself.
    pub fn join_group(&mut self, guest: usize, group: IpAddr) {
        let number = self.book.number(group);
        self.all[guest].own.push(number);
    }

    /// Whether a guest routes packets.
    pub fn is_router(&self, guest: usize) -> bool {
        self.all[guest].given.forwards
    }

    /// Whether a guest forwards frames as they are.
    pub fn is_bridge(&self, guest: usize) -> bool {
        self.all[guest].bridging.is_some()
    }

    /// Through which of its vNICs a guest that forwards frames sends one on, where it knows; it may learn the source.
    pub fn bridged(&mut self, guest: usize, from: usize, source: Mac, destination: Mac) -> Option<usize> {
        let bridging = self.all[guest].bridging.as_mut()?;
        if bridging.learns {
            bridging.ways.insert(source, from);
        }
        bridging.ways.get(&destination).copied()
    }

    /// From now on a guest that forwards frames sends those to an address through that vNIC of its.
    pub fn direct(&mut self, guest: usize, mac: Mac, nic: usize) {
        if let Some(bridging) = &mut self.all[guest].bridging {
            bridging.ways.insert(mac, nic);
        }
    }

    /// A packet, or a fragment of one, comes to a guest: whether it is whole with it.
    #[inline]
    pub fn take(&mut self, guest: usize, packet: &Packet, at_ns: u64) -> bool {
        self.all[guest].reassembly.take(packet, at_ns)
    }

    /// Fragments of a packet that is not whole with them come to a guest.
    #[inline]
    pub fn take_train(&mut self, guest: usize, packet: &Packet, train: &Train) {
        self.all[guest].reassembly.take_train(packet, train);
    }

    /// Through which vNIC, and to whom, a packet to an address goes from a guest.
    pub fn next_hop(&self, guest: usize, to: Number) -> Option<(usize, Number)> {
        let route = ip::route(&self.all[guest].given.routes, self.book.address(to))?;
        let hop = match route.via {
            Some(via) => self.book.find(via)?,
            None => to,
        };
        Some((route.vnic, hop))
    }

    /// The address of a guest's vNIC under which it asks for another: one of the same version, in the same network
    /// where there is one.
    pub fn asker(&self, guest: usize, mac: Mac, wanted: Number) -> Option<Number> {
        let host = &self.all[guest];
        let mine = |number: &&Number| {
            number.version() == wanted.version() && self.neighbours.get(*number) == Some(&mac)
        };
        let near = |number: &&Number| {
            let way = |to| {
                let route = ip::route(&host.given.routes, self.book.address(to));
                route.map(|route| (route.network, route.prefix_bits))
            };
            way(**number) == way(wanted)
        };
        host.own.iter().filter(mine).find(near).or_else(|| host.own.iter().find(mine)).copied()
    }
}
