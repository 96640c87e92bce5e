//! Hierarchical fair service curves: guarantees of rate and delay apart from each other, and fair sharing of the rest.
//!
//! Source: Stoica, Zhang, Ng 1997; Linux `net/sched/sch_hfsc.c`. A class may have three curves: `rt` (real time: by
//! when how much must have left, for leaves), `ls` (link share: how siblings share what real time leaves) and `ul`
//! (upper limit of link share). A leaf whose eligible time has come is served by earliest deadline; else the tree
//! is walked down by least virtual time among the children that their upper limits allow. Link-share service does
//! not count against `rt`.

use crate::build::{BuildError, Declaration, Reader};
use crate::classes::CLASS_PACKETS;
use crate::kernel::{Form, cell};
use crate::service_curve::{Curve, Runtime, Work};
use crate::{Backlog, Dropped, Fifo, Packet, Qdisc};
use std::collections::BTreeMap;
use virtlab_wire::Nanos;

/// One class, curves by their tc names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HfscClass {
    /// What `Packet::class` of its packets is.
    pub id: u32,
    /// Index of its parent among the classes, `None` for the root; a parent comes before its children.
    pub parent: Option<usize>,
    /// Real-time curve (`rt`), of leaves.
    pub rt: Option<Curve>,
    /// Link-share curve (`ls`).
    pub ls: Option<Curve>,
    /// Upper-limit curve (`ul`); needs `ls`.
    pub ul: Option<Curve>,
    /// Packets that may wait, of leaves.
    pub limit_packets: u64,
}

/// A tree that cannot be built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HfscError {
    /// A class names a parent that does not come before it.
    #[error("class {0}: its parent must come before it")]
    Parent(u32),
    /// Two classes have one id.
    #[error("class {0} stands twice")]
    Twice(u32),
    /// A class has neither rt nor ls, an inner class has no ls, or ul stands without ls.
    #[error("class {0}: a leaf needs rt or ls, an inner class ls, and ul needs ls")]
    Curves(u32),
    /// The default is no leaf.
    #[error("the default class {0} is not a leaf")]
    Default(u32),
}

#[derive(Debug)]
struct Class {
    parent: usize,
    leaf: bool,
    rt: Option<Curve>,
    ls: Option<Curve>,
    ul: Option<Curve>,
    waiting: Fifo,
    head_bytes: u32,
    // Real time: work done by it, curves from which eligible time and deadline follow, and both while backlogged.
    real_work: Work,
    deadline_curve: Runtime,
    eligible_curve: Runtime,
    eligible: u64,
    deadline: u64,
    // Link share: all work, the virtual curve, virtual time.
    total: Work,
    virtual_curve: Runtime,
    virtual_time: u64,
    virtual_adjust: u64,
    period: u64,
    parent_period: u64,
    active_below: u32,
    // Upper limit: the time its own curve allows, and the time it fits once its children are heard.
    limit_curve: Runtime,
    own_fit: u64,
    fit: u64,
    // As a parent.
    active: Vec<usize>,
    least_virtual: u64,
    highest_virtual: u64,
    least_fit: u64,
}

impl Class {
    fn new(parent: usize, leaf: bool, options: &HfscClass) -> Self {
        Self {
            parent,
            leaf,
            rt: options.rt,
            ls: options.ls,
            ul: options.ul,
            waiting: Fifo::new(Some(options.limit_packets), None),
            head_bytes: 0,
            real_work: 0,
            deadline_curve: Runtime::of(options.rt),
            eligible_curve: Runtime::of(options.rt),
            eligible: 0,
            deadline: 0,
            total: 0,
            virtual_curve: Runtime::of(options.ls),
            virtual_time: 0,
            virtual_adjust: 0,
            period: 0,
            parent_period: 0,
            active_below: 0,
            limit_curve: Runtime::of(options.ul),
            own_fit: 0,
            fit: 0,
            active: Vec::new(),
            least_virtual: 0,
            highest_virtual: 0,
            least_fit: 0,
        }
    }
}

/// A tree of service curves; class 0 inside is the root. Packets of no known class, without a default, are dropped.
#[derive(Debug)]
pub struct Hfsc {
    classes: Vec<Class>,
    by_id: BTreeMap<u32, usize>,
    default: Option<usize>,
    held: Backlog,
}

const ROOT: usize = 0;

