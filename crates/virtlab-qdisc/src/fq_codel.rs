//! FQ-CoDel: flows hashed into queues, served by deficit round robin with new flows first, CoDel on each.
//!
//! Source: RFC 8290 and Linux `net/sched/sch_fq_codel.c`. A queue that becomes busy joins the new list with one
//! quantum; when its deficit is spent it moves to the old list. A new queue that empties passes once through the old
//! list, so that a flow cannot stay new by sending one packet at a time. Over the limit the fattest queue loses packets
//! from its head, half its backlog or `drop_batch` packets, whichever is less.

use crate::build::Declaration;
use crate::codel::{CodelOptions, Controller, Stamped};
use crate::kernel::{Form, cell, micros, word};
use crate::{Backlog, DropReason, Dropped, Packet, Qdisc};
use std::collections::VecDeque;
use virtlab_wire::Nanos;

/// Parameters by their tc names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FqCodelOptions {
    /// Of CoDel on every queue; `limit_packets` is that of the whole discipline.
    pub codel: CodelOptions,
    /// Queues that flows are hashed into.
    pub flows: u32,
    /// Bytes a queue may send per round.
    pub quantum_bytes: u32,
    /// Bytes that may wait in all (`memory_limit`).
    pub memory_limit_bytes: u64,
    /// Most packets dropped at once when a limit is met.
    pub drop_batch: u32,
}

