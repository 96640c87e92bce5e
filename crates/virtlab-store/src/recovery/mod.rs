//! How a node gets back what it lost, or missed while it was away: it asks the others for lists of what it ought to
//! hold, then pulls what it does not have.
//!
//! The forms differ in who sends, in how many streams, and in what else each part costs:
//!
//! - *many to one*: every holder sends; the node's own link is full. B lost bytes need B / R.
//! - *one stream*: one object after the other; each costs a round trip, and a rate that one stream reaches.
//! - *throttled*: no more than a rate, whatever the links would carry.
//! - *scan of partitions*: before its objects are pulled, each partition of the node costs a time, so many at once.
//!   With many small or few objects that is all there is: P partitions need P * cost / at once.
//! - *many to many* (`spread`): the survivors make the copies among themselves, without the node.
//!
//! Lists begin one `give_up` after the node restarted. By then every attempt that the node confirmed before has ended,
//! so what was answered stands at the others; and no copy of an attempt that failed is taken for one of an attempt that
//! was answered. By multicast an object that few of its holders list may have been replaced elsewhere, so all others
//! are asked once more (`doubts`).

pub mod closed_form;
mod doubts;
pub(crate) mod loss;
mod pages;
pub(crate) mod spread;

use crate::message::listing::Name;
use crate::message::nouns::{Key, Object, Peer, Version};
use crate::message::{Message, Output, To};
use crate::policy::{Lookup, Policy};
use crate::recovery::doubts::Doubts;
use crate::recovery::pages::Pages;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use virtlab_wire::Nanos;

/// How far a recovery is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Copies that the node ought to hold and did not.
    pub missing: u64,
    /// Of these, made again.
    pub made: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl Progress {
    /// Both together.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self {
            missing: self.missing + other.missing,
            made: self.made + other.made,
            bytes: self.bytes + other.bytes,
        }
    }

    /// Of what comes to no end: what was not made by then is missing no more, or somebody else misses it.
    #[must_use]
    pub const fn settled(self) -> Self {
        Self { missing: self.made, ..self }
    }

    /// What has come since.
    #[must_use]
    pub const fn since(self, before: Self) -> Self {
        Self {
            missing: self.missing.saturating_sub(before.missing),
            made: self.made.saturating_sub(before.made),
            bytes: self.bytes.saturating_sub(before.bytes),
        }
    }
}

#[derive(Debug)]
struct Wanted {
    version: Version,
    bytes: u64,
    sources: Vec<Peer>,
    /// Of these, holders of the object; others keep it in place of one.
    holders: u32,
}

#[derive(Debug)]
struct Pull {
    key: Key,
    until: Nanos,
    tries: usize,
}

/// One recovery of one node.
#[derive(Debug)]
pub(crate) struct Recovery {
    me: Peer,
    policy: Policy,
    round: u64,
    /// By the key behind which the next page begins.
    lists: BTreeMap<Peer, Pages<Option<Key>>>,
    /// Once all lists that are needed have come.
    doubts: Option<Doubts>,
    /// When answers that have not come are requested again; not once all needed have come.
    asks: Option<Nanos>,
    wanted: BTreeMap<Key, Wanted>,
    ready: VecDeque<Key>,
    pulls: Vec<Pull>,
    scanner: Scanner,
    progress: Progress,
    outputs: VecDeque<Output>,
}

/// Partitions that have yet to be scanned, and when the pace allows the next object.
#[derive(Debug, Default)]
struct Scanner {
    left: VecDeque<u32>,
    under_way: BTreeSet<(Nanos, u32)>,
    by_partition: BTreeMap<u32, Vec<Key>>,
    paced: Nanos,
}

impl Recovery {
    pub(crate) fn new(me: Peer, policy: Policy, round: u64, begins: Nanos) -> Self {
        let mut lists = BTreeMap::new();
        for peer in policy.peers().filter(|&one| one != me) {
            lists.insert(peer, Pages::none());
        }
        Self {
            me,
            policy,
            round,
            lists,
            doubts: None,
            asks: Some(begins),
            wanted: BTreeMap::new(),
            ready: VecDeque::new(),
            pulls: Vec::new(),
            scanner: Scanner::default(),
            progress: Progress::default(),
            outputs: VecDeque::new(),
        }
    }

    pub(crate) const fn round(&self) -> u64 {
        self.round
    }

    pub(crate) const fn progress(&self) -> Progress {
        self.progress
    }

    /// Whether it is known what the node lacks.
    pub(crate) const fn is_known(&self) -> bool {
        self.asks.is_none()
    }

