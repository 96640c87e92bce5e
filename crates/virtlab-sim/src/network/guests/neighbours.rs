//! What guests know of each other's hardware addresses, and the packets that wait for one.
//!
//! A packet whose next hop is unresolved waits at its vNIC, before the queue discipline, as in Linux: 212,992 B of
//! memory at most for each neighbour, of which the oldest goes first.

use crate::input::{Input, Versions};
use crate::ip::Message;
use crate::ip::addresses::Number;
use crate::ip::neighbour::{Neighbour, REACHABLE_NS, Then};
use crate::network::frames::{Name, Outgoing, memory_bytes, name};
use std::collections::{BTreeMap, VecDeque};
use virtlab_load::random::Stream;

/// Memory of packets that may wait for one neighbour.
const MOST_MEMORY_BYTES: u32 = 212_992;

struct Entry {
    nic: usize,
    hop: Number,
    neighbour: Neighbour,
    waiting: VecDeque<Outgoing>,
    memory_bytes: u32,
}

/// What guests know of each other, by vNIC and next hop; each such pair has a place.
pub struct Neighbours {
    entries: Vec<Entry>,
    places: BTreeMap<(usize, Number), usize>,
    /// By vNIC: how long its answers are believed.
    beliefs: Vec<Stream>,
    /// When a message that had to wait left its vNIC, by who sent it.
    left_ns: BTreeMap<Name, u64>,
}

impl Neighbours {
    /// None where guests know all addresses from the start.
    pub fn new(input: &Input) -> Option<Box<Self>> {
        let seed = input.resolution?.seed;
        let belief = |nic: usize| Stream::new(seed, &format!("neighbours {}", input.vnics[nic].name));
        Some(Box::new(Self {
            entries: Vec::new(),
            places: BTreeMap::new(),
            beliefs: (0..input.vnics.len()).map(belief).collect(),
            left_ns: BTreeMap::new(),
        }))
    }

    /// The place of a next hop behind a vNIC, a new one where it has none yet.
    pub fn place(&mut self, nic: usize, hop: Number) -> usize {
        if let Some(place) = self.places.get(&(nic, hop)) {
            return *place;
        }
        let (place, share) = (self.entries.len(), 0.5 + self.beliefs[nic].uniform());
        let neighbour = Neighbour::believed_for((REACHABLE_NS as f64 * share) as u64);
        self.entries.push(Entry { nic, hop, neighbour, waiting: VecDeque::new(), memory_bytes: 0 });
        self.places.insert((nic, hop), place);
        place
    }

    /// The vNIC and the next hop of a place.
    pub fn of(&self, place: usize) -> (usize, Number) {
        (self.entries[place].nic, self.entries[place].hop)
    }

    /// Places behind a vNIC whose next hops are of some versions of IP.
    pub fn behind(&self, nic: usize, of: Versions) -> Vec<usize> {
        let own = |place: &usize| self.of(*place).0 == nic && of.has(self.of(*place).1.version());
        (0..self.entries.len()).filter(own).collect()
    }

    /// A packet is to be sent.
    pub fn send(&mut self, place: usize, now_ns: u64) -> Then {
        self.entries[place].neighbour.send(now_ns)
    }

    /// An instant of a neighbour has come.
    pub fn alarm(&mut self, place: usize, now_ns: u64) -> Then {
        self.entries[place].neighbour.alarm(now_ns)
    }

    /// A connection gets on, so the next hop is there.
    pub fn confirm(&mut self, place: usize, now_ns: u64) {
        self.entries[place].neighbour.confirm(now_ns);
    }

    /// It has asked, so it is known.
    pub fn heard(&mut self, nic: usize, asker: Number) -> usize {
        let place = self.place(nic, asker);
        self.entries[place].neighbour.heard();
        place
    }

    /// It has answered; its place, where a question was sent.
    pub fn answered(&mut self, nic: usize, hop: Number, now_ns: u64) -> Option<usize> {
        let place = self.places.get(&(nic, hop)).copied()?;
        self.entries[place].neighbour.answered(now_ns);
        Some(place)
    }

    /// What a guest knows of a neighbour is lost.
    pub fn forget(&mut self, place: usize) {
        self.entries[place].neighbour.forget();
    }

    /// A packet waits for an address.
    pub fn hold(&mut self, place: usize, out: Outgoing) {
        let entry = &mut self.entries[place];
        entry.memory_bytes += memory_bytes(out.bytes);
        entry.waiting.push_back(out);
    }

    /// The oldest of the packets that wait, where they take too much memory.
    pub fn overflow(&mut self, place: usize) -> Option<Outgoing> {
        let entry = &mut self.entries[place];
        if entry.memory_bytes <= MOST_MEMORY_BYTES {
            return None;
        }
        let oldest = entry.waiting.pop_front()?;
        entry.memory_bytes -= memory_bytes(oldest.bytes);
        Some(oldest)
    }

    /// All packets that wait, in order; none waits afterwards.
    pub fn release(&mut self, place: usize) -> VecDeque<Outgoing> {
        let entry = &mut self.entries[place];
        entry.memory_bytes = 0;
        std::mem::take(&mut entry.waiting)
    }

    /// A message that had to wait leaves its vNIC.
    pub fn note_left(&mut self, message: &Message, left_ns: u64) {
        self.left_ns.entry(name(message)).or_insert(left_ns);
    }

    /// When a message that had to wait left its vNIC, asked once.
    pub fn left_ns(&mut self, message: &Message) -> Option<u64> {
        self.left_ns.remove(&name(message))
    }
}
