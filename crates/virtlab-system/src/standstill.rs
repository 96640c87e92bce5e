//! Whether a thread that others wait for stood still, by itself: the switch's while it forwards, a disk's while it
//! serves. A disk's looks every 10 ms, whatever comes. The switch's does while frames come; when none came for 200 ms
//! it sleeps until one does, and how long that frame waited tells whether it stood still. That it was stopped
//! meanwhile, its leader hears.
//!
//! The lateness of frames shows a standstill to those frames only that came meanwhile, and the share of late ones
//! nothing of it in a long run. A thread beside the switch would not do: it shares the CPU that the switch is pinned
//! to.

use virtlab_wire::Nanos;

/// Not running for so long has changed what is measured.
const STALL: Nanos = Nanos(20_000_000);
const PERIOD: Nanos = Nanos(10_000_000);
const QUIET: Nanos = Nanos(200_000_000);

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
        self.runs_since(self.last, now);
    }

    /// The thread runs at `now`; the first of what came since it ran came at `first`.
    pub fn runs_with(&mut self, now: Nanos, first: Option<Nanos>) {
        let since = if self.looks { self.last } else { first.unwrap_or(now) };
        self.runs_since(since, now);
        self.looks = true;
        if first.is_some() {
            self.came = now;
        }
    }

    fn runs_since(&mut self, since: Nanos, now: Nanos) {
        let away = now.since(since);
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

    /// As [`Self::next_look`], of a sleep that begins now; `None` where nothing came for long and nothing `waits` to
    /// leave.
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
    fn after_200_ms_without_a_frame_it_sleeps_and_the_next_frame_tells_whether_it_stood_still() {
        let ms = |at: u64| Nanos(at * 1_000_000);
        let mut standstills = Standstills::from(ms(1000));
        assert_eq!(standstills.next_look_while(true), Some(ms(1010)), "frames are inside");
        assert_eq!(standstills.next_look_while(false), None);
        standstills.runs_with(ms(5000), Some(ms(4981)));
        assert_eq!(standstills.count, 0, "it slept for seconds, and the frame waited for 19 ms");
        standstills.runs_with(ms(5019), Some(ms(5000)));
        assert_eq!(standstills.count, 0);
        standstills.runs_with(ms(5040), None);
        assert_eq!((standstills.count, standstills.longest), (1, ms(21)), "without a sleep between");
        for at in (5050..=5210).step_by(10) {
            assert_eq!(standstills.next_look_while(false), Some(ms(at)));
            standstills.runs_with(ms(at), None);
        }
        standstills.runs_with(ms(5219), None);
        assert_eq!(standstills.next_look_while(false), None);
        standstills.runs_with(ms(6000), Some(ms(5700)));
        assert_eq!((standstills.count, standstills.longest), (2, ms(300)));
        assert_eq!(standstills.next_look_while(false), Some(ms(6010)), "more may come");
    }
}
