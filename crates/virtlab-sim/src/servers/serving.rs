//! The server of requests in virtual time: threads, the lock, and what waits for both.
//!
//! It knows requests by who waits for them, and instants; when it has to be asked again its threads say.

use super::threads::Threads;
use super::writing::Writing;
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
    /// Spins for the lock, as that many-th that waits for it; then it sleeps.
    Spin(u64),
}

/// A thread that waits for the lock.
struct Waiting {
    number: u64,
    since_ns: u64,
    task: Task,
    /// The number of its spinning among what threads do; absent: it sleeps.
    spins: Option<u64>,
}

/// What a guest makes a server do beyond demands.
#[derive(Clone, Copy, Debug, Default)]
pub struct Beyond {
    /// Work that each request costs.
    pub request: Nanos,
    /// How long a thread spins for a lock before it sleeps.
    pub spin: Nanos,
    /// Work when a disk has done a request, before the server knows.
    pub completion: Nanos,
}

/// Threads, and what waits for them.
pub struct Serving<T> {
    own: Parameters,
    beyond: Beyond,
    pub station: Station<T>,
    pub threads: Threads<Part>,
    /// Whether a thread has the lock.
    locked: bool,
    lock: VecDeque<Waiting>,
    /// Threads that have waited for it.
    waited: u64,
    pub lock_wait_ns: u64,
    /// What it writes; absent: nothing.
    pub writing: Option<Writing<T>>,
    /// Threads that wait for a write.
    storing: usize,
}

impl<T> Serving<T> {
    /// At the server's seed; whether its guest shares its processors, and what it costs beyond demands.
    pub fn new(own: Parameters, seed: u64, shares: bool, beyond: Beyond) -> Self {
        Self {
            writing: None,
            storing: 0,
            station: Station::new(&own, seed),
            own,
            beyond,
            threads: Threads::new(shares),
            locked: false,
            lock: VecDeque::new(),
            waited: 0,
            lock_wait_ns: 0,
        }
    }

    /// With what it writes.
    #[must_use]
    pub fn with(mut self, writing: Option<Writing<T>>) -> Self {
        self.writing = writing;
        self
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
        if let Some(owner) = self.writing.as_mut().and_then(Writing::take_done) {
            self.storing -= 1;
            self.begin(now_ns);
            return Some(owner);
        }
        while let Some(part) = self.threads.done(now_ns) {
            let task = match part {
                Part::Free(task) if self.own.locked(task.work) > Nanos::ZERO => {
                    self.wait(task, now_ns);
                    continue;
                }
                Part::Spin(number) => {
                    let sleeper = self.lock.iter_mut().find(|waiting| waiting.number == number);
                    sleeper.expect("who spins waits").spins = None;
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
            let owner = match (done, &mut self.writing) {
                (Done::Request(owner), Some(writing)) => {
                    self.storing += 1;
                    writing.want(owner, now_ns);
                    None
                }
                (Done::Request(owner), None) => Some(owner),
                _ => None,
            };
            self.begin(now_ns);
            if owner.is_some() {
                return owner;
            }
        }
        None
    }

    /// Threads without a task.
    fn idle(&self) -> usize {
        let asleep = if self.spins() {
            self.lock.iter().filter(|waiting| waiting.spins.is_none()).count()
        } else {
            self.lock.len()
        };
        usize::from(self.own.threads) - self.threads.busy() - asleep - self.storing
    }

    /// Idle threads begin what waits.
    fn begin(&mut self, now_ns: u64) {
        while self.idle() > 0 {
            let begun = self.station.requests;
            let Some((task, _)) = self.station.begin() else { return };
            let beyond = if self.station.requests > begun { self.beyond.request } else { Nanos::ZERO };
            self.work(Part::Free(task), task.work.since(self.own.locked(task.work)) + beyond, now_ns);
        }
    }

    /// Whether threads spin before they sleep: a processor of its own has no other use.
    fn spins(&self) -> bool {
        self.beyond.spin > Nanos::ZERO && self.threads.share()
    }

    /// A thread wants the lock.
    fn wait(&mut self, task: Task, now_ns: u64) {
        self.waited += 1;
        self.lock.push_back(Waiting { number: self.waited, since_ns: now_ns, task, spins: None });
        self.call(now_ns);
        if self.spins()
            && let Some(last) = self.lock.back_mut().filter(|last| last.number == self.waited)
        {
            last.spins = Some(self.threads.begin(Part::Spin(self.waited), self.beyond.spin, now_ns));
        }
    }

    /// The thread that has waited longest for the lock has it, if it is free: who spins, on the processor where it is.
    fn call(&mut self, now_ns: u64) {
        if self.locked {
            return;
        }
        let Some(Waiting { since_ns, task, spins, .. }) = self.lock.pop_front() else { return };
        self.locked = true;
        self.lock_wait_ns += now_ns - since_ns;
        let (part, work) = (Part::Locked(task), self.own.locked(task.work));
        match spins {
            Some(number) => self.threads.begin_instead(number, part, work, now_ns),
            None => self.work(part, work, now_ns),
        }
    }

    /// A thread works for a time, and for that of a pause that falls into it.
    fn work(&mut self, part: Part, time: Nanos, now_ns: u64) {
        self.threads.begin(part, time, now_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_request_costs_beyond_its_demand_is_paid_once_by_its_first_task() {
        for (text, done_ns) in [
            (r#"{"demand_ns": 100, "subtasks": 2, "threads": 1}"#, 107),
            (r#"{"demand_ns": 100, "subtasks": 2, "threads": 2}"#, 57),
            (r#"{"demand_ns": 100, "serial_demand_ns": 10, "threads": 1}"#, 117),
            (r#"{"demand_ns": 100, "lock_ratio": 0.5, "threads": 1}"#, 107),
        ] {
            let own: Parameters =
                virtlab_load::parameters::read(&serde_json::from_str(text).unwrap()).unwrap();
            let mut serving = Serving::new(own, 1, false, Beyond { request: Nanos(7), ..Beyond::default() });
            serving.offer('a', 0).unwrap();
            let mut now_ns = 0;
            while serving.serve(now_ns).is_none() {
                now_ns = serving.threads.next_ns(now_ns).expect("it is under way");
            }
            assert_eq!(now_ns, done_ns, "{text}");
        }
    }
}
