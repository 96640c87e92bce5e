//! A storage node: what it keeps, its cache and its disk, and what it answers.
//!
//! It keeps whole objects. Where it confirms from the disk, an object counts once it is flushed, and is not seen
//! before: a crash takes nothing that was confirmed or read. Where it confirms from memory, the cache has a size; what
//! does not fit waits until the disk has taken something.

pub(crate) mod book;
pub(crate) mod detector;
pub(crate) mod shelf;

use crate::client::proxy::Proxy;
use crate::message::listing::{Name as Named, Told};
use crate::message::nouns::{Key, Object, Peer, Version};
use crate::message::{Attempt, Found, Message, Output, To};
use crate::node::book::{Open, Page};
use crate::node::detector::Detector;
use crate::node::shelf::{Left, Shelf};
use crate::policy::{Ack, Policy};
use crate::recovery::spread::Spread;
use crate::recovery::{Progress, Recovery};
use crate::table::{Name, SPREAD, Table};
use std::collections::VecDeque;
use virtlab_disk::{Kind, whole_sectors};
use virtlab_wire::Nanos;

/// Of a list, how many objects a message has.
const PAGE: usize = 512;
/// Beside an object's content, on the disk: what it is.
const RECORD_BYTES: u64 = 512;

impl Name for (Key, Version) {
    fn mixed(self) -> u64 {
        (self.0.0 ^ self.1.stamp.rotate_left(32) ^ self.1.number).wrapping_mul(SPREAD)
    }
}

/// Who waits for a copy to be kept.
#[derive(Clone, Copy, Debug)]
enum Waits {
    /// The peer that put it.
    Peer(Peer, Attempt),
    /// The node itself, which pulled it.
    Own,
}

/// What the disk does.
#[derive(Debug)]
enum Work {
    Write(Key, Object, Option<Waits>),
    Flush(Key, Object, Option<Waits>),
    Read(Peer, Message),
}

/// What the disk does, by numbers that follow each other: a disk does nearly first what came first.
#[derive(Debug, Default)]
struct Works {
    /// The number of the first.
    first: u64,
    all: VecDeque<Option<Work>>,
    many: usize,
}

impl Works {
    fn place(&self, id: u64) -> Option<usize> {
        usize::try_from(id.checked_sub(self.first)?).ok()
    }

    fn get(&self, id: u64) -> Option<&Work> {
        self.all.get(self.place(id)?)?.as_ref()
    }

    /// One more, whose number is the next.
    fn push(&mut self, id: u64, work: Work) {
        if self.all.is_empty() {
            self.first = id;
        }
        self.all.push_back(Some(work));
        self.many += 1;
    }

    fn remove(&mut self, id: u64) -> Option<Work> {
        let place = self.place(id)?;
        let work = self.all.get_mut(place)?.take()?;
        self.many -= 1;
        while self.all.front().is_some_and(Option::is_none) {
            self.all.pop_front();
            self.first += 1;
        }
        Some(work)
    }
}

/// The disk's work, and what waits for room in the cache.
#[derive(Debug, Default)]
struct Bench {
    number: u64,
    works: Works,
    waiting: VecDeque<(Key, Object, Waits)>,
    /// What of these is written, or will be.
    coming: Table<(Key, Version), ()>,
    dirty_bytes: u64,
}

impl Bench {
    /// Whether a version of a key is on its way to the disk already: who puts it again is told when it is there.
    fn has(&self, key: Key, version: Version) -> bool {
        self.coming.has((key, version))
    }
}

/// What the node knows of itself.
#[derive(Debug)]
struct Condition {
    whole: bool,
    incarnation: u32,
    rounds: u64,
    /// Of recoveries and spreads that have ended.
    past: Progress,
}

