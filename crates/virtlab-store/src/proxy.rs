//! A proxy: leads attempts of clients and tells them how these ended. A storage node has one, too, as a primary.

use crate::coordinator::Coordinator;
use crate::message::{Message, Output, To};
use crate::nouns::Peer;
use crate::policy::Policy;
use virtlab_wire::Nanos;

/// A proxy.
#[derive(Debug)]
pub struct Proxy {
    coordinator: Coordinator,
}

impl Proxy {
    /// One without attempts.
    #[must_use]
    pub fn new(policy: Policy) -> Self {
        Self { coordinator: Coordinator::new(policy) }
    }

    /// A message comes.
    pub fn handle(&mut self, now: Nanos, from: Peer, message: Message) {
        match message {
            Message::Lead(attempt, key, task, version) => {
                self.coordinator.lead(now, attempt, key, task, version);
            }
            other => self.coordinator.handle(now, from, other),
        }
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
        if let Some((attempt, key, outcome)) = self.coordinator.ended() {
            return Some(Output::Send(To::Peer(attempt.client), Message::Led(attempt, key, outcome)));
        }
        self.coordinator.output()
    }
}
