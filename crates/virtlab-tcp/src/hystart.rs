//! When slow start should end before a loss: HyStart (Ha and Rhee, "Taming the elephants", 2011), as Linux's CUBIC has
//! it.
//!
//! Two signs, looked for from a window of 16 packets. *Train*: acknowledgements have come less than 2 ms apart for half
//! of the least round trip since the round began. *Delay*: the least of eight round trips of this round lies above the
//! least of all by an eighth of it, at least 4 ms and at most 16 ms.

const LEAST_WINDOW: u32 = 16;
const SPACING_NS: u64 = 2_000_000;
const SAMPLES: u32 = 8;
const LEAST_RISE_NS: u64 = 4_000_000;
const MOST_RISE_NS: u64 = 16_000_000;

/// State of one flow.
#[derive(Clone, Copy, Debug, Default)]
pub struct HyStart {
    round_end: u64,
    round_ns: u64,
    last_ns: u64,
    samples: u32,
    least_ns: u64,
}

impl HyStart {
    /// An acknowledgement up to `ack` came while `next` is what would be sent; whether slow start should end.
    pub fn leave(
        &mut self,
        window: u32,
        [ack, next]: [u64; 2],
        now_ns: u64,
        rtt_ns: Option<u64>,
        least_rtt_ns: u64,
    ) -> bool {
        if ack > self.round_end || self.round_end == 0 {
            *self =
                Self { round_end: next, round_ns: now_ns, last_ns: now_ns, samples: 0, least_ns: u64::MAX };
        }
        if window < LEAST_WINDOW {
            return false;
        }
        let mut leave = false;
        if now_ns - self.last_ns <= SPACING_NS {
            self.last_ns = now_ns;
            leave = now_ns - self.round_ns > least_rtt_ns / 2;
        }
        let Some(rtt_ns) = rtt_ns else { return leave };
        self.least_ns = self.least_ns.min(rtt_ns);
        if self.samples < SAMPLES {
            self.samples += 1;
            return leave;
        }
        leave || self.least_ns > least_rtt_ns + (least_rtt_ns / 8).clamp(LEAST_RISE_NS, MOST_RISE_NS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn a_rise_of_the_round_trip_ends_slow_start_and_a_steady_one_does_not() {
        for (rtt_ns, leaves) in [(50 * MS, false), (53 * MS, false), (60 * MS, true)] {
            let mut hystart = HyStart::default();
            // 5 ms apart: no train
            let found = (0..20).any(|k| hystart.leave(32, [1, 100], 5 * MS * k, Some(rtt_ns), 50 * MS));
            assert_eq!(found, leaves, "{rtt_ns}");
        }
    }

    #[test]
    fn a_train_over_half_the_round_trip_ends_it() {
        let mut hystart = HyStart::default();
        let left = (0..200u64).find(|k| hystart.leave(64, [1, 100], k * MS / 4, None, 20 * MS));
        assert_eq!(left, Some(41));
        let mut small = HyStart::default();
        assert!(!(0..200u64).any(|k| small.leave(15, [1, 100], k * MS / 4, None, 20 * MS)));
    }
}
