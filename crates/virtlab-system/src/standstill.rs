//! Whether a thread that others wait for stood still, by itself: the switch's while it forwards, a disk's while it serves.
//! It runs at least every 10 ms, whatever comes.
//!
//! The lateness of frames shows a standstill to those frames only that came meanwhile, and the share of late ones nothing of
//! it in a long run. A thread beside the switch would not do: it shares the CPU that the switch is pinned to.

use virtlab_wire::Nanos;

/// Not running for so long has changed what is measured.
const STALL: Nanos = Nanos(20_000_000);
const PERIOD: Nanos = Nanos(10_000_000);

/// How often, and for how long at most.
#[derive(Clone, Copy, Debug)]
pub struct Standstills {
    last: Nanos,
    /// Times that it did not run for 20 ms or longer.
    pub count: u64,
    /// The longest of them.
    pub longest: Nanos,
}

impl Standstills {
    /// None yet.
    #[must_use]
    pub fn from(now: Nanos) -> Self {
        Self { last: now, count: 0, longest: Nanos::ZERO }
    }

    /// The thread runs at `now`.
    pub fn runs(&mut self, now: Nanos) {
        let away = now.since(self.last);
        if away >= STALL {
            self.count += 1;
            self.longest = self.longest.max(away);
        }
        self.last = now;
    }

    /// Those so far have been reported.
    pub fn forget(&mut self) {
        (self.count, self.longest) = (0, Nanos::ZERO);
    }

    /// When it has to run again, though nothing came and nothing leaves.
    #[must_use]
    pub fn next_look(&self) -> Nanos {
        self.last + PERIOD
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_of_20_ms_between_rounds_is_a_standstill_and_shorter_ones_are_none() {
        let mut standstills = Standstills::from(Nanos(0));
        for at_ms in [5, 10, 29, 49, 54, 600] {
            standstills.runs(Nanos(at_ms * 1_000_000));
        }
        assert_eq!((standstills.count, standstills.longest), (2, Nanos(546_000_000)));
        assert_eq!(standstills.next_look(), Nanos(610_000_000));
    }
}