/// A storage node.
#[derive(Debug)]
pub struct Node {
    me: Peer,
    policy: Policy,
    shelf: Shelf,
    bench: Bench,
    condition: Condition,
    recovery: Option<Recovery>,
    spread: Spread,
    /// Of the other nodes.
    detector: Option<Detector>,
    /// As a primary.
    leads: Proxy,
    outputs: VecDeque<Output>,
}

impl Node {
    /// One that holds nothing, of a store that is empty.
    #[must_use]
    pub fn new(me: Peer, policy: Policy) -> Self {
        Self {
            me,
            policy,
            shelf: Shelf::default(),
            bench: Bench::default(),
            condition: Condition { whole: true, incarnation: 0, rounds: 0, past: Progress::default() },
            recovery: None,
            spread: Spread::new(me, policy),
            detector: None,
            leads: Proxy::new(policy),
            outputs: VecDeque::new(),
        }
    }

    /// It writes what it promises on a page of a book. Only at the beginning.
    pub fn write_on(&mut self, page: Page) {
        self.shelf.write_on(page);
    }

    /// One that restarts, in a process that knows nothing of the one before, with what its disk has, or with an empty
    /// one. It recovers. `incarnation`: more than 0, and none that it had before.
    #[must_use]
    pub fn back(
        me: Peer,
        policy: Policy,
        now: Nanos,
        incarnation: u32,
        kept: Option<Vec<(Key, Object)>>,
    ) -> Self {
        let mut node = Self::new(me, policy);
        node.condition.incarnation = incarnation.max(1) - 1;
        let left = if kept.is_some() { Left::Flushed } else { Left::Nothing };
        for (key, object) in kept.into_iter().flatten() {
            node.shelf.put(key, object.clone());
            node.shelf.flushed(key, object);
        }
        node.restart(now, left);
        node
    }

    /// Whether it still has everything that it ever confirmed.
    #[must_use]
    pub const fn is_whole(&self) -> bool {
        self.condition.whole
    }

    /// How far it is with all copies that it had to make since it began: what it lacked itself, and what it makes for
    /// nodes that it suspects.
    #[must_use]
    pub fn progress(&self) -> Progress {
        let own = self.recovery.as_ref().map_or_else(Progress::default, Recovery::progress);
        self.condition.past.and(own).and(self.spread.progress())
    }

    /// Whether it still has to make copies for a node that it suspects, or gets back itself what it may have to copy.
    #[must_use]
    pub fn is_spreading(&self) -> bool {
        self.spread.lacks() || (self.spread.is_needed() && self.is_recovering())
    }

    /// Whether it knows what it lacks.
    #[must_use]
    pub fn knows(&self) -> bool {
        self.recovery.as_ref().is_none_or(Recovery::is_known)
    }

    /// Whether it recovers.
    #[must_use]
    pub const fn is_recovering(&self) -> bool {
        self.recovery.is_some()
    }

    /// What it holds, in the order of keys.
    pub fn objects(&self) -> impl Iterator<Item = (Key, &Object)> {
        self.shelf.objects()
    }

    /// Whether a version of a key is on its way to the disk.
    #[must_use]
    pub fn awaits(&self, key: Key, version: Version) -> bool {
        self.bench.has(key, version)
    }

    /// The object that a request of the disk is to write.
    #[must_use]
    pub fn to_be_written(&self, id: u64) -> Option<&Object> {
        match self.bench.works.get(id) {
            Some(Work::Write(_, object, _)) => Some(object),
            _ => None,
        }
    }

    /// It restarts with what is left. Unless that is everything, it recovers.
    pub fn restart(&mut self, now: Nanos, left: Left) {
        if left == Left::All {
            return;
        }
        self.condition.past = self.progress().settled();
        self.shelf.crash(left);
        self.bench = Bench { number: self.bench.number, ..Bench::default() };
        self.condition.incarnation += 1;
        self.condition.whole &= left == Left::Flushed && self.policy.ack == Ack::Disk;
        (self.recovery, self.spread) = (None, Spread::new(self.me, self.policy));
        self.detector = self.detector.take().map(|detector| detector.again(now));
        self.leads = Proxy::new(self.policy);
        self.outputs.clear();
        self.heal(now);
    }

