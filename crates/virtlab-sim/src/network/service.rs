//! What forwarding costs: frames wait at their guest, which forwards them one after the other on one of the platform's processors.
//!
//! A guest is one virtual processor, and as many guests forward at once as there are processors; those that wait for one take
//! turns, a frame each. So a single guest forwards at most `1 / cost`, and all of them `processors / cost`. What finds the
//! guest's backlog full is dropped. A guest that has had nothing to do for a while, or never had, sleeps, and has to be roused
//! by the next frame; a hypervisor that polls for so long before it halts a processor does the same. Guests whose forwarding
//! costs nothing forward at once.

use super::Network;
use super::flights::Flight;
use super::vnics::Outgoing;
use crate::input::Input;
use crate::ip::{self, Cargo, Packet};
use std::collections::VecDeque;
use virtlab_wire::ethernet::HEADER_BYTES;

/// A frame that waits: through which vNIC it goes on.
type Job = (usize, Outgoing);

#[derive(Default)]
struct Server {
    waiting: VecDeque<Job>,
    /// Being roused, waiting for a processor, or on one.
    awake: bool,
    /// Since when it has nothing to do.
    idle_ns: Option<u64>,
}

/// Guests that forward, and the processors that they share.
pub(super) struct Service {
    servers: Vec<Server>,
    turns: VecDeque<usize>,
    free_processors: usize,
}

impl Service {
    pub(super) fn new(input: &Input) -> Self {
        Self {
            servers: input.guests.iter().map(|_| Server::default()).collect(),
            turns: VecDeque::new(),
            free_processors: input.costs.as_ref().map_or(1, |costs| costs.processors.max(1)),
        }
    }
}

impl Network {
    /// Has a guest forward a frame from one of its vNICs through another, when it comes to it.
    pub(super) fn serve(&mut self, guest: usize, from: usize, to: usize, out: Outgoing) {
        let Some(given) = self.costs.as_ref().and_then(|costs| costs.forwarding(guest)) else {
            return self.go_on(to, out);
        };
        let server = &mut self.service.servers[guest];
        if server.waiting.len() >= given.backlog_packets as usize {
            self.nics[from].traffic.overflows += 1;
            return;
        }
        server.waiting.push_back((to, out));
        if server.awake {
            return;
        }
        server.awake = true;
        let asleep = server.idle_ns.is_none_or(|since| self.now_ns - since >= given.doze_ns);
        if given.rouse_ns > 0 && asleep {
            self.fly(self.now_ns + given.rouse_ns, Flight::Roused(guest));
        } else {
            self.roused(guest);
        }
    }

    /// A guest is ready for its next frame.
    pub(super) fn roused(&mut self, guest: usize) {
        self.service.turns.push_back(guest);
        self.take_turns();
    }

    fn take_turns(&mut self) {
        while self.service.free_processors > 0 {
            let Some(guest) = self.service.turns.pop_front() else { return };
            let given = self.costs.as_ref().and_then(|costs| costs.forwarding(guest));
            let job = self.service.servers[guest].waiting.pop_front();
            let (Some(given), Some((to, out))) = (given, job) else { continue };
            self.service.free_processors -= 1;
            self.fly(self.now_ns + given.cost.of(out.bytes), Flight::Forwarded(guest, to, out));
        }
    }

    /// A guest has forwarded a frame.
    pub(super) fn forwarded(&mut self, guest: usize, to: usize, out: Outgoing) {
        self.service.free_processors += 1;
        let server = &mut self.service.servers[guest];
        server.awake = !server.waiting.is_empty();
        server.idle_ns = Some(self.now_ns);
        if server.awake {
            self.service.turns.push_back(guest);
        }
        self.take_turns();
        self.go_on(to, out);
    }

    /// On through a vNIC; a router cuts a packet that is longer than its MTU into fragments, where it may.
    fn go_on(&mut self, nic: usize, out: Outgoing) {
        let mtu_bytes = self.nics[nic].given.mtu_bytes;
        let Some(packet) = out.cargo.ip.filter(|packet| packet.bytes() > mtu_bytes) else {
            let ready = self.ready(nic, out.bytes, None);
            self.put_resolved(nic, out, ready);
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
            self.put_resolved(nic, out, ready);
        }
    }
}
