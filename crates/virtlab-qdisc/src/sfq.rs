//! Stochastic fairness queueing: flows hashed into slots that are served in turn, the hash changed now and then.
//!
//! Source: Linux `net/sched/sch_sfq.c` (P. McKenney 1990). A slot that becomes busy joins the ring at its end and may
//! send `quantum` bytes a turn; its allotment may go below zero and is made up in later turns. Over the limit the
//! longest slot loses its newest packet. Every `perturb` the hash key changes and waiting packets are hashed again.

use crate::build::Declaration;
use crate::kernel::{Form, cell, fixed};
use crate::{Backlog, DropReason, Dropped, Packet, Qdisc};
use std::collections::VecDeque;
use virtlab_wire::Nanos;

/// Parameters by their tc names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SfqOptions {
    /// Packets that may wait in all.
    pub limit_packets: u64,
    /// Packets that may wait in one slot.
    pub depth_packets: u64,
    /// Slots that can be busy at once.
    pub flows: u32,
    /// Size of the hash table.
    pub divisor: u32,
    /// Bytes a slot may send in its turn.
    pub quantum_bytes: u32,
    /// Time between changes of the hash; `None` keeps it.
    pub perturb: Option<Nanos>,
    /// Seed of the hash.
    pub seed: u64,
}

impl Default for SfqOptions {
    fn default() -> Self {
        Self {
            limit_packets: 127,
            depth_packets: 127,
            flows: 127,
            divisor: 1024,
            quantum_bytes: 1514,
            perturb: None,
            seed: 0,
        }
    }
}

#[derive(Debug, Default)]
struct Slot {
    waiting: VecDeque<Packet>,
    allotment: i64,
}

/// Slots served in turn.
#[derive(Debug)]
pub struct Sfq {
    options: SfqOptions,
    slots: Vec<Slot>,
    ring: VecDeque<u32>,
    held: Backlog,
    key: u64,
    perturbed: Option<Nanos>,
}

/// A 64-bit mix (SplitMix64's finaliser): every bit of the flow and the key moves every bit of the slot.
const fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

impl Sfq {
    /// Empty slots.
    ///
    /// # Panics
    /// When `divisor` or `quantum_bytes` is zero.
    #[must_use]
    pub fn new(options: SfqOptions) -> Self {
        assert!(options.divisor > 0 && options.quantum_bytes > 0, "divisor and quantum are at least one");
        let slots = (0..options.divisor).map(|_| Slot::default()).collect();
        let key = mix(options.seed ^ 0x9e37_79b9_7f4a_7c15);
        Self { options, slots, ring: VecDeque::new(), held: Backlog::default(), key, perturbed: None }
    }

    fn slot_of(&self, packet: &Packet) -> u32 {
        (mix(packet.flow ^ self.key) % u64::from(self.options.divisor)) as u32
    }

    fn perturb(&mut self, now: Nanos, drops: &mut Vec<Dropped>) {
        let Some(period) = self.options.perturb else { return };
        let last = *self.perturbed.get_or_insert(now);
        if now.since(last) < period {
            return;
        }
        self.perturbed = Some(now);
        self.key = mix(self.key);
        let mut waiting = Vec::new();
        for at in std::mem::take(&mut self.ring) {
            waiting.extend(self.slots[at as usize].waiting.drain(..));
        }
        self.held = Backlog::default();
        for packet in waiting {
            self.place(packet, drops);
        }
    }

    fn place(&mut self, packet: Packet, drops: &mut Vec<Dropped>) {
        let at = self.slot_of(&packet);
        let busy_slots = self.ring.len() as u64;
        let slot = &mut self.slots[at as usize];
        let length = slot.waiting.len() as u64;
        if length >= self.options.depth_packets
            || (length == 0 && busy_slots >= u64::from(self.options.flows))
        {
            drops.push(Dropped { packet, reason: DropReason::PacketLimit });
            return;
        }
        if length == 0 {
            slot.allotment = i64::from(self.options.quantum_bytes);
            self.ring.push_back(at);
        }
        slot.waiting.push_back(packet);
        self.held.packets += 1;
        self.held.bytes += u64::from(packet.bytes);
        if self.held.packets > self.options.limit_packets {
            self.drop_from_longest(drops);
        }
    }

