//! From the kernel's arrival stamps to the clock that timers count.
//!
//! Stamps are CLOCK_REALTIME, sleeping is CLOCK_MONOTONIC. Both are slewed alike, so their difference changes only when
//! somebody sets the clock: a step. After one, a frame stamped before it is converted with the difference of before.

use virtlab_system::clock;
use virtlab_wire::Nanos;

/// Differences that deviate by less are one and the same, read with noise.
const STEP_NS: i64 = 20_000;

/// Converts stamps; keeps the difference of the clocks.
#[derive(Debug)]
pub struct StampClock {
    offset_ns: i64,
    previous_ns: Option<i64>,
    /// Steps of CLOCK_REALTIME that were noticed.
    pub steps: u64,
    /// Stamps that lay in the future whichever difference was tried; counted as arrived now.
    pub clamped: u64,
}

/// CLOCK_REALTIME minus CLOCK_MONOTONIC, CLOCK_MONOTONIC, and the width of the bracket.
fn read() -> (i64, Nanos, u64) {
    let before = clock::monotonic();
    let realtime = clock::realtime();
    let after = clock::monotonic();
    let width = after.since(before).0;
    (realtime.0 as i64 - (before.0 + width / 2) as i64, after, width)
}

impl StampClock {
    /// Pairs the clocks.
    #[must_use]
    pub fn new() -> Self {
        let (offset_ns, _, _) =
            (0..8).map(|_| read()).min_by_key(|one| one.2).expect("eight readings were taken");
        Self { offset_ns, previous_ns: None, steps: 0, clamped: 0 }
    }

    /// Counts begin again at zero.
    pub fn forget_counts(&mut self) {
        self.steps = 0;
        self.clamped = 0;
    }

    /// Pairs the clocks again, before a batch of stamps is converted; gives the time now.
    pub fn refresh(&mut self) -> Nanos {
        let (offset_ns, now, width) = read();
        self.take(offset_ns, width);
        now
    }

    fn take(&mut self, offset_ns: i64, width_ns: u64) {
        self.previous_ns = None;
        if (offset_ns - self.offset_ns).unsigned_abs() > STEP_NS as u64 + width_ns {
            self.previous_ns = Some(self.offset_ns);
            self.offset_ns = offset_ns;
            self.steps += 1;
        }
    }

    /// Whether a stamp lies after `now`, so that the clock should be read once more.
    #[must_use]
    pub fn is_ahead(&self, stamp: Nanos, now: Nanos) -> bool {
        stamp.0 as i64 - self.offset_ns > now.0 as i64
    }

    /// A stamp on CLOCK_MONOTONIC, never after `now`.
    pub fn monotonic(&mut self, stamp: Nanos, now: Nanos) -> Nanos {
        let at = |offset_ns: i64| Nanos((stamp.0 as i64 - offset_ns).max(0) as u64);
        let arrived = at(self.offset_ns);
        if let Some(previous_ns) = self.previous_ns {
            // Of both readings the one that lies nearest before now.
            return [arrived, at(previous_ns)].into_iter().filter(|at| *at <= now).max().unwrap_or(now);
        }
        if arrived > now {
            // A stamp taken between the pairing and now is in order; one further ahead is not.
            self.clamped += u64::from(arrived > now + Nanos(STEP_NS as u64));
            return now;
        }
        arrived
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paired(offset_ns: i64) -> StampClock {
        StampClock { offset_ns, previous_ns: None, steps: 0, clamped: 0 }
    }

    #[test]
    fn noise_of_the_readings_is_no_step() {
        let mut clock = paired(1_000_000);
        clock.take(1_000_900, 50);
        clock.take(1_060_000, 50_000);
        assert_eq!((clock.steps, clock.offset_ns), (0, 1_000_000));
    }

    #[test]
    fn frames_stamped_on_both_sides_of_a_step_keep_their_times() {
        for (before, after) in [(10_000_000_000, 70_000_000_000), (70_000_000_000, 10_000_000_000)] {
            let mut clock = paired(before);
            clock.take(after, 50);
            assert_eq!(clock.steps, 1);
            let now = Nanos(5_000_100);
            assert_eq!(clock.monotonic(Nanos(before as u64 + 4_900_000), now), Nanos(4_900_000));
            assert_eq!(clock.monotonic(Nanos(after as u64 + 4_990_000), now), Nanos(4_990_000));
            clock.take(after, 50);
            assert_eq!(clock.monotonic(Nanos(after as u64 + 5_500_000), Nanos(6_000_000)), Nanos(5_500_000));
        }
    }

    #[test]
    fn no_frame_arrives_in_the_future() {
        let mut clock = paired(0);
        assert_eq!(clock.monotonic(Nanos(9_000_000), Nanos(1_000)), Nanos(1_000));
        assert_eq!(clock.clamped, 1);
    }
}
