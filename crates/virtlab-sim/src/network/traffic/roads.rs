//! The short way of a message that is one packet into the fabric, where nothing on its host holds it up but buckets.
//!
//! Where a virtual switch leads frames to an address whatever happens, and the platform costs nothing, all that a frame
//! can meet on its host are two buckets and two queues: its vNIC's, and that of the queue that guests share. Where
//! these let it go at once, it is in the fabric at once. `send_asking` comes to the same, and looks at each place for
//! what may be there.
//!
//! Where they do not, and whatever enters the fabric at that port comes through the same vNIC, nothing can come between
//! a frame that waits and the wire: when it leaves both queues follows from their buckets as soon as it is sent. So it
//! is given to the fabric at once, for the instant at which it comes there, and needs no event on its host. That it has
//! left, and that its socket has its room back, is made up for before anybody looks; while a socket waits for room,
//! each frame has its event.

use crate::ip::{Cargo, HOPS, Message, Packet};
use crate::network::edge::queue::Early;
use crate::network::edge::vnics::Nic;
use crate::network::frames::Carried;
use crate::network::whole::Network;
use crate::network::wire::paths::{Road, Way};
use crate::network::wire::ports::Stage;
use virtlab_fabric::{Frame, Mac, PortId};
use virtlab_wire::Nanos;
use virtlab_wire::ethernet::HEADER_BYTES;

impl Network {
    /// How frames from a vNIC to an address or a group come to the fabric, if nothing is on the way but queues and
    /// buckets.
    pub(super) fn road(&self, nic: usize, destination: Mac) -> Option<Road> {
        let held_up = self.platform.costs.is_some() || self.guests.neighbours.is_some() || self.edge.outages;
        let own = &self.edge.nics[nic];
        if held_up || !self.wire.paths.may_meet() || own.licence.is_some() || self.wire.fabric.wants_headers()
        {
            return None;
        }
        let at = match destination.is_group() {
            true => self.edge.exit_of_groups(nic)?,
            false => self.edge.exit(nic, destination)?,
        };
        let alone = self.edge.is_alone(nic, at) && self.wire.fabric.takes_early(at);
        let early = alone && !self.wire.paths.by_events();
        let early = early.then_some(self.edge.is_held(nic));
        Some(Road { at, queue: self.edge.shared(at), early })
    }

    /// A socket's frames take a road.
    pub(super) fn keep_road(&mut self, socket: usize, road: Road) -> Way {
        if let (Some(true), Some(queue)) = (road.early, road.queue) {
            self.sockets[socket].queue = queue;
        }
        self.wire.paths.keep_road(road)
    }

    /// Sends a message that is one packet, where it can be given to the fabric at once; the instant at which it leaves
    /// its vNIC. `None` where it cannot: then nothing has happened.
    #[inline]
    pub(super) fn send_along(&mut self, socket: usize, message: &Message) -> Option<u64> {
        let own = &self.sockets[socket];
        let Way::Along(road) = own.way else { return None };
        let road = self.wire.paths.road(road);
        let (nic, source, destination) = (own.nic, own.source, own.destination);
        let (flow, counted, whole_bytes) =
            (own.flows[0], own.counted, message.payload_bytes + own.transport_bytes);
        let to = own.ip.filter(|_| !own.raw && whole_bytes > 0)?;
        let mut packet =
            Packet { number: 0, to, hops_left: HOPS, tapped: false, body_bytes: whole_bytes, whole_bytes };
        let bytes = HEADER_BYTES + packet.bytes();
        if packet.bytes() > self.mtu_towards(nic, to) || self.packets.parts_of(message).is_some() {
            return None;
        }
        self.catch_up_before(road.at);
        let open = |place: usize| self.edge.nics[place].is_open(self.now_ns);
        if !self.edge.nics[nic].queue.is_clear() {
            return None;
        }
        let at_once = open(nic) && road.queue.is_none_or(open);
        let times = match at_once {
            true => {
                for place in [nic].into_iter().chain(road.queue) {
                    self.edge.nics[place].let_through(bytes, self.now_ns);
                }
                [self.now_ns; 2]
            }
            false => self.wait_early(socket, nic, &road, bytes)?,
        };
        packet.number = self.packets.number();
        let cargo = Cargo { message: *message, ip: Some(packet) };
        let payload = Carried { cargo, counted, to: u32::MAX };
        let ecn = self.labels.ecn_of(message);
        let frame = Frame { bytes, source, destination, flow, ecn, headers: None, payload };
        let [left_ns, enters_ns] = times;
        if enters_ns == self.now_ns {
            self.wire.fabric.arrive(road.at, frame, Nanos(self.now_ns));
            self.foresee();
        } else {
            self.wire.fabric.arrive_early(road.at, frame, Nanos(self.now_ns), Nanos(enters_ns));
        }
        Some(left_ns)
    }