    fn drop_from_longest(&mut self, drops: &mut Vec<Dropped>) {
        let longest = self.ring.iter().copied().max_by_key(|at| self.slots[*at as usize].waiting.len());
        let Some(at) = longest else { return };
        let slot = &mut self.slots[at as usize];
        let Some(packet) = slot.waiting.pop_back() else { return };
        self.held.packets -= 1;
        self.held.bytes -= u64::from(packet.bytes);
        if slot.waiting.is_empty() {
            self.ring.retain(|busy| *busy != at);
        }
        drops.push(Dropped { packet, reason: DropReason::PacketLimit });
    }
}

impl Qdisc for Sfq {
    fn enqueue(&mut self, packet: Packet, now: Nanos, drops: &mut Vec<Dropped>) {
        self.perturb(now, drops);
        self.place(packet, drops);
    }

    fn dequeue(&mut self, now: Nanos, drops: &mut Vec<Dropped>) -> Option<Packet> {
        self.perturb(now, drops);
        loop {
            let at = *self.ring.front()?;
            let slot = &mut self.slots[at as usize];
            if slot.allotment <= 0 {
                slot.allotment += i64::from(self.options.quantum_bytes);
                self.ring.rotate_left(1);
                continue;
            }
            let packet = slot.waiting.pop_front()?;
            slot.allotment -= i64::from(packet.bytes);
            if slot.waiting.is_empty() {
                self.ring.pop_front();
            }
            self.held.packets -= 1;
            self.held.bytes -= u64::from(packet.bytes);
            return Some(packet);
        }
    }

    fn next_event(&self, now: Nanos) -> Option<Nanos> {
        (self.held.packets > 0).then_some(now)
    }

    fn backlog(&self) -> Backlog {
        self.held
    }

    fn wants_flow(&self) -> bool {
        true
    }
}