impl Hfsc {
    /// Empty classes. `default` is the id of the leaf that takes packets of unknown class.
    ///
    /// # Errors
    /// [`HfscError`] when the classes form no tree.
    pub fn new(options: &[HfscClass], default: Option<u32>) -> Result<Self, HfscError> {
        let mut by_id = BTreeMap::new();
        let mut leaf = vec![true; options.len()];
        for (at, class) in options.iter().enumerate() {
            if class.parent.is_some_and(|parent| parent >= at) {
                return Err(HfscError::Parent(class.id));
            }
            if by_id.insert(class.id, at + 1).is_some() {
                return Err(HfscError::Twice(class.id));
            }
            class.parent.inspect(|parent| leaf[*parent] = false);
        }
        let root = HfscClass { id: 0, parent: None, rt: None, ls: None, ul: None, limit_packets: 0 };
        let mut classes = vec![Class::new(ROOT, false, &root)];
        for (class, leaf) in options.iter().zip(&leaf) {
            let served = if *leaf { class.rt.is_some() || class.ls.is_some() } else { class.ls.is_some() };
            if !served || (class.ul.is_some() && class.ls.is_none()) || (!leaf && class.rt.is_some()) {
                return Err(HfscError::Curves(class.id));
            }
            classes.push(Class::new(class.parent.map_or(ROOT, |parent| parent + 1), *leaf, class));
        }
        let default = match default {
            None => None,
            Some(id) => {
                Some(by_id.get(&id).copied().filter(|at| classes[*at].leaf).ok_or(HfscError::Default(id))?)
            }
        };
        Ok(Self { classes, by_id, default, held: Backlog::default() })
    }

    /// A leaf becomes backlogged: its real-time curve begins again where that is less than what it had.
    fn begin_real_time(&mut self, leaf: usize, now: Nanos) {
        let class = &mut self.classes[leaf];
        let Some(rt) = class.rt else { return };
        class.deadline_curve.lower(&rt, now.0, class.real_work);
        class.eligible_curve = class.deadline_curve;
        if rt.is_convex() {
            class.eligible_curve.flatten();
        }
        self.update_real_time(leaf, true);
    }

    fn update_real_time(&mut self, leaf: usize, eligible_too: bool) {
        let class = &mut self.classes[leaf];
        if eligible_too {
            class.eligible = class.eligible_curve.time_of(class.real_work);
        }
        let next = class.real_work + Work::from(class.head_bytes) * crate::service_curve::WORK_PER_BYTE;
        class.deadline = class.deadline_curve.time_of(next);
    }

    /// A leaf becomes backlogged: it and the ancestors that were idle join their parents' virtual times.
    fn begin_link_share(&mut self, leaf: usize, now: Nanos) {
        let (mut at, mut joins) = (leaf, true);
        while at != ROOT {
            let parent = self.classes[at].parent;
            if joins {
                joins = self.classes[at].active_below == 0;
                self.classes[at].active_below += 1;
            }
            if joins {
                self.join(at, parent, now);
            }
            self.refresh_fit(at, parent);
            at = parent;
        }
    }

    fn join(&mut self, at: usize, parent: usize, now: Nanos) {
        let highest = self.classes[parent].active.iter().map(|child| self.classes[*child].virtual_time).max();
        let (parent_period, parent_idle) =
            (self.classes[parent].period, self.classes[parent].active_below == 0);
        let least = self.classes[parent].least_virtual;
        let first_virtual = self.classes[parent].highest_virtual;
        let class = &mut self.classes[at];
        match highest {
            Some(highest) => {
                let middle = if least == 0 { highest } else { least.midpoint(highest) };
                if parent_period != class.parent_period || middle > class.virtual_time {
                    class.virtual_time = middle;
                }
            }
            None => class.virtual_time = first_virtual,
        }
        if let Some(ls) = class.ls {
            class.virtual_curve.lower(&ls, class.virtual_time, class.total);
        }
        class.virtual_adjust = 0;
        class.period += 1;
        class.parent_period = parent_period + u64::from(parent_idle);
        class.fit = 0;
        if let Some(ul) = class.ul {
            class.limit_curve.lower(&ul, now.0, class.total);
            class.own_fit = class.limit_curve.time_of(class.total);
        }
        let parent = &mut self.classes[parent];
        if parent.active.is_empty() {
            parent.least_virtual = 0;
        }
        parent.active.push(at);
    }

    /// Recomputes when a class fits under its own and its children's upper limits, and what its parent hears of it.
    fn refresh_fit(&mut self, at: usize, parent: usize) {
        let class = &mut self.classes[at];
        class.fit = class.own_fit.max(class.least_fit);
        self.refresh_least_fit(parent);
    }

    fn refresh_least_fit(&mut self, parent: usize) {
        let least = self.classes[parent].active.iter().map(|child| self.classes[*child].fit).min();
        self.classes[parent].least_fit = least.unwrap_or(0);
    }

