//! What a probe writes at the front of each payload it sends.
//!
//! ```text
//! magic and kind u16 | flow u16 | seq u48 | sent ns u64 | intended ns u64 (where the payload has room)
//! ```
//! Little endian. The first 18 bytes fit the payload of a 64-byte UDP frame over IPv4 (64 - 14 - 4 - 20 - 8); the
//! intended instant follows in payloads of 26 bytes and more. Instants are the sender's CLOCK_MONOTONIC_RAW.

use crate::Nanos;

/// Bytes that every probe payload has.
pub const COMPACT_BYTES: usize = 18;
/// Bytes with the intended instant.
pub const FULL_BYTES: usize = 26;
/// Sequence numbers are 48 bits wide.
pub const MAXIMUM_SEQ: u64 = (1 << 48) - 1;

const MAGIC: u16 = 0x5AB0;
const KIND_MASK: u16 = 0x000F;

/// What a probe payload is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum Purpose {
    /// Measured or load traffic.
    Data = 0,
    /// The far side's answer to [`Purpose::Data`].
    Reply = 1,
    /// "This flow is mine": tells a server where to send a flow that it originates.
    Register = 2,
}

/// The header's content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbeHeader {
    /// What the payload is for.
    pub purpose: Purpose,
    /// Which flow or stream of the role.
    pub flow: u16,
    /// 0, 1, 2, ... within the flow; the upper 16 bits are not sent.
    pub seq: u64,
    /// When the sender's user space sent it.
    pub sent: Nanos,
    /// When the open-loop schedule wanted it sent; `None` where the payload is too short to say.
    pub intended: Option<Nanos>,
}

impl ProbeHeader {
    /// Writes the header over the front of `payload`; returns the bytes written, 0 when `payload` is too short.
    pub fn write(&self, payload: &mut [u8]) -> usize {
        if payload.len() < COMPACT_BYTES {
            return 0;
        }
        payload[0..2].copy_from_slice(&(MAGIC | self.purpose as u16).to_le_bytes());
        payload[2..4].copy_from_slice(&self.flow.to_le_bytes());
        payload[4..10].copy_from_slice(&self.seq.to_le_bytes()[..6]);
        payload[10..18].copy_from_slice(&self.sent.0.to_le_bytes());
        match (self.intended, payload.len() >= FULL_BYTES) {
            (Some(intended), true) => {
                payload[18..26].copy_from_slice(&intended.0.to_le_bytes());
                FULL_BYTES
            }
            (None, true) => {
                payload[18..26].fill(0xFF);
                FULL_BYTES
            }
            (_, false) => COMPACT_BYTES,
        }
    }

    /// Reads the header of `payload`; `None` when a probe did not write it.
    #[must_use]
    pub fn read(payload: &[u8]) -> Option<Self> {
        let front = payload.get(..COMPACT_BYTES)?;
        let tag = u16::from_le_bytes([front[0], front[1]]);
        if tag & !KIND_MASK != MAGIC {
            return None;
        }
        let purpose = match tag & KIND_MASK {
            0 => Purpose::Data,
            1 => Purpose::Reply,
            2 => Purpose::Register,
            _ => return None,
        };
        let mut seq = [0; 8];
        seq[..6].copy_from_slice(&front[4..10]);
        let intended = payload
            .get(18..FULL_BYTES)
            .and_then(|bytes| bytes.try_into().ok())
            .map(u64::from_le_bytes)
            .filter(|&ns| ns != u64::MAX)
            .map(Nanos);
        Some(Self {
            purpose,
            flow: u16::from_le_bytes([front[2], front[3]]),
            seq: u64::from_le_bytes(seq),
            sent: Nanos(u64::from_le_bytes([
                front[10], front[11], front[12], front[13], front[14], front[15], front[16], front[17],
            ])),
            intended,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_compact_header_fits_the_smallest_udp_frame() {
        let smallest_udp_payload = 64 - 14 - 4 - 20 - 8;
        assert_eq!(COMPACT_BYTES, smallest_udp_payload);
    }

    #[test]
    fn a_payload_too_short_takes_no_header() {
        let header = ProbeHeader { purpose: Purpose::Data, flow: 0, seq: 0, sent: Nanos(0), intended: None };
        assert_eq!(header.write(&mut [0; COMPACT_BYTES - 1]), 0);
        assert_eq!(ProbeHeader::read(&[0; COMPACT_BYTES - 1]), None);
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            flow: u16, seq in 0..=MAXIMUM_SEQ, sent: u64, intended in prop::option::of(0..u64::MAX), room in COMPACT_BYTES..64,
        ) {
            let header = ProbeHeader {
                purpose: Purpose::Reply, flow, seq, sent: Nanos(sent), intended: intended.map(Nanos),
            };
            let mut payload = vec![0xAA; room];
            let written = header.write(&mut payload);
            let wanted = ProbeHeader { intended: header.intended.filter(|_| room >= FULL_BYTES), ..header };
            prop_assert_eq!(ProbeHeader::read(&payload), Some(wanted));
            prop_assert!(payload[written..].iter().all(|&byte| byte == 0xAA));
        }

        #[test]
        fn no_bytes_make_read_panic(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let _ = ProbeHeader::read(&bytes);
        }
    }
}
