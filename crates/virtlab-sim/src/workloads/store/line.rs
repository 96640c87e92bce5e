//! What two peers of a store say to each other: a TCP connection that stays, and datagrams beside it.
//!
//! When a node fails, its connections are gone at both ends, and what was under way on them. Nothing is sent to it
//! until it is healed: what one would see of that are SYNs without an answer.

use super::settling::hear;
use crate::input::{Finding, Role, unreachable};
use crate::ip::Message as Packet;
use crate::network::{Network, SOCKET_BYTES};
use crate::samples::Table;
use crate::tcp::{Flow, Wishes};
use crate::workloads::workload::{Counters, Workload};
use std::collections::VecDeque;
use virtlab_load::Transport;
use virtlab_store::Message;
use virtlab_wire::Nanos;

/// What goes in bulk between two peers.
#[derive(Default)]
struct InBulk {
    /// Of each end: the way of what it sends; none: it sends packets.
    ways: Option<[usize; 2]>,
    /// What waits for the connection, and what has yet to come.
    unsent: [VecDeque<Message>; 2],
    coming: [VecDeque<Message>; 2],
}

/// Of two peers: end 0 is the later one, and connects.
pub struct Line {
    /// Its store, and its number among the lines there.
    place: (usize, usize),
    peers: [usize; 2],
    role: usize,
    flow: Flow,
    datagrams: [usize; 2],
    connected: bool,
    /// Which one the connection is, of all that the two have had.
    number: u32,
    /// Of each end: octets that the other has when a message is whole, and the message.
    sent: [VecDeque<(u64, Message)>; 2],
    /// Of each end: octets of all messages so far, and of those that the connection has taken.
    said_bytes: [u64; 2],
    written_bytes: [u64; 2],
    in_bulk: InBulk,
}

/// Messages of so many octets go in bulk.
const BULK_BYTES: u64 = 1_000_000;
/// The generation of a tick at which something that was sent in bulk has come: none of the connection's.
const IN_BULK: u32 = 0;

/// Whether a message goes in bulk: a copy that is made again, or much content.
fn is_bulk(message: &Message) -> bool {
    matches!(message, Message::Pulled(_, _, Some(_))) || message.bytes() >= BULK_BYTES
}

impl Line {
    pub fn new(
        place: (usize, usize),
        peers: [usize; 2],
        index: usize,
        role: &Role,
        network: &mut Network,
    ) -> Result<Self, Finding> {
        let flow = Flow::new(index, 0, role, Wishes { no_delay: true, ..Wishes::default() }, network)?;
        let [near, far] = &role.ends;
        let mut open = |from: usize, here, to| {
            network
                .socket(from, here, to, Transport::Udp, 10_000 + index as u16, SOCKET_BYTES)
                .ok_or_else(|| unreachable(role))
        };
        let (Some(here), Some(there)) = (near.address, far.address) else { return Err(unreachable(role)) };
        let datagrams = [open(near.vnic, here, there)?, open(far.vnic, there, here)?];
        Ok(Self {
            place,
            peers,
            role: index,
            flow,
            datagrams,
            connected: false,
            number: 0,
            sent: Default::default(),
            said_bytes: [0; 2],
            written_bytes: [0; 2],
            in_bulk: InBulk::default(),
        })
    }

    /// Contents go in bulk from now on, over these lines from each end to the other.
    pub fn go_in_bulk(&mut self, [there, back]: [Vec<usize>; 2], role: &Role, network: &mut Network) {
        let [near, far] = [role.ends[0].vnic, role.ends[1].vnic];
        if !there.is_empty() && !back.is_empty() {
            self.in_bulk.ways =
                Some([network.bulk_way(there, [near, far]), network.bulk_way(back, [far, near])]);
        }
    }

    /// Nothing is left of the connection, nor of what was said over it and has not come.
    fn renew(&mut self, network: &mut Network) {
        self.flow.renew();
        self.connected = false;
        (self.sent, self.said_bytes, self.written_bytes) = Default::default();
        if self.in_bulk.ways.is_some() {
            (self.in_bulk.unsent, self.in_bulk.coming) = Default::default();
            network.forget_bulk(self.role);
        }
    }

    /// Whether the two have a connection, or may have one; what was said before one of them failed does not come.
    fn is_there(&mut self, network: &mut Network) -> bool {
        let Some(number) = network.servers.stores.at(self.place.0).connection(self.peers) else {
            return false;
        };
        if number != self.number {
            self.number = number;
            self.renew(network);
        }
        true
    }

    /// An end says something over the connection. One that was not answered is given up, with what waited for it.
    fn say(&mut self, side: usize, message: Message, network: &mut Network) {
        if self.flow.end(0).has_given_up() {
            self.renew(network);
        }
        self.said_bytes[side] += message.bytes();
        self.sent[side].push_back((self.said_bytes[side], message));
        self.go(side, network);
    }

