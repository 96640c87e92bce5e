//! Sockets, IP, vNICs, bridges and the fabric: how a message gets from one guest to another.
//!
//! A vNIC with pushback lets frames go as the testbed's does, by a token bucket at its rate with a burst of ten frames,
//! counted in Ethernet's octet times; sending is allowed while the bucket is not overdrawn, as in Linux's HTB. Frame
//! after frame that is `start = max(now, free)` and `free = max(free, start - burst) + cost`. A frame takes no time on its
//! way to the bridge and through it: on the wire it is once, on the link.
//!
//! A frame that leaves the fabric is told of as soon as its last transmitter takes it, and waits in the landing of its port.
//! Only what changes something beyond counters has an event at its instant: a message that is whole and answered, a frame
//! that is forwarded. All but the last fragment of a packet, and messages that are only counted, have none: they are
//! counted, with their own instants, before anybody reads a counter.

use crate::agenda::{Agenda, Due};
use crate::costs::Costs;
use crate::input::{Finding, Guest, Input, On, Vnic, Way};
use crate::ip::{self, Cargo, HOPS, Message, Packet, Reassembly};
use crate::marks::Readings;
use core::net::Ipv4Addr;
use std::collections::{BTreeMap, VecDeque};
use virtlab_fabric::{Departure, Fabric, Frame, Mac, PortId, flow_hash};
use virtlab_load::Transport;
use virtlab_qdisc::{Ecn, Headers};
use virtlab_wire::Nanos;
use virtlab_wire::ethernet::{HEADER_BYTES, serialisation, wire_bytes};

/// Frames that a vNIC with pushback lets go at once after a pause; the testbed's figure.
pub const BURST_FRAMES: u32 = 10;

#[derive(Clone, Copy, Debug)]
enum Place {
    Nic(usize),
    Port(PortId),
}

/// A frame at a vNIC.
#[derive(Clone, Copy, Debug)]
struct Outgoing {
    cargo: Cargo,
    source: Mac,
    destination: Mac,
    /// Header and payload, no FCS.
    bytes: u32,
    flow: u64,
    socket: Option<usize>,
    /// Whether its receiver only counts it.
    counted: bool,
}

/// What a frame that leaves the fabric is to whoever stands at its port.
#[derive(Clone, Copy, Debug)]
enum Meaning {
    /// It goes on through a bridge or a guest; an event stands for it.
    Onward(Outgoing),
    /// A fragment of a message that is not whole with it.
    Part,
    /// A message is whole with it and is only counted.
    Counted(Message),
    /// A message is whole with it; an event stands for it.
    Whole(Message),
}

/// A frame that leaves the fabric at `at_ns`.
#[derive(Clone, Copy, Debug)]
struct Landing {
    at_ns: u64,
    nic: usize,
    bytes: u32,
    meaning: Meaning,
}

/// A message that has come.
#[derive(Clone, Copy, Debug)]
pub enum Landed {
    /// To be taken now.
    Now(Message),
    /// To be counted, with its instant.
    At(Message, u64),
}

/// Frames in a landing, from which on those that have come are counted without waiting for a reader.
const CROWD: usize = 128;

/// A frame that has come to a vNIC.
#[derive(Clone, Copy, Debug)]
pub struct Incoming {
    nic: usize,
    destination: Mac,
    bytes: u32,
    flow: u64,
    cargo: Cargo,
}

#[derive(Debug, Default)]
struct Traffic {
    received_packets: u64,
    received_bytes: u64,
    sent_packets: u64,
    sent_bytes: u64,
    strangers: u64,
}

struct Nic {
    given: Vnic,
    bridge: Option<usize>,
    port: Option<PortId>,
    /// Instant at which the bucket is just not overdrawn; may lie before the beginning.
    free_ns: i64,
    burst_ns: i64,
    queue: VecDeque<(u64, Outgoing)>,
    traffic: Traffic,
}

struct Host {
    given: Guest,
    reassembly: Reassembly,
}

/// What a cost of the platform holds up.
#[derive(Clone, Copy, Debug)]
enum Flight {
    /// A frame between a vNIC and what lies behind it.
    Out(usize, Outgoing),
    /// A frame between the fabric and what lies behind the port.
    Departed(usize, Outgoing),
    /// A frame that is coming into a guest.
    In(usize, Outgoing),
    /// A message that the kernel has had since an instant, and the process has not.
    Handed(Message, u64),
}

