//! IP version 4 as far as time and bytes go: fragments, reassembly, routes.

use crate::input::Route;
use core::net::Ipv4Addr;
use std::collections::BTreeMap;

/// Without options.
pub const HEADER_BYTES: u32 = 20;
/// Of UDP, and of an ICMP echo.
pub const TRANSPORT_BYTES: u32 = 8;
/// Hops that a packet may take; Linux's default.
pub const HOPS: u8 = 64;
/// How long fragments wait for the others; Linux's default.
const PATIENCE_NS: u64 = 30_000_000_000;

/// What a datagram or frame says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    pub role: usize,
    /// Which side sent the request: 0 client, 1 server.
    pub origin: usize,
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
    pub to: Ipv4Addr,
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
}

/// Body bytes of each fragment of a packet; all but the last hold a multiple of 8.
pub fn fragments(whole_bytes: u32, mtu_bytes: u32) -> impl Iterator<Item = u32> {
    let room = if whole_bytes + HEADER_BYTES <= mtu_bytes {
        whole_bytes
    } else {
        (mtu_bytes - HEADER_BYTES) / 8 * 8
    };
    (0..whole_bytes).step_by(room.max(1) as usize).map(move |at| room.min(whole_bytes - at))
}

/// The first route that leads to an address; routes stand with the longest prefix first.
pub fn route(routes: &[Route], to: Ipv4Addr) -> Option<&Route> {
    routes.iter().find(|route| {
        let mask = u32::MAX.checked_shl(32 - route.prefix_bits).unwrap_or(0);
        (u32::from(to) ^ u32::from(route.network)) & mask == 0
    })
}

/// Packets of which some fragments have come, by number: bytes so far, and when the first came.
#[derive(Debug, Default)]
pub struct Reassembly {
    partial: BTreeMap<u64, (u32, u64)>,
    looked_ns: u64,
}

impl Reassembly {
    /// Takes a fragment; true when its packet is whole with it.
    pub fn take(&mut self, packet: &Packet, now_ns: u64) -> bool {
        if !packet.is_part() {
            return true;
        }
        if now_ns - self.looked_ns > PATIENCE_NS {
            self.looked_ns = now_ns;
            self.partial.retain(|_, (_, since)| now_ns - *since <= PATIENCE_NS);
        }
        let (bytes, since) = self.partial.entry(packet.number).or_insert((0, now_ns));
        if now_ns - *since > PATIENCE_NS {
            (*bytes, *since) = (0, now_ns);
        }
        *bytes += packet.body_bytes;
        let whole = *bytes == packet.whole_bytes;
        if whole {
            self.partial.remove(&packet.number);
        }
        whole
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(number: u64, body_bytes: u32) -> Packet {
        Packet {
            number,
            to: Ipv4Addr::LOCALHOST,
            hops_left: HOPS,
            tapped: false,
            body_bytes,
            whole_bytes: 3000,
        }
    }

    #[test]
    fn a_packet_of_65000_bytes_is_44_fragments_that_add_up() {
        let parts: Vec<u32> = fragments(65_000 - HEADER_BYTES, 1500).collect();
        assert_eq!((parts.len(), parts.iter().sum::<u32>()), (44, 64_980));
        assert!(parts[..43].iter().all(|part| part % 8 == 0));
        assert_eq!(fragments(1480, 1500).collect::<Vec<_>>(), [1480]);
        assert_eq!(fragments(1508, 1500).collect::<Vec<_>>(), [1480, 28]);
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
        let routes = [to("10.0.1.0", 24, 0), to("10.0.0.0", 8, 1), to("0.0.0.0", 0, 2)];
        let way = |text: &str| route(&routes, text.parse().unwrap()).map(|route| route.vnic);
        assert_eq!([way("10.0.1.9"), way("10.9.9.9"), way("8.8.8.8")], [Some(0), Some(1), Some(2)]);
    }
}
