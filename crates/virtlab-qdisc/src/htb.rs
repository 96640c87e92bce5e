//! Hierarchical token bucket: a tree of classes, each sure of its `rate`, borrowing from its parent up to its `ceil`.
//!
//! Source: Linux `net/sched/sch_htb.c`. Every class has two buckets kept as time: `tokens` at rate (depth `burst`) and
//! `ctokens` at ceil (depth `cburst`). With `ctokens` below zero it cannot send; with `tokens` at or above zero it can;
//! in between it may borrow from its parent. The leaf whose lender stands lowest in the tree is served first, then the
//! one of best priority, and equals take turns by `quantum`. A packet is charged to every class from its leaf up at
//! ceil, and at rate only from the lender up, as in the kernel.

use crate::build::{BuildError, Declaration, Reader};
use crate::classes::CLASS_PACKETS;
use crate::kernel::{Form, LINK_LAYER_ETHERNET, cell, fixed, needed};
use crate::{Backlog, Dropped, Fifo, Packet, Qdisc};
use std::collections::BTreeMap;
use virtlab_wire::{Nanos, ethernet};

/// Buckets never owe more than this, nor is a longer silence counted: the kernel's `mbuffer`.
const MOST_OWED_NS: i128 = 60_000_000_000;

/// One class, parameters by their tc names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HtbClass {
    /// What `Packet::class` of its packets is.
    pub id: u32,
    /// Index of its parent among the classes; a parent comes before its children.
    pub parent: Option<usize>,
    /// Rate it is sure of, in bit/s.
    pub rate_bit_per_s: u64,
    /// Rate up to which it may borrow.
    pub ceil_bit_per_s: u64,
    /// Bytes that may go at once at rate.
    pub burst_bytes: u32,
    /// Bytes that may go at once at ceil.
    pub cburst_bytes: u32,
    /// 0 (served first) to 7; of leaves.
    pub prio: u8,
    /// Bytes in a turn among leaves that are equal otherwise.
    pub quantum_bytes: u32,
    /// Packets that may wait, of leaves.
    pub limit_packets: u64,
}

impl HtbClass {
    /// tc's defaults for a rate: no borrowing, buckets of 1600 B, the quantum a tenth of the rate's bytes per second
    /// within 1000 to 200,000 B, priority 0.
    #[must_use]
    pub fn of_rate(id: u32, parent: Option<usize>, rate_bit_per_s: u64) -> Self {
        Self {
            id,
            parent,
            rate_bit_per_s,
            ceil_bit_per_s: rate_bit_per_s,
            burst_bytes: 1600,
            cburst_bytes: 1600,
            prio: 0,
            quantum_bytes: (rate_bit_per_s / 80).clamp(1000, 200_000) as u32,
            limit_packets: 1000,
        }
    }
}

#[derive(Debug)]
struct Class {
    options: HtbClass,
    tokens_ns: i128,
    ctokens_ns: i128,
    counted: Nanos,
    /// Height above the lowest leaf below it; leaves are at 0.
    level: usize,
    leaf: bool,
    waiting: Fifo,
    deficits: BTreeMap<usize, i64>,
}

impl Class {
    fn rate_cost_ns(&self, bytes: u32) -> i128 {
        i128::from(ethernet::serialisation(bytes, self.options.rate_bit_per_s).0)
    }

    fn ceil_cost_ns(&self, bytes: u32) -> i128 {
        i128::from(ethernet::serialisation(bytes, self.options.ceil_bit_per_s).0)
    }

    fn elapsed_ns(&self, now: Nanos) -> i128 {
        i128::from(now.since(self.counted).0).min(MOST_OWED_NS)
    }

    /// Time until `ctokens`, and until `tokens`, are at zero or above.
    fn waits(&self, now: Nanos) -> (i128, i128) {
        let elapsed = self.elapsed_ns(now);
        ((-(self.ctokens_ns + elapsed)).max(0), (-(self.tokens_ns + elapsed)).max(0))
    }

