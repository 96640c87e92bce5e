//! The processor of a node or a proxy: what comes is heard one after another, each for what it costs.

use std::collections::VecDeque;
use virtlab_store::{Effort, Message};
use virtlab_wire::Nanos;

/// First come, first served.
#[derive(Debug, Default)]
pub struct Processor {
    effort: Effort,
    /// Until when it has something to do.
    busy_ns: u64,
    /// What came and is not heard yet: when it is, from whom, and what.
    inbox: VecDeque<(u64, usize, Message)>,
}

impl Processor {
    /// One to which messages cost that.
    pub fn of(effort: Effort) -> Self {
        Self { effort, ..Self::default() }
    }

    /// Something comes; it is given back where it takes no time.
    pub fn takes(&mut self, now: Nanos, from: usize, message: Message) -> Option<Message> {
        if self.effort.is_none() {
            return Some(message);
        }
        self.work(now, self.effort.message_ns + self.effort.of_bytes(message.bytes()));
        self.inbox.push_back((self.busy_ns, from, message));
        None
    }

    /// So many octets are said. That delays what is heard next.
    pub fn says(&mut self, now: Nanos, bytes: u64) {
        self.work(now, self.effort.of_bytes(bytes));
    }

    fn work(&mut self, now: Nanos, ns: u64) {
        self.busy_ns = self.busy_ns.max(now.0).saturating_add(ns);
    }

    /// From whom something came that is heard by now, and what.
    pub fn done(&mut self, now: Nanos) -> Option<(usize, Message)> {
        self.inbox.front().filter(|(at_ns, ..)| *at_ns <= now.0)?;
        self.inbox.pop_front().map(|(_, from, message)| (from, message))
    }

    /// When something is heard next.
    pub fn next_ns(&self) -> Option<u64> {
        self.inbox.front().map(|(at_ns, ..)| *at_ns)
    }

    /// Nothing is left of what came.
    pub fn forget(&mut self) {
        *self = Self::of(self.effort);
    }
}
