//! `rtt`: round trips of echoes.

use super::{Carrier, OutOfRange, PacketError, Role, positive, with_header};
use crate::schedule::Arrivals;
use crate::size::{IpVersion, PacketSize, SizeRequest};
use serde::Deserialize;

/// As a Plan calls it.
pub const NAME: &str = "rtt";

/// What a role says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rtt {
    /// What carries the echo.
    pub protocol: Carrier,
    /// Size of an echo with Ethernet's header and FCS.
    pub frame_bytes: Option<u32>,
    /// Size of an echo with the IP header.
    pub ip_packet_bytes: Option<u32>,
    /// Size of an echo behind all headers.
    pub payload_bytes: Option<u32>,
    /// Between two intended instants; 0: each request follows the reply before it.
    pub interval_ns: u64,
    /// How intervals come about; `interval_ns` is their mean.
    #[serde(default)]
    pub arrivals: Arrivals,
    /// Absent: until stopped.
    pub count: Option<u64>,
    /// A reply later than this is lost.
    pub timeout_ns: u64,
}

impl Role for Rtt {
    const NAME: &str = NAME;
}

impl Rtt {
    /// # Errors
    /// The first parameter that no end could play.
    pub fn check(&self) -> Result<(), OutOfRange> {
        positive("timeout_ns", self.timeout_ns)
    }

    /// Of an echo over this IP version through an interface of this MTU. Over UDP it holds a header of its player.
    ///
    /// # Errors
    /// When there is no such echo.
    pub fn size(&self, version: IpVersion, mtu_bytes: u32) -> Result<PacketSize, PacketError> {
        let request = SizeRequest {
            frame_bytes: self.frame_bytes,
            ip_packet_bytes: self.ip_packet_bytes,
            payload_bytes: self.payload_bytes,
        };
        let size = request.resolve(self.protocol.into(), version, mtu_bytes)?;
        if self.protocol == Carrier::Udp { with_header(size) } else { Ok(size) }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing;
    use super::*;

    fn read(text: &str) -> Rtt {
        testing::of(text).unwrap()
    }

    #[test]
    fn echoes_are_of_the_kernel_until_stopped_and_awaited_for_a_second_unless_said() {
        let own = read(r#"{"interval_ns": 0, "payload_bytes": 0}"#);
        assert_eq!((own.protocol, own.count, own.timeout_ns), (Carrier::Icmp, None, 1_000_000_000));
        assert_eq!((own.arrivals, own.check()), (Arrivals::Constant, Ok(())));
    }

    #[test]
    fn only_a_datagram_must_hold_the_header_of_its_player() {
        let small = r#"{"interval_ns": 1, "payload_bytes": 17, "protocol": "#;
        let size = |protocol: &str| read(&format!("{small}{protocol:?}}}")).size(IpVersion::V4, 1500);
        assert_eq!(size("icmp").unwrap().payload_bytes, 17);
        assert_eq!(size("udp"), Err(PacketError::NoHeader(17)));
    }

    #[test]
    fn what_no_end_could_play_is_named() {
        let own = read(r#"{"interval_ns": 1, "timeout_ns": 0}"#);
        assert_eq!(own.check().unwrap_err().to_string(), "timeout_ns must be above 0");
        assert!(testing::of::<Rtt>(r#"{"interval_ns": 1, "protocol": "tcp"}"#).is_err());
    }
}
