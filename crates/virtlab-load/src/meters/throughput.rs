//! Rates between the first and the last arrival.
//!
//! n packets that arrive over a time t between the first and the last give (n - 1) / t: the first packet opens the
//! interval and does not count, so an evenly spaced flow has exactly its own rate however short it is.

use virtlab_wire::Nanos;

/// Packets and bytes, and when they came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Throughput {
    span: Option<(Nanos, Nanos)>,
    first_bytes: u64,
    /// Packets.
    pub packets: u64,
    /// Bytes of all packets.
    pub bytes: u64,
}

impl Throughput {
    /// Counts one packet.
    pub fn record(&mut self, at: Nanos, bytes: u64) {
        self.packets += 1;
        self.bytes += bytes;
        match &mut self.span {
            None => {
                self.first_bytes = bytes;
                self.span = Some((at, at));
            }
            Some((_, last)) => *last = (*last).max(at),
        }
    }

    /// First and last instant.
    #[must_use]
    pub const fn span(&self) -> Option<(Nanos, Nanos)> {
        self.span
    }

    /// Packets per second; `None` before two instants.
    #[must_use]
    pub fn packets_per_s(&self) -> Option<f64> {
        self.seconds().map(|seconds| (self.packets - 1) as f64 / seconds)
    }

    /// Bits per second; `None` before two instants.
    #[must_use]
    pub fn bit_per_s(&self) -> Option<f64> {
        self.seconds().map(|seconds| (self.bytes - self.first_bytes) as f64 * 8.0 / seconds)
    }

    fn seconds(&self) -> Option<f64> {
        let (first, last) = self.span?;
        (last > first).then(|| last.since(first).0 as f64 / 1e9)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn one_packet_has_no_rate() {
        let mut meter = Throughput::default();
        meter.record(Nanos(5), 100);
        assert_eq!((meter.packets_per_s(), meter.bit_per_s()), (None, None));
    }

    proptest! {
        #[test]
        fn an_even_flow_has_its_own_rate(n in 2u64..100, gap in 1u64..1_000_000, bytes in 1u64..65_536) {
            let mut meter = Throughput::default();
            (0..n).for_each(|k| meter.record(Nanos(k * gap), bytes));
            let wanted = 1e9 / gap as f64;
            prop_assert!((meter.packets_per_s().unwrap() / wanted - 1.0).abs() < 1e-9);
            prop_assert!((meter.bit_per_s().unwrap() / (wanted * bytes as f64 * 8.0) - 1.0).abs() < 1e-9);
        }
    }
}