impl Default for FqCodelOptions {
    fn default() -> Self {
        Self {
            codel: CodelOptions { limit_packets: 10_240, ecn: true, ..CodelOptions::default() },
            flows: 1024,
            quantum_bytes: 1514,
            memory_limit_bytes: 32 << 20,
            drop_batch: 64,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum List {
    None,
    New,
    Old,
}

#[derive(Debug)]
struct Flow {
    waiting: VecDeque<Stamped>,
    bytes: u64,
    deficit: i64,
    listed: List,
    controller: Controller,
}

/// Flow queues under CoDel.
#[derive(Debug)]
pub struct FqCodel {
    options: FqCodelOptions,
    flows: Vec<Flow>,
    new: VecDeque<u32>,
    old: VecDeque<u32>,
    held: Backlog,
}

impl FqCodel {
    /// Empty queues.
    ///
    /// # Panics
    /// When `flows` or `quantum_bytes` is zero.
    #[must_use]
    pub fn new(options: FqCodelOptions) -> Self {
        assert!(options.flows > 0 && options.quantum_bytes > 0, "flows and quantum are at least one");
        let flows = (0..options.flows)
            .map(|_| Flow {
                waiting: VecDeque::new(),
                bytes: 0,
                deficit: 0,
                listed: List::None,
                controller: Controller::default(),
            })
            .collect();
        Self { options, flows, new: VecDeque::new(), old: VecDeque::new(), held: Backlog::default() }
    }

    fn drop_from_fattest(&mut self, drops: &mut Vec<Dropped>, reason: DropReason) {
        let Some(fattest) = self.flows.iter_mut().max_by_key(|flow| flow.bytes) else { return };
        let threshold = fattest.bytes / 2;
        let (mut dropped_bytes, mut count) = (0, 0);
        while count < self.options.drop_batch {
            let Some(head) = fattest.waiting.pop_front() else { break };
            let bytes = u64::from(head.packet.bytes);
            dropped_bytes += bytes;
            count += 1;
            drops.push(Dropped { packet: head.packet, reason });
            if dropped_bytes >= threshold {
                break;
            }
        }
        // Linux tells the controller, so that it resumes dropping faster.
        fattest.controller.count = fattest.controller.count.wrapping_add(count);
        fattest.bytes -= dropped_bytes;
        self.held.bytes -= dropped_bytes;
        self.held.packets -= u64::from(count);
    }
}

impl Qdisc for FqCodel {
    fn enqueue(&mut self, packet: Packet, now: Nanos, drops: &mut Vec<Dropped>) {
        let at = (packet.flow % u64::from(self.options.flows)) as u32;
        let flow = &mut self.flows[at as usize];
        flow.waiting.push_back(Stamped { packet, came: now });
        flow.bytes += u64::from(packet.bytes);
        self.held.bytes += u64::from(packet.bytes);
        self.held.packets += 1;
        if flow.listed == List::None {
            flow.listed = List::New;
            flow.deficit = i64::from(self.options.quantum_bytes);
            self.new.push_back(at);
        }
        if self.held.packets > self.options.codel.limit_packets {
            self.drop_from_fattest(drops, DropReason::PacketLimit);
        } else if self.held.bytes > self.options.memory_limit_bytes {
            self.drop_from_fattest(drops, DropReason::ByteLimit);
        }
    }

    fn dequeue(&mut self, now: Nanos, drops: &mut Vec<Dropped>) -> Option<Packet> {
        loop {
            let (at, from_new) = match (self.new.front(), self.old.front()) {
                (Some(at), _) => (*at, true),
                (None, Some(at)) => (*at, false),
                (None, None) => return None,
            };
            let list = if from_new { &mut self.new } else { &mut self.old };
            let flow = &mut self.flows[at as usize];
            if flow.deficit <= 0 {
                flow.deficit += i64::from(self.options.quantum_bytes);
                list.pop_front();
                flow.listed = List::Old;
                self.old.push_back(at);
                continue;
            }
            let (waiting, bytes, held) = (&mut flow.waiting, &mut flow.bytes, &mut self.held);
            let sent = flow.controller.dequeue(&self.options.codel, now, drops, || {
                let head = waiting.pop_front()?;
                *bytes -= u64::from(head.packet.bytes);
                held.bytes -= u64::from(head.packet.bytes);
                held.packets -= 1;
                Some((head, held.bytes))
            });
            match sent {
                Some(packet) => {
                    flow.deficit -= i64::from(packet.bytes);
                    return Some(packet);
                }
                None => {
                    list.pop_front();
                    if from_new && !self.old.is_empty() {
                        flow.listed = List::Old;
                        self.old.push_back(at);
                    } else {
                        flow.listed = List::None;
                    }
                }
            }
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

    fn wants_ecn(&self) -> bool {
        self.options.codel.ecn
    }
}

pub(crate) const DECLARATION: Declaration = Declaration {
    plain: Some(|given| {
        let default = FqCodelOptions::default();
        Ok(Box::new(FqCodel::new(FqCodelOptions {
            codel: default.codel.or_given(given)?,
            flows: given.bytes("flows")?.unwrap_or(default.flows),
            quantum_bytes: given.bytes("quantum_bytes")?.unwrap_or(default.quantum_bytes),
            memory_limit_bytes: given.positive("memory_limit_bytes")?.unwrap_or(default.memory_limit_bytes),
            drop_batch: given.bytes("drop_batch")?.unwrap_or(default.drop_batch),
        })))
    }),
    kernel: Some(&[
        word("limit_packets", 2),
        word("flows", 5),
        word("quantum_bytes", 6),
        micros("interval_ns", 3),
        micros("target_ns", 1),
        cell("ecn", 4, 0, Form::Flag),
        word("memory_limit_bytes", 9),
        word("drop_batch", 8),
    ]),
    // struct tc_fq_codel_xstats of the discipline: how often a flow became new, and the flows on the new and the old
    // list.
    statistics: (
        Some(0),
        &[("marked_packets", 3), ("new_flows", 4), ("new_flows_waiting", 5), ("old_flows_waiting", 6)],
    ),
    ..Declaration::of("fq_codel")
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

    #[test]
    fn a_new_flow_is_served_before_those_that_have_had_their_turn() {
        let mut queue = FqCodel::new(FqCodelOptions::default());
        let mut drops = Vec::new();
        for id in 0..10 {
            queue.enqueue(of_flow(id, 1, 1500), Nanos(0), &mut drops);
        }
        for id in 0..2 {
            assert_eq!(queue.dequeue(Nanos(1), &mut drops).map(|packet| packet.id), Some(id));
        }
        queue.enqueue(of_flow(99, 2, 100), Nanos(2), &mut drops);
        assert_eq!(queue.dequeue(Nanos(3), &mut drops).map(|packet| packet.id), Some(99));
    }

    #[test]
    fn over_the_limit_the_fattest_flow_loses_from_its_head() {
        let options = FqCodelOptions {
            codel: CodelOptions { limit_packets: 100, ..CodelOptions::default() },
            ..FqCodelOptions::default()
        };
        let mut queue = FqCodel::new(options);
        let mut drops = Vec::new();
        queue.enqueue(of_flow(0, 7, 1500), Nanos(0), &mut drops);
        for id in 1..=100 {
            queue.enqueue(of_flow(id, 1, 1500), Nanos(0), &mut drops);
        }
        let ids: Vec<u64> = drops.iter().map(|dropped| dropped.packet.id).collect();
        assert_eq!(ids, (1..=50).collect::<Vec<u64>>(), "half the fat flow's backlog, oldest first");
    }

    #[test]
    fn a_batch_drops_at_most_its_size() {
        let options = FqCodelOptions {
            codel: CodelOptions { limit_packets: 1000, ..CodelOptions::default() },
            ..FqCodelOptions::default()
        };
        let mut queue = FqCodel::new(options);
        let mut drops = Vec::new();
        for id in 0..=1000 {
            queue.enqueue(of_flow(id, 1, 100), Nanos(0), &mut drops);
        }
        assert_eq!(drops.len(), 64);
    }

    #[test]
    fn two_busy_flows_share_bytes_not_packets() {
        let mut queue = FqCodel::new(FqCodelOptions::default());
        let mut drops = Vec::new();
        for id in 0..2000 {
            queue.enqueue(of_flow(id, 1, 1500), Nanos(0), &mut drops);
            queue.enqueue(of_flow(10_000 + id, 2, 300), Nanos(0), &mut drops);
        }
        let mut bytes = [0i64; 2];
        for _ in 0..1500 {
            let packet = queue.dequeue(Nanos(1), &mut drops).unwrap();
            bytes[usize::from(packet.id >= 10_000)] += i64::from(packet.bytes);
        }
        assert!((bytes[0] - bytes[1]).abs() <= 2 * 1514, "{bytes:?}");
    }

    proptest! {
        #[test]
        fn packets_leave_once_and_each_flow_in_order(
            arrivals in prop::collection::vec((0u64..20_000_000, 60u32..1500, 0u64..6), 1..200),
            limit_packets in 5u64..60,
        ) {
            let options = FqCodelOptions {
                codel: CodelOptions { limit_packets, ..CodelOptions::default() },
                flows: 4,
                drop_batch: 8,
                ..FqCodelOptions::default()
            };
            let packets: Vec<(u64, Packet)> = arrivals
                .iter()
                .enumerate()
                .map(|(id, &(gap, bytes, flow))| (gap, of_flow(id as u64, flow, bytes)))
                .collect();
            let sent = conserves_packets(&mut FqCodel::new(options), &packets);
            for flow in 0..6 {
                let of_this: Vec<u64> =
                    sent.iter().filter(|(_, packet)| packet.flow == flow).map(|(_, packet)| packet.id).collect();
                prop_assert!(of_this.is_sorted());
            }
        }
    }
}
