//! A guest's kernel: takes what is its own, sends on what it forwards, by the longest prefix.

use super::Network;
use super::vnics::{Incoming, Outgoing};
use crate::input::Guest;
use crate::ip::{self, Cargo, Message, Packet, Reassembly};
use core::net::Ipv4Addr;
use virtlab_fabric::Mac;

pub(super) struct Host {
    pub(super) given: Guest,
    pub(super) reassembly: Reassembly,
}
impl Network {
    /// A frame that has come to a vNIC; a message that is whole with it, for this side's role.
    pub fn receive(&mut self, incoming: Incoming) -> Option<Message> {
        let Incoming { nic, destination, bytes, flow, cargo } = incoming;
        let port = &mut self.nics[nic];
        if destination != port.given.mac {
            port.traffic.strangers += 1;
            return None;
        }
        port.traffic.received_packets += 1;
        port.traffic.received_bytes += u64::from(bytes);
        let Some(packet) = cargo.ip else { return Some(cargo.message) };
        let guest = port.given.guest;
        let host = &mut self.hosts[guest];
        if host.given.addresses.contains(&packet.to) {
            return host.reassembly.take(&packet, self.now_ns).then_some(cargo.message);
        }
        if host.given.forwards && packet.hops_left > 1 {
            self.forward(guest, packet, cargo.message, bytes, flow);
        } else {
            self.nics[nic].traffic.strangers += 1;
        }
        None
    }

    pub(super) fn forward(&mut self, guest: usize, packet: Packet, message: Message, bytes: u32, flow: u64) {
        let Some((nic, destination)) = self.next_hop(guest, packet.to) else { return };
        let out = Outgoing {
            cargo: Cargo { message, ip: Some(Packet { hops_left: packet.hops_left - 1, ..packet }) },
            source: self.nics[nic].given.mac,
            destination,
            bytes,
            flow,
            socket: None,
            counted: false,
        };
        let ready = self.ready(nic, bytes, None);
        self.put(nic, out, ready);
    }

    pub(super) fn next_hop(&self, guest: usize, to: Ipv4Addr) -> Option<(usize, Mac)> {
        let route = ip::route(&self.hosts[guest].given.routes, to)?;
        Some((route.vnic, *self.neighbours.get(&route.via.unwrap_or(to))?))
    }
}