    /// It asks the others for what it ought to hold and does not.
    pub fn heal(&mut self, now: Nanos) {
        if let Some(recovery) = self.recovery.take() {
            self.condition.past = self.condition.past.and(recovery.progress().settled());
        }
        self.condition.rounds += 1;
        let round = (u64::from(self.condition.incarnation) << 32) + self.condition.rounds;
        self.recovery = Some(Recovery::new(self.me, self.policy, round, now + self.policy.give_up));
    }

    /// From now on it tells the other nodes each period that it is there, and makes copies for those that are silent
    /// for `after`.
    pub fn watch(&mut self, now: Nanos, period: Nanos, after: Nanos) {
        let others = self.policy.peers().filter(|&one| one != self.me);
        self.detector = Some(Detector::new(now, others, period, after));
    }

    /// Whether it suspects another node.
    #[must_use]
    pub fn suspects(&self, peer: Peer) -> bool {
        self.detector.as_ref().is_some_and(|detector| detector.is_lost(peer))
    }

    /// The nodes that it suspects.
    pub fn suspected(&self) -> impl Iterator<Item = Peer> {
        self.policy.peers().filter(|&peer| self.suspects(peer))
    }

    /// Another node is gone: copies of what it held are made among those that are left.
    pub fn spread(&mut self, now: Nanos, lost: Peer) {
        self.spread.lose(now, lost, &self.shelf);
        self.send_copies();
    }

    /// What survivors make is read first.
    fn send_copies(&mut self) {
        while let Some((to, message)) = self.spread.output() {
            let Message::Put { key, object, .. } = &message else { continue };
            let (key, object) = (*key, object.clone());
            self.read(to, key, Some(&object), message);
        }
    }

    /// Its disk has another version of a key than this, which it holds and which it may have confirmed: one that it
    /// refused when that was written already. It is not whole until the others have told it what it lacks.
    pub fn gone(&mut self, now: Nanos, key: Key, version: Version) {
        let latest = self.shelf.latest(key).map(|object| object.version);
        if latest != Some(version) || !self.shelf.is_flushed(key) {
            return;
        }
        self.shelf.forget(key);
        self.condition.whole = false;
        if self.recovery.is_none() {
            self.heal(now);
        }
    }

    fn send(&mut self, to: Peer, message: Message) {
        self.outputs.push_back(Output::Send(To::Peer(to), message));
    }

    /// A message comes.
    pub fn handle(&mut self, now: Nanos, from: Peer, message: Message) {
        let back = self.detector.as_mut().is_some_and(|detector| detector.hears(now, from));
        if back {
            self.spread.back(now, from, &self.shelf);
            self.send_copies();
        }
        match message {
            Message::Find { attempt, key, all, version } => self.find(from, attempt, key, all, version),
            Message::Fetch(attempt, key, version) => {
                let object = self.shelf.latest(key).filter(|object| object.version >= version).cloned();
                self.read(from, key, object.as_ref(), Message::Content(attempt, key, object.clone()));
            }
            Message::Put { attempt, key, object, incarnation } => {
                self.put(now, from, attempt, key, object, incarnation);
            }
            Message::List(_, behind) => {
                let (objects, more) = self.shelf.page(from, behind, PAGE);
                let Message::List(round, _) = message else { return };
                self.send(from, Message::Listed { round, objects, more, whole: self.condition.whole });
            }
            Message::Pull(round, key, version) => {
                let object = self.shelf.latest(key).filter(|object| object.version >= version).cloned();
                self.read(from, key, object.as_ref(), Message::Pulled(round, key, object.clone()));
            }
            Message::Names(attempt, first) => {
                let (names, more) = self.shelf.names(first);
                self.send(from, Message::Told(attempt, Told { names, more, whole: self.condition.whole }));
            }
            Message::Listed { round, objects, more, whole } => {
                self.listed(now, from, round, (objects, more, whole));
            }
            Message::Compare { round, names } => self.compare(from, round, &names),
            Message::Compared { round, last, later, whole } => {
                self.compared(now, from, round, (last, later, whole));
            }
            Message::Pulled(round, key, object) => self.pulled(now, from, round, (key, object)),
            Message::Kept { attempt, version, .. } | Message::Refused(attempt, version) => {
                let kept = matches!(message, Message::Kept { .. });
                self.spread.answered(now, attempt, (version, kept), &self.shelf);
                self.send_copies();
                self.leads.handle(now, from, message);
            }
            other => self.leads.handle(now, from, other),
        }
    }

