//! What will happen, in the order of instants and, at equal ones, of planning; frames that land are first.
//!
//! A tournament, as the fabric's timers are one: every event has a place, a leaf of a binary tree whose inner nodes
//! hold the lesser of their two children. What is compared is its instant, then its order; so no two are equal, and
//! any structure would give them out in the same order. An event that is taken mostly plans the next one of its
//! kind: so its place stays open until then, and both together are one way to the root, without a branch to
//! mispredict.
//!
//! Two kinds of events are apart, since they are most of all. Of landings each port has one at a time, so they have a
//! tree of their own with a leaf for each port, which is much lower than that of everything else. What is planned for
//! the very instant at which it is planned comes in the order of planning: a queue is enough.

use core::hint::select_unpredictable;
use std::collections::VecDeque;

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
    /// What a store has sent without packets continues, or has come.
    Mail(usize),
}

const PLACE_BITS: u32 = 24;
const PLACES: usize = 1 << PLACE_BITS;
const NEVER: Key = (u64::MAX, u64::MAX);

/// Instant; order and place.
type Key = (u64, u64);

fn key(at_ns: u64, number: u64, place: usize) -> Key {
    // 2^39 are more than fit into a day.
    assert!(number < 1 << (63 - PLACE_BITS), "too many events");
    (at_ns, number << PLACE_BITS | place as u64)
}

const fn at_ns(key: Key) -> u64 {
    key.0
}

const fn place(key: Key) -> usize {
    key.1 as usize & (PLACES - 1)
}

const fn number(key: Key) -> u64 {
    key.1 >> PLACE_BITS
}

/// When an event was planned: the instant, and what had been planned before.
pub type Planned = (u64, u64);

/// A tree whose second half are the leaves: node 1 is the root, the children of n are 2n and 2n + 1.
#[derive(Debug)]
struct Tournament(Vec<Key>);

impl Tournament {
    #[inline]
    fn first(&self) -> Key {
        self.0[1]
    }

    fn leaves(&self) -> usize {
        self.0.len() / 2
    }

    /// There are leaves for so many.
    #[cold]
    fn grow(&mut self, many: usize) {
        let before = self.leaves();
        let leaves = many.next_power_of_two();
        let mut nodes = vec![NEVER; 2 * leaves];
        nodes[leaves..leaves + before].copy_from_slice(&self.0[before..]);
        for node in (1..leaves).rev() {
            nodes[node] = nodes[2 * node].min(nodes[2 * node + 1]);
        }
        self.0 = nodes;
    }

    /// A leaf that held nothing has a key: nothing changes from where another one beats it.
    #[inline]
    fn enter(&mut self, leaf: usize, key: Key) {
        let nodes = &mut self.0[..];
        let mut node = nodes.len() / 2 + leaf;
        nodes[node] = key;
        while node > 1 && key < nodes[node >> 1] {
            node >>= 1;
            nodes[node] = key;
        }
    }

