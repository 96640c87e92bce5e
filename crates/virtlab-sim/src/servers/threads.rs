//! The threads of a server: each works on one thing at a time, on a processor of its own or on those that its guest
//! shares.
//!
//! Shared processors are the guest's, so work for them is handed out (`wanted`) and comes back when it is done
//! (`worked`). A server that pauses takes what is under way back, and resumes what was left of it.

use crate::processors::Rest;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use virtlab_load::parameters::request_response::Pause;
use virtlab_wire::Nanos;

/// What the threads of a role work on.
#[derive(Debug)]
pub struct Threads<T> {
    pause: Option<Pause>,
    begun: u64,
    /// When things on processors of their own will be done, in the order in which they began.
    alone: BinaryHeap<Reverse<(u64, u64, T)>>,
    shared: Option<Shared<T>>,
    /// Since when they stand still, with their guest.
    frozen_ns: Option<u64>,
}

/// Things on processors that are shared.
#[derive(Debug)]
struct Shared<T> {
    under_way: BTreeMap<u64, T>,
    done: VecDeque<u64>,
    /// Work to request from the processors.
    wanted: Vec<(u64, Rest)>,
    /// Work that takes the place of other work, which is over.
    instead: Vec<(u64, (u64, Rest))>,
    /// What is left of each while the server pauses.
    paused: Option<Vec<(u64, Rest)>>,
}

impl<T> Shared<T> {
    fn want(&mut self, rest: (u64, Rest), pauses: bool) {
        if pauses {
            self.paused.get_or_insert_default().push(rest);
        } else {
            self.wanted.push(rest);
        }
    }
}

impl<T: Ord + Copy> Threads<T> {
    /// Of a server in a guest that shares its processors, or does not.
    pub fn new(shares: bool) -> Self {
        let shared = Shared {
            under_way: BTreeMap::new(),
            done: VecDeque::new(),
            wanted: Vec::new(),
            instead: Vec::new(),
            paused: None,
        };
        Self {
            pause: None,
            begun: 0,
            alone: BinaryHeap::new(),
            shared: shares.then_some(shared),
            frozen_ns: None,
        }
    }

    /// The first request has come, so it is known when the server pauses; later ones change nothing.
    pub fn note_pause(&mut self, pause: impl FnOnce() -> Pause) {
        self.pause.get_or_insert_with(pause);
    }

    /// They stand still from now on.
    pub fn freeze(&mut self, now_ns: u64) {
        self.frozen_ns.get_or_insert(now_ns);
    }

    /// They continue: what they had begun has as much left as it had.
    pub fn thaw(&mut self, now_ns: u64) {
        let Some(since_ns) = self.frozen_ns.take() else { return };
        self.alone = std::mem::take(&mut self.alone)
            .into_iter()
            .map(|Reverse((done_ns, number, task))| Reverse((done_ns + (now_ns - since_ns), number, task)))
            .collect();
    }

    /// How many of them are busy.
    pub fn busy(&self) -> usize {
        self.alone.len() + self.shared.as_ref().map_or(0, |shared| shared.under_way.len())
    }

    /// Whether they share processors.
    pub const fn share(&self) -> bool {
        self.shared.is_some()
    }

    /// One of them begins something; its number.
    pub fn begin(&mut self, task: T, work: Nanos, now_ns: u64) -> u64 {
        self.begun += 1;
        let (number, pauses) = (self.begun, self.pauses(now_ns));
        let Some(shared) = &mut self.shared else {
            let now = Nanos(now_ns);
            let done = self.pause.map_or(now + work, |pause| pause.done(now, work));
            self.alone.push(Reverse((done.0, number, task)));
            return number;
        };
        shared.under_way.insert(number, task);
        shared.want((number, Rest::of(work.0)), pauses);
        number
    }

    /// Their guest has something else to do than they have, on the processors that they share; it has that number.
    pub fn want(&mut self, number: u64, work: Nanos, now_ns: u64) {
        let pauses = self.pauses(now_ns);
        if let Some(shared) = &mut self.shared {
            shared.want((number, Rest::of(work.0)), pauses);
        }
    }

    /// One of them does something else, where it is, than what has that number.
    pub fn begin_instead(&mut self, before: u64, task: T, work: Nanos, now_ns: u64) {
        let Some(shared) = &mut self.shared else { return };
        shared.under_way.remove(&before);
        if let Some(place) = shared.done.iter().position(|number| *number == before) {
            shared.done.remove(place);
            self.begin(task, work, now_ns);
            return;
        }
        self.begun += 1;
        shared.under_way.insert(self.begun, task);
        let rest = (self.begun, Rest::of(work.0));
        let waiting = shared.wanted.iter_mut().chain(shared.paused.iter_mut().flatten());
        match waiting.into_iter().find(|(number, _)| *number == before) {
            Some(other) => *other = rest,
            None => shared.instead.push((before, rest)),
        }
    }

    /// Work that takes the place of other work at the processors: its number and how much, after that of the other.
    pub fn instead(&mut self) -> Vec<(u64, (u64, Rest))> {
        self.shared.as_mut().map(|shared| std::mem::take(&mut shared.instead)).unwrap_or_default()
    }

