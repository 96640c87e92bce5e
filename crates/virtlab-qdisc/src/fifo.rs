//! First in, first out, with a limit in packets, in bytes, or both; a packet that does not fit is dropped at the tail.
//!
//! The rules are those of the kernel's `pfifo` and `bfifo` (`net/sched/sch_fifo.c`): a packet is taken while fewer than
//! `limit_packets` wait, and while the waiting bytes and its own are at most `limit_bytes`.

use crate::build::{Declaration, Limited};
use crate::kernel::{Form, needed};
use crate::{Backlog, DropReason, Dropped, Packet, Qdisc};
use std::collections::VecDeque;
use virtlab_wire::Nanos;

/// A FIFO queue.
#[derive(Debug)]
pub struct Fifo {
    limit_packets: u64,
    limit_bytes: u64,
    waiting: VecDeque<Packet>,
    bytes: u64,
}

impl Fifo {
    /// An empty queue; an absent limit does not bind.
    #[must_use]
    pub fn new(limit_packets: Option<u64>, limit_bytes: Option<u64>) -> Self {
        Self {
            limit_packets: limit_packets.unwrap_or(u64::MAX),
            limit_bytes: limit_bytes.unwrap_or(u64::MAX),
            waiting: VecDeque::new(),
            bytes: 0,
        }
    }

    /// The packet that leaves next.
    #[must_use]
    pub fn head(&self) -> Option<&Packet> {
        self.waiting.front()
    }

    /// Whether a packet of `bytes` fits behind `held`, and which limit forbids it when not.
    #[must_use]
    pub fn refusal(
        held: Backlog,
        bytes: u32,
        limit_packets: Option<u64>,
        limit_bytes: Option<u64>,
    ) -> Option<DropReason> {
        if held.packets >= limit_packets.unwrap_or(u64::MAX) {
            Some(DropReason::PacketLimit)
        } else if held.bytes + u64::from(bytes) > limit_bytes.unwrap_or(u64::MAX) {
            Some(DropReason::ByteLimit)
        } else {
            None
        }
    }
}

impl Qdisc for Fifo {
    fn enqueue(&mut self, packet: Packet, _now: Nanos, drops: &mut Vec<Dropped>) {
        let refusal =
            Self::refusal(self.backlog(), packet.bytes, Some(self.limit_packets), Some(self.limit_bytes));
        match refusal {
            Some(reason) => drops.push(Dropped { packet, reason }),
            None => {
                self.bytes += u64::from(packet.bytes);
                self.waiting.push_back(packet);
            }
        }
    }

    fn dequeue(&mut self, _now: Nanos, _drops: &mut Vec<Dropped>) -> Option<Packet> {
        let packet = self.waiting.pop_front()?;
        self.bytes -= u64::from(packet.bytes);
        Some(packet)
    }

    fn next_event(&self, now: Nanos) -> Option<Nanos> {
        (!self.waiting.is_empty()).then_some(now)
    }

    fn backlog(&self) -> Backlog {
        Backlog { packets: self.waiting.len() as u64, bytes: self.bytes }
    }
}

/// Where an interface says nothing else: `txqueuelen` of an Ethernet port, from which the kernel's FIFOs take their
/// limit.
pub(crate) const QUEUE_PACKETS: u64 = 1000;
/// Packets that wait at a port where the Plan says nothing.
pub(crate) const PORT_PACKETS: u64 = 100;
/// What `bfifo` takes for a packet of it: MTU and Ethernet header.
const FULL_FRAME_BYTES: u64 = 1514;

pub(crate) const ANY: Declaration = Declaration {
    limited: Limited::Both,
    port_limits: (Some(PORT_PACKETS), None),
    plain: Some(|given| Ok(Box::new(Fifo::new(given.limit_packets, given.limit_bytes)))),
    is_fifo: true,
    kernel: None,
    ..Declaration::of("fifo")
};

pub(crate) const PFIFO: Declaration = Declaration {
    port_limits: (Some(PORT_PACKETS), None),
    plain: Some(|given| Ok(Box::new(Fifo::new(given.limit_packets.or(Some(QUEUE_PACKETS)), None)))),
    is_fifo: true,
    kernel: Some(&[needed("limit_packets", 0, 0, Form::Word(1))]),
    trial: &[("limit_packets", 100)],
    ..Declaration::of("pfifo")
};

