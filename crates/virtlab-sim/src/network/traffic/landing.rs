//! Frames that leave the fabric.
//!
//! Such a frame is reported as soon as its last transmitter takes it, and waits in the landing of its port. Only what
//! changes something beyond counters has an event at its instant: a message that is whole and answered, a frame that is
//! forwarded. All but the last fragment of a packet, and messages that are only counted, have none: they are counted,
//! with their own instants, before anybody reads a counter. So are messages from which nothing follows: they are taken
//! before the next event at their port, and before any other than a landing.

use crate::ip::{Cargo, Message};
use crate::network::frames::{Address, Carried, Outgoing, Place, is_notice, is_resolution};
use crate::network::platform::flights::Flight;
use crate::network::whole::Network;
use crate::network::wire::ports::{Landing, Meaning};
use virtlab_fabric::{Foretold, PortId};
use virtlab_wire::Nanos;

/// A message that has come.
#[derive(Clone, Copy, Debug)]
pub enum Landed {
    /// To be taken now.
    Now(Message),
    /// To be taken without anything that might follow.
    Quiet(Message),
    /// To be counted, with its instant.
    At(Message, u64),
}

impl Network {
    /// The fabric's next event.
    pub fn fabric_ns(&self) -> Option<u64> {
        self.wire.fabric.next_event().map(|at| at.0)
    }

    /// Plays the fabric up to now; what will leave it goes into the landings.
    pub fn advance_fabric(&mut self) {
        let mut departures = Vec::new();
        self.wire.fabric.advance(Nanos(self.now_ns), &mut departures);
        debug_assert!(departures.is_empty(), "every departure is foretold");
        self.foresee();
    }

    /// Puts departures that have become certain into the landings of their ports.
    #[inline]
    pub(super) fn foresee(&mut self) {
        self.look_for_strays();
        if self.wire.fabric.has_foretold() {
            self.land_all_foretold();
        }
    }

    fn land_all_foretold(&mut self) {
        let mut certain = std::mem::take(&mut self.wire.certain);
        self.wire.fabric.foretold(&mut certain);
        for foretold in certain.drain(..) {
            if foretold.met {
                self.land_met(&foretold);
            } else {
                self.land_foretold(foretold);
            }
        }
        self.wire.certain = certain;
        self.wire.fabric.forget_met();
    }

    #[inline]
    fn land_foretold(&mut self, foretold: Foretold) {
        let (port, at_ns) = (foretold.port.0, foretold.at.0);
        let frame = self.wire.fabric.frame(&foretold);
        let (bytes, Carried { cargo, counted, .. }) = (frame.bytes, frame.payload);
        let to = cargo.ip.map(|packet| packet.to);
        let (met, group) =
            (self.wire.ports.all[port].met(&frame.destination, to), frame.destination.is_group());
        let message = cargo.message;
        if foretold.marked {
            self.labels.note_mark(&message);
        }
        let kernels = is_resolution(&message) || is_notice(&message);
        let own = match met {
            _ if kernels => None,
            Some(nic) => Some(nic),
            None => self.own_nic_anew(port, (self.wire.fabric.frame(&foretold).destination, to)),
        };
        // Of a group the message alone does not say who takes it.
        let message = match own {
            Some(nic) if group => {
                Message { flow: self.edge.nics[nic as usize].given.guest as u32, ..message }
            }
            _ => message,
        };
        let Some(nic) = own else {
            self.wire.ports.land(port, Landing { at_ns, nic: 0, bytes, meaning: Meaning::Onward(foretold) });
            return self.plan_landing(port, at_ns);
        };
        let meaning = match (self.completes(nic as usize, &cargo, at_ns), counted) {
            (false, _) => Meaning::Part,
            (true, true) => Meaning::Counted(message),
            (true, false) if self.is_quiet(&message) => Meaning::Quiet(message),
            (true, false) => Meaning::Whole(message),
        };
        self.wire.fabric.forget(&foretold);
        self.wire.ports.land(port, Landing { at_ns, nic, bytes, meaning });
        match meaning {
            Meaning::Quiet(_) => self.wire.ports.note_quiet(port, at_ns),
            Meaning::Whole(_) => self.plan_landing(port, at_ns),
            _ => self.wire.ports.note_crowd(port, self.now_ns),
        }
    }

    /// Something lands at a port with an event. What lands there later has its event in the agenda after it.
    #[inline]
    pub(super) fn plan_landing(&mut self, port: usize, at_ns: u64) {
        let number = self.agenda.number();
        if self.wire.ports.all[port].plan(at_ns, number) {
            self.agenda.plan_landing(at_ns, port, number);
        }
    }

    /// The event of a port has come: the next one goes into the agenda.
    #[inline]
    pub fn plan_next_landing(&mut self, port: usize) {
        if let Some((at_ns, number)) = self.wire.ports.all[port].next_planned() {
            self.agenda.plan_landing(at_ns, port, number);
        }
    }

