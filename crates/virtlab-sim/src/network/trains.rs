//! Trains: fragments of a message that follow each other through a certain way, played together.
//!
//! When a frame in a vNIC's queue starts is known as it is queued. Where its whole way through the fabric is
//! certain too ([`Fabric::passage`](virtlab_fabric::Fabric::passage)), it needs no event: it is only passed on,
//! with its own instant, before anything that could notice. That is another frame on its way to the same port; a
//! reader of counters; a socket that asks for room; and the frame with which its message is whole, whose start has
//! an event, so that the message lands by another one. A burst of forty fragments so costs two events in place of a
//! hundred. Who waits for room is told at the very instant: then every frame of that vNIC has its event.
//!
//! All but the last two fragments of a message are alike and start at even intervals, by the vNIC's bucket. They
//! are in its queue as one, and those that have left by some instant are passed on as one [`Train`], which is cut
//! where another frame comes between.

use super::Network;
use super::bridges::Place;
use super::landing::{Landing, Meaning};
use super::sockets::Socket;
use super::vnics::{Outgoing, Waiting};
use crate::agenda::{Due, Planned};
use std::collections::VecDeque;
use virtlab_fabric::{Passage, PortId, Train};
use virtlab_wire::Nanos;

const NEVER_NS: u64 = u64::MAX;
/// Fragments that have been passed on, from which on those that have come are counted without waiting for a reader.
const CROWD: usize = 64;

/// What is known of the way of a socket's frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// Not asked yet.
    Unknown,
    /// It is played by events.
    Played,
    /// Frames go to one address, then to another.
    Changing,
    /// One of [`Network::certain_ways`].
    Certain(u32),
    /// One of [`Network::meeting_ways`], for frames that are only counted.
    Meeting(u32),
}

/// A certain way, from a vNIC to another.
pub(super) struct Certain {
    passage: Passage,
    at: PortId,
    to: usize,
}

/// What a vNIC's queue needs beside its frames.
pub(super) struct Trains {
    /// Starts of the frames in it that have an event in any case.
    stops: VecDeque<u64>,
    /// The next event.
    planned_ns: u64,
    /// As what the start of its first frame would have been planned, had it an event: when that became the first.
    first: Planned,
    /// Sockets that wait for room.
    blocked: usize,
    /// Ports for which frames have waited in it.
    ports: Vec<PortId>,
    /// The packet whose fragments are being sent, and their bytes so far.
    sending: (u64, u32),
    /// Fragments that come to the vNIC over certain ways, and the bytes of each.
    coming: VecDeque<(Train, u32)>,
}

impl Default for Trains {
    fn default() -> Self {
        Self {
            stops: VecDeque::new(),
            planned_ns: NEVER_NS,
            first: (0, 0),
            blocked: 0,
            ports: Vec::new(),
            sending: (u64::MAX, 0),
            coming: VecDeque::new(),
        }
    }
}

impl Network {
    /// Finds out what is known of the way of a socket's frames.
    #[inline]
    pub(super) fn find_way(&mut self, socket: usize) {
        if self.sockets[socket].way == Way::Unknown {
            self.sockets[socket].way = self.look_for_way(socket);
        }
    }

    #[cold]
    fn look_for_way(&mut self, socket: usize) -> Way {
        if let Some(certain) = self.certain(socket) {
            self.certain_ways.push(certain);
            return Way::Certain(self.certain_ways.len() as u32 - 1);
        }
        let Socket { nic, source, destination, ip, .. } = self.sockets[socket];
        if let Some(way) = self.meeting(nic, source, destination, ip) {
            self.meeting_ways.push(way);
            return Way::Meeting(self.meeting_ways.len() as u32 - 1);
        }
        Way::Played
    }

