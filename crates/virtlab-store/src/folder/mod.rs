//! What clients know of the objects that they wrote: which there are, and with which content, so that every answer is
//! verified.
//!
//! An object that is written or deleted is left alone by all others meanwhile, and so is one that is read, but by those
//! that read it. So of each object it is known which content a read must give. Where a write or a deletion was not
//! answered, it may have happened: the object is in doubt, and is not touched again.

pub(crate) mod audit;
pub(crate) mod catalogue;
pub(crate) mod mix;
pub(crate) mod order;

use crate::folder::order::Order;
use crate::message::listing::Listing;
use crate::message::nouns::Key;
use crate::message::{Outcome, Task};
use std::collections::BTreeSet;

/// What a client does with an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Deed {
    /// Of a new one.
    Create,
    /// Of one that is there, with its content.
    Read,
    /// Of one that is there, with other content.
    Overwrite,
    /// Of one that is there.
    Delete,
    /// Whether one is there.
    Stat,
    /// Of one that is there, without its content; a file is opened and closed.
    Open,
    /// Of names, of which one is known to be there: of files all, of objects a page from that one on.
    List,
}

impl Deed {
    /// Whether it leaves its object as it is.
    const fn keeps(self) -> bool {
        matches!(self, Self::Read | Self::Stat | Self::Open | Self::List)
    }
}

/// What came of it; the codes of `operation/1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// It did what it says, and that was verified.
    Done = 0,
    /// Too few answers came in time.
    TimedOut = 1,
    /// The object is there, and the store says that it is not.
    Missing = 2,
    /// Other content than that which was written last.
    Wrong = 3,
    /// It was not begun: when it was due, others had each object, or no thread was free until the end.
    Skipped = 4,
    /// What keeps the objects gave an error.
    Failed = 5,
}

/// An object that something is done with.
#[derive(Clone, Copy, Debug)]
pub struct Pick {
    /// What is done.
    pub deed: Deed,
    /// With which object.
    pub key: Key,
    /// As the store is asked.
    pub task: Task,
    object: u32,
    content: u64,
    bytes: u64,
    /// Changes of its folder until then.
    changes: u64,
}

impl Pick {
    /// Bytes of the object.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The content that it has, or is to have.
    #[must_use]
    pub fn content(&self) -> u64 {
        self.content
    }
}

/// An object that is there.
#[derive(Clone, Copy, Debug)]
pub struct Present {
    /// Its name.
    pub key: Key,
    /// What was written last.
    pub content: u64,
    /// Its length.
    pub bytes: u64,
}

/// What is known of an object. One is drawn at random for most deeds, so each is small, and none lies in two lines of a
/// cache.
#[derive(Debug)]
#[repr(align(32))]
struct Entry {
    content: u64,
    bytes: u64,
    /// Of the folder's changes, the last that began or ended with it.
    changed: u64,
    /// Among those that are there, or `ABSENT`, or `DOUBTED`: a write or a deletion of it was not answered.
    place: u32,
    /// Those that read it, or `WRITTEN`.
    users: u32,
}

const ABSENT: u32 = u32::MAX;
const DOUBTED: u32 = u32::MAX - 1;
const WRITTEN: u32 = u32::MAX;

/// An object is free for a deed while fewer use it.
const fn most_users(deed: Deed) -> u32 {
    if deed.keeps() { WRITTEN } else { 1 }
}

/// Among so many, the one that is chosen by a number.
fn place(chosen: u64, many: usize) -> usize {
    (chosen % (many as u64).max(1)) as usize
}

/// Objects under one name.
#[derive(Debug)]
pub struct Folder {
    /// As roles call it.
    pub name: String,
    number: u64,
    contents: u64,
    objects: Vec<Entry>,
    there: Vec<u32>,
    in_doubt: u64,
    /// Writes and deletions that began or ended.
    changes: u64,
    /// Before this one all objects are gone.
    first: u32,
    /// Its objects are known elsewhere.
    away: bool,
}

impl Folder {
    /// An empty one, of a number that no other has.
    #[must_use]
    pub fn new(name: &str, number: u64) -> Self {
        Self {
            name: name.to_owned(),
            number,
            contents: 0,
            objects: Vec::new(),
            there: Vec::new(),
            in_doubt: 0,
            changes: 0,
            first: 0,
            away: false,
        }
    }

