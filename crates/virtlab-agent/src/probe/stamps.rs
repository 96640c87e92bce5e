//! Kernel packet stamps (CLOCK_REALTIME) on the probe's clock (CLOCK_MONOTONIC_RAW).
//!
//! The two clocks run at slightly different rates while the wall clock is disciplined, so they are paired again every
//! 100 ms and a stamp is converted with the offset and the rate of the last two pairs. A step of the wall clock shows
//! as an impossible rate and is counted: conversions near it are wrong, and the role is tainted.

use virtlab_system::clock::{self, Paired};
use virtlab_wire::Nanos;

const PAIR_EVERY: Nanos = Nanos(100_000_000);
/// A disciplined clock is slewed by 500 ppm at most; twice that is a step.
const MOST_RATE: f64 = 1e-3;

/// Converts stamps of about now.
#[derive(Debug)]
pub struct StampClock {
    pair: Paired,
    /// Relative rate of RAW against REALTIME, minus 1.
    rate: f64,
    /// Steps of the wall clock seen.
    pub steps: u64,
}

impl StampClock {
    /// Pairs the clocks for the first time.
    pub fn new() -> Self {
        Self { pair: clock::pair(), rate: 0.0, steps: 0 }
    }

    /// Pairs the clocks again when the last pair is old; `now` is CLOCK_MONOTONIC_RAW.
    #[inline]
    pub fn refresh(&mut self, now: Nanos) {
        if now.since(self.pair.raw) >= PAIR_EVERY {
            self.pair_again();
        }
    }

    #[cold]
    fn pair_again(&mut self) {
        let next = clock::pair();
        let raw = next.raw.since(self.pair.raw).0 as f64;
        let realtime = next.realtime.0 as f64 - self.pair.realtime.0 as f64;
        let slack = (next.bound.0 + self.pair.bound.0) as f64;
        if (raw - realtime).abs() > raw * MOST_RATE + slack {
            self.steps += 1;
            self.rate = 0.0;
        } else if realtime > 0.0 {
            self.rate = raw / realtime - 1.0;
        }
        self.pair = next;
    }

    /// A CLOCK_REALTIME stamp on CLOCK_MONOTONIC_RAW.
    #[inline]
    pub fn raw_ns(&self, stamp: Nanos) -> i64 {
        let since_pair = stamp.0 as i64 - self.pair.realtime.0 as i64;
        self.pair.raw.0 as i64 + since_pair + (since_pair as f64 * self.rate) as i64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn now_on_one_clock_is_now_on_the_other() {
        let mut stamps = StampClock::new();
        for _ in 0..3 {
            let before = clock::raw().0 as i64;
            let converted = stamps.raw_ns(clock::realtime());
            let after = clock::raw().0 as i64;
            let slack = stamps.pair.bound.0 as i64 + 1000;
            assert!(
                before - slack <= converted && converted <= after + slack,
                "{before} {converted} {after}"
            );
            stamps.pair_again();
        }
    }

    #[test]
    fn a_step_of_the_wall_clock_is_counted() {
        let mut stamps = StampClock::new();
        stamps.pair.realtime = Nanos(stamps.pair.realtime.0 - 1_000_000_000);
        stamps.pair_again();
        assert_eq!(stamps.steps, 1);
    }
}
