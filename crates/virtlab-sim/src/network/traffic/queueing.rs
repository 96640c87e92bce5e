//! A frame at a vNIC: it waits in its queue while bucket or licence hold it back, then leaves.

use crate::agenda::Due;
use crate::network::edge::queue::Waiting;
use crate::network::edge::vnics::Presence;
use crate::network::frames::Outgoing;
use crate::network::platform::flights::Flight;
use crate::network::whole::Network;
use crate::network::wire::ports::Stage;

impl Network {
    /// A vNIC's frames that may go by now; false where others of this instant come first, and this is put off.
    pub fn release(&mut self, nic: usize) -> bool {
        self.catch_up(nic);
        if self.edge.nics[nic].queue.first_ns() == Some(self.now_ns) {
            let planned = self.edge.nics[nic].queue.first_planned();
            if self.agenda.defers(Due::Release(nic), planned) {
                return false;
            }
            self.catch_up(nic);
        }
        while self.edge.nics[nic].queue.first_early().is_some_and(|early| early.at_ns <= self.now_ns) {
            self.let_early_go(nic);
        }
        while let Some(&Waiting { at_ns, out, .. }) =
            self.edge.nics[nic].queue.front().filter(|waiting| waiting.at_ns <= self.now_ns)
        {
            self.let_go(nic, at_ns, &out);
        }
        self.edge.nics[nic].queue.pass_stops(self.now_ns);
        self.arm(nic);
        true
    }

    /// The first frame of a vNIC's queue leaves it, at `at_ns`.
    pub(super) fn let_go(&mut self, nic: usize, at_ns: u64, out: &Outgoing) {
        let planned = self.edge.nics[nic].queue.first_planned();
        self.edge.nics[nic].queue.let_go(self.agenda.planned_at(at_ns));
        if let Some(shared) = self.shared_on_its_way(nic, out) {
            self.edge.nics[nic].traffic.send(1, out.bytes);
            self.join(shared, out, (at_ns, planned));
        } else if self.is_certain(out) {
            self.pass_on(nic, out, at_ns);
        } else {
            self.transmit(nic, out);
        }
        self.give_room(out);
    }

    /// Plans a vNIC's next event.
    pub(super) fn arm(&mut self, nic: usize) {
        let every = self.wire.paths.by_events();
        if let Some(at_ns) = self.edge.nics[nic].queue.arm(every, self.now_ns) {
            self.agenda.plan(at_ns, Due::Release(nic));
        }
    }

    /// When a frame is at the vNIC; `call_of` the socket whose call it begins.
    pub(super) fn ready(&mut self, nic: usize, bytes: u32, call_of: Option<usize>) -> u64 {
        let Some(costs) = &mut self.platform.costs else { return self.now_ns };
        costs.send(self.now_ns, self.edge.nics[nic].given.guest, nic, bytes, call_of)
    }

    /// Into the vNIC's queue when it is ready, or through it; the instant at which the frame leaves it.
    pub(super) fn put(&mut self, nic: usize, out: &Outgoing, ready_ns: u64) -> u64 {
        let port = &mut self.edge.nics[nic];
        if port.licence.is_some() {
            return self.put_licensed(nic, out, ready_ns);
        }
        if let Some(at) = port.port.filter(|_| port.is_shared()) {
            self.catch_up_before(at);
        }
        if !self.has_place(nic, 1) {
            self.edge.nics[nic].traffic.refused += 1;
            return ready_ns;
        }
        let port = &mut self.edge.nics[nic];
        let mut start = ready_ns;
        if let Some(bucket) = &mut port.bucket {
            // Segments that go together cost as many frames as they will be cut into.
            let cost: i64 = match self.packets.parts_of(&out.cargo.message) {
                Some(parts) => parts.frame_bytes(out).map(|bytes| bucket.cost_ns(bytes)).sum(),
                None => bucket.cost_ns(out.bytes),
            };
            start = bucket.start_ns(ready_ns, cost);
        }
        self.depart(nic, out, start)
    }

