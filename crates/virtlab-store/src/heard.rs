//! What nodes answer to a question: who they are, in their order, and what each said last.

use crate::message::Found;
use crate::nouns::{Object, Peer};

/// Answers to a question. They come one by one and are counted after each, so the counts are kept.
#[derive(Debug, Default)]
pub(crate) struct Heard {
    /// In the order of peers, each once.
    all: Vec<(Peer, Found)>,
    /// Those of the first peers that are there, each a bit: what comes before one is then counted, and not searched.
    first: u64,
    whole: usize,
    objects: usize,
}

impl Heard {
    /// None yet, of so many nodes.
    pub(crate) fn of(nodes: u32) -> Self {
        Self { all: Vec::with_capacity(nodes as usize), ..Self::default() }
    }

    /// A node answers; what it answered before.
    pub(crate) fn insert(&mut self, peer: Peer, found: Found) -> Option<Found> {
        self.whole += usize::from(found.whole);
        self.objects += usize::from(found.object.is_some());
        match self.place(peer) {
            Ok(place) => {
                let before = core::mem::replace(&mut self.all[place].1, found);
                self.whole -= usize::from(before.whole);
                self.objects -= usize::from(before.object.is_some());
                Some(before)
            }
            Err(place) => {
                self.first |= bit(peer);
                self.all.insert(place, (peer, found));
                None
            }
        }
    }

    fn place(&self, peer: Peer) -> Result<usize, usize> {
        let bit = bit(peer);
        if bit > 0 {
            let place = (self.first & (bit - 1)).count_ones() as usize;
            return if self.first & bit > 0 { Ok(place) } else { Err(place) };
        }
        self.all.binary_search_by_key(&peer, |(each, _)| *each)
    }

    /// What a node answered last.
    pub(crate) fn get(&self, peer: Peer) -> Option<&Found> {
        self.place(peer).ok().map(|place| &self.all[place].1)
    }

    /// Everyone who answered, and what.
    pub(crate) fn iter(&self) -> core::slice::Iter<'_, (Peer, Found)> {
        self.all.iter()
    }

    /// The objects that they hold.
    pub(crate) fn objects(&self) -> impl Iterator<Item = &Object> {
        let all = if self.objects > 0 { &self.all[..] } else { &[] };
        all.iter().filter_map(|(_, found)| found.object.as_ref())
    }

    /// How many of them still have everything that they ever confirmed.
    pub(crate) const fn whole(&self) -> usize {
        self.whole
    }

    /// How many answered.
    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    /// All answers are forgotten.
    pub(crate) fn clear(&mut self) {
        (self.whole, self.objects, self.first) = (0, 0, 0);
        self.all.clear();
    }
}

/// A peer among the first; 0 of a later one.
fn bit(peer: Peer) -> u64 {
    1u64.checked_shl(peer.0).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nouns::Version;
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
                    holders: vec![Peer(peer)],
                });
                let found = Found { object, whole, load: 0, incarnation };
                prop_assert_eq!(heard.insert(Peer(peer), found.clone()), map.insert(Peer(peer), found));
                prop_assert_eq!(heard.len(), map.len());
                prop_assert_eq!(heard.whole(), map.values().filter(|found| found.whole).count());
                let objects: Vec<&Object> = map.values().filter_map(|found| found.object.as_ref()).collect();
                prop_assert_eq!(heard.objects().collect::<Vec<_>>(), objects);
                prop_assert!(heard.iter().map(|(peer, found)| (peer, found)).eq(&map));
                prop_assert!((0..70).all(|peer| heard.get(Peer(peer)) == map.get(&Peer(peer))));
            }
        }
    }
}