    #[inline]
    fn replay(&mut self, leaf: usize, key: Key) {
        let nodes = &mut self.0[..];
        let mut node = nodes.len() / 2 + leaf;
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

/// Events to come.
#[derive(Debug)]
pub struct Agenda {
    /// What is neither of the two below.
    others: Tournament,
    /// By place, the event, and when it was planned.
    places: Vec<(Due, u64)>,
    vacant: Vec<usize>,
    /// The place of the event taken last, whose leaf still holds it.
    open: Option<usize>,
    /// By port.
    landings: Tournament,
    /// The port of the landing taken last, whose leaf still holds it.
    landed: Option<usize>,
    /// What was planned for this instant at this instant, each with its number.
    soon: VecDeque<(u64, Due)>,
    planned: u64,
    /// The instant at which things are planned.
    pub now_ns: u64,
    /// What was planned for this instant before so much has happened.
    happened: Planned,
    /// What waits for others of this instant, and as what it would have been planned.
    deferred: Vec<(Planned, Due)>,
    /// The event that was taken last, if it has no place.
    taken: Due,
}

impl Default for Agenda {
    fn default() -> Self {
        Self {
            others: Tournament(vec![NEVER; 2]),
            places: Vec::new(),
            vacant: Vec::new(),
            open: None,
            landings: Tournament(vec![NEVER; 2]),
            landed: None,
            soon: VecDeque::new(),
            planned: 0,
            now_ns: 0,
            happened: (0, 0),
            deferred: Vec::new(),
            taken: Due::Land(0),
        }
    }
}

impl Agenda {
    /// Plans an event that is no landing.
    pub fn plan(&mut self, at_ns: u64, due: Due) {
        let number = self.number();
        if at_ns == self.now_ns {
            return self.soon.push_back((number, due));
        }
        if let Some(place) = self.open.take() {
            self.places[place] = (due, self.now_ns);
            return self.others.replay(place, key(at_ns, number, place));
        }
        let place = match self.vacant.pop() {
            Some(place) => {
                self.places[place] = (due, self.now_ns);
                place
            }
            None => self.grow(due),
        };
        self.others.enter(place, key(at_ns, number, place));
    }

    /// The number of an event that is planned now, to be used later: by it events of one instant have their order.
    #[inline]
    pub fn number(&mut self) -> u64 {
        self.planned += 1;
        self.planned
    }

    /// Plans a landing that had its number before. Until it is planned nothing may depend on it, and none is planned of
    /// that port.
    #[inline]
    pub fn plan_landing(&mut self, at_ns: u64, port: usize, number: u64) {
        self.landed.take_if(|landed| *landed == port);
        if port >= self.landings.leaves() {
            assert!(port < PLACES, "too many ports");
            self.landings.grow(port + 1);
        }
        self.landings.replay(port, key(at_ns, number, port));
    }

    #[cold]
    fn grow(&mut self, due: Due) -> usize {
        let place = self.places.len();
        assert!(place < PLACES, "too many events at once");
        self.places.push((due, self.now_ns));
        if place == self.others.leaves() {
            self.others.grow(place + 1);
        }
        place
    }

    /// The next instant.
    pub fn next_ns(&mut self) -> Option<u64> {
        self.close();
        if !self.deferred.is_empty() || !self.soon.is_empty() {
            return Some(self.now_ns);
        }
        let first_ns = at_ns(self.others.first()).min(at_ns(self.landings.first()));
        (first_ns != at_ns(NEVER)).then_some(first_ns)
    }

    /// Whether the next event, of this instant, is a landing.
    #[inline]
    pub fn is_landing(&self) -> bool {
        at_ns(self.landings.first()) == self.now_ns
    }

    /// Of an event that was planned sooner than it would have been, had all others before it their events: those of
    /// this instant that were planned before that come first. True where it is put off until then.
    pub fn defers(&mut self, due: Due, planned: Planned) -> bool {
        if planned <= self.happened {
            return false;
        }
        if self.next_ns() == Some(self.now_ns) {
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
        let soon = self.soon.front().map(|(number, _)| (self.now_ns, *number));
        let other = self.others.first();
        let other = (at_ns(other) == self.now_ns).then(|| self.planned_as(other));
        if self.is_landing() || soon.into_iter().chain(other).any(|next| next < self.deferred[first].0) {
            return false;
        }
        (self.happened, self.taken) = self.deferred.remove(first);
        true
    }

    /// When an event was planned that has a place.
    fn planned_as(&self, key: Key) -> Planned {
        (self.places[place(key)].1, number(key))
    }

    /// The next event. A reference, since every event passes here: a copy would go through the stack.
    #[inline]
    pub fn take(&mut self) -> Option<&Due> {
        self.close();
        if !self.deferred.is_empty() && self.take_deferred() {
            return Some(&self.taken);
        }
        let (other, landing) = (self.others.first(), self.landings.first());
        let soon = self.soon.front().map(|(number, _)| key(self.now_ns, *number, 0));
        let other_ns = at_ns(soon.unwrap_or(NEVER).min(other));
        if landing != NEVER && at_ns(landing) <= other_ns {
            self.happened = (0, 0);
            self.landed = Some(place(landing));
            self.taken = Due::Land(place(landing));
            return Some(&self.taken);
        }
        if soon.is_some_and(|soon| soon < other)
            && let Some((number, due)) = self.soon.pop_front()
        {
            self.happened = (self.now_ns, number);
            self.taken = due;
            return Some(&self.taken);
        }
        if other == NEVER {
            return None;
        }
        self.happened = self.planned_as(other);
        self.open = Some(place(other));
        Some(&self.places[place(other)].0)
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
        if self.landed.is_some() || self.open.is_some() {
            self.vacate();
        }
    }

    fn vacate(&mut self) {
        if let Some(port) = self.landed.take() {
            self.landings.replay(port, NEVER);
        }
        if let Some(place) = self.open.take() {
            self.others.replay(place, NEVER);
            self.vacant.push(place);
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
        let number = agenda.number();
        agenda.plan_landing(7, 5, number);
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
                    // Many are for the very instant, and none for one that is over.
                    Some((later, lands)) => {
                        let at = agenda.now_ns + later / 3;
                        let due = if lands { Due::Land(number) } else { Due::Release(number) };
                        if lands {
                            let planned = agenda.number();
                            agenda.plan_landing(at, number, planned);
                        } else {
                            agenda.plan(at, due);
                        }
                        sorted.insert((at, !lands, number), due);
                    }
                    None => {
                        prop_assert_eq!(agenda.next_ns(), sorted.keys().next().map(|key| key.0));
                        agenda.now_ns = agenda.next_ns().unwrap_or(agenda.now_ns);
                        let next = sorted.pop_first().map(|(_, due)| due);
                        prop_assert_eq!(agenda.is_landing(), matches!(next, Some(Due::Land(_))));
                        prop_assert_eq!(agenda.take().copied(), next);
                    }
                }
            }
        }
    }
}