    fn certain(&self, socket: usize) -> Option<Certain> {
        let socket = &self.sockets[socket];
        let nic = &self.nics[socket.nic];
        if self.costs.is_some() || self.resolution.is_some() || nic.licence.is_some() || self.outages {
            return None;
        }
        let at = match (nic.bridge, nic.port) {
            (Some(bridge), _) if self.bridges[bridge].learns => None,
            (Some(bridge), _) => match self.bridges[bridge].ways.get(&socket.destination) {
                Some(Place::Port(at)) => Some(*at),
                _ => None,
            },
            (None, port) => port,
        }?;
        let passage = self.fabric.passage(at, socket.source, socket.destination)?;
        let to = self.owner(passage.port.0, socket.destination, socket.ip)? as usize;
        Some(Certain { passage, at, to })
    }

    /// Whether the way of a socket's frames is certain, so that they need no events of their own.
    #[inline]
    fn goes_certainly(&self, socket: usize) -> bool {
        !self.by_events && matches!(self.sockets[socket].way, Way::Certain(_))
    }

    /// Whether fragments that a socket sends are put together: where somebody waits for room each frame may be
    /// followed by another's.
    #[inline]
    pub(super) fn goes_in_trains(&self, socket: usize) -> bool {
        self.goes_certainly(socket) && self.nics[self.sockets[socket].nic].trains.blocked == 0
    }

    /// Whether a frame needs no event of its own.
    #[inline]
    pub(super) fn is_certain(&self, out: &Outgoing) -> bool {
        out.socket.is_some_and(|socket| self.goes_certainly(socket))
    }

    /// The port through which a frame goes that needs no event of its own.
    #[inline]
    pub(super) fn certain_port(&self, out: &Outgoing) -> Option<PortId> {
        match self.sockets[out.socket?].way {
            Way::Certain(way) if !self.by_events => Some(self.certain_ways[way as usize].at),
            _ => None,
        }
    }

    /// Whether a packet of which this is a fragment has more than one to come. A vNIC is sent one packet after the
    /// other.
    #[inline]
    pub(super) fn is_amid(&mut self, nic: usize, out: &Outgoing) -> bool {
        let Some(packet) = out.cargo.ip.filter(|packet| packet.is_part()) else { return false };
        let sending = &mut self.nics[nic].trains.sending;
        let before = if sending.0 == packet.number { sending.1 } else { 0 };
        *sending = (packet.number, before + packet.body_bytes);
        // The one before the last has an event too: it plans the last one's, so that has its place among those of
        // its instant.
        sending.1 + packet.body_bytes < packet.whole_bytes
    }

    /// A frame has been queued that starts at `start`; `amid`: its message is not whole with it or the next one.
    #[inline]
    pub(super) fn queued(&mut self, nic: usize, start: u64, out: &Outgoing, amid: bool) {
        if self.nics[nic].queue.len() == 1 {
            self.nics[nic].trains.first = self.agenda.planned_at(self.now_ns);
        }
        if let Some(at) = self.certain_port(out) {
            let ports = &mut self.nics[nic].trains.ports;
            if !ports.contains(&at) {
                ports.push(at);
            }
            if !self.feeders[at.0].contains(&nic) {
                self.feeders[at.0].push(nic);
            }
            if amid {
                if self.nics[nic].trains.blocked > 0 {
                    self.arm(nic);
                }
                return;
            }
        }
        self.nics[nic].trains.stops.push_back(start);
        self.arm(nic);
    }

    /// Plans a vNIC's next event.
    fn arm(&mut self, nic: usize) {
        let port = &mut self.nics[nic];
        let first = port.queue.front().map_or(NEVER_NS, |waiting| waiting.at_ns);
        let every = port.trains.blocked > 0 || self.by_events;
        let next = if every { first } else { port.trains.stops.front().copied().unwrap_or(NEVER_NS) };
        let next = next.max(self.now_ns);
        if next < port.trains.planned_ns {
            port.trains.planned_ns = next;
            self.agenda.plan(next, Due::Release(nic));
        }
    }

