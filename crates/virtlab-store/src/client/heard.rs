//! What nodes answer to a question: who they are, in their order, and what each said last.

use crate::message::Found;
use crate::message::nouns::{Object, Peer};

/// Answers to a question. They come one by one and are counted after each, so the counts are kept.
#[derive(Debug, Default)]
pub(crate) struct Heard {
    /// Of the first peers, each at its number; those that are there are bits. What else is here, was said to another
    /// question.
    first: Vec<Found>,
    there: u64,
    /// Of others, in their order, each once.
    others: Vec<(Peer, Found)>,
    whole: usize,
    objects: usize,
}

const NONE: Found = Found { object: None, whole: false, load: 0, incarnation: 0 };

impl Heard {
    /// None yet, of so many nodes.
    pub(crate) fn of(nodes: u32) -> Self {
        Self { first: vec![NONE; nodes.min(u64::BITS) as usize], ..Self::default() }
    }

    /// A node answers; what it answered before.
    #[inline]
    pub(crate) fn insert(&mut self, peer: Peer, found: Found) -> Option<Found> {
        self.whole += usize::from(found.whole);
        self.objects += usize::from(found.object.is_some());
        let before = self.enter(peer, found)?;
        self.whole -= usize::from(before.whole);
        self.objects -= usize::from(before.object.is_some());
        Some(before)
    }

    #[inline]
    fn enter(&mut self, peer: Peer, found: Found) -> Option<Found> {
        let bit = bit(peer);
        if bit == 0 {
            return match self.others.binary_search_by_key(&peer, |(each, _)| *each) {
                Ok(place) => Some(core::mem::replace(&mut self.others[place].1, found)),
                Err(place) => {
                    self.others.insert(place, (peer, found));
                    None
                }
            };
        }
        let place = peer.0 as usize;
        if place >= self.first.len() {
            self.first.resize(place + 1, NONE);
        }
        if self.there & bit > 0 {
            return Some(core::mem::replace(&mut self.first[place], found));
        }
        self.there |= bit;
        self.first[place] = found;
        None
    }

    /// What a node answered last.
    #[inline]
    pub(crate) fn get(&self, peer: Peer) -> Option<&Found> {
        let bit = bit(peer);
        if bit == 0 {
            let place = self.others.binary_search_by_key(&peer, |(each, _)| *each).ok()?;
            return Some(&self.others[place].1);
        }
        (self.there & bit > 0).then(|| &self.first[peer.0 as usize])
    }

    /// Everyone who answered, and what.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Peer, &Found)> {
        let first = (0..).zip(&self.first).filter(|(peer, _)| self.there & bit(Peer(*peer)) > 0);
        first
            .map(|(peer, found)| (Peer(peer), found))
            .chain(self.others.iter().map(|(peer, found)| (*peer, found)))
    }

    /// The objects that they hold.
    pub(crate) fn objects(&self) -> impl Iterator<Item = &Object> {
        let any = self.objects > 0;
        any.then(|| self.iter()).into_iter().flatten().filter_map(|(_, found)| found.object.as_ref())
    }

    /// How many of them still have everything that they ever confirmed.
    pub(crate) const fn whole(&self) -> usize {
        self.whole
    }

    /// How many answered.
    pub(crate) fn len(&self) -> usize {
        self.there.count_ones() as usize + self.others.len()
    }

    /// All answers are forgotten.
    pub(crate) fn clear(&mut self) {
        (self.whole, self.objects, self.there) = (0, 0, 0);
        self.others.clear();
    }
}

/// A peer among the first; 0 of a later one.
fn bit(peer: Peer) -> u64 {
    1u64.checked_shl(peer.0).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::nouns::Version;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn answers_and_their_counts_are_those_of_a_map(
            said in prop::collection::vec((prop::sample::select(vec![0u32, 1, 2, 3, 61, 62, 63, 64, 65]), any::<bool>(), prop::option::of(0u64..9), 0u32..3), 0..40),
        ) {
            let (mut heard, mut map) = (Heard::default(), BTreeMap::new());
            for (peer, whole, stamp, incarnation) in said {
                let object = stamp.map(|stamp| Object {
                    version: Version { stamp, ..Version::default() },
                    bytes: 1,
                    content: stamp,
                    deleted: false,
                    holders: vec![Peer(peer)].into(),
                });
                let found = Found { object, whole, load: 0, incarnation };
                prop_assert_eq!(heard.insert(Peer(peer), found.clone()), map.insert(Peer(peer), found));
                prop_assert_eq!(heard.len(), map.len());
                prop_assert_eq!(heard.whole(), map.values().filter(|found| found.whole).count());
                let objects: Vec<&Object> = map.values().filter_map(|found| found.object.as_ref()).collect();
                prop_assert_eq!(heard.objects().collect::<Vec<_>>(), objects);
                prop_assert!(heard.iter().eq(map.iter().map(|(peer, found)| (*peer, found))));
                prop_assert!((0..70).all(|peer| heard.get(Peer(peer)) == map.get(&Peer(peer))));
            }
        }
    }
}
