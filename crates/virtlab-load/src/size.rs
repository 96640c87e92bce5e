//! What a size is the size of: frame, IP packet or payload; one is given, the others follow.
//!
//! A frame is Ethernet header 14, IP packet, FCS 4, and at least 64 bytes with padding. An IP packet is IP header 20
//! (IPv4 without options) or 40 (IPv6), transport header, payload. An IP packet above the MTU is fragmented by IP, so
//! then there is no single frame: `frame_bytes` must fit the MTU, the other two need not.

use serde::{Deserialize, Serialize};
use thiserror::Error;
use virtlab_wire::ethernet::{FCS_BYTES, HEADER_BYTES, MINIMUM_FRAME_BYTES};

/// Largest IPv4 packet, and largest payload of an IPv6 packet (no jumbograms).
pub const MAXIMUM_IP_BYTES: u32 = 65_535;

/// The protocol above IP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Transport {
    /// Echo request and reply: 8 bytes.
    Icmp,
    /// 8 bytes.
    Udp,
    /// 20 bytes, with the 12 of the timestamp option that Linux negotiates by default: 32.
    Tcp,
}

impl Transport {
    /// Bytes of its header.
    #[must_use]
    pub const fn header_bytes(self) -> u32 {
        match self {
            Self::Icmp | Self::Udp => 8,
            Self::Tcp => 32,
        }
    }
}

/// IP version of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IpVersion {
    /// Header of 20 bytes.
    V4,
    /// Header of 40 bytes.
    V6,
}

impl IpVersion {
    /// Bytes of its header, without options.
    #[must_use]
    pub const fn header_bytes(self) -> u32 {
        match self {
            Self::V4 => 20,
            Self::V6 => 40,
        }
    }

    /// Largest whole packet, header included.
    #[must_use]
    pub const fn maximum_packet_bytes(self) -> u32 {
        match self {
            Self::V4 => MAXIMUM_IP_BYTES,
            Self::V6 => MAXIMUM_IP_BYTES + 40,
        }
    }
}

/// A size as a Plan gives it: exactly one of the three.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SizeRequest {
    /// Ethernet header to FCS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frame_bytes: Option<u32>,
    /// IP header to the end of the payload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ip_packet_bytes: Option<u32>,
    /// What the application hands over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload_bytes: Option<u32>,
}

/// All three sizes of one packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketSize {
    /// What the application hands over.
    pub payload_bytes: u32,
    /// IP header to the end of the payload, before fragmentation.
    pub ip_packet_bytes: u32,
}

/// A size that cannot be.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum SizeError {
    /// None or several of the three were given.
    #[error("give exactly one of frame_bytes, ip_packet_bytes, payload_bytes; {0} are given")]
    NotOne(usize),
    /// Shorter than its headers.
    #[error("{what} {given} is shorter than its headers; at least {least}")]
    TooShort {
        /// Which of the three.
        what: &'static str,
        /// As given.
        given: u32,
        /// Smallest possible.
        least: u32,
    },
    /// Longer than IP or the MTU carries.
    #[error("{what} {given} is more than {most}, the most that {because}")]
    TooLong {
        /// Which of the three.
        what: &'static str,
        /// As given.
        given: u32,
        /// Largest possible.
        most: u32,
        /// What sets the limit.
        because: &'static str,
    },
}

impl SizeRequest {
    /// Whether nothing is given.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.frame_bytes.is_none() && self.ip_packet_bytes.is_none() && self.payload_bytes.is_none()
    }

    /// The sizes of a packet of `transport` over `version` through an interface of `mtu_bytes`.
    ///
    /// # Errors
    /// [`SizeError`] when none or several sizes are given, or the one given is impossible.
    pub fn resolve(
        &self,
        transport: Transport,
        version: IpVersion,
        mtu_bytes: u32,
    ) -> Result<PacketSize, SizeError> {
        let headers = version.header_bytes() + transport.header_bytes();
        let most = version.maximum_packet_bytes();
        let (what, given, ip_packet_bytes) =
            match (self.frame_bytes, self.ip_packet_bytes, self.payload_bytes) {
                (Some(frame), None, None) => {
                    let least = (headers + HEADER_BYTES + FCS_BYTES).max(MINIMUM_FRAME_BYTES);
                    if frame < least {
                        return Err(SizeError::TooShort { what: "frame_bytes", given: frame, least });
                    }
                    let longest = mtu_bytes.saturating_add(HEADER_BYTES + FCS_BYTES);
                    if frame > longest {
                        let because = "the MTU lets through in one frame";
                        return Err(SizeError::TooLong {
                            what: "frame_bytes",
                            given: frame,
                            most: longest,
                            because,
                        });
                    }
                    ("frame_bytes", frame, frame - HEADER_BYTES - FCS_BYTES)
                }
                (None, Some(packet), None) => ("ip_packet_bytes", packet, packet),
                (None, None, Some(payload)) => ("payload_bytes", payload, payload.saturating_add(headers)),
                (frame, packet, payload) => {
                    let given = [frame, packet, payload].iter().filter(|size| size.is_some()).count();
                    return Err(SizeError::NotOne(given));
                }
            };
        if ip_packet_bytes < headers {
            return Err(SizeError::TooShort { what, given, least: headers });
        }
        if ip_packet_bytes > most {
            let most = (u64::from(most) + u64::from(given) - u64::from(ip_packet_bytes)) as u32;
            return Err(SizeError::TooLong { what, given, most, because: "one IP packet holds" });
        }
        Ok(PacketSize { payload_bytes: ip_packet_bytes - headers, ip_packet_bytes })
    }
}

