//! Copies that survivors make among themselves for nodes that are gone (*many to many*).
//!
//! Of each object that a lost node ought to hold, the first of its holders that is left is responsible: it sends a copy
//! to a node that has none, one for each holder that is gone, in so many streams at once. Every survivor sends and
//! receives, so B lost bytes need about B / (survivors * R) where each link carries R in both directions at once.
//!
//! What is written while a node is lost lacks its copy in the same way, and gets it as soon as the one that is
//! responsible keeps it, behind what waits already. Where a copy was made of an earlier version, the node that has it
//! gets the later one. Several versions that come while one copy waits or is on its way are one copy, of the latest.
//!
//! Where another node is lost meanwhile, the next holder becomes responsible, and copies that were at that node, or on
//! their way to it, are made elsewhere. A copy for which no node is left waits until one is back.
//!
//! Such a copy is a stand-in: it is there to be pulled from, and is no part of a quorum, since the node
//! that it stands for may come back with everything it had.

use crate::message::nouns::{Key, Object, Peer, Version};
use crate::message::{Attempt, Message};
use crate::node::shelf::Shelf;
use crate::policy::Policy;
use crate::recovery::Progress;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use virtlab_wire::Nanos;

/// Attempts of it have no client's operation.
const OPERATION: u64 = u64::MAX;

/// A copy: of which object, and in place of which holder.
type Copy = (Key, Peer);

#[derive(Debug)]
struct Sent {
    copy: Copy,
    to: Peer,
    bytes: u64,
    version: Version,
    again: Nanos,
}

/// Where a copy is, or will be, and of which version it is.
#[derive(Debug)]
struct Place {
    at: Peer,
    version: Version,
}

/// What one survivor does about lost nodes.
#[derive(Debug)]
pub(crate) struct Spread {
    me: Peer,
    policy: Policy,
    lost: BTreeSet<Peer>,
    left: VecDeque<Copy>,
    /// The same, to be found.
    queued: BTreeSet<Copy>,
    /// For which no node is left.
    stuck: BTreeSet<Copy>,
    /// Of each copy that was made, or is on its way.
    places: BTreeMap<Copy, Place>,
    sent: BTreeMap<u32, Sent>,
    number: u32,
    /// When the pace allows the next copy.
    paced: Nanos,
    progress: Progress,
    /// What the node has to read, then to send.
    outputs: VecDeque<(Peer, Message)>,
}

impl Spread {
    pub(crate) const fn new(me: Peer, policy: Policy) -> Self {
        Self {
            me,
            policy,
            lost: BTreeSet::new(),
            left: VecDeque::new(),
            queued: BTreeSet::new(),
            stuck: BTreeSet::new(),
            places: BTreeMap::new(),
            sent: BTreeMap::new(),
            number: 0,
            paced: Nanos(0),
            progress: Progress { missing: 0, made: 0, bytes: 0 },
            outputs: VecDeque::new(),
        }
    }

    /// Copies for all nodes that were lost since it began.
    pub(crate) const fn progress(&self) -> Progress {
        self.progress
    }

    /// Whether a node is lost.
    pub(crate) fn is_needed(&self) -> bool {
        !self.lost.is_empty()
    }

    /// Whether copies are missing that it is responsible for.
    pub(crate) fn lacks(&self) -> bool {
        !(self.left.is_empty() && self.sent.is_empty() && self.stuck.is_empty())
    }

    /// A node is gone.
    pub(crate) fn lose(&mut self, now: Nanos, peer: Peer, shelf: &Shelf) {
        if peer == self.me || !self.lost.insert(peer) {
            return;
        }
        let under_way: Vec<u32> =
            self.sent.iter().filter(|(_, sent)| sent.to == peer).map(|(&number, _)| number).collect();
        for number in under_way {
            let Some(sent) = self.sent.remove(&number) else { continue };
            self.places.remove(&sent.copy);
            self.queue(sent.copy);
        }
        // What was made there is gone with it.
        let there: Vec<Copy> =
            self.places.iter().filter(|(_, place)| place.at == peer).map(|(&copy, _)| copy).collect();
        for copy in there {
            self.places.remove(&copy);
            self.wants(copy);
        }
        let lacking = |(key, object)| self.lacking(key, object);
        let wanted: Vec<Copy> = shelf.objects().flat_map(lacking).collect();
        for copy in wanted {
            self.wants(copy);
        }
        self.go_on(now, shelf);
    }

