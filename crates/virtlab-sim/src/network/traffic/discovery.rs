//! Path MTU discovery: packets that a router must not cut, what it tells their sender, and what that makes of it.
//!
//! A router cuts a packet of IPv4 that may be cut. One of IPv6 (RFC 8200, 5) or of TCP, which forbids it, is
//! dropped, and its sender told the MTU that it met (RFC 1191, RFC 8201): as much of the packet is quoted as Linux
//! quotes, 576 B of IPv4 or 1280 B of IPv6 at most, and no such message is ever withheld. A sender believes it:
//! sockets cut their packets to that address to fit, TCP sends shorter segments, those under way at once again. Whole
//! frames that a process made learn nothing.

use crate::input::Versions;
use crate::ip::addresses::Number;
use crate::ip::{Cargo, HOPS, Message, Packet};
use crate::network::frames::{NOTICE, Outgoing, head};
use crate::network::whole::Network;
use virtlab_load::size::IpVersion;
use virtlab_wire::ethernet::HEADER_BYTES;

/// Longest packet that says so, and its header behind IP's.
const QUOTED_BYTES: [u32; 2] = [576, 1280];
const ICMP_BYTES: u32 = 8;

impl Network {
    /// Whether any guest has learnt anything of a path.
    pub fn knows_paths(&self) -> bool {
        self.guests.paths.known()
    }

    /// Routers must not cut packets of a role.
    pub fn never_cut(&mut self, role: usize) {
        self.guests.paths.never_cut(role);
    }

    /// Guests that have learnt since this was asked last.
    pub fn news_of_paths(&mut self) -> Vec<usize> {
        self.guests.paths.news()
    }

    /// A guest forgets what it learnt of paths of some versions of IP.
    pub fn forget_paths(&mut self, guest: usize, of: Versions) {
        self.guests.paths.forget(guest, of);
    }

    /// Longest packet that a socket can send, as far as its guest knows.
    pub fn path_mtu_bytes(&self, socket: usize) -> u32 {
        let own = &self.sockets[socket];
        own.ip.map_or(self.mtu_bytes(own.nic), |to| self.mtu_towards(own.nic, to))
    }

    /// Longest packet through a vNIC to an address, as far as its guest knows.
    #[inline]
    pub(super) fn mtu_towards(&self, nic: usize, to: Number) -> u32 {
        let own = &self.edge.nics[nic];
        if !self.guests.paths.known() {
            return own.mtu_bytes;
        }
        let known = self.guests.paths.mtu_bytes(own.given.guest, to, self.now_ns);
        known.map_or(own.mtu_bytes, |mtu_bytes| own.mtu_bytes.min(mtu_bytes))
    }

    /// A packet that is too long for a router's next link, and must not be cut: it is dropped, and its sender told.
    /// False where it may be cut.
    pub(super) fn is_too_long(&mut self, nic: usize, packet: &Packet, message: &Message) -> bool {
        let (hosts, paths) = (&self.guests.hosts, &self.guests.paths);
        let role = message.role as usize;
        let side = usize::from(message.origin) ^ usize::from(message.reply);
        let elsewhere = paths.elsewhere(role, message.flow).filter(|_| side == 1);
        let guest = || elsewhere.map_or_else(|| hosts.of_side(role, side), |(guest, _)| guest);
        let may_cut = || paths.may_cut(role, guest, packet.to);
        if packet.to.version() == IpVersion::V4 && !packet.tapped && may_cut() {
            return false;
        }
        let sender = elsewhere.map(|(_, address)| address).or_else(|| paths.end(role, side));
        let sender = sender.and_then(|address| hosts.find(address));
        if let Some(sender) = sender.filter(|_| !packet.tapped) {
            self.tell(nic, packet, sender);
        }
        true
    }

    /// The router of a vNIC tells a sender what it met there.
    fn tell(&mut self, met: usize, packet: &Packet, sender: Number) {
        let (guest, mtu_bytes) = (self.edge.nics[met].given.guest, self.edge.nics[met].given.mtu_bytes);
        let hosts = &self.guests.hosts;
        let Some((nic, hop)) = hosts.next_hop(guest, sender) else { return };
        let Some(destination) = hosts.mac_of(hop) else { return };
        let version = sender.version();
        let [protocol, most_bytes] = match version {
            IpVersion::V4 => [1, QUOTED_BYTES[0]],
            IpVersion::V6 => [58, QUOTED_BYTES[1]],
        };
        let own =
            hosts.addresses(guest).iter().copied().find(|own| own.version() == version).unwrap_or(sender);
        let head = head(hosts.address(own), hosts.address(sender), protocol as u8, [0, 0], false);
        let flow = self.labels.flow_of(&head);
        let body_bytes = (packet.bytes() + ICMP_BYTES).min(most_bytes - version.header_bytes());
        let message = Message {
            role: NOTICE,
            origin: 0,
            reply: false,
            flow: packet.to.bits(),
            seq: u64::from(mtu_bytes),
            sent_ns: self.now_ns,
            payload_bytes: body_bytes - ICMP_BYTES,
        };
        let notice = Packet {
            number: self.packets.number(),
            to: sender,
            hops_left: HOPS,
            tapped: false,
            body_bytes,
            whole_bytes: body_bytes,
        };
        let out = Outgoing {
            cargo: Cargo { message, ip: Some(notice) },
            source: self.edge.nics[nic].given.mac,
            destination,
            bytes: HEADER_BYTES + notice.bytes(),
            flow,
            socket: None,
            counted: false,
            amid: false,
        };
        let ready = self.ready(nic, out.bytes, None);
        self.put_resolved(nic, &out, ready);
    }

    /// A guest learns of a path.
    pub(super) fn learn(&mut self, guest: usize, message: &Message) {
        let (to, mtu_bytes) = (Number::of_bits(message.flow), message.seq as u32);
        self.guests.paths.learn(guest, to, mtu_bytes, self.now_ns);
    }
}