impl PacketSize {
    /// Fragments that IP makes of it at `mtu_bytes`: each but the last carries a multiple of 8 bytes, and in IPv6 each
    /// has a fragment header of 8 bytes.
    #[must_use]
    pub const fn fragments(&self, version: IpVersion, mtu_bytes: u32) -> u32 {
        if self.ip_packet_bytes <= mtu_bytes {
            return 1;
        }
        let extra = match version {
            IpVersion::V4 => 0,
            IpVersion::V6 => 8,
        };
        let room = mtu_bytes.saturating_sub(version.header_bytes() + extra) / 8 * 8;
        let body = self.ip_packet_bytes - version.header_bytes();
        if room == 0 { u32::MAX } else { body.div_ceil(room) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn frame(bytes: u32) -> SizeRequest {
        SizeRequest { frame_bytes: Some(bytes), ..SizeRequest::default() }
    }

    fn packet(bytes: u32) -> SizeRequest {
        SizeRequest { ip_packet_bytes: Some(bytes), ..SizeRequest::default() }
    }

    fn payload(bytes: u32) -> SizeRequest {
        SizeRequest { payload_bytes: Some(bytes), ..SizeRequest::default() }
    }

    #[test]
    fn a_64_byte_udp_frame_carries_18_bytes() {
        assert_eq!(frame(64).resolve(Transport::Udp, IpVersion::V4, 1500).unwrap().payload_bytes, 18);
    }

    #[test]
    fn an_ip_packet_of_1500_is_1472_bytes_of_ping() {
        let size = packet(1500).resolve(Transport::Icmp, IpVersion::V4, 1500).unwrap();
        assert_eq!((size.payload_bytes, size.fragments(IpVersion::V4, 1500)), (1472, 1));
    }

    #[test]
    fn ping_with_1500_bytes_of_payload_is_two_fragments_and_65000_are_44() {
        let fragments = |bytes| {
            payload(bytes)
                .resolve(Transport::Icmp, IpVersion::V4, 1500)
                .unwrap()
                .fragments(IpVersion::V4, 1500)
        };
        assert_eq!((fragments(1472), fragments(1500), fragments(65_000)), (1, 2, 44));
    }

    #[test]
    fn sizes_that_cannot_be_are_refused_with_the_limit() {
        let error =
            |request: SizeRequest, transport, version| request.resolve(transport, version, 1500).unwrap_err();
        assert_eq!(error(SizeRequest::default(), Transport::Udp, IpVersion::V4), SizeError::NotOne(0));
        assert_eq!(
            error(frame(63), Transport::Udp, IpVersion::V4),
            SizeError::TooShort { what: "frame_bytes", given: 63, least: 64 }
        );
        assert_eq!(
            error(frame(64), Transport::Udp, IpVersion::V6),
            SizeError::TooShort { what: "frame_bytes", given: 64, least: 66 }
        );
        assert!(matches!(
            error(frame(1519), Transport::Udp, IpVersion::V4),
            SizeError::TooLong { most: 1518, .. }
        ));
        assert!(matches!(
            error(payload(65_508), Transport::Udp, IpVersion::V4),
            SizeError::TooLong { most: 65_507, .. }
        ));
        assert_eq!(
            payload(65_507).resolve(Transport::Udp, IpVersion::V4, 1500).unwrap().payload_bytes,
            65_507
        );
    }

    proptest! {
        #[test]
        fn every_way_of_giving_a_size_agrees(bytes in 18u32..1400, v6: bool) {
            let version = if v6 { IpVersion::V6 } else { IpVersion::V4 };
            let size = payload(bytes).resolve(Transport::Udp, version, 1500).unwrap();
            prop_assert_eq!(packet(size.ip_packet_bytes).resolve(Transport::Udp, version, 1500), Ok(size));
            let frame_bytes = size.ip_packet_bytes + 18;
            prop_assert_eq!(frame(frame_bytes).resolve(Transport::Udp, version, 1500), Ok(size));
        }

        #[test]
        fn no_size_panics(f in prop::option::of(any::<u32>()), p in prop::option::of(any::<u32>()), l in prop::option::of(any::<u32>()), mtu: u32) {
            let request = SizeRequest { frame_bytes: f, ip_packet_bytes: p, payload_bytes: l };
            if let Ok(size) = request.resolve(Transport::Tcp, IpVersion::V6, mtu) {
                let _ = size.fragments(IpVersion::V6, mtu);
            }
        }
    }
}
