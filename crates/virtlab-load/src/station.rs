//! What a server of requests does next, whatever its clock is: threads of the probe ask it, and the simulator's.
//!
//! A request waits until a thread begins it. Its serial stage comes first, then its demand in subtasks, each for one
//! thread; with the last of them it is done. Subtasks of begun requests come before requests that no thread has begun,
//! so that what waits longest for its answer is finished first. All its work is drawn when a request begins: requests
//! begin in the order in which they came, so equal seeds give equal work, however long threads take.

use crate::parameters::request_response::{Full, RequestResponse, Times};
use std::collections::{BTreeMap, VecDeque};
use virtlab_wire::Nanos;

/// Work of one thread, without a break.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Task {
    /// Of the request, in the order in which they begin.
    request: u64,
    /// How much.
    pub work: Nanos,
}

/// What the end of a task has brought.
#[derive(Debug, PartialEq, Eq)]
pub enum Done<T> {
    /// Its request is done.
    Request(T),
    /// As many subtasks can begin.
    Subtasks(usize),
    /// Other subtasks of its request are not done yet.
    Part,
}

/// A request that was begun.
#[derive(Debug)]
struct Begun<T> {
    owner: T,
    /// Subtasks that wait for the serial stage.
    parts: Vec<Nanos>,
    /// Tasks that are not done.
    left: usize,
}

/// The requests of a server; `T` is who waits for each.
#[derive(Debug)]
pub struct Station<T> {
    full: Full,
    backlog: usize,
    serial: Option<Times>,
    demands: Vec<Times>,
    waiting: VecDeque<T>,
    tasks: VecDeque<Task>,
    begun: BTreeMap<u64, Begun<T>>,
    /// Requests that were begun.
    pub requests: u64,
    /// Requests that are done.
    pub served: u64,
    /// Requests that found the backlog full.
    pub rejected: u64,
    /// Work of tasks that are done.
    pub worked: Nanos,
}

impl<T> Station<T> {
    /// Of a role, at the server's seed.
    #[must_use]
    pub fn new(own: &RequestResponse, seed: u64) -> Self {
        Self {
            full: own.full,
            backlog: own.backlog as usize,
            serial: own.serial(seed),
            demands: own.demands(seed),
            waiting: VecDeque::new(),
            tasks: VecDeque::new(),
            begun: BTreeMap::new(),
            requests: 0,
            served: 0,
            rejected: 0,
            worked: Nanos::ZERO,
        }
    }

    /// Takes a request in, of so many idle threads; it is back where there is no room for it.
    ///
    /// # Errors
    /// When the backlog is full.
    pub fn offer(&mut self, owner: T, idle: usize) -> Result<(), T> {
        // Idle threads are about to begin what waits, first the subtasks.
        let beginning = idle.saturating_sub(self.tasks.len());
        let waiting = self.waiting.len().saturating_sub(beginning);
        if self.waiting.len() >= beginning && self.full == Full::Reject && waiting >= self.backlog {
            self.rejected += 1;
            return Err(owner);
        }
        self.waiting.push_back(owner);
        Ok(())
    }

    /// What a thread does next, and how many subtasks can begin beside it; `None`: nothing.
    pub fn begin(&mut self) -> Option<(Task, usize)> {
        if let Some(task) = self.tasks.pop_front() {
            return Some((task, 0));
        }
        let owner = self.waiting.pop_front()?;
        let request = self.requests;
        self.requests += 1;
        let serial = self.serial.as_mut().map(Times::draw);
        let parts: Vec<Nanos> = self.demands.iter_mut().map(Times::draw).collect();
        let left = parts.len() + usize::from(serial.is_some());
        self.begun.insert(request, Begun { owner, parts, left });
        let Some(work) = serial else {
            let forked = self.fork(request);
            return self.tasks.pop_front().map(|task| (task, forked - 1));
        };
        Some((Task { request, work }, 0))
    }

    /// A task is done.
    ///
    /// # Panics
    /// When it had been done before.
    pub fn done(&mut self, task: Task) -> Done<T> {
        self.worked += task.work;
        let begun = self.begun.get_mut(&task.request).expect("a task is done once");
        begun.left -= 1;
        if begun.left == 0 {
            self.served += 1;
            return Done::Request(self.begun.remove(&task.request).expect("it was there").owner);
        }
        match self.fork(task.request) {
            0 => Done::Part,
            forked => Done::Subtasks(forked),
        }
    }

