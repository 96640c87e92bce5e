//! A guest's kernel: takes what is its own, and sends on what it forwards: packets by the longest prefix, or frames as they are
//! from one of its two vNICs to the other.

use super::Network;
use super::vnics::{Incoming, Outgoing};
use crate::input::Guest;
use crate::ip::{self, Cargo, Message, Packet, Reassembly};
use core::net::Ipv4Addr;
use std::collections::BTreeMap;
use virtlab_fabric::Mac;

pub(super) struct Host {
    pub(super) given: Guest,
    pub(super) reassembly: Reassembly,
    /// Of a guest that forwards frames: by address, through which vNIC.
    pub(super) bridging: Option<BTreeMap<Mac, usize>>,
}

impl Network {
    /// A frame that has come to a vNIC; a message that is whole with it, for this side's role.
    pub fn receive(&mut self, incoming: Incoming) -> Option<Message> {
        let Incoming { nic, destination, bytes, cargo, .. } = incoming;
        let guest = self.nics[nic].given.guest;
        let host = &mut self.hosts[guest];
        let port = &mut self.nics[nic];
        let own = cargo.ip.is_some_and(|packet| host.given.addresses.contains(&packet.to));
        let tapped = own && cargo.ip.is_some_and(|packet| packet.tapped);
        if destination != port.given.mac && !tapped && host.bridging.is_none() {
            port.traffic.strangers += 1;
            return None;
        }
        port.traffic.received_packets += 1;
        port.traffic.received_bytes += u64::from(bytes);
        if host.bridging.is_some() {
            self.forward_frame(guest, incoming);
            return None;
        }
        let Some(packet) = cargo.ip else { return Some(cargo.message) };
        if own {
            return host.reassembly.take(&packet, self.now_ns).then_some(cargo.message);
        }
        if host.given.forwards && packet.hops_left > 1 {
            self.forward_packet(guest, packet, incoming);
        } else {
            self.nics[nic].traffic.strangers += 1;
        }
        None
    }

    fn forward_packet(&mut self, guest: usize, packet: Packet, incoming: Incoming) {
        let Some((nic, destination)) = self.next_hop(guest, packet.to) else { return };
        let message = incoming.cargo.message;
        let out = Outgoing {
            cargo: Cargo { message, ip: Some(Packet { hops_left: packet.hops_left - 1, ..packet }) },
            source: self.nics[nic].given.mac,
            destination,
            bytes: incoming.bytes,
            flow: incoming.flow,
            socket: None,
            counted: false,
        };
        self.serve(guest, incoming.nic, nic, out);
    }

    /// Out of the vNIC behind which its address lies; what lies where it came from is not sent back.
    fn forward_frame(&mut self, guest: usize, incoming: Incoming) {
        let Incoming { nic: from, source, destination, bytes, flow, cargo } = incoming;
        let known = self.hosts[guest].bridging.as_ref().and_then(|ways| ways.get(&destination)).copied();
        let other = || (0..self.nics.len()).find(|nic| self.nics[*nic].given.guest == guest && *nic != from);
        let Some(to) = known.or_else(other).filter(|to| *to != from) else { return };
        let out = Outgoing { cargo, source, destination, bytes, flow, socket: None, counted: false };
        self.serve(guest, from, to, out);
    }

    pub(super) fn next_hop(&self, guest: usize, to: Ipv4Addr) -> Option<(usize, Mac)> {
        let route = ip::route(&self.hosts[guest].given.routes, to)?;
        Some((route.vnic, *self.neighbours.get(&route.via.unwrap_or(to))?))
    }
}
