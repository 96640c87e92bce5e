//! What will happen, in the order of instants and, at equal ones, of planning; frames that land are first.
//!
//! A tournament, as the fabric's timers are one: every event has a place, a leaf of a binary tree whose inner nodes
//! hold the lesser of their two children. What is compared is its instant, then its order; so no two are equal, and
//! any structure would give them out in the same order. An event that is taken mostly plans the next one of its
//! kind: so its place stays open until then, and both together are one way to the root, without a branch to
//! mispredict.

use core::hint::select_unpredictable;

/// What is in the agenda.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// A frame stands at a port of the fabric.
    Land(usize),
    /// Looks after what a guest knows of a neighbour.
    LookAfter(usize),
    /// A vNIC may let its next frame go.
    Release(usize),
    /// A side of a role continues; void when its generation is over.
    Tick {
        /// Which role.
        role: usize,
        /// 0 client, 1 server.
        side: usize,
        /// The side's generation.
        generation: u32,
    },
    /// A side of a role looks whether its waiting is over.
    Expire {
        /// Which role.
        role: usize,
        /// 0 client, 1 server.
        side: usize,
    },
    /// What a cost of the platform held up continues.
    Resume(usize),
    /// An interface says something of its own.
    Speak(usize),
    /// Work in a pool of processors may be done.
    Work(usize),
    /// Samples of how processors or disks are used, of those that are sampled as often.
    Sample(usize),
    /// The disk of a guest may be done with a request.
    Disk(usize),
    /// A server may be done with a request.
    Serve(usize),
    /// A role has something to forward, or an answer.
    Call(usize),
    /// Guests that move, and what is copied of them.
    Copy,
    /// Bulk transfers.
    Bulk,
}

const PLACE_BITS: u32 = 24;
const LATER: u64 = 1 << 63;
const NEVER: Key = (u64::MAX, u64::MAX);

/// Instant; order and place.
type Key = (u64, u64);

/// When an event was planned: the instant, and what had been planned before.
pub type Planned = (u64, u64);

/// Events to come.
#[derive(Debug)]
pub struct Agenda {
    /// Node 1 is the root, the children of n are 2n and 2n + 1; the second half are the leaves, one per place.
    nodes: Vec<Key>,
    places: Vec<(Due, u64)>,
    vacant: Vec<usize>,
    /// The place of the event taken last, whose leaf still holds it.
    open: Option<usize>,
    planned: u64,
    /// The instant at which things are planned.
    pub now_ns: u64,
    /// What was planned for this instant before so much has happened.
    happened: Planned,
    /// What waits for others of this instant, and as what it would have been planned.
    deferred: Vec<(Planned, Due)>,
    /// The last of them that was taken.
    resumed: Due,
}

impl Default for Agenda {
    fn default() -> Self {
        Self {
            nodes: vec![NEVER; 2],
            places: Vec::new(),
            vacant: Vec::new(),
            open: None,
            planned: 0,
            now_ns: 0,
            happened: (0, 0),
            deferred: Vec::new(),
            resumed: Due::Land(0),
        }
    }
}

impl Agenda {
    /// Plans an event.
    pub fn plan(&mut self, at_ns: u64, due: Due) {
        let number = self.number();
        self.plan_as(at_ns, due, number);
    }

    /// The number of an event that is planned now, to be used later: by it events of one instant have their order.
    #[inline]
    pub fn number(&mut self) -> u64 {
        self.planned += 1;
        self.planned
    }

    /// Plans a landing that had its number before. Until it is planned nothing may depend on it.
    #[inline]
    pub fn plan_landing(&mut self, at_ns: u64, port: usize, number: u64) {
        self.plan_as(at_ns, Due::Land(port), number);
    }

    #[inline]
    fn plan_as(&mut self, at_ns: u64, due: Due, number: u64) {
        let place = match self.open.take().or_else(|| self.vacant.pop()) {
            Some(place) => {
                self.places[place] = (due, self.now_ns);
                place
            }
            None => self.grow(due),
        };
        // 2^39 are more than fit into a day.
        assert!(number < 1 << (63 - PLACE_BITS), "too many events");
        let class = if matches!(due, Due::Land(_)) { 0 } else { LATER };
        self.replay(place, (at_ns, class | number << PLACE_BITS | place as u64));
    }

    #[cold]
    fn grow(&mut self, due: Due) -> usize {
        let place = self.places.len();
        assert!(place < 1 << PLACE_BITS, "too many events at once");
        self.places.push((due, self.now_ns));
        let leaves = self.nodes.len() / 2;
        if place == leaves {
            let mut nodes = vec![NEVER; 4 * leaves];
            nodes[2 * leaves..3 * leaves].copy_from_slice(&self.nodes[leaves..]);
            for node in (1..2 * leaves).rev() {
                nodes[node] = nodes[2 * node].min(nodes[2 * node + 1]);
            }
            self.nodes = nodes;
        }
        place
    }

    /// The next instant.
    pub fn next_ns(&mut self) -> Option<u64> {
        self.close();
        if !self.deferred.is_empty() {
            return Some(self.now_ns);
        }
        let first = self.nodes[1];
        (first != NEVER).then_some(first.0)
    }