    /// A vNIC has let go what may go by now.
    pub(super) fn released(&mut self, nic: usize) {
        let now_ns = self.now_ns;
        let trains = &mut self.nics[nic].trains;
        if trains.planned_ns <= now_ns {
            trains.planned_ns = NEVER_NS;
        }
        while trains.stops.front().is_some_and(|at| *at <= now_ns) {
            trains.stops.pop_front();
        }
        self.arm(nic);
    }

    /// Passes on what has left a vNIC by now without an event, and what has left others for the same ports.
    #[inline]
    pub(super) fn catch_up(&mut self, nic: usize) {
        for place in 0..self.nics[nic].trains.ports.len() {
            self.catch_up_before(self.nics[nic].trains.ports[place]);
        }
    }

    /// Passes on everything that has left any vNIC by now without an event.
    pub fn catch_up_all(&mut self) {
        for port in 0..self.feeders.len() {
            self.catch_up_before(PortId(port));
        }
        for nic in 0..self.nics.len() {
            self.count_parts(nic);
        }
    }

    /// Passes on what has left for a port by now without an event, in the order in which events would do it.
    #[inline]
    pub(super) fn catch_up_before(&mut self, port: PortId) {
        if !self.feeders[port.0].is_empty() {
            self.merge(port);
        }
    }

    fn merge(&mut self, port: PortId) {
        loop {
            let nics = &self.nics;
            self.feeders[port.0].retain(|nic| !nics[*nic].queue.is_empty());
            let never = (NEVER_NS, (0, 0), 0);
            let (mut first, mut second) = (never, never);
            for &nic in &self.feeders[port.0] {
                let Some(Waiting { at_ns, out, .. }) = nics[nic].queue.front() else { continue };
                if self.is_certain(out) {
                    let own = (*at_ns, nics[nic].trains.first, nic);
                    (first, second) = (first.min(own), second.min(own.max(first)));
                }
            }
            let nic = first.2;
            if first == never || !self.agenda.would_have_happened(first.0, first.1) {
                return;
            }
            while let Some(&waiting) = self.nics[nic].queue.front()
                && let Waiting { at_ns, out, .. } = waiting
                && let planned = self.nics[nic].trains.first
                && self.agenda.would_have_happened(at_ns, planned)
                && (at_ns, planned, nic) < second
                && self.is_certain(&out)
            {
                if !self.let_train_go(nic, &waiting, second.0.min(self.now_ns)) {
                    self.let_go(nic, at_ns, &out);
                }
            }
        }
    }

    /// Those frames of a train that start before an instant leave their vNIC; false where they are not many, or
    /// each is to tell who waits for room.
    fn let_train_go(&mut self, nic: usize, waiting: &Waiting, before_ns: u64) -> bool {
        let Waiting { at_ns, step_ns, count, out } = waiting;
        let Some(socket) = out.socket.filter(|_| *count > 1 && *at_ns < before_ns) else { return false };
        let train = Train { at: Nanos(*at_ns), step: Nanos(*step_ns), count: *count };
        let go = train.by(Nanos(before_ns - 1));
        if go < 2 || self.sockets[socket].blocked {
            return false;
        }
        let own = &mut self.nics[nic];
        if go < *count {
            let left = train.without(go);
            own.queue[0] = Waiting { at_ns: left.at.0, count: left.count, ..*waiting };
        } else {
            own.queue.pop_front();
        }
        let train = Train { count: go, ..train };
        own.trains.first = self.agenda.planned_at(train.last().0);
        self.pass_train_on(nic, out, train);
        self.sockets[socket].held_bytes -= u64::from(go) * u64::from(out.bytes);
        true
    }