    /// Whether nothing is left to do.
    pub(crate) fn is_over(&self) -> bool {
        self.asks.is_none()
            && self.wanted.is_empty()
            && self.scanner.left.is_empty()
            && self.scanner.under_way.is_empty()
    }

    fn send(&mut self, to: Peer, message: Message) {
        self.outputs.push_back(Output::Send(To::Peer(to), message));
    }

    fn ask(&mut self, now: Nanos) {
        self.asks = Some(now + self.policy.question);
        if let Some(doubts) = &self.doubts {
            for (peer, question) in doubts.questions() {
                self.send(peer, question);
            }
            return;
        }
        let open = self.lists.iter().filter_map(|(&peer, pages)| Some((peer, pages.next()?)));
        let asked: Vec<(Peer, Option<Key>)> = open.collect();
        for (peer, behind) in asked {
            self.send(peer, Message::List(self.round, behind));
        }
    }

    /// A page of a list; `has`: what the node has of a key by now.
    pub(crate) fn listed(
        &mut self,
        now: Nanos,
        from: Peer,
        (objects, more, whole): (Vec<(Key, Object)>, bool, bool),
        has: impl Fn(Key) -> Option<Version>,
    ) {
        let Some(behind) = self.lists.get(&from).and_then(Pages::next) else { return };
        let is_over = self.asks.is_none() || self.doubts.is_some();
        if is_over || objects.first().is_some_and(|(key, _)| Some(*key) <= behind) {
            return;
        }
        let last = objects.last().map_or(behind, |(key, _)| Some(*key));
        for (key, object) in objects {
            self.wants(from, key, &object, has(key));
        }
        if let Some(pages) = self.lists.get_mut(&from) {
            pages.turn(whole, more.then_some(last));
        }
        if more {
            self.send(from, Message::List(self.round, last));
            return;
        }
        if self.lists.values().filter(|pages| pages.is_whole()).count() >= self.answers() {
            let names = self.doubtful();
            if names.is_empty() {
                return self.known(now);
            }
            self.doubts = Some(Doubts::new(self.round, names, self.lists.keys().copied()));
            self.ask(now);
        }
    }

    /// How many whole nodes must answer a question.
    fn answers(&self) -> usize {
        self.policy.roll_call().min(self.lists.len())
    }

    /// What may have been replaced elsewhere, as far as lists tell: see `doubts`.
    fn doubtful(&self) -> Vec<Name> {
        if self.policy.lookup != Lookup::Multicast {
            return Vec::new();
        }
        let few = self.wanted.iter().filter(|(_, wanted)| wanted.holders < self.policy.write_quorum);
        few.map(|(&key, wanted)| Name { key, version: wanted.version, deleted: false }).collect()
    }

    /// A node answers which of the doubtful objects, up to a key, it has in a later version; `has`: what the node that
    /// recovers has of a key by now.
    pub(crate) fn compared(
        &mut self,
        now: Nanos,
        from: Peer,
        (last, later, whole): (Key, Vec<(Key, Object)>, bool),
        has: impl Fn(Key) -> Option<Version>,
    ) {
        if self.asks.is_none() || !self.lists.contains_key(&from) {
            return;
        }
        let Some(mut doubts) = self.doubts.take() else { return };
        for (key, object) in later {
            if object.holders.contains(&self.me) {
                self.wants(from, key, &object, has(key));
            } else {
                doubts.is_elsewhere(key, &object);
            }
        }
        if let Some(next) = doubts.answered(from, last, whole) {
            self.send(from, next);
        }
        if doubts.heard() < self.answers() {
            self.doubts = Some(doubts);
            return;
        }
        for (key, version) in doubts.replaced() {
            if self.wanted.get(&key).is_some_and(|wanted| wanted.version < version) {
                self.wanted.remove(&key);
            }
        }
        self.known(now);
    }

    /// It is known what the node lacks.
    fn known(&mut self, now: Nanos) {
        self.asks = None;
        self.progress.missing += self.wanted.len() as u64;
        self.plan();
        self.go_on(now);
    }

    fn wants(&mut self, from: Peer, key: Key, object: &Object, has: Option<Version>) {
        if has.is_some_and(|has| has >= object.version) {
            return;
        }
        let Object { version, bytes, .. } = *object;
        let none = || Wanted { version, bytes, sources: Vec::new(), holders: 0 };
        let wanted = self.wanted.entry(key).or_insert_with(none);
        if wanted.version < version {
            *wanted = none();
        }
        if wanted.version == version && !wanted.sources.contains(&from) {
            wanted.sources.push(from);
            wanted.holders += u32::from(object.holders.contains(&from));
        }
    }