/// How a role's side sends.
pub struct Socket {
    nic: usize,
    source: Mac,
    destination: Mac,
    /// The far address; absent below IP.
    ip: Option<Ipv4Addr>,
    /// Flow hash of whole packets and of fragments.
    flows: [u64; 2],
    /// Bytes of its frames that wait in the vNIC, and how many may before it is held back.
    held_bytes: u64,
    most_bytes: u64,
    pending: VecDeque<Message>,
    waiter: Option<Due>,
    counted: bool,
    /// Of the header that stands before the payload.
    transport_bytes: u32,
}

/// Everything between two sockets.
pub struct Network {
    /// Virtual time.
    pub now_ns: u64,
    /// What is planned.
    pub agenda: Agenda,
    /// Frames that stand at vNICs now.
    pub inbox: VecDeque<Incoming>,
    fabric: Fabric<Outgoing>,
    departures: Vec<Departure<Outgoing>>,
    landings: Vec<VecDeque<Landing>>,
    /// Ports whose landings have grown beyond a crowd.
    pub crowded: Vec<usize>,
    port_nics: Vec<Option<usize>>,
    port_bridges: Vec<Option<usize>>,
    nics: Vec<Nic>,
    hosts: Vec<Host>,
    bridges: Vec<BTreeMap<Mac, Place>>,
    neighbours: BTreeMap<Ipv4Addr, Mac>,
    sockets: Vec<Socket>,
    packets: u64,
    /// Headers of what sockets send, by flow, and TOS by role: what match rules look at.
    headers: BTreeMap<u64, Headers>,
    tos: BTreeMap<usize, u8>,
    /// When the message that a role takes came to its kernel.
    pub stamp_ns: u64,
    costs: Option<Box<Costs>>,
    flights: Vec<Option<Flight>>,
    landed: Vec<usize>,
    /// Guests of the roles' sides.
    sides: Vec<[usize; 2]>,
}

impl Network {
    /// The world's network. A finding when the fabric cannot be.
    pub fn new(input: &Input, uplinks: &BTreeMap<String, usize>) -> Result<Self, Finding> {
        let mut fabric: Fabric<Outgoing> =
            Fabric::new(&input.fabric).map_err(|error| Finding::new(error.path, error.what, error.cure))?;
        fabric.foretell();
        let port = |name: &str| {
            fabric
                .port(name)
                .ok_or_else(|| Finding::new("links", format!("'{name}' is in no link"), "give it a link"))
        };
        let mut port_nics = vec![None; fabric.ports().len()];
        let mut port_bridges = vec![None; fabric.ports().len()];
        for (name, bridge) in uplinks {
            port_bridges[port(name)?.0] = Some(*bridge);
        }
        let mut nics = Vec::new();
        for (index, vnic) in input.vnics.iter().enumerate() {
            let (bridge, at) = match &vnic.on {
                On::Vswitch(bridge) => (Some(*bridge), None),
                On::Port(name) => (None, Some(port(name)?)),
            };
            if let Some(at) = at {
                port_nics[at.0] = Some(index);
            }
            let burst = vnic.pushback_bit_per_s.map_or(Nanos::ZERO, |rate| {
                serialisation(BURST_FRAMES * wire_bytes(vnic.mtu_bytes + HEADER_BYTES), rate)
            });
            nics.push(Nic {
                given: vnic.clone(),
                bridge,
                port: at,
                free_ns: -(burst.0 as i64),
                burst_ns: burst.0 as i64,
                queue: VecDeque::new(),
                traffic: Traffic::default(),
            });
        }
        let mut bridges = Vec::new();
        for table in &input.vswitches {
            let mut ways = BTreeMap::new();
            for (mac, way) in table {
                ways.insert(
                    *mac,
                    match way {
                        Way::Vnic(nic) => Place::Nic(*nic),
                        Way::Port(name) => Place::Port(port(name)?),
                    },
                );
            }
            bridges.push(ways);
        }
        let ports = fabric.ports().len();
        let costs = input.costs.clone().map(|given| Box::new(Costs::new(given, ports, input.roles.len())));
        Ok(Self {
            now_ns: 0,
            agenda: Agenda::default(),
            inbox: VecDeque::new(),
            fabric,
            departures: Vec::new(),
            landings: vec![VecDeque::new(); port_nics.len()],
            crowded: Vec::new(),
            port_nics,
            port_bridges,
            nics,
            hosts: input
                .guests
                .iter()
                .map(|guest| Host { given: guest.clone(), reassembly: Reassembly::default() })
                .collect(),
            bridges,
            neighbours: input.neighbours.clone(),
            sockets: Vec::new(),
            packets: 0,
            headers: BTreeMap::new(),
            tos: BTreeMap::new(),
            stamp_ns: 0,
            costs,
            flights: Vec::new(),
            landed: Vec::new(),
            sides: input
                .roles
                .iter()
                .map(|role| [0, 1].map(|side: usize| input.vnics[role.ends[side].vnic].guest))
                .collect(),
        })
    }

