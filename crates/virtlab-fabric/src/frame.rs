//! What the fabric knows of an Ethernet frame: its length, its addresses, and which flow it belongs to.

use core::net::IpAddr;
use serde::{Deserialize, Serialize};
use std::fmt;
use virtlab_qdisc::{Ecn, Headers};

/// An Ethernet address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Mac(pub [u8; 6]);

impl Mac {
    /// To all stations.
    pub const BROADCAST: Self = Self([0xff; 6]);

    /// Group address: multicast or broadcast.
    #[must_use]
    pub const fn is_group(self) -> bool {
        self.0[0] & 1 == 1
    }

    /// 01:80:c2:00:00:00 to :0f, which bridges never forward (IEEE 802.1Q, table 8-1): spanning tree, pause, LLDP.
    #[must_use]
    pub const fn is_link_local(self) -> bool {
        matches!(self.0, [0x01, 0x80, 0xc2, 0, 0, last] if last < 0x10)
    }
}

impl fmt::Display for Mac {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, f] = self.0;
        write!(out, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x}")
    }
}

impl From<Mac> for String {
    fn from(mac: Mac) -> Self {
        mac.to_string()
    }
}

impl TryFrom<String> for Mac {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let mut bytes = [0; 6];
        let mut octets = text.split(':');
        for byte in &mut bytes {
            *byte = octets
                .next()
                .filter(|octet| octet.len() == 2)
                .and_then(|octet| u8::from_str_radix(octet, 16).ok())
                .ok_or_else(|| format!("'{text}' is not a MAC address; write it as 02:00:00:00:00:01"))?;
        }
        match octets.next() {
            None => Ok(Self(bytes)),
            Some(_) => Err(format!("'{text}' is not a MAC address; it has more than six octets")),
        }
    }
}

/// A frame on its way in.
#[derive(Clone, Debug)]
pub struct Frame<P> {
    /// Ethernet header, tags and payload, no FCS: the length that a packet socket sees.
    pub bytes: u32,
    /// Whence.
    pub source: Mac,
    /// Whither.
    pub destination: Mac,
    /// See [`flow_hash`]; 0 where no discipline looks at it.
    pub flow: u64,
    /// See [`ecn`]; not capable where no discipline looks at it.
    pub ecn: Ecn,
    /// See [`headers`]; absent where no queue has rules.
    pub headers: Option<Box<Headers>>,
    /// What the owner gets back with each departure; the fabric never looks at it.
    pub payload: P,
}

impl<P> Frame<P> {
    /// A frame from its bytes, `None` when they are shorter than an Ethernet header. `flow` and `ecn` stay
    /// as they are for disciplines that do not look.
    pub fn parse(bytes: &[u8], payload: P) -> Option<Self> {
        let destination = Mac(bytes.get(0..6)?.try_into().ok()?);
        let source = Mac(bytes.get(6..12)?.try_into().ok()?);
        bytes.get(13)?;
        Some(Self {
            bytes: bytes.len() as u32,
            source,
            destination,
            flow: 0,
            ecn: Ecn::NotCapable,
            headers: None,
            payload,
        })
    }
}

/// A hash that is equal for frames of one transport flow: addresses, protocol and ports, or the MAC addresses where the
/// frame is no IP packet. VLAN tags are passed over; of a fragmented packet only the addresses and the protocol count,
/// so that its fragments stay together. FNV-1a, so equal on every machine.
#[must_use]
pub fn flow_hash(bytes: &[u8]) -> u64 {
    let (kind, at) = network_layer(bytes);
    let packet = bytes.get(at..).unwrap_or_default();
    let parts: Option<[&[u8]; 3]> = match kind {
        Some(0x0800) => ipv4_parts(packet),
        Some(0x86dd) => ipv6_parts(packet),
        _ => None,
    };
    match parts {
        Some(parts) => fnv(parts.into_iter().flatten()),
        None => fnv(bytes.iter().take(12)),
    }
}

