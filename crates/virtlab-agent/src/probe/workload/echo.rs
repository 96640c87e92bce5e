//! Echo packets: ICMP echo requests and UDP datagrams that the far side sends back, filled and recognised.

use crate::probe::icmp;
use virtlab_wire::probe_header::{FULL_BYTES, ProbeHeader};

const ECHO_REQUEST_V4: u8 = 8;
const ECHO_REPLY_V4: u8 = 0;
const ECHO_REQUEST_V6: u8 = 128;
const ECHO_REPLY_V6: u8 = 129;
/// The probe header ends within this many bytes; a multiple of 4, so that checksums of the parts add up.
const CHANGING_BYTES: usize = (icmp::HEADER_BYTES + FULL_BYTES).next_multiple_of(4);

/// How echo packets look on a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// UDP: the payload alone.
    Udp,
    /// ICMP with its own header.
    Icmp {
        /// IPv6.
        v6: bool,
        /// Echo identifier.
        identifier: u16,
        /// Whether the kernel fills the checksum.
        kernel_checksum: bool,
        /// Whether received messages begin with an IPv4 header.
        ip_header: bool,
    },
}

impl Format {
    /// The format of a pair of ICMP sockets.
    pub fn of(sockets: &icmp::Sockets, v6: bool) -> Self {
        Self::Icmp {
            v6,
            identifier: sockets.identifier,
            kernel_checksum: sockets.kernel_checksum,
            ip_header: sockets.ip_header,
        }
    }

    fn header_bytes(self) -> usize {
        match self {
            Self::Udp => 0,
            Self::Icmp { .. } => icmp::HEADER_BYTES,
        }
    }

    /// The reply in a received message: its 16-bit sequence number (ICMP) and its payload.
    pub fn reply(self, message: &[u8]) -> Option<(Option<u16>, &[u8])> {
        let Self::Icmp { v6, identifier, ip_header, .. } = self else {
            return Some((None, message));
        };
        let skip = if ip_header { usize::from(message.first()? & 0x0F) * 4 } else { 0 };
        let echo = message.get(skip..)?;
        let wanted = if v6 { ECHO_REPLY_V6 } else { ECHO_REPLY_V4 };
        let head = echo.get(..icmp::HEADER_BYTES)?;
        let ours = head[0] == wanted && u16::from_be_bytes([head[4], head[5]]) == identifier;
        ours.then(|| (Some(u16::from_be_bytes([head[6], head[7]])), &echo[icmp::HEADER_BYTES..]))
    }
}

/// One packet, filled again for each send.
#[derive(Debug)]
pub struct Packet {
    format: Format,
    buffer: Vec<u8>,
    constant_sum: u64,
}

impl Packet {
    /// A packet of `payload_bytes`; the payload behind the probe header counts up, as ping's does.
    pub fn new(format: Format, payload_bytes: usize) -> Self {
        let header = format.header_bytes();
        let mut buffer: Vec<u8> = (0..header + payload_bytes).map(|at| at as u8).collect();
        if let Format::Icmp { v6, identifier, .. } = format {
            buffer[..icmp::HEADER_BYTES].fill(0);
            buffer[0] = if v6 { ECHO_REQUEST_V6 } else { ECHO_REQUEST_V4 };
            buffer[4..6].copy_from_slice(&identifier.to_be_bytes());
        }
        let constant_sum = icmp::sum(buffer.get(CHANGING_BYTES..).unwrap_or_default());
        Self { format, buffer, constant_sum }
    }

    /// Bytes behind the ICMP header.
    pub fn payload_bytes(&self) -> usize {
        self.buffer.len() - self.format.header_bytes()
    }

    /// The packet with this header; ICMP's own sequence number is `echo_seq`.
    pub fn fill(&mut self, header: &ProbeHeader, echo_seq: u16) -> &[u8] {
        header.write(&mut self.buffer[self.format.header_bytes()..]);
        if let Format::Icmp { kernel_checksum, .. } = self.format {
            self.buffer[6..8].copy_from_slice(&echo_seq.to_be_bytes());
            if !kernel_checksum {
                self.buffer[2..4].fill(0);
                let changing = &self.buffer[..self.buffer.len().min(CHANGING_BYTES)];
                let checksum = icmp::fold(icmp::sum(changing) + self.constant_sum);
                self.buffer[2..4].copy_from_slice(&checksum.to_be_bytes());
            }
        }
        &self.buffer
    }
}

/// The full sequence number whose low 16 bits came back, given the newest number sent.
pub fn widen(low: u16, newest: u64) -> Option<u64> {
    let candidate = (newest & !0xFFFF) | u64::from(low);
    if candidate <= newest { Some(candidate) } else { candidate.checked_sub(1 << 16) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use virtlab_wire::Nanos;
    use virtlab_wire::probe_header::Purpose;

    fn header(seq: u64) -> ProbeHeader {
        ProbeHeader { purpose: Purpose::Data, flow: 3, seq, sent: Nanos(seq * 7), intended: Some(Nanos(seq)) }
    }

    proptest! {
        #[test]
        fn a_filled_request_has_a_valid_checksum_however_often_it_is_filled(payload in 0usize..200, seqs in prop::collection::vec(0u64..1 << 40, 1..4)) {
            let format = Format::Icmp { v6: false, identifier: 0xBEEF, kernel_checksum: false, ip_header: true };
            let mut packet = Packet::new(format, payload);
            for seq in seqs {
                let bytes = packet.fill(&header(seq), seq as u16);
                prop_assert_eq!(bytes.len(), 8 + payload);
                prop_assert_eq!(icmp::fold(icmp::sum(bytes)), 0);
            }
        }

        #[test]
        fn a_reply_behind_any_ip_header_is_recognised(words in 5usize..16, payload in 0usize..100, seq: u16) {
            let format = Format::Icmp { v6: false, identifier: 7, kernel_checksum: false, ip_header: true };
            let mut packet = Packet::new(format, payload);
            let mut message = vec![0; words * 4];
            message[0] = 0x40 | words as u8;
            message.extend_from_slice(packet.fill(&header(u64::from(seq)), seq));
            prop_assert_eq!(format.reply(&message), None, "a request is no reply");
            message[words * 4] = ECHO_REPLY_V4;
            let (low, body) = format.reply(&message).unwrap();
            prop_assert_eq!((low, body.len()), (Some(seq), payload));
            prop_assert_eq!(ProbeHeader::read(body).is_some(), payload >= 18);
        }

        #[test]
        fn no_message_makes_reply_panic(message in prop::collection::vec(any::<u8>(), 0..100)) {
            let _ = Format::Icmp { v6: false, identifier: 7, kernel_checksum: false, ip_header: true }.reply(&message);
        }

        #[test]
        fn a_number_is_widened_within_the_last_65536(newest in 0u64..1 << 40, back in 0u64..1 << 16) {
            let wanted = newest.checked_sub(back);
            if let Some(wanted) = wanted {
                prop_assert_eq!(widen(wanted as u16, newest), Some(wanted));
            }
        }
    }
}