    fn find(&mut self, from: Peer, attempt: Attempt, key: Key, all: bool, version: Option<Version>) {
        let found = self.found(&mut self.shelf.book(), key, all, version);
        if let Some(found) = found {
            self.send(from, Message::Found(attempt, found));
        }
    }

    /// What it answers to a question, if it answers; for a driver that brings the answer itself. Nothing else follows
    /// from a question, at a node that does not [watch](Node::watch). `book`: open, that in which it writes or another.
    #[inline]
    #[must_use]
    pub fn found(&self, book: &mut Open<'_>, key: Key, all: bool, version: Option<Version>) -> Option<Found> {
        let object = match version {
            // A node that does not answer promises nothing.
            Some(version) if all => self.shelf.promise(book, key, version).cloned(),
            _ => self.shelf.latest_by(book, key).cloned(),
        };
        if object.is_none() && !all {
            return None;
        }
        if let Some(version) = version.filter(|_| !all) {
            self.shelf.promise(book, key, version);
        }
        Some(Found {
            object,
            whole: self.condition.whole,
            load: u32::try_from(self.bench.works.many).unwrap_or(u32::MAX),
            incarnation: self.condition.incarnation,
        })
    }

    /// An object's content comes from the cache, or from the disk; then the message goes.
    fn read(&mut self, to: Peer, key: Key, object: Option<&Object>, message: Message) {
        match object {
            Some(object) if self.shelf.is_flushed(key) && !object.deleted => {
                let bytes = whole_sectors(object.bytes + RECORD_BYTES);
                let named = (key, object.version);
                self.work(Kind::Read, bytes, named, Work::Read(to, message));
            }
            _ => self.send(to, message),
        }
    }

    fn work(&mut self, kind: Kind, bytes: u64, (key, version): (Key, Version), work: Work) {
        if let Work::Write(key, object, _) = &work {
            self.bench.coming.insert((*key, object.version), ());
        }
        self.bench.number += 1;
        let id = self.bench.number;
        self.bench.works.push(id, work);
        self.outputs.push_back(Output::Disk { id, kind, bytes, key, version });
    }

    fn put(
        &mut self,
        now: Nanos,
        from: Peer,
        attempt: Attempt,
        key: Key,
        object: Object,
        incarnation: Option<u32>,
    ) {
        let since = incarnation.is_some_and(|before| before != self.condition.incarnation);
        if since {
            self.send(from, Message::Refused(attempt, object.version));
            return;
        }
        self.take(now, key, object, Waits::Peer(from, attempt));
    }

    /// The later version for which one is refused. What a node promised while it was not whole was no part of a quorum,
    /// and does not keep it from getting back what it had.
    fn against(&self, key: Key, version: Version, waits: Waits) -> Option<Version> {
        match waits {
            Waits::Own if !self.condition.whole => {
                self.shelf.latest(key).map(|latest| latest.version).filter(|&latest| latest > version)
            }
            _ => self.shelf.against(key, version),
        }
    }

