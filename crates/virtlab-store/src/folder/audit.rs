//! What a store holds at the end of what its clients know to be there.

use crate::folder::Folder;
use crate::message::nouns::{Key, Peer};
use std::collections::BTreeMap;

/// What nodes hold: by key, each with what stands for the content of its copy.
pub type Held = BTreeMap<Key, Vec<(Peer, u64)>>;

/// Objects and copies, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Audit {
    /// Objects that are there, as far as clients know.
    pub objects: u64,
    /// Copies of them with the content that was written last.
    pub copies: u64,
    /// Objects without any copy.
    pub lost: u64,
    /// Objects with copies of other content alone.
    pub stale: u64,
    /// Copies that are missing of the others.
    pub missing_copies: u64,
    /// Objects whose last write or deletion was not answered.
    pub in_doubt: u64,
    /// Objects that are there, and that were not looked for before the time for it was over.
    pub unread: u64,
    /// Stands for which nodes have which copies: the sum of a number that each key, node and content has.
    pub placement: u64,
}

/// Of what a counter holds without loss wherever it goes, a floating-point number of 64 bit included.
const PLACEMENT_BITS: u32 = 53;

/// What stands for a copy.
const fn of_copy(key: Key, node: Peer, content: u64) -> u64 {
    Key(Key(key.mixed(node.0 as u64 + 1)).mixed(content)).mixed(0) >> (64 - PLACEMENT_BITS)
}

impl Audit {
    /// Of a folder, when nodes hold these contents by key, and ought to have so many copies.
    #[must_use]
    pub fn of(folder: &Folder, held: &Held, copies: u32) -> Self {
        let mut audit = Self { in_doubt: folder.in_doubt(), ..Self::default() };
        for object in folder.there() {
            audit.objects += 1;
            let all = held.get(&object.key).map(Vec::as_slice).unwrap_or_default();
            let good = all.iter().filter(|(_, content)| *content == object.content).count() as u64;
            for (node, content) in all {
                let sum = audit.placement.wrapping_add(of_copy(object.key, *node, *content));
                audit.placement = sum & ((1 << PLACEMENT_BITS) - 1);
            }
            audit.copies += good;
            match (good, all.len()) {
                (0, 0) => audit.lost += 1,
                (0, _) => audit.stale += 1,
                _ => audit.missing_copies += u64::from(copies).saturating_sub(good),
            }
        }
        audit
    }

    /// By the names of counters.
    #[must_use]
    pub fn counters(&self) -> [(&'static str, u64); 7] {
        let [objects, lost, stale, doubtful, _] = self.of_objects();
        let [copies, missing] = [("object_copies", self.copies), ("missing_copies", self.missing_copies)];
        [objects, copies, lost, stale, missing, doubtful, ("placement", self.placement)]
    }

    /// The same without copies, of a store that does not tell of them: its objects are read one by one, which may
    /// take longer than there is time.
    #[must_use]
    pub fn of_objects(&self) -> [(&'static str, u64); 5] {
        [
            ("objects", self.objects),
            ("lost_objects", self.lost),
            ("stale_objects", self.stale),
            ("doubtful_objects", self.in_doubt),
            ("unread_objects", self.unread),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folder::Deed;
    use crate::message::Outcome;
    use crate::message::nouns::Version;

    #[test]
    fn a_placement_is_that_of_keys_nodes_and_contents_in_any_order_of_copies() {
        let mut folder = Folder::new("a", 0);
        let mut keys = Vec::new();
        for _ in 0..2 {
            let pick = folder.pick(Deed::Create, 0, 1).unwrap();
            let done = Outcome::Done { version: Version::default(), bytes: 1, content: pick.content() };
            folder.end(&pick, done, None);
            keys.push((pick.key, pick.content()));
        }
        let [(one, first), (other, second)] = keys[..] else { panic!("{keys:?}") };
        let of = |held: Held| Audit::of(&folder, &held, 2).placement;
        let [a, b] = [Peer(0), Peer(1)];
        let there = of([(one, vec![(a, first), (b, first)]), (other, vec![(a, second)])].into());
        assert_eq!(there, of([(one, vec![(b, first), (a, first)]), (other, vec![(a, second)])].into()));
        for held in [
            [(one, vec![(a, first), (b, first)]), (other, vec![(b, second)])],
            [(one, vec![(a, first), (b, second)]), (other, vec![(a, second)])],
            [(one, vec![(a, second)]), (other, vec![(a, first), (b, first)])],
        ] {
            assert_ne!(there, of(held.into()));
        }
    }
}
