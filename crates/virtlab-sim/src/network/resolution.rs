//! Asking for hardware addresses: ARP (RFC 826) and neighbour solicitation (RFC 4861) as frames on the wire.
//!
//! A packet whose next hop is unresolved waits at its vNIC, before the queue discipline, as in Linux: 212,992
//! B of memory at most for each neighbour, of which the oldest goes first. The question is a broadcast, or a
//! multicast to the group of the address that is sought, so switches flood it and learn where the asker is; the
//! answer goes to the asker alone. Addresses do not change while a world is played. So a packet carries from the
//! start the hardware address that the answer will give, and what is played is when it may go.

use super::Network;
use super::vnics::{Incoming, Outgoing};
use crate::agenda::Due;
use crate::input::{Input, Versions};
use crate::ip::addresses::Number;
use crate::ip::neighbour::{Ask, Neighbour, REACHABLE_NS, Then};
use crate::ip::{Cargo, Message};
use core::net::IpAddr;
use std::collections::{BTreeMap, VecDeque};
use virtlab_fabric::{Mac, flow_hash};
use virtlab_load::random::Stream;
use virtlab_load::size::IpVersion;

/// Pseudo-role of neighbours' questions and answers.
const NOBODY: u32 = u32::MAX;
/// A question or an answer in ARP, header of the frame included.
const ARP_BYTES: u32 = 42;
/// A solicitation or advertisement that says its sender's hardware address, and an advertisement that does not.
const NDP_BYTES: u32 = 86;
const NDP_SHORT_BYTES: u32 = 78;
/// Memory of packets that may wait for one neighbour.
const MOST_MEMORY_BYTES: u32 = 212_992;
const ICMPV6: u8 = 58;

struct Entry {
    nic: usize,
    hop: Number,
    neighbour: Neighbour,
    waiting: VecDeque<Outgoing>,
    memory_bytes: u32,
}

/// What guests know of each other.
pub(super) struct Resolution {
    entries: Vec<Entry>,
    places: BTreeMap<(usize, Number), usize>,
    /// By vNIC: how long its answers are believed.
    beliefs: Vec<Stream>,
    /// When a message that had to wait left its vNIC, by who sent it: role, side, flow, number.
    left_ns: BTreeMap<(u32, u8, u32, u64), u64>,
}

impl Resolution {
    pub(super) fn new(input: &Input) -> Option<Box<Self>> {
        let seed = input.resolution?.seed;
        let belief = |nic: usize| Stream::new(seed, &format!("neighbours {}", input.vnics[nic].name));
        Some(Box::new(Self {
            entries: Vec::new(),
            places: BTreeMap::new(),
            beliefs: (0..input.vnics.len()).map(belief).collect(),
            left_ns: BTreeMap::new(),
        }))
    }

    fn place(&mut self, nic: usize, hop: Number) -> usize {
        if let Some(place) = self.places.get(&(nic, hop)) {
            return *place;
        }
        let (place, share) = (self.entries.len(), 0.5 + self.beliefs[nic].uniform());
        let neighbour = Neighbour::believed_for((REACHABLE_NS as f64 * share) as u64);
        self.entries.push(Entry { nic, hop, neighbour, waiting: VecDeque::new(), memory_bytes: 0 });
        self.places.insert((nic, hop), place);
        place
    }
}

/// Whether a frame is a question or an answer.
pub(super) fn is_resolution(message: &Message) -> bool {
    message.role == NOBODY
}

/// Memory that Linux counts for a frame: a power of two with its header and 320 B beside it, and 256 B.
const fn memory_bytes(frame_bytes: u32) -> u32 {
    let block = (frame_bytes + 384).next_power_of_two();
    256 + if block < 512 { 512 } else { block }
}

impl Network {
    /// Through a vNIC when its next hop is known, behind its queue discipline's back until then; when it leaves, or
    /// now.
    pub(super) fn put_resolved(&mut self, nic: usize, out: Outgoing, ready_ns: u64) -> u64 {
        let packet = out.cargo.ip.filter(|packet| !packet.tapped);
        let (Some(_), Some(packet)) = (&self.resolution, packet) else { return self.put(nic, out, ready_ns) };
        let Some((_, hop)) = self.next_hop(self.nics[nic].given.guest, packet.to) else { return ready_ns };
        let Some(own) = &mut self.resolution else { return ready_ns };
        let place = own.place(nic, hop);
        let then = own.entries[place].neighbour.send(self.now_ns);
        if !then.usable {
            let entry = &mut own.entries[place];
            entry.memory_bytes += memory_bytes(out.bytes);
            entry.waiting.push_back(out);
            if let Some(socket) = out.socket {
                self.sockets[socket].held_bytes += u64::from(out.bytes);
            }
            self.make_room(place);
        }
        self.follow_up(place, then);
        if then.usable { self.put(nic, out, ready_ns) } else { ready_ns }
    }