    /// What an end has to say goes, once there is a connection.
    fn go(&mut self, side: usize, network: &mut Network) {
        if !self.connected {
            self.connected = true;
            self.flow.connect(network);
        }
        self.write(side, network);
    }

    /// An end says something in bulk.
    fn say_in_bulk(&mut self, side: usize, message: Message, network: &mut Network) {
        if self.flow.end(0).has_given_up() {
            self.renew(network);
        }
        self.in_bulk.unsent[side].push_back(message);
        self.go(side, network);
    }

    /// Whether a message goes in bulk: one with much content, and what is said behind it.
    fn goes_in_bulk(&self, side: usize, message: &Message, network: &Network) -> bool {
        let follows = || !self.in_bulk.unsent[side].is_empty() || network.transfers().sends(self.role, side);
        self.in_bulk.ways.is_some() && (is_bulk(message) || follows())
    }

    /// What was sent in bulk to an end has come.
    fn arrive(&mut self, side: usize, network: &mut Network) {
        while network.has_come_in_bulk(self.role, side)
            && let Some(message) = self.in_bulk.coming[1 - side].pop_front()
        {
            hear(self.place.0, self.peers[side], self.peers[1 - side], message, network);
        }
        self.called(network);
    }

    /// An end says something in a datagram of that number.
    fn throw(&self, side: usize, number: u64, bytes: u64, network: &mut Network) {
        let packet = Packet {
            role: self.role as u32,
            origin: side as u8,
            reply: true,
            flow: 0,
            seq: number,
            sent_ns: network.now_ns,
            payload_bytes: bytes as u32,
        };
        network.send_later(self.datagrams[side], packet);
    }

    /// What an end has said goes to its connection, once that is there.
    fn write(&mut self, side: usize, network: &mut Network) {
        let left = self.said_bytes[side] - self.written_bytes[side];
        if left > 0 && self.flow.end(side).is_open() {
            self.written_bytes[side] += left;
            self.flow.write(side, left, network);
        }
        if let Some(ways) = self.in_bulk.ways.filter(|_| self.flow.end(side).is_open()) {
            while let Some(message) = self.in_bulk.unsent[side].pop_front() {
                let load = self.flow.load_of(message.bytes());
                self.in_bulk.coming[side].push_back(message);
                network.send_bulk((self.role, side), ways[side], load);
                self.flow.acknowledge_beside(side, network);
            }
        }
    }

    /// What an end has whole.
    fn whole(&mut self, side: usize) -> Option<Message> {
        let received = self.flow.end(side).received_bytes();
        let sent = &mut self.sent[1 - side];
        sent.front().filter(|(bytes, _)| *bytes <= received)?;
        sent.pop_front().map(|(_, message)| message)
    }
}

impl Workload for Line {
    fn start(&mut self, _network: &mut Network) {}

    /// Its peers have something to say.
    fn called(&mut self, network: &mut Network) {
        let (store, line) = self.place;
        let there = self.is_there(network);
        while let Some((side, message)) = network.servers.stores.at(store).said(line) {
            if !there {
                continue;
            }
            let own = network.servers.stores.at(store);
            if own.is_datagram(&message) {
                let bytes = message.bytes();
                let number = own.throw(message);
                self.throw(side, number, bytes, network);
            } else if self.goes_in_bulk(side, &message, network) {
                self.say_in_bulk(side, message, network);
            } else {
                self.say(side, message, network);
            }
        }
    }

    fn tick(&mut self, side: usize, generation: u32, network: &mut Network) {
        if !self.is_there(network) {
            return;
        }
        if generation == IN_BULK {
            self.arrive(side, network);
            return;
        }
        self.flow.alarm(side, network);
    }

    fn take(&mut self, packet: Packet, network: &mut Network) {
        let store = self.place.0;
        if !self.is_there(network) {
            return;
        }
        if packet.reply {
            let side = 1 - usize::from(packet.origin);
            if let Some(message) = network.servers.stores.at(store).caught(packet.seq) {
                hear(store, self.peers[side], self.peers[1 - side], message, network);
            }
            return;
        }
        let side = self.flow.take(packet, network);
        self.write(side, network);
        while let Some(message) = self.whole(side) {
            hear(store, self.peers[side], self.peers[1 - side], message, network);
        }
        self.called(network);
        self.flow.pump(side, network);
    }

    fn take_quiet(&mut self, packet: Packet, network: &mut Network) {
        let (place, now) = (self.place.0, Nanos(network.now_ns));
        if !self.is_there(network) {
            return;
        }
        let side = 1 - usize::from(packet.origin);
        let store = network.servers.stores.at(place);
        if let Some(message) = store.caught(packet.seq) {
            store.hear(now, self.peers[side], self.peers[1 - side], message);
        }
    }

    fn path_changed(&mut self, side: usize, network: &mut Network) {
        self.flow.pump(side, network);
    }

    fn stop(&mut self, _network: &mut Network) {}

    fn finished(&self) -> bool {
        true
    }

    fn report(&self, _stream: &str) -> (Vec<Table>, Counters) {
        Default::default()
    }
}
