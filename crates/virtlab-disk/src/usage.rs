//! What a disk has done: requests that are complete, by kind, and for how long it had any.

use crate::model::{Kind, Request};
use std::iter::Sum;
use std::ops::Add;
use virtlab_wire::Nanos;

/// Of one kind of request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Used {
    /// Requests that are complete.
    pub operations: u64,
    /// Their bytes.
    pub bytes: u64,
    /// From each request to its completion, added up.
    pub time: Nanos,
    /// For how long there was at least one.
    pub busy: Nanos,
}

/// Of a disk, until an instant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Reads.
    pub reads: Used,
    /// Writes.
    pub writes: Used,
    /// Flushes.
    pub flushes: Used,
    /// For how long there was at least one request of any kind.
    pub busy: Nanos,
}

/// Names of a kind's metrics and counters.
struct Names {
    operations: &'static str,
    rate: &'static str,
    time: &'static str,
    counters: [&'static str; 3],
}

const READS: Names = Names {
    operations: "disk_reads",
    rate: "disk_read",
    time: "disk_read_time",
    counters: ["disk_reads", "disk_read_bytes", "disk_read_ns"],
};
const WRITES: Names = Names {
    operations: "disk_writes",
    rate: "disk_written",
    time: "disk_write_time",
    counters: ["disk_writes", "disk_written_bytes", "disk_write_ns"],
};

impl Usage {
    /// Values of metrics over the time since an earlier usage, of so many disks together: operations and bytes per
    /// second, the mean time of an operation, which is absent without one, and the share of the time in which a disk
    /// had a request.
    pub fn rates(&self, before: &Self, elapsed: Nanos, disks: usize) -> Vec<(&'static str, f64)> {
        let mut values = Vec::new();
        if elapsed == Nanos::ZERO {
            return values;
        }
        let (elapsed_ns, more) = (elapsed.0 as f64, |now: u64, then: u64| now.saturating_sub(then) as f64);
        for (names, now, then) in
            [(&READS, &self.reads, &before.reads), (&WRITES, &self.writes, &before.writes)]
        {
            let operations = more(now.operations, then.operations);
            values.push((names.operations, operations * 1e9 / elapsed_ns));
            values.push((names.rate, more(now.bytes, then.bytes) * 1e9 / elapsed_ns));
            if operations > 0.0 {
                values.push((names.time, more(now.time.0, then.time.0) / operations));
            }
        }
        values.push(("disk_busy", more(self.busy.0, before.busy.0) / elapsed_ns / disks.max(1) as f64));
        values
    }

    /// Counters by their names.
    #[must_use]
    pub fn counters(&self) -> [(&'static str, u64); 9] {
        let [reads, writes] = [(&READS, &self.reads), (&WRITES, &self.writes)].map(|(names, used)| {
            let [operations, bytes, time] = names.counters;
            [(operations, used.operations), (bytes, used.bytes), (time, used.time.0)]
        });
        let flushes = [("disk_flushes", self.flushes.operations), ("disk_flush_ns", self.flushes.time.0)];
        [
            reads[0],
            reads[1],
            reads[2],
            writes[0],
            writes[1],
            writes[2],
            flushes[0],
            flushes[1],
            ("disk_busy_ns", self.busy.0),
        ]
    }

    pub(crate) fn of(&mut self, kind: Kind) -> &mut Used {
        match kind {
            Kind::Read => &mut self.reads,
            Kind::Write => &mut self.writes,
            Kind::Flush => &mut self.flushes,
        }
    }
}

impl Add for Used {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self {
            operations: self.operations + other.operations,
            bytes: self.bytes + other.bytes,
            time: self.time + other.time,
            busy: self.busy + other.busy,
        }
    }
}

impl Add for Usage {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self {
            reads: self.reads + other.reads,
            writes: self.writes + other.writes,
            flushes: self.flushes + other.flushes,
            busy: self.busy + other.busy,
        }
    }
}

impl Sum for Usage {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), Self::add)
    }
}