/// What rules of classes look at, read once: the outer tag's priority, and the IP and transport headers.
#[must_use]
pub fn headers(bytes: &[u8]) -> Headers {
    let (kind, at) = network_layer(bytes);
    let pcp = if at > 14 { bytes.get(14).map(|byte| byte >> 5) } else { None };
    let packet = bytes.get(at..).unwrap_or_default();
    let empty = Headers { pcp, ..Headers::default() };
    let (tos, parts) = match (kind, packet) {
        (Some(0x0800), [_, tos, ..]) => (*tos, ipv4_parts(packet)),
        (Some(0x86dd), [high, low, ..]) => (high << 4 | low >> 4, ipv6_parts(packet)),
        _ => return empty,
    };
    let Some([addresses, protocol, ports]) = parts else { return empty };
    let (source, destination) = addresses.split_at(addresses.len() / 2);
    let port = |at: usize| ports.get(at..at + 2).map(|two| u16::from_be_bytes([two[0], two[1]]));
    Headers {
        pcp,
        tos: Some(tos),
        protocol: protocol.first().copied(),
        source: address(source),
        destination: address(destination),
        source_port: port(0),
        destination_port: port(2),
    }
}

fn address(octets: &[u8]) -> Option<IpAddr> {
    let four: Option<[u8; 4]> = octets.try_into().ok();
    let sixteen: Option<[u8; 16]> = octets.try_into().ok();
    four.map(IpAddr::from).or(sixteen.map(IpAddr::from))
}

/// Explicit congestion notification of the IP packet in a frame (RFC 3168); other frames cannot be marked.
#[must_use]
pub fn ecn(bytes: &[u8]) -> Ecn {
    let (kind, at) = network_layer(bytes);
    let field = match (kind, bytes.get(at..at + 2)) {
        (Some(0x0800), Some(head)) => head[1] & 3,
        (Some(0x86dd), Some(head)) => (head[1] >> 4) & 3,
        _ => 0,
    };
    match field {
        0 => Ecn::NotCapable,
        3 => Ecn::Marked,
        _ => Ecn::Capable,
    }
}

/// Writes congestion experienced into the IP header of a frame, its checksum mended (RFC 1624). Leaves others alone.
pub fn mark(bytes: &mut [u8]) {
    let (kind, at) = network_layer(bytes);
    match kind {
        Some(0x0800) if bytes.len() >= at + 20 => {
            let before = u16::from_be_bytes([bytes[at], bytes[at + 1]]);
            bytes[at + 1] |= 3;
            let after = u16::from_be_bytes([bytes[at], bytes[at + 1]]);
            let checksum = !u16::from_be_bytes([bytes[at + 10], bytes[at + 11]]);
            let sum = u32::from(checksum) + u32::from(!before) + u32::from(after);
            let folded = (sum & 0xffff) + (sum >> 16);
            let folded = !(((folded & 0xffff) + (folded >> 16)) as u16);
            bytes[at + 10..at + 12].copy_from_slice(&folded.to_be_bytes());
        }
        Some(0x86dd) if bytes.len() >= at + 2 => bytes[at + 1] |= 0x30,
        _ => {}
    }
}

/// The EtherType behind all VLAN tags, and where its packet begins.
fn network_layer(bytes: &[u8]) -> (Option<u16>, usize) {
    let mut at = 12;
    let mut kind = ether_type(bytes, at);
    while matches!(kind, Some(0x8100 | 0x88a8)) {
        at += 4;
        kind = ether_type(bytes, at);
    }
    (kind, at + 2)
}

