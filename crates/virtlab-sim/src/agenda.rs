//! What will happen, in the order of instants and, at equal ones, of planning; frames that land are first.
//!
//! The heap holds one number per event: its instant, then its order, then the place where what it is stands. So it moves
//! 16 bytes and compares once.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// What stands in the agenda.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// A frame stands at a port of the fabric.
    Land(usize),
    /// A vNIC may let its next frame go.
    Release(usize),
    /// A side of a role goes on; void when its generation is over.
    Tick {
        /// Which role.
        role: usize,
        /// 0 client, 1 server.
        side: usize,
        /// Of the side.
        generation: u32,
    },
    /// A side of a role looks whether its waiting is over.
    Expire {
        /// Which role.
        role: usize,
        /// 0 client, 1 server.
        side: usize,
    },
    /// What a cost of the platform held up goes on.
    Resume(usize),
}

const PLACE_BITS: u32 = 24;
const LATER: u128 = 1 << 63;

/// Events to come.
#[derive(Debug, Default)]
pub struct Agenda {
    heap: BinaryHeap<Reverse<u128>>,
    places: Vec<Due>,
    vacant: Vec<usize>,
    planned: u64,
}

impl Agenda {
    /// Plans an event.
    pub fn plan(&mut self, at_ns: u64, due: Due) {
        let place = match self.vacant.pop() {
            Some(place) => {
                self.places[place] = due;
                place
            }
            None => {
                self.places.push(due);
                self.places.len() - 1
            }
        };
        // 2^24 events at once and 2^39 in all are more than fits into memory and into a day.
        assert!(place < 1 << PLACE_BITS && self.planned < 1 << (63 - PLACE_BITS), "too many events");
        self.planned += 1;
        let class = if matches!(due, Due::Land(_)) { 0 } else { LATER };
        let order = class | u128::from(self.planned) << PLACE_BITS | place as u128;
        self.heap.push(Reverse(u128::from(at_ns) << 64 | order));
    }

    /// The next instant.
    pub fn next_ns(&self) -> Option<u64> {
        self.heap.peek().map(|Reverse(key)| (key >> 64) as u64)
    }

    /// The next event.
    pub fn take(&mut self) -> Option<Due> {
        self.heap.pop().map(|Reverse(key)| {
            let place = key as usize & ((1 << PLACE_BITS) - 1);
            self.vacant.push(place);
            self.places[place]
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_instants_keep_the_order_of_planning_after_what_lands() {
        let mut agenda = Agenda::default();
        agenda.plan(7, Due::Release(2));
        agenda.plan(7, Due::Release(1));
        agenda.plan(3, Due::Release(9));
        agenda.plan(7, Due::Land(5));
        let order: Vec<_> = std::iter::from_fn(|| agenda.take()).collect();
        assert_eq!(order, [Due::Release(9), Due::Land(5), Due::Release(2), Due::Release(1)]);
    }

    #[test]
    fn a_place_is_used_again() {
        let mut agenda = Agenda::default();
        for at in 0..100 {
            agenda.plan(at, Due::Release(at as usize));
            assert_eq!(agenda.take(), Some(Due::Release(at as usize)));
        }
        assert_eq!(agenda.places.len(), 1);
    }
}