    /// Into the vNIC's queue, or through it: of the `alike` fragments of a message before its last, of which there
    /// are two at least, all that go through at once, or all but the one that is distinguished. The instant at
    /// which the first leaves, and how many there are. The way is certain. As so many calls of [`Network::put`].
    pub(super) fn put_train(&mut self, nic: usize, out: &Outgoing, alike: u32) -> (u64, u32) {
        let now_ns = self.now_ns;
        let port = &mut self.nics[nic];
        // Frame k starts at max(now, free + k cost), with what the bucket holds at most counted.
        let (mut free, mut cost) = (now_ns as i64, 0);
        if let Some(rate) = port.given.pushback_bit_per_s {
            cost = port.cost_ns(out.bytes, rate);
            free = port.free_ns.max(now_ns as i64 - port.burst_ns);
        }
        let mut at_once = match now_ns as i64 - free {
            behind if behind < 0 => 0,
            _ if cost == 0 => alike,
            behind => (behind / cost + 1).min(i64::from(alike)) as u32,
        };
        if at_once > 0 {
            self.catch_up(nic);
        }
        let waits = !self.nics[nic].queue.is_empty();
        if waits {
            at_once = at_once.min(alike - 1);
        }
        let count = at_once.max(alike - 1);
        let port = &mut self.nics[nic];
        if port.given.pushback_bit_per_s.is_some() {
            port.free_ns = free + i64::from(count) * cost;
        }
        if let Some(packet) = &out.cargo.ip {
            port.trains.sending = (packet.number, count * packet.body_bytes);
        }
        if at_once > 0 && waits {
            self.queue_train(nic, Waiting { at_ns: now_ns, step_ns: 0, count: at_once, out: *out });
        } else if at_once > 0
            && let Some(at) = self.certain_port(out)
        {
            self.catch_up_before(at);
            self.pass_train_on(nic, out, Train { at: Nanos(now_ns), step: Nanos::ZERO, count: at_once });
        }
        let start = |number: u32| (free + i64::from(number) * cost) as u64;
        if at_once < count {
            let (at_ns, step_ns) = (start(at_once), cost as u64);
            self.queue_train(nic, Waiting { at_ns, step_ns, count: count - at_once, out: *out });
        }
        (if at_once > 0 { now_ns } else { start(0) }, count)
    }

    fn queue_train(&mut self, nic: usize, waiting: Waiting) {
        let Waiting { at_ns, count, out, .. } = waiting;
        self.nics[nic].queue.push_back(waiting);
        if let Some(socket) = out.socket {
            self.sockets[socket].held_bytes += u64::from(count) * u64::from(out.bytes);
        }
        self.queued(nic, at_ns, &out, true);
    }

    /// The first frame of a vNIC's queue leaves it, at `at_ns`.
    pub(super) fn let_go(&mut self, nic: usize, at_ns: u64, out: &Outgoing) {
        let own = &mut self.nics[nic];
        match own.queue.front_mut() {
            Some(waiting) if waiting.count > 1 => {
                waiting.at_ns += waiting.step_ns;
                waiting.count -= 1;
            }
            _ => {
                own.queue.pop_front();
            }
        }
        own.trains.first = self.agenda.planned_at(at_ns);
        if self.is_certain(out) {
            self.pass_on(nic, out, at_ns);
        } else {
            self.transmit(nic, *out);
        }
        self.give_room(out);
    }

    /// A frame leaves its vNIC at `at_ns` for the end of a certain way.
    pub(super) fn pass_on(&mut self, nic: usize, out: &Outgoing, at_ns: u64) {
        let way = out.socket.map(|socket| self.sockets[socket].way);
        let Some(Way::Certain(way)) = way else {
            unreachable!("only a frame with a certain way is passed on")
        };
        let traffic = &mut self.nics[nic].traffic;
        traffic.sent_packets += 1;
        traffic.sent_bytes += u64::from(out.bytes);
        let Certain { passage, to, .. } = &self.certain_ways[way as usize];
        let (to, port) = (*to, passage.port.0);
        let Some(comes) = self.fabric.pass(passage, out.bytes, Nanos(at_ns)) else { return };
        let comes_ns = comes.0;
        let message = out.cargo.message;
        let whole = match &out.cargo.ip {
            Some(packet) if packet.is_part() => {
                self.hosts[self.nics[to].given.guest].reassembly.take(packet, comes_ns)
            }
            _ => true,
        };
        if !whole {
            return self.part_comes(to, Train::of_one(comes), out.bytes);
        }
        let meaning = if out.counted { Meaning::Counted(message) } else { Meaning::Whole(message) };
        self.landings[port].push_back(Landing { at_ns: comes_ns, nic: to as u32, bytes: out.bytes, meaning });
        if !out.counted {
            self.agenda.plan(comes_ns, Due::Land(port));
        } else if self.landings[port].len() >= super::landing::CROWD
            && self.landings[port][0].at_ns <= self.now_ns
        {
            self.crowded.push(port);
        }
    }

