//! Sockets are opened: between which addresses, and as what rules of classes see their frames.

use crate::ip::addresses::Number;
use crate::network::frames::{Address, head};
use crate::network::sockets::{SOCKET_BYTES, Socket};
use crate::network::whole::Network;
use crate::network::wire::paths::Way;
use core::net::IpAddr;
use virtlab_fabric::{Mac, flow_hash};
use virtlab_load::Transport;
use virtlab_load::size::IpVersion;

/// Source ports of flows of whole frames begin here, as in the testbed.
const FIRST_SOURCE_PORT: u16 = 1024;

/// Where every role's server listens, as far as rules of classes see.
const SERVER_PORT: u16 = 5001;

impl Network {
    /// Largest IP packet of a vNIC.
    pub fn mtu_bytes(&self, nic: usize) -> u32 {
        self.edge.nics[nic].given.mtu_bytes
    }

    /// Whether something bounds how fast a process can send through a vNIC: its pushback, or what sending costs.
    pub fn bounds_a_flood(&self, nic: usize) -> bool {
        let nic = &self.edge.nics[nic];
        nic.bucket.is_some()
            || self.platform.costs.as_ref().is_some_and(|costs| costs.bounds_a_flood(nic.given.guest))
    }

    /// The kernel itself sends from this socket.
    pub fn by_kernel(&mut self, socket: usize) {
        if let Some(costs) = &mut self.platform.costs {
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
        let hosts = &mut self.guests.hosts;
        let number = hosts.number(to);
        let (nic, hop) = hosts.next_hop(self.edge.nics[guest_of].given.guest, number)?;
        let destination = hosts.mac_of(hop)?;
        let protocol = match (transport, number.version()) {
            (Transport::Icmp, IpVersion::V4) => 1,
            (Transport::Icmp, IpVersion::V6) => 58,
            (Transport::Tcp, _) => 6,
            (Transport::Udp, _) => 17,
        };
        let flows = [false, true].map(|fragmented| {
            self.labels.flow_of(&head(from, to, protocol, [port, SERVER_PORT], fragmented))
        });
        let source = self.edge.nics[nic].given.mac;
        let mut socket = Socket::new(nic, source, (destination, Some(number)), flows, most_bytes);
        if transport != Transport::Tcp && self.edge.is_held(nic) {
            socket.room.count_memory();
        }
        self.sockets.push(socket);
        Some(self.sockets.len() - 1)
    }

    /// Whether no router stands between a vNIC's guest and an address.
    pub fn is_beside(&self, vnic: usize, to: IpAddr) -> bool {
        let hosts = &self.guests.hosts;
        let number = hosts.find(to);
        let hop = number.and_then(|number| hosts.next_hop(self.guest_with(vnic), number));
        hop.is_some_and(|(_, hop)| Some(hop) == number)
    }

    /// Whether what goes from one vNIC to another leaves the virtual switch that it comes to.
    pub fn is_apart(&self, nic: usize, other: usize) -> bool {
        let [bridge, others] = [nic, other].map(|nic| self.edge.nics[nic].bridge);
        bridge.is_none() || bridge != others
    }

    /// A socket of a vNIC to all that have joined a group (RFC 1112, 6.4; RFC 2464, 7).
    pub fn group_socket(&mut self, nic: usize, from: IpAddr, group: IpAddr) -> usize {
        let destination = match group {
            IpAddr::V4(group) => {
                let [_, high, middle, low] = group.octets();
                Mac([0x01, 0x00, 0x5e, high & 0x7f, middle, low])
            }
            IpAddr::V6(group) => {
                let [.., first, second, third, fourth] = group.octets();
                Mac([0x33, 0x33, first, second, third, fourth])
            }
        };
        let number = self.guests.hosts.number(group);
        let flow = self.labels.flow_of(&head(from, group, 17, [SERVER_PORT; 2], false));
        let source = self.edge.nics[nic].given.mac;
        let socket = Socket::new(nic, source, (destination, Some(number)), [flow; 2], SOCKET_BYTES);
        self.sockets.push(socket);
        let place = self.sockets.len() - 1;
        let road = self.road(nic, destination);
        self.sockets[place].way = road.map_or(Way::Changing, |road| self.keep_road(place, road));
        place
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

    /// Packets of a role carry this code point, both ways.
    pub fn class(&mut self, role: usize, dscp: u8) {
        self.labels.class(role, dscp);
    }

    /// Frames of a role carry a tag with this 802.1p priority, until a router makes new ones.
    pub fn prefer(&mut self, role: usize, priority: u8) {
        self.labels.prefer(role, priority);
    }

    /// A role's connections negotiate ECN.
    pub fn speak_ecn(&mut self, role: usize) {
        self.labels.speak_ecn(role);
    }

    /// Whether they do.
    #[must_use]
    pub fn speaks_ecn(&self, role: usize) -> bool {
        self.labels.speaks_ecn(role)
    }

    /// A socket below IP; `flow` is written into its source address, as the testbed's sender does.
    pub fn raw_socket(&mut self, from: usize, to: usize, flow: u16, most_bytes: u64) -> usize {
        let (mut source, destination) = (self.edge.nics[from].given.mac, self.edge.nics[to].given.mac);
        let [number, low] = flow.to_be_bytes();
        source.0[0] ^= if flow == 0 { 0 } else { 0x04 };
        source.0[1] ^= number;
        source.0[2] ^= low;
        let addresses: Vec<u8> = destination.0.iter().chain(&source.0).copied().chain([0x88, 0xb5]).collect();
        let flows = [flow_hash(&addresses); 2];
        self.whole_frames(Socket::new(from, source, (destination, None), flows, most_bytes))
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
        let (source, destination) = (self.edge.nics[from.0].given.mac, self.edge.nics[via].given.mac);
        let head = head(from.1, to, 17, [FIRST_SOURCE_PORT + flow, SERVER_PORT], false);
        let to: Number = self.guests.hosts.number(to);
        let flows = [self.labels.flow_of(&head); 2];
        self.whole_frames(Socket::new(from.0, source, (destination, Some(to)), flows, most_bytes))
    }

    fn whole_frames(&mut self, socket: Socket) -> usize {
        let mut socket = Socket { raw: true, ..socket };
        if self.edge.is_held(socket.nic) {
            socket.room.count_memory();
        }
        self.sockets.push(socket);
        self.sockets.len() - 1
    }

    /// Where a socket sends from: the addresses of its vNIC.
    pub fn own_address(&self, socket: usize) -> Address {
        let Socket { nic, source, .. } = &self.sockets[socket];
        let guest = self.edge.nics[*nic].given.guest;
        (*source, self.guests.hosts.addresses(guest).first().copied())
    }

    /// Directs a socket to addresses on the same wired network; its flow stays.
    pub fn aim(&mut self, socket: usize, (destination, ip): Address) {
        let socket = &mut self.sockets[socket];
        (socket.destination, socket.ip) = (destination, ip);
        socket.way = Way::Changing;
    }

    /// The far side of this socket only counts what comes.
    pub fn only_counted(&mut self, socket: usize) {
        self.sockets[socket].counted = self.platform.costs.is_none(); // a cost comes between
    }
}
