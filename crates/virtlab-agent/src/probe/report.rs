//! What a role hands back when its traffic is over: tables of samples, counters, and reasons to doubt them.

use super::spool::{Spool, Table};
use super::taint::{Kind, Taint};
use super::watchdog::{self, Stalls};
use std::collections::BTreeMap;
use virtlab_load::Histogram;
use virtlab_wire::Nanos;
use virtlab_wire::rows::Record;

/// A sender or receiver later than this was not running when it should have been: a stall.
pub const STALL: Nanos = Nanos(1_000_000);
/// Larger shares of stalled sends or answers than this taint the role.
const STARVED_RATIO: f64 = 0.05;
/// Fewer stalls than this never do: a single one in a short role says little.
const STARVED_LEAST: u64 = 3;

/// What is counted when the samples are collected.
pub type Last = Box<dyn Fn() -> anyhow::Result<Vec<(&'static str, u64)>> + Send + Sync>;

/// Samples, counters and taints of a role.
#[derive(Default)]
pub struct Report {
    /// Sample tables, by schema.
    pub tables: Vec<Box<dyn Table>>,
    /// Counters by name; repeated names add up.
    pub counters: BTreeMap<String, i64>,
    /// Why the samples should not be trusted.
    pub taints: Vec<Taint>,
    /// Why the traffic ended before its time, if it did.
    pub failure: Option<String>,
    /// Pacing error of each send.
    pub pacing: Histogram,
    /// How long what had come waited for the thread that answers or takes it.
    pub waits: Histogram,
    /// When the whole process stood still.
    pub standstills: Stalls,
    /// Counters that are known once all traffic of the trial is over.
    pub last: Option<Last>,
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

    /// Adds a reason to doubt the samples.
    pub fn taint(&mut self, kind: Kind, text: String) {
        self.taints.push(Taint { kind, text });
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
        self.waits.merge(&other.waits);
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
        if is_starved(&self.pacing) {
            let (n, worst) = (self.pacing.len(), self.pacing.largest().0);
            self.taint(
                Kind::Starved,
                format!("{stalls} of {n} sends were late by more than 1 ms, at most {worst} ns"),
            );
        }
        self.close_waits();
        self.close_standstills();
        let drops = self.counters.get("socket_drops").filter(|drops| **drops > 0 && !self.buffer_as_asked);
        if let Some(drops) = drops {
            self.taint(Kind::SocketDrops, format!("the receiver's own buffer dropped {drops} packets"));
        }
        if let Some(drops) = self.counters.get("ring_drops").filter(|drops| **drops > 0) {
            self.taint(Kind::RingDrops, format!("the receiver's own ring dropped {drops} frames"));
        }
        let overflowed: u64 = self.tables.iter().map(|table| table.overflowed()).sum();
        self.add("spool_overflow", overflowed);
        if overflowed > 0 {
            self.taint(Kind::SpoolOverflow, format!("{overflowed} samples found no memory"));
        }
        if let Some(failure) = self.failure.clone() {
            self.taint(Kind::Failed, failure);
        }
    }

    fn close_waits(&mut self) {
        if self.waits.is_empty() {
            return;
        }
        let (n, stalls, worst) = (self.waits.len(), self.waits.above(STALL), self.waits.largest());
        self.add("answer_stalls", stalls);
        self.add("answer_stall_max_ns", if stalls > 0 { worst.0 } else { 0 });
        if is_starved(&self.waits) || worst >= watchdog::STALL {
            self.taint(Kind::Starved, format!(
                "{stalls} of {n} packets waited more than 1 ms for the thread that takes them, at most {} ns",
                worst.0
            ));
        }
    }

    fn close_standstills(&mut self) {
        let Stalls { count, longest } = self.standstills;
        self.add("standstills", count);
        self.add("standstill_max_ns", longest.0);
        if count > 0 {
            self.taint(
                Kind::Starved,
                format!("the probe stood still {count} times for 20 ms or longer, at most {} ns", longest.0),
            );
        }
    }
}

/// Whether too large a share was a stall.
fn is_starved(times: &Histogram) -> bool {
    let stalls = times.above(STALL);
    stalls >= STARVED_LEAST && stalls as f64 > STARVED_RATIO * times.len() as f64
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
    fn a_single_answer_that_waited_20_ms_taints_and_one_of_19_ms_does_not() {
        let tainted = |wait_ms: u64| {
            let mut report = Report::default();
            (0..1000).for_each(|_| report.waits.record(Nanos(10)));
            report.waits.record(Nanos(wait_ms * 1_000_000));
            report.close();
            (report.counters["answer_stalls"], report.taints.iter().any(|taint| taint.kind == Kind::Starved))
        };
        assert_eq!(tainted(0), (0, false));
        assert_eq!(tainted(19), (1, false));
        assert_eq!(tainted(20), (1, true));
    }

    #[test]
    fn a_process_that_stood_still_taints() {
        let standstills = Stalls { count: 1, longest: Nanos(500_000_000) };
        let mut report = Report { standstills, ..Report::default() };
        report.close();
        assert_eq!(report.counters["standstill_max_ns"], 500_000_000);
        assert!(report.taints[0].text.starts_with("the probe stood still 1 times"), "{:?}", report.taints);
    }

    #[test]
    fn drops_of_the_receiver_itself_taint() {
        let mut report = Report::default();
        report.add("socket_drops", 4);
        report.close();
        assert_eq!(report.taints[0].kind, Kind::SocketDrops);
    }

    #[test]
    fn drops_of_a_buffer_that_was_asked_for_are_counted_and_do_not() {
        let mut report = Report { buffer_as_asked: true, ..Report::default() };
        report.add("socket_drops", 4);
        report.close();
        assert_eq!((report.counters["socket_drops"], report.taints.len()), (4, 0));
    }
}
