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

use crate::network::edge::queue::Waiting;
use crate::network::frames::Outgoing;
use crate::network::sockets::Socket;
use crate::network::whole::Network;
use crate::network::wire::paths::{CertainWay, Way};
use crate::network::wire::ports::{Landing, Meaning, Stage};
use virtlab_fabric::{PortId, Train};
use virtlab_wire::Nanos;

const NEVER_NS: u64 = u64::MAX;

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
        if let Some((certain, queue)) = self.certain(socket) {
            self.sockets[socket].queue = queue;
            return self.wire.paths.keep_certain(certain);
        }
        let Socket { nic, source, destination, ip, .. } = self.sockets[socket];
        match self.meeting(nic, source, (destination, ip)) {
            Some(way) => self.wire.paths.keep_meeting(way),
            None => match self.road(nic, destination) {
                Some(road) => self.keep_road(socket, road),
                None => Way::Played,
            },
        }
    }

    /// The certain way of a socket's frames, and the queue in which they wait before it.
    fn certain(&self, socket: usize) -> Option<(CertainWay, usize)> {
        let Socket { nic, source, destination, ip, .. } = self.sockets[socket];
        let held_up = self.platform.costs.is_some() || self.guests.neighbours.is_some() || self.edge.outages;
        if held_up || self.edge.nics[nic].licence.is_some() {
            return None;
        }
        let own = self.edge.entrance(nic, destination).map(|at| (at, nic));
        let (at, queue) = own.or_else(|| self.edge.shared_entrance(nic, destination))?;
        let passage = self.wire.fabric.passage(at, source, destination)?;
        let to = self.owner(passage.port.0, (destination, ip))? as usize;
        Some((CertainWay { passage, at, to }, queue))
    }

    /// Whether the way of a socket's frames is certain, so that they need no events of their own.
    #[inline]
    pub(super) fn goes_certainly(&self, socket: usize) -> bool {
        !self.wire.paths.by_events() && matches!(self.sockets[socket].way, Way::Certain(_))
    }

    /// Whether fragments that a socket sends are put together: where somebody waits for room each frame may be
    /// followed by another's.
    #[inline]
    pub(super) fn goes_in_trains(&self, socket: usize) -> bool {
        self.goes_certainly(socket) && !self.edge.nics[self.sockets[socket].nic].queue.is_blocked()
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
            Way::Certain(way) if !self.wire.paths.by_events() => Some(self.wire.paths.certain(way).at),
            _ => None,
        }
    }

    /// Passes on what has left a vNIC by now without an event, and what has left others for the same ports.
    #[inline]
    pub(super) fn catch_up(&mut self, nic: usize) {
        self.pass_early(nic);
        for place in 0..self.edge.nics[nic].queue.port_count() {
            self.catch_up_before(self.edge.nics[nic].queue.port(place));
        }
    }

    /// Passes on everything that has left any vNIC by now without an event.
    pub fn catch_up_all(&mut self) {
        for port in 0..self.ports() {
            self.catch_up_before(PortId(port));
        }
        for place in 0..self.edge.nics.len() {
            self.pass_early(place);
            self.edge.nics[place].count_parts(self.now_ns);
        }
    }

    /// Passes on what has left for a port by now without an event, in the order in which events would do it.
    #[inline]
    pub(super) fn catch_up_before(&mut self, port: PortId) {
        for stage in [Stage::Shared, Stage::Wire] {
            if self.wire.ports.all[port.0].is_fed(stage) {
                self.merge(port, stage);
            }
        }
    }

    fn merge(&mut self, port: PortId, stage: Stage) {
        loop {
            let nics = &self.edge.nics;
            self.wire.ports.all[port.0].retain(stage, |nic| !nics[nic].queue.is_empty());
            let never = (NEVER_NS, (0, 0), 0);
            let (mut first, mut second) = (never, never);
            for &nic in self.wire.ports.all[port.0].feeders(stage) {
                let queue = &nics[nic].queue;
                let Some(Waiting { at_ns, out, .. }) = queue.front() else { continue };
                if self.is_certain(out) {
                    let own = (*at_ns, queue.first_planned(), nic);
                    (first, second) = (first.min(own), second.min(own.max(first)));
                }
            }
            let nic = first.2;
            if first == never || !self.agenda.would_have_happened(first.0, first.1) {
                return;
            }
            while let Some(&waiting) = self.edge.nics[nic].queue.front()
                && let Waiting { at_ns, out, .. } = waiting
                && let planned = self.edge.nics[nic].queue.first_planned()
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
    pub(super) fn let_train_go(&mut self, nic: usize, waiting: &Waiting, before_ns: u64) -> bool {
        let Waiting { at_ns, count, out, .. } = waiting;
        let Some(socket) = out.socket.filter(|_| *count > 1 && *at_ns < before_ns) else { return false };
        let train = waiting.train();
        let go = train.by(Nanos(before_ns - 1));
        if go < 2 || self.sockets[socket].room.is_blocked() {
            return false;
        }
        let gone = Train { count: go, ..train };
        if let Some(shared) = self.shared_on_its_way(nic, out) {
            let first = (*at_ns, self.edge.nics[nic].queue.first_planned());
            if !self.join_train(shared, out, gone, first) {
                return false;
            }
            self.edge.nics[nic].traffic.send(go, out.bytes);
        } else {
            self.pass_train_on(nic, out, gone);
        }
        let planned = self.agenda.planned_at(gone.last().0);
        self.edge.nics[nic].queue.let_train_go(&train, go, planned);
        self.sockets[socket].room.give(go, out.bytes);
        true
    }

    /// Into the vNIC's queue, or through it: of the `alike` fragments of a message before its last, of which there
    /// are two at least, all that go through at once, or all but the one that is distinguished. The instant at
    /// which the first leaves, and how many there are. The way is certain. As so many calls of [`Network::put`].
    pub(super) fn put_train(&mut self, nic: usize, out: &Outgoing, alike: u32) -> (u64, u32) {
        let now_ns = self.now_ns;
        let out = &Outgoing { amid: true, ..*out };
        // Frame k starts at max(now, free + k cost), with what the bucket holds at most counted.
        let (free, cost) = match &mut self.edge.nics[nic].bucket {
            Some(bucket) => (bucket.first_ns(now_ns), bucket.cost_ns(out.bytes)),
            None => (now_ns as i64, 0),
        };
        let mut at_once = match now_ns as i64 - free {
            behind if behind < 0 => 0,
            _ if cost == 0 => alike,
            behind => (behind / cost + 1).min(i64::from(alike)) as u32,
        };
        if at_once > 0 {
            self.catch_up(nic);
        }
        let waits = !self.edge.nics[nic].queue.is_empty();
        if waits {
            at_once = at_once.min(alike - 1);
        }
        let count = at_once.max(alike - 1);
        let port = &mut self.edge.nics[nic];
        if let Some(bucket) = &mut port.bucket {
            bucket.take(free, i64::from(count) * cost);
        }
        port.queue.note_sending(out, count);
        if at_once > 0 && waits {
            self.queue(nic, Waiting { at_ns: now_ns, step_ns: 0, count: at_once, out: *out }, now_ns);
        } else if at_once > 0
            && let Some(at) = self.certain_port(out)
        {
            self.catch_up_before(at);
            let train = Train { at: Nanos(now_ns), step: Nanos::ZERO, count: at_once };
            match self.shared_on_its_way(nic, out) {
                Some(shared) => {
                    self.edge.nics[nic].traffic.send(at_once, out.bytes);
                    self.join_at_once(shared, out, train);
                }
                None => self.pass_train_on(nic, out, train),
            }
        }
        let start = |number: u32| (free + i64::from(number) * cost) as u64;
        if at_once < count {
            let (at_ns, step_ns) = (start(at_once), cost as u64);
            self.queue(nic, Waiting { at_ns, step_ns, count: count - at_once, out: *out }, now_ns);
        }
        (if at_once > 0 { now_ns } else { start(0) }, count)
    }

    /// A frame leaves its vNIC at `at_ns` for the end of a certain way.
    pub(super) fn pass_on(&mut self, nic: usize, out: &Outgoing, at_ns: u64) {
        let way = out.socket.map(|socket| self.sockets[socket].way);
        let Some(Way::Certain(way)) = way else {
            unreachable!("only a frame with a certain way is passed on")
        };
        self.edge.nics[nic].traffic.send(1, out.bytes);
        let CertainWay { passage, to, .. } = self.wire.paths.certain(way);
        let (to, port) = (*to, passage.port.0);
        let Some(comes) = self.wire.fabric.pass(passage, out.bytes, Nanos(at_ns)) else { return };
        let comes_ns = comes.0;
        let message = out.cargo.message;
        if !self.completes(to, &out.cargo, comes_ns) {
            return self.edge.nics[to].part_comes(Train::of_one(comes), out.bytes, self.now_ns);
        }
        let meaning = if out.counted { Meaning::Counted(message) } else { Meaning::Whole(message) };
        self.wire.ports.land(port, Landing { at_ns: comes_ns, nic: to as u32, bytes: out.bytes, meaning });
        if out.counted {
            self.wire.ports.note_crowd(port, self.now_ns);
        } else {
            self.plan_landing(port, comes_ns);
        }
    }

    /// Fragments of a message that is not whole with them leave their vNIC for the end of a certain way.
    pub(super) fn pass_train_on(&mut self, nic: usize, out: &Outgoing, train: Train) {
        let way = out.socket.map(|socket| self.sockets[socket].way);
        let (Some(Way::Certain(way)), Some(packet)) = (way, &out.cargo.ip) else {
            unreachable!("only fragments with a certain way are trains")
        };
        self.edge.nics[nic].traffic.send(train.count, out.bytes);
        let mut left = std::mem::take(&mut self.wire.paths.left);
        let CertainWay { passage, to, .. } = self.wire.paths.certain(way);
        let to = *to;
        self.wire.fabric.pass_train(passage, out.bytes, train, &mut left);
        for train in &left {
            self.guests.hosts.take_train(self.edge.nics[to].given.guest, packet, train);
            self.edge.nics[to].part_comes(*train, out.bytes, self.now_ns);
        }
        self.wire.paths.left = left;
    }

    /// Once a frame has come whose way is not known from the start, all are played by events.
    #[inline]
    pub(super) fn look_for_strays(&mut self) {
        if self.wire.fabric.strays() && !self.wire.paths.by_events() {
            self.play_by_events();
        }
    }

    #[cold]
    fn play_by_events(&mut self) {
        self.catch_up_all(); // what is on other ways is as certain as before
        self.wire.paths.play_by_events();
        for nic in 0..self.edge.nics.len() {
            self.arm(nic);
        }
    }
}