/// For how long something lasts that may overlap: the union of intervals, each given when it begins.
#[derive(Clone, Copy, Debug, Default)]
struct Union {
    all: Nanos,
    until: Nanos,
}

impl Union {
    fn add(&mut self, from: Nanos, until: Nanos) {
        self.all += until.since(from.max(self.until));
        self.until = self.until.max(until);
    }

    /// Of it what lies before an instant, at which all have begun.
    fn before(&self, now: Nanos) -> Nanos {
        self.all.since(self.until.since(now))
    }
}

/// For how long there are requests.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Busy {
    by_kind: [Union; 3],
    all: Union,
}

impl Busy {
    pub fn add(&mut self, kind: Kind, from: Nanos, until: Nanos) {
        self.by_kind[kind as usize].add(from, until);
        self.all.add(from, until);
    }

    /// Tells for how long there were requests before an instant.
    pub fn tell(&self, now: Nanos, usage: &mut Usage) {
        for kind in [Kind::Read, Kind::Write, Kind::Flush] {
            usage.of(kind).busy = self.by_kind[kind as usize].before(now);
        }
        usage.busy = self.all.before(now);
    }
}

/// For how long there is something of which neither end is known before it comes.
#[derive(Clone, Copy, Debug, Default)]
struct Open {
    all: Nanos,
    since: Nanos,
    depth: u64,
}

impl Open {
    fn begin(&mut self, now: Nanos) {
        if self.depth == 0 {
            self.since = now;
        }
        self.depth += 1;
    }

    fn end(&mut self, now: Nanos) {
        self.depth = self.depth.saturating_sub(1);
        if self.depth == 0 {
            self.all += now.since(self.since);
        }
    }

    fn before(&self, now: Nanos) -> Nanos {
        if self.depth == 0 { self.all } else { self.all + now.since(self.since) }
    }
}

/// What a disk has done that does not know when a request will be complete, and says when it is.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    done: Usage,
    by_kind: [Open; 3],
    all: Open,
    /// Of one on a store: what that was asked again.
    pub retries: u64,
    /// Of one on a store: reads of blocks that it had lost.
    pub lost: u64,
}

impl Tally {
    /// A request comes.
    pub fn begin(&mut self, now: Nanos, kind: Kind) {
        self.by_kind[kind as usize].begin(now);
        self.all.begin(now);
    }

    /// A request is complete that came at that instant.
    pub fn end(&mut self, now: Nanos, came: Nanos, request: Request) {
        self.by_kind[request.kind as usize].end(now);
        self.all.end(now);
        let used = self.done.of(request.kind);
        used.operations += 1;
        used.bytes += request.bytes;
        used.time += now.since(came);
    }

    /// What was done by now.
    #[must_use]
    pub fn usage(&self, now: Nanos) -> Usage {
        let mut usage = self.done;
        for kind in [Kind::Read, Kind::Write, Kind::Flush] {
            usage.of(kind).busy = self.by_kind[kind as usize].before(now);
        }
        usage.busy = self.all.before(now);
        usage
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tally_is_busy_while_anything_is_open() {
        let mut tally = Tally::default();
        let of = |kind| Request { kind, offset: 0, bytes: 512 };
        tally.begin(Nanos(0), Kind::Write);
        tally.begin(Nanos(5), Kind::Read);
        tally.end(Nanos(7), Nanos(5), of(Kind::Read));
        assert_eq!(tally.usage(Nanos(8)).busy, Nanos(8), "the write is still open");
        tally.end(Nanos(10), Nanos(0), of(Kind::Write));
        tally.begin(Nanos(20), Kind::Write);
        tally.end(Nanos(23), Nanos(20), of(Kind::Write));
        let usage = tally.usage(Nanos(40));
        assert_eq!((usage.busy, usage.reads.busy, usage.writes.busy), (Nanos(13), Nanos(2), Nanos(13)));
        assert_eq!((usage.writes.operations, usage.writes.bytes, usage.writes.time), (2, 1024, Nanos(13)));
    }
}