    /// In which order objects are pulled: as they come, or behind the scan of their partitions.
    fn plan(&mut self) {
        match (self.policy.recovery.scan, self.policy.lookup) {
            (Some(_), Lookup::Ring { partitions, zones }) => {
                for &key in self.wanted.keys() {
                    let partition = Policy::partition(key, partitions);
                    self.scanner.by_partition.entry(partition).or_default().push(key);
                }
                self.scanner.left = (0..partitions)
                    .filter(|&one| self.policy.of_partition(one, partitions, zones).contains(&self.me))
                    .collect();
            }
            _ => self.ready.extend(self.wanted.keys()),
        }
    }

    /// Everything that the time and the streams allow.
    fn go_on(&mut self, now: Nanos) {
        if let Some(scan) = self.policy.recovery.scan {
            while self.scanner.under_way.len() < scan.at_once as usize {
                let Some(partition) = self.scanner.left.pop_front() else { break };
                self.scanner.under_way.insert((now + scan.cost, partition));
            }
        }
        while self.pulls.len() < self.policy.recovery.streams as usize && self.scanner.paced <= now {
            let Some(key) = self.ready.pop_front() else { return };
            let Some(wanted) = self.wanted.get(&key) else { continue };
            self.scanner.paced = now + self.policy.recovery.pause(wanted.bytes);
            self.pulls.push(Pull { key, until: now, tries: 0 });
            self.pull(now, self.pulls.len() - 1);
        }
    }

    fn pull(&mut self, now: Nanos, at: usize) {
        let Some(pull) = self.pulls.get_mut(at) else { return };
        let Some(wanted) = self.wanted.get(&pull.key).filter(|one| !one.sources.is_empty()) else { return };
        let turn = usize::try_from(pull.key.mixed(3) % wanted.sources.len() as u64).unwrap_or(0);
        let from = wanted.sources[(turn + pull.tries) % wanted.sources.len()];
        pull.tries += 1;
        pull.until = now + self.policy.give_up;
        let message = Message::Pull(self.round, pull.key, wanted.version);
        self.send(from, message);
    }

    /// A source does not have it any more. If it was the last, all is asked again: what is wanted may have changed.
    pub(crate) fn lacks(&mut self, now: Nanos, from: Peer, key: Key) {
        let Some(at) = self.pulls.iter().position(|pull| pull.key == key) else { return };
        let Some(wanted) = self.wanted.get_mut(&key) else { return };
        wanted.sources.retain(|&one| one != from);
        if !wanted.sources.is_empty() {
            self.pull(now, at);
            return;
        }
        *self = Self {
            outputs: std::mem::take(&mut self.outputs),
            progress: self.progress.settled(),
            ..Self::new(self.me, self.policy, self.round, now)
        };
    }

    /// The node has an object of a key, from wherever it came.
    pub(crate) fn has(&mut self, now: Nanos, key: Key, object: &Object) {
        if self.wanted.get(&key).is_none_or(|wanted| wanted.version > object.version) {
            return;
        }
        self.wanted.remove(&key);
        self.pulls.retain(|pull| pull.key != key);
        if self.asks.is_none() {
            self.progress.made += 1;
            self.progress.bytes += object.bytes;
        }
        self.go_on(now);
    }

    /// A later write of a key is under way, or has come: what was wanted of it is not any more.
    pub(crate) fn skip(&mut self, now: Nanos, key: Key) {
        if self.wanted.remove(&key).is_some() && self.asks.is_none() {
            self.progress.missing -= 1;
        }
        self.pulls.retain(|pull| pull.key != key);
        self.go_on(now);
    }

    pub(crate) fn next_event(&self) -> Option<Nanos> {
        let pace = (!self.ready.is_empty() && self.pulls.len() < self.policy.recovery.streams as usize)
            .then_some(self.scanner.paced);
        let scanned = self.scanner.under_way.first().map(|&(at, _)| at);
        let pulls = self.pulls.iter().map(|pull| pull.until).min();
        self.asks.into_iter().chain(pace).chain(scanned).chain(pulls).min()
    }

    pub(crate) fn wake(&mut self, now: Nanos) {
        if self.asks.is_some_and(|at| at <= now) {
            self.ask(now);
        }
        while let Some(&(at, partition)) = self.scanner.under_way.first().filter(|&&(at, _)| at <= now) {
            self.scanner.under_way.remove(&(at, partition));
            self.ready.extend(self.scanner.by_partition.remove(&partition).unwrap_or_default());
            self.go_on(at);
        }
        for at in 0..self.pulls.len() {
            if self.pulls[at].until <= now {
                self.pull(now, at);
            }
        }
        self.go_on(now);
    }

    pub(crate) fn output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }
}
