//! A guest's kernel: takes what is its own, and sends on what it forwards: packets by the longest prefix, or frames as they are
//! from one of its two vNICs to the other.

use super::Network;
use super::noise::is_noise;
use super::paths::is_notice;
use super::resolution::is_resolution;
use super::vnics::{Incoming, Outgoing};
use crate::input::{Bridging, Guest};
use crate::ip::addresses::Number;
use crate::ip::{self, Cargo, Message, Packet, Reassembly};

pub(super) struct Host {
    pub(super) given: Guest,
    pub(super) reassembly: Reassembly,
    /// Its addresses.
    pub(super) own: Vec<Number>,
    /// Of a guest that forwards frames.
    pub(super) bridging: Option<Bridging>,
}

impl Network {
    /// A frame that has come to a vNIC; a message that is whole with it, for this side's role.
    pub fn receive(&mut self, incoming: Incoming) -> Option<Message> {
        let Incoming { nic, destination, bytes, cargo, .. } = incoming;
        let guest = self.nics[nic].given.guest;
        let host = &mut self.hosts[guest];
        if is_resolution(&cargo.message) && host.bridging.is_none() {
            self.hear(&incoming);
            return None;
        }
        let port = &mut self.nics[nic];
        if is_noise(&cargo.message) && host.bridging.is_none() {
            port.traffic.received_packets += 1;
            port.traffic.received_bytes += u64::from(bytes);
            return None;
        }
        let own = cargo.ip.is_some_and(|packet| host.own.contains(&packet.to));
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
            let whole = host.reassembly.take(&packet, self.now_ns);
            if is_notice(&cargo.message) {
                self.learn(guest, &cargo.message);
                return None;
            }
            return whole.then_some(cargo.message);
        }
        if host.given.forwards && packet.hops_left > 1 {
            self.forward_packet(guest, packet, incoming);
        } else {
            self.nics[nic].traffic.strangers += 1;
        }
        None
    }

    fn forward_packet(&mut self, guest: usize, packet: Packet, incoming: Incoming) {
        let Some((nic, hop)) = self.next_hop(guest, packet.to) else { return };
        let Some(destination) = self.neighbours.get(&hop).copied() else { return };
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
        let Some(bridging) = &mut self.hosts[guest].bridging else { return };
        if bridging.learns {
            bridging.ways.insert(source, from);
        }
        let known = bridging.ways.get(&destination).copied();
        let other = || (0..self.nics.len()).find(|nic| self.nics[*nic].given.guest == guest && *nic != from);
        let Some(to) = known.or_else(other).filter(|to| *to != from) else { return };
        let out = Outgoing { cargo, source, destination, bytes, flow, socket: None, counted: false };
        self.serve(guest, from, to, out);
    }

    /// Through which vNIC, and to whom, a packet to an address goes from a guest.
    pub(super) fn next_hop(&self, guest: usize, to: Number) -> Option<(usize, Number)> {
        let route = ip::route(&self.hosts[guest].given.routes, self.book.address(to))?;
        let hop = match route.via {
            Some(via) => self.book.find(via)?,
            None => to,
        };
        Some((route.vnic, hop))
    }
}
