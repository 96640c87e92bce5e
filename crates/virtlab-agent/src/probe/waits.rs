//! How long what had come waited for the thread that answers it.
//!
//! The thread takes the time when it has a packet, and asks how long ago the kernel got it when the answer has left, so
//! that next to nothing is added to it: of a datagram its receive stamp, of a connection TCP's own note of its newest
//! data. That alone says little, since what came while the thread was away, or faster than it works, waits behind the
//! first: a wait counts only from when the thread was last at work. So one interruption is one stall, a load beyond
//! what the thread can bear counts as no stall, and the kernel need not be asked while the thread is busy.

use super::report::{Report, STALL};
use virtlab_load::Histogram;
use virtlab_system::clock;
use virtlab_wire::Nanos;

/// Waits of one answering thread.
#[derive(Debug)]
pub struct Waits {
    worked: Nanos,
    waits: Histogram,
}

impl Waits {
    /// From now on.
    pub fn new() -> Self {
        Self { worked: clock::raw(), waits: Histogram::default() }
    }

    /// What was taken at `taken` is dealt with now; `since_came`: how long ago the kernel got it.
    #[inline]
    pub fn dealt_with(&mut self, taken: Nanos, since_came: impl FnOnce() -> Option<Nanos>) {
        let away = taken.since(self.worked);
        let wait = if away < STALL {
            Some(away)
        } else {
            since_came().map(|ago| away.min(ago.since(clock::raw().since(taken))))
        };
        if let Some(wait) = wait {
            self.waits.record(wait);
        }
        self.worked = clock::raw();
    }

    /// The same of a datagram with a receive stamp (CLOCK_REALTIME).
    #[inline]
    pub fn dealt_with_datagram(&mut self, taken: Nanos, stamp: Option<Nanos>) {
        self.dealt_with(taken, || stamp.map(|stamp| clock::realtime().since(stamp)));
    }

    /// Into the report.
    pub fn close(self, report: &mut Report) {
        report.waits.merge(&self.waits);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stamp_before(ns: u64) -> Option<Nanos> {
        Some(Nanos(clock::realtime().0 - ns))
    }

    #[test]
    fn what_waited_while_the_thread_was_away_is_one_stall_whatever_came() {
        let mut waits = Waits::new();
        std::thread::sleep(std::time::Duration::from_millis(25));
        for back in [24_000_000, 23_000_000, 15_000_000] {
            waits.dealt_with_datagram(clock::raw(), stamp_before(back));
        }
        assert!(waits.waits.largest() >= Nanos(20_000_000), "{:?}", waits.waits.largest());
        assert_eq!(waits.waits.above(Nanos(15_000_000)), 1);
    }

    #[test]
    fn a_thread_that_nothing_comes_for_and_a_backlog_are_none() {
        let mut waits = Waits::new();
        std::thread::sleep(std::time::Duration::from_millis(25));
        waits.dealt_with_datagram(clock::raw(), stamp_before(10_000));
        waits.dealt_with_datagram(clock::raw(), stamp_before(900_000_000));
        assert!(waits.waits.largest() < Nanos(15_000_000), "{:?}", waits.waits.largest());
    }
}