    /// An object comes to be kept.
    fn take(&mut self, now: Nanos, key: Key, object: Object, waits: Waits) {
        if let Some(other) = self.against(key, object.version, waits) {
            self.refuse(now, key, waits, other);
            return;
        }
        if self.shelf.latest(key).is_some_and(|latest| latest.version == object.version) {
            self.confirm(now, key, &object, waits);
            return;
        }
        if self.bench.has(key, object.version) {
            return;
        }
        match self.policy.ack {
            Ack::Disk => {
                let bytes = whole_sectors(object.bytes + RECORD_BYTES);
                self.work(Kind::Write, bytes, (key, object.version), Work::Write(key, object, Some(waits)));
            }
            Ack::Memory { cache_bytes } => {
                let fits =
                    self.bench.dirty_bytes == 0 || self.bench.dirty_bytes + object.bytes <= cache_bytes;
                if !fits || !self.bench.waiting.is_empty() {
                    self.bench.coming.insert((key, object.version), ());
                    self.bench.waiting.push_back((key, object, waits));
                    return;
                }
                self.cache(now, key, object, waits);
            }
        }
    }

    /// An object goes into the cache and is confirmed; the disk gets it in its turn.
    fn cache(&mut self, now: Nanos, key: Key, object: Object, waits: Waits) {
        self.bench.dirty_bytes += object.bytes;
        self.shelf.put(key, object.clone());
        self.confirm(now, key, &object, waits);
        let bytes = whole_sectors(object.bytes + RECORD_BYTES);
        self.work(Kind::Write, bytes, (key, object.version), Work::Write(key, object, None));
        self.copy(now, key);
    }

    /// It keeps an object that it had not: nodes without a copy get those of holders that are silent.
    fn copy(&mut self, now: Nanos, key: Key) {
        if self.spread.is_needed() {
            self.spread.keeps(now, key, &self.shelf);
            self.send_copies();
        }
    }

    fn confirm(&mut self, now: Nanos, key: Key, object: &Object, waits: Waits) {
        if let Waits::Peer(peer, attempt) = waits {
            let whole = self.condition.whole;
            self.send(peer, Message::Kept { attempt, version: object.version, whole });
        }
        if let Some(recovery) = &mut self.recovery {
            recovery.has(now, key, object);
        }
        self.recovered();
    }

    fn refuse(&mut self, now: Nanos, key: Key, waits: Waits, version: Version) {
        match waits {
            Waits::Peer(peer, attempt) => self.send(peer, Message::Refused(attempt, version)),
            Waits::Own => {
                if let Some(recovery) = &mut self.recovery {
                    recovery.skip(now, key);
                }
                self.recovered();
            }
        }
    }

    fn listed(&mut self, now: Nanos, from: Peer, round: u64, list: (Vec<(Key, Object)>, bool, bool)) {
        let shelf = &self.shelf;
        if let Some(recovery) = self.recovery.as_mut().filter(|one| one.round() == round) {
            recovery.listed(now, from, list, |key| shelf.latest(key).map(|object| object.version));
        }
        self.recovered();
    }

    /// Which of these it has in a later version.
    fn compare(&mut self, from: Peer, round: u64, names: &[Named]) {
        let Some(last) = names.last().map(|name| name.key) else { return };
        let later = names.iter().filter_map(|name| {
            let latest = self.shelf.latest(name.key).filter(|object| object.version > name.version)?;
            Some((name.key, latest.clone()))
        });
        let later = later.collect();
        self.send(from, Message::Compared { round, last, later, whole: self.condition.whole });
    }

    fn compared(&mut self, now: Nanos, from: Peer, round: u64, told: (Key, Vec<(Key, Object)>, bool)) {
        let shelf = &self.shelf;
        if let Some(recovery) = self.recovery.as_mut().filter(|one| one.round() == round) {
            recovery.compared(now, from, told, |key| shelf.latest(key).map(|object| object.version));
        }
        self.recovered();
    }

    fn pulled(&mut self, now: Nanos, from: Peer, round: u64, (key, object): (Key, Option<Object>)) {
        let Some(recovery) = self.recovery.as_mut().filter(|one| one.round() == round) else { return };
        match object {
            None => recovery.lacks(now, from, key),
            Some(object) => self.take(now, key, object, Waits::Own),
        }
    }

