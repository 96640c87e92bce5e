//! A role's side sends: at once where its socket has room, else as soon as it has.

use crate::agenda::Due;
use crate::ip::{self, Cargo, HOPS, Message, Packet};
use crate::network::frames::Outgoing;
use crate::network::packets::Parts;
use crate::network::sockets::Socket;
use crate::network::whole::Network;
use virtlab_wire::ethernet::{FCS_BYTES, HEADER_BYTES};

impl Network {
    /// Bounds what a socket may have waiting in its vNIC.
    pub fn bound(&mut self, socket: usize, most_bytes: u64) {
        self.sockets[socket].room.bound(most_bytes);
    }

    /// Whether a process can send another message at once: the socket takes it, and the call before is over.
    pub fn has_room(&mut self, socket: usize) -> bool {
        self.is_queue_free(socket) && self.call_over_ns(socket) <= self.now_ns
    }

    /// Has `due` happen as soon as that is so again.
    pub fn await_room(&mut self, socket: usize, due: Due) {
        if self.is_queue_free(socket) {
            self.agenda.plan(self.call_over_ns(socket), due);
        } else {
            self.sockets[socket].room.wait(due);
            self.block(socket);
        }
    }

    fn is_queue_free(&mut self, socket: usize) -> bool {
        self.sockets[socket].room.is_free() || {
            let Socket { nic, queue, .. } = self.sockets[socket];
            self.catch_up(nic);
            self.pass_early(queue);
            self.sockets[socket].room.is_free()
        }
    }

    fn call_over_ns(&self, socket: usize) -> u64 {
        self.platform.costs.as_ref().map_or(0, |costs| costs.sendable_ns(self.sockets[socket].nic))
    }

    /// Sends now; the instant at which the first frame leaves the vNIC.
    pub fn send(&mut self, socket: usize, message: Message) -> u64 {
        self.find_way(socket);
        if self.send_straight(socket, &message) {
            return self.now_ns;
        }
        match self.send_along(socket, &message) {
            Some(left_ns) => left_ns,
            None => self.send_asking(socket, message),
        }
    }

    /// The same, asking what may be in the way of each frame.
    fn send_asking(&mut self, socket: usize, message: Message) -> u64 {
        let Socket { nic, source, destination, ip, raw, flows, counted, transport_bytes, .. } =
            self.sockets[socket];
        let number = self.packets.number();
        let Some(to) = ip.filter(|_| !raw) else {
            // What such a message says is its frame, FCS included.
            let bytes = message.payload_bytes - FCS_BYTES;
            let whole = |to: ip::addresses::Number| {
                let body_bytes = bytes - HEADER_BYTES - to.version().header_bytes();
                Packet { number, to, hops_left: HOPS, tapped: true, body_bytes, whole_bytes: body_bytes }
            };
            let cargo = Cargo { message, ip: ip.map(whole) };
            let (flow, socket) = (flows[0], Some(socket));
            let out = Outgoing { cargo, source, destination, bytes, flow, socket, counted, amid: false };
            let ready = self.ready(nic, bytes, socket);
            return self.put(nic, &out, ready);
        };
        let whole_bytes = message.payload_bytes + transport_bytes;
        let mut first = None;
        let mtu_bytes = self.mtu_towards(nic, to);
        let frame = |body_bytes| {
            let packet = Packet { number, to, hops_left: HOPS, tapped: false, body_bytes, whole_bytes };
            Outgoing {
                cargo: Cargo { message, ip: Some(packet) },
                source,
                destination,
                bytes: HEADER_BYTES + packet.bytes(),
                flow: flows[usize::from(packet.is_part())],
                socket: Some(socket),
                counted,
                amid: false,
            }
        };
        let mut parts = ip::fragments(whole_bytes, mtu_bytes, to.version(), false);
        // All but the last are alike; it and the one before it are distinguished where they wait.
        let alike = parts.len() as u32;
        if alike > 2
            && self.goes_in_trains(socket)
            && self.has_place(nic, alike)
            && let Some(body_bytes) = parts.next()
        {
            let out = frame(body_bytes);
            let (left, gone) = self.put_train(nic, &out, alike - 1);
            first = Some(left);
            parts.by_ref().take(gone as usize - 1).for_each(drop);
        }
        for body_bytes in parts {
            let out = frame(body_bytes);
            let ready = self.ready(nic, out.bytes, first.is_none().then_some(socket));
            let left = self.put_resolved(nic, &out, ready);
            first.get_or_insert(left);
        }
        first.unwrap_or(self.now_ns)
    }