    /// Fragments of a message that is not whole with them leave their vNIC for the end of a certain way.
    fn pass_train_on(&mut self, nic: usize, out: &Outgoing, train: Train) {
        let way = out.socket.map(|socket| self.sockets[socket].way);
        let (Some(Way::Certain(way)), Some(packet)) = (way, &out.cargo.ip) else {
            unreachable!("only fragments with a certain way are trains")
        };
        let traffic = &mut self.nics[nic].traffic;
        traffic.sent_packets += u64::from(train.count);
        traffic.sent_bytes += u64::from(train.count) * u64::from(out.bytes);
        let Certain { passage, to, .. } = &self.certain_ways[way as usize];
        let to = *to;
        let mut left = std::mem::take(&mut self.trains_left);
        self.fabric.pass_train(passage, out.bytes, train, &mut left);
        for train in &left {
            self.hosts[self.nics[to].given.guest].reassembly.take_train(packet, train);
            self.part_comes(to, *train, out.bytes);
        }
        self.trains_left = left;
    }

    /// Fragments will come to a vNIC and are only counted.
    fn part_comes(&mut self, nic: usize, train: Train, bytes: u32) {
        let coming = &mut self.nics[nic].trains.coming;
        coming.push_back((train, bytes));
        if coming.len() >= CROWD {
            self.count_parts(nic);
        }
    }

    /// Counts the fragments that have come to a vNIC by now.
    fn count_parts(&mut self, nic: usize) {
        let port = &mut self.nics[nic];
        while let Some((train, bytes)) = port.trains.coming.front_mut() {
            let come = train.by(Nanos(self.now_ns));
            port.traffic.received_packets += u64::from(come);
            port.traffic.received_bytes += u64::from(come) * u64::from(*bytes);
            if come < train.count {
                *train = train.without(come);
                break;
            }
            port.trains.coming.pop_front();
        }
    }

    /// A frame has left its vNIC: its socket has room for as much.
    pub(super) fn give_room(&mut self, out: &Outgoing) {
        let Some(socket) = out.socket else { return };
        self.sockets[socket].held_bytes -= u64::from(out.bytes);
        if self.sockets[socket].blocked {
            self.refill(socket);
        }
    }

    /// A socket waits for room.
    pub(super) fn block(&mut self, socket: usize) {
        let nic = self.sockets[socket].nic;
        if !std::mem::replace(&mut self.sockets[socket].blocked, true) {
            self.nics[nic].trains.blocked += 1;
        }
        self.arm(nic);
    }

    /// Looks whether a socket has stopped waiting.
    pub(super) fn unblock(&mut self, socket: usize) {
        let own = &mut self.sockets[socket];
        if own.blocked && own.waiter.is_none() && own.pending.is_empty() {
            own.blocked = false;
            self.nics[own.nic].trains.blocked -= 1;
        }
    }

    /// Once a frame has come whose way is not known from the start, all are played by events.
    #[inline]
    pub(super) fn look_for_strays(&mut self) {
        if self.fabric.strays() && !self.by_events {
            self.catch_up_all(); // what is on other ways is as certain as before
            self.by_events = true;
            for nic in 0..self.nics.len() {
                self.arm(nic);
            }
        }
    }
}