    /// Largest IP packet of a vNIC.
    pub fn mtu_bytes(&self, nic: usize) -> u32 {
        self.nics[nic].given.mtu_bytes
    }

    /// Whether something bounds how fast a process can send through a vNIC: its pushback, or what sending costs.
    pub fn bounds_a_flood(&self, nic: usize) -> bool {
        let given = &self.nics[nic].given;
        given.pushback_bit_per_s.is_some()
            || self.costs.as_ref().is_some_and(|costs| costs.bounds_a_flood(given.guest))
    }

    /// The kernel itself sends from this socket.
    pub fn by_kernel(&mut self, socket: usize) {
        if let Some(costs) = &mut self.costs {
            costs.by_kernel(socket);
        }
    }

    /// A socket of `guest_of` to an address. `None` when no route leads there.
    pub fn socket(
        &mut self,
        guest_of: usize,
        from: Ipv4Addr,
        to: Ipv4Addr,
        transport: Transport,
        port: u16,
        most_bytes: u64,
    ) -> Option<usize> {
        let guest = self.nics[guest_of].given.guest;
        let (nic, destination) = self.next_hop(guest, to)?;
        let mut header = |fragmented: bool| {
            let mut bytes = vec![0; 14];
            bytes[12] = 8;
            bytes.extend([0x45, 0, 0, 0, 0, 0, if fragmented { 0x20 } else { 0 }, 0, HOPS]);
            bytes.push(match transport {
                Transport::Icmp => 1,
                Transport::Tcp => 6,
                Transport::Udp => 17,
            });
            bytes.extend([0, 0]);
            bytes.extend(from.octets());
            bytes.extend(to.octets());
            bytes.extend(port.to_be_bytes());
            bytes.extend(5001u16.to_be_bytes());
            let flow = flow_hash(&bytes);
            self.headers.insert(flow, virtlab_fabric::headers(&bytes));
            flow
        };
        let flows = [header(false), header(true)];
        self.sockets.push(Socket {
            nic,
            source: self.nics[nic].given.mac,
            destination,
            ip: Some(to),
            flows,
            held_bytes: 0,
            most_bytes,
            pending: VecDeque::new(),
            waiter: None,
            counted: false,
            transport_bytes: ip::TRANSPORT_BYTES,
        });
        Some(self.sockets.len() - 1)
    }

    /// Both sockets of a TCP connection; what they send holds the TCP header in its payload.
    pub fn tcp_sockets(
        &mut self,
        guests_of: [usize; 2],
        addresses: [Ipv4Addr; 2],
        port: u16,
        most_bytes: u64,
    ) -> Option<[usize; 2]> {
        let [here, there] = addresses;
        let client = self.socket(guests_of[0], here, there, Transport::Tcp, port, most_bytes)?;
        // Its own port tells the answers of flows apart as the client's does their requests.
        let server = self.socket(guests_of[1], there, here, Transport::Tcp, port, most_bytes)?;
        for socket in [client, server] {
            self.sockets[socket].transport_bytes = 0;
        }
        Some([client, server])
    }

    /// Bounds what a socket may have waiting in its vNIC.
    pub fn bound(&mut self, socket: usize, most_bytes: u64) {
        self.sockets[socket].most_bytes = most_bytes;
    }

