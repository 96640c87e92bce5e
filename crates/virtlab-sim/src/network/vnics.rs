//! A vNIC: frames wait in it while its bucket is overdrawn, then cross to what lies behind it.
//!
//! With pushback it lets frames go as the testbed's does, by a token bucket at its rate with a burst of ten frames,
//! counted in Ethernet's octet times; sending is allowed while the bucket is not overdrawn, as in Linux's HTB. Frame
//! after frame that is `start = max(now, free)` and `free = max(free, start - burst) + cost`.

use super::Network;
use super::bridges::Place;
use super::flights::Flight;
use super::licence::Licence;
use super::noise::is_noise;
use super::resolution::is_resolution;
use super::together::Parts;
use super::trains::Trains;
use crate::costs::upcalls::Seen;
use crate::input::Vnic;
use crate::ip::Cargo;
use crate::ip::addresses::Number;
use std::collections::VecDeque;
use virtlab_fabric::{Frame, Mac, PortId};
use virtlab_load::size::IpVersion;
use virtlab_wire::ethernet::{serialisation, wire_bytes};

/// Frames that a vNIC with pushback lets go at once after a pause; the testbed's figure.
pub const BURST_FRAMES: u32 = 10;

/// A frame at a vNIC.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outgoing {
    pub(super) cargo: Cargo,
    pub(super) source: Mac,
    pub(super) destination: Mac,
    /// Header and payload, no FCS.
    pub(super) bytes: u32,
    pub(super) flow: u64,
    pub(super) socket: Option<usize>,
    /// Whether its receiver only counts it.
    pub(super) counted: bool,
}

/// Equal frames in a vNIC's queue: one, or fragments with a certain way that start at even intervals.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiting {
    /// When the first starts.
    pub(super) at_ns: u64,
    pub(super) step_ns: u64,
    pub(super) count: u32,
    pub(super) out: Outgoing,
}

/// What the fabric carries of it: all else is in the frame.
#[derive(Clone, Copy, Debug)]
pub(super) struct Carried {
    pub(super) cargo: Cargo,
    pub(super) counted: bool,
    /// Of a frame that meets others without an event: the vNIC that takes it.
    pub(super) to: u32,
}

impl Outgoing {
    /// A frame that has left the fabric; where it came from is behind it.
    pub(super) fn carried(frame: &Frame<Carried>) -> Self {
        let Carried { cargo, counted, .. } = frame.payload;
        let Frame { source, destination, bytes, flow, .. } = *frame;
        Self { cargo, source, destination, bytes, flow, socket: None, counted }
    }

    /// What a virtual switch sees of it at one of its ports.
    pub(super) fn seen(&self, port: usize) -> Seen {
        let message = &self.cargo.message;
        let version = match self.cargo.ip {
            Some(packet) => Some(packet.to.version()),
            None if is_noise(message) => Some(IpVersion::V6),
            None => None,
        };
        let ether_type = match version {
            Some(IpVersion::V4) => 0x0800,
            Some(IpVersion::V6) => 0x86dd,
            None if !is_resolution(message) => 0x88b5,
            None if Number::of_bits(message.flow).version() == IpVersion::V6 => 0x86dd,
            None => 0x0806,
        };
        Seen { port, ether_type, destination: self.destination, flow: self.flow }
    }
}

/// A frame that has come to a vNIC.
#[derive(Clone, Copy, Debug)]
pub struct Incoming {
    pub(super) nic: usize,
    pub(super) source: Mac,
    pub(super) destination: Mac,
    pub(super) bytes: u32,
    pub(super) flow: u64,
    pub(super) cargo: Cargo,
}

#[derive(Debug, Default)]
pub(super) struct Traffic {
    pub(super) received_packets: u64,
    pub(super) received_bytes: u64,
    pub(super) sent_packets: u64,
    pub(super) sent_bytes: u64,
    pub(super) strangers: u64,
    /// Frames that a forwarding guest had no room for.
    pub(super) overflows: u64,
    /// Frames given up before anybody said where their next hop is.
    pub(super) unresolved: u64,
    /// Frames that came to it or would have left it while it was down.
    pub(super) missed: u64,
    pub(super) vanished: u64,
}

pub(super) struct Nic {
    pub(super) given: Vnic,
    pub(super) bridge: Option<usize>,
    pub(super) port: Option<PortId>,
    /// Instant at which the bucket is just not overdrawn; may lie before the beginning.
    pub(super) free_ns: i64,
    pub(super) burst_ns: i64,
    pub(super) queue: VecDeque<Waiting>,
    pub(super) trains: Trains,
    /// What a frame of the length met last costs its bucket, and of another length before it.
    pub(super) last_costs: [(u32, i64); 2],
    pub(super) licence: Option<Licence>,
    /// Its guest is being reset.
    pub(super) down: bool,
    pub(super) traffic: Traffic,
}

impl Nic {
    /// What a frame costs its bucket.
    pub(super) fn cost_ns(&mut self, bytes: u32, rate_bit_per_s: u64) -> i64 {
        if self.last_costs[0].0 != bytes {
            self.last_costs.swap(0, 1);
            if self.last_costs[0].0 != bytes {
                self.last_costs[0] = (bytes, serialisation(wire_bytes(bytes), rate_bit_per_s).0 as i64);
            }
        }
        self.last_costs[0].1
    }
}