    /// The node has an object of a key that it had not, or a later one.
    pub(crate) fn keeps(&mut self, now: Nanos, key: Key, shelf: &Shelf) {
        let Some(object) = shelf.latest(key) else { return };
        let wanted: Vec<Copy> = self.lacking(key, object).collect();
        for &copy in &wanted {
            self.wants(copy);
        }
        if !wanted.is_empty() {
            self.go_on(now, shelf);
        }
    }

    /// Copies that an object lacks since holders are gone, if this node is responsible for it.
    fn lacking<'a>(&'a self, key: Key, object: &'a Object) -> impl Iterator<Item = Copy> + 'a {
        let gone = object.holders.iter().filter(|one| self.lost.contains(one) && self.is_responsible(object));
        gone.map(move |&holder| (key, holder)).filter(|copy| self.is_missing(copy, object.version))
    }

    /// Whether a copy is neither there nor to come.
    fn is_missing(&self, copy: &Copy, version: Version) -> bool {
        let waits = self.queued.contains(copy) || self.stuck.contains(copy);
        !waits
            && self.places.get(copy).is_none_or(|place| {
                // Once that is answered, it is looked at again.
                let is_under_way = || self.sent.values().any(|sent| sent.copy == *copy);
                place.version < version && !is_under_way()
            })
    }

    /// A copy is missing.
    fn wants(&mut self, copy: Copy) {
        if !self.stuck.contains(&copy) && self.queue(copy) {
            self.progress.missing += 1;
        }
    }

    /// A copy is to be sent, behind all others; whether it was not yet.
    fn queue(&mut self, copy: Copy) -> bool {
        let is_new = self.queued.insert(copy);
        if is_new {
            self.left.push_back(copy);
        }
        is_new
    }

    fn is_responsible(&self, object: &Object) -> bool {
        object.holders.iter().find(|one| !self.lost.contains(one)) == Some(&self.me)
    }

    /// A node is there again. Copies that were made for it stay; no more are made, and what was not made is missing no
    /// more.
    pub(crate) fn back(&mut self, now: Nanos, peer: Peer, shelf: &Shelf) {
        if !self.lost.remove(&peer) {
            return;
        }
        let before = self.left.len() + self.stuck.len() + self.sent.len();
        self.left.retain(|(_, holder)| *holder != peer);
        self.queued.retain(|(_, holder)| *holder != peer);
        self.stuck.retain(|(_, holder)| *holder != peer);
        self.sent.retain(|_, sent| sent.copy.1 != peer);
        self.places.retain(|(_, holder), _| *holder != peer);
        let after = self.left.len() + self.stuck.len() + self.sent.len();
        self.progress.missing -= (before - after) as u64;
        for copy in std::mem::take(&mut self.stuck) {
            self.queue(copy);
        }
        self.go_on(now, shelf);
    }

    pub(crate) fn go_on(&mut self, now: Nanos, shelf: &Shelf) {
        while self.may_send() && self.paced <= now {
            let Some(copy) = self.left.pop_front() else { return };
            self.queued.remove(&copy);
            let Some(object) = shelf.latest(copy.0).filter(|object| object.holders.contains(&copy.1)) else {
                self.progress.missing -= 1;
                self.places.remove(&copy);
                continue;
            };
            let Some(to) = self.target(copy, object) else {
                self.stuck.insert(copy);
                continue;
            };
            self.number += 1;
            let again = now + self.policy.give_up;
            let sent = Sent { copy, to, bytes: object.bytes, version: object.version, again };
            self.places.insert(copy, Place { at: to, version: object.version });
            self.send(self.number, &sent, shelf);
            self.paced = now + self.policy.recovery.pause(sent.bytes);
            self.sent.insert(self.number, sent);
        }
    }