    /// Whether the next event, of this instant, is a landing.
    #[inline]
    pub fn is_landing(&self) -> bool {
        let (at_ns, order) = self.nodes[1];
        at_ns == self.now_ns && order < LATER
    }

    /// Of an event that was planned sooner than it would have been, had all others before it their events: those of this
    /// instant that were planned before that come first. True where it is put off until then.
    pub fn defers(&mut self, due: Due, planned: Planned) -> bool {
        if planned <= self.happened {
            return false;
        }
        self.close();
        if self.nodes[1].0 == self.now_ns || !self.deferred.is_empty() {
            self.deferred.push((planned, due));
            return true;
        }
        self.happened = planned;
        false
    }

    /// What was put off and is next now.
    #[cold]
    fn take_deferred(&mut self) -> bool {
        let places = 0..self.deferred.len();
        let Some(first) = places.min_by_key(|place| self.deferred[*place].0) else { return false };
        let (at_ns, order) = self.nodes[1];
        if at_ns == self.now_ns && self.planned_as(order) < self.deferred[first].0 {
            return false;
        }
        (self.happened, self.resumed) = self.deferred.remove(first);
        true
    }

    /// When an event of such an order was planned.
    fn planned_as(&self, order: u64) -> Planned {
        if order < LATER {
            return (0, 0);
        }
        (self.places[order as usize & ((1 << PLACE_BITS) - 1)].1, (order & (LATER - 1)) >> PLACE_BITS)
    }

    /// The next event. A reference, since every event passes here: a copy would go through the stack.
    #[inline]
    pub fn take(&mut self) -> Option<&Due> {
        self.close();
        if !self.deferred.is_empty() && self.take_deferred() {
            return Some(&self.resumed);
        }
        let first = self.nodes[1];
        if first == NEVER {
            return None;
        }
        let place = first.1 as usize & ((1 << PLACE_BITS) - 1);
        self.happened = self.planned_as(first.1);
        self.open = Some(place);
        Some(&self.places[place].0)
    }

    /// What an event would have been planned as that was planned at an instant, after all that has been until now, and
    /// before what is asked about next.
    #[inline]
    pub fn planned_at(&mut self, at_ns: u64) -> Planned {
        self.planned += 1;
        (at_ns, self.planned)
    }

    /// Whether an event that was so planned for `at_ns` would have happened before the one that happens now.
    #[inline]
    pub fn would_have_happened(&self, at_ns: u64, planned: Planned) -> bool {
        at_ns < self.now_ns || (at_ns == self.now_ns && planned < self.happened)
    }

    /// Says that of this instant's events none, or all, have happened.
    pub fn stand(&mut self, all: bool) {
        self.happened = if all { (u64::MAX, u64::MAX) } else { (0, 0) };
    }

    /// The place of the event taken last is vacant where nothing has been planned since. Mostly something has.
    #[inline]
    fn close(&mut self) {
        if let Some(place) = self.open {
            self.vacate(place);
        }
    }

    fn vacate(&mut self, place: usize) {
        self.open = None;
        self.replay(place, NEVER);
        self.vacant.push(place);
    }

    #[inline]
    fn replay(&mut self, place: usize, key: Key) {
        let nodes = &mut self.nodes[..];
        let mut node = nodes.len() / 2 + place;
        let (mut at, mut order) = key;
        nodes[node] = key;
        while node > 1 {
            let (rival_at, rival_order) = nodes[node ^ 1];
            let beaten = (rival_at < at) | ((rival_at == at) & (rival_order < order));
            at = select_unpredictable(beaten, rival_at, at);
            order = select_unpredictable(beaten, rival_order, order);
            node >>= 1;
            nodes[node] = (at, order);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn equal_instants_keep_the_order_of_planning_after_what_lands() {
        let mut agenda = Agenda::default();
        agenda.plan(7, Due::Release(2));
        agenda.plan(7, Due::Release(1));
        agenda.plan(3, Due::Release(9));
        agenda.plan(7, Due::Land(5));
        let order: Vec<_> = std::iter::from_fn(|| agenda.take().copied()).collect();
        assert_eq!(order, [Due::Release(9), Due::Land(5), Due::Release(2), Due::Release(1)]);
    }

    #[test]
    fn a_place_is_used_again() {
        let mut agenda = Agenda::default();
        for at in 0..100 {
            agenda.plan(at, Due::Release(at as usize));
            assert_eq!(agenda.take().copied(), Some(Due::Release(at as usize)));
        }
        assert_eq!(agenda.places.len(), 1);
    }

    proptest! {
        #[test]
        fn events_come_in_the_order_of_a_sorted_list(
            steps in prop::collection::vec(prop::option::of((0u64..50, any::<bool>())), 0..300),
        ) {
            let mut agenda = Agenda::default();
            let mut sorted = std::collections::BTreeMap::new();
            for (number, step) in steps.into_iter().enumerate() {
                match step {
                    Some((at, lands)) => {
                        let due = if lands { Due::Land(number) } else { Due::Release(number) };
                        agenda.plan(at, due);
                        sorted.insert((at, !lands, number), due);
                    }
                    None => {
                        prop_assert_eq!(agenda.next_ns(), sorted.keys().next().map(|key| key.0));
                        prop_assert_eq!(agenda.take().copied(), sorted.pop_first().map(|(_, due)| due));
                    }
                }
            }
        }
    }
}
