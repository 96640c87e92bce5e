//! A vNIC's queue: frames that have to wait until they start, and when the next of them needs an event.
//!
//! All but the last two fragments of a message that goes a certain way are alike and start at even intervals, by the
//! vNIC's bucket. They are in the queue as one. Frames that are in the fabric already stand before all others.

use crate::agenda::Planned;
use crate::network::frames::Outgoing;
use std::collections::VecDeque;
use virtlab_fabric::{PortId, Train};
use virtlab_wire::Nanos;

const NEVER_NS: u64 = u64::MAX;

/// Equal frames in a vNIC's queue: one, or fragments with a certain way that start at even intervals.
#[derive(Clone, Copy, Debug)]
pub struct Waiting {
    /// When the first starts.
    pub at_ns: u64,
    pub step_ns: u64,
    pub count: u32,
    pub out: Outgoing,
}

/// A frame that waits, and is in the fabric already.
#[derive(Clone, Copy, Debug)]
pub struct Early {
    /// When it comes into the queue, and when it starts.
    pub came_ns: u64,
    pub at_ns: u64,
    pub bytes: u32,
    /// Whose room it takes until it starts.
    pub socket: Option<usize>,
    /// The queue behind this one, if it passes that as it starts.
    pub through: Option<usize>,
}

/// Frames that wait, in order. What frames touch that pass it without waiting comes first.
#[repr(C, align(64))]
pub struct Queue {
    frames: VecDeque<Waiting>,
    early: VecDeque<Early>,
    /// Ports for which frames have waited in it.
    ports: Vec<PortId>,
    /// How many frames they are, and how many they may be.
    waiting: u32,
    most_waiting: u32,
    /// Starts of the frames in it that have an event in any case.
    stops: VecDeque<u64>,
    /// The next event, and the one behind it that was planned before it.
    planned_ns: u64,
    planned_behind_ns: u64,
    /// As what the start of its first frame would have been planned, had it an event: when that became the first.
    first: Planned,
    /// Sockets that wait for room.
    blocked: usize,
    /// The packet whose fragments are being sent, and their bytes so far.
    sending: (u64, u32),
}

impl Default for Queue {
    fn default() -> Self {
        Self {
            frames: VecDeque::new(),
            early: VecDeque::new(),
            ports: Vec::new(),
            waiting: 0,
            most_waiting: u32::MAX,
            stops: VecDeque::new(),
            planned_ns: NEVER_NS,
            planned_behind_ns: NEVER_NS,
            first: (0, 0),
            blocked: 0,
            sending: (u64::MAX, 0),
        }
    }
}

impl Queue {
    /// Whether no frame waits that has yet to come into the fabric.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// Whether nothing waits, and nothing has for a port at which others may wait.
    #[inline]
    pub fn is_clear(&self) -> bool {
        self.frames.is_empty() && self.ports.is_empty()
    }

    pub fn len(&self) -> usize {
        self.frames.len()
    }

    /// Frames in it, of which those that are in the fabric already came by an instant.
    pub fn waiting(&self, came_by_ns: u64) -> u32 {
        let early = self.early.iter().filter(|early| early.came_ns <= came_by_ns).count();
        self.waiting + early as u32
    }

    /// Whether so many more frames may wait, behind all that are certain to come.
    #[inline]
    pub fn has_place(&self, more: u32) -> bool {
        (self.waiting + self.early.len() as u32).saturating_add(more) <= self.most_waiting
    }

    /// So many frames may wait.
    pub fn bound(&mut self, most_waiting: u32) {
        self.most_waiting = most_waiting;
    }

    #[inline]
    pub fn front(&self) -> Option<&Waiting> {
        self.frames.front()
    }

    /// When its first frame starts.
    #[inline]
    pub fn first_ns(&self) -> Option<u64> {
        let early = self.early.front().map(|early| early.at_ns);
        early.or(self.frames.front().map(|waiting| waiting.at_ns))
    }

    /// As what the start of its first frame would have been planned.
    #[inline]
    pub fn first_planned(&self) -> Planned {
        self.first
    }

    /// The first of those that are in the fabric already.
    #[inline]
    pub fn first_early(&self) -> Option<&Early> {
        self.early.front()
    }

    /// Puts a frame behind others that are in the fabric as it is. Planned when it comes, it is `planned`, where it is
    /// the first.
    #[inline]
    pub fn push_early(&mut self, early: Early, planned: Planned) {
        if self.early.is_empty() {
            self.first = planned;
        }
        self.early.push_back(early);
    }

