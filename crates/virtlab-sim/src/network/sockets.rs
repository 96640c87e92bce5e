//! How a role's side sends: a socket holds bytes back while its vNIC has enough of them waiting.

use super::Network;
use super::landing::Address;
use super::trains::Way;
use super::vnics::Outgoing;
use crate::agenda::Due;
use crate::ip::addresses::Number;
use crate::ip::{self, Cargo, HOPS, Message, Packet};
use core::net::IpAddr;
use std::collections::VecDeque;
use virtlab_fabric::{Mac, flow_hash};
use virtlab_load::Transport;
use virtlab_load::size::IpVersion;
use virtlab_qdisc::Headers;
use virtlab_wire::ethernet::{FCS_BYTES, HEADER_BYTES};

/// Source ports of flows of whole frames begin here, as in the testbed.
const FIRST_SOURCE_PORT: u16 = 1024;

/// Where every role's server listens, as far as rules of classes see.
const SERVER_PORT: u16 = 5001;
/// Next header of a fragment of IPv6.
const FRAGMENT: u8 = 44;

/// A frame as far as flows and rules of classes look at it.
pub(super) fn head(from: IpAddr, to: IpAddr, protocol: u8, ports: [u16; 2], fragmented: bool) -> Vec<u8> {
    let mut bytes = vec![0; 12];
    match (from, to) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            bytes.extend([
                8,
                0,
                0x45,
                0,
                0,
                0,
                0,
                0,
                if fragmented { 0x20 } else { 0 },
                0,
                HOPS,
                protocol,
                0,
                0,
            ]);
            bytes.extend(from.octets());
            bytes.extend(to.octets());
        }
        (from, to) => {
            let octets = |address| match address {
                IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
                IpAddr::V6(address) => address.octets(),
            };
            bytes.extend([
                0x86,
                0xdd,
                0x60,
                0,
                0,
                0,
                0,
                0,
                if fragmented { FRAGMENT } else { protocol },
                HOPS,
            ]);
            bytes.extend(octets(from));
            bytes.extend(octets(to));
        }
    }
    bytes.extend(ports.iter().flat_map(|port| port.to_be_bytes()));
    bytes
}

/// How a role's side sends.
pub struct Socket {
    pub(super) nic: usize,
    pub(super) source: Mac,
    pub(super) destination: Mac,
    /// The far address; absent without IP.
    pub(super) ip: Option<Number>,
    /// Whether its process makes whole frames, which their receiver reads below IP.
    pub(super) raw: bool,
    /// Flow hash of whole packets and of fragments.
    pub(super) flows: [u64; 2],
    /// Bytes of its frames that wait in the vNIC, and how many may before it is held back.
    pub(super) held_bytes: u64,
    pub(super) most_bytes: u64,
    pub(super) pending: VecDeque<Message>,
    pub(super) waiter: Option<Due>,
    /// Whether it waits for room in its vNIC.
    pub(super) blocked: bool,
    pub(super) way: Way,
    pub(super) counted: bool,
    /// Of the header that stands before the payload.
    pub(super) transport_bytes: u32,
}