    fn key(&self, object: u32) -> Key {
        Key((self.number << 48) + u64::from(object))
    }

    fn own(&mut self, object: u32) -> &mut Entry {
        &mut self.objects[object as usize]
    }

    /// Objects that are there, as far as is known.
    pub fn there(&self) -> impl Iterator<Item = Present> + '_ {
        self.there.iter().map(|&object| {
            let Entry { content, bytes, .. } = self.objects[object as usize];
            Present { key: self.key(object), content, bytes }
        })
    }

    /// How many objects are there, as far as is known.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.there.len() as u64
    }

    /// A read of each object that is there, while nothing else is done with any.
    pub fn reads(&self) -> impl Iterator<Item = Pick> + '_ {
        self.there.iter().zip(self.there()).map(|(&object, Present { key, content, bytes })| Pick {
            deed: Deed::Read,
            key,
            task: Task::Read,
            object,
            content,
            bytes,
            changes: self.changes,
        })
    }

    /// Objects in doubt.
    #[must_use]
    pub fn in_doubt(&self) -> u64 {
        self.in_doubt
    }

    /// An object for a deed, chosen by a number; `None`: no object is free for it.
    pub fn pick(&mut self, deed: Deed, chosen: u64, bytes: u64) -> Option<Pick> {
        let object = if deed == Deed::Create { self.create(bytes)? } else { self.free(deed, chosen)? };
        Some(self.open(deed, object, bytes))
    }

    /// An object for a deed of a thread, by an order; a number chooses it where that is random. `None`: no object is
    /// free for it.
    pub fn pick_by(
        &mut self,
        order: &mut Order,
        thread: u32,
        (deed, chosen): (Deed, u64),
        bytes: u64,
    ) -> Option<Pick> {
        if deed == Deed::Create || order.is_random() {
            return self.pick(deed, chosen, bytes);
        }
        let is_gone = |own: &Entry| own.place >= DOUBTED && own.users != WRITTEN;
        let gone = self.objects[self.first as usize..].iter().take_while(|own| is_gone(own)).count();
        self.first += gone as u32;
        let most = most_users(deed);
        let object = order.places(thread, self.first, self.objects.len() as u32).find(|object| {
            let own = &self.objects[*object as usize];
            own.place < DOUBTED && own.users < most
        });
        order.took(thread, object);
        Some(self.open(deed, object?, bytes))
    }

    /// A deed begins with an object that is free for it.
    fn open(&mut self, deed: Deed, object: u32, bytes: u64) -> Pick {
        let own = &mut self.objects[object as usize];
        let (content, bytes, task) = match deed {
            Deed::Create | Deed::Overwrite => {
                own.users = WRITTEN;
                self.contents += 1;
                let content = (self.number << 48) + self.contents;
                (content, bytes, Task::Write { bytes, content })
            }
            Deed::Read | Deed::Stat | Deed::Open | Deed::List => {
                own.users += 1;
                let task = match deed {
                    Deed::Read => Task::Read,
                    Deed::List => Task::List,
                    _ => Task::Open,
                };
                (own.content, own.bytes, task)
            }
            Deed::Delete => {
                own.users = WRITTEN;
                (own.content, own.bytes, Task::Delete)
            }
        };
        if !deed.keeps() {
            self.changes += 1;
            self.objects[object as usize].changed = self.changes;
        }
        let (key, changes) = (self.key(object), self.changes);
        Pick { deed, key, task, object, content, bytes, changes }
    }

    /// Has the processor get from memory what picks of these deeds by these numbers look at: all at once, where each
    /// alone would wait for it. Of a deletion that is the last object, too, which takes the place of the one that goes.
    pub fn fetch(&self, deeds: impl Iterator<Item = (Deed, u64)>) {
        let (many, mut last) = (self.there.len(), self.there.iter().rev());
        let users = |object: &u32| self.objects[*object as usize].users;
        let seen = deeds.filter(|(deed, _)| many > 0 && *deed != Deed::Create).map(|(deed, chosen)| {
            let moved = if deed == Deed::Delete { last.next().map_or(0, users) } else { 0 };
            users(&self.there[place(chosen, many)]).wrapping_add(moved)
        });
        std::hint::black_box(seen.fold(0, u32::wrapping_add));
    }

    /// `None`: there are as many as numbers.
    fn create(&mut self, bytes: u64) -> Option<u32> {
        let object = u32::try_from(self.objects.len()).ok().filter(|object| *object < DOUBTED)?;
        self.objects.push(Entry { content: 0, bytes, changed: 0, place: ABSENT, users: 0 });
        Some(object)
    }

    fn free(&self, deed: Deed, chosen: u64) -> Option<u32> {
        let most = most_users(deed);
        let (before, after) = self.there.split_at(place(chosen, self.there.len()));
        after.iter().chain(before).copied().find(|object| self.objects[*object as usize].users < most)
    }

    /// A deed has ended; of a list that is done, with its page.
    pub fn end(&mut self, pick: &Pick, outcome: Outcome, listing: Option<&Listing>) -> Found {
        let found = match (pick.deed, outcome) {
            (_, Outcome::Failed(_) | Outcome::Superseded(_)) => Found::TimedOut,
            (_, Outcome::Missing) => Found::Missing,
            (Deed::Read, Outcome::Done { content, bytes, .. })
                if (content, bytes) != (pick.content, pick.bytes) =>
            {
                Found::Wrong
            }
            (Deed::Stat | Deed::Open, Outcome::Done { content, .. }) if content != pick.content => {
                Found::Wrong
            }
            (Deed::List, Outcome::Done { .. }) if !listing.is_some_and(|one| self.is_page(pick, one)) => {
                Found::Wrong
            }
            (_, Outcome::Done { .. }) => Found::Done,
        };
        self.close(pick, found);
        found
    }

    /// Whether a page has all names of objects that are there from the picked one on, and no other. Those that changed
    /// since, and those in doubt, may be on it or not.
    #[must_use]
    pub fn is_page(&self, pick: &Pick, listing: &Listing) -> bool {
        let named: BTreeSet<Key> = listing.names.iter().copied().collect();
        let first = pick.object as usize;
        let page = || {
            let behind = (pick.object..).map(|object| self.key(object)).zip(self.objects.iter().skip(first));
            behind.take_while(|(key, _)| *key <= listing.until)
        };
        let is_settled =
            |own: &Entry| own.users != WRITTEN && own.place != DOUBTED && own.changed <= pick.changes;
        page()
            .filter(|(_, own)| is_settled(own))
            .all(|(key, own)| named.contains(&key) == (own.place != ABSENT))
            && named.len() == page().filter(|(key, _)| named.contains(key)).count()
    }

    /// A deed has ended, and what came of it is known: of a driver that compares content itself.
    pub fn close(&mut self, pick: &Pick, found: Found) {
        let object = pick.object;
        let own = &mut self.objects[object as usize];
        match pick.deed {
            Deed::Read | Deed::Stat | Deed::Open | Deed::List => own.users -= 1,
            Deed::Create | Deed::Overwrite | Deed::Delete => {
                self.changes += 1;
                (own.users, own.changed) = (0, self.changes);
                if found == Found::Done && pick.deed != Deed::Delete {
                    (own.content, own.bytes) = (pick.content, pick.bytes);
                    self.appear(object);
                } else if found == Found::Done {
                    self.vanish(object, ABSENT);
                } else {
                    self.in_doubt += 1;
                    self.vanish(object, DOUBTED);
                }
            }
        }
    }

    /// An object is free again with which nothing was done. Of a new one its key is not used again.
    pub fn release(&mut self, pick: &Pick) {
        let own = self.own(pick.object);
        own.users = if pick.deed.keeps() { own.users - 1 } else { 0 };
    }

    fn appear(&mut self, object: u32) {
        let place = self.there.len() as u32;
        let own = self.own(object);
        if own.place == ABSENT {
            own.place = place;
            self.there.push(object);
        }
    }

    fn vanish(&mut self, object: u32, into: u32) {
        let place = std::mem::replace(&mut self.own(object).place, into);
        if place == ABSENT {
            return;
        }
        self.there.swap_remove(place as usize);
        if let Some(&moved) = self.there.get(place as usize) {
            self.own(moved).place = place;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Failure;
    use crate::message::nouns::Version;

    fn done(content: u64, bytes: u64) -> Outcome {
        Outcome::Done { version: Version::default(), bytes, content }
    }

    fn with_one() -> (Folder, u64) {
        let mut folder = Folder::new("a", 0);
        let pick = folder.pick(Deed::Create, 0, 10).unwrap();
        assert!(folder.pick(Deed::Read, 0, 10).is_none(), "it is not there before it is answered");
        assert_eq!(folder.end(&pick, done(pick.content, 0), None), Found::Done);
        (folder, pick.content)
    }

    #[test]
    fn a_read_must_give_what_was_written_last() {
        let (mut folder, content) = with_one();
        for (outcome, found) in [
            (done(content, 10), Found::Done),
            (done(content, 9), Found::Wrong),
            (done(content + 1, 10), Found::Wrong),
            (Outcome::Missing, Found::Missing),
            (Outcome::Failed(Failure::TimedOut), Found::TimedOut),
        ] {
            let pick = folder.pick(Deed::Read, 7, 0).unwrap();
            assert_eq!(folder.end(&pick, outcome, None), found);
        }
        let pick = folder.pick(Deed::Overwrite, 0, 20).unwrap();
        assert!(folder.pick(Deed::Read, 0, 0).is_none(), "what is being written is not read");
        folder.end(&pick, done(pick.content, 0), None);
        let read = folder.pick(Deed::Read, 0, 0).unwrap();
        assert!(folder.pick(Deed::Delete, 0, 0).is_none(), "what is being read is not deleted");
        assert_eq!(folder.end(&read, done(content, 10), None), Found::Wrong, "stale");
    }

    #[test]
    fn a_write_without_an_answer_leaves_its_object_in_doubt() {
        let (mut folder, _) = with_one();
        let pick = folder.pick(Deed::Delete, 0, 0).unwrap();
        folder.end(&pick, Outcome::Failed(Failure::TimedOut), None);
        assert_eq!((folder.there().count(), folder.in_doubt()), (0, 1));
        let pick = folder.pick(Deed::Create, 0, 5).unwrap();
        folder.end(&pick, Outcome::Failed(Failure::TimedOut), None);
        assert_eq!((folder.there().count(), folder.in_doubt()), (0, 2));
    }

    #[test]
    fn a_page_of_names_has_all_that_are_there_and_no_other_but_for_what_changes_meanwhile() {
        let mut folder = Folder::new("a", 1);
        let create = |folder: &mut Folder| {
            let pick = folder.pick(Deed::Create, 0, 1).unwrap();
            folder.end(&pick, done(pick.content, 0), None);
            pick.key
        };
        let keys: Vec<Key> = (0..4).map(|_| create(&mut folder)).collect();
        let gone = folder.pick(Deed::Delete, 1, 0).unwrap();
        folder.end(&gone, done(0, 0), None);
        let doubted = folder.pick(Deed::Overwrite, 2, 1).unwrap();
        folder.end(&doubted, Outcome::Failed(Failure::TimedOut), None);
        assert_eq!((gone.key, doubted.key), (keys[1], keys[2]));
        let list = folder.pick(Deed::List, 0, 0).unwrap();
        assert_eq!((list.task, list.key), (Task::List, keys[0]));
        let late = create(&mut folder);
        let page = |names: &[Key], until| Listing { names: names.to_vec(), until };
        let end = keys[0].last_of_folder();
        for (names, until, right) in [
            (&[keys[0], keys[3]][..], end, true),
            (&[keys[0], keys[2], keys[3], late], end, true),
            (&[keys[0]], keys[2], true),
            (&[keys[0]], end, false),
            (&[keys[0], keys[1], keys[3]], end, false),
            (&[keys[0], keys[3], Key(7)], end, false),
            (&[keys[0], keys[3]], keys[0], false),
        ] {
            assert_eq!(folder.is_page(&list, &page(names, until)), right, "{names:?} until {until:?}");
        }
        assert_eq!(folder.end(&list, done(0, 0), None), Found::Wrong, "without a page");
    }

    #[test]
    fn what_is_left_can_be_picked_in_any_order_of_deletions() {
        let (mut folder, _) = with(5);
        for chosen in [3, 0, 1, 1, 0] {
            let pick = folder.pick(Deed::Delete, chosen, 0).unwrap();
            assert_eq!(folder.end(&pick, done(0, 0), None), Found::Done);
        }
        assert_eq!((folder.there().count(), folder.in_doubt()), (0, 0));
        assert!(folder.pick(Deed::Delete, 0, 0).is_none());
    }

    /// A folder of so many objects, and their keys.
    fn with(many: usize) -> (Folder, Vec<Key>) {
        let mut folder = Folder::new("a", 3);
        let created = |_| {
            let pick = folder.pick(Deed::Create, 0, 1).unwrap();
            assert_eq!(folder.end(&pick, done(pick.content, 0), None), Found::Done);
            pick.key
        };
        let keys = (0..many).map(created).collect();
        (folder, keys)
    }

    /// One of a thread's deeds, which ends at once if it is a deletion.
    fn next(folder: &mut Folder, order: &mut Order, thread: u32, deed: Deed) -> Option<Key> {
        let pick = folder.pick_by(order, thread, (deed, 0), 0)?;
        if deed == Deed::Delete {
            assert_eq!(folder.end(&pick, done(0, 0), None), Found::Done);
        }
        Some(pick.key)
    }

    #[test]
    fn objects_come_in_the_order_of_their_creation_and_after_the_last_the_first() {
        let (mut folder, keys) = with(4);
        let gone = folder.pick(Deed::Delete, 1, 0).unwrap();
        assert_eq!((gone.key, folder.end(&gone, done(0, 0), None)), (keys[1], Found::Done));
        let written = folder.pick(Deed::Overwrite, 2, 1).unwrap();
        assert_eq!(written.key, keys[2]);
        let mut order = Order::sequential(1);
        let mut next = |folder: &mut Folder, deed| next(folder, &mut order, 0, deed);
        let read: Vec<Key> = (0..3).filter_map(|_| next(&mut folder, Deed::Stat)).collect();
        assert_eq!(read, [keys[0], keys[3], keys[0]], "what is gone or being written is left out");
        assert_eq!(next(&mut folder, Deed::Delete), None, "all are in use");
        assert_eq!(folder.end(&written, done(written.content, 0), None), Found::Done);
        assert_eq!(next(&mut folder, Deed::Delete), Some(keys[2]));
        assert_eq!(next(&mut folder, Deed::Delete), None);
    }

    #[test]
    fn each_thread_has_a_share_of_its_own_and_then_takes_what_others_left() {
        let (mut folder, keys) = with(9);
        let mut order = Order::sequential(2);
        for (thread, object) in [(0, 0), (1, 4), (1, 5), (0, 1), (1, 6), (1, 7), (1, 8), (1, 2), (0, 3)] {
            assert_eq!(next(&mut folder, &mut order, thread, Deed::Delete), Some(keys[object]));
        }
        assert_eq!(next(&mut folder, &mut order, 0, Deed::Delete), None);
    }

    #[test]
    fn threads_that_take_each_object_once_take_those_that_were_there_at_the_start() {
        let (mut folder, keys) = with(7);
        let mut order = Order::once(3);
        let mut taken = Vec::new();
        for thread in [0, 2, 1, 0, 0, 1, 2, 2, 2, 1, 1] {
            taken.extend(next(&mut folder, &mut order, thread, Deed::Read));
            let late = folder.pick(Deed::Create, 0, 1).unwrap();
            folder.end(&late, done(late.content, 0), None);
        }
        taken.sort_unstable();
        assert_eq!(taken, keys);
        assert!((0..3).all(|thread| order.is_done(thread)));
        let mut none = Order::once(2);
        assert_eq!(next(&mut Folder::new("b", 1), &mut none, 1, Deed::Read), None);
        assert!(none.is_done(0) && none.is_done(1));
    }

    #[test]
    fn deletions_in_order_take_every_object_once_whatever_is_created_or_lost_meanwhile() {
        let mut folder = Folder::new("a", 3);
        let (mut order, mut deleted) = (Order::sequential(1), Vec::new());
        for round in 0..60_u64 {
            let pick = folder.pick(Deed::Create, 0, 1).unwrap();
            match round % 5 {
                0 => folder.release(&pick),
                1 => drop(folder.end(&pick, Outcome::Failed(Failure::TimedOut), None)),
                _ => drop(folder.end(&pick, done(pick.content, 0), None)),
            }
            if round % 3 == 2 {
                deleted.extend(next(&mut folder, &mut order, 0, Deed::Delete));
            }
        }
        deleted.extend(std::iter::from_fn(|| next(&mut folder, &mut order, 0, Deed::Delete)));
        assert_eq!((deleted.len(), deleted.is_sorted(), folder.count()), (36, true, 0));
    }
}