    /// Packets of a role carry this code point, both ways.
    pub fn class(&mut self, role: usize, dscp: u8) {
        self.tos.insert(role, dscp << 2);
    }

    fn headers_of(&self, out: &Outgoing) -> Headers {
        let read = self.headers.get(&out.flow).copied().unwrap_or_default();
        let tos = self.tos.get(&out.cargo.message.role).copied();
        Headers { tos: read.tos.map(|plain| tos.unwrap_or(plain)), ..read }
    }

    /// A socket below IP; `flow` is written into its source address.
    pub fn raw_socket(&mut self, from: usize, to: usize, flow: u16, most_bytes: u64) -> usize {
        let (mut source, destination) = (self.nics[from].given.mac, self.nics[to].given.mac);
        source.0[4] ^= (flow >> 8) as u8;
        source.0[5] ^= flow as u8;
        let addresses: Vec<u8> = destination.0.iter().chain(&source.0).copied().chain([0x88, 0xb5]).collect();
        self.sockets.push(Socket {
            nic: from,
            source,
            destination,
            ip: None,
            flows: [flow_hash(&addresses); 2],
            held_bytes: 0,
            most_bytes,
            pending: VecDeque::new(),
            waiter: None,
            counted: false,
            transport_bytes: ip::TRANSPORT_BYTES,
        });
        self.sockets.len() - 1
    }

    /// Directs a socket to where another one sends from, on the same wired network; its flow stays.
    pub fn aim(&mut self, socket: usize, far: usize) {
        let nic = self.sockets[far].nic;
        self.sockets[socket].destination = self.sockets[far].source;
        self.sockets[socket].ip = self.hosts[self.nics[nic].given.guest].given.addresses.first().copied();
    }

    /// The far side of this socket only counts what comes.
    pub fn only_counted(&mut self, socket: usize) {
        self.sockets[socket].counted = self.costs.is_none(); // a cost comes between
    }

    /// Whether a process can send another message at once: the socket takes it, and the call before is over.
    pub fn has_room(&self, socket: usize) -> bool {
        self.takes(socket) && self.call_over_ns(socket) <= self.now_ns
    }

    /// Has `due` happen as soon as that is so again.
    pub fn await_room(&mut self, socket: usize, due: Due) {
        if self.takes(socket) {
            self.agenda.plan(self.call_over_ns(socket), due);
        } else {
            self.sockets[socket].waiter = Some(due);
        }
    }

    fn takes(&self, socket: usize) -> bool {
        self.sockets[socket].held_bytes < self.sockets[socket].most_bytes
    }

    fn call_over_ns(&self, socket: usize) -> u64 {
        self.costs.as_ref().map_or(0, |costs| costs.sendable_ns(self.sockets[socket].nic))
    }

    /// Sends now; the instant at which the first frame leaves the vNIC.
    pub fn send(&mut self, socket: usize, message: Message) -> u64 {
        let Socket { nic, source, destination, ip, flows, counted, transport_bytes, .. } =
            self.sockets[socket];
        let Some(to) = ip else {
            let cargo = Cargo { message, ip: None };
            // What a layer-2 message says is its frame, FCS included.
            let bytes = message.payload_bytes - virtlab_wire::ethernet::FCS_BYTES;
            let out =
                Outgoing { cargo, source, destination, bytes, flow: flows[0], socket: Some(socket), counted };
            let ready = self.ready(nic, bytes, Some(socket));
            return self.put(nic, out, ready);
        };
        let whole_bytes = message.payload_bytes + transport_bytes;
        let number = self.packets;
        self.packets += 1;
        let mut first = None;
        for body_bytes in ip::fragments(whole_bytes, self.nics[nic].given.mtu_bytes) {
            let packet = Packet { number, to, hops_left: HOPS, body_bytes, whole_bytes };
            let out = Outgoing {
                cargo: Cargo { message, ip: Some(packet) },
                source,
                destination,
                bytes: HEADER_BYTES + ip::HEADER_BYTES + body_bytes,
                flow: flows[usize::from(body_bytes < whole_bytes)],
                socket: Some(socket),
                counted,
            };
            let ready = self.ready(nic, out.bytes, first.is_none().then_some(socket));
            let left = self.put(nic, out, ready);
            first.get_or_insert(left);
        }
        first.unwrap_or(self.now_ns)
    }

