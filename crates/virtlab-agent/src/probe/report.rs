//! What a role hands back when its traffic is over: tables of samples, counters, and reasons to doubt them.

use super::spool::{Record, Spool, Table};
use std::collections::BTreeMap;
use virtlab_load::Histogram;
use virtlab_wire::Nanos;

/// A sender or receiver later than this was not running when it should have been: a stall.
pub const STALL: Nanos = Nanos(1_000_000);
/// Larger shares of stalled sends than this taint the role.
const STARVED_RATIO: f64 = 0.05;
/// Fewer stalls than this never do: a single one in a short role says little.
const STARVED_LEAST: u64 = 3;

/// Samples, counters and taints of a role.
#[derive(Default)]
pub struct Report {
    /// Sample tables, by schema.
    pub tables: Vec<Box<dyn Table>>,
    /// Counters by name; repeated names add up.
    pub counters: BTreeMap<String, i64>,
    /// Why the samples should not be trusted.
    pub taints: Vec<String>,
    /// Why the traffic ended before its time, if it did.
    pub failure: Option<String>,
    /// Pacing error of each send.
    pub pacing: Histogram,
    /// Whether every planned packet was sent.
    pub complete: bool,
    /// Whether the receiver's buffer is as small as the role asked: what it drops then belongs to what is measured.
    pub buffer_as_asked: bool,
}

impl std::fmt::Debug for Report {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Report")
            .field("counters", &self.counters)
            .field("taints", &self.taints)
            .finish()
    }
}

impl Report {
    /// Adds to a counter.
    pub fn add(&mut self, counter: &str, value: u64) {
        *self.counters.entry(counter.to_owned()).or_default() += i64::try_from(value).unwrap_or(i64::MAX);
    }

    /// Adds a table.
    pub fn table<R: Record>(&mut self, spool: Spool<R>) {
        self.tables.push(Box::new(spool));
    }

    /// Adds what another thread of the same role found.
    pub fn merge(&mut self, other: Self) {
        for (name, value) in other.counters {
            *self.counters.entry(name).or_default() += value;
        }
        self.tables.extend(other.tables);
        self.taints.extend(other.taints);
        self.pacing.merge(&other.pacing);
        self.failure = self.failure.take().or(other.failure);
        self.buffer_as_asked |= other.buffer_as_asked;
    }

    /// Derives the probe's own health from what was counted, once, after the traffic.
    pub fn close(&mut self) {
        let stalls = self.pacing.above(STALL);
        if !self.pacing.is_empty() {
            self.add("stalls", stalls);
            self.add("stall_max_ns", if stalls > 0 { self.pacing.largest().0 } else { 0 });
            self.add("pacing_error_p99_ns", self.pacing.quantile(0.99).map_or(0, |error| error.0));
        }
        if stalls >= STARVED_LEAST && stalls as f64 > STARVED_RATIO * self.pacing.len() as f64 {
            let (n, worst) = (self.pacing.len(), self.pacing.largest().0);
            self.taints.push(format!(
                "starved: {stalls} of {n} sends were late by more than 1 ms, at most {worst} ns"
            ));
        }
        let drops = self.counters.get("socket_drops").filter(|drops| **drops > 0 && !self.buffer_as_asked);
        if let Some(drops) = drops {
            self.taints.push(format!("socket_drops: the receiver's own buffer dropped {drops} packets"));
        }
        if let Some(drops) = self.counters.get("ring_drops").filter(|drops| **drops > 0) {
            self.taints.push(format!("ring_drops: the receiver's own ring dropped {drops} frames"));
        }
        let overflowed: u64 = self.tables.iter().map(|table| table.overflowed()).sum();
        self.add("spool_overflow", overflowed);
        if overflowed > 0 {
            self.taints.push(format!("spool_overflow: {overflowed} samples found no memory"));
        }
        if let Some(failure) = &self.failure {
            self.taints.push(format!("failed: {failure}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_late_sends_taint_and_few_do_not() {
        let tainted = |late: u64| {
            let mut report = Report::default();
            (0..100).for_each(|k| report.pacing.record(if k < late { Nanos(5_000_000) } else { Nanos(10) }));
            report.close();
            (report.counters["stalls"], !report.taints.is_empty())
        };
        assert_eq!(tainted(0), (0, false));
        assert_eq!(tainted(5), (5, false));
        assert_eq!(tainted(6), (6, true));
    }

    #[test]
    fn drops_of_the_receiver_itself_taint() {
        let mut report = Report::default();
        report.add("socket_drops", 4);
        report.close();
        assert!(report.taints[0].starts_with("socket_drops: "));
    }

    #[test]
    fn drops_of_a_buffer_that_was_asked_for_are_counted_and_do_not() {
        let mut report = Report { buffer_as_asked: true, ..Report::default() };
        report.add("socket_drops", 4);
        report.close();
        assert_eq!((report.counters["socket_drops"], report.taints.len()), (4, 0));
    }
}
