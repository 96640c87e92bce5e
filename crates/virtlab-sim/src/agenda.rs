//! What will happen, in the order of instants and, at equal ones, of planning.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// What stands in the agenda.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Due {
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
}

/// Events to come.
#[derive(Debug, Default)]
pub struct Agenda {
    heap: BinaryHeap<Reverse<(u64, u64, Due)>>,
    planned: u64,
}

impl Agenda {
    /// Plans an event.
    pub fn plan(&mut self, at_ns: u64, due: Due) {
        self.planned += 1;
        self.heap.push(Reverse((at_ns, self.planned, due)));
    }

    /// The next instant.
    pub fn next_ns(&self) -> Option<u64> {
        self.heap.peek().map(|Reverse((at, _, _))| *at)
    }

    /// The next event.
    pub fn take(&mut self) -> Option<Due> {
        self.heap.pop().map(|Reverse((_, _, due))| due)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_instants_keep_the_order_of_planning() {
        let mut agenda = Agenda::default();
        agenda.plan(7, Due::Release(2));
        agenda.plan(7, Due::Release(1));
        agenda.plan(3, Due::Release(9));
        let order: Vec<_> = std::iter::from_fn(|| agenda.take()).collect();
        assert_eq!(order, [Due::Release(9), Due::Release(2), Due::Release(1)]);
    }
}
