//! The server of requests in virtual time: threads, each with a processor of its own, the lock, and what waits for both.
//!
//! It knows requests by the place of their connection, and instants; when it has to be asked again is [`Serving::next_ns`].

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use virtlab_load::parameters::request_response::{Pause, RequestResponse as Parameters};
use virtlab_load::station::{Done, Station, Task};
use virtlab_wire::Nanos;

/// What a thread does of its task.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    /// Without the lock.
    Free(Task),
    /// Under the lock; then the task is done.
    Locked(Task),
}

/// Threads, and what waits for them.
pub struct Serving {
    own: Parameters,
    pub station: Station<usize>,
    /// When parts of tasks will be done, in the order in which they began.
    busy: BinaryHeap<Reverse<(u64, u64, Part)>>,
    /// Whether a thread has the lock.
    locked: bool,
    /// Since when threads wait for it.
    lock: VecDeque<(u64, Task)>,
    pub lock_wait_ns: u64,
    pause: Option<Pause>,
    begun: u64,
}

impl Serving {
    /// Of a role, at the server's seed.
    pub fn new(own: Parameters, seed: u64) -> Self {
        Self {
            station: Station::new(&own, seed),
            own,
            busy: BinaryHeap::new(),
            locked: false,
            lock: VecDeque::new(),
            lock_wait_ns: 0,
            pause: None,
            begun: 0,
        }
    }

    /// Takes a request in; it is back where there is no room for it.
    pub fn offer(&mut self, place: usize, now_ns: u64) -> Result<(), usize> {
        self.pause.get_or_insert_with(|| self.own.pause(Nanos(now_ns)));
        self.station.offer(place, self.idle())?;
        self.begin(now_ns);
        Ok(())
    }

    /// When threads are done next.
    pub fn next_ns(&self) -> Option<u64> {
        self.busy.peek().map(|Reverse((done_ns, ..))| *done_ns)
    }

    /// A request that is done by now; to be asked until there is no other.
    pub fn serve(&mut self, now_ns: u64) -> Option<usize> {
        while self.next_ns().is_some_and(|done_ns| done_ns <= now_ns) {
            let Reverse((_, _, part)) = self.busy.pop()?;
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
            if let Done::Request(place) = done {
                return Some(place);
            }
        }
        None
    }

    /// Threads without a task.
    fn idle(&self) -> usize {
        usize::from(self.own.threads) - self.busy.len() - self.lock.len()
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
        self.begun += 1;
        let pause = self.pause.unwrap_or_else(|| self.own.pause(Nanos::ZERO));
        self.busy.push(Reverse((pause.done(Nanos(now_ns), time).0, self.begun, part)));
    }
}
