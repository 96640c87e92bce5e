//! The short way of a message that is one packet into the fabric, where nothing on its host holds it up.
//!
//! Where a virtual switch leads frames to an address whatever happens, and the platform costs nothing, all that a frame can
//! meet on its host are two buckets and two queues: its vNIC's, and that of the queue that guests share. Where these let it
//! go at once, it is in the fabric at once. `send_asking` comes to the same, and looks at each place for what may be there.

use crate::ip::{Cargo, HOPS, Message, Packet};
use crate::network::frames::{Carried, Outgoing};
use crate::network::whole::Network;
use crate::network::wire::ways::{Road, Way};
use virtlab_fabric::{Frame, Mac};
use virtlab_wire::Nanos;
use virtlab_wire::ethernet::HEADER_BYTES;

impl Network {
    /// How frames from a vNIC to an address come to the fabric, if nothing is on the way but queues and buckets.
    pub(super) fn road(&self, nic: usize, destination: Mac) -> Option<Road> {
        let held_up = self.platform.costs.is_some() || self.guests.neighbours.is_some() || self.edge.outages;
        let own = &self.edge.nics[nic];
        if held_up || !self.wire.ways.may_meet() || own.licence.is_some() || self.wire.fabric.wants_headers()
        {
            return None;
        }
        let at = self.edge.exit(nic, destination)?;
        Some(Road { at, queue: self.edge.shared(at) })
    }

    /// Sends a message that is one packet, where that is in the fabric at once. False where it is not: then nothing has
    /// happened.
    #[inline]
    pub(super) fn send_along(&mut self, socket: usize, message: &Message) -> bool {
        let own = &self.sockets[socket];
        let Way::Along(road) = own.way else { return false };
        let Road { at, queue } = self.wire.ways.road(road);
        let (nic, source, destination) = (own.nic, own.source, own.destination);
        let (flow, counted, whole_bytes) =
            (own.flows[0], own.counted, message.payload_bytes + own.transport_bytes);
        let Some(to) = own.ip.filter(|_| !own.raw && whole_bytes > 0) else { return false };
        let mut packet =
            Packet { number: 0, to, hops_left: HOPS, tapped: false, body_bytes: whole_bytes, whole_bytes };
        let bytes = HEADER_BYTES + packet.bytes();
        if packet.bytes() > self.mtu_towards(nic, to) || self.packets.parts_of(message).is_some() {
            return false;
        }
        self.catch_up_before(at);
        let open = |place: usize| self.edge.nics[place].is_open(self.now_ns);
        if !self.edge.nics[nic].queue.is_clear() || !open(nic) || !queue.is_none_or(open) {
            return false;
        }
        for place in [nic].into_iter().chain(queue) {
            self.edge.nics[place].let_through(bytes, self.now_ns);
        }
        packet.number = self.packets.number();
        let cargo = Cargo { message: *message, ip: Some(packet) };
        let out =
            Outgoing { cargo, source, destination, bytes, flow, socket: Some(socket), counted, amid: false };
        let payload = Carried { cargo, counted, to: u32::MAX };
        let ecn = self.labels.ecn_of(&out);
        let frame = Frame { bytes, source, destination, flow, ecn, headers: None, payload };
        self.wire.fabric.arrive(at, frame, Nanos(self.now_ns));
        self.foresee();
        true
    }
}