    fn charge(&mut self, bytes: u32, lends: bool, now: Nanos) {
        let elapsed = self.elapsed_ns(now);
        let depth = self.rate_cost_ns(self.options.burst_bytes);
        let ceil_depth = self.ceil_cost_ns(self.options.cburst_bytes);
        self.tokens_ns += elapsed;
        if lends {
            self.tokens_ns = (self.tokens_ns.min(depth) - self.rate_cost_ns(bytes)).max(1 - MOST_OWED_NS);
        } else {
            self.tokens_ns = self.tokens_ns.min(depth);
        }
        self.ctokens_ns =
            ((self.ctokens_ns + elapsed).min(ceil_depth) - self.ceil_cost_ns(bytes)).max(1 - MOST_OWED_NS);
        self.counted = now;
    }
}

/// A tree of classes. Packets of no known class, without a default, go out first and unshaped, as in the kernel.
#[derive(Debug)]
pub struct Htb {
    classes: Vec<Class>,
    by_id: BTreeMap<u32, usize>,
    default: Option<usize>,
    direct: Fifo,
    turns: BTreeMap<(usize, u8), usize>,
}

/// A tree that cannot be built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HtbError {
    /// A class names a parent that does not come before it.
    #[error("class {0}: its parent must come before it")]
    Parent(u32),
    /// Two classes have one id.
    #[error("class {0} stands twice")]
    Twice(u32),
    /// A rate is zero, or ceil is below rate.
    #[error("class {0}: rate must be above zero and ceil at least rate")]
    Rate(u32),
    /// The default is no leaf.
    #[error("the default class {0} is not a leaf")]
    Default(u32),
}

impl Htb {
    /// Full buckets. `default` is the id of the leaf that takes packets of unknown class.
    ///
    /// # Errors
    /// [`HtbError`] when the classes form no tree.
    pub fn new(options: &[HtbClass], default: Option<u32>) -> Result<Self, HtbError> {
        let mut by_id = BTreeMap::new();
        let mut leaf = vec![true; options.len()];
        let mut level = vec![0usize; options.len()];
        for (at, class) in options.iter().enumerate() {
            if class.rate_bit_per_s == 0 || class.ceil_bit_per_s < class.rate_bit_per_s {
                return Err(HtbError::Rate(class.id));
            }
            if class.parent.is_some_and(|parent| parent >= at) {
                return Err(HtbError::Parent(class.id));
            }
            if by_id.insert(class.id, at).is_some() {
                return Err(HtbError::Twice(class.id));
            }
            class.parent.inspect(|parent| leaf[*parent] = false);
        }
        for (at, class) in options.iter().enumerate().rev() {
            if let Some(parent) = class.parent {
                level[parent] = level[parent].max(level[at] + 1);
            }
        }
        let default = match default {
            None => None,
            Some(id) => Some(by_id.get(&id).copied().filter(|at| leaf[*at]).ok_or(HtbError::Default(id))?),
        };
        let classes = options
            .iter()
            .enumerate()
            .map(|(at, options)| {
                let mut class = Class {
                    options: *options,
                    tokens_ns: 0,
                    ctokens_ns: 0,
                    counted: Nanos::ZERO,
                    level: level[at],
                    leaf: leaf[at],
                    waiting: Fifo::new(Some(options.limit_packets), None),
                    deficits: BTreeMap::new(),
                };
                class.tokens_ns = class.rate_cost_ns(options.burst_bytes);
                class.ctokens_ns = class.ceil_cost_ns(options.cburst_bytes);
                class
            })
            .collect();
        Ok(Self { classes, by_id, default, direct: Fifo::new(Some(1000), None), turns: BTreeMap::new() })
    }

    fn leaf_of(&self, packet: &Packet) -> Option<usize> {
        self.by_id.get(&packet.class).copied().filter(|at| self.classes[*at].leaf).or(self.default)
    }

    /// For a leaf: the time until it may send, and the class that lends then (itself or an ancestor).
    fn lender(&self, leaf: usize, now: Nanos) -> (i128, usize) {
        let mut soonest: Option<(i128, usize)> = None;
        let mut ceilings = 0;
        let mut at = Some(leaf);
        while let Some(here) = at {
            let class = &self.classes[here];
            let (ceil_wait, rate_wait) = class.waits(now);
            ceilings = ceilings.max(ceil_wait);
            let wait = ceilings.max(rate_wait);
            if soonest.is_none_or(|(best, _)| wait < best) {
                soonest = Some((wait, here));
            }
            at = class.options.parent;
        }
        soonest.unwrap_or((i128::MAX, leaf))
    }