    fn may_send(&self) -> bool {
        self.sent.len() < self.policy.recovery.streams as usize
    }

    /// A node that is left and has no copy yet, or only an earlier version of this one.
    fn target(&self, copy: Copy, object: &Object) -> Option<Peer> {
        let (key, lost) = copy;
        let others = object.holders.iter().filter(|&&holder| holder != lost);
        let others: Vec<Peer> =
            others.filter_map(|&holder| Some(self.places.get(&(key, holder))?.at)).collect();
        let may =
            |one: &Peer| !object.holders.contains(one) && !others.contains(one) && !self.lost.contains(one);
        if let Some(before) = self.places.get(&copy).map(|place| place.at).filter(may) {
            return Some(before);
        }
        // Holders are often neighbours: the next node in place of one of them would get more copies than others.
        let free = || (0..self.policy.nodes).map(Peer).filter(may);
        let many = free().count() as u64;
        free().nth((key.mixed(5) % many.max(1)) as usize)
    }

    fn send(&mut self, number: u32, sent: &Sent, shelf: &Shelf) {
        let Some(object) = shelf.latest(sent.copy.0).cloned() else { return };
        let attempt = Attempt { client: self.me, operation: OPERATION, number };
        let message = Message::Put { attempt, key: sent.copy.0, object, incarnation: None };
        self.outputs.push_back((sent.to, message));
    }

    /// Another node has this version, or refuses it for a later one, which is under way or has come: then that is
    /// missing no more. Where this node has a later one than it sent, the copy has yet to be of that.
    pub(crate) fn answered(
        &mut self,
        now: Nanos,
        attempt: Attempt,
        (version, kept): (Version, bool),
        shelf: &Shelf,
    ) {
        if attempt.operation != OPERATION
            || self.sent.get(&attempt.number).is_none_or(|sent| version < sent.version)
        {
            return;
        }
        let Some(sent) = self.sent.remove(&attempt.number) else { return };
        let made = if kept { version } else { sent.version };
        let latest = shelf.latest(sent.copy.0);
        if latest.is_some_and(|object| object.version > made) {
            self.queue(sent.copy);
        } else if kept {
            self.progress.made += 1;
            self.progress.bytes += latest.map_or(sent.bytes, |object| object.bytes);
        } else {
            self.progress.missing -= 1;
            self.places.remove(&sent.copy);
        }
        if let Some(place) = self.places.get_mut(&sent.copy) {
            place.version = made;
        }
        self.go_on(now, shelf);
    }

    pub(crate) fn next_event(&self) -> Option<Nanos> {
        let pace = (!self.left.is_empty() && self.may_send()).then_some(self.paced);
        self.sent.values().map(|sent| sent.again).chain(pace).min()
    }

    /// It is `now`; while the node `recovers`, it may yet get what it does not hold any more.
    pub(crate) fn wake(&mut self, now: Nanos, shelf: &Shelf, recovers: bool) {
        let due: Vec<u32> =
            self.sent.iter().filter(|(_, sent)| sent.again <= now).map(|(&number, _)| number).collect();
        for number in due {
            let Some(mut sent) = self.sent.remove(&number) else { continue };
            if !recovers && shelf.latest(sent.copy.0).is_none() {
                self.places.remove(&sent.copy);
                self.progress.missing -= 1;
                continue;
            }
            sent.again = now + self.policy.give_up;
            self.send(number, &sent, shelf);
            self.sent.insert(number, sent);
        }
        self.go_on(now, shelf);
    }

    /// What is to be read, then to be sent, and to whom.
    pub(crate) fn output(&mut self) -> Option<(Peer, Message)> {
        self.outputs.pop_front()
    }
}
