//! Frames that are only counted and meet others at one switch: they have no event behind their sender.
//!
//! Where a vNIC stands at the fabric alone, or behind a virtual switch that knows the way, such a frame is handed
//! to [`Fabric::meet`](virtlab_fabric::Fabric::meet) as it starts. What has come to a port is gathered before
//! anybody reads a counter, and now and then, so that little waits.

use crate::ip::{Cargo, HOPS, Message, Packet};
use crate::network::frames::{Address, Carried, Outgoing};
use crate::network::whole::Network;
use crate::network::wire::paths::{MeetingWay, Way};
use virtlab_fabric::{Mac, PortId};
use virtlab_wire::Nanos;
use virtlab_wire::ethernet::HEADER_BYTES;

impl Network {
    /// Sends a message that is one packet and only counted, where its vNIC lets it through at once and its way has no
    /// events. False where that is not so: then nothing has happened, and the message is sent by `send_asking`, which
    /// asks of each frame what is in its way and would find nothing of what is sent here.
    #[inline]
    pub(super) fn send_straight(&mut self, socket: usize, message: &Message) -> bool {
        let own = &self.sockets[socket];
        let (nic, source, destination, way) = (own.nic, own.source, own.destination, own.way);
        let whole_bytes = message.payload_bytes + own.transport_bytes;
        let Some(to) = own.ip.filter(|_| own.counted && !own.raw) else { return false };
        let straight = self.guests.neighbours.is_none() && self.edge.nics[nic].is_clear();
        if !straight || whole_bytes == 0 {
            return false;
        }
        let mut packet =
            Packet { number: 0, to, hops_left: HOPS, tapped: false, body_bytes: whole_bytes, whole_bytes };
        let bytes = packet.bytes();
        if bytes > self.mtu_towards(nic, to) {
            return false;
        }
        let way = match way {
            Way::Meeting(way) => Some(self.wire.paths.meeting(way)),
            Way::Changing => self.meeting(nic, source, (destination, Some(to))),
            Way::Unknown | Way::Played | Way::Along(_) | Way::Certain(_) => None,
        };
        let Some(way) = way else { return false };
        packet.number = self.packets.number();
        self.meet(nic, HEADER_BYTES + bytes, Cargo { message: *message, ip: Some(packet) }, &way);
        true
    }

    /// The way without events that a frame takes which leaves a vNIC now.
    #[inline]
    pub(super) fn meeting_of(&mut self, nic: usize, out: &Outgoing) -> Option<MeetingWay> {
        if !out.counted {
            return None;
        }
        match out.socket.map(|socket| self.sockets[socket].way) {
            Some(Way::Meeting(way)) => Some(self.wire.paths.meeting(way)),
            Some(Way::Played | Way::Along(_)) => None,
            _ => self.meeting(nic, out.source, (out.destination, out.cargo.ip.map(|packet| packet.to))),
        }
    }

    /// The way without events from a vNIC between these addresses; the same at any time.
    #[inline]
    pub(super) fn meeting(&mut self, nic: usize, source: Mac, to: Address) -> Option<MeetingWay> {
        if self.guests.neighbours.is_some() || !self.wire.paths.may_meet() {
            return None;
        }
        let at = self.edge.entrance(nic, to.0)?;
        let meeting = self.wire.fabric.meeting(at, source, to.0)?;
        let to = self.own_nic(meeting.port.0, to)?;
        Some(MeetingWay { at, meeting, to })
    }

    /// A frame leaves its vNIC for the end of such a way.
    #[inline]
    pub(super) fn meet(&mut self, nic: usize, bytes: u32, cargo: Cargo, way: &MeetingWay) {
        let MeetingWay { at, meeting, to } = way;
        self.edge.nics[nic].traffic.send(1, bytes);
        self.catch_up_before(*at);
        let carried = Carried { cargo, counted: true, to: *to };
        if self.wire.fabric.meet(meeting, bytes, Nanos(self.now_ns), carried) {
            self.wire.ports.crowd(meeting.port.0);
        }
    }

    /// Plays on without events what has come to a port by now.
    #[inline]
    pub(super) fn gather(&mut self, port: usize) {
        if self.wire.fabric.gather(PortId(port), Nanos(self.now_ns)) {
            self.foresee();
        }
    }

    /// The instant ahead at which the last frame comes that has no event where it comes.
    pub fn last_coming_ns(&self) -> Option<u64> {
        let coming = self.wire.fabric.last_coming().map(|at| at.0);
        let last = coming.into_iter().chain(self.wire.ports.last_quiet_ns()).chain([self.edge.last_early_ns]);
        last.max().filter(|at| *at > self.now_ns)
    }
}
