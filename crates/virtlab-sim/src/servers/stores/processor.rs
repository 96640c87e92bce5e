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
    /// What it was given to do, all together.
    given_ns: u64,
    /// What came and is not heard yet: when it is, from whom, and what.
    inbox: VecDeque<(u64, usize, Message)>,
}

impl Processor {
    /// One to which messages cost that.
    pub fn of(effort: Effort) -> Self {
        Self { effort, ..Self::default() }
    }

    /// Whether nothing takes it any time.
    pub fn is_free(&self) -> bool {
        self.effort.is_none()
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
        self.given_ns = self.given_ns.saturating_add(ns);
    }

    /// Processor time that it has used until now.
    pub fn used_ns(&self, now: Nanos) -> u64 {
        self.given_ns - self.busy_ns.saturating_sub(now.0)
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

    /// Nothing is left of what came. What was used until now stays used.
    pub fn forget(&mut self, now: Nanos) {
        *self = Self { given_ns: self.used_ns(now), ..Self::of(self.effort) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn processor() -> Processor {
        Processor::of(Effort { message_ns: 100, byte_per_s: Some(1_000_000_000) })
    }

    #[test]
    fn what_waits_is_not_used_yet() {
        let mut processor = processor();
        processor.says(Nanos(0), 300);
        processor.says(Nanos(100), 200);
        let used: Vec<u64> = [0, 100, 450, 500, 900].map(|ns| processor.used_ns(Nanos(ns))).into();
        assert_eq!(used, [0, 100, 450, 500, 500]);
    }

    #[test]
    fn what_a_node_that_fails_had_yet_to_do_is_never_used() {
        let mut processor = processor();
        processor.says(Nanos(0), 300);
        processor.forget(Nanos(120));
        processor.says(Nanos(1000), 50);
        assert_eq!([1000, 1050, 2000].map(|ns| processor.used_ns(Nanos(ns))), [120, 170, 170]);
    }
}
