//! When requests are due, whatever has been answered, and where they enter.

use super::ledger::Due;
use crate::probe::run::Run;
use std::sync::atomic::Ordering;
use virtlab_load::entering::Entering;
use virtlab_load::parameters::request_response::{RATE, RequestResponse as Parameters};
use virtlab_load::schedule::Schedule;
use virtlab_wire::Nanos;

/// Of one role.
pub struct Calendar {
    origin: Nanos,
    pub end: Nanos,
    /// Absent: when a client has done thinking.
    schedule: Option<Schedule>,
    entering: Entering,
    number: u64,
    /// Changes of the rate that are known.
    tuned: u64,
    seed: u64,
}

impl Calendar {
    /// From `begun` on.
    pub fn new(own: &Parameters, begun: Nanos, seed: u64) -> Self {
        Self {
            origin: begun,
            end: own.duration_ns.map_or(Nanos::MAX, |duration| begun + Nanos(duration)),
            schedule: own.due(seed),
            entering: own.entering(seed, None),
            number: 0,
            tuned: 0,
            seed,
        }
    }

    /// Whether there is a schedule.
    pub const fn is_open(&self) -> bool {
        self.schedule.is_some()
    }

    /// When the next one is; `None` after the end.
    pub fn next(&mut self) -> Option<Nanos> {
        let due = self.origin + self.schedule.as_mut()?.offset(self.number);
        (due < self.end).then_some(due)
    }

    /// The next one, if it is due by now.
    pub fn take(&mut self, now: Nanos) -> Option<Due> {
        let intended = self.next().filter(|due| *due <= now)?;
        self.number += 1;
        Some(Due { intended, entry: self.entering.draw(), sent: None })
    }

    /// Another rate that came since the last call; what is due before `now` has been taken by the old one.
    pub fn changed(&mut self, run: &Run) -> Option<u64> {
        let changes = run.tuned_count.load(Ordering::Acquire);
        if changes == self.tuned {
            return None;
        }
        self.tuned = changes;
        run.tuned(RATE).and_then(|value| value.as_u64())
    }

    /// Requests are due at that rate from now on.
    pub fn retune(&mut self, own: &Parameters, rate: u64, now: Nanos) {
        (self.schedule, self.origin, self.number) = (Some(own.schedule(rate, self.seed)), now, 0);
    }
}
