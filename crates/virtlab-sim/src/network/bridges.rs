//! A virtual switch: which way a frame goes, at once; what lies behind it is a vNIC or a port of the fabric.
//!
//! Who is where is in its table from the start. Where it learns, a source address moves to the port at which it is
//! seen, as in Linux an entry that is not fixed does. A frame to an unknown address leaves through every port but its
//! own, where the switch floods. Two isolated ports exchange no frame, known or flooded.

use super::Network;
use super::vnics::{Carried, Outgoing};
use std::collections::BTreeMap;
use virtlab_fabric::{Frame, Mac, PortId};
use virtlab_wire::Nanos;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Nic(usize),
    Port(PortId),
}

/// A virtual switch.
pub(super) struct Bridge {
    pub(super) ways: BTreeMap<Mac, Place>,
    pub(super) ports: Vec<Place>,
    pub(super) learns: bool,
    pub(super) floods: bool,
}

impl Network {
    /// Through a bridge, at once, from one of its ports.
    pub(super) fn cross(&mut self, bridge: usize, from: Place, out: Outgoing) {
        let own = &mut self.bridges[bridge];
        if own.learns && !out.source.is_group() {
            own.ways.insert(out.source, from);
        }
        match own.ways.get(&out.destination).copied() {
            Some(to) if joined(&self.isolated, from, to) => self.pass(to, out),
            Some(_) => {}
            None if own.floods => {
                let ports: Vec<Place> =
                    own.ports.iter().copied().filter(|to| joined(&self.isolated, from, *to)).collect();
                for to in ports {
                    self.pass(to, out);
                }
            }
            None => {}
        }
    }

    fn pass(&mut self, to: Place, out: Outgoing) {
        match to {
            Place::Nic(nic) => self.arrive(nic, out),
            Place::Port(at) => self.enter(at, out),
        }
    }

    pub(super) fn enter(&mut self, at: PortId, out: Outgoing) {
        if let Some(parts) = self.parts_of(&out.cargo.message) {
            for part in self.cut(&out, parts) {
                self.enter(at, part);
            }
            return;
        }
        let frame = Frame {
            bytes: out.bytes,
            source: out.source,
            destination: out.destination,
            flow: out.flow,
            ecn: self.ecn_of(&out),
            headers: self.fabric.wants_headers().then(|| Box::new(self.headers_of(&out))),
            payload: Carried { cargo: out.cargo, counted: out.counted, to: u32::MAX },
        };
        self.catch_up_before(at);
        self.fabric.arrive(at, frame, Nanos(self.now_ns));
        self.foresee();
    }
}

/// Whether a switch passes frames from one of its ports to another.
fn joined(isolated: &[bool], from: Place, to: Place) -> bool {
    let held = |place| matches!(place, Place::Nic(nic) if isolated[nic]);
    from != to && !(held(from) && held(to))
}
