//! What a role has seen so far: running totals that its threads keep and the control thread reads, shown to the user.
//!
//! They are for people and never results: samples travel after the traffic. Each thread has a tally of its own, on
//! a cache line of its own, and is its only writer, so keeping one costs plain moves and no locked instruction. A
//! reader may find one total a packet ahead of another.

use serde_json::{Value, json};
use std::sync::atomic::{AtomicU64, Ordering};

/// Totals of one thread.
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct Tally {
    seen: AtomicU64,
    bytes: AtomicU64,
    expected: AtomicU64,
    timed: AtomicU64,
    time_ns: AtomicU64,
}

/// Its owner alone writes, so reading and writing apart loses nothing.
fn raise(total: &AtomicU64, by: u64) {
    total.store(total.load(Ordering::Relaxed).wrapping_add(by), Ordering::Relaxed);
}

impl Tally {
    /// A packet, answer, or transaction arrived, with so many bytes.
    #[inline]
    pub fn seen(&self, bytes: u64) {
        raise(&self.seen, 1);
        raise(&self.bytes, bytes);
    }

    /// So many more are known to have been sent: loss shows as what was expected and not seen.
    #[inline]
    pub fn expect(&self, more: u64) {
        raise(&self.expected, more);
    }

    /// What was seen had taken so long.
    #[inline]
    pub fn took(&self, time_ns: u64) {
        raise(&self.timed, 1);
        raise(&self.time_ns, time_ns);
    }
}

/// The sums of several, as they are told.
pub fn sums<'a>(tallies: impl Iterator<Item = &'a Tally> + Clone) -> Value {
    let sum = |of: fn(&Tally) -> &AtomicU64| -> u64 {
        tallies.clone().map(|tally| of(tally).load(Ordering::Relaxed)).fold(0, u64::wrapping_add)
    };
    json!({
        "seen": sum(|tally| &tally.seen),
        "bytes": sum(|tally| &tally.bytes),
        "expected": sum(|tally| &tally.expected),
        "timed": sum(|tally| &tally.timed),
        "time_ns": sum(|tally| &tally.time_ns),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_of_all_threads_are_told_together() {
        let tallies = [Tally::default(), Tally::default()];
        std::thread::scope(|scope| {
            for tally in &tallies {
                scope.spawn(|| {
                    (0..1000).for_each(|_| tally.seen(100));
                    tally.expect(1010);
                    tally.took(7);
                });
            }
        });
        let told = sums(tallies.iter());
        let wanted = json!({"seen": 2000, "bytes": 200_000, "expected": 2020, "timed": 2, "time_ns": 14});
        assert_eq!(told, wanted);
    }
}