    /// The first of them leaves. The next frame, where it waits by then, is planned now; else when it comes.
    #[inline]
    pub fn pop_early(&mut self, planned_at: impl FnOnce(u64) -> Planned) -> Option<Early> {
        let early = self.early.pop_front()?;
        let next_ns = self.early.front().map_or(0, |next| next.came_ns);
        self.first = planned_at(next_ns.max(early.at_ns));
        Some(early)
    }

    /// Puts frames behind the others. Planned now, they are `planned`, where they are the first.
    #[inline]
    pub fn push(&mut self, waiting: Waiting, planned: Planned) {
        if self.frames.is_empty() && self.early.is_empty() {
            self.first = planned;
        }
        self.waiting += waiting.count;
        self.frames.push_back(waiting);
    }

    /// The first frame leaves; the next is planned now, as `planned`.
    #[inline]
    pub fn let_go(&mut self, planned: Planned) {
        self.waiting -= 1;
        match self.frames.front_mut() {
            Some(waiting) if waiting.count > 1 => {
                waiting.at_ns += waiting.step_ns;
                waiting.count -= 1;
            }
            _ => {
                self.frames.pop_front();
            }
        }
        self.first = planned;
    }

    /// So many of the train at the front leave; the next frame is planned now, as `planned`.
    pub fn let_train_go(&mut self, train: &Train, go: u32, planned: Planned) {
        self.waiting -= go;
        if go < train.count {
            let left = train.without(go);
            let waiting = &mut self.frames[0];
            (waiting.at_ns, waiting.count) = (left.at.0, left.count);
        } else {
            self.frames.pop_front();
        }
        self.first = planned;
    }

    /// Ports for which frames have waited in it: how many, and each.
    #[inline]
    pub fn port_count(&self) -> usize {
        self.ports.len()
    }

    /// One of them.
    #[inline]
    pub fn port(&self, place: usize) -> PortId {
        self.ports[place]
    }

    /// Frames wait for a port.
    #[inline]
    pub fn note_port(&mut self, at: PortId) {
        if !self.ports.contains(&at) {
            self.ports.push(at);
        }
    }

    /// Whether a packet of which this is a fragment has more than one to come. A vNIC is sent one packet after the
    /// other.
    #[inline]
    pub fn is_amid(&mut self, out: &Outgoing) -> bool {
        let Some(packet) = out.cargo.ip.filter(|packet| packet.is_part()) else { return false };
        let sending = &mut self.sending;
        let before = if sending.0 == packet.number { sending.1 } else { 0 };
        *sending = (packet.number, before + packet.body_bytes);
        // The one before the last has an event too: it plans the last one's, so that has its place among those of
        // its instant.
        sending.1 + packet.body_bytes < packet.whole_bytes
    }

    /// So many fragments of a packet have been sent.
    pub fn note_sending(&mut self, out: &Outgoing, count: u32) {
        if let Some(packet) = &out.cargo.ip {
            self.sending = (packet.number, count * packet.body_bytes);
        }
    }

    /// A frame has an event when it starts.
    #[inline]
    pub fn stop_at(&mut self, start_ns: u64) {
        self.stops.push_back(start_ns);
    }

    /// What starts by now has left.
    #[inline]
    pub fn pass_stops(&mut self, now_ns: u64) {
        while self.planned_ns <= now_ns {
            self.planned_ns = core::mem::replace(&mut self.planned_behind_ns, NEVER_NS);
        }
        while self.stops.front().is_some_and(|at| *at <= now_ns) {
            self.stops.pop_front();
        }
    }

    /// When the queue needs its next event, where that is not planned yet; `every`: each frame has one.
    #[inline]
    pub fn arm(&mut self, every: bool, now_ns: u64) -> Option<u64> {
        let first = self.first_ns().unwrap_or(NEVER_NS);
        let every = every || self.blocked > 0;
        let next = if every { first } else { self.stops.front().copied().unwrap_or(NEVER_NS) };
        let next = next.max(now_ns);
        if next >= self.planned_ns {
            return None;
        }
        self.planned_behind_ns = core::mem::replace(&mut self.planned_ns, next);
        Some(next)
    }

    /// Whether sockets wait for room.
    #[inline]
    pub fn is_blocked(&self) -> bool {
        self.blocked > 0
    }

    /// A socket waits for room.
    pub fn block(&mut self) {
        self.blocked += 1;
    }

    /// One has stopped waiting.
    pub fn unblock(&mut self) {
        self.blocked -= 1;
    }
}

impl Waiting {
    /// One frame.
    #[inline]
    pub fn of_one(at_ns: u64, out: Outgoing) -> Self {
        Self { at_ns, step_ns: 0, count: 1, out }
    }

    /// When its frames start.
    #[inline]
    pub fn train(&self) -> Train {
        Train { at: Nanos(self.at_ns), step: Nanos(self.step_ns), count: self.count }
    }
}
