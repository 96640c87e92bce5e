//! Failure detection: who has not been heard for how long. Every message counts as a sign of life, and nodes that have
//! nothing to say send one each period. A peer is suspected once it was silent for `after`, and no longer once it
//! speaks. Nothing that must be right depends on it: it only says when a recovery begins, and what a wrong suspicion
//! costs is copies made too early.

use crate::message::nouns::Peer;
use std::collections::BTreeMap;
use virtlab_wire::Nanos;

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

    /// One that has just heard all of its peers again.
    #[must_use]
    pub fn again(self, now: Nanos) -> Self {
        Self::new(now, self.heard.into_keys(), self.period, self.after)
    }

    /// A peer speaks; whether it was lost.
    pub fn hears(&mut self, now: Nanos, from: Peer) -> bool {
        let Some((at, lost)) = self.heard.get_mut(&from) else { return false };
        *at = now.max(*at);
        std::mem::take(lost)
    }

    /// When it must be woken, at the latest.
    #[must_use]
    pub fn next_event(&self) -> Nanos {
        let silent = self.heard.values().filter(|(_, lost)| !lost).map(|&(at, _)| at + self.after).min();
        silent.map_or(self.beat, |at| at.min(self.beat))
    }

    /// It is `now`: whether a sign of life is due, and who is lost from now on.
    pub fn wake(&mut self, now: Nanos) -> (bool, Vec<Peer>) {
        let due = self.beat <= now;
        if due {
            self.beat = now + self.period;
        }
        let mut silent = Vec::new();
        for (&peer, (at, lost)) in &mut self.heard {
            if !*lost && *at + self.after <= now {
                *lost = true;
                silent.push(peer);
            }
        }
        (due, silent)
    }

    /// Whether a peer is suspected.
    #[must_use]
    pub fn is_lost(&self, peer: Peer) -> bool {
        self.heard.get(&peer).is_some_and(|&(_, lost)| lost)
    }
}