    fn busy_leaves(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.classes.len()).filter(|at| self.classes[*at].waiting.backlog().packets > 0)
    }

    /// The leaf to serve now and its lender: lowest lender, best priority, then the turn.
    fn choose(&self, now: Nanos) -> Option<(usize, usize)> {
        let ready: Vec<(usize, usize)> = self
            .busy_leaves()
            .filter_map(|leaf| {
                let (wait, lender) = self.lender(leaf, now);
                (wait == 0).then_some((leaf, lender))
            })
            .collect();
        let key =
            |(leaf, lender): (usize, usize)| (self.classes[lender].level, self.classes[leaf].options.prio);
        let best = ready.iter().map(|pair| key(*pair)).min()?;
        let turn = self.turns.get(&best).copied().unwrap_or(0);
        let mut equals = ready.into_iter().filter(|pair| key(*pair) == best);
        let first = equals.next()?;
        if first.0 >= turn {
            return Some(first);
        }
        Some(equals.find(|(leaf, _)| *leaf >= turn).unwrap_or(first))
    }
}

impl Qdisc for Htb {
    fn enqueue(&mut self, packet: Packet, now: Nanos, drops: &mut Vec<Dropped>) {
        match self.leaf_of(&packet) {
            Some(leaf) => self.classes[leaf].waiting.enqueue(packet, now, drops),
            None => self.direct.enqueue(packet, now, drops),
        }
    }

    fn dequeue(&mut self, now: Nanos, drops: &mut Vec<Dropped>) -> Option<Packet> {
        if let Some(packet) = self.direct.dequeue(now, drops) {
            return Some(packet);
        }
        let (leaf, lender) = self.choose(now)?;
        let packet = self.classes[leaf].waiting.dequeue(now, drops)?;
        let level = self.classes[lender].level;
        let options = self.classes[leaf].options;
        let deficit = self.classes[leaf].deficits.entry(level).or_insert(0);
        *deficit -= i64::from(packet.bytes);
        let turn = if *deficit < 0 {
            *deficit += i64::from(options.quantum_bytes);
            leaf + 1
        } else {
            leaf
        };
        self.turns.insert((level, options.prio), turn);
        let (mut at, mut lends) = (Some(leaf), false);
        while let Some(here) = at {
            lends |= here == lender;
            self.classes[here].charge(packet.bytes, lends, now);
            at = self.classes[here].options.parent;
        }
        Some(packet)
    }

    fn next_event(&self, now: Nanos) -> Option<Nanos> {
        if self.direct.backlog().packets > 0 {
            return Some(now);
        }
        self.busy_leaves().map(|leaf| now + Nanos(self.lender(leaf, now).0 as u64)).min()
    }

    fn backlog(&self) -> Backlog {
        self.classes.iter().map(|class| class.waiting.backlog()).fold(self.direct.backlog(), |sum, held| {
            Backlog { packets: sum.packets + held.packets, bytes: sum.bytes + held.bytes }
        })
    }
}

/// Priorities that a class can have (Linux: `TC_HTB_NUMPRIO`), from 0 on.
const PRIORITIES: u8 = 8;

impl HtbClass {
    /// Without `prio`, which only a class among others has.
    fn given(
        id: u32,
        parent: Option<usize>,
        limit_packets: u64,
        given: &Reader<'_>,
    ) -> Result<Self, BuildError> {
        let default = Self::of_rate(id, parent, given.required("rate_bit_per_s")?);
        let burst_bytes = given.bytes("burst_bytes")?.unwrap_or(default.burst_bytes);
        Ok(Self {
            ceil_bit_per_s: given.positive("ceil_bit_per_s")?.unwrap_or(default.rate_bit_per_s),
            burst_bytes,
            cburst_bytes: given.bytes("cburst_bytes")?.unwrap_or(burst_bytes),
            quantum_bytes: given.bytes("quantum_bytes")?.unwrap_or(default.quantum_bytes),
            limit_packets,
            ..default
        })
    }
}

