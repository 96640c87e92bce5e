//! Frames that are only counted and meet others at one switch: they have no event behind their sender.
//!
//! Where a vNIC stands at the fabric alone, or behind a virtual switch that knows the way, such a frame is handed
//! to [`Fabric::meet`](virtlab_fabric::Fabric::meet) as it starts. What has come to a port is gathered before
//! anybody reads a counter, and now and then, so that little waits.

use super::Network;
use super::bridges::Place;
use super::trains::Way;
use super::vnics::{Carried, Outgoing};
use crate::ip::addresses::Number;
use virtlab_fabric::{Mac, Meeting, PortId};
use virtlab_wire::Nanos;

/// A path on which frames may meet; see the module's head.
#[derive(Clone, Copy)]
pub(super) struct MeetingWay {
    /// Where its frames enter the fabric.
    at: PortId,
    meeting: Meeting,
    /// The vNIC at its end.
    to: u32,
}

impl Network {
    /// The way without events that a frame takes which leaves a vNIC now.
    #[inline]
    pub(super) fn meeting_of(&mut self, nic: usize, out: &Outgoing) -> Option<MeetingWay> {
        if !out.counted {
            return None;
        }
        match out.socket.map(|socket| self.sockets[socket].way) {
            Some(Way::Meeting(way)) => Some(self.meeting_ways[way as usize]),
            Some(Way::Played) => None,
            _ => self.meeting(nic, out.source, out.destination, out.cargo.ip.map(|packet| packet.to)),
        }
    }

    /// The way without events from a vNIC between these addresses; the same at any time.
    #[inline]
    pub(super) fn meeting(
        &mut self,
        nic: usize,
        source: Mac,
        destination: Mac,
        ip: Option<Number>,
    ) -> Option<MeetingWay> {
        if self.resolution.is_some() {
            return None;
        }
        let own = &self.nics[nic];
        let at = match (own.bridge, own.port) {
            (Some(bridge), _) if self.bridges[bridge].learns => None,
            (Some(bridge), _) => match self.bridges[bridge].ways.get(&destination) {
                Some(Place::Port(at)) => Some(*at),
                _ => None,
            },
            (None, port) => port,
        }?;
        let meeting = self.fabric.meeting(at, source, destination)?;
        let to = self.own_nic(meeting.port.0, (destination, ip))?;
        Some(MeetingWay { at, meeting, to })
    }

    /// A frame leaves its vNIC for the end of such a way.
    #[inline]
    pub(super) fn meet(&mut self, nic: usize, out: &Outgoing, way: &MeetingWay) {
        let MeetingWay { at, meeting, to } = way;
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
