//! How many segments a flow sends together, as one long frame on the host's path (TSO, GSO).
//!
//! It is Linux's number (`tcp_tso_autosize`): what the flow sends in 1/1024 s at the rate at which it would be paced,
//! and on short paths as much more as 64 KiB, halved for every 512 us of the least round trip; at least two segments,
//! and no more than 64 KiB less the longest header. Source: `net/ipv4/tcp_output.c`. Deviation: nothing waits to become
//! longer (`tcp_tso_should_defer`).

/// The longest payload of a super-segment: 64 KiB less what Linux keeps for headers (`MAX_TCP_HEADER`, 320 B, and 1).
const MOST_BYTES: u64 = 65_536 - 321;
/// Of the rate's second, `sk_pacing_shift`; of the least round trip in us, `tcp_tso_rtt_log`.
const PACING_SHIFT: u32 = 10;
const RTT_LOG: u32 = 9;
const LEAST_SEGMENTS: u64 = 2;

/// How many segments of so many bytes a flow sends together.
pub fn most_segments(segment_bytes: u32, rate_byte_per_s: Option<u64>, least_rtt_ns: Option<u64>) -> usize {
    let halvings = least_rtt_ns.map_or(u64::from(u32::MAX), |rtt_ns| (rtt_ns / 1000) >> RTT_LOG);
    let near_bytes = if halvings < 32 { (MOST_BYTES + 1) >> halvings } else { 0 };
    let bytes = rate_byte_per_s.map_or(MOST_BYTES, |rate| (rate >> PACING_SHIFT) + near_bytes);
    let segments = bytes.min(MOST_BYTES) / u64::from(segment_bytes.max(1));
    segments.max(LEAST_SEGMENTS) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn a_flow_sends_together_what_goes_in_a_millisecond_and_on_short_paths_all() {
        assert_eq!(most_segments(1448, None, None), 45, "65,160 bytes: the well-known length");
        assert_eq!(most_segments(1448, Some(12_500_000), Some(40 * MS)), 8, "12.2 KB of 100 Mbit/s");
        assert_eq!(most_segments(1448, Some(125_000), Some(40 * MS)), 2, "never fewer");
        assert_eq!(most_segments(1448, Some(125_000), Some(MS / 10)), 45);
        assert_eq!(most_segments(1448, Some(125_000), Some(MS)), 22, "halved once beyond 512 us");
        assert_eq!(most_segments(1448, Some(125_000), Some(2 * MS)), 5, "three times");
    }
}