pub(crate) const DECLARATION: Declaration = Declaration {
    plain: Some(|given| {
        let class = HtbClass::given(0, None, given.limit_packets.unwrap_or(CLASS_PACKETS), given)?;
        let made = Htb::new(&[class], Some(0));
        Ok(Box::new(made.map_err(|error| BuildError::new("ceil_bit_per_s", error.to_string()))?))
    }),
    classed: Some(|tree| {
        let classes = tree.each(|class| {
            let prio = class.reader.whole("prio")?.unwrap_or(0);
            let given = HtbClass::given(class.id, class.parent, class.limit_packets, &class.reader)?;
            match u8::try_from(prio) {
                Ok(prio) if prio < PRIORITIES => Ok(HtbClass { prio, ..given }),
                _ => {
                    let what = format!("{prio} is not a priority from 0 to {}", PRIORITIES - 1);
                    Err(BuildError::new("prio", what))
                }
            }
        })?;
        let made = Htb::new(&classes, None);
        Ok(Box::new(made.map_err(|error| BuildError::new("classes", error.to_string()))?))
    }),
    tree: true,
    // struct tc_htb_glob: version 3, rate2quantum 10, defcls, debug, direct_pkts.
    kernel: Some(&[
        fixed(2, 0, Form::Constant(3)),
        fixed(2, 4, Form::Constant(10)),
        needed("default_class", 2, 8, Form::Word(1)),
        fixed(2, 16, Form::Constant(0)),
        cell("direct_limit_packets", 5, 0, Form::Word(1)),
    ]),
    // struct tc_htb_opt: rate, ceil, buffer, cbuffer, quantum, level, prio.
    kernel_class: Some(&[
        fixed(1, 1, Form::Byte(LINK_LAYER_ETHERNET)),
        fixed(1, 13, Form::Byte(LINK_LAYER_ETHERNET)),
        cell("overhead_bytes", 1, 2, Form::Half),
        cell("overhead_bytes", 1, 14, Form::Half),
        cell("minimum_bytes", 1, 6, Form::Half),
        cell("minimum_bytes", 1, 18, Form::Half),
        needed("rate_bit_per_s", 1, 8, Form::Rate(6)),
        needed("ceil_bit_per_s", 1, 20, Form::Rate(7)),
        needed("burst_bytes", 1, 24, Form::Burst("rate_bit_per_s")),
        needed("cburst_bytes", 1, 28, Form::Burst("ceil_bit_per_s")),
        needed("quantum_bytes", 1, 32, Form::Word(1)),
        fixed(1, 40, Form::Constant(0)),
        cell("prio", 1, 40, Form::Word(1)),
    ]),
    trial: &[("default_class", 1), ("direct_limit_packets", 100)],
    ..Declaration::of("htb")
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Ecn;
    use crate::testing::conserves_packets;
    use proptest::prelude::*;

    const MBIT: u64 = 1_000_000;

    fn of_class(id: u64, class: u32, bytes: u32) -> Packet {
        Packet { id, bytes, flow: 0, class, ecn: Ecn::NotCapable }
    }

    /// A root of 100 Mbit/s with leaves (rate, prio), each of which may borrow all of it.
    fn tree(leaves: &[(u64, u8)]) -> Htb {
        let mut classes = vec![HtbClass::of_rate(1, None, 100 * MBIT)];
        classes.extend(leaves.iter().enumerate().map(|(at, (rate, prio))| HtbClass {
            ceil_bit_per_s: 100 * MBIT,
            prio: *prio,
            limit_packets: 1_000_000,
            ..HtbClass::of_rate(10 + at as u32, Some(0), *rate)
        }));
        Htb::new(&classes, None).unwrap()
    }

    /// Bit/s per class over `span` when the classes of `backlogged` always have packets, behind a fast transmitter.
    fn rates(htb: &mut Htb, backlogged: &[u32], span: Nanos) -> Vec<f64> {
        let (mut now, mut drops, mut id) = (Nanos(0), Vec::new(), 0);
        for class in backlogged {
            for _ in 0..20_000 {
                htb.enqueue(of_class(id, *class, 1500), now, &mut drops);
                id += 1;
            }
        }
        assert!(drops.is_empty());
        let mut bytes = vec![0u64; backlogged.len()];
        while let Some(next) = htb.next_event(now).filter(|next| *next <= span) {
            now = next;
            if let Some(packet) = htb.dequeue(now, &mut drops) {
                let at = backlogged.iter().position(|class| *class == packet.class).unwrap();
                bytes[at] += u64::from(packet.bytes);
            }
        }
        bytes.iter().map(|bytes| *bytes as f64 * 8e9 / span.0 as f64).collect()
    }

    fn near(value: f64, wanted: f64) -> bool {
        (value / wanted - 1.0).abs() < 0.02
    }

    #[test]
    fn a_lone_leaf_borrows_up_to_its_ceil() {
        let rates = rates(&mut tree(&[(10 * MBIT, 0), (20 * MBIT, 0)]), &[10], Nanos(500_000_000));
        assert!(near(rates[0], 100e6), "{rates:?}");
    }

    #[test]
    fn every_leaf_gets_its_rate_and_the_rest_goes_by_quantum() {
        let rates = rates(&mut tree(&[(10 * MBIT, 0), (30 * MBIT, 0)]), &[10, 11], Nanos(1_000_000_000));
        // 60 Mbit/s are left over; quanta are as the rates, but clipped at 200 kB: 125 kB against 200 kB.
        assert!(near(rates[0], 10e6 + 60e6 * 125.0 / 325.0), "{rates:?}");
        assert!(near(rates[0] + rates[1], 100e6), "{rates:?}");
    }

    #[test]
    fn what_is_left_over_goes_to_the_better_priority_first() {
        let rates = rates(&mut tree(&[(10 * MBIT, 1), (10 * MBIT, 0)]), &[10, 11], Nanos(1_000_000_000));
        assert!(near(rates[0], 10e6) && near(rates[1], 90e6), "{rates:?}");
    }

    #[test]
    fn an_unknown_class_without_default_is_not_shaped() {
        let mut htb = tree(&[(MBIT, 0)]);
        let mut drops = Vec::new();
        for id in 0..10 {
            htb.enqueue(of_class(id, 77, 1500), Nanos(0), &mut drops);
        }
        assert_eq!(std::iter::from_fn(|| htb.dequeue(Nanos(0), &mut drops)).count(), 10);
    }

    #[test]
    fn what_is_no_tree_is_refused() {
        let class = HtbClass::of_rate(1, None, MBIT);
        assert_eq!(Htb::new(&[class, class], None).unwrap_err(), HtbError::Twice(1));
        assert_eq!(
            Htb::new(&[HtbClass { parent: Some(0), ..class }], None).unwrap_err(),
            HtbError::Parent(1)
        );
        assert_eq!(
            Htb::new(&[HtbClass { ceil_bit_per_s: 1, ..class }], None).unwrap_err(),
            HtbError::Rate(1)
        );
        assert_eq!(Htb::new(&[class], Some(9)).unwrap_err(), HtbError::Default(9));
    }

    proptest! {
        #[test]
        fn packets_leave_once_in_class_order_and_never_above_the_ceil(
            arrivals in prop::collection::vec((0u64..500_000, 60u32..1500, 10u32..13), 1..200),
        ) {
            let mut htb = tree(&[(5 * MBIT, 0), (20 * MBIT, 1), (MBIT, 0)]);
            let packets: Vec<(u64, Packet)> = arrivals
                .iter()
                .enumerate()
                .map(|(id, &(gap, bytes, class))| (gap, of_class(id as u64, class, bytes)))
                .collect();
            let sent = conserves_packets(&mut htb, &packets);
            for class in 10..13 {
                let of_this: Vec<u64> =
                    sent.iter().filter(|(_, packet)| packet.class == class).map(|(_, packet)| packet.id).collect();
                prop_assert!(of_this.is_sorted());
            }
            // Until the last borrowed packet the root's buckets bound all together (burst, rate, the packet that takes
            // them below zero); after it each leaf sends of its own, within its own burst and rate.
            for (first, (begin, _)) in sent.iter().enumerate() {
                let mut bytes = 0u64;
                for (end, packet) in &sent[first..] {
                    bytes += u64::from(packet.bytes);
                    let allowed = 4 * (1600 + 1500) + end.since(*begin).0 * 100 * MBIT / 8_000_000_000;
                    prop_assert!(bytes <= allowed + 1);
                }
            }
        }
    }
}
