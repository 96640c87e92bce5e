//! What forwarding costs: frames wait at their guest, which forwards them one after the other on one of the
//! platform's processors.
//!
//! A guest that is pinned forwards on its own processor alone, which others may be pinned to as well; those that
//! are not take any that is free. A frame that comes to a pinned guest which has nothing to do has to wake that
//! processor, which takes so much longer. Where it is the guest's own processor that forwards, and the guest has a
//! quota of processor time, it waits for its next period once that is used up.
//!
//! A guest is one virtual processor, and as many guests forward at once as there are processors; those that wait
//! for one take turns, a frame each. So a single guest forwards at most `1 / cost`, and all of them `processors /
//! cost`. What finds the guest's backlog full is dropped. A guest that has had nothing to do for a while, or never
//! had, sleeps, and has to be roused by the next frame; a hypervisor that polls for so long before it halts a
//! processor does the same. Guests whose forwarding costs nothing forward at once.

use super::Network;
use super::flights::Flight;
use super::vnics::Outgoing;
use crate::input::Input;
use crate::ip::{self, Cargo, Packet};
use std::collections::VecDeque;
use virtlab_wire::ethernet::HEADER_BYTES;

/// A frame that waits: through which vNIC it continues.
type Job = (usize, Outgoing);

#[derive(Default)]
struct Server {
    waiting: VecDeque<Job>,
    /// Being roused, waiting for a processor, or on one.
    awake: bool,
    /// Since when it has nothing to do.
    idle_ns: Option<u64>,
    /// The processor that it forwards on now.
    on: Option<usize>,
}

/// Guests that forward, and the processors that they share.
pub(super) struct Service {
    servers: Vec<Server>,
    turns: VecDeque<usize>,
    /// By processor.
    free: Vec<bool>,
    free_processors: usize,
}

impl Service {
    pub(super) fn new(input: &Input) -> Self {
        let processors = input.costs.as_ref().map_or(1, |costs| costs.processors.max(1));
        Self {
            servers: input.guests.iter().map(|_| Server::default()).collect(),
            turns: VecDeque::new(),
            free: vec![true; processors],
            free_processors: processors,
        }
    }

    /// A free processor that a guest may forward on.
    fn processor(&self, pinned: Option<usize>) -> Option<usize> {
        match pinned {
            Some(own) => self.free[own % self.free.len()].then_some(own % self.free.len()),
            None => self.free.iter().position(|free| *free),
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
        let rouse_ns = given.steer_ns + if asleep { given.rouse_ns } else { 0 };
        if rouse_ns > 0 {
            self.fly(self.now_ns + rouse_ns, Flight::Roused(guest));
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
        let mut place = 0;
        while self.service.free_processors > 0 {
            let Some(&guest) = self.service.turns.get(place) else { return };
            let Some(costs) = &mut self.costs else { return };
            let given = costs.forwarding(guest);
            let Some(processor) = self.service.processor(given.and_then(|given| given.processor)) else {
                place += 1; // its own is taken: the next one may go before
                continue;
            };
            self.service.turns.remove(place);
            let server = &mut self.service.servers[guest];
            let (Some(given), Some((_, next))) = (given, server.waiting.front()) else { continue };
            let work_ns = given.cost.of(next.bytes);
            if let Err(at_ns) = costs.may_forward(self.now_ns, guest, work_ns) {
                self.fly(at_ns, Flight::Roused(guest));
                continue;
            }
            let Some((to, out)) = server.waiting.pop_front() else { continue };
            server.on = Some(processor);
            self.service.free[processor] = false;
            self.service.free_processors -= 1;
            self.fly(self.now_ns + work_ns, Flight::Forwarded(guest, to, out));
        }
    }

    /// A guest has forwarded a frame.
    pub(super) fn forwarded(&mut self, guest: usize, to: usize, out: Outgoing) {
        let server = &mut self.service.servers[guest];
        if let Some(processor) = server.on.take() {
            self.service.free[processor] = true;
            self.service.free_processors += 1;
        }
        server.awake = !server.waiting.is_empty();
        server.idle_ns = Some(self.now_ns);
        if server.awake {
            self.service.turns.push_back(guest);
        }
        self.take_turns();
        self.go_on(to, out);
    }

    /// On through a vNIC; a router cuts a packet that is longer than its MTU into fragments, where it may. Segments
    /// that have come together continue together if the vNIC takes them so; too long ones are dropped together, and
    /// their sender told once.
    fn go_on(&mut self, nic: usize, out: Outgoing) {
        let mtu_bytes = self.nics[nic].given.mtu_bytes;
        if let (Some(parts), Some(packet)) = (self.parts_of(&out.cargo.message), out.cargo.ip) {
            let fits = self.longest_bytes(&packet, parts) <= mtu_bytes;
            if fits && self.lets_together(nic) {
                let ready = self.ready(nic, out.bytes, None);
                self.put_resolved(nic, out, ready);
            } else if fits || !self.is_too_long(nic, &packet, &out.cargo.message) {
                for part in self.cut(&out, parts) {
                    self.go_on(nic, part);
                }
            }
            return;
        }
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
