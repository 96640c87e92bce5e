//! Path MTU discovery: packets that a router must not cut, what it tells their sender, and what that makes of it.
//!
//! A router cuts a packet of IPv4 that may be cut. One of IPv6 (RFC 8200, 5) or of TCP, which forbids it, is
//! dropped, and its sender told the MTU that it met (RFC 1191, RFC 8201): as much of the packet is quoted as Linux
//! quotes, 576 B of IPv4 or 1280 B of IPv6 at most, and no such message is ever withheld. A sender believes it for
//! ten minutes, for packets to that address: sockets cut theirs to fit, TCP sends shorter segments, those under way
//! at once again. Whole frames that a process made learn nothing.
//!
//! Of IPv4 a sender believes in no MTU below 552 B (`net.ipv4.route.min_pmtu`): told of a shorter one it sends
//! packets of 552 B, and allows routers to cut them (Linux: `ip_rt_update_pmtu` locks the MTU, `ip_dont_fragment`
//! looks at that).

use super::Network;
use super::sockets::head;
use super::vnics::Outgoing;
use crate::input::{Input, Versions};
use crate::ip::addresses::Number;
use crate::ip::{Cargo, HOPS, Message, Packet};
use core::net::IpAddr;
use std::collections::{BTreeMap, BTreeSet};
use virtlab_fabric::flow_hash;
use virtlab_load::size::IpVersion;
use virtlab_wire::ethernet::HEADER_BYTES;

/// Pseudo-role of ICMP errors sent by routers.
const NOTICE: u32 = u32::MAX - 1;
/// Longest packet that says so, and its header behind IP's.
const QUOTED_BYTES: [u32; 2] = [576, 1280];
const ICMP_BYTES: u32 = 8;
/// Linux's `mtu_expires` and `route.mtu_expires`.
const BELIEVED_NS: u64 = 600_000_000_000;
/// Of IPv4.
const LEAST_BELIEVED_BYTES: u32 = 552;

/// What guests know of paths.
#[derive(Default)]
pub(super) struct Paths {
    /// By role, the addresses of its sides.
    ends: Vec<[Option<IpAddr>; 2]>,
    /// Roles whose packets of IPv4 must not be cut.
    uncut: BTreeSet<usize>,
    /// By guest and destination: MTU, and until when it is believed.
    known: BTreeMap<(usize, Number), (u32, u64)>,
    /// Guests and destinations to which routers may cut after all.
    cut: BTreeSet<(usize, Number)>,
    /// Guests that have learnt since somebody asked.
    news: Vec<usize>,
}

impl Paths {
    pub(super) fn new(input: &Input) -> Self {
        let ends = input.roles.iter().map(|role| [0, 1].map(|side: usize| role.ends[side].address));
        Self { ends: ends.collect(), ..Self::default() }
    }
}

/// Whether a message is a router's to a sender.
pub(super) fn is_notice(message: &Message) -> bool {
    message.role == NOTICE
}

impl Network {
    /// Whether any guest has learnt anything of a path.
    pub fn knows_paths(&self) -> bool {
        !self.paths.known.is_empty()
    }

    /// Routers must not cut packets of a role.
    pub fn never_cut(&mut self, role: usize) {
        self.paths.uncut.insert(role);
    }

    /// Guests that have learnt since this was asked last.
    pub fn news_of_paths(&mut self) -> Vec<usize> {
        std::mem::take(&mut self.paths.news)
    }

    /// Guest of a role's side.
    pub fn guest_of(&self, role: usize, side: usize) -> usize {
        self.sides[role][side]
    }

    /// Longest packet that a socket can send, as far as its guest knows.
    pub fn path_mtu_bytes(&self, socket: usize) -> u32 {
        let own = &self.sockets[socket];
        own.ip.map_or(self.mtu_bytes(own.nic), |to| self.mtu_towards(own.nic, to))
    }