impl Network {
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
        from: IpAddr,
        to: IpAddr,
        transport: Transport,
        port: u16,
        most_bytes: u64,
    ) -> Option<usize> {
        let guest = self.nics[guest_of].given.guest;
        let number = self.book.number(to);
        let (nic, hop) = self.next_hop(guest, number)?;
        let destination = *self.neighbours.get(&hop)?;
        let protocol = match (transport, number.version()) {
            (Transport::Icmp, IpVersion::V4) => 1,
            (Transport::Icmp, IpVersion::V6) => 58,
            (Transport::Tcp, _) => 6,
            (Transport::Udp, _) => 17,
        };
        let mut header = |fragmented: bool| {
            let bytes = head(from, to, protocol, [port, SERVER_PORT], fragmented);
            let flow = flow_hash(&bytes);
            self.headers.insert(flow, virtlab_fabric::headers(&bytes));
            flow
        };
        let flows = [header(false), header(true)];
        self.sockets.push(Socket {
            nic,
            source: self.nics[nic].given.mac,
            destination,
            ip: Some(number),
            raw: false,
            flows,
            held_bytes: 0,
            most_bytes,
            pending: VecDeque::new(),
            waiter: None,
            blocked: false,
            way: Way::Unknown,
            counted: false,
            transport_bytes: ip::TRANSPORT_BYTES,
        });
        Some(self.sockets.len() - 1)
    }

    /// Both sockets of a TCP connection; what they send holds the TCP header in its payload.
    pub fn tcp_sockets(
        &mut self,
        guests_of: [usize; 2],
        addresses: [IpAddr; 2],
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

    /// Frames of a role carry a tag with this 802.1p priority, until a router makes new ones.
    pub fn prefer(&mut self, role: usize, priority: u8) {
        self.priority.insert(role, priority);
    }

    pub(super) fn headers_of(&self, out: &Outgoing) -> Headers {
        let read = self.headers.get(&out.flow).copied().unwrap_or_default();
        let role = out.cargo.message.role as usize;
        let tos = self.tos.get(&role).copied();
        let pcp = self.priority.get(&role).copied();
        let routed = out.cargo.ip.is_some_and(|packet| packet.hops_left < HOPS);
        Headers { tos: read.tos.map(|plain| tos.unwrap_or(plain)), pcp: pcp.filter(|_| !routed), ..read }
    }

    /// A socket below IP; `flow` is written into its source address, as the testbed's sender does.
    pub fn raw_socket(&mut self, from: usize, to: usize, flow: u16, most_bytes: u64) -> usize {
        let (mut source, destination) = (self.nics[from].given.mac, self.nics[to].given.mac);
        let [number, low] = flow.to_be_bytes();
        source.0[0] ^= if flow == 0 { 0 } else { 0x04 };
        source.0[1] ^= number;
        source.0[2] ^= low;
        let addresses: Vec<u8> = destination.0.iter().chain(&source.0).copied().chain([0x88, 0xb5]).collect();
        self.whole_frames(from, source, destination, None, flow_hash(&addresses), most_bytes)
    }

    /// A socket of whole frames with IP, sent to a vNIC that forwards them; `flow` is their source port.
    pub fn raw_socket_via(
        &mut self,
        from: (usize, IpAddr),
        via: usize,
        to: IpAddr,
        flow: u16,
        most_bytes: u64,
    ) -> usize {
        let (source, destination) = (self.nics[from.0].given.mac, self.nics[via].given.mac);
        let bytes = head(from.1, to, 17, [FIRST_SOURCE_PORT + flow, SERVER_PORT], false);
        let to = self.book.number(to);
        let hash = flow_hash(&bytes);
        self.headers.insert(hash, virtlab_fabric::headers(&bytes));
        self.whole_frames(from.0, source, destination, Some(to), hash, most_bytes)
    }

    fn whole_frames(
        &mut self,
        nic: usize,
        source: Mac,
        destination: Mac,
        ip: Option<Number>,
        flow: u64,
        most_bytes: u64,
    ) -> usize {
        self.sockets.push(Socket {
            nic,
            source,
            destination,
            ip,
            raw: true,
            flows: [flow; 2],
            held_bytes: 0,
            most_bytes,
            pending: VecDeque::new(),
            waiter: None,
            blocked: false,
            way: Way::Unknown,
            counted: false,
            transport_bytes: ip::TRANSPORT_BYTES,
        });
        self.sockets.len() - 1
    }

    /// Where a socket sends from: the addresses of its vNIC.
    pub fn own_address(&self, socket: usize) -> Address {
        let Socket { nic, source, .. } = &self.sockets[socket];
        (*source, self.hosts[self.nics[*nic].given.guest].own.first().copied())
    }

    /// Directs a socket to addresses on the same wired network; its flow stays.
    pub fn aim(&mut self, socket: usize, (destination, ip): Address) {
        let socket = &mut self.sockets[socket];
        (socket.destination, socket.ip) = (destination, ip);
        socket.way = Way::Changing;
    }

    /// The far side of this socket only counts what comes.
    pub fn only_counted(&mut self, socket: usize) {
        self.sockets[socket].counted = self.costs.is_none(); // a cost comes between
    }

    /// Whether a process can send another message at once: the socket takes it, and the call before is over.
    pub fn has_room(&mut self, socket: usize) -> bool {
        self.takes(socket) && self.call_over_ns(socket) <= self.now_ns
    }

    /// Has `due` happen as soon as that is so again.
    pub fn await_room(&mut self, socket: usize, due: Due) {
        if self.takes(socket) {
            self.agenda.plan(self.call_over_ns(socket), due);
        } else {
            self.sockets[socket].waiter = Some(due);
            self.block(socket);
        }
    }

    pub(super) fn takes(&mut self, socket: usize) -> bool {
        let room = |socket: &Socket| socket.held_bytes < socket.most_bytes;
        room(&self.sockets[socket]) || {
            self.catch_up(self.sockets[socket].nic);
            room(&self.sockets[socket])
        }
    }

    pub(super) fn call_over_ns(&self, socket: usize) -> u64 {
        self.costs.as_ref().map_or(0, |costs| costs.sendable_ns(self.sockets[socket].nic))
    }

    /// Sends now; the instant at which the first frame leaves the vNIC.
    pub fn send(&mut self, socket: usize, message: Message) -> u64 {
        let Socket { nic, source, destination, ip, raw, flows, counted, transport_bytes, .. } =
            self.sockets[socket];
        self.find_way(socket);
        let number = self.packets;
        self.packets += 1;
        let Some(to) = ip.filter(|_| !raw) else {
            // What such a message says is its frame, FCS included.
            let bytes = message.payload_bytes - FCS_BYTES;
            let whole = |to: Number| {
                let body_bytes = bytes - HEADER_BYTES - to.version().header_bytes();
                Packet { number, to, hops_left: HOPS, tapped: true, body_bytes, whole_bytes: body_bytes }
            };
            let cargo = Cargo { message, ip: ip.map(whole) };
            let out =
                Outgoing { cargo, source, destination, bytes, flow: flows[0], socket: Some(socket), counted };
            let ready = self.ready(nic, bytes, Some(socket));
            return self.put(nic, out, ready);
        };
        let whole_bytes = message.payload_bytes + transport_bytes;
        let mut first = None;
        let mtu_bytes = self.mtu_towards(nic, to);
        let frame = |body_bytes| {
            let packet = Packet { number, to, hops_left: HOPS, tapped: false, body_bytes, whole_bytes };
            Outgoing {
                cargo: Cargo { message, ip: Some(packet) },
                source,
                destination,
                bytes: HEADER_BYTES + packet.bytes(),
                flow: flows[usize::from(packet.is_part())],
                socket: Some(socket),
                counted,
            }
        };
        let mut parts = ip::fragments(whole_bytes, mtu_bytes, to.version(), false);
        // All but the last are alike; it and the one before it are distinguished where they wait.
        let alike = parts.len() as u32;
        if alike > 2
            && self.goes_in_trains(socket)
            && let Some(body_bytes) = parts.next()
        {
            let (left, gone) = self.put_train(nic, &frame(body_bytes), alike - 1);
            first = Some(left);
            parts.by_ref().take(gone as usize - 1).for_each(drop);
        }
        for body_bytes in parts {
            let out = frame(body_bytes);
            let ready = self.ready(nic, out.bytes, first.is_none().then_some(socket));
            let left = self.put_resolved(nic, out, ready);
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
            self.block(socket);
        }
    }

    pub(super) fn refill(&mut self, socket: usize) {
        while self.takes(socket) {
            let Some(message) = self.sockets[socket].pending.pop_front() else { break };
            self.send(socket, message);
        }
        if self.takes(socket)
            && let Some(due) = self.sockets[socket].waiter.take()
        {
            self.agenda.plan(self.now_ns, due);
        }
        self.unblock(socket);
    }
}
