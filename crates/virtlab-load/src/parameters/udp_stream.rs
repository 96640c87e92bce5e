//! `udp_stream`: numbered datagrams one way, at a rate or as fast as the sender can.

use super::{OutOfRange, PacketError, Role, positive, with_header};
use crate::schedule::{Arrivals, Schedule};
use crate::size::{IpVersion, PacketSize, SizeRequest, Transport};
use serde::Deserialize;

/// As a Plan calls it.
pub const NAME: &str = "udp_stream";

/// What a role says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UdpStream {
    /// Rate of IP packets; absent: as fast as possible.
    pub rate_bit_per_s: Option<u64>,
    /// Size of a datagram with Ethernet's header and FCS.
    pub frame_bytes: Option<u32>,
    /// Size of a datagram with the IP header.
    pub ip_packet_bytes: Option<u32>,
    /// Size of a datagram behind all headers.
    pub payload_bytes: Option<u32>,
    /// Absent: until stopped.
    pub duration_ns: Option<u64>,
    /// How gaps between datagrams come about.
    #[serde(default)]
    pub arrivals: Arrivals,
    /// Whether the sender keeps a row per datagram, too.
    #[serde(default)]
    pub keep_sent: bool,
    /// SO_SNDBUF, of which the kernel grants twice as much.
    pub send_buffer_bytes: Option<u64>,
    /// SO_RCVBUF, likewise.
    pub receive_buffer_bytes: Option<u64>,
}

impl Role for UdpStream {
    const NAME: &str = NAME;
}

impl UdpStream {
    /// # Errors
    /// The first parameter that no end could play.
    pub fn check(&self) -> Result<(), OutOfRange> {
        self.rate_bit_per_s.map_or(Ok(()), Self::check_rate)
    }

    /// Checks the rate, first and when it changes.
    ///
    /// # Errors
    /// When nothing is ever due.
    pub fn check_rate(rate_bit_per_s: u64) -> Result<(), OutOfRange> {
        positive("rate_bit_per_s", rate_bit_per_s)
    }

    /// Of a datagram over this IP version through an interface of this MTU.
    ///
    /// # Errors
    /// When there is no such datagram, or it has no room for a header of its player.
    pub fn size(&self, version: IpVersion, mtu_bytes: u32) -> Result<PacketSize, PacketError> {
        with_header(self.packet().resolve(Transport::Udp, version, mtu_bytes)?)
    }

    /// As the role says it.
    #[must_use]
    pub const fn packet(&self) -> SizeRequest {
        SizeRequest {
            frame_bytes: self.frame_bytes,
            ip_packet_bytes: self.ip_packet_bytes,
            payload_bytes: self.payload_bytes,
        }
    }

    /// When packets of this size are due at a rate; gaps are drawn from the seed.
    #[must_use]
    pub fn paced(&self, size: PacketSize, rate_bit_per_s: u64, seed: u64) -> Schedule {
        let packet_bits = u64::from(size.ip_packet_bytes) * 8;
        Schedule::Paced { packet_bits, rate_bit_per_s }.with(self.arrivals, seed)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing;
    use super::*;

    fn read(text: &str) -> UdpStream {
        testing::of(text).unwrap()
    }

    #[test]
    fn a_stream_is_as_fast_as_possible_until_stopped_unless_said() {
        let own = read(r#"{"payload_bytes": 100}"#);
        assert_eq!(
            (own.rate_bit_per_s, own.duration_ns, own.keep_sent, own.check()),
            (None, None, false, Ok(()))
        );
    }

    #[test]
    fn the_rate_is_of_ip_packets() {
        let own = read(r#"{"payload_bytes": 97}"#); // 125 B with UDP's and IP's headers: 1000 bit
        let mut schedule = own.paced(own.size(IpVersion::V4, 1500).unwrap(), 1_000_000, 1);
        assert_eq!(schedule.offset(3).0, 3_000_000);
    }

    #[test]
    fn what_no_end_could_play_is_named() {
        let error = read(r#"{"rate_bit_per_s": 0}"#).check().unwrap_err();
        assert_eq!(error.to_string(), "rate_bit_per_s must be above 0");
        let small = read(r#"{"payload_bytes": 17}"#).size(IpVersion::V4, 1500);
        assert_eq!(small, Err(PacketError::NoHeader(17)));
    }
}