impl Network {
    /// A vNIC's frames that may go by now.
    pub fn release(&mut self, nic: usize) {
        self.catch_up(nic);
        while let Some(&Waiting { at_ns, out, .. }) =
            self.nics[nic].queue.front().filter(|waiting| waiting.at_ns <= self.now_ns)
        {
            self.let_go(nic, at_ns, &out);
        }
        self.released(nic);
    }

    /// When a frame is at the vNIC; `call_of` the socket whose call it begins.
    pub(super) fn ready(&mut self, nic: usize, bytes: u32, call_of: Option<usize>) -> u64 {
        let Some(costs) = &mut self.costs else { return self.now_ns };
        costs.send(self.now_ns, self.nics[nic].given.guest, nic, bytes, call_of)
    }

    /// Into the vNIC's queue when it is ready, or through it; the instant at which the frame leaves it.
    pub(super) fn put(&mut self, nic: usize, out: Outgoing, ready_ns: u64) -> u64 {
        if self.nics[nic].licence.is_some() {
            return self.put_licensed(nic, out, ready_ns);
        }
        let mut start = ready_ns;
        if let Some(rate) = self.nics[nic].given.pushback_bit_per_s {
            let cost = match self.parts_of(&out.cargo.message) {
                Some(parts) => self.cost_together_ns(nic, &out, parts, rate),
                None => self.nics[nic].cost_ns(out.bytes, rate),
            };
            let port = &mut self.nics[nic];
            let free = port.free_ns.max(ready_ns as i64);
            port.free_ns = port.free_ns.max(free - port.burst_ns) + cost;
            start = free as u64;
        }
        self.depart(nic, out, start)
    }

    /// What segments that go together cost their vNIC's bucket: as many frames as they will be cut into.
    #[cold]
    fn cost_together_ns(&mut self, nic: usize, out: &Outgoing, parts: Parts, rate_bit_per_s: u64) -> i64 {
        self.cut_bytes(out, parts).map(|bytes| self.nics[nic].cost_ns(bytes, rate_bit_per_s)).sum()
    }

    /// Lets a frame through now, or has it wait until `start`; returns that.
    pub(super) fn depart(&mut self, nic: usize, out: Outgoing, start: u64) -> u64 {
        let amid = self.is_amid(nic, &out);
        if start == self.now_ns {
            self.catch_up(nic);
            if self.nics[nic].queue.is_empty() {
                self.transmit(nic, out);
                return start;
            }
        }
        let port = &mut self.nics[nic];
        port.queue.push_back(Waiting { at_ns: start, step_ns: 0, count: 1, out });
        if let Some(socket) = out.socket {
            self.sockets[socket].held_bytes += u64::from(out.bytes);
        }
        self.queued(nic, start, &out, amid);
        start
    }

    pub(super) fn transmit(&mut self, nic: usize, out: Outgoing) {
        if let Some(at) = self.certain_port(&out) {
            self.catch_up_before(at);
            return self.pass_on(nic, &out, self.now_ns);
        }
        if let Some(way) = self.meeting_of(nic, &out) {
            return self.meet(nic, &out, &way);
        }
        let port = &mut self.nics[nic];
        if port.down {
            port.traffic.vanished += 1;
            return;
        }
        port.traffic.sent_packets += 1;
        port.traffic.sent_bytes += u64::from(out.bytes);
        if let Some(costs) = &mut self.costs {
            let seen = out.seen(nic);
            let asked_ns = costs.ask(self.now_ns, port.bridge, seen);
            let at = costs.leave(self.now_ns, nic, port.bridge, out.bytes, asked_ns);
            self.fly(at, Flight::Out(nic, out));
        } else {
            self.leave(nic, out);
        }
    }

    pub(super) fn leave(&mut self, nic: usize, out: Outgoing) {
        let port = &self.nics[nic];
        match (port.bridge, port.port) {
            (Some(bridge), _) => self.cross(bridge, Place::Nic(nic), out),
            (None, Some(at)) => self.enter(at, out),
            (None, None) => {}
        }
    }

    /// To a vNIC; one that takes no segments together gets them one by one.
    pub(super) fn arrive(&mut self, nic: usize, out: Outgoing) {
        if !self.lets_together(nic)
            && let Some(parts) = self.parts_of(&out.cargo.message)
        {
            for part in self.cut(&out, parts) {
                self.arrive(nic, part);
            }
            return;
        }
        if let Some(costs) = &mut self.costs {
            let at = costs.enter(self.now_ns, nic, out.bytes);
            self.fly(at, Flight::In(nic, out));
        } else {
            self.come(nic, out);
        }
    }

    pub(super) fn come(&mut self, nic: usize, out: Outgoing) {
        if self.outages && self.misses(nic) {
            return;
        }
        self.inbox.push_back(Incoming {
            nic,
            source: out.source,
            destination: out.destination,
            bytes: out.bytes,
            flow: out.flow,
            cargo: out.cargo,
        });
    }
}
