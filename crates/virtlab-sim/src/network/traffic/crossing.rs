//! From a vNIC or a port of the fabric through what lies behind it, at once: a virtual switch, the fabric, a vNIC.

use crate::network::edge::bridges::Exits;
use crate::network::frames::{Carried, Incoming, Outgoing, Place};
use crate::network::platform::flights::Flight;
use crate::network::whole::Network;
use virtlab_fabric::{Frame, PortId};
use virtlab_wire::Nanos;

impl Network {
    /// A frame has left its vNIC.
    pub(super) fn leave(&mut self, nic: usize, out: Outgoing) {
        let port = &self.edge.nics[nic];
        match (port.bridge, port.port) {
            (Some(bridge), _) => self.cross(bridge, Place::Nic(nic), out),
            (None, Some(at)) => self.enter(at, out),
            (None, None) => {}
        }
    }

    /// A frame has left the fabric.
    pub(super) fn departed(&mut self, port: usize, out: Outgoing) {
        let behind = &self.wire.ports.all[port];
        match (behind.nic, behind.bridge) {
            (Some(nic), _) => self.arrive(nic, out),
            (None, Some(bridge)) => self.cross(bridge, Place::Port(PortId(port)), out),
            (None, None) => {}
        }
    }

    /// Through a bridge, from one of its ports.
    fn cross(&mut self, bridge: usize, from: Place, out: Outgoing) {
        match self.edge.bridges.exits(bridge, from, out.source, out.destination) {
            Exits::None => {}
            Exits::One(Place::Nic(nic)) if self.has_left(nic, bridge) => {
                self.edge.nics[nic].traffic.missed += 1;
            }
            Exits::One(to) => self.pass(to, out),
            Exits::Flood(places) => places.into_iter().for_each(|to| self.pass(to, out)),
        }
    }

    /// Whether a vNIC is plugged in elsewhere: what was in the queue of its port when its guest moved comes out here.
    #[inline]
    fn has_left(&self, nic: usize, bridge: usize) -> bool {
        self.edge.outages && self.edge.nics[nic].bridge != Some(bridge)
    }

    /// To what lies at a port of a bridge.
    pub(super) fn pass(&mut self, to: Place, out: Outgoing) {
        match to {
            Place::Nic(nic) => self.arrive(nic, out),
            Place::Port(at) => self.enter(at, out),
        }
    }

    /// Towards the wire of a port: into the queue that guests share there, if there is one. A frame whose sender is not
    /// held back has no socket from here on.
    pub(super) fn enter(&mut self, at: PortId, out: Outgoing) {
        let Some(queue) = self.edge.shared(at) else { return self.enter_wire(at, out) };
        let socket = out.socket.filter(|socket| self.edge.is_held(self.sockets[*socket].nic));
        self.put(queue, &Outgoing { socket, ..out }, self.now_ns);
    }

    /// Into the fabric; segments that go together are cut before it.
    pub(super) fn enter_wire(&mut self, at: PortId, out: Outgoing) {
        if let Some(parts) = self.packets.parts_of(&out.cargo.message) {
            for part in self.packets.cut(&out, parts) {
                self.enter_wire(at, part);
            }
            return;
        }
        let frame = Frame {
            bytes: out.bytes,
            source: out.source,
            destination: out.destination,
            flow: out.flow,
            ecn: self.labels.ecn_of(&out.cargo.message),
            headers: self.wire.fabric.wants_headers().then(|| Box::new(self.labels.headers_of(&out))),
            payload: Carried { cargo: out.cargo, counted: out.counted, to: u32::MAX },
        };
        self.catch_up_before(at);
        self.wire.fabric.arrive(at, frame, Nanos(self.now_ns));
        self.foresee();
    }

    /// To a vNIC; one that takes no segments together gets them one by one.
    pub(super) fn arrive(&mut self, nic: usize, out: Outgoing) {
        if !self.lets_together(nic)
            && let Some(parts) = self.packets.parts_of(&out.cargo.message)
        {
            for part in self.packets.cut(&out, parts) {
                self.arrive(nic, part);
            }
            return;
        }
        match self.platform.enter(self.now_ns, nic, out.bytes) {
            Some(at_ns) => self.fly(at_ns, Flight::In(nic, out)),
            None => self.come(nic, out),
        }
    }

    /// Into a guest's kernel.
    pub(super) fn come(&mut self, nic: usize, out: Outgoing) {
        if self.edge.outages && self.edge.nics[nic].misses() {
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
