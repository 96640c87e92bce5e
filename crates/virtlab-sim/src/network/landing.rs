//! Frames that leave the fabric.
//!
//! Such a frame is told of as soon as its last transmitter takes it, and waits in the landing of its port.
//! Only what changes something beyond counters has an event at its instant: a message that is whole and answered, a frame
//! that is forwarded. All but the last fragment of a packet, and messages that are only counted, have none: they are
//! counted, with their own instants, before anybody reads a counter.

use super::Network;
use super::bridges::Place;
use super::flights::Flight;
use super::vnics::Outgoing;
use crate::agenda::Due;
use crate::ip::Message;
use virtlab_fabric::{Departure, PortId};
use virtlab_wire::Nanos;

/// What a frame that leaves the fabric is to whoever stands at its port.
#[derive(Clone, Copy, Debug)]
pub(super) enum Meaning {
    /// It goes on through a bridge or a guest; an event stands for it.
    Onward(Outgoing),
    /// A fragment of a message that is not whole with it.
    Part,
    /// A message is whole with it and is only counted.
    Counted(Message),
    /// A message is whole with it; an event stands for it.
    Whole(Message),
}

/// A frame that leaves the fabric at `at_ns`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Landing {
    pub(super) at_ns: u64,
    pub(super) nic: usize,
    pub(super) bytes: u32,
    pub(super) meaning: Meaning,
}

/// A message that has come.
#[derive(Clone, Copy, Debug)]
pub enum Landed {
    /// To be taken now.
    Now(Message),
    /// To be counted, with its instant.
    At(Message, u64),
}

/// Frames in a landing, from which on those that have come are counted without waiting for a reader.
pub(super) const CROWD: usize = 128;
impl Network {
    /// The fabric's next event.
    pub fn fabric_ns(&self) -> Option<u64> {
        self.fabric.next_event().map(|at| at.0)
    }

    /// Plays the fabric up to now; what will leave it goes into the landings.
    pub fn advance_fabric(&mut self) {
        let mut departures = std::mem::take(&mut self.departures);
        self.fabric.advance(Nanos(self.now_ns), &mut departures);
        debug_assert!(departures.is_empty(), "every departure is foretold");
        self.departures = departures;
        self.foresee();
    }

    pub(super) fn foresee(&mut self) {
        for Departure { port, at, payload, .. } in self.fabric.foretold() {
            let port = port.0;
            let nic = match (self.port_nics[port], self.port_bridges[port]) {
                (Some(nic), _) => Some(nic),
                // Where it will lie may still change at a switch that learns.
                (None, Some(bridge)) if self.bridges[bridge].learns => None,
                (None, Some(bridge)) => match self.bridges[bridge].ways.get(&payload.destination) {
                    Some(Place::Nic(nic)) => Some(*nic),
                    _ => None,
                },
                (None, None) => None,
            };
            let free = self.costs.is_none(); // otherwise a cost comes between the port and the guest
            let own = nic.filter(|nic| {
                let given = &self.nics[*nic].given;
                let addresses = &self.hosts[given.guest].given.addresses;
                free && given.mac == payload.destination
                    && payload.cargo.ip.is_none_or(|packet| addresses.contains(&packet.to))
            });
            let mut landing =
                Landing { at_ns: at.0, nic: 0, bytes: payload.bytes, meaning: Meaning::Onward(payload) };
            if let Some(nic) = own {
                let waiting = &mut self.hosts[self.nics[nic].given.guest].reassembly;
                let whole = payload.cargo.ip.is_none_or(|packet| waiting.take(&packet, at.0));
                landing.nic = nic;
                landing.meaning = match (whole, payload.counted) {
                    (false, _) => Meaning::Part,
                    (true, true) => Meaning::Counted(payload.cargo.message),
                    (true, false) => Meaning::Whole(payload.cargo.message),
                };
            }
            let waiting = &mut self.landings[port];
            waiting.push_back(landing);
            if let Meaning::Onward(_) | Meaning::Whole(_) = landing.meaning {
                self.agenda.plan(at.0, Due::Land(port));
            } else if waiting.len() >= CROWD && waiting[0].at_ns <= self.now_ns {
                self.crowded.push(port);
            }
        }
    }

    /// Ports of the fabric.
    pub fn ports(&self) -> usize {
        self.landings.len()
    }

    /// Takes what has landed at a port by now: messages are returned, one by one; frames that go on are in the inbox.
    pub fn land(&mut self, port: usize) -> Option<Landed> {
        while let Some(&Landing { at_ns, nic, bytes, meaning }) = self.landings[port].front() {
            if at_ns > self.now_ns {
                break;
            }
            self.landings[port].pop_front();
            if let Meaning::Onward(mut out) = meaning {
                out.socket = None;
                if let Some(costs) = &mut self.costs {
                    let at = costs.depart(self.now_ns, port, self.port_bridges[port], out.bytes);
                    self.fly(at, Flight::Departed(port, out));
                } else {
                    self.departed(port, out);
                }
                continue;
            }
            let traffic = &mut self.nics[nic].traffic;
            traffic.received_packets += 1;
            traffic.received_bytes += u64::from(bytes);
            self.stamp_ns = at_ns;
            match meaning {
                Meaning::Whole(message) => return Some(Landed::Now(message)),
                Meaning::Counted(message) => return Some(Landed::At(message, at_ns)),
                Meaning::Part | Meaning::Onward(_) => {}
            }
        }
        None
    }

    pub(super) fn departed(&mut self, port: usize, out: Outgoing) {
        match (self.port_nics[port], self.port_bridges[port]) {
            (Some(nic), _) => self.arrive(nic, out),
            (None, Some(bridge)) => self.cross(bridge, Place::Port(PortId(port)), out),
            (None, None) => {}
        }
    }
}
