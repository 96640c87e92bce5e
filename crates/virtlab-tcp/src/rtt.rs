//! The smoothed round-trip time and the retransmission time-out: RFC 6298 with Linux's bounds.
//!
//! `srtt += (r - srtt) / 8`, `rttvar += (|r - srtt| - rttvar) / 4`, `RTO = srtt + max(4 rttvar, 200 ms)`: Linux puts
//! its least time under the variance, where the RFC bounds the sum by 1 s. Before any sample it is 1 s. It doubles with
//! every time-out up to 120 s.

const INITIAL_NS: u64 = 1_000_000_000;
const LEAST_NS: u64 = 200_000_000;
const MOST_NS: u64 = 120_000_000_000;

/// What is known of the round trip.
#[derive(Clone, Copy, Debug, Default)]
pub struct RoundTrip {
    srtt_ns: u64,
    variation_ns: u64,
    least_ns: Option<u64>,
    doublings: u32,
}

impl RoundTrip {
    /// A measured round trip.
    pub fn sample(&mut self, rtt_ns: u64) {
        let rtt_ns = rtt_ns.max(1);
        self.least_ns = Some(self.least_ns.map_or(rtt_ns, |least| least.min(rtt_ns)));
        if self.srtt_ns == 0 {
            (self.srtt_ns, self.variation_ns) = (rtt_ns, rtt_ns / 2);
        } else {
            self.variation_ns = (3 * self.variation_ns + rtt_ns.abs_diff(self.srtt_ns)) / 4;
            self.srtt_ns = (7 * self.srtt_ns + rtt_ns) / 8;
        }
    }

    /// Smoothed; absent before the first sample.
    pub fn smoothed_ns(&self) -> Option<u64> {
        (self.srtt_ns > 0).then_some(self.srtt_ns)
    }

    /// Shortest so far.
    pub fn least_ns(&self) -> Option<u64> {
        self.least_ns
    }

    /// The time-out.
    pub fn timeout_ns(&self) -> u64 {
        let first = match self.smoothed_ns() {
            None => INITIAL_NS,
            Some(srtt) => srtt + (4 * self.variation_ns).max(LEAST_NS),
        };
        first.saturating_mul(1 << self.doublings.min(20)).min(MOST_NS)
    }

    /// A time-out happened.
    pub fn back_off(&mut self) {
        self.doublings += 1;
    }

    /// Something new was acknowledged.
    pub fn progress(&mut self) {
        self.doublings = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_out_follows_rfc_6298_with_200_ms_at_least() {
        let mut rtt = RoundTrip::default();
        assert_eq!(rtt.timeout_ns(), 1_000_000_000);
        rtt.sample(100_000_000);
        assert_eq!(rtt.timeout_ns(), 100_000_000 + 4 * 50_000_000);
        for _ in 0..100 {
            rtt.sample(100_000_000);
        }
        assert_eq!(rtt.timeout_ns(), 300_000_000);
        rtt.back_off();
        rtt.back_off();
        assert_eq!(rtt.timeout_ns(), 1_200_000_000);
        (0..40).for_each(|_| rtt.back_off());
        assert_eq!(rtt.timeout_ns(), 120_000_000_000);
        rtt.progress();
        assert_eq!(rtt.timeout_ns(), 300_000_000);
    }
}