    /// Subtasks of a request that waited for its serial stage can begin.
    fn fork(&mut self, request: u64) -> usize {
        let parts =
            self.begun.get_mut(&request).map(|begun| std::mem::take(&mut begun.parts)).unwrap_or_default();
        let forked = parts.len();
        self.tasks.extend(parts.into_iter().map(|work| Task { request, work }));
        forked
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parameters::testing;

    fn station(text: &str) -> Station<char> {
        Station::new(&testing::of(text).unwrap(), 1)
    }

    fn works(station: &mut Station<char>) -> Option<u64> {
        station.begin().map(|(task, _)| task.work.0)
    }

    #[test]
    fn a_request_without_stages_is_one_task() {
        let mut station = station(r#"{"demand_ns": 7}"#);
        station.offer('a', 1).unwrap();
        let (task, beside) = station.begin().unwrap();
        assert_eq!((task.work, beside, station.begin()), (Nanos(7), 0, None));
        assert_eq!(station.done(task), Done::Request('a'));
        assert_eq!((station.served, station.worked), (1, Nanos(7)));
    }

    #[test]
    fn the_serial_stage_comes_first_and_the_last_subtask_ends_the_request() {
        let mut station = station(r#"{"demand_ns": 11, "serial_demand_ns": 5, "subtasks": 3}"#);
        station.offer('a', 1).unwrap();
        let (serial, beside) = station.begin().unwrap();
        assert_eq!((serial.work, beside, station.begin()), (Nanos(5), 0, None));
        assert_eq!(station.done(serial), Done::Subtasks(3));
        let parts: Vec<Task> = std::iter::from_fn(|| station.begin()).map(|(task, _)| task).collect();
        assert_eq!(
            parts.iter().map(|part| part.work.0).sum::<u64>(),
            11,
            "the demand is split, to the last ns"
        );
        assert_eq!(station.done(parts[2]), Done::Part);
        assert_eq!(station.done(parts[0]), Done::Part);
        assert_eq!(station.done(parts[1]), Done::Request('a'));
    }

    #[test]
    fn subtasks_of_a_begun_request_come_before_the_next_request() {
        let mut station = station(r#"{"demand_ns": 20, "subtasks": 2}"#);
        station.offer('a', 1).unwrap();
        station.offer('b', 0).unwrap();
        let tasks: Vec<u64> = std::iter::from_fn(|| station.begin()).map(|(task, _)| task.request).collect();
        assert_eq!(tasks, [0, 0, 1, 1]);
    }

    #[test]
    fn the_backlog_is_what_idle_threads_do_not_begin() {
        let mut station = station(r#"{"demand_ns": 20, "subtasks": 3, "backlog": 1}"#);
        station.offer('a', 2).unwrap();
        assert_eq!(works(&mut station), Some(6));
        // Two subtasks wait, for which the other thread is idle: no request would begin.
        station.offer('b', 1).unwrap();
        assert_eq!(station.offer('c', 1), Err('c'));
        assert_eq!(station.rejected, 1);
    }

    #[test]
    fn equal_seeds_draw_equal_work_however_long_threads_take() {
        let text = r#"{"demand_ns": 1000, "serial_demand_ns": 50, "subtasks": 2, "demand_distribution": "exponential"}"#;
        let drawn = |late: bool| {
            let mut station = station(text);
            let mut works = BTreeMap::new();
            let mut open = Vec::new();
            for request in 0..20 {
                station.offer('a', 1).unwrap();
                open.extend(station.begin());
                while !late && let Some((task, _)) = open.pop() {
                    works.insert((request, task.work), ());
                    station.done(task);
                    open.extend(std::iter::from_fn(|| station.begin()));
                }
            }
            while let Some((task, _)) = open.pop() {
                works.insert((task.request, task.work), ());
                station.done(task);
                open.extend(std::iter::from_fn(|| station.begin()));
            }
            works
        };
        assert_eq!(drawn(false), drawn(true));
        assert_eq!(drawn(true).len(), 60);
    }
}
