//! Failure detection: who has not been heard for how long. Every message counts as a sign of life, and nodes that have
//! nothing to say send one each period. A peer is suspected once it was silent for `after`, and no longer once it speaks.
//! Nothing that must be right depends on it: it only says when a recovery begins, and what a wrong suspicion costs is
//! copies made too early.

use crate::nouns::Peer;
use std::collections::BTreeMap;
use virtlab_wire::Nanos;

/// What a peer turned out to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sign {
    /// It was silent for too long.
    Lost(Peer),
    /// It was lost, and speaks again.
    Back(Peer),
}

/// Listens for peers.
#[derive(Debug)]
pub struct Detector {
    period: Nanos,
    after: Nanos,
    beat: Nanos,
    /// When each peer was heard last, and whether it is lost.
    heard: BTreeMap<Peer, (Nanos, bool)>,
}

impl Detector {
    /// One that has just heard all of them.
    #[must_use]
    pub fn new(now: Nanos, peers: impl IntoIterator<Item = Peer>, period: Nanos, after: Nanos) -> Self {
        let heard = peers.into_iter().map(|peer| (peer, (now, false))).collect();
        Self { period, after, beat: now + period, heard }
    }

    /// A peer speaks.
    pub fn hears(&mut self, now: Nanos, from: Peer) -> Option<Sign> {
        let (at, lost) = self.heard.get_mut(&from)?;
        *at = now.max(*at);
        std::mem::take(lost).then_some(Sign::Back(from))
    }

    /// When it must be woken, at the latest.
    #[must_use]
    pub fn next_event(&self) -> Option<Nanos> {
        let silent = self.heard.values().filter(|(_, lost)| !lost).map(|&(at, _)| at + self.after).min();
        silent.into_iter().chain([self.beat]).min()
    }

    /// It is `now`: whether a sign of life is due, and who is lost from now on.
    pub fn wake(&mut self, now: Nanos) -> (bool, Vec<Sign>) {
        let due = self.beat <= now;
        if due {
            self.beat = now + self.period;
        }
        let mut signs = Vec::new();
        for (&peer, (at, lost)) in &mut self.heard {
            if !*lost && *at + self.after <= now {
                *lost = true;
                signs.push(Sign::Lost(peer));
            }
        }
        (due, signs)
    }

    /// Whether a peer is suspected.
    #[must_use]
    pub fn is_lost(&self, peer: Peer) -> bool {
        self.heard.get(&peer).is_some_and(|&(_, lost)| lost)
    }
}
