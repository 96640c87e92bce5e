//! The server of requests in virtual time: threads, the lock, and what waits for both.
//!
//! It knows requests by who waits for them, and instants; when it has to be asked again its threads say.

use super::threads::Threads;
use std::collections::VecDeque;
use virtlab_load::parameters::request_response::RequestResponse as Parameters;
use virtlab_load::station::{Done, Station, Task};
use virtlab_wire::Nanos;

/// What a thread does of its task.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// Without the lock.
    Free(Task),
    /// Under the lock; then the task is done.
    Locked(Task),
}

/// Threads, and what waits for them.
pub struct Serving<T> {
    own: Parameters,
    pub station: Station<T>,
    pub threads: Threads<Part>,
    /// Whether a thread has the lock.
    locked: bool,
    /// Since when threads wait for it.
    lock: VecDeque<(u64, Task)>,
    pub lock_wait_ns: u64,
}

impl<T> Serving<T> {
    /// At the server's seed; whether its guest shares its processors.
    pub fn new(own: Parameters, seed: u64, shares: bool) -> Self {
        Self {
            station: Station::new(&own, seed),
            own,
            threads: Threads::new(shares),
            locked: false,
            lock: VecDeque::new(),
            lock_wait_ns: 0,
        }
    }

    /// Takes a request in; it is back where there is no room for it.
    pub fn offer(&mut self, owner: T, now_ns: u64) -> Result<(), T> {
        self.threads.note_pause(|| self.own.pause(Nanos(now_ns)));
        self.station.offer(owner, self.idle())?;
        self.begin(now_ns);
        Ok(())
    }

    /// A request that is done by now; to be asked until there is no other.
    pub fn serve(&mut self, now_ns: u64) -> Option<T> {
        while let Some(part) = self.threads.done(now_ns) {
            let task = match part {
                Part::Free(task) if self.own.locked(task.work) > Nanos::ZERO => {
                    self.lock.push_back((now_ns, task));
                    self.call(now_ns);
                    continue;
                }
                Part::Free(task) => task,
                Part::Locked(task) => {
                    self.locked = false;
                    self.call(now_ns);
                    task
                }
            };
            let done = self.station.done(task);
            self.begin(now_ns);
            if let Done::Request(owner) = done {
                return Some(owner);
            }
        }
        None
    }

    /// Threads without a task.
    fn idle(&self) -> usize {
        usize::from(self.own.threads) - self.threads.busy() - self.lock.len()
    }

    /// Idle threads begin what waits.
    fn begin(&mut self, now_ns: u64) {
        while self.idle() > 0
            && let Some((task, _)) = self.station.begin()
        {
            self.work(Part::Free(task), task.work.since(self.own.locked(task.work)), now_ns);
        }
    }

    /// The thread that has waited longest for the lock has it, if it is free.
    fn call(&mut self, now_ns: u64) {
        if self.locked {
            return;
        }
        let Some((since_ns, task)) = self.lock.pop_front() else { return };
        self.locked = true;
        self.lock_wait_ns += now_ns - since_ns;
        self.work(Part::Locked(task), self.own.locked(task.work), now_ns);
    }

    /// A thread works for a time, and for that of a pause that falls into it.
    fn work(&mut self, part: Part, time: Nanos, now_ns: u64) {
        self.threads.begin(part, time, now_ns);
    }
}