    /// Sends as soon as there is room, in order.
    pub fn send_later(&mut self, socket: usize, message: Message) {
        if self.sockets[socket].pending.is_empty() && self.takes(socket) {
            self.send(socket, message);
        } else {
            self.sockets[socket].pending.push_back(message);
        }
    }

    /// A vNIC's frames that may go by now.
    pub fn release(&mut self, nic: usize) {
        while let Some(&(at, out)) = self.nics[nic].queue.front() {
            if at > self.now_ns {
                self.agenda.plan(at, Due::Release(nic));
                return;
            }
            self.nics[nic].queue.pop_front();
            self.transmit(nic, out);
            if let Some(socket) = out.socket {
                self.sockets[socket].held_bytes -= u64::from(out.bytes);
                self.refill(socket);
            }
        }
    }

    fn refill(&mut self, socket: usize) {
        while self.takes(socket) {
            let Some(message) = self.sockets[socket].pending.pop_front() else { break };
            self.send(socket, message);
        }
        if self.takes(socket)
            && let Some(due) = self.sockets[socket].waiter.take()
        {
            self.agenda.plan(self.now_ns, due);
        }
    }

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

    fn foresee(&mut self) {
        for Departure { port, at, payload, .. } in self.fabric.foretold() {
            let port = port.0;
            let nic = match (self.port_nics[port], self.port_bridges[port]) {
                (Some(nic), _) => Some(nic),
                (None, Some(bridge)) => match self.bridges[bridge].get(&payload.destination) {
                    Some(Place::Nic(nic)) => Some(*nic),
                    _ => None,
                },
                (None, None) => None,
            };
            let free = self.costs.is_none(); // otherwise a cost comes between the port and the guest
            let own = nic.filter(|nic| {
                let given = &self.nics[*nic].given;
                let addresses = &self.hosts[given.guest].given.addresses;
                free && given.mac == payload.destination
                    && payload.cargo.ip.is_none_or(|packet| addresses.contains(&packet.to))
            });
            let mut landing =
                Landing { at_ns: at.0, nic: 0, bytes: payload.bytes, meaning: Meaning::Onward(payload) };
            if let Some(nic) = own {
                let waiting = &mut self.hosts[self.nics[nic].given.guest].reassembly;
                let whole = payload.cargo.ip.is_none_or(|packet| waiting.take(&packet, at.0));
                landing.nic = nic;
                landing.meaning = match (whole, payload.counted) {
                    (false, _) => Meaning::Part,
                    (true, true) => Meaning::Counted(payload.cargo.message),
                    (true, false) => Meaning::Whole(payload.cargo.message),
                };
            }
            let waiting = &mut self.landings[port];
            waiting.push_back(landing);
            if let Meaning::Onward(_) | Meaning::Whole(_) = landing.meaning {
                self.agenda.plan(at.0, Due::Land(port));
            } else if waiting.len() >= CROWD && waiting[0].at_ns <= self.now_ns {
                self.crowded.push(port);
            }
        }
    }

    /// Ports of the fabric.
    pub fn ports(&self) -> usize {
        self.landings.len()
    }

