//! Copies that survivors make among themselves for nodes that are gone (*many to many*).
//!
//! Of each object that a lost node ought to hold, the first of its holders that is left is responsible: it sends a copy
//! to a node that has none, one for each holder that is gone, in so many streams at once. Every survivor sends and
//! receives, so B lost bytes need about B / (survivors * R) where each link carries R in both directions at once.
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

/// What one survivor does about lost nodes.
#[derive(Debug)]
pub(crate) struct Spread {
    me: Peer,
    policy: Policy,
    lost: BTreeSet<Peer>,
    left: VecDeque<Copy>,
    /// For which no node is left.
    stuck: BTreeSet<Copy>,
    /// Of each copy that is made, or on its way: at which node.
    at: BTreeMap<Copy, Peer>,
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
            stuck: BTreeSet::new(),
            at: BTreeMap::new(),
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
            self.at.remove(&sent.copy);
            self.left.push_back(sent.copy);
        }
        // What was made there is gone with it.
        let there: Vec<Copy> = self.at.iter().filter(|(_, at)| **at == peer).map(|(&copy, _)| copy).collect();
        for copy in there {
            self.at.remove(&copy);
            self.wants(copy);
        }
        let waiting: BTreeSet<Copy> = self.left.iter().chain(&self.stuck).copied().collect();
        let mut wanted = Vec::new();
        for (key, object) in shelf.objects().filter(|(_, object)| self.is_responsible(object)) {
            let gone = object.holders.iter().filter(|one| self.lost.contains(one));
            wanted.extend(gone.map(|&holder| (key, holder)).filter(|copy| self.is_new(copy, &waiting)));
        }
        for copy in wanted {
            self.wants(copy);
        }
        self.go_on(now, shelf);
    }

    fn is_new(&self, copy: &Copy, waiting: &BTreeSet<Copy>) -> bool {
        !self.at.contains_key(copy) && !waiting.contains(copy)
    }

    fn wants(&mut self, copy: Copy) {
        self.left.push_back(copy);
        self.progress.missing += 1;
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
        self.stuck.retain(|(_, holder)| *holder != peer);
        self.sent.retain(|_, sent| sent.copy.1 != peer);
        self.at.retain(|(_, holder), _| *holder != peer);
        let after = self.left.len() + self.stuck.len() + self.sent.len();
        self.progress.missing -= (before - after) as u64;
        self.left.extend(std::mem::take(&mut self.stuck));
        self.go_on(now, shelf);
    }

    pub(crate) fn go_on(&mut self, now: Nanos, shelf: &Shelf) {
        while self.may_send() && self.paced <= now {
            let Some(copy) = self.left.pop_front() else { return };
            let Some(object) = shelf.latest(copy.0).filter(|object| object.holders.contains(&copy.1)) else {
                self.progress.missing -= 1;
                continue;
            };
            let Some(to) = self.target(copy.0, object) else {
                self.stuck.insert(copy);
                continue;
            };
            self.number += 1;
            let again = now + self.policy.give_up;
            let sent = Sent { copy, to, bytes: object.bytes, version: object.version, again };
            self.at.insert(copy, to);
            self.send(self.number, &sent, shelf);
            self.paced = now + self.policy.recovery.pause(sent.bytes);
            self.sent.insert(self.number, sent);
        }
    }

    fn may_send(&self) -> bool {
        self.sent.len() < self.policy.recovery.streams as usize
    }

    /// A node that is left and has no copy yet.
    fn target(&self, key: Key, object: &Object) -> Option<Peer> {
        let salt = u32::try_from(key.mixed(5) % u64::from(self.policy.nodes)).unwrap_or(0);
        let others: Vec<Peer> =
            object.holders.iter().filter_map(|&holder| self.at.get(&(key, holder)).copied()).collect();
        (0..self.policy.nodes)
            .map(|step| Peer((salt + step) % self.policy.nodes))
            .find(|one| !object.holders.contains(one) && !others.contains(one) && !self.lost.contains(one))
    }

    fn send(&mut self, number: u32, sent: &Sent, shelf: &Shelf) {
        let Some(object) = shelf.latest(sent.copy.0).cloned() else { return };
        let attempt = Attempt { client: self.me, operation: OPERATION, number };
        let message = Message::Put { attempt, key: sent.copy.0, object, incarnation: None };
        self.outputs.push_back((sent.to, message));
    }

    /// Another node has this version, or refuses it for a later one, which is under way or has come: then that is
    /// missing no more.
    pub(crate) fn answered(
        &mut self,
        now: Nanos,
        attempt: Attempt,
        (version, kept): (Version, bool),
        shelf: &Shelf,
    ) {
        if attempt.operation != OPERATION {
            return;
        }
        let Some(sent) = self.sent.get(&attempt.number).filter(|sent| version >= sent.version) else {
            return;
        };
        if kept {
            self.progress.made += 1;
            self.progress.bytes += sent.bytes;
        } else {
            self.progress.missing -= 1;
            self.at.remove(&sent.copy);
        }
        self.sent.remove(&attempt.number);
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
                self.at.remove(&sent.copy);
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
