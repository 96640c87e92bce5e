//! Asking for hardware addresses: ARP (RFC 826) and neighbour solicitation (RFC 4861) as frames on the wire.
//!
//! The question is a broadcast, or a multicast to the group of the address that is sought, so switches flood it and
//! learn where the asker is; the answer goes to the asker alone. Addresses do not change while a world is played. So a
//! packet carries from the start the hardware address that the answer will give, and what is played is when it may go.

use crate::agenda::Due;
use crate::input::Versions;
use crate::ip::addresses::Number;
use crate::ip::neighbour::{Ask, Then};
use crate::ip::{Cargo, Message};
use crate::network::frames::{Incoming, NEIGHBOURS, Outgoing, head};
use crate::network::whole::Network;
use core::net::IpAddr;
use virtlab_fabric::{Mac, flow_hash};
use virtlab_load::size::IpVersion;

/// A question or an answer in ARP, header of the frame included.
const ARP_BYTES: u32 = 42;
/// A solicitation or advertisement that says its sender's hardware address, and an advertisement that does not.
const NDP_BYTES: u32 = 86;
const NDP_SHORT_BYTES: u32 = 78;
const ICMPV6: u8 = 58;

impl Network {
    /// Through a vNIC when its next hop is known, behind its queue discipline's back until then; when it leaves, or
    /// now.
    pub(super) fn put_resolved(&mut self, nic: usize, out: &Outgoing, ready_ns: u64) -> u64 {
        let packet = out.cargo.ip.filter(|packet| !packet.tapped && !out.destination.is_group());
        let (Some(neighbours), Some(packet)) = (&mut self.guests.neighbours, packet) else {
            return self.put(nic, out, ready_ns);
        };
        let guest = self.edge.nics[nic].given.guest;
        let Some((_, hop)) = self.guests.hosts.next_hop(guest, packet.to) else { return ready_ns };
        let place = neighbours.place(nic, hop);
        let then = neighbours.send(place, self.now_ns);
        if then.usable {
            self.follow_up(place, then);
            return self.put(nic, out, ready_ns);
        }
        neighbours.hold(place, *out);
        if let Some(socket) = out.socket {
            self.sockets[socket].room.hold(1, out.bytes);
        }
        while let Some(oldest) = self.guests.neighbours.as_mut().and_then(|own| own.overflow(place)) {
            self.lose(nic, &oldest);
        }
        self.follow_up(place, then);
        ready_ns
    }

    /// An instant of a neighbour has come.
    pub fn look_after(&mut self, place: usize) {
        let Some(neighbours) = &mut self.guests.neighbours else { return };
        let then = neighbours.alarm(place, self.now_ns);
        if then.failed {
            self.give_up(place);
        }
        self.follow_up(place, then);
    }

    /// A connection of this socket gets on, so its next hop is there.
    pub fn confirm(&mut self, socket: usize) {
        let Some(neighbours) = &mut self.guests.neighbours else { return };
        let (nic, to) = (self.sockets[socket].nic, self.sockets[socket].ip);
        let guest = self.edge.nics[nic].given.guest;
        if let Some((_, hop)) = to.and_then(|to| self.guests.hosts.next_hop(guest, to)) {
            let place = neighbours.place(nic, hop);
            neighbours.confirm(place, self.now_ns);
        }
    }

    /// When a message's first frame left its vNIC: `otherwise`, unless it had to wait for an address.
    pub fn left_ns(&mut self, message: &Message, otherwise: u64) -> u64 {
        self.guests.neighbours.as_mut().and_then(|own| own.left_ns(message)).unwrap_or(otherwise)
    }

    /// A question or an answer has come to a vNIC.
    pub(super) fn hear(&mut self, incoming: &Incoming) {
        let Incoming { nic, source, destination, bytes, cargo, .. } = *incoming;
        let port = &mut self.edge.nics[nic];
        let mac = port.given.mac;
        if destination != mac && !destination.is_group() {
            port.traffic.strangers += 1;
            return;
        }
        port.traffic.receive(1, bytes);
        let (asker, wanted) =
            (Number::of_bits(cargo.message.flow), Number::of_bits(cargo.message.seq as u32));
        let Some(neighbours) = &mut self.guests.neighbours else { return };
        if cargo.message.reply {
            if let Some(place) = neighbours.answered(nic, wanted, self.now_ns) {
                self.flush(place);
            }
        } else if self.guests.hosts.mac_of(wanted) == Some(mac) {
            let place = neighbours.heard(nic, asker);
            self.flush(place);
            let bytes = match wanted.version() {
                IpVersion::V4 => ARP_BYTES,
                IpVersion::V6 if destination.is_group() => NDP_BYTES,
                IpVersion::V6 => NDP_SHORT_BYTES,
            };
            let answer = Message { reply: true, ..cargo.message };
            self.say(nic, source, bytes, answer, [wanted, asker]);
        }
    }

