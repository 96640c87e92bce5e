//! What nodes have promised of keys, and which of them may keep an object of a key.
//!
//! Each question to all nodes that belongs to a write asks every node about a key, and mostly one that it has never
//! met. A node has a book of its own, or, where one driver plays many nodes, a page of one that they share: what all of
//! them promise of a key is then in one place and not in as many as there are nodes. What a node reads there is what it
//! wrote.
//!
//! It is an open hash, and nothing depends on the order of its places. Keys are hashes that clients make; one that made
//! them collide would slow its own store down, and nothing else.

use crate::message::nouns::{Key, Peer, Version};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Of so many places this many may be taken.
const MOST: [usize; 2] = [4, 3];
const FEWEST: usize = 16;

/// A key. Pages are bits.
#[derive(Clone, Copy, Debug, Default)]
struct Place {
    key: u64,
    stamp: u64,
    number: u64,
    writer: u32,
    taken: bool,
    /// Who has promised that version.
    promised: u64,
    /// Who may keep an object.
    kept: u64,
}

impl Place {
    fn version(&self) -> Version {
        Version { stamp: self.stamp, writer: Peer(self.writer), number: self.number }
    }
}

#[derive(Debug, Default)]
struct Shared {
    pages: u32,
    places: Vec<Place>,
    taken: usize,
    /// The place that was found last: all nodes are asked about a key one soon after the other.
    last: usize,
    /// Of keys of which not all have promised one version: the other versions, and by whom each was promised.
    apart: BTreeMap<Key, Vec<(Version, u64)>>,
}

impl Shared {
    /// Where a key is, or would be.
    #[inline]
    fn place(&self, key: Key) -> usize {
        let many = self.places.len();
        let mut place = ((u128::from(key.mixed(0)) * many as u128) >> 64) as usize;
        while self.places[place].taken && self.places[place].key != key.0 {
            place = if place + 1 == many { 0 } else { place + 1 };
        }
        place
    }

    #[inline]
    fn find(&mut self, key: Key) -> Option<&Place> {
        if self.places.is_empty() {
            return None;
        }
        if !self.is_last(key) {
            self.last = self.place(key);
        }
        Some(&self.places[self.last]).filter(|place| place.taken)
    }

    /// Whether the place that was found last is that of a key.
    fn is_last(&self, key: Key) -> bool {
        self.places.get(self.last).is_some_and(|last| last.taken && last.key == key.0)
    }

    #[inline]
    fn enter(&mut self, key: Key) -> usize {
        if !self.is_last(key) {
            self.last = self.enter_anew(key);
        }
        self.last
    }

    fn enter_anew(&mut self, key: Key) -> usize {
        if (self.taken + 1) * MOST[0] > self.places.len() * MOST[1] {
            let many = (self.places.len() + self.places.len() / 2).max(FEWEST);
            let before = std::mem::replace(&mut self.places, vec![Place::default(); many]);
            for old in before.into_iter().filter(|old| old.taken) {
                let place = self.place(Key(old.key));
                self.places[place] = old;
            }
        }
        let place = self.place(key);
        let own = &mut self.places[place];
        self.taken += usize::from(!own.taken);
        (own.taken, own.key) = (true, key.0);
        place
    }

    fn promised(&mut self, key: Key, page: u64) -> Option<Version> {
        let place = self.find(key)?;
        if place.promised & page != 0 {
            return Some(place.version());
        }
        self.promised_apart(key, page)
    }

    /// A page promises a version; whether it may keep an object of the key.
    fn promise(&mut self, key: Key, page: u64, version: Version) -> bool {
        let place = self.enter(key);
        let own = &mut self.places[place];
        let kept = own.kept & page != 0;
        let (mine, others) = (own.promised & page != 0, own.promised & !page);
        if !mine && others != 0 && self.apart.is_empty() && own.version() == version {
            own.promised |= page;
            return kept;
        }
        let own = self.places[place];
        let before = if mine { Some(own.version()) } else { self.promised_apart(key, page) };
        if before.is_some_and(|before| before >= version) {
            return kept;
        }
        if !mine && before.is_some() {
            self.leave(key, page);
        }
        if others == 0 {
            self.write(place, page, version);
        } else if own.version() == version {
            self.places[place].promised |= page;
        } else if own.version() < version {
            // The others will follow, mostly.
            self.apart.entry(key).or_default().push((own.version(), others));
            self.write(place, page, version);
        } else {
            self.apart.entry(key).or_default().push((version, page));
        }
        kept
    }

    fn write(&mut self, place: usize, page: u64, version: Version) {
        let own = &mut self.places[place];
        let Version { stamp, writer, number } = version;
        (own.promised, own.stamp, own.writer, own.number) = (page, stamp, writer.0, number);
    }

    fn promised_apart(&self, key: Key, page: u64) -> Option<Version> {
        if self.apart.is_empty() {
            return None;
        }
        self.apart.get(&key)?.iter().find(|(_, by)| by & page != 0).map(|(version, _)| *version)
    }

    /// What a page promised apart from the others is forgotten.
    fn leave(&mut self, key: Key, page: u64) {
        let Some(apart) = self.apart.get_mut(&key) else { return };
        apart.iter_mut().for_each(|(_, by)| *by &= !page);
        apart.retain(|(_, by)| *by != 0);
        if apart.is_empty() {
            self.apart.remove(&key);
        }
    }