    /// A packet of `bytes` left `leaf`: all work and virtual times up to the root; idle classes leave.
    fn account(&mut self, leaf: usize, bytes: u32) {
        let work = Work::from(bytes) * crate::service_curve::WORK_PER_BYTE;
        let mut leaves = self.classes[leaf].waiting.backlog().packets == 0;
        let mut at = leaf;
        while at != ROOT {
            let parent = self.classes[at].parent;
            let floor = self.classes[parent].least_virtual;
            let class = &mut self.classes[at];
            class.total += work;
            if class.ls.is_none() || class.active_below == 0 {
                at = parent;
                continue;
            }
            if leaves {
                class.active_below -= 1;
                leaves = class.active_below == 0;
            }
            class.virtual_time =
                class.virtual_curve.time_of(class.total).saturating_add(class.virtual_adjust);
            if class.virtual_time < floor {
                // It was passed over because it did not fit; it does not get that time back at once.
                class.virtual_adjust += floor - class.virtual_time;
                class.virtual_time = floor;
            }
            if class.ul.is_some() {
                class.own_fit = class.limit_curve.time_of(class.total);
            }
            let reached = class.virtual_time;
            if leaves {
                let above = &mut self.classes[parent];
                above.highest_virtual = above.highest_virtual.max(reached);
                above.active.retain(|child| *child != at);
                self.refresh_least_fit(parent);
            } else {
                self.refresh_fit(at, parent);
            }
            at = parent;
        }
    }

    fn real_time_leaves(&self) -> impl Iterator<Item = (usize, &Class)> {
        self.classes
            .iter()
            .enumerate()
            .filter(|(_, class)| class.rt.is_some() && class.waiting.backlog().packets > 0)
    }

    fn by_deadline(&self, now: Nanos) -> Option<usize> {
        self.real_time_leaves()
            .filter(|(_, class)| class.eligible <= now.0)
            .min_by_key(|(at, class)| (class.deadline, *at))
            .map(|(at, _)| at)
    }

    fn by_virtual_time(&mut self, now: Nanos) -> Option<usize> {
        let mut at = ROOT;
        while !self.classes[at].leaf {
            let fitting =
                self.classes[at].active.iter().copied().filter(|child| self.classes[*child].fit <= now.0);
            let child = fitting.min_by_key(|child| (self.classes[*child].virtual_time, *child))?;
            let reached = self.classes[child].virtual_time;
            let least = &mut self.classes[at].least_virtual;
            *least = (*least).max(reached);
            at = child;
        }
        Some(at)
    }
}

impl Qdisc for Hfsc {
    fn enqueue(&mut self, packet: Packet, now: Nanos, drops: &mut Vec<Dropped>) {
        let known =
            self.by_id.get(&packet.class).copied().filter(|at| self.classes[*at].leaf).or(self.default);
        let Some(leaf) = known else {
            drops.push(Dropped { packet, reason: crate::DropReason::Unclassified });
            return;
        };
        let dropped = drops.len();
        self.classes[leaf].waiting.enqueue(packet, now, drops);
        if drops.len() > dropped {
            return;
        }
        self.held.packets += 1;
        self.held.bytes += u64::from(packet.bytes);
        if self.classes[leaf].waiting.backlog().packets == 1 {
            self.classes[leaf].head_bytes = packet.bytes;
            self.begin_real_time(leaf, now);
            if self.classes[leaf].ls.is_some() {
                self.begin_link_share(leaf, now);
            }
        }
    }

    fn dequeue(&mut self, now: Nanos, drops: &mut Vec<Dropped>) -> Option<Packet> {
        let real_time = self.by_deadline(now);
        let leaf = real_time.or_else(|| self.by_virtual_time(now))?;
        let packet = self.classes[leaf].waiting.dequeue(now, drops)?;
        self.held.packets -= 1;
        self.held.bytes -= u64::from(packet.bytes);
        self.account(leaf, packet.bytes);
        let class = &mut self.classes[leaf];
        if real_time.is_some() {
            class.real_work += Work::from(packet.bytes) * crate::service_curve::WORK_PER_BYTE;
        }
        if let Some(next) = class.waiting.head() {
            class.head_bytes = next.bytes;
            if class.rt.is_some() {
                self.update_real_time(leaf, real_time.is_some());
            }
        }
        Some(packet)
    }

    fn next_event(&self, now: Nanos) -> Option<Nanos> {
        let real_time = self.real_time_leaves().map(|(_, class)| class.eligible).min();
        let root = &self.classes[ROOT];
        let shared = (!root.active.is_empty()).then_some(root.least_fit);
        real_time.into_iter().chain(shared).min().map(|time| Nanos(time).max(now))
    }

