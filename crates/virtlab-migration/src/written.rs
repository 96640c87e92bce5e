//! What a guest dirties during a round, where its rate changes within it.

use crate::question::Guest;

/// Of the round that is sent now, and of the one before.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Written {
    /// At rates that it had before, in this round; `None`: it had none but this one.
    earlier_bytes: Option<f64>,
    /// For how long it has had its rate, in this round.
    seconds: f64,
    /// During the last round that is over.
    pub(crate) last_bytes: f64,
}

impl Written {
    /// Time passes.
    pub(crate) const fn pass(&mut self, seconds: f64) {
        self.seconds += seconds;
    }

    /// The guest has another rate from now on; it had processors for a share of the time.
    pub(crate) fn change(&mut self, guest: &Guest, share: f64) {
        let bytes = guest.dirtied(self.seconds * share);
        (self.earlier_bytes, self.seconds) = (Some(self.earlier_bytes.unwrap_or(0.0) + bytes), 0.0);
    }

    /// A round of so many seconds is over: different bytes that were dirtied in it.
    pub(crate) fn end(&mut self, guest: &Guest, seconds: f64, share: f64) -> f64 {
        self.last_bytes = match self.earlier_bytes {
            None => guest.dirtied(seconds * share),
            Some(bytes) => bytes + guest.dirtied(self.seconds * share),
        };
        (self.earlier_bytes, self.seconds) = (None, 0.0);
        self.last_bytes
    }
}