    /// Longest packet through a vNIC to an address, as far as its guest knows.
    #[inline]
    pub(super) fn mtu_towards(&self, nic: usize, to: Number) -> u32 {
        let given = &self.nics[nic].given;
        if self.paths.known.is_empty() {
            return given.mtu_bytes;
        }
        let known = self.paths.known.get(&(given.guest, to)).filter(|(_, until_ns)| self.now_ns < *until_ns);
        known.map_or(given.mtu_bytes, |(mtu_bytes, _)| given.mtu_bytes.min(*mtu_bytes))
    }

    /// A packet that is too long for a router's next link, and must not be cut: it is dropped, and its sender told.
    /// False where it may be cut.
    pub(super) fn is_too_long(&mut self, nic: usize, packet: &Packet, message: &Message) -> bool {
        let version = packet.to.version();
        let role = message.role as usize;
        let side = usize::from(message.origin) ^ usize::from(message.reply);
        if version == IpVersion::V4 && !packet.tapped {
            let given_up = || self.paths.cut.contains(&(self.sides[role][side], packet.to));
            if !self.paths.uncut.contains(&role) || given_up() {
                return false;
            }
        }
        let sender =
            self.paths.ends.get(role).and_then(|ends| self.book.find(ends[side]?)).filter(|_| !packet.tapped);
        if let Some(sender) = sender {
            self.tell(nic, packet, sender);
        }
        true
    }

    /// The router of a vNIC tells a sender what it met there.
    fn tell(&mut self, met: usize, packet: &Packet, sender: Number) {
        let (guest, mtu_bytes) = (self.nics[met].given.guest, self.nics[met].given.mtu_bytes);
        let Some((nic, hop)) = self.next_hop(guest, sender) else { return };
        let Some(destination) = self.neighbours.get(&hop).copied() else { return };
        let version = sender.version();
        let [protocol, most_bytes] = match version {
            IpVersion::V4 => [1, QUOTED_BYTES[0]],
            IpVersion::V6 => [58, QUOTED_BYTES[1]],
        };
        let own =
            self.hosts[guest].own.iter().copied().find(|own| own.version() == version).unwrap_or(sender);
        let bytes = head(self.book.address(own), self.book.address(sender), protocol as u8, [0, 0], false);
        let flow = flow_hash(&bytes);
        self.headers.insert(flow, virtlab_fabric::headers(&bytes));
        let body_bytes = (packet.bytes() + ICMP_BYTES).min(most_bytes - version.header_bytes());
        let number = self.packets;
        self.packets += 1;
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
            number,
            to: sender,
            hops_left: HOPS,
            tapped: false,
            body_bytes,
            whole_bytes: body_bytes,
        };
        let out = Outgoing {
            cargo: Cargo { message, ip: Some(notice) },
            source: self.nics[nic].given.mac,
            destination,
            bytes: HEADER_BYTES + notice.bytes(),
            flow,
            socket: None,
            counted: false,
        };
        let ready = self.ready(nic, out.bytes, None);
        self.put_resolved(nic, out, ready);
    }

    /// A guest forgets what it learnt of paths of some versions of IP.
    pub fn forget_paths(&mut self, guest: usize, of: Versions) {
        for ((_, _), (_, until_ns)) in
            self.paths.known.iter_mut().filter(|((own, to), _)| *own == guest && of.has(to.version()))
        {
            *until_ns = 0;
        }
        self.paths.cut.retain(|(own, to)| *own != guest || !of.has(to.version()));
        self.paths.news.push(guest);
    }

    /// A guest learns of a path.
    pub(super) fn learn(&mut self, guest: usize, message: &Message) {
        let (to, mut mtu_bytes) = (Number::of_bits(message.flow), message.seq as u32);
        if to.version() == IpVersion::V4 && mtu_bytes < LEAST_BELIEVED_BYTES {
            mtu_bytes = LEAST_BELIEVED_BYTES;
            self.paths.cut.insert((guest, to));
        }
        self.paths.known.insert((guest, to), (mtu_bytes, self.now_ns.saturating_add(BELIEVED_NS)));
        self.paths.news.push(guest);
    }
}