    fn recovered(&mut self) {
        if let Some(recovery) = self.recovery.take_if(|one| one.is_over()) {
            self.condition.past = self.condition.past.and(recovery.progress());
            self.condition.whole = true;
        }
    }

    /// A request of the disk is done.
    pub fn complete(&mut self, now: Nanos, id: u64) {
        match self.bench.works.remove(id) {
            Some(Work::Read(to, message)) => self.has_read(to, message),
            Some(Work::Write(key, object, waits)) => {
                self.work(Kind::Flush, 0, (key, object.version), Work::Flush(key, object, waits));
            }
            Some(Work::Flush(key, object, waits)) => self.flushed(now, key, object, waits),
            None => {}
        }
    }

    /// Something was read that is to be sent. Of a copy for another node the latest is sent, as its file may hold that
    /// alone by now.
    fn has_read(&mut self, to: Peer, message: Message) {
        if let Message::Put { attempt, key, object, incarnation } = &message
            && let Some(latest) = self.shelf.latest(*key).filter(|latest| latest.version > object.version)
        {
            let (key, object) = (*key, latest.clone());
            let message =
                Message::Put { attempt: *attempt, key, object: object.clone(), incarnation: *incarnation };
            return self.read(to, key, Some(&object), message);
        }
        self.send(to, message);
    }

    fn flushed(&mut self, now: Nanos, key: Key, object: Object, waits: Option<Waits>) {
        self.bench.coming.remove((key, object.version));
        let Some(waits) = waits else {
            self.bench.dirty_bytes = self.bench.dirty_bytes.saturating_sub(object.bytes);
            self.shelf.flushed(key, object);
            for (key, object, waits) in std::mem::take(&mut self.bench.waiting) {
                self.bench.coming.remove((key, object.version));
                self.take(now, key, object, waits);
            }
            return;
        };
        let refused = self.against(key, object.version, waits);
        let replaces = |held: &Object| held.version < object.version && held.holders == object.holders;
        // What comes too late is on the disk in place of what was kept, and is kept without being confirmed: else
        // nothing would be. With other holders it must not be, since it would speak for them.
        if refused.is_none() || self.shelf.latest(key).is_some_and(replaces) {
            self.shelf.put(key, object.clone());
            self.shelf.flushed(key, object.clone());
        }
        match refused {
            Some(other) => self.refuse(now, key, waits, other),
            None => {
                self.confirm(now, key, &object, waits);
                self.copy(now, key);
            }
        }
    }

    /// When it must be woken, at the latest.
    #[must_use]
    pub fn next_event(&self) -> Option<Nanos> {
        let recovery = self.recovery.as_ref().and_then(Recovery::next_event);
        let spread = self.spread.next_event();
        let detector = self.detector.as_ref().map(Detector::next_event);
        recovery.into_iter().chain(spread).chain(detector).chain(self.leads.next_event()).min()
    }

    /// It is `now`.
    pub fn wake(&mut self, now: Nanos) {
        self.leads.wake(now);
        let (due, lost) = self.detector.as_mut().map_or_else(Default::default, |one| one.wake(now));
        let me = self.me;
        for peer in self.policy.peers().filter(|&one| due && one != me) {
            self.send(peer, Message::Beat);
        }
        for peer in lost {
            self.spread(now, peer);
        }
        self.spread.wake(now, &self.shelf, self.recovery.is_some());
        self.send_copies();
        if let Some(recovery) = &mut self.recovery {
            recovery.wake(now);
        }
        self.recovered();
    }

    /// What its driver must do next.
    pub fn output(&mut self) -> Option<Output> {
        let recovery = || self.recovery.as_mut().and_then(Recovery::output);
        self.outputs.pop_front().or_else(recovery).or_else(|| self.leads.output())
    }
}