    fn clear(&mut self, page: u64) {
        for place in &mut self.places {
            place.promised &= !page;
            place.kept &= !page;
        }
        for apart in self.apart.values_mut() {
            apart.iter_mut().for_each(|(_, by)| *by &= !page);
            apart.retain(|(_, by)| *by != 0);
        }
        self.apart.retain(|_, apart| !apart.is_empty());
    }
}

/// A book of pages, one for each node that shares it.
#[derive(Clone, Debug, Default)]
pub struct Book(Arc<Mutex<Shared>>);

impl Book {
    /// A page that is still free; `None` where all are taken.
    #[must_use]
    pub fn page(&self) -> Option<Page> {
        let mut shared = lock(&self.0);
        let bit = 1u64.checked_shl(shared.pages)?;
        shared.pages += 1;
        Some(Page { shared: self.0.clone(), bit })
    }
}

impl Book {
    /// It is read and written by one, page after page.
    #[must_use]
    pub fn open(&self) -> Open<'_> {
        Open { book: &self.0, shared: lock(&self.0) }
    }
}

/// A book that is open: for a driver that asks many nodes at once. What a node has in another one, it finds there.
#[derive(Debug)]
pub struct Open<'a> {
    book: &'a Arc<Mutex<Shared>>,
    shared: MutexGuard<'a, Shared>,
}

fn lock(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What one node has written in a book.
#[derive(Debug)]
pub struct Page {
    shared: Arc<Mutex<Shared>>,
    bit: u64,
}

impl Default for Page {
    /// The only one of its book.
    fn default() -> Self {
        Self { shared: Arc::default(), bit: 1 }
    }
}

impl Page {
    /// Its book.
    pub(crate) fn open(&self) -> Open<'_> {
        Open { book: &self.shared, shared: lock(&self.shared) }
    }

    /// Nothing earlier than a version is taken any more; whether an object of the key may be kept.
    pub(crate) fn promise(&self, key: Key, version: Version) -> bool {
        lock(&self.shared).promise(key, self.bit, version)
    }

    /// As [`Page::promise`], in a book that is open, if it is that of the page.
    #[inline]
    pub(crate) fn promise_in(&self, open: &mut Open<'_>, key: Key, version: Version) -> bool {
        if Arc::ptr_eq(open.book, &self.shared) {
            return open.shared.promise(key, self.bit, version);
        }
        self.promise(key, version)
    }

    /// As [`Page::may_keep`], in a book that is open, if it is that of the page.
    #[inline]
    pub(crate) fn may_keep_in(&self, open: &mut Open<'_>, key: Key) -> bool {
        if Arc::ptr_eq(open.book, &self.shared) {
            return open.shared.find(key).is_some_and(|place| place.kept & self.bit != 0);
        }
        self.may_keep(key)
    }

    /// Whether an object of a key may be kept, and what was promised of it.
    pub(crate) fn look(&self, key: Key) -> (bool, Option<Version>) {
        let mut shared = lock(&self.shared);
        let may_keep = shared.find(key).is_some_and(|place| place.kept & self.bit != 0);
        (may_keep, shared.promised(key, self.bit))
    }

    /// An object of a key is kept.
    pub(crate) fn keep(&self, key: Key) {
        let mut shared = lock(&self.shared);
        let place = shared.enter(key);
        shared.places[place].kept |= self.bit;
    }

    /// Whether an object of a key may be kept: not where none was since all was forgotten.
    pub(crate) fn may_keep(&self, key: Key) -> bool {
        lock(&self.shared).find(key).is_some_and(|place| place.kept & self.bit != 0)
    }

    /// All on this page is forgotten.
    pub(crate) fn clear(&self) {
        lock(&self.shared).clear(self.bit);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_book_has_as_many_pages_as_a_word_has_bits() {
        let book = Book::default();
        let pages: Vec<Page> = std::iter::from_fn(|| book.page()).collect();
        assert_eq!(pages.len(), 64);
        assert_eq!(pages.iter().fold(0, |all, page| all | page.bit), u64::MAX);
    }

    proptest! {
        #[test]
        fn pages_of_a_book_are_maps_and_sets_of_their_own(
            steps in prop::collection::vec((0usize..4, 0u64..20, 0u32..20, 0u64..4), 0..300),
        ) {
            let book = Book::default();
            let pages: Vec<Page> = (0..4).filter_map(|_| book.page()).collect();
            let mut plain = vec![(BTreeMap::new(), BTreeSet::new()); 4];
            let named = |number: u64| Key(number.wrapping_mul(0x0123_4567_89ab_cdef));
            for (page, number, what, stamp) in steps {
                let (own, (promised, kept)) = (&pages[page], &mut plain[page]);
                let key = named(number);
                match what {
                    0 => {
                        own.clear();
                        promised.clear();
                        kept.clear();
                    }
                    1..5 => {
                        own.keep(key);
                        kept.insert(key);
                    }
                    _ => {
                        let version = Version { stamp, writer: Peer(3), number: 7 };
                        prop_assert_eq!(own.promise(key, version), kept.contains(&key));
                        let before = promised.entry(key).or_insert(version);
                        *before = version.max(*before);
                    }
                }
                for (own, (promised, kept)) in pages.iter().zip(&plain) {
                    for key in (0..20).map(named) {
                        let look = (kept.contains(&key), promised.get(&key).copied());
                        prop_assert_eq!(own.look(key), look);
                        prop_assert_eq!(own.may_keep(key), look.0);
                        prop_assert_eq!(own.may_keep_in(&mut book.open(), key), look.0);
                    }
                }
            }
        }
    }
}
