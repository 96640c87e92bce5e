//! Whether what a node is about to pull was replaced elsewhere.
//!
//! By multicast a write that failed may have left its copy at fewer than `write_quorum` of the holders that it chose.
//! The next write of the key may choose others, if it did not hear of that copy, and be answered. Then the first copy
//! must not spread: as soon as `write_quorum` nodes agree on its holders, readers take them for those of the key. So a
//! node that would be one of these asks all others for later versions first, and does not pull what was replaced. As
//! many whole nodes must answer as know every confirmed write (`Policy::roll_call`).
//!
//! Where as many holders as that list an object already, one more copy changes no answer, and the node does not ask.
//! So it asks for few objects, unless a write needs all of its copies.

use crate::message::Message;
use crate::message::listing::Name;
use crate::message::nouns::{Key, Object, Peer, Version};
use crate::recovery::pages::Pages;
use std::collections::BTreeMap;

/// How many names a question has, at most.
const PAGE: usize = 512;

/// Objects that few of their holders have listed.
#[derive(Debug)]
pub(super) struct Doubts {
    round: u64,
    /// In the order of keys; one at least.
    names: Vec<Name>,
    /// By place in the names.
    nodes: BTreeMap<Peer, Pages<usize>>,
    /// The latest version that is somewhere else.
    elsewhere: BTreeMap<Key, Version>,
}

impl Doubts {
    /// About which these nodes are to be asked.
    pub(super) fn new(round: u64, names: Vec<Name>, nodes: impl Iterator<Item = Peer>) -> Self {
        let nodes = nodes.map(|peer| (peer, Pages::none())).collect();
        Self { round, names, nodes, elsewhere: BTreeMap::new() }
    }

    fn question(&self, from: usize) -> Message {
        let names = self.names[from..].iter().take(PAGE).copied().collect();
        Message::Compare { round: self.round, names }
    }

    /// To those who have not answered everything, and to those who were not whole, from the beginning.
    pub(super) fn questions(&self) -> Vec<(Peer, Message)> {
        let open = self.nodes.iter().filter_map(|(&peer, pages)| Some((peer, pages.next()?)));
        open.map(|(peer, place)| (peer, self.question(place))).collect()
    }

    /// A node has answered the question that ends with a key; the next one to it. What it holds is told before, by
    /// [`Doubts::is_elsewhere`].
    pub(super) fn answered(&mut self, from: Peer, last: Key, whole: bool) -> Option<Message> {
        let pages = self.nodes.get_mut(&from)?;
        let end = (pages.next()? + PAGE).min(self.names.len());
        if self.names[end - 1].key != last {
            return None;
        }
        let next = (end < self.names.len()).then_some(end);
        pages.turn(whole, next);
        next.map(|place| self.question(place))
    }

    /// Another node has a later version of a key, and the one that recovers is no holder of it.
    pub(super) fn is_elsewhere(&mut self, key: Key, object: &Object) {
        let latest = self.elsewhere.entry(key).or_insert(object.version);
        *latest = object.version.max(*latest);
    }

    /// How many whole nodes have answered everything.
    pub(super) fn heard(&self) -> usize {
        self.nodes.values().filter(|pages| pages.is_whole()).count()
    }

    /// Of each key that has a later version elsewhere, which.
    pub(super) fn replaced(self) -> BTreeMap<Key, Version> {
        self.elsewhere
    }
}
