//! What a passive server has forwarded to its active one, whatever its clock is: the probe's sockets ask it, and the
//! simulator's.
//!
//! A request is forwarded once there is room among those under way, in the order in which requests came. Beyond that
//! room it is refused, or waits, as at any server of ours. It leaves with its answer, with its time-out, or with all
//! others when the connection to the active server has ended.

use crate::parameters::request_response::Full;
use serde::Deserialize;
use std::collections::{BTreeMap, VecDeque};
use virtlab_wire::Nanos;

/// What a service says of its passive servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub struct Bounds {
    /// Requests under way to the active server, at most.
    pub forwards: usize,
    /// One without an answer this long after it came is given up.
    pub forward_timeout_ns: u64,
    /// What comes beyond.
    pub full: Full,
}

/// The requests of a passive server; `T` is who waits for each.
#[derive(Debug)]
pub struct Forwards<T> {
    bounds: Bounds,
    waiting: VecDeque<(Nanos, T)>,
    /// By number, and so by when they came.
    under_way: BTreeMap<u64, (Nanos, T)>,
    begun: u64,
    /// Requests for which there was no room.
    pub rejected: u64,
}

impl<T> Forwards<T> {
    /// None yet.
    #[must_use]
    pub const fn new(bounds: Bounds) -> Self {
        Self { bounds, waiting: VecDeque::new(), under_way: BTreeMap::new(), begun: 0, rejected: 0 }
    }

    /// Takes a request in that came now; it is back where there is no room for it.
    ///
    /// # Errors
    /// When as many are under way as may be.
    pub fn offer(&mut self, owner: T, now: Nanos) -> Result<(), T> {
        let room = self.under_way.len() + self.waiting.len() < self.bounds.forwards;
        if !room && self.bounds.full == Full::Reject {
            self.rejected += 1;
            return Err(owner);
        }
        self.waiting.push_back((now, owner));
        Ok(())
    }

    /// The number of the next that is forwarded now, and who waits for it.
    pub fn begin(&mut self) -> Option<(u64, &T)> {
        if self.under_way.len() >= self.bounds.forwards {
            return None;
        }
        let next = self.waiting.pop_front()?;
        self.begun += 1;
        Some((self.begun, &self.under_way.entry(self.begun).or_insert(next).1))
    }

    /// The active server has answered; of what was given up there is no owner.
    pub fn answered(&mut self, number: u64) -> Option<T> {
        self.under_way.remove(&number).map(|(_, owner)| owner)
    }

    /// When the next is given up.
    #[must_use]
    pub fn next(&self) -> Option<Nanos> {
        let under_way = self.under_way.first_key_value().map(|(_, (came, _))| *came);
        let oldest = under_way.or_else(|| self.waiting.front().map(|(came, _)| *came));
        oldest.map(|came| came + Nanos(self.bounds.forward_timeout_ns))
    }

    /// One whose time is over by now; to be asked until there is no other.
    pub fn expired(&mut self, now: Nanos) -> Option<T> {
        self.next().filter(|at| *at <= now)?;
        let first = self.under_way.pop_first().map(|(_, (_, owner))| owner);
        first.or_else(|| self.waiting.pop_front().map(|(_, owner)| owner))
    }

    /// All of them, in the order in which they came: there is no way to the active server.
    pub fn give_up(&mut self) -> Vec<T> {
        let under_way = std::mem::take(&mut self.under_way).into_values();
        under_way.chain(std::mem::take(&mut self.waiting)).map(|(_, owner)| owner).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(forwards: usize, full: Full) -> Forwards<char> {
        Forwards::new(Bounds { forwards, forward_timeout_ns: 100, full })
    }

    fn begun(forwards: &mut Forwards<char>) -> Option<(u64, char)> {
        forwards.begin().map(|(number, owner)| (number, *owner))
    }

    #[test]
    fn what_comes_beyond_the_room_is_refused_and_an_answer_makes_room() {
        let mut forwards = of(1, Full::Reject);
        forwards.offer('a', Nanos(1)).unwrap();
        assert_eq!(forwards.offer('b', Nanos(2)), Err('b'));
        assert_eq!((begun(&mut forwards), begun(&mut forwards)), (Some((1, 'a')), None));
        assert_eq!(forwards.offer('c', Nanos(3)), Err('c'));
        assert_eq!((forwards.answered(1), forwards.answered(1), forwards.rejected), (Some('a'), None, 2));
        forwards.offer('d', Nanos(4)).unwrap();
        assert_eq!(begun(&mut forwards), Some((2, 'd')));
    }

    #[test]
    fn where_it_waits_it_is_forwarded_in_turn() {
        let mut forwards = of(1, Full::Wait);
        forwards.offer('a', Nanos(1)).unwrap();
        forwards.offer('b', Nanos(2)).unwrap();
        assert_eq!((begun(&mut forwards), begun(&mut forwards)), (Some((1, 'a')), None));
        assert_eq!(forwards.answered(1), Some('a'));
        assert_eq!(begun(&mut forwards), Some((2, 'b')));
    }

    #[test]
    fn each_is_given_up_at_its_time_out_and_all_when_the_way_ends() {
        let mut forwards = of(2, Full::Wait);
        for (owner, at) in [('a', 10), ('b', 20), ('c', 30), ('d', 40)] {
            forwards.offer(owner, Nanos(at)).unwrap();
        }
        assert_eq!((begun(&mut forwards), begun(&mut forwards)), (Some((1, 'a')), Some((2, 'b'))));
        assert_eq!((forwards.next(), forwards.expired(Nanos(109))), (Some(Nanos(110)), None));
        assert_eq!((forwards.expired(Nanos(115)), forwards.expired(Nanos(115))), (Some('a'), None));
        assert_eq!((forwards.give_up(), forwards.next()), (vec!['b', 'c', 'd'], None));
    }
}
