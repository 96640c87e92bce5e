//! How long a frame holds an Ethernet link (IEEE 802.3).
//!
//! A frame on the wire is preamble 8, header 14, payload, FCS 4, and a gap of 12 octets; header to FCS is at least 64.
//! So an IP packet of b bytes takes `max(b + 18, 64) + 20` octets, `b + 38` once b >= 46.

use crate::Nanos;

/// Destination, source and EtherType.
pub const HEADER_BYTES: u32 = 14;
/// Frame check sequence.
pub const FCS_BYTES: u32 = 4;
/// Preamble with start delimiter, and the gap between frames.
pub const PREAMBLE_AND_GAP_BYTES: u32 = 20;
/// The gap alone. The link stays held for it, but the receiver has the whole frame when it begins.
pub const GAP_BYTES: u32 = 12;
/// Shortest frame, header to FCS.
pub const MINIMUM_FRAME_BYTES: u32 = 64;

/// Octet times that a frame occupies, from its length as a packet socket sees it (header and payload, no FCS).
#[must_use]
pub const fn wire_bytes(captured_bytes: u32) -> u32 {
    let frame = captured_bytes + FCS_BYTES;
    (if frame < MINIMUM_FRAME_BYTES { MINIMUM_FRAME_BYTES } else { frame }) + PREAMBLE_AND_GAP_BYTES
}

/// Time that `wire_bytes` octets hold a link of `rate_bit_per_s`, rounded to the nearest nanosecond.
///
/// # Panics
/// When the rate is zero.
#[must_use]
pub const fn serialisation(wire_bytes: u32, rate_bit_per_s: u64) -> Nanos {
    let bits = wire_bytes as u128 * 8 * 1_000_000_000;
    let rate = rate_bit_per_s as u128;
    let sum = bits + rate / 2;
    if sum <= u64::MAX as u128 {
        return Nanos(sum as u64 / rate_bit_per_s); // the same, and several times as fast
    }
    Nanos((sum / rate) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_1500_byte_packet_holds_100_mbit_for_123_us() {
        assert_eq!(serialisation(wire_bytes(1514), 100_000_000), Nanos(123_040));
    }

    #[test]
    fn a_short_frame_is_padded_to_64_bytes() {
        assert_eq!(wire_bytes(42), 84);
        assert_eq!(wire_bytes(60), 84);
        assert_eq!(wire_bytes(61), 85);
    }
}
