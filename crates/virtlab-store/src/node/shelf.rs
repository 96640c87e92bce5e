//! What a node keeps: of each key the latest object, what the disk has of it, and what the node has promised.
//!
//! A node is whole while it still has everything that it ever confirmed. One that lost its folder knows so, since the
//! folder's mark is gone; one that confirms from memory is not whole after any crash. Until it has what the others know
//! of, its answers tell what it holds and are no part of a quorum.

use crate::message::listing::{MOST as LISTED_MOST, Name};
use crate::message::nouns::{Key, Object, Peer, Version};
use crate::node::book::{Open, Page};
use std::collections::BTreeMap;

/// What of a node is left when it restarts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// Everything: it stood still, or was cut off.
    All,
    /// What it had flushed: its process or its machine died.
    Flushed,
    /// Nothing: its disk is new, or its folder was wiped.
    Nothing,
}

/// What the disk has of a key.
#[derive(Debug, Default)]
enum Flushed {
    #[default]
    Nothing,
    /// The latest object.
    Latest,
    /// Another one.
    Other(Box<Object>),
}

#[derive(Debug, Default)]
struct Kept {
    latest: Option<Object>,
    flushed: Flushed,
}

impl Kept {
    fn flushed(&self) -> Option<&Object> {
        match &self.flushed {
            Flushed::Nothing => None,
            Flushed::Latest => self.latest.as_ref(),
            Flushed::Other(object) => Some(object),
        }
    }

    fn put(&mut self, object: Object) {
        if self.flushed().is_some_and(|flushed| *flushed == object) {
            self.flushed = Flushed::Latest;
        } else if matches!(self.flushed, Flushed::Latest) {
            self.flushed =
                self.latest.take().map_or(Flushed::Nothing, |before| Flushed::Other(Box::new(before)));
        }
        self.latest = Some(object);
    }

    fn flush(&mut self, object: Object) {
        if self.flushed().is_some_and(|before| before.version >= object.version) {
            return;
        }
        let is_latest = self.latest.as_ref() == Some(&object);
        self.flushed = if is_latest { Flushed::Latest } else { Flushed::Other(Box::new(object)) };
    }

    /// Nothing but what is flushed is left.
    fn crash(&mut self) {
        match std::mem::take(&mut self.flushed) {
            Flushed::Nothing => self.latest = None,
            Flushed::Latest => {}
            Flushed::Other(object) => self.latest = Some(*object),
        }
        if self.latest.is_some() {
            self.flushed = Flushed::Latest;
        }
    }
}

/// The objects of a node.
#[derive(Debug, Default)]
pub(crate) struct Shelf {
    kept: BTreeMap<Key, Kept>,
    /// Apart, since every node promises something of every key that is written.
    page: Page,
}

impl Shelf {
    pub(crate) fn latest(&self, key: Key) -> Option<&Object> {
        if self.page.may_keep(key) { self.there(key) } else { None }
    }

    /// Whether the disk has the latest object of a key.
    pub(crate) fn is_flushed(&self, key: Key) -> bool {
        self.kept.get(&key).is_none_or(|kept| kept.latest.as_ref() == kept.flushed())
    }

    /// Nothing earlier is taken any more; the latest object.
    #[inline]
    pub(crate) fn promise(&self, book: &mut Open<'_>, key: Key, version: Version) -> Option<&Object> {
        if self.page.promise_in(book, key, version) { self.there(key) } else { None }
    }

    /// As [`Shelf::latest`], by a book that is open.
    #[inline]
    pub(crate) fn latest_by(&self, book: &mut Open<'_>, key: Key) -> Option<&Object> {
        if self.page.may_keep_in(book, key) { self.there(key) } else { None }
    }

    /// The book that its page is of, open.
    pub(crate) fn book(&self) -> Open<'_> {
        self.page.open()
    }

    fn there(&self, key: Key) -> Option<&Object> {
        self.kept.get(&key).and_then(|kept| kept.latest.as_ref())
    }

    /// Of a shelf on which there is nothing: it writes what it promises on that page.
    pub(crate) fn write_on(&mut self, page: Page) {
        self.page = page;
    }

    /// The later version for which one is refused, if there is such.
    pub(crate) fn against(&self, key: Key, version: Version) -> Option<Version> {
        let (may_keep, promised) = self.page.look(key);
        let latest = if may_keep { self.there(key) } else { None };
        latest.map(|object| object.version).max(promised).filter(|&other| other > version)
    }

    /// Nothing is kept of a key; what was promised of it stays.
    pub(crate) fn forget(&mut self, key: Key) {
        self.kept.remove(&key);
    }

    pub(crate) fn put(&mut self, key: Key, object: Object) {
        self.page.keep(key);
        self.kept.entry(key).or_default().put(object);
    }

    /// The disk has this object of a key, and so has no earlier one.
    pub(crate) fn flushed(&mut self, key: Key, object: Object) {
        self.kept.entry(key).or_default().flush(object);
    }

    pub(crate) fn crash(&mut self, left: Left) {
        match left {
            Left::All => return,
            Left::Flushed => {
                self.kept.values_mut().for_each(Kept::crash);
            }
            Left::Nothing => self.kept.clear(),
        }
        self.kept.retain(|_, kept| kept.latest.is_some());
        self.page.clear();
        for &key in self.kept.keys() {
            self.page.keep(key);
        }
    }

    pub(crate) fn objects(&self) -> impl Iterator<Item = (Key, &Object)> {
        self.kept.iter().filter_map(|(&key, kept)| Some((key, kept.latest.as_ref()?)))
    }

    /// Names of a folder from one on: the first of them, and whether there are more.
    pub(crate) fn names(&self, first: Key) -> (Vec<Name>, bool) {
        let all = self.kept.range(first..=first.last_of_folder());
        let mut names: Vec<Name> = all
            .filter_map(|(&key, kept)| Some((key, kept.latest.as_ref()?)))
            .take(LISTED_MOST + 1)
            .map(|(key, object)| Name { key, version: object.version, deleted: object.deleted })
            .collect();
        let more = names.len() > LISTED_MOST;
        names.truncate(LISTED_MOST);
        (names, more)
    }

    /// Objects behind a key that a node ought to hold, so many at most; whether there are more.
    pub(crate) fn page(&self, of: Peer, behind: Option<Key>, most: usize) -> (Vec<(Key, Object)>, bool) {
        let from = behind.map_or(std::ops::Bound::Unbounded, std::ops::Bound::Excluded);
        let mut found: Vec<(Key, Object)> = self
            .kept
            .range((from, std::ops::Bound::Unbounded))
            .filter_map(|(&key, kept)| Some((key, kept.latest.as_ref()?)))
            .filter(|(_, object)| object.holders.contains(&of))
            .take(most + 1)
            .map(|(key, object)| (key, object.clone()))
            .collect();
        let more = found.len() > most;
        found.truncate(most);
        (found, more)
    }
}
