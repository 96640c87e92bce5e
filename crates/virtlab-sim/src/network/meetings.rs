//! Frames that are only counted and meet others at one switch: they have no event behind their sender.
//!
//! Where a vNIC stands at the fabric alone, or behind a virtual switch that knows the way, such a frame is handed to
//! [`Fabric::meet`](virtlab_fabric::Fabric::meet) as it starts. What has come to a port is gathered before anybody reads a counter,
//! and now and then, so that little waits.

use super::Network;
use super::bridges::Place;
use super::vnics::{Carried, Outgoing};
use virtlab_fabric::{Meeting, PortId};
use virtlab_wire::Nanos;

impl Network {
    /// Where a frame that leaves a vNIC now enters the fabric, the way that it goes there without events, and the vNIC at its end.
    #[inline]
    pub(super) fn meeting(&mut self, nic: usize, out: &Outgoing) -> Option<(PortId, Meeting, u32)> {
        if !out.counted || self.resolution.is_some() {
            return None;
        }
        let own = &self.nics[nic];
        let at = match (own.bridge, own.port) {
            (Some(bridge), _) if self.bridges[bridge].learns => None,
            (Some(bridge), _) => match self.bridges[bridge].ways.get(&out.destination) {
                Some(Place::Port(at)) => Some(*at),
                _ => None,
            },
            (None, port) => port,
        }?;
        let meeting = self.fabric.meeting(at, out.source, out.destination)?;
        let to = self.own_nic(meeting.port.0, (out.destination, out.cargo.ip.map(|packet| packet.to)))?;
        Some((at, meeting, to))
    }

    /// A frame leaves its vNIC for the end of such a way.
    #[inline]
    pub(super) fn meet(&mut self, nic: usize, out: &Outgoing, way: &(PortId, Meeting, u32)) {
        let (at, meeting, to) = way;
        let traffic = &mut self.nics[nic].traffic;
        traffic.sent_packets += 1;
        traffic.sent_bytes += u64::from(out.bytes);
        self.catch_up_before(*at);
        let carried = Carried { cargo: out.cargo, counted: true, to: *to };
        if self.fabric.meet(meeting, out.bytes, Nanos(self.now_ns), carried) {
            self.crowded.push(meeting.port.0);
        }
    }

    /// Plays on without events what has come to a port by now.
    #[inline]
    pub(super) fn gather(&mut self, port: usize) {
        if self.fabric.gather(PortId(port), Nanos(self.now_ns)) {
            self.foresee();
        }
    }

    /// The instant ahead at which the last frame comes that has no event there.
    pub fn last_coming_ns(&self) -> Option<u64> {
        self.fabric.last_coming().map(|at| at.0).filter(|at| *at > self.now_ns)
    }
}
