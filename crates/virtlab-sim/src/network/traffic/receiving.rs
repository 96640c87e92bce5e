//! A guest's kernel takes what is its own, and sends on what it forwards.

use crate::ip::Message;
use crate::network::frames::{Incoming, is_noise, is_notice, is_resolution};
use crate::network::whole::Network;
use core::net::IpAddr;

impl Network {
    /// A frame that has come to a vNIC; a message that is whole with it, for this side's role.
    pub fn receive(&mut self, incoming: Incoming) -> Option<Message> {
        let Incoming { nic, destination, bytes, cargo, .. } = incoming;
        let port = &mut self.edge.nics[nic];
        let guest = port.given.guest;
        let hosts = &mut self.guests.hosts;
        let bridging = hosts.is_bridge(guest);
        if is_resolution(&cargo.message) && !bridging {
            self.hear(&incoming);
            return None;
        }
        if is_noise(&cargo.message) && !bridging {
            port.traffic.receive(1, bytes);
            return None;
        }
        let own = cargo.ip.is_some_and(|packet| hosts.addresses(guest).contains(&packet.to));
        let tapped = own && cargo.ip.is_some_and(|packet| packet.tapped);
        let joined = own && destination.is_group();
        if destination.is_group() && !joined && !bridging {
            port.traffic.receive(1, bytes); // as a veth counts it, before the kernel finds that no group of its own is meant
            return None;
        }
        if destination != port.given.mac && !tapped && !joined && !bridging {
            port.traffic.strangers += 1;
            return None;
        }
        port.traffic.receive(1, bytes);
        if bridging {
            self.forward_frame(guest, incoming);
            return None;
        }
        let Some(packet) = cargo.ip else { return Some(cargo.message) };
        if own {
            let whole = hosts.take(guest, &packet, self.now_ns);
            if is_notice(&cargo.message) {
                self.learn(guest, &cargo.message);
                return None;
            }
            // Of a group the message alone does not say who takes it.
            let flow = if joined { guest as u32 } else { cargo.message.flow };
            return whole.then_some(Message { flow, ..cargo.message });
        }
        if hosts.is_router(guest) && packet.hops_left > 1 {
            self.forward_packet(guest, packet, incoming);
        } else {
            port.traffic.strangers += 1;
        }
        None
    }

    /// Whether a message's packet was marked on the way, asked once.
    pub fn was_marked(&mut self, message: &Message) -> bool {
        self.labels.was_marked(message)
    }

    /// A guest takes what is sent to a group.
    pub fn join_group(&mut self, guest: usize, group: IpAddr) {
        self.guests.hosts.join_group(guest, group);
    }

    /// Guest of a vNIC.
    pub fn guest_with(&self, vnic: usize) -> usize {
        self.edge.nics.get(vnic).map_or(0, |nic| nic.given.guest)
    }

    /// A flow of a role ends at a server with that address, beside a vNIC, and not at the role's.
    pub fn end_elsewhere(&mut self, role: usize, flow: u32, vnic: usize, address: IpAddr) {
        let guest = self.guest_with(vnic);
        self.guests.paths.end_elsewhere(role, flow, guest, address);
    }

    /// Whether a side of a role is in a guest, with one of its flows.
    pub fn is_in(&self, role: usize, side: usize, guest: usize) -> bool {
        self.guest_of(role, side) == guest || (side == 1 && self.guests.paths.ends_in(role, guest))
    }

    /// Guest of a role's side.
    pub fn guest_of(&self, role: usize, side: usize) -> usize {
        self.guests.hosts.of_side(role, side)
    }
}