    fn backlog(&self) -> Backlog {
        self.held
    }
}

/// A curve of a class; absent where no slope is given.
fn curve(given: &Reader<'_>, keys: [&'static str; 3]) -> Result<Option<Curve>, BuildError> {
    let [m1, d, m2] = keys;
    let (first, length, second) = (given.whole(m1)?, given.whole(d)?, given.whole(m2)?);
    let m2_bit_per_s = second.unwrap_or(0);
    Ok(first.or(second).map(|m1_bit_per_s| Curve { m1_bit_per_s, d_ns: length.unwrap_or(0), m2_bit_per_s }))
}

pub(crate) const DECLARATION: Declaration = Declaration {
    plain: Some(|given| {
        given.required("m2_bit_per_s")?;
        let curve = curve(given, ["m1_bit_per_s", "d_ns", "m2_bit_per_s"])?;
        let limit_packets = given.limit_packets.unwrap_or(CLASS_PACKETS);
        let class = HfscClass { id: 0, parent: None, rt: curve, ls: curve, ul: None, limit_packets };
        let made = Hfsc::new(&[class], Some(0));
        Ok(Box::new(made.map_err(|error| BuildError::new("m2_bit_per_s", error.to_string()))?))
    }),
    classed: Some(|tree| {
        let classes = tree.each(|class| {
            Ok(HfscClass {
                id: class.id,
                parent: class.parent,
                rt: curve(&class.reader, ["rt_m1_bit_per_s", "rt_d_ns", "rt_m2_bit_per_s"])?,
                ls: curve(&class.reader, ["ls_m1_bit_per_s", "ls_d_ns", "ls_m2_bit_per_s"])?,
                ul: curve(&class.reader, ["ul_m1_bit_per_s", "ul_d_ns", "ul_m2_bit_per_s"])?,
                limit_packets: class.limit_packets,
            })
        })?;
        let made = Hfsc::new(&classes, None);
        Ok(Box::new(made.map_err(|error| BuildError::new("classes", error.to_string()))?))
    }),
    tree: true,
    // struct tc_hfsc_qopt.
    kernel: Some(&[cell("default_class", 0, 0, Form::Half)]),
    kernel_class: Some(&[
        cell("real_time", 1, 0, Form::Curve),
        cell("link_share", 2, 0, Form::Curve),
        cell("upper_limit", 3, 0, Form::Curve),
    ]),
    trial: &[("default_class", 0)],
    ..Declaration::of("hfsc")
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

    fn class(id: u32, parent: Option<usize>) -> HfscClass {
        HfscClass { id, parent, rt: None, ls: None, ul: None, limit_packets: 1_000_000 }
    }

    fn shares(id: u32, parent: Option<usize>, rate: u64) -> HfscClass {
        HfscClass { ls: Some(Curve::straight(rate)), ..class(id, parent) }
    }

    /// Bytes per class over `span` behind a link of `rate`, when the given classes always have packets of 1500 B.
    fn served(hfsc: &mut Hfsc, busy: &[u32], rate: u64, span: Nanos) -> Vec<u64> {
        let (mut now, mut drops, mut bytes) = (Nanos(0), Vec::new(), vec![0; busy.len()]);
        for (at, class) in busy.iter().enumerate() {
            for id in 0..20_000 {
                hfsc.enqueue(of_class(at as u64 * 100_000 + id, *class, 1500), now, &mut drops);
            }
        }
        while let Some(next) = hfsc.next_event(now).filter(|next| *next <= span) {
            now = next;
            if let Some(packet) = hfsc.dequeue(now, &mut drops) {
                bytes[busy.iter().position(|class| *class == packet.class).unwrap()] +=
                    u64::from(packet.bytes);
                now += virtlab_wire::ethernet::serialisation(packet.bytes, rate);
            }
        }
        assert!(drops.is_empty());
        bytes
    }

    #[test]
    fn siblings_share_in_proportion_to_their_curves() {
        let mut hfsc = Hfsc::new(&[shares(1, None, 30 * MBIT), shares(2, None, 10 * MBIT)], None).unwrap();
        let bytes = served(&mut hfsc, &[1, 2], 100 * MBIT, Nanos(1_000_000_000));
        assert!((bytes[0] as f64 / bytes[1] as f64 - 3.0).abs() < 0.01, "{bytes:?}");
        assert!(bytes[0] + bytes[1] >= 12_490_000, "the link is never idle: {bytes:?}");
    }

    #[test]
    fn inner_classes_share_before_their_children_do() {
        let tree = [
            shares(1, None, 10 * MBIT),
            shares(2, None, 10 * MBIT),
            shares(3, Some(0), MBIT),
            shares(4, Some(0), MBIT),
        ];
        let mut hfsc = Hfsc::new(&tree, None).unwrap();
        let bytes = served(&mut hfsc, &[2, 3, 4], 100 * MBIT, Nanos(1_000_000_000));
        let (half, quarter) = (bytes[0] as f64, bytes[1] as f64);
        assert!((half / quarter - 2.0).abs() < 0.01 && bytes[1].abs_diff(bytes[2]) <= 3000, "{bytes:?}");
    }

    #[test]
    fn an_upper_limit_holds_however_idle_the_link_is() {
        let tree = [HfscClass { ul: Some(Curve::straight(10 * MBIT)), ..shares(1, None, 50 * MBIT) }];
        let bytes = served(&mut Hfsc::new(&tree, None).unwrap(), &[1], 100 * MBIT, Nanos(1_000_000_000));
        assert!(bytes[0] <= 1_250_000 + 1500 && bytes[0] >= 1_248_000, "{bytes:?}");
    }

    #[test]
    fn a_concave_real_time_curve_gives_a_short_delay_at_a_low_rate() {
        // 160 B every 20 ms (64 kbit/s) is to leave within 5 ms, beside a class that takes all it gets.
        let voice = HfscClass {
            rt: Some(Curve { m1_bit_per_s: 256_000, d_ns: 5_000_000, m2_bit_per_s: 64_000 }),
            ..shares(1, None, 64_000)
        };
        let mut hfsc = Hfsc::new(&[voice, shares(2, None, 10 * MBIT)], None).unwrap();
        let (mut drops, mut now, mut worst) = (Vec::new(), Nanos(0), 0);
        for id in 0..2000 {
            hfsc.enqueue(of_class(100_000 + id, 2, 1500), now, &mut drops);
        }
        let mut next_voice = 0;
        while now < Nanos(1_000_000_000) {
            while next_voice * 20_000_000 <= now.0 {
                hfsc.enqueue(
                    of_class(next_voice, 1, 160),
                    Nanos(next_voice * 20_000_000).max(now),
                    &mut drops,
                );
                next_voice += 1;
            }
            let packet = hfsc.dequeue(now, &mut drops).expect("the link is always busy");
            now += virtlab_wire::ethernet::serialisation(packet.bytes, 10 * MBIT);
            if packet.class == 1 {
                worst = worst.max(now.0 - packet.id * 20_000_000);
            }
        }
        // 5 ms by the curve, and one packet of the other class already on the link (Stoica 1997, theorem 2).
        assert!(worst <= 5_000_000 + 1_200_000, "{worst} ns");
    }

    #[test]
    fn what_is_no_tree_is_refused() {
        let bare = class(1, None);
        assert_eq!(Hfsc::new(&[bare], None).unwrap_err(), HfscError::Curves(1));
        let good = shares(1, None, MBIT);
        assert_eq!(Hfsc::new(&[good, good], None).unwrap_err(), HfscError::Twice(1));
        assert_eq!(Hfsc::new(&[good], Some(2)).unwrap_err(), HfscError::Default(2));
        assert_eq!(Hfsc::new(&[shares(1, Some(3), MBIT)], None).unwrap_err(), HfscError::Parent(1));
    }

    proptest! {
        #[test]
        fn packets_leave_once_and_each_class_in_order(
            arrivals in prop::collection::vec((0u64..3_000_000, 60u32..1500, 2u32..6), 1..200),
        ) {
            let rt = Curve { m1_bit_per_s: 8 * MBIT, d_ns: 2_000_000, m2_bit_per_s: MBIT };
            let tree = [
                shares(1, None, 10 * MBIT),
                HfscClass { rt: Some(rt), ..shares(2, Some(0), 2 * MBIT) },
                HfscClass { ul: Some(Curve::straight(3 * MBIT)), ..shares(3, Some(0), 8 * MBIT) },
                HfscClass { rt: Some(Curve::straight(MBIT)), ..class(4, None) },
                shares(5, None, 4 * MBIT),
            ];
            let packets: Vec<(u64, Packet)> = arrivals
                .iter()
                .enumerate()
                .map(|(id, &(gap, bytes, class))| (gap, of_class(id as u64, class, bytes)))
                .collect();
            let sent = conserves_packets(&mut Hfsc::new(&tree, None).unwrap(), &packets);
            for class in 2..6 {
                let of_this: Vec<u64> =
                    sent.iter().filter(|(_, packet)| packet.class == class).map(|(_, packet)| packet.id).collect();
                prop_assert!(of_this.is_sorted());
            }
        }
    }
}
