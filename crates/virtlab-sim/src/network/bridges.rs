//! A virtual switch: which way a frame goes, at once; what lies behind it is a vNIC or a port of the fabric.

use super::Network;
use super::vnics::Outgoing;
use virtlab_fabric::{Frame, PortId};
use virtlab_qdisc::Ecn;
use virtlab_wire::Nanos;

#[derive(Clone, Copy, Debug)]
pub(super) enum Place {
    Nic(usize),
    Port(PortId),
}
impl Network {
    /// Through a bridge, at once. A frame to an address that lies nowhere behind it is lost; roles have none such.
    pub(super) fn cross(&mut self, bridge: usize, out: Outgoing) {
        match self.bridges[bridge].get(&out.destination) {
            Some(Place::Nic(nic)) => self.arrive(*nic, out),
            Some(Place::Port(at)) => self.enter(*at, out),
            None => {}
        }
    }

    pub(super) fn enter(&mut self, at: PortId, out: Outgoing) {
        let frame = Frame {
            bytes: out.bytes,
            source: out.source,
            destination: out.destination,
            flow: out.flow,
            ecn: Ecn::NotCapable,
            headers: self.fabric.wants_headers().then(|| Box::new(self.headers_of(&out))),
            payload: out,
        };
        self.fabric.arrive(at, frame, Nanos(self.now_ns));
        self.foresee();
    }
}
