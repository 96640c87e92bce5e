//! What happens next: the timers of all lines.

use crate::timers::Timers;
use virtlab_wire::Nanos;

/// What a timer is for.
#[derive(Clone, Copy)]
pub(crate) enum Timed {
    /// The line's transmitter may start a frame.
    Start(usize),
    /// The line's next frame reaches the far end.
    Arrival(usize),
}

/// All timers of transmitters before all those of arrivals, each by line: so events of one instant have their order.
pub(crate) struct Schedule {
    timers: Timers,
    timed: Vec<Timed>,
}

impl Schedule {
    /// So many timers, none of them set.
    pub(crate) fn new(timed: Vec<Timed>) -> Self {
        Self { timers: Timers::new(timed.len()), timed }
    }

    /// Sets a timer, or moves it.
    #[inline]
    pub(crate) fn set(&mut self, timer: usize, at: Nanos) {
        self.timers.set(timer, at);
    }

    /// Sets no instant for a timer.
    #[inline]
    pub(crate) fn clear(&mut self, timer: usize) {
        self.timers.clear(timer);
    }

    /// When the next event is.
    #[inline]
    pub(crate) fn next(&self) -> Option<Nanos> {
        self.timers.next()
    }

    /// The next event up to `now`: when, its timer, and what it is.
    #[inline]
    pub(crate) fn due(&self, now: Nanos) -> Option<(Nanos, usize, Timed)> {
        self.timers.next().filter(|at| *at <= now)?;
        let (at, timer) = self.timers.first()?;
        Some((at, timer, self.timed[timer]))
    }

    /// All that is to happen.
    pub(crate) fn all(&self) -> impl Iterator<Item = (Nanos, Timed)> {
        self.timers.iter().map(|(at, timer)| (at, self.timed[timer]))
    }
}
