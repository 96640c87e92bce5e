//! IP as far as time and bytes go: headers, fragments, reassembly, routes.
//!
//! Version 4 (RFC 791): a header of 20 B, the same in every fragment, and routers may make fragments. Version 6
//! (RFC 8200): 40 B, a fragment has another 8 B of its own (section 4.5), and only the sender makes any.

pub mod addresses;
pub mod neighbour;

use crate::input::Route;
use addresses::Number;
use core::net::IpAddr;
use std::collections::BTreeMap;
use virtlab_fabric::Train;
use virtlab_load::size::IpVersion;

/// Of a fragment of version 6, beside the header that every packet has.
const FRAGMENT_HEADER_BYTES: u32 = 8;
/// Header of UDP, and of an ICMP echo.
pub const TRANSPORT_BYTES: u32 = 8;
/// Hops that a packet may take; Linux's default.
pub const HOPS: u8 = 64;
/// How long fragments wait for the others; Linux's default.
const PATIENCE_NS: u64 = 30_000_000_000;

/// What a datagram or frame says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    pub role: u32,
    /// Which side sent the request: 0 client, 1 server.
    pub origin: u8,
    pub reply: bool,
    pub flow: u32,
    pub seq: u64,
    pub sent_ns: u64,
    pub payload_bytes: u32,
}

/// A frame's content: a layer-2 message, or (a part of) an IP packet.
#[derive(Clone, Copy, Debug)]
pub struct Cargo {
    pub message: Message,
    /// Absent below IP.
    pub ip: Option<Packet>,
}

/// The IP header's part.
#[derive(Clone, Copy, Debug)]
pub struct Packet {
    pub number: u64,
    pub to: Number,
    pub hops_left: u8,
    /// Read below IP: its receiver takes it whatever hardware address it carries.
    pub tapped: bool,
    /// Bytes behind the header, here and of the whole packet.
    pub body_bytes: u32,
    pub whole_bytes: u32,
}

impl Packet {
    /// Whether it is a fragment.
    pub fn is_part(&self) -> bool {
        self.body_bytes < self.whole_bytes
    }

    /// Its length, headers included.
    pub fn bytes(&self) -> u32 {
        self.body_bytes + headers(self.to.version(), self.is_part())
    }
}

/// Bytes before the body of a packet or fragment.
const fn headers(version: IpVersion, part: bool) -> u32 {
    let own = match version {
        IpVersion::V6 if part => FRAGMENT_HEADER_BYTES,
        _ => 0,
    };
    version.header_bytes() + own
}

/// Body bytes of each packet that a body is carried in; all but the last hold a multiple of 8. `part`: it is a
/// fragment already.
pub fn fragments(
    body_bytes: u32,
    mtu_bytes: u32,
    version: IpVersion,
    part: bool,
) -> impl ExactSizeIterator<Item = u32> {
    let room = if body_bytes + headers(version, part) <= mtu_bytes {
        body_bytes
    } else {
        (mtu_bytes - headers(version, true)) / 8 * 8
    };
    (0..body_bytes).step_by(room.max(1) as usize).map(move |at| room.min(body_bytes - at))
}

/// The first route that leads to an address; routes are in order of prefix length, longest first.
pub fn route(routes: &[Route], to: IpAddr) -> Option<&Route> {
    routes.iter().find(|route| match (to, route.network) {
        (IpAddr::V4(to), IpAddr::V4(network)) => {
            let mask = u32::MAX.checked_shl(32 - route.prefix_bits).unwrap_or(0);
            (u32::from(to) ^ u32::from(network)) & mask == 0
        }
        (IpAddr::V6(to), IpAddr::V6(network)) => {
            let mask = u128::MAX.checked_shl(128 - route.prefix_bits).unwrap_or(0);
            (u128::from(to) ^ u128::from(network)) & mask == 0
        }
        _ => false,
    })
}

/// Packets of which some fragments have come, by number: bytes so far, and when the first came.
#[derive(Debug, Default)]
pub struct Reassembly {
    partial: BTreeMap<u64, (u32, u64)>,
    /// The packet of which a fragment came last, which stands nowhere else: mostly its next one is the next that comes.
    last: Option<(u64, (u32, u64))>,
    looked_ns: u64,
}

