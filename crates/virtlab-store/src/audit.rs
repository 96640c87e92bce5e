//! What a store holds at the end of what its clients know to be there.

use crate::folder::Folder;
use crate::nouns::Key;
use std::collections::BTreeMap;

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
}

impl Audit {
    /// Of a folder, when nodes hold these contents by key, and ought to have so many copies.
    #[must_use]
    pub fn of(folder: &Folder, held: &BTreeMap<Key, Vec<u64>>, copies: u32) -> Self {
        let mut audit = Self { in_doubt: folder.in_doubt(), ..Self::default() };
        for object in folder.there() {
            audit.objects += 1;
            let all = held.get(&object.key).map(Vec::as_slice).unwrap_or_default();
            let good = all.iter().filter(|content| **content == object.content).count() as u64;
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
    pub fn counters(&self) -> [(&'static str, u64); 6] {
        let [objects, lost, stale, doubtful] = self.of_objects();
        let [copies, missing] = [("object_copies", self.copies), ("missing_copies", self.missing_copies)];
        [objects, copies, lost, stale, missing, doubtful]
    }

    /// The same without copies, of a store that does not tell of them.
    #[must_use]
    pub fn of_objects(&self) -> [(&'static str, u64); 4] {
        [
            ("objects", self.objects),
            ("lost_objects", self.lost),
            ("stale_objects", self.stale),
            ("doubtful_objects", self.in_doubt),
        ]
    }
}
