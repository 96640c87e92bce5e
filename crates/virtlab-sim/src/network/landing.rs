//! Frames that leave the fabric.
//!
//! Such a frame is reported as soon as its last transmitter takes it, and waits in the landing of its port. Only
//! what changes something beyond counters has an event at its instant: a message that is whole and answered, a
//! frame that is forwarded. All but the last fragment of a packet, and messages that are only counted, have none:
//! they are counted, with their own instants, before anybody reads a counter.

use super::Network;
use super::bridges::Place;
use super::flights::Flight;
use super::paths::is_notice;
use super::resolution::is_resolution;
use super::vnics::{Carried, Outgoing};
use crate::agenda::Due;
use crate::ip::Message;
use crate::ip::addresses::Number;
use virtlab_fabric::{Foretold, Mac, PortId};
use virtlab_wire::Nanos;

/// What a frame that leaves the fabric is to the node at its port.
#[derive(Clone, Copy, Debug)]
pub(super) enum Meaning {
    /// It continues through a bridge or a guest; an event represents it.
    Onward(Foretold),
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
    pub(super) nic: u32,
    pub(super) bytes: u32,
    pub(super) meaning: Meaning,
}

/// Where a frame goes to: at this network, and below IP nowhere else.
pub type Address = (Mac, Option<Number>);

/// A message that has come.
#[derive(Clone, Copy, Debug)]
pub enum Landed {
    /// To be taken now.
    Now(Message),
    /// To be counted, with its instant.
    At(Message, u64),
}

/// Frames in a landing, from which on those that have come are counted without waiting for a reader.
pub(super) const CROWD: usize = 16;
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
        self.look_for_strays();
        if !self.fabric.has_foretold() {
            return;
        }
        let mut certain = std::mem::take(&mut self.certain);
        self.fabric.foretold(&mut certain);
        for foretold in certain.drain(..) {
            let (port, at_ns) = (foretold.port.0, foretold.at.0);
            if foretold.met {
                self.land_met(&foretold);
                continue;
            }
            if foretold.marked {
                let message = self.fabric.frame(&foretold).payload.cargo.message;
                self.note_mark(&message);
            }
            let frame = self.fabric.frame(&foretold);
            let out = &frame.payload;
            let address = (frame.destination, out.cargo.ip.map(|packet| packet.to));
            let mut landing =
                Landing { at_ns, nic: 0, bytes: frame.bytes, meaning: Meaning::Onward(foretold) };
            let kernels = is_resolution(&out.cargo.message) || is_notice(&out.cargo.message);
            let own = if kernels { None } else { self.own_nic(port, address) };
            let out = &self.fabric.frame(&foretold).payload;
            if let Some(nic) = own {
                landing.nic = nic;
                let message = out.cargo.message;
                let whole = match out.cargo.ip {
                    Some(packet) if packet.is_part() => {
                        let guest = self.nics[nic as usize].given.guest;
                        self.hosts[guest].reassembly.take(&packet, at_ns)
                    }
                    _ => true,
                };
                landing.meaning = match (whole, out.counted) {
                    (false, _) => Meaning::Part,
                    (true, true) => Meaning::Counted(message),
                    (true, false) => Meaning::Whole(message),
                };
            }
            let onward = matches!(landing.meaning, Meaning::Onward(_));
            if !onward {
                self.fabric.forget(&foretold);
            }
            let waiting = &mut self.landings[port];
            waiting.push_back(landing);
            if onward || matches!(landing.meaning, Meaning::Whole(_)) {
                self.agenda.plan(at_ns, Due::Land(port));
            } else if waiting.len() >= CROWD && waiting[0].at_ns <= self.now_ns {
                self.crowded.push(port);
            }
        }
        self.certain = certain;
        self.fabric.forget_met();
    }

    /// A frame that has met others without an event will land: it is counted, as a part of its message or with it.
    #[inline]
    fn land_met(&mut self, foretold: &Foretold) {
        let (port, at_ns) = (foretold.port.0, foretold.at.0);
        let &(bytes, Carried { cargo, to: nic, .. }) = self.fabric.met(foretold);
        let whole = match cargo.ip {
            Some(packet) if packet.is_part() => {
                let guest = self.nics[nic as usize].given.guest;
                self.hosts[guest].reassembly.take(&packet, at_ns)
            }
            _ => true,
        };
        let meaning = if whole { Meaning::Counted(cargo.message) } else { Meaning::Part };
        self.landings[port].push_back(Landing { at_ns, nic, bytes, meaning });
    }

    /// [`Network::owner`], which is asked about the same addresses again and again.
    #[inline]
    pub(super) fn own_nic(&mut self, port: usize, address: Address) -> Option<u32> {
        match self.met[port] {
            Some((met, nic)) if met == address => Some(nic),
            _ => {
                let own = self.owner(port, address.0, address.1);
                self.met[port] = own.map(|nic| (address, nic));
                own
            }
        }
    }

    /// The vNIC behind a port that takes what comes to these addresses as its guest's own, whatever happens until then.
    pub(super) fn owner(&self, port: usize, destination: Mac, to: Option<Number>) -> Option<u32> {
        let nic = match (self.port_nics[port], self.port_bridges[port]) {
            _ if self.costs.is_some() || self.outages => None, // something may come between the port and the guest
            (Some(nic), _) => Some(nic),
            // Where it will lie may still change at a switch that learns.
            (None, Some(bridge)) if self.bridges[bridge].learns => None,
            (None, Some(bridge)) => match self.bridges[bridge].ways.get(&destination) {
                Some(Place::Nic(nic)) => Some(*nic),
                _ => None,
            },
            (None, None) => None,
        };
        nic.filter(|nic| {
            let given = &self.nics[*nic].given;
            let own = &self.hosts[given.guest].own;
            given.mac == destination && to.is_none_or(|to| own.contains(&to))
        })
        .map(|nic| nic as u32)
    }

    /// Ports of the fabric.
    pub fn ports(&self) -> usize {
        self.landings.len()
    }

    /// Takes what has landed at a port by now: messages are returned, one by one; frames that continue are in the
    /// inbox.
    pub fn land(&mut self, port: usize) -> Option<Landed> {
        self.gather(port);
        while let Some(&Landing { at_ns, nic, bytes, meaning }) = self.landings[port].front() {
            if at_ns > self.now_ns {
                break;
            }
            self.landings[port].pop_front();
            if let Meaning::Onward(foretold) = meaning {
                let out = Outgoing::carried(&self.fabric.take(&foretold));
                if let Some(costs) = &mut self.costs {
                    let bridge = self.port_bridges[port];
                    let asked_ns = costs.ask(self.now_ns, bridge, out.seen(self.nics.len() + port));
                    let at = costs.depart(self.now_ns, port, bridge, out.bytes, asked_ns);
                    self.fly(at, Flight::Departed(port, out));
                } else {
                    self.departed(port, out);
                }
                continue;
            }
            let traffic = &mut self.nics[nic as usize].traffic;
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
