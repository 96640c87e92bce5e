//! Copies that survivors make among themselves for a node that is gone (*many to many*).
//!
//! Of each object that the lost node ought to hold, the first of its other holders is responsible: it sends a copy to a
//! node that has none, in so many streams at once. Every survivor sends and receives, so B lost bytes need about
//! B / (survivors * R) where each link carries R in both directions at once.
//!
//! Such a copy is a stand-in: it is there to be pulled from, and is no part of a quorum, since the node
//! that it stands for may come back with everything it had.

use crate::message::{Attempt, Message, Output, To};
use crate::nouns::{Key, Peer, Version};
use crate::policy::Policy;
use crate::recovery::Progress;
use crate::shelf::Shelf;
use std::collections::{BTreeMap, VecDeque};
use virtlab_wire::Nanos;

/// Attempts of it have no client's operation.
const OPERATION: u64 = u64::MAX;

#[derive(Debug)]
struct Sent {
    key: Key,
    to: Peer,
    bytes: u64,
    version: Version,
    again: Nanos,
}

/// What one survivor does about one lost node.
#[derive(Debug)]
pub(crate) struct Spread {
    me: Peer,
    policy: Policy,
    lost: Peer,
    left: VecDeque<Key>,
    sent: BTreeMap<u32, Sent>,
    number: u32,
    progress: Progress,
    /// Objects that the node has to read, then to send.
    outputs: VecDeque<Output>,
}

impl Spread {
    pub(crate) fn new(me: Peer, policy: Policy, lost: Peer, shelf: &Shelf) -> Self {
        let left: VecDeque<Key> = shelf
            .objects()
            .filter(|(_, object)| {
                object.holders.contains(&lost) && object.holders.iter().find(|&&one| one != lost) == Some(&me)
            })
            .map(|(key, _)| key)
            .collect();
        let progress = Progress { missing: left.len() as u64, ..Progress::default() };
        Self { me, policy, lost, left, sent: BTreeMap::new(), number: 0, progress, outputs: VecDeque::new() }
    }

    pub(crate) const fn lost(&self) -> Peer {
        self.lost
    }

    pub(crate) const fn progress(&self) -> Progress {
        self.progress
    }

    pub(crate) fn go_on(&mut self, now: Nanos, shelf: &Shelf) {
        while self.sent.len() < self.policy.recovery.streams as usize {
            let Some(key) = self.left.pop_front() else { return };
            let Some(object) = shelf.latest(key) else { continue };
            let salt = u32::try_from(key.mixed(5) % u64::from(self.policy.nodes)).unwrap_or(0);
            let to = (0..self.policy.nodes)
                .map(|step| Peer((salt + step) % self.policy.nodes))
                .find(|one| !object.holders.contains(one));
            let Some(to) = to else { continue };
            self.number += 1;
            let again = now + self.policy.give_up;
            let sent = Sent { key, to, bytes: object.bytes, version: object.version, again };
            self.send(self.number, &sent, shelf);
            self.sent.insert(self.number, sent);
        }
    }

    fn send(&mut self, number: u32, sent: &Sent, shelf: &Shelf) {
        let Some(object) = shelf.latest(sent.key).cloned() else { return };
        let attempt = Attempt { client: self.me, operation: OPERATION, number };
        let message = Message::Put { attempt, key: sent.key, object, incarnation: None };
        self.outputs.push_back(Output::Send(To::Peer(sent.to), message));
    }

    /// Another node has it: this version, or a later one.
    pub(crate) fn kept(&mut self, now: Nanos, attempt: Attempt, version: Version, shelf: &Shelf) {
        if attempt.operation != OPERATION {
            return;
        }
        let Some(sent) = self.sent.get(&attempt.number).filter(|sent| version >= sent.version) else {
            return;
        };
        self.progress.made += 1;
        self.progress.bytes += sent.bytes;
        self.sent.remove(&attempt.number);
        self.go_on(now, shelf);
    }

    pub(crate) fn next_event(&self) -> Option<Nanos> {
        self.sent.values().map(|sent| sent.again).min()
    }

    pub(crate) fn wake(&mut self, now: Nanos, shelf: &Shelf) {
        let due: Vec<u32> =
            self.sent.iter().filter(|(_, sent)| sent.again <= now).map(|(&number, _)| number).collect();
        for number in due {
            let Some(mut sent) = self.sent.remove(&number) else { continue };
            sent.again = now + self.policy.give_up;
            self.send(number, &sent, shelf);
            self.sent.insert(number, sent);
        }
    }

    pub(crate) fn output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }
}
