//! The state of a disk: when its medium is free, what its cache holds, and which requests are under way.
//!
//! All is known when a request comes: nothing that comes later changes when it completes.

use crate::model::{Kind, Model, Refused, Request};
use crate::usage::{Busy, Usage};
use std::collections::VecDeque;
use virtlab_wire::Nanos;

/// A request that is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// Its driver's handle.
    pub id: u64,
    /// When it came, and when it was complete.
    pub came: Nanos,
    /// Not later than the instant that was asked about.
    pub at: Nanos,
    /// What it was.
    pub request: Request,
}

/// A write that the cache holds: from when the medium has it, and its bytes.
#[derive(Clone, Copy, Debug)]
struct Cached {
    until: Nanos,
    bytes: u64,
}

/// The cache: what it has taken, or is about to.
#[derive(Debug, Default)]
struct Cache {
    held: VecDeque<Cached>,
    bytes: u64,
    /// When the last write was taken.
    taken: Nanos,
    /// When all that was put into it is done.
    done: Nanos,
}

impl Cache {
    /// When it takes a write that comes now, of not more than the whole cache.
    fn take(&mut self, now: Nanos, bytes: u64, size_bytes: u64) -> Nanos {
        let mut at = now.max(self.taken);
        while let Some(first) =
            self.held.front().filter(|first| first.until <= at || self.bytes + bytes > size_bytes)
        {
            at = at.max(first.until);
            self.bytes -= first.bytes;
            self.held.pop_front();
        }
        self.taken = at;
        at
    }

    fn hold(&mut self, cached: Cached, done: Nanos) {
        self.bytes += cached.bytes;
        self.held.push_back(cached);
        self.done = done;
    }
}

/// A disk.
#[derive(Debug)]
pub struct Disk {
    model: Model,
    /// When the medium has taken all that came.
    free: Nanos,
    cache: Cache,
    /// By when they complete, then in the order in which they came.
    pending: VecDeque<Completion>,
    busy: Busy,
    usage: Usage,
}

impl Disk {
    /// One that nothing has asked yet.
    #[must_use]
    pub fn new(model: Model) -> Self {
        Self {
            model,
            free: Nanos::ZERO,
            cache: Cache::default(),
            pending: VecDeque::new(),
            busy: Busy::default(),
            usage: Usage::default(),
        }
    }

    /// What it is.
    #[must_use]
    pub const fn model(&self) -> &Model {
        &self.model
    }

    /// A request comes; when it will be complete.
    ///
    /// # Errors
    /// When it is not one of whole sectors of the disk; then nothing has happened.
    pub fn submit(&mut self, now: Nanos, id: u64, request: Request) -> Result<Nanos, Refused> {
        request.check(self.model.size_bytes)?;
        let at = match request.kind {
            Kind::Flush => now.max(self.cache.done),
            Kind::Read => self.through(now, request.bytes).1,
            Kind::Write if request.bytes > self.model.write_cache_bytes => self.through(now, request.bytes).1,
            Kind::Write => {
                let taken = self.cache.take(now, request.bytes, self.model.write_cache_bytes);
                let (until, done) = self.through(now, request.bytes);
                self.cache.hold(Cached { until, bytes: request.bytes }, done);
                taken
            }
        };
        self.busy.add(request.kind, now, at);
        let place = self.pending.partition_point(|before| before.at <= at);
        self.pending.insert(place, Completion { id, came: now, at, request });
        Ok(at)
    }

    /// From now on it counts on from what another one has counted, whose driver continues here.
    pub fn count_on(&mut self, other: &Self) {
        (self.usage, self.busy) = (other.usage, other.busy);
    }

    /// When the medium has taken so many more bytes, and when it has done them.
    fn through(&mut self, now: Nanos, bytes: u64) -> (Nanos, Nanos) {
        self.free = self.free.max(now) + self.model.holds(bytes);
        (self.free, self.free + Nanos(self.model.latency_ns))
    }

    /// When the next request is complete.
    #[must_use]
    pub fn next_event(&self) -> Option<Nanos> {
        self.pending.front().map(|first| first.at)
    }

    /// A request that is complete by now; to be asked until there is no other.
    pub fn complete(&mut self, now: Nanos) -> Option<Completion> {
        let completion = *self.pending.front().filter(|first| first.at <= now)?;
        self.pending.pop_front();
        let Completion { came, at, request, .. } = completion;
        let used = self.usage.of(request.kind);
        used.operations += 1;
        used.bytes += request.bytes;
        used.time += at.since(came);
        Some(completion)
    }

    /// Requests that are not complete.
    #[must_use]
    pub fn depth(&self) -> usize {
        self.pending.len()
    }

    /// What it has done by now, of requests that `complete` gave out.
    #[must_use]
    pub fn usage(&self, now: Nanos) -> Usage {
        let mut usage = self.usage;
        self.busy.tell(now, &mut usage);
        usage
    }
}