    /// What is done by now; to be asked until there is nothing else.
    pub fn done(&mut self, now_ns: u64) -> Option<T> {
        if let Some(shared) = &mut self.shared {
            let number = shared.done.pop_front()?;
            return shared.under_way.remove(&number);
        }
        let Reverse((done_ns, ..)) = self.alone.peek()?;
        if *done_ns > now_ns || self.frozen_ns.is_some() {
            return None;
        }
        self.alone.pop().map(|Reverse((_, _, task))| task)
    }

    /// When they have to be looked after next; of work on shared processors they are told.
    pub fn next_ns(&self, now_ns: u64) -> Option<u64> {
        if self.frozen_ns.is_some() {
            return None;
        }
        if self.shared.is_none() {
            return self.alone.peek().map(|Reverse((done_ns, ..))| *done_ns);
        }
        let edges = self.pause.map(|pause| pause.edges()).filter(|[begin, end]| begin < end)?;
        edges.into_iter().map(|edge| edge.0).find(|edge_ns| *edge_ns > now_ns)
    }

    /// Shared processors have done this much of the work.
    pub fn worked(&mut self, number: u64) {
        if let Some(shared) = &mut self.shared {
            shared.done.push_back(number);
        }
    }

    /// Whether what is under way has to be taken back from the processors now: it is `given_back`.
    pub fn stops(&mut self, now_ns: u64) -> bool {
        let pauses = self.pauses(now_ns);
        let Some(shared) = &mut self.shared else { return false };
        if !pauses {
            shared.wanted.extend(shared.paused.take().unwrap_or_default());
        }
        pauses
    }

    /// What is left of what was under way.
    pub fn given_back(&mut self, rest: Vec<(u64, Rest)>) {
        if let Some(shared) = &mut self.shared {
            shared.paused.get_or_insert_default().extend(rest);
        }
    }

    /// Work to request from the processors.
    pub fn wanted(&mut self) -> Vec<(u64, Rest)> {
        self.shared.as_mut().map(|shared| std::mem::take(&mut shared.wanted)).unwrap_or_default()
    }

    fn pauses(&self, now_ns: u64) -> bool {
        self.frozen_ns.is_some() || self.pause.is_some_and(|pause| pause.holds(Nanos(now_ns)).is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use virtlab_load::parameters::request_response::RequestResponse;

    fn paused(shares: bool) -> Threads<char> {
        let text = r#"{"pause_ns": 100, "pause_after_ns": 50}"#;
        let own: RequestResponse =
            virtlab_load::parameters::read(&serde_json::from_str(text).unwrap()).unwrap();
        let mut threads = Threads::new(shares);
        threads.note_pause(|| own.pause(Nanos::ZERO));
        threads
    }

    #[test]
    fn with_processors_of_their_own_things_are_done_after_their_time_and_that_of_the_pause() {
        let mut threads = paused(false);
        threads.begin('a', Nanos(20), 0);
        threads.begin('b', Nanos(80), 0);
        assert_eq!((threads.next_ns(0), threads.busy()), (Some(20), 2));
        assert_eq!((threads.done(20), threads.done(20)), (Some('a'), None));
        assert_eq!((threads.next_ns(20), threads.done(180)), (Some(180), Some('b')));
        assert!(threads.wanted().is_empty());
    }

    #[test]
    fn what_is_begun_waits_while_its_guest_stands_still() {
        let mut alone: Threads<char> = Threads::new(false);
        alone.begin('a', Nanos(20), 0);
        alone.freeze(5);
        assert_eq!((alone.next_ns(5), alone.done(30)), (None, None));
        alone.thaw(105);
        assert_eq!((alone.next_ns(105), alone.done(119), alone.done(120)), (Some(120), None, Some('a')));
        let mut shared: Threads<char> = Threads::new(true);
        shared.begin('a', Nanos(20), 0);
        assert_eq!(shared.wanted(), [(1, Rest::of(20))]);
        shared.freeze(5);
        assert!(shared.stops(5));
        shared.given_back(vec![(1, Rest::of(15))]);
        shared.thaw(105);
        assert_eq!((shared.stops(105), shared.wanted()), (false, vec![(1, Rest::of(15))]));
    }

    #[test]
    fn shared_processors_are_asked_and_what_a_pause_takes_back_is_asked_for_again() {
        let mut threads = paused(true);
        threads.begin('a', Nanos(80), 0);
        assert_eq!((threads.wanted(), threads.busy()), (vec![(1, Rest::of(80))], 1));
        assert_eq!((threads.next_ns(0), threads.stops(0)), (Some(50), false));
        assert_eq!((threads.next_ns(50), threads.stops(50)), (Some(150), true));
        threads.given_back(vec![(1, Rest::of(30))]);
        threads.begin('b', Nanos(10), 60);
        assert!(threads.wanted().is_empty());
        assert_eq!((threads.next_ns(150), threads.stops(150)), (None, false));
        assert_eq!(threads.wanted(), [(1, Rest::of(30)), (2, Rest::of(10))]);
        threads.worked(2);
        assert_eq!((threads.done(160), threads.done(160), threads.busy()), (Some('b'), None, 1));
    }
}