pub(crate) const BFIFO: Declaration = Declaration {
    limited: Limited::Bytes,
    port_limits: (None, Some(PORT_PACKETS * FULL_FRAME_BYTES)),
    plain: Some(|given| {
        Ok(Box::new(Fifo::new(None, given.limit_bytes.or(Some(QUEUE_PACKETS * FULL_FRAME_BYTES)))))
    }),
    is_fifo: true,
    kernel: Some(&[needed("limit_bytes", 0, 0, Form::Word(1))]),
    trial: &[("limit_bytes", 150_000)],
    ..Declaration::of("bfifo")
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Ecn;
    use proptest::prelude::*;

    fn packet(id: u64, bytes: u32) -> Packet {
        Packet { id, bytes, flow: 0, class: 0, ecn: Ecn::NotCapable }
    }

    #[test]
    fn the_packet_beyond_the_limit_is_the_one_dropped() {
        let mut fifo = Fifo::new(Some(2), None);
        let mut drops = Vec::new();
        for id in 0..3 {
            fifo.enqueue(packet(id, 100), Nanos(id), &mut drops);
        }
        assert_eq!(drops, [Dropped { packet: packet(2, 100), reason: DropReason::PacketLimit }]);
        assert_eq!(fifo.dequeue(Nanos(3), &mut drops), Some(packet(0, 100)));
    }

    #[test]
    fn a_byte_limit_takes_a_packet_that_fits_exactly() {
        let mut fifo = Fifo::new(None, Some(300));
        let mut drops = Vec::new();
        fifo.enqueue(packet(0, 200), Nanos(0), &mut drops);
        fifo.enqueue(packet(1, 101), Nanos(0), &mut drops);
        fifo.enqueue(packet(2, 100), Nanos(0), &mut drops);
        assert_eq!(drops, [Dropped { packet: packet(1, 101), reason: DropReason::ByteLimit }]);
        assert_eq!(fifo.backlog(), Backlog { packets: 2, bytes: 300 });
    }

    #[test]
    fn an_empty_queue_has_no_next_event() {
        let mut fifo = Fifo::new(None, None);
        assert_eq!(fifo.next_event(Nanos(5)), None);
        fifo.enqueue(packet(0, 60), Nanos(5), &mut Vec::new());
        assert_eq!(fifo.next_event(Nanos(7)), Some(Nanos(7)));
    }

    proptest! {
        #[test]
        fn packets_leave_once_in_order_and_within_the_limits(
            steps in prop::collection::vec((any::<bool>(), 1u32..2000), 0..300),
            limit_packets in prop::option::of(1u64..20),
            limit_bytes in prop::option::of(1u64..20_000),
        ) {
            let mut fifo = Fifo::new(limit_packets, limit_bytes);
            let (mut drops, mut out, mut offered_bytes) = (Vec::new(), Vec::new(), 0);
            for (at, &(arrives, bytes)) in steps.iter().enumerate() {
                let now = Nanos(at as u64);
                if arrives {
                    offered_bytes += u64::from(bytes);
                    fifo.enqueue(packet(at as u64, bytes), now, &mut drops);
                } else {
                    out.extend(fifo.dequeue(now, &mut drops));
                }
                let held = fifo.backlog();
                prop_assert!(held.packets <= limit_packets.unwrap_or(u64::MAX));
                prop_assert!(held.bytes <= limit_bytes.unwrap_or(u64::MAX));
                prop_assert_eq!(fifo.next_event(now).is_some(), held.packets > 0);
            }
            let held = fifo.backlog();
            let bytes_of = |packets: &[Packet]| packets.iter().map(|packet| u64::from(packet.bytes)).sum::<u64>();
            let dropped: Vec<Packet> = drops.iter().map(|dropped| dropped.packet).collect();
            let offered = steps.iter().filter(|step| step.0).count() as u64;
            prop_assert_eq!(out.len() as u64 + dropped.len() as u64 + held.packets, offered);
            prop_assert_eq!(bytes_of(&out) + bytes_of(&dropped) + held.bytes, offered_bytes);
            prop_assert!(out.is_sorted_by_key(|packet| packet.id));
            let mut ids: Vec<u64> = out.iter().chain(&dropped).map(|packet| packet.id).collect();
            ids.sort_unstable();
            prop_assert!(ids.windows(2).all(|pair| pair[0] < pair[1]));
        }
    }
}
