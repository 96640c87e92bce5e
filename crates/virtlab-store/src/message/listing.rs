//! Names of a folder: what nodes tell of them, and the page of names that follows.
//!
//! A client, or its proxy, asks all nodes for their first names from one on, whatever the lookup is: by no lookup it is
//! known which names there are. A node tells each name with its version, and of deleted objects that they are. Once as
//! many whole nodes have answered as know every confirmed write (`Policy::roll_call`), the latest version of each name
//! counts. A node that has more names than it tells says nothing of those behind its last, so the page ends there.

use crate::message::nouns::{Key, Peer, Version};
use std::collections::BTreeMap;

/// Names on a page, at most: as many as S3 gives.
pub const MOST: usize = 1000;

/// A name that a node holds something of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Name {
    /// Of which object.
    pub key: Key,
    /// Of what it holds.
    pub version: Version,
    /// Whether this version says that the object is deleted.
    pub deleted: bool,
}

/// Names that a node tells, in their order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// Its first ones.
    pub names: Vec<Name>,
    /// Whether it has more behind the last.
    pub more: bool,
    /// See [`Found::whole`](crate::Found::whole).
    pub whole: bool,
}

/// A page of names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing {
    /// Of all objects that are there from the first name that was wanted to `until`, in their order.
    pub names: Vec<Key>,
    /// Nothing is said of the names behind it.
    pub until: Key,
}

impl Listing {
    /// The page from a name on that follows from what nodes told.
    pub(crate) fn of(first: Key, told: &BTreeMap<Peer, Told>) -> Self {
        let end = first.last_of_folder();
        let ends = told.values().filter(|one| one.more).filter_map(|one| one.names.last());
        let mut until = ends.map(|name| name.key).min().unwrap_or(end).min(end);
        let mut latest: BTreeMap<Key, (Version, bool)> = BTreeMap::new();
        for name in told.values().flat_map(|one| &one.names) {
            let known = latest.entry(name.key).or_insert((name.version, name.deleted));
            *known = (*known).max((name.version, name.deleted));
        }
        let there =
            latest.into_iter().filter(|(key, (_, deleted))| !deleted && (first..=until).contains(key));
        let mut names: Vec<Key> = there.map(|(key, _)| key).collect();
        if names.len() > MOST {
            names.truncate(MOST);
            until = names.last().copied().unwrap_or(until);
        }
        Self { names, until }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(key: u64, stamp: u64, deleted: bool) -> Name {
        Name { key: Key(key), version: Version { stamp, ..Version::default() }, deleted }
    }

    fn told(names: Vec<Name>, more: bool) -> Told {
        Told { names, more, whole: true }
    }

    #[test]
    fn the_latest_version_of_a_name_says_whether_it_is_there() {
        let one = told(vec![name(1, 5, false), name(2, 5, false), name(3, 9, true)], false);
        let other = told(vec![name(1, 7, true), name(2, 4, true), name(3, 8, false)], false);
        let listing = Listing::of(Key(1), &[(Peer(0), one), (Peer(1), other)].into());
        assert_eq!(listing, Listing { names: vec![Key(2)], until: Key((1 << 48) - 1) });
    }

    #[test]
    fn a_page_ends_where_a_node_that_has_more_has_told_its_last() {
        let one = told(vec![name(1, 5, false), name(9, 5, false)], false);
        let other = told(vec![name(1, 5, false), name(4, 5, false)], true);
        let listing = Listing::of(Key(1), &[(Peer(0), one), (Peer(1), other)].into());
        assert_eq!(listing, Listing { names: vec![Key(1), Key(4)], until: Key(4) });
        let many = told((0..2000).map(|key| name(key, 5, false)).collect(), false);
        let listing = Listing::of(Key(0), &[(Peer(0), many)].into());
        assert_eq!((listing.names.len(), listing.until), (MOST, Key(999)));
    }
}
