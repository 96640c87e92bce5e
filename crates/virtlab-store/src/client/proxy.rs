//! A proxy: leads attempts of clients and tells them how these ended. A storage node has one, too, as a primary.
//!
//! Where a primary sends the copies, a proxy passes writes on to one, and what came of them back. It keeps nothing of
//! them meanwhile: which primary it is follows from the attempt, and whom to tell, too. What is lost on its way is
//! tried again by the client, by way of another proxy and another primary.

use crate::client::coordinator::{Coordinator, Ended};
use crate::message::nouns::Peer;
use crate::message::{Attempt, Message, Output, Task, To};
use crate::policy::{Policy, WrittenBy};
use std::collections::{BTreeMap, VecDeque};
use virtlab_wire::Nanos;

/// A proxy.
#[derive(Debug)]
pub struct Proxy {
    policy: Policy,
    coordinator: Coordinator,
    /// Of attempts that it leads for another proxy: whom to tell.
    asked: BTreeMap<Attempt, Peer>,
    passed: VecDeque<Output>,
}

impl Proxy {
    /// One without attempts.
    #[must_use]
    pub fn new(policy: Policy) -> Self {
        let coordinator = Coordinator::new(policy);
        Self { policy, coordinator, asked: BTreeMap::new(), passed: VecDeque::new() }
    }

    /// A message comes.
    pub fn handle(&mut self, now: Nanos, from: Peer, message: Message) {
        match message {
            Message::Lead(attempt, key, task, _) if self.passes_on(from, task) => {
                let primary = self.policy.primary_of(key, attempt.number);
                self.passed.push_back(Output::Send(To::Peer(primary), message));
            }
            Message::Lead(attempt, key, task, version) => {
                if from != attempt.client {
                    self.asked.entry(attempt).or_insert(from);
                }
                self.coordinator.lead(now, attempt, key, task, version);
            }
            Message::Led(Attempt { client, .. }, ..) => {
                if self.passes() && self.policy.is_client(client) {
                    self.passed.push_back(Output::Send(To::Peer(client), message));
                }
            }
            other => self.coordinator.handle(now, from, other),
        }
    }

    /// Whether there are proxies that pass on what clients write.
    const fn passes(&self) -> bool {
        self.policy.proxies > 0 && matches!(self.policy.written_by, WrittenBy::Primary)
    }

    const fn passes_on(&self, from: Peer, task: Task) -> bool {
        self.passes() && self.policy.is_client(from) && task.is_write()
    }

    /// When it must be woken, at the latest.
    #[must_use]
    pub fn next_event(&self) -> Option<Nanos> {
        self.coordinator.next_event()
    }

    /// It is `now`.
    pub fn wake(&mut self, now: Nanos) {
        self.coordinator.wake(now);
    }

    /// What its driver must do next.
    pub fn output(&mut self) -> Option<Output> {
        if let Some(Ended { attempt, key, outcome, listing }) = self.coordinator.ended() {
            let to = self.asked.remove(&attempt).unwrap_or(attempt.client);
            let led = || Message::Led(attempt, key, outcome);
            let message = listing.map_or_else(led, |listing| Message::Page(attempt, listing));
            return Some(Output::Send(To::Peer(to), message));
        }
        self.passed.pop_front().or_else(|| self.coordinator.output())
    }
}
