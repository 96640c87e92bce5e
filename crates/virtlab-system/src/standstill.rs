//! Whether a thread that others wait for stood still, by itself: the switch's while it forwards, a disk's while it serves.
//! It runs at least every 10 ms, whatever comes. The switch, when nothing came for 200 ms, sleeps until something does: how
//! long the first frame then waited tells whether it stood still, and the kernel interrupts the sleep of what was stopped.
//!
//! The lateness of frames shows a standstill to those frames only that came meanwhile, and the share of late ones nothing of
//! it in a long run. A thread beside the switch would not do: it shares the CPU that the switch is pinned to.

use virtlab_wire::Nanos;

/// Not running for so long has changed what is measured.
const STALL: Nanos = Nanos(20_000_000);
const PERIOD: Nanos = Nanos(10_000_000);
const QUIET: Nanos = Nanos(200_000_000);
/// What ended a sleep without looks waited for so long: one that was stopped sleeps on until it may run.
const WAITED: Nanos = Nanos(10_000_000);

/// How often, and for how long at most.
#[derive(Clone, Copy, Debug)]
pub struct Standstills {
    last: Nanos,
    came: Nanos,
    looks: bool,
    /// Times that it did not run for 20 ms or longer.
    pub count: u64,
    /// The longest of them.
    pub longest: Nanos,
}

impl Standstills {
    /// None yet.
    #[must_use]
    pub fn from(now: Nanos) -> Self {
        Self { last: now, came: Nanos::ZERO, looks: true, count: 0, longest: Nanos::ZERO }
    }

    /// The thread runs at `now`.
    pub fn runs(&mut self, now: Nanos) {
        self.note(now.since(self.last), STALL);
        self.last = now;
    }

    /// The thread runs at `now`; the first of what came since it ran came at `first`.
    pub fn runs_with(&mut self, now: Nanos, first: Option<Nanos>) {
        if self.looks {
            self.runs(now);
        } else {
            self.note(first.map_or(Nanos::ZERO, |first| now.since(first)), WAITED);
            self.last = now;
        }
        if first.is_some() {
            self.came = now;
        }
    }

    /// A signal ended the sleep: where there were no looks, nothing else tells of a stop, nor how long it was.
    pub fn interrupted(&mut self) {
        if !self.looks {
            self.note(STALL, STALL);
        }
    }

    fn note(&mut self, away: Nanos, limit: Nanos) {
        if away >= limit {
            self.count += 1;
            self.longest = self.longest.max(away);
        }
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

    /// As [`Self::next_look`]; `None` where nothing came for long and nothing `waits` to leave.
    pub fn next_look_while(&mut self, waits: bool) -> Option<Nanos> {
        self.looks = waits || self.last.since(self.came) < QUIET;
        self.looks.then(|| self.next_look())
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

    #[test]
    fn without_looks_a_stop_is_told_by_what_waited_or_by_the_interrupted_sleep() {
        let mut standstills = Standstills::from(Nanos(0));
        standstills.runs_with(Nanos(199_000_000), Some(Nanos(1_000_000)));
        assert_eq!((standstills.count, standstills.longest), (1, Nanos(199_000_000)));
        standstills.interrupted();
        assert_eq!(standstills.count, 1, "the next look tells");
        assert_eq!(standstills.next_look_while(false), Some(Nanos(209_000_000)));
        for at in (209..=399).step_by(10) {
            standstills.runs_with(Nanos(at * 1_000_000), None);
        }
        assert_eq!(standstills.next_look_while(true), Some(Nanos(409_000_000)));
        assert_eq!(standstills.next_look_while(false), None);
        standstills.runs_with(Nanos(5_000_000_000), Some(Nanos(4_990_000_001)));
        assert_eq!(standstills.count, 1, "a sleep of seconds is not a standstill");
        assert_eq!(standstills.next_look_while(false), Some(Nanos(5_010_000_000)), "there may be more");
        standstills.runs_with(Nanos(5_010_000_000), None);
        standstills.runs_with(Nanos(5_025_000_000), None);
        standstills.runs_with(Nanos(5_044_000_000), None);
        standstills.runs_with(Nanos(5_200_000_000), None);
        assert_eq!((standstills.count, standstills.longest), (2, Nanos(199_000_000)));
        assert_eq!(standstills.next_look_while(false), None);
        standstills.interrupted();
        assert_eq!(standstills.count, 3);
        standstills.runs_with(Nanos(6_000_000_000), Some(Nanos(5_700_000_000)));
        assert_eq!((standstills.count, standstills.longest), (4, Nanos(300_000_000)));
    }
}