    /// Whether nothing follows from a message that is certain to come.
    #[inline]
    fn is_quiet(&mut self, message: &Message) -> bool {
        message.reply && self.servers.stores.is_quiet(message.role as usize, message.seq)
    }

    /// Whether something from which nothing follows may wait to be taken.
    #[inline]
    pub fn has_quiet(&self) -> bool {
        self.wire.ports.has_quiet()
    }

    /// A port at which something has landed by now from which nothing follows, and which has not been taken.
    #[inline]
    pub fn next_quiet(&mut self) -> Option<usize> {
        self.wire.ports.next_quiet(self.now_ns)
    }

    /// A frame that has met others without an event will land: it is counted, as a part of its message or with it.
    #[inline]
    fn land_met(&mut self, foretold: &Foretold) {
        let (port, at_ns) = (foretold.port.0, foretold.at.0);
        let (bytes, Carried { cargo, to: nic, .. }) = self.wire.fabric.met(foretold);
        let (bytes, nic, part) = (*bytes, *nic, cargo.ip.filter(|packet| packet.is_part()));
        let mut meaning = Meaning::Counted(cargo.message);
        if let Some(packet) = part
            && !self.guests.hosts.take(self.edge.nics[nic as usize].given.guest, &packet, at_ns)
        {
            meaning = Meaning::Part;
        }
        self.wire.ports.land(port, Landing { at_ns, nic, bytes, meaning });
    }

    /// A frame comes to a vNIC's guest: whether its message is whole with it.
    #[inline]
    pub(super) fn completes(&mut self, nic: usize, cargo: &Cargo, at_ns: u64) -> bool {
        match &cargo.ip {
            Some(packet) if packet.is_part() => {
                self.guests.hosts.take(self.edge.nics[nic].given.guest, packet, at_ns)
            }
            _ => true,
        }
    }

    /// [`Network::owner`], which is asked about the same addresses again and again.
    #[inline]
    pub(super) fn own_nic(&mut self, port: usize, address: Address) -> Option<u32> {
        self.wire.ports.all[port].met(&address.0, address.1).or_else(|| self.own_nic_anew(port, address))
    }

    fn own_nic_anew(&mut self, port: usize, address: Address) -> Option<u32> {
        let own = self.owner(port, address);
        self.wire.ports.all[port].meet(address, own);
        own
    }

    /// The vNIC behind a port that takes what comes to these addresses as its guest's own, whatever happens until then.
    pub(super) fn owner(&self, port: usize, (destination, to): Address) -> Option<u32> {
        if self.platform.costs.is_some() || self.edge.outages {
            return None; // something may come between the port and the guest
        }
        let at = PortId(port);
        let port = &self.wire.ports.all[port];
        let nic = match (port.nic, port.bridge) {
            (Some(nic), _) => nic,
            (None, bridge) if destination.is_group() => self.edge.bridges.only_listener(bridge?, at)?,
            (None, bridge) => match self.edge.bridges.fixed_way(bridge?, destination)? {
                Place::Nic(nic) => nic,
                Place::Port(_) => return None,
            },
        };
        let given = &self.edge.nics[nic].given;
        let own = self.guests.hosts.addresses(given.guest);
        let mine = given.mac == destination || (destination.is_group() && to.is_some());
        (mine && to.is_none_or(|to| own.contains(&to))).then_some(nic as u32)
    }

    /// Ports of the fabric.
    pub fn ports(&self) -> usize {
        self.wire.ports.all.len()
    }

    /// A port at which so many frames have landed that somebody should count them.
    #[inline]
    pub fn next_crowded(&mut self) -> Option<usize> {
        self.wire.ports.next_crowded()
    }

    /// Takes what has landed at a port by now: messages are returned, one by one; frames that continue are in the
    /// inbox.
    pub fn land(&mut self, port: usize) -> Option<Landed> {
        self.gather(port);
        while let Some(&Landing { at_ns, nic, bytes, meaning }) = self.wire.ports.all[port].landings.front() {
            if at_ns > self.now_ns {
                break;
            }
            self.wire.ports.all[port].landings.pop_front();
            if let Meaning::Onward(foretold) = meaning {
                let out = Outgoing::carried(&self.wire.fabric.take(&foretold));
                let (bridge, seen_at) = (self.wire.ports.all[port].bridge, self.edge.nics.len() + port);
                match self.platform.depart(self.now_ns, port, bridge, &out, seen_at) {
                    Some(at_ns) => self.fly(at_ns, Flight::Departed(port, out)),
                    None => self.departed(port, out),
                }
                continue;
            }
            self.edge.nics[nic as usize].traffic.receive(1, bytes);
            self.stamp_ns = at_ns;
            match meaning {
                Meaning::Whole(message) => return Some(Landed::Now(message)),
                Meaning::Quiet(message) => return Some(Landed::Quiet(message)),
                Meaning::Counted(message) => return Some(Landed::At(message, at_ns)),
                Meaning::Part | Meaning::Onward(_) => {}
            }
        }
        None
    }
}
