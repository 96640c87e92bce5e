//! What a disk has done: requests that are complete, by kind, and for how long it had any.

use crate::model::Kind;
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

impl Usage {
    pub(crate) fn of(&mut self, kind: Kind) -> &mut Used {
        match kind {
            Kind::Read => &mut self.reads,
            Kind::Write => &mut self.writes,
            Kind::Flush => &mut self.flushes,
        }
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