    fn follow_up(&mut self, place: usize, then: Then) {
        if let Some(at_ns) = then.alarm_ns {
            self.agenda.plan(at_ns, Due::LookAfter(place));
        }
        if let (Some(whom), Some(neighbours)) = (then.ask, &self.guests.neighbours) {
            let (nic, hop) = neighbours.of(place);
            self.ask(nic, hop, whom);
        }
    }

    fn ask(&mut self, nic: usize, wanted: Number, whom: Ask) {
        let given = &self.edge.nics[nic].given;
        let hosts = &self.guests.hosts;
        let Some(asker) = hosts.asker(given.guest, given.mac, wanted) else { return };
        let (destination, bytes) = match (whom, hosts.address(wanted)) {
            (Ask::Itself, IpAddr::V4(_)) => (hosts.mac_of(wanted), ARP_BYTES),
            (Ask::Itself, IpAddr::V6(_)) => (hosts.mac_of(wanted), NDP_BYTES),
            (Ask::Everybody, IpAddr::V4(_)) => (Some(Mac::BROADCAST), ARP_BYTES),
            (Ask::Everybody, IpAddr::V6(address)) => {
                let [.., high, middle, low] = address.octets();
                (Some(Mac([0x33, 0x33, 0xff, high, middle, low])), NDP_BYTES)
            }
        };
        let Some(destination) = destination else { return };
        let question = Message {
            role: NEIGHBOURS,
            origin: 0,
            reply: false,
            flow: asker.bits(),
            seq: u64::from(wanted.bits()),
            sent_ns: self.now_ns,
            payload_bytes: 0,
        };
        self.say(nic, destination, bytes, question, [asker, wanted]);
    }

    fn say(&mut self, nic: usize, destination: Mac, bytes: u32, message: Message, [from, to]: [Number; 2]) {
        let source = self.edge.nics[nic].given.mac;
        let hosts = &self.guests.hosts;
        let flow = match (hosts.address(from), hosts.address(to)) {
            (from @ IpAddr::V6(_), to @ IpAddr::V6(_)) => {
                self.labels.flow_of(&head(from, to, ICMPV6, [0, 0], false))
            }
            _ => flow_hash(&[&destination.0[..], &source.0, &[0x08, 0x06]].concat()),
        };
        let cargo = Cargo { message, ip: None };
        let out =
            Outgoing { cargo, source, destination, bytes, flow, socket: None, counted: false, amid: false };
        let ready = self.ready(nic, bytes, None);
        self.put(nic, &out, ready);
    }

    /// What waited for a neighbour goes, in order.
    fn flush(&mut self, place: usize) {
        let Some(neighbours) = &mut self.guests.neighbours else { return };
        let (nic, _) = neighbours.of(place);
        for out in neighbours.release(place) {
            self.release_held(&out);
            let left_ns = self.put(nic, &out, self.now_ns);
            let Some(socket) = out.socket else { continue };
            let message = &out.cargo.message;
            if let Some(neighbours) = self.guests.neighbours.as_mut().filter(|_| !message.reply) {
                neighbours.note_left(message, left_ns);
            }
            self.refill(socket);
        }
    }

    fn give_up(&mut self, place: usize) {
        let Some(neighbours) = &mut self.guests.neighbours else { return };
        let (nic, _) = neighbours.of(place);
        for out in neighbours.release(place) {
            self.lose(nic, &out);
        }
    }

    /// A guest forgets its neighbours of some versions of IP, except those that were set.
    pub fn forget_neighbours_of(&mut self, guest: usize, of: Versions) {
        for nic in self.edge.of_guest(guest) {
            self.forget_neighbours(nic, of);
        }
    }

    /// What a guest knows of its neighbours by way of a vNIC is lost, with what waits for them.
    pub(super) fn forget_neighbours(&mut self, nic: usize, of: Versions) {
        let Some(neighbours) = &self.guests.neighbours else { return };
        for place in neighbours.behind(nic, of) {
            self.give_up(place);
            if let Some(neighbours) = &mut self.guests.neighbours {
                neighbours.forget(place);
            }
        }
    }

    fn lose(&mut self, nic: usize, out: &Outgoing) {
        self.edge.nics[nic].traffic.unresolved += 1;
        self.release_held(out);
        if let Some(socket) = out.socket {
            self.refill(socket);
        }
    }

    fn release_held(&mut self, out: &Outgoing) {
        if let Some(socket) = out.socket {
            self.sockets[socket].room.give(1, out.bytes);
        }
    }
}