impl Reassembly {
    /// Takes a fragment; true when its packet is whole with it.
    pub fn take(&mut self, packet: &Packet, now_ns: u64) -> bool {
        if !packet.is_part() {
            return true;
        }
        if now_ns.saturating_sub(self.looked_ns) > PATIENCE_NS {
            self.looked_ns = now_ns;
            self.partial.retain(|_, (_, since)| now_ns.saturating_sub(*since) <= PATIENCE_NS);
        }
        let (mut bytes, mut since) = match self.last.take() {
            Some((number, held)) if number == packet.number => held,
            other => {
                if let Some((number, held)) = other {
                    self.partial.insert(number, held);
                }
                self.partial.remove(&packet.number).unwrap_or((0, now_ns))
            }
        };
        if now_ns.saturating_sub(since) > PATIENCE_NS {
            (bytes, since) = (0, now_ns);
        }
        bytes += packet.body_bytes;
        let whole = bytes == packet.whole_bytes;
        if !whole {
            self.last = Some((packet.number, (bytes, since)));
        }
        whole
    }

    /// Takes fragments of a packet that is not whole with them. As so many calls of [`Reassembly::take`].
    pub fn take_train(&mut self, packet: &Packet, train: &Train) {
        let take = |own: &mut Self, number: u32| {
            let whole = own.take(packet, train.nth(number).0);
            debug_assert!(!whole, "two more are to come");
        };
        take(self, 0);
        let last_ns = train.last().0;
        match &mut self.last {
            Some((_, (bytes, since))) if last_ns - self.looked_ns.min(*since).min(last_ns) <= PATIENCE_NS => {
                *bytes += (train.count - 1) * packet.body_bytes;
            }
            _ => (1..train.count).for_each(|number| take(self, number)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(number: u64, body_bytes: u32) -> Packet {
        Packet {
            number,
            to: Number::of_bits(0),
            hops_left: HOPS,
            tapped: false,
            body_bytes,
            whole_bytes: 3000,
        }
    }

    #[test]
    fn a_packet_of_65000_bytes_is_44_fragments_that_add_up() {
        let parts: Vec<u32> = fragments(64_980, 1500, IpVersion::V4, false).collect();
        assert_eq!((parts.len(), parts.iter().sum::<u32>()), (44, 64_980));
        assert!(parts[..43].iter().all(|part| part % 8 == 0));
        assert_eq!(fragments(1480, 1500, IpVersion::V4, false).collect::<Vec<_>>(), [1480]);
        assert_eq!(fragments(1508, 1500, IpVersion::V4, false).collect::<Vec<_>>(), [1480, 28]);
    }

    #[test]
    fn a_fragment_of_version_6_has_a_header_more() {
        let parts = |body, mtu| fragments(body, mtu, IpVersion::V6, false).collect::<Vec<_>>();
        assert_eq!(parts(1460, 1500), [1460]);
        assert_eq!(parts(1461, 1500), [1448, 13]);
        let to = Number::of_bits(1 << 31);
        let packet = |body_bytes| Packet { to, body_bytes, whole_bytes: 1461, ..packet(1, 0) };
        assert_eq!([1461, 1448, 13].map(|body| packet(body).bytes()), [1501, 1496, 61]);
    }

    #[test]
    fn a_packet_is_whole_when_its_last_fragment_has_come_in_whatever_order() {
        let mut waiting = Reassembly::default();
        assert!(!waiting.take(&packet(1, 1480), 0));
        assert!(!waiting.take(&packet(2, 1480), 5));
        assert!(!waiting.take(&packet(1, 40), 6));
        assert!(waiting.take(&packet(1, 1480), 7));
        assert!(!waiting.take(&packet(2, 1520), 5 + PATIENCE_NS + 1), "the first was given up");
    }

    #[test]
    fn the_longest_prefix_leads() {
        let to = |text: &str, prefix_bits, vnic| Route {
            network: text.parse().unwrap(),
            prefix_bits,
            vnic,
            via: None,
        };
        let routes = [
            to("fd00:1::", 64, 3),
            to("10.0.1.0", 24, 0),
            to("10.0.0.0", 8, 1),
            to("0.0.0.0", 0, 2),
            to("::", 0, 4),
        ];
        let way = |text: &str| route(&routes, text.parse().unwrap()).map(|route| route.vnic);
        assert_eq!([way("10.0.1.9"), way("10.9.9.9"), way("8.8.8.8")], [Some(0), Some(1), Some(2)]);
        assert_eq!([way("fd00:1::9"), way("fd00:2::9")], [Some(3), Some(4)]);
    }
}
