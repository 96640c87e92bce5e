//! A client: operations in, answers out. It leads its attempts, or has a proxy or a primary lead them.
//!
//! Each attempt has a version of its own, later than any that it knows. So what an attempt that was given
//! up still writes, at whatever time, loses against the attempt that took its place and against all later writes.

pub(crate) mod coordinator;
pub(crate) mod heard;
pub(crate) mod proxy;
pub(crate) mod volume;

use crate::alarms::Alarms;
use crate::client::coordinator::{Coordinator, Ended};
use crate::message::listing::Listing;
use crate::message::nouns::{Key, Peer, Version};
use crate::message::{Attempt, Failure, Found, Message, Outcome, Output, Task, To};
use crate::policy::{Policy, WrittenBy};
use crate::table::Table;
use std::collections::VecDeque;
use virtlab_wire::Nanos;

#[derive(Debug)]
struct Running {
    key: Key,
    task: Task,
    number: u32,
    /// The next attempt.
    again: Nanos,
    end: Nanos,
    noted: Option<Nanos>,
}

impl Running {
    /// Whether no attempt has begun after this one, whose number may be any: a peer said it.
    const fn is_last(&self, attempt: Attempt) -> bool {
        attempt.number == self.number.wrapping_sub(1)
    }
}

/// A client.
#[derive(Debug)]
pub struct Client {
    me: Peer,
    policy: Policy,
    coordinator: Coordinator,
    running: Table<u64, Running>,
    alarms: Alarms<u64>,
    /// The latest that it knows of any version.
    stamp: u64,
    attempts: u64,
    outputs: VecDeque<Output>,
}

impl Client {
    /// One without operations.
    #[must_use]
    pub fn new(me: Peer, policy: Policy) -> Self {
        Self {
            me,
            policy,
            coordinator: Coordinator::new(policy),
            running: Table::default(),
            alarms: Alarms::default(),
            stamp: 0,
            attempts: 0,
            outputs: VecDeque::new(),
        }
    }

    /// An operation begins, by a number that no other has had.
    pub fn request(&mut self, now: Nanos, operation: u64, key: Key, task: Task) {
        let end = now + self.policy.give_up;
        self.running.insert(operation, Running { key, task, number: 0, again: now, end, noted: None });
        self.attempt(now, operation);
    }

    fn attempt(&mut self, now: Nanos, operation: u64) {
        let leader = self.running.get(operation).and_then(|one| self.leader(one));
        let Some(running) = self.running.get_mut(operation) else { return };
        let attempt = Attempt { client: self.me, operation, number: running.number };
        self.stamp = now.0.max(self.stamp.saturating_add(1));
        let version = Version { stamp: self.stamp, writer: self.me, number: self.attempts };
        self.attempts += 1;
        running.number += 1;
        let (key, task) = (running.key, running.task);
        if let Some(leader) = leader {
            running.again = now + self.policy.patience();
            self.outputs
                .push_back(Output::Send(To::Peer(leader), Message::Lead(attempt, key, task, version)));
        } else {
            running.again = running.end;
            self.coordinator.lead(now, attempt, key, task, version);
        }
        self.note(operation);
    }

    fn note(&mut self, operation: u64) {
        if let Some(one) = self.running.get_mut(operation) {
            self.alarms.set(operation, &mut one.noted, one.again.min(one.end));
        }
    }

    /// An operation has ended.
    fn answer(&mut self, operation: u64, outcome: Outcome, listing: Option<Listing>) {
        let Some(one) = self.running.remove(operation) else { return };
        self.alarms.forget(operation, one.noted);
        self.outputs.push_back(Output::Answer { operation, outcome, retries: one.number - 1, listing });
    }

    /// Who leads the next attempt, if not the client.
    fn leader(&self, running: &Running) -> Option<Peer> {
        let primary = || self.policy.primary_of(running.key, running.number);
        let leads = self.policy.written_by == WrittenBy::Primary && running.task.is_write();
        self.policy.proxy_of(self.me, running.number).or_else(|| leads.then(primary))
    }

    /// See [`Coordinator::foresees`].
    pub fn foresees(&mut self, attempt: Attempt, found: &Found) -> bool {
        self.coordinator.foresees(attempt, found)
    }

    /// See [`Coordinator::hear_ahead`].
    pub fn hear_ahead(&mut self, attempt: Attempt, from: Peer, found: Found, is_soon: bool) -> Option<Found> {
        self.coordinator.hear_ahead(attempt, from, found, is_soon)
    }

    /// See [`Coordinator::hear_kept_ahead`].
    pub fn hear_kept_ahead(
        &mut self,
        at: Nanos,
        attempt: Attempt,
        from: Peer,
        version: Version,
        whole: bool,
    ) -> bool {
        self.coordinator.hear_kept_ahead(at, attempt, from, version, whole)
    }

    /// See [`Coordinator::has_ended`].
    #[must_use]
    pub fn has_ended(&self, attempt: Attempt) -> bool {
        self.coordinator.has_ended(attempt)
    }

    /// A message comes.
    pub fn handle(&mut self, now: Nanos, from: Peer, message: Message) {
        match message {
            Message::Led(attempt, _, outcome) => self.end(now, attempt, outcome, None),
            Message::Page(attempt, listing) => {
                let done = Outcome::Done { version: Version::default(), bytes: 0, content: 0 };
                self.end(now, attempt, done, Some(listing));
            }
            other => self.coordinator.handle(now, from, other),
        }
        self.ended(now);
    }

    fn ended(&mut self, now: Nanos) {
        while let Some(Ended { attempt, outcome, listing, .. }) = self.coordinator.ended() {
            self.end(now, attempt, outcome, listing);
        }
    }

    fn end(&mut self, now: Nanos, attempt: Attempt, outcome: Outcome, listing: Option<Listing>) {
        let Some(running) = self.running.get_mut(attempt.operation) else { return };
        match outcome {
            Outcome::Superseded(version) => {
                self.stamp = self.stamp.max(version.stamp);
                if running.is_last(attempt) {
                    // Two that supersede each other in turn must not do so at the same pace.
                    let salt = u64::from(self.me.0) + 31 * u64::from(running.number);
                    running.again = now + Nanos(running.key.mixed(salt) % self.policy.question.0);
                }
            }
            Outcome::Failed(_) if running.end > now => {
                if running.is_last(attempt) {
                    running.again = now;
                }
            }
            // What an earlier attempt wrote may yet be replaced by the last one, so that alone says that it is done.
            _ if running.task.is_write() && !running.is_last(attempt) => {}
            outcome => self.answer(attempt.operation, outcome, listing),
        }
        self.note(attempt.operation);
    }

    /// When it must be woken, at the latest.
    #[must_use]
    pub fn next_event(&self) -> Option<Nanos> {
        self.alarms.next().into_iter().chain(self.coordinator.next_event()).min()
    }

    /// It is `now`.
    pub fn wake(&mut self, now: Nanos) {
        self.coordinator.wake(now);
        self.ended(now);
        for operation in self.alarms.due(now) {
            match self.running.get(operation) {
                Some(one) if one.end <= now => {
                    self.answer(operation, Outcome::Failed(Failure::TimedOut), None);
                }
                _ => self.attempt(now, operation),
            }
        }
    }

    /// What its driver must do next.
    pub fn output(&mut self) -> Option<Output> {
        self.outputs.pop_front().or_else(|| self.coordinator.output())
    }
}