    /// Takes what has landed at a port by now: messages are returned, one by one; frames that go on are in the inbox.
    pub fn land(&mut self, port: usize) -> Option<Landed> {
        while let Some(&Landing { at_ns, nic, bytes, meaning }) = self.landings[port].front() {
            if at_ns > self.now_ns {
                break;
            }
            self.landings[port].pop_front();
            if let Meaning::Onward(mut out) = meaning {
                out.socket = None;
                if let Some(costs) = &mut self.costs {
                    let at = costs.depart(self.now_ns, port, self.port_bridges[port], out.bytes);
                    self.fly(at, Flight::Departed(port, out));
                } else {
                    self.departed(port, out);
                }
                continue;
            }
            let traffic = &mut self.nics[nic].traffic;
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

    fn departed(&mut self, port: usize, out: Outgoing) {
        match (self.port_nics[port], self.port_bridges[port]) {
            (Some(nic), _) => self.arrive(nic, out),
            (None, Some(bridge)) => self.cross(bridge, out),
            (None, None) => {}
        }
    }

    fn fly(&mut self, at_ns: u64, flight: Flight) {
        let slot = self.landed.pop().unwrap_or(self.flights.len());
        if slot == self.flights.len() {
            self.flights.push(Some(flight));
        } else {
            self.flights[slot] = Some(flight);
        }
        self.agenda.plan(at_ns, Due::Resume(slot));
    }

    /// What a cost held up goes on; a message that its process has now.
    pub fn resume(&mut self, slot: usize) -> Option<Message> {
        let flight = self.flights[slot].take()?;
        self.landed.push(slot);
        match flight {
            Flight::Out(nic, out) => self.leave(nic, out),
            Flight::Departed(port, out) => self.departed(port, out),
            Flight::In(nic, out) => self.come(nic, out),
            Flight::Handed(message, stamp_ns) => {
                self.stamp_ns = stamp_ns;
                return Some(message);
            }
        }
        None
    }

    /// Stamps a message that has come to its kernel; it is given back when its process has it at once.
    pub fn hand_over(&mut self, message: Message, wakes: bool) -> Option<Message> {
        self.stamp_ns = self.now_ns;
        let side = message.origin ^ usize::from(!message.reply);
        match &mut self.costs {
            Some(costs) if wakes => {
                let guest = self.sides[message.role][side];
                let at = costs.hand_over(self.now_ns, guest, message.role, side);
                self.fly(at, Flight::Handed(message, self.now_ns));
                None
            }
            _ => Some(message),
        }
    }

    /// A frame that has come to a vNIC; a message that is whole with it, for this side's role.
    pub fn receive(&mut self, incoming: Incoming) -> Option<Message> {
        let Incoming { nic, destination, bytes, flow, cargo } = incoming;
        let port = &mut self.nics[nic];
        if destination != port.given.mac {
            port.traffic.strangers += 1;
            return None;
        }
        port.traffic.received_packets += 1;
        port.traffic.received_bytes += u64::from(bytes);
        let Some(packet) = cargo.ip else { return Some(cargo.message) };
        let guest = port.given.guest;
        let host = &mut self.hosts[guest];
        if host.given.addresses.contains(&packet.to) {
            return host.reassembly.take(&packet, self.now_ns).then_some(cargo.message);
        }
        if host.given.forwards && packet.hops_left > 1 {
            self.forward(guest, packet, cargo.message, bytes, flow);
        } else {
            self.nics[nic].traffic.strangers += 1;
        }
        None
    }

    fn forward(&mut self, guest: usize, packet: Packet, message: Message, bytes: u32, flow: u64) {
        let Some((nic, destination)) = self.next_hop(guest, packet.to) else { return };
        let out = Outgoing {
            cargo: Cargo { message, ip: Some(Packet { hops_left: packet.hops_left - 1, ..packet }) },
            source: self.nics[nic].given.mac,
            destination,
            bytes,
            flow,
            socket: None,
            counted: false,
        };
        let ready = self.ready(nic, bytes, None);
        self.put(nic, out, ready);
    }

    /// When a frame is at the vNIC; `call_of` the socket whose call it begins.
    fn ready(&mut self, nic: usize, bytes: u32, call_of: Option<usize>) -> u64 {
        let Some(costs) = &mut self.costs else { return self.now_ns };
        costs.send(self.now_ns, self.nics[nic].given.guest, nic, bytes, call_of)
    }

    fn next_hop(&self, guest: usize, to: Ipv4Addr) -> Option<(usize, Mac)> {
        let route = ip::route(&self.hosts[guest].given.routes, to)?;
        Some((route.vnic, *self.neighbours.get(&route.via.unwrap_or(to))?))
    }

    /// Into the vNIC's queue when it is ready, or through it; the instant at which the frame leaves it.
    fn put(&mut self, nic: usize, out: Outgoing, ready_ns: u64) -> u64 {
        let port = &mut self.nics[nic];
        let mut start = ready_ns;
        if let Some(rate) = port.given.pushback_bit_per_s {
            let cost = serialisation(wire_bytes(out.bytes), rate).0 as i64;
            let free = port.free_ns.max(ready_ns as i64);
            port.free_ns = port.free_ns.max(free - port.burst_ns) + cost;
            start = free as u64;
        }
        if start == self.now_ns && port.queue.is_empty() {
            self.transmit(nic, out);
            return start;
        }
        if port.queue.is_empty() {
            self.agenda.plan(start, Due::Release(nic));
        }
        port.queue.push_back((start, out));
        if let Some(socket) = out.socket {
            self.sockets[socket].held_bytes += u64::from(out.bytes);
        }
        start
    }

    fn transmit(&mut self, nic: usize, out: Outgoing) {
        let port = &mut self.nics[nic];
        port.traffic.sent_packets += 1;
        port.traffic.sent_bytes += u64::from(out.bytes);
        if let Some(costs) = &mut self.costs {
            let at = costs.leave(self.now_ns, nic, port.bridge, out.bytes);
            self.fly(at, Flight::Out(nic, out));
        } else {
            self.leave(nic, out);
        }
    }

    fn leave(&mut self, nic: usize, out: Outgoing) {
        let port = &self.nics[nic];
        match (port.bridge, port.port) {
            (Some(bridge), _) => self.cross(bridge, out),
            (None, Some(at)) => self.enter(at, out),
            (None, None) => {}
        }
    }

    /// Through a bridge, at once. A frame to an address that lies nowhere behind it is lost; roles have none such.
    fn cross(&mut self, bridge: usize, out: Outgoing) {
        match self.bridges[bridge].get(&out.destination) {
            Some(Place::Nic(nic)) => self.arrive(*nic, out),
            Some(Place::Port(at)) => self.enter(*at, out),
            None => {}
        }
    }

    fn enter(&mut self, at: PortId, out: Outgoing) {
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

    fn arrive(&mut self, nic: usize, out: Outgoing) {
        if let Some(costs) = &mut self.costs {
            let at = costs.enter(self.now_ns, nic, out.bytes);
            self.fly(at, Flight::In(nic, out));
        } else {
            self.come(nic, out);
        }
    }

    fn come(&mut self, nic: usize, out: Outgoing) {
        self.inbox.push_back(Incoming {
            nic,
            destination: out.destination,
            bytes: out.bytes,
            flow: out.flow,
            cargo: out.cargo,
        });
    }

    /// Counters of the groups asked for.
    pub fn read(&self, groups: &[String], mark: &str, readings: &mut Readings) {
        let wanted = |group: &str| groups.iter().any(|each| each == group);
        if wanted("vnics") {
            for nic in &self.nics {
                let Traffic { received_packets, received_bytes, sent_packets, sent_bytes, strangers } =
                    nic.traffic;
                readings.note(
                    self.now_ns,
                    mark,
                    &nic.given.name,
                    &[
                        ("received_packets", received_packets),
                        ("received_bytes", received_bytes),
                        ("rx_dropped", strangers),
                        ("sent_packets", sent_packets),
                        ("sent_bytes", sent_bytes),
                        ("tx_dropped", 0),
                    ],
                );
            }
        }
        if wanted("links") {
            for line in self.fabric.lines(Nanos(self.now_ns)) {
                let entity = format!("links.{}.{}", line.link, line.direction);
                readings.note(
                    self.now_ns,
                    mark,
                    &entity,
                    &[
                        ("packets", line.counters.packets),
                        ("bytes", line.counters.bytes),
                        ("drops", line.counters.drops),
                        ("backlog_packets", line.backlog.packets),
                        ("backlog_max_packets", line.counters.backlog_max_packets),
                        ("busy_ns", line.counters.busy_ns),
                        ("residence_ns", line.counters.residence_ns),
                        ("residence_max_ns", line.counters.residence_max_ns),
                    ],
                );
                for (name, class) in &line.classes {
                    readings.note(
                        self.now_ns,
                        mark,
                        &format!("{entity}.{name}"),
                        &[
                            ("packets", class.packets),
                            ("bytes", class.bytes),
                            ("drops", class.drops),
                            ("marked_packets", class.marked_packets),
                            ("backlog_packets", class.backlog_packets),
                            ("backlog_bytes", class.backlog_bytes),
                        ],
                    );
                }
            }
        }
    }
}
