//! Which of many timers is due next: a tournament.
//!
//! Every timer is a leaf of a binary tree, every inner node holds the earlier of its two children's instants. Setting a
//! timer replays its way to the root: a handful of loads that do not wait for each other and no branch to mispredict,
//! where a heap compares along an unpredictable path. Which timer is first is asked less often than when that one is
//! due, so nodes hold instants alone: the way back down finds the timer, to the left at equal times, where the lower
//! numbers are. A timer stands once, so nothing stale is ever found.

use virtlab_wire::Nanos;

const NEVER: u64 = u64::MAX;

/// A fixed number of timers, each at one instant or at none.
#[derive(Clone, Debug)]
pub struct Timers {
    /// Node 1 is the root, the children of n are 2n and 2n + 1; the second half are the leaves.
    nodes: Vec<u64>,
}

impl Timers {
    /// So many timers, none of them set.
    #[must_use]
    pub fn new(count: usize) -> Self {
        let leaves = count.next_power_of_two().max(1);
        Self { nodes: vec![NEVER; 2 * leaves] }
    }

    fn leaves(&self) -> usize {
        self.nodes.len() / 2
    }

    /// Sets a timer, or moves it.
    pub fn set(&mut self, timer: usize, at: Nanos) {
        self.replay(timer, at.0);
    }

    /// Stops a timer.
    pub fn clear(&mut self, timer: usize) {
        self.replay(timer, NEVER);
    }

    /// When a timer is due; `None` when it is not set.
    #[must_use]
    pub fn get(&self, timer: usize) -> Option<Nanos> {
        let at = self.nodes[self.leaves() + timer];
        (at != NEVER).then_some(Nanos(at))
    }

    /// When the first is due.
    #[must_use]
    #[inline]
    pub fn next(&self) -> Option<Nanos> {
        let at = self.nodes[1];
        (at != NEVER).then_some(Nanos(at))
    }

    /// The timer that is due first, and when.
    #[must_use]
    #[inline]
    pub fn first(&self) -> Option<(Nanos, usize)> {
        let at = self.next()?;
        let (nodes, leaves) = (&self.nodes[..], self.leaves());
        let mut place = 1;
        while place < leaves {
            place = 2 * place + usize::from(nodes[2 * place] != at.0);
        }
        Some((at, place - leaves))
    }

    /// All timers that are set, by number.
    pub fn iter(&self) -> impl Iterator<Item = (Nanos, usize)> {
        let leaves = self.nodes[self.leaves()..].iter().enumerate();
        leaves.filter(|(_, at)| **at != NEVER).map(|(timer, at)| (Nanos(*at), timer))
    }

    fn replay(&mut self, timer: usize, mut at: u64) {
        let leaves = self.leaves();
        assert!(timer < leaves, "timer {timer} of {leaves}");
        let nodes = &mut self.nodes[..];
        let mut place = leaves + timer;
        nodes[place] = at;
        while place > 1 {
            at = at.min(nodes[place ^ 1]);
            place >>= 1;
            nodes[place] = at;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_lower_number_is_first_at_equal_times() {
        let mut timers = Timers::new(5);
        for timer in [4, 2, 3] {
            timers.set(timer, Nanos(7));
        }
        let mut order = Vec::new();
        while let Some((_, timer)) = timers.first() {
            order.push(timer);
            timers.clear(timer);
        }
        assert_eq!(order, [2, 3, 4]);
    }

    #[test]
    fn no_timers_are_never_due() {
        assert_eq!(Timers::new(0).first(), None);
        assert_eq!(Timers::new(1).first(), None);
    }

    proptest! {
        #[test]
        fn the_first_is_the_least_of_all(
            count in 1usize..40,
            moves in prop::collection::vec((0usize..40, prop::option::of(0u64..20)), 0..200),
        ) {
            let mut timers = Timers::new(count);
            let mut plain = vec![None; count];
            for (timer, at) in moves {
                let timer = timer % count;
                plain[timer] = at;
                match at {
                    Some(at) => timers.set(timer, Nanos(at)),
                    None => timers.clear(timer),
                }
                let least = plain.iter().enumerate().filter_map(|(n, at)| Some(((*at)?, n))).min();
                prop_assert_eq!(timers.first(), least.map(|(at, n)| (Nanos(at), n)));
                prop_assert_eq!(timers.get(timer), at.map(Nanos));
                prop_assert_eq!(timers.iter().count(), plain.iter().flatten().count());
            }
        }
    }
}