    /// An instant of a neighbour has come.
    pub fn look_after(&mut self, place: usize) {
        let Some(own) = &mut self.resolution else { return };
        let then = own.entries[place].neighbour.alarm(self.now_ns);
        if then.failed {
            self.give_up(place);
        }
        self.follow_up(place, then);
    }

    /// A connection of this socket gets on, so its next hop is there.
    pub fn confirm(&mut self, socket: usize) {
        let (nic, to) = (self.sockets[socket].nic, self.sockets[socket].ip);
        if self.resolution.is_none() {
            return;
        }
        let hop = to.and_then(|to| self.next_hop(self.nics[nic].given.guest, to));
        if let (Some((_, hop)), Some(own)) = (hop, &mut self.resolution) {
            let place = own.place(nic, hop);
            own.entries[place].neighbour.confirm(self.now_ns);
        }
    }

    /// When a message's first frame left its vNIC: `otherwise`, unless it had to wait for an address.
    pub fn left_ns(&mut self, message: &Message, otherwise: u64) -> u64 {
        let name = (message.role, message.origin, message.flow, message.seq);
        self.resolution.as_mut().and_then(|own| own.left_ns.remove(&name)).unwrap_or(otherwise)
    }

    /// A question or an answer has come to a vNIC.
    pub(super) fn hear(&mut self, incoming: &Incoming) {
        let Incoming { nic, source, destination, bytes, cargo, .. } = *incoming;
        let port = &mut self.nics[nic];
        if destination != port.given.mac && !destination.is_group() {
            port.traffic.strangers += 1;
            return;
        }
        port.traffic.received_packets += 1;
        port.traffic.received_bytes += u64::from(bytes);
        let (asker, wanted) =
            (Number::of_bits(cargo.message.flow), Number::of_bits(cargo.message.seq as u32));
        let mac = port.given.mac;
        let Some(own) = &mut self.resolution else { return };
        if cargo.message.reply {
            if let Some(place) = own.places.get(&(nic, wanted)).copied() {
                own.entries[place].neighbour.answered(self.now_ns);
                self.flush(place);
            }
        } else if self.neighbours.get(&wanted) == Some(&mac) {
            let place = own.place(nic, asker);
            own.entries[place].neighbour.heard();
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
        if let (Some(whom), Some(own)) = (then.ask, &self.resolution) {
            let Entry { nic, hop, .. } = own.entries[place];
            self.ask(nic, hop, whom);
        }
    }

    fn ask(&mut self, nic: usize, wanted: Number, whom: Ask) {
        let Some(asker) = self.asker(nic, wanted) else { return };
        let (destination, bytes) = match (whom, self.book.address(wanted)) {
            (Ask::Itself, IpAddr::V4(_)) => (self.neighbours.get(&wanted).copied(), ARP_BYTES),
            (Ask::Itself, IpAddr::V6(_)) => (self.neighbours.get(&wanted).copied(), NDP_BYTES),
            (Ask::Everybody, IpAddr::V4(_)) => (Some(Mac::BROADCAST), ARP_BYTES),
            (Ask::Everybody, IpAddr::V6(address)) => {
                let [.., high, middle, low] = address.octets();
                (Some(Mac([0x33, 0x33, 0xff, high, middle, low])), NDP_BYTES)
            }
        };
        let Some(destination) = destination else { return };
        let question = Message {
            role: NOBODY,
            origin: 0,
            reply: false,
            flow: asker.bits(),
            seq: u64::from(wanted.bits()),
            sent_ns: self.now_ns,
            payload_bytes: 0,
        };
        self.say(nic, destination, bytes, question, [asker, wanted]);
    }

    /// The address of a vNIC under which it asks: one of the same version, in the same network where there is one.
    fn asker(&self, nic: usize, wanted: Number) -> Option<Number> {
        let mac = self.nics[nic].given.mac;
        let host = &self.hosts[self.nics[nic].given.guest];
        let mine = |number: &&Number| {
            number.version() == wanted.version() && self.neighbours.get(*number) == Some(&mac)
        };
        let near = |number: &&Number| {
            let routes = &host.given.routes;
            let way = |to| {
                crate::ip::route(routes, self.book.address(to))
                    .map(|route| (route.network, route.prefix_bits))
            };
            way(**number) == way(wanted)
        };
        host.own.iter().filter(mine).find(near).or_else(|| host.own.iter().find(mine)).copied()
    }

    fn say(&mut self, nic: usize, destination: Mac, bytes: u32, message: Message, [from, to]: [Number; 2]) {
        let source = self.nics[nic].given.mac;
        let flow = match (self.book.address(from), self.book.address(to)) {
            (from @ IpAddr::V6(_), to @ IpAddr::V6(_)) => {
                let head = super::sockets::head(from, to, ICMPV6, [0, 0], false);
                let flow = flow_hash(&head);
                self.headers.insert(flow, virtlab_fabric::headers(&head));
                flow
            }
            _ => flow_hash(&[&destination.0[..], &source.0, &[0x08, 0x06]].concat()),
        };
        let cargo = Cargo { message, ip: None };
        let out = Outgoing { cargo, source, destination, bytes, flow, socket: None, counted: false };
        let ready = self.ready(nic, bytes, None);
        self.put(nic, out, ready);
    }

    /// What waited for a neighbour goes, in order.
    fn flush(&mut self, place: usize) {
        let Some(own) = &mut self.resolution else { return };
        let entry = &mut own.entries[place];
        let nic = entry.nic;
        entry.memory_bytes = 0;
        for out in std::mem::take(&mut entry.waiting) {
            self.release_held(&out);
            let left = self.put(nic, out, self.now_ns);
            let Message { role, origin, flow, seq, reply, .. } = out.cargo.message;
            if let (false, true, Some(own)) = (reply, out.socket.is_some(), &mut self.resolution) {
                own.left_ns.entry((role, origin, flow, seq)).or_insert(left);
            }
            if let Some(socket) = out.socket {
                self.refill(socket);
            }
        }
    }

    fn give_up(&mut self, place: usize) {
        let Some(own) = &mut self.resolution else { return };
        let entry = &mut own.entries[place];
        let nic = entry.nic;
        entry.memory_bytes = 0;
        for out in std::mem::take(&mut entry.waiting) {
            self.lose(nic, &out);
        }
    }

    /// A guest forgets its neighbours of some versions of IP, except those that were set.
    pub fn forget_neighbours_of(&mut self, guest: usize, of: Versions) {
        for nic in (0..self.nics.len()).filter(|nic| self.nics[*nic].given.guest == guest).collect::<Vec<_>>()
        {
            self.forget_neighbours(nic, of);
        }
    }

    /// What a guest knows of its neighbours by way of a vNIC is lost, with what waits for them.
    pub(super) fn forget_neighbours(&mut self, nic: usize, of: Versions) {
        let Some(own) = &self.resolution else { return };
        let places: Vec<usize> = (0..own.entries.len())
            .filter(|place| own.entries[*place].nic == nic && of.has(own.entries[*place].hop.version()))
            .collect();
        for place in places {
            self.give_up(place);
            if let Some(own) = &mut self.resolution {
                own.entries[place].neighbour.forget();
            }
        }
    }

    fn make_room(&mut self, place: usize) {
        while let Some(own) = &mut self.resolution {
            let entry = &mut own.entries[place];
            if entry.memory_bytes <= MOST_MEMORY_BYTES {
                return;
            }
            let (nic, Some(oldest)) = (entry.nic, entry.waiting.pop_front()) else { return };
            entry.memory_bytes -= memory_bytes(oldest.bytes);
            self.lose(nic, &oldest);
        }
    }

    fn lose(&mut self, nic: usize, out: &Outgoing) {
        self.nics[nic].traffic.unresolved += 1;
        self.release_held(out);
        if let Some(socket) = out.socket {
            self.refill(socket);
        }
    }

    fn release_held(&mut self, out: &Outgoing) {
        if let Some(socket) = out.socket {
            self.sockets[socket].held_bytes -= u64::from(out.bytes);
        }
    }
}
