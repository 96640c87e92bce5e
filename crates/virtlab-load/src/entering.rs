//! At which server of a service each request enters: at its active one, or, for a share of them, at a passive one; or
//! at all of them in turn.
//!
//! Determined for each request in the order in which they are due, answered or not, so that equal seeds give equal
//! entries on sockets and in virtual time.

use crate::random::Stream;

/// The entries of requests, one after another.
#[derive(Clone, Debug)]
pub struct Entering {
    passive_share_ratio: f64,
    /// Passive servers; one of them is as likely as another.
    passive: u64,
    stream: Stream,
    /// In turn: where the next request enters.
    turn: Option<usize>,
}

impl Entering {
    /// Beside so many passive servers.
    #[must_use]
    pub const fn new(passive_share_ratio: f64, passive: usize, stream: Stream) -> Self {
        Self { passive_share_ratio, passive: passive as u64, stream, turn: None }
    }

    /// At each server in turn, the first request at that one.
    #[must_use]
    pub const fn in_turn(mut self, first: usize) -> Self {
        self.turn = Some(first);
        self
    }

    /// Of the next request: 0, the active server, or the number of another one.
    pub fn draw(&mut self) -> usize {
        if let Some(turn) = &mut self.turn {
            let entry = *turn % (self.passive as usize + 1);
            *turn = entry + 1;
            return entry;
        }
        if self.passive == 0 || self.stream.uniform() >= self.passive_share_ratio {
            return 0;
        }
        1 + self.stream.below(self.passive) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(share: f64, passive: usize) -> Vec<usize> {
        let mut entering = Entering::new(share, passive, Stream::new(1, "entry"));
        let mut counts = vec![0; passive + 1];
        (0..30_000).for_each(|_| counts[entering.draw()] += 1);
        counts
    }

    #[test]
    fn requests_enter_at_servers_in_turn() {
        let mut entering = Entering::new(0.0, 2, Stream::new(1, "entry")).in_turn(4);
        let entries: Vec<usize> = (0..7).map(|_| entering.draw()).collect();
        assert_eq!(entries, [1, 2, 0, 1, 2, 0, 1]);
    }

    #[test]
    fn requests_enter_at_passive_servers_by_their_share_and_at_each_as_often() {
        assert_eq!(counts(0.0, 2), [30_000, 0, 0]);
        assert_eq!(counts(0.7, 0), [30_000]);
        assert_eq!(counts(1.0, 1), [0, 30_000]);
        let [active, one, other] = counts(0.5, 2)[..] else { panic!() };
        assert!(active.abs_diff(15_000) < 500 && one.abs_diff(other) < 500, "{active} {one} {other}");
    }
}