fn ether_type(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn ipv4_parts(packet: &[u8]) -> Option<[&[u8]; 3]> {
    let header = usize::from(packet.first()? & 15) * 4;
    let fragmented = u16::from_be_bytes([*packet.get(6)?, *packet.get(7)?]) & 0x3fff != 0;
    let protocol = packet.get(9..10)?;
    let ports = match protocol[0] {
        6 | 17 | 132 if !fragmented => packet.get(header..header + 4)?,
        _ => &[],
    };
    Some([packet.get(12..20)?, protocol, ports])
}

fn ipv6_parts(packet: &[u8]) -> Option<[&[u8]; 3]> {
    let protocol = packet.get(6..7)?;
    let ports = match protocol[0] {
        6 | 17 | 132 => packet.get(40..44)?,
        _ => &[],
    };
    Some([packet.get(8..40)?, protocol, ports])
}

fn fnv<'a>(bytes: impl Iterator<Item = &'a u8>) -> u64 {
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn udp(source_port: u16, fragment: u16, tag: bool) -> Vec<u8> {
        let mut bytes = vec![0x02, 0, 0, 0, 0, 2, 0x02, 0, 0, 0, 0, 1];
        if tag {
            bytes.extend([0x81, 0, 0, 7]);
        }
        bytes.extend([0x08, 0, 0x45, 0, 0, 32, 0, 0]);
        bytes.extend(fragment.to_be_bytes());
        bytes.extend([64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        bytes.extend(source_port.to_be_bytes());
        bytes.extend([0, 9, 0, 12, 0, 0, 1, 2, 3, 4]);
        bytes
    }

    #[test]
    fn ports_tell_flows_apart_and_tags_do_not() {
        assert_ne!(flow_hash(&udp(1, 0, false)), flow_hash(&udp(2, 0, false)));
        assert_eq!(flow_hash(&udp(1, 0, false)), flow_hash(&udp(1, 0, true)));
    }

    #[test]
    fn fragments_of_one_packet_are_one_flow() {
        assert_eq!(flow_hash(&udp(1, 0x2000, false)), flow_hash(&udp(77, 0x00b9, false)));
    }

    #[test]
    fn headers_of_a_tagged_datagram_are_read_and_a_fragment_has_no_ports() {
        let mut bytes = udp(7, 0, true);
        (bytes[14], bytes[19]) = (0xa0, 0xb8);
        let read = headers(&bytes);
        assert_eq!((read.pcp, read.tos, read.protocol), (Some(5), Some(0xb8), Some(17)));
        assert_eq!((read.source_port, read.destination_port), (Some(7), Some(9)));
        assert_eq!(read.source, Some("10.0.0.1".parse().unwrap()));
        let fragment = headers(&udp(7, 0x2000, false));
        assert_eq!((fragment.pcp, fragment.source_port, fragment.protocol), (None, None, Some(17)));
    }

    #[test]
    fn a_mark_sets_both_bits_and_keeps_the_checksum_right() {
        let mut bytes = udp(1, 0, true);
        bytes[19] = 2; // ECT(0)
        let header = |bytes: &[u8]| {
            let sum: u32 =
                bytes[18..38].chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
            !(((sum & 0xffff) + (sum >> 16)) as u16)
        };
        let checksum = header(&bytes);
        bytes[28..30].copy_from_slice(&checksum.to_be_bytes());
        assert_eq!((header(&bytes), ecn(&bytes)), (0, Ecn::Capable));
        mark(&mut bytes);
        assert_eq!((header(&bytes), ecn(&bytes)), (0, Ecn::Marked));
    }

    #[test]
    fn an_address_survives_its_text() {
        let mac = Mac([2, 0, 0, 0, 0xab, 1]);
        assert_eq!(Mac::try_from(mac.to_string()), Ok(mac));
        assert!(Mac::try_from("2:0:0:0:0:1".to_owned()).is_err());
        assert!(Mac::try_from("02:00:00:00:00:01:02".to_owned()).is_err());
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_hash_panic(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            prop_assert_eq!(flow_hash(&bytes), flow_hash(&bytes.clone()));
            prop_assert_eq!(headers(&bytes).tos.map_or(0, |tos| tos & 3) == 3, ecn(&bytes) == Ecn::Marked);
            let mut marked = bytes.clone();
            mark(&mut marked);
            prop_assert!(ecn(&bytes) == Ecn::NotCapable || marked.len() < 34 || ecn(&marked) == Ecn::Marked);
        }
    }
}