    /// A frame that is in the fabric before waits on its host: when it leaves its vNIC, and when it comes into the
    /// fabric. `None`: it has to wait as any other, and nothing has happened.
    fn wait_early(&mut self, socket: usize, nic: usize, road: &Road, bytes: u32) -> Option<[u64; 2]> {
        let held = road.early?;
        for place in [nic].into_iter().chain(road.queue) {
            self.pass_early(place);
        }
        let takes = |place: usize| {
            let queue = &self.edge.nics[place].queue;
            queue.is_empty() && queue.has_place(1)
        };
        if !takes(nic) || !road.queue.is_none_or(takes) {
            return None;
        }
        let now_ns = self.now_ns;
        let start_ns = self.edge.nics[nic].start_ns(bytes, now_ns);
        let enters_ns = road.queue.map_or(start_ns, |queue| self.edge.nics[queue].start_ns(bytes, start_ns));
        let waits_behind = enters_ns > start_ns;
        let room_behind = held && waits_behind;
        let queue = road.queue.unwrap_or(nic);
        if start_ns > now_ns {
            let through = road.queue.filter(|_| !waits_behind);
            let socket = (!room_behind).then_some(socket);
            self.push_early(nic, Early { came_ns: now_ns, at_ns: start_ns, bytes, socket, through });
        } else {
            self.edge.nics[nic].traffic.send(1, bytes);
        }
        if waits_behind {
            let socket = room_behind.then_some(socket);
            self.push_early(
                queue,
                Early { came_ns: start_ns, at_ns: enters_ns, bytes, socket, through: None },
            );
        } else if start_ns == now_ns
            && let Some(queue) = road.queue
        {
            self.edge.nics[queue].traffic.send(1, bytes);
        }
        self.edge.last_early_ns = self.edge.last_early_ns.max(enters_ns);
        Some([start_ns, enters_ns])
    }

    fn push_early(&mut self, place: usize, early: Early) {
        if let Some(socket) = early.socket {
            self.sockets[socket].room.hold(1, early.bytes);
        }
        let planned = self.agenda.planned_at(early.came_ns);
        let queue = &mut self.edge.nics[place].queue;
        queue.push_early(early, planned);
        if queue.is_blocked() {
            self.arm(place);
        }
    }

    /// Frames that were in the fabric before and have left a queue by now are counted there, and give room.
    #[inline]
    pub(super) fn pass_early(&mut self, place: usize) {
        while let Some(early) = self.edge.nics[place].queue.first_early()
            && self.agenda.would_have_happened(early.at_ns, self.edge.nics[place].queue.first_planned())
        {
            self.let_early_go(place);
        }
    }

    /// What lies before frames that are in the fabric already and come there at this very instant, but after the event
    /// that happens now: of each its port, and whether that is the queue that guests share or the wire.
    pub(super) fn later_now(&self) -> Vec<(PortId, Stage)> {
        let leaves = |(place, nic): (usize, &Nic)| {
            let early = nic.queue.first_early().filter(|early| early.at_ns <= self.now_ns)?;
            let at = nic.port.or_else(|| self.edge.bridges.only_way_out(nic.bridge?, place))?;
            let waits_behind = !nic.is_shared() && early.through.is_none() && self.edge.shared(at).is_some();
            Some((at, if waits_behind { Stage::Shared } else { Stage::Wire }))
        };
        self.edge.nics.iter().enumerate().filter_map(leaves).collect()
    }

    /// The first of them leaves a queue.
    pub(super) fn let_early_go(&mut self, place: usize) {
        let agenda = &mut self.agenda;
        let Some(early) = self.edge.nics[place].queue.pop_early(|at_ns| agenda.planned_at(at_ns)) else {
            return;
        };
        for place in [place].into_iter().chain(early.through) {
            self.edge.nics[place].traffic.send(1, early.bytes);
        }
        if let Some(socket) = early.socket {
            self.give(socket, early.bytes);
        }
    }
}