    /// Sends as soon as there is room, in order.
    pub fn send_later(&mut self, socket: usize, message: Message) {
        if self.sockets[socket].room.is_empty() && self.is_queue_free(socket) {
            self.send(socket, message);
        } else {
            self.sockets[socket].room.push(message);
            self.block(socket);
        }
    }

    /// A frame has left its vNIC: its socket has room for as much.
    pub(super) fn give_room(&mut self, out: &Outgoing) {
        if let Some(socket) = out.socket {
            self.give(socket, out.bytes);
        }
    }

    /// A socket has room for so many bytes more.
    #[inline]
    pub(super) fn give(&mut self, socket: usize, bytes: u32) {
        let room = &mut self.sockets[socket].room;
        room.give(1, bytes);
        if room.is_blocked() {
            self.refill(socket);
        }
    }

    /// Sends what has waited for room, and lets happen what has.
    pub(super) fn refill(&mut self, socket: usize) {
        while self.is_queue_free(socket) {
            let Some(message) = self.sockets[socket].room.pop() else { break };
            self.send(socket, message);
        }
        if self.is_queue_free(socket)
            && let Some(due) = self.sockets[socket].room.waiter()
        {
            self.agenda.plan(self.now_ns, due);
        }
        let own = &mut self.sockets[socket];
        if own.room.unblock() {
            self.edge.nics[own.nic].queue.unblock();
            if own.queue != own.nic {
                self.edge.nics[own.queue].queue.unblock();
            }
        }
    }

    /// A socket waits for room.
    fn block(&mut self, socket: usize) {
        let own = &mut self.sockets[socket];
        let (nic, queue) = (own.nic, own.queue);
        let newly = own.room.block();
        for place in [nic].into_iter().chain((queue != nic).then_some(queue)) {
            if newly {
                self.edge.nics[place].queue.block();
            }
            self.arm(place);
        }
    }

    /// Whether a socket's vNIC takes segments together, and pays for them.
    pub fn takes_together(&self, socket: usize) -> bool {
        self.lets_together(self.sockets[socket].nic)
    }

    /// Whether a vNIC lets segments through together.
    pub(super) fn lets_together(&self, nic: usize) -> bool {
        self.platform.costs.as_ref().is_some_and(|costs| costs.takes_together(nic))
    }

    /// Sends segments that follow each other, all but the last of one length, as one frame; each message holds its
    /// TCP header.
    pub fn send_together(&mut self, socket: usize, messages: &[Message], header_bytes: u32) {
        let ([first, .., last], Some(to)) = (messages, self.sockets[socket].ip) else {
            for message in messages {
                self.send(socket, *message);
            }
            return;
        };
        let parts = Parts {
            count: messages.len() as u32,
            full_bytes: first.payload_bytes,
            last_bytes: last.payload_bytes,
        };
        self.packets.join(first, parts);
        let own = &self.sockets[socket];
        let (nic, source, destination, flow) = (own.nic, own.source, own.destination, own.flows[0]);
        let body_bytes = header_bytes
            + (parts.count - 1) * (parts.full_bytes - header_bytes)
            + (parts.last_bytes - header_bytes);
        let packet = Packet {
            number: self.packets.number(),
            to,
            hops_left: HOPS,
            tapped: false,
            body_bytes,
            whole_bytes: body_bytes,
        };
        let out = Outgoing {
            cargo: Cargo { message: Message { payload_bytes: body_bytes, ..*first }, ip: Some(packet) },
            source,
            destination,
            bytes: HEADER_BYTES + packet.bytes(),
            flow,
            socket: Some(socket),
            counted: false,
            amid: false,
        };
        let ready = self.ready(nic, out.bytes, Some(socket));
        self.put_resolved(nic, &out, ready);
    }

    /// How many segments a message is.
    pub fn segments_in(&self, message: &Message) -> u64 {
        self.packets.parts_of(message).map_or(1, |parts| u64::from(parts.count))
    }

    /// This message's packet may be marked.
    pub fn may_mark(&mut self, message: &Message) {
        if self.wire.fabric.wants_ecn() {
            self.labels.may_mark(message);
        }
    }
}