pub(crate) const DECLARATION: Declaration = Declaration {
    plain: Some(|given| {
        let default = SfqOptions::default();
        Ok(Box::new(Sfq::new(SfqOptions {
            limit_packets: given.limit_packets.unwrap_or(default.limit_packets),
            depth_packets: given.positive("depth")?.unwrap_or(default.depth_packets),
            flows: given.bytes("flows")?.unwrap_or(default.flows),
            divisor: given.bytes("divisor")?.unwrap_or(default.divisor),
            quantum_bytes: given.bytes("quantum_bytes")?.unwrap_or(default.quantum_bytes),
            perturb: given.whole("perturb_ns")?.filter(|period| *period > 0).map(Nanos),
            seed: default.seed,
        })))
    }),
    // struct tc_sfq_qopt_v1: 0 leaves the kernel's own; the rest is RED, which is off.
    kernel: Some(&[
        cell("quantum_bytes", 0, 0, Form::Word(1)),
        cell("perturb_ns", 0, 4, Form::Word(1_000_000_000)),
        cell("limit_packets", 0, 8, Form::Word(1)),
        cell("divisor", 0, 12, Form::Word(1)),
        cell("flows", 0, 16, Form::Word(1)),
        cell("depth", 0, 20, Form::Word(1)),
        fixed(0, 68, Form::Constant(0)),
    ]),
    ..Declaration::of("sfq")
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Ecn;
    use crate::testing::conserves_packets;
    use proptest::prelude::*;

    fn of_flow(id: u64, flow: u64, bytes: u32) -> Packet {
        Packet { id, bytes, flow, class: 0, ecn: Ecn::NotCapable }
    }

    fn flows_apart(options: SfqOptions, wanted: usize) -> Vec<u64> {
        let sfq = Sfq::new(options);
        let mut slots = std::collections::BTreeMap::new();
        for flow in 0.. {
            slots.entry(sfq.slot_of(&of_flow(0, flow, 1))).or_insert(flow);
            if slots.len() == wanted {
                break;
            }
        }
        slots.into_values().collect()
    }

    #[test]
    fn a_sparse_flow_waits_for_one_turn_of_the_others_only() {
        let flows = flows_apart(SfqOptions::default(), 2);
        let mut sfq = Sfq::new(SfqOptions::default());
        let mut drops = Vec::new();
        for id in 0..50 {
            sfq.enqueue(of_flow(id, flows[0], 1500), Nanos(0), &mut drops);
        }
        sfq.enqueue(of_flow(99, flows[1], 60), Nanos(0), &mut drops);
        let order: Vec<u64> =
            (0..4).filter_map(|_| sfq.dequeue(Nanos(1), &mut drops)).map(|packet| packet.id).collect();
        assert_eq!(order, [0, 1, 99, 2], "a quantum of 1514 lets a second packet of 1500 bytes begin");
    }

    #[test]
    fn over_the_limit_the_longest_slot_loses_its_newest() {
        let options = SfqOptions { limit_packets: 10, ..SfqOptions::default() };
        let flows = flows_apart(options, 2);
        let mut sfq = Sfq::new(options);
        let mut drops = Vec::new();
        for id in 0..10 {
            sfq.enqueue(of_flow(id, flows[0], 1500), Nanos(0), &mut drops);
        }
        sfq.enqueue(of_flow(99, flows[1], 60), Nanos(0), &mut drops);
        assert_eq!(drops.iter().map(|dropped| dropped.packet.id).collect::<Vec<_>>(), [9]);
    }

    #[test]
    fn busy_flows_share_bytes_within_one_quantum_and_one_packet() {
        let options = SfqOptions { limit_packets: 10_000, depth_packets: 10_000, ..SfqOptions::default() };
        let flows = flows_apart(options, 3);
        let mut sfq = Sfq::new(options);
        let mut drops = Vec::new();
        for id in 0..1000 {
            for (flow, bytes) in flows.iter().zip([1500, 300, 700]) {
                sfq.enqueue(of_flow(id, *flow, bytes), Nanos(0), &mut drops);
            }
        }
        let mut bytes = std::collections::BTreeMap::new();
        for _ in 0..1000 {
            let packet = sfq.dequeue(Nanos(1), &mut drops).unwrap();
            *bytes.entry(packet.flow).or_insert(0i64) += i64::from(packet.bytes);
        }
        let (least, most) = (bytes.values().min().unwrap(), bytes.values().max().unwrap());
        assert!(most - least <= 2 * (1514 + 1500), "{bytes:?}");
    }

    #[test]
    fn perturbation_parts_flows_that_shared_a_slot() {
        let options = SfqOptions { divisor: 8, perturb: Some(Nanos(10)), ..SfqOptions::default() };
        let mut sfq = Sfq::new(options);
        let shared: Vec<u64> = (0..).filter(|flow| sfq.slot_of(&of_flow(0, *flow, 1)) == 0).take(6).collect();
        for (id, flow) in shared.iter().enumerate() {
            sfq.enqueue(of_flow(id as u64, *flow, 100), Nanos(0), &mut Vec::new());
        }
        assert_eq!(sfq.ring.len(), 1);
        sfq.perturb(Nanos(10), &mut Vec::new());
        assert!(sfq.ring.len() > 1);
        assert_eq!(sfq.backlog(), Backlog { packets: 6, bytes: 600 });
    }

    proptest! {
        #[test]
        fn packets_leave_once_and_each_flow_in_order(
            arrivals in prop::collection::vec((0u64..1000, 60u32..1500, 0u64..6), 1..200),
            limit_packets in 1u64..60,
        ) {
            let options = SfqOptions { limit_packets, divisor: 4, ..SfqOptions::default() };
            let packets: Vec<(u64, Packet)> = arrivals
                .iter()
                .enumerate()
                .map(|(id, &(gap, bytes, flow))| (gap, of_flow(id as u64, flow, bytes)))
                .collect();
            let sent = conserves_packets(&mut Sfq::new(options), &packets);
            for flow in 0..6 {
                let of_this: Vec<u64> =
                    sent.iter().filter(|(_, packet)| packet.flow == flow).map(|(_, packet)| packet.id).collect();
                prop_assert!(of_this.is_sorted());
            }
        }
    }
}