    /// Whether so many more frames may wait.
    #[inline]
    pub(super) fn has_place(&mut self, nic: usize, more: u32) -> bool {
        self.edge.nics[nic].queue.has_place(more) || {
            self.catch_up(nic);
            self.edge.nics[nic].queue.has_place(more)
        }
    }

    /// Into the queue before a vNIC's licence, through it, or nowhere; the instant at which the frame leaves, if it
    /// does.
    fn put_licensed(&mut self, nic: usize, out: &Outgoing, ready_ns: u64) -> u64 {
        let parts = self.packets.parts_of(&out.cargo.message);
        let bytes = parts.map_or(out.bytes, |parts| parts.frame_bytes(out).sum());
        let port = &mut self.edge.nics[nic];
        let Some(licence) = &mut port.licence else { return ready_ns };
        match licence.start_ns(bytes, ready_ns, port.queue.len()) {
            Some(start) => self.depart(nic, out, start),
            None => ready_ns,
        }
    }

    /// Lets a frame through now, or has it wait until `start`; returns that.
    fn depart(&mut self, nic: usize, out: &Outgoing, start: u64) -> u64 {
        let amid = self.edge.nics[nic].queue.is_amid(out);
        if amid != out.amid {
            return self.depart_known(nic, &Outgoing { amid, ..*out }, start);
        }
        self.depart_known(nic, out, start)
    }

    /// The same of a frame of which is known whether it is amid its message.
    #[inline]
    fn depart_known(&mut self, nic: usize, out: &Outgoing, start: u64) -> u64 {
        if start == self.now_ns {
            self.catch_up(nic);
            if self.edge.nics[nic].queue.is_empty() {
                self.transmit(nic, out);
                return start;
            }
        }
        self.queue(nic, Waiting::of_one(start, *out), self.now_ns);
        start
    }

    /// Frames wait in a vNIC, to which they came at `came_ns`.
    #[inline]
    pub(super) fn queue(&mut self, nic: usize, waiting: Waiting, came_ns: u64) {
        let Waiting { at_ns, count, out, .. } = waiting;
        if let Some(socket) = out.socket {
            self.sockets[socket].room.hold(count, out.bytes);
        }
        self.pass_early(nic);
        let queue = &mut self.edge.nics[nic].queue;
        queue.push(waiting, self.agenda.planned_at(came_ns));
        if let Some(at) = self.certain_port(&out) {
            let queue = &mut self.edge.nics[nic].queue;
            queue.note_port(at);
            let blocked = queue.is_blocked();
            let stage = self.shared_on_its_way(nic, &out).map_or(Stage::Wire, |_| Stage::Shared);
            self.wire.ports.all[at.0].feed(stage, nic);
            if out.amid {
                if blocked {
                    self.arm(nic);
                }
                return;
            }
        }
        self.edge.nics[nic].queue.stop_at(at_ns);
        self.arm(nic);
    }

    pub(super) fn transmit(&mut self, nic: usize, out: &Outgoing) {
        if let Some(queue) = self.shared_on_its_way(nic, out) {
            self.edge.nics[nic].traffic.send(1, out.bytes);
            self.catch_up(queue);
            return self.join(queue, out, (self.now_ns, (0, 0)));
        }
        if let Some(at) = self.certain_port(out) {
            self.catch_up_before(at);
            return self.pass_on(nic, out, self.now_ns);
        }
        if let Some(way) = self.meeting_of(nic, out) {
            return self.meet(nic, out.bytes, out.cargo, &way);
        }
        let port = &mut self.edge.nics[nic];
        if let Some(at) = port.port.filter(|_| port.is_shared()) {
            port.traffic.send(1, out.bytes);
            return self.enter_wire(at, *out);
        }
        if port.presence != Presence::Here && self.keeps(nic, out) {
            return;
        }
        let port = &mut self.edge.nics[nic];
        port.traffic.send(1, out.bytes);
        match self.platform.leave(self.now_ns, nic, port.bridge, out) {
            Some(at_ns) => self.fly(at_ns, Flight::Out(nic, *out)),
            None => self.leave(nic, *out),
        }
    }
}
