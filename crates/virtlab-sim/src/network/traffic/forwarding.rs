//! Guests forward: packets by the longest prefix, or frames as they are from one of their two vNICs to the other.

use crate::ip::{self, Cargo, Packet};
use crate::network::frames::{Incoming, Outgoing};
use crate::network::platform::flights::Flight;
use crate::network::platform::service::Admission;
use crate::network::whole::Network;
use virtlab_wire::ethernet::HEADER_BYTES;

impl Network {
    pub(super) fn forward_packet(&mut self, guest: usize, packet: Packet, incoming: Incoming) {
        let Some((nic, hop)) = self.guests.hosts.next_hop(guest, packet.to) else { return };
        let Some(destination) = self.guests.hosts.mac_of(hop) else { return };
        let message = incoming.cargo.message;
        let out = Outgoing {
            cargo: Cargo { message, ip: Some(Packet { hops_left: packet.hops_left - 1, ..packet }) },
            source: self.edge.nics[nic].given.mac,
            destination,
            bytes: incoming.bytes,
            flow: incoming.flow,
            socket: None,
            counted: false,
            amid: false,
        };
        self.serve(guest, incoming.nic, nic, out);
    }

    /// Out of the vNIC behind which its address lies; what lies where it came from is not sent back.
    pub(super) fn forward_frame(&mut self, guest: usize, incoming: Incoming) {
        let Incoming { nic: from, source, destination, bytes, flow, cargo } = incoming;
        let known = self.guests.hosts.bridged(guest, from, source, destination);
        let nics = &self.edge.nics;
        let other = || (0..nics.len()).find(|nic| nics[*nic].given.guest == guest && *nic != from);
        let Some(to) = known.or_else(other).filter(|to| *to != from) else { return };
        let out =
            Outgoing { cargo, source, destination, bytes, flow, socket: None, counted: false, amid: false };
        self.serve(guest, from, to, out);
    }

    /// Has a guest forward a frame from one of its vNICs through another, when it comes to it.
    fn serve(&mut self, guest: usize, from: usize, to: usize, out: Outgoing) {
        let Some(given) = self.platform.costs.as_ref().and_then(|costs| costs.forwarding(guest)) else {
            return self.go_on(to, out);
        };
        match self.platform.service.admit(guest, (to, out), &given, self.now_ns) {
            Admission::Refused => self.edge.nics[from].traffic.overflows += 1,
            Admission::Waits => {}
            Admission::Rouses(0) => self.roused(guest),
            Admission::Rouses(after_ns) => self.fly(self.now_ns + after_ns, Flight::Roused(guest)),
        }
    }

    /// A guest is ready for its next frame.
    pub(super) fn roused(&mut self, guest: usize) {
        self.platform.service.queue_up(guest);
        self.take_turns();
    }

    fn take_turns(&mut self) {
        let mut place = 0;
        while let Some((at_ns, flight)) = self.platform.next_turn(&mut place, self.now_ns) {
            self.fly(at_ns, flight);
        }
    }

    /// A guest has forwarded a frame.
    pub(super) fn forwarded(&mut self, guest: usize, to: usize, out: Outgoing) {
        self.platform.service.done(guest, self.now_ns);
        self.take_turns();
        self.go_on(to, out);
    }

    /// On through a vNIC; a router cuts a packet that is longer than its MTU into fragments, where it may. Segments
    /// that have come together continue together if the vNIC takes them so; too long ones are dropped together, and
    /// their sender told once.
    fn go_on(&mut self, nic: usize, out: Outgoing) {
        let mtu_bytes = self.edge.nics[nic].given.mtu_bytes;
        if let (Some(parts), Some(packet)) = (self.packets.parts_of(&out.cargo.message), out.cargo.ip) {
            let fits = parts.longest_bytes(&packet) <= mtu_bytes;
            if fits && self.lets_together(nic) {
                let ready = self.ready(nic, out.bytes, None);
                self.put_resolved(nic, &out, ready);
            } else if fits || !self.is_too_long(nic, &packet, &out.cargo.message) {
                for part in self.packets.cut(&out, parts) {
                    self.go_on(nic, part);
                }
            }
            return;
        }
        let Some(packet) = out.cargo.ip.filter(|packet| packet.bytes() > mtu_bytes) else {
            let ready = self.ready(nic, out.bytes, None);
            self.put_resolved(nic, &out, ready);
            return;
        };
        if self.is_too_long(nic, &packet, &out.cargo.message) {
            return;
        }
        for body_bytes in ip::fragments(packet.body_bytes, mtu_bytes, packet.to.version(), packet.is_part()) {
            let part = Packet { body_bytes, ..packet };
            let cargo = Cargo { ip: Some(part), ..out.cargo };
            let out = Outgoing { cargo, bytes: HEADER_BYTES + part.bytes(), ..out };
            let ready = self.ready(nic, out.bytes, None);
            self.put_resolved(nic, &out, ready);
        }
    }
}
