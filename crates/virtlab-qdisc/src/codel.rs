//! CoDel: drops at the head once packets have waited longer than `target` for a whole `interval`, then ever faster.
//!
//! Source: RFC 8289, and Linux `include/net/codel_impl.h` for the default control law. Both schedule the next drop
//! at `interval / sqrt(count)` after the last; Linux keeps 1/sqrt as a 16-bit fraction and takes one Newton step
//! per drop, so its gaps begin 100, 50.0, 56.3, 48.8, 44.2 ms for an interval of 100 ms where the ideal has 100,
//! 70.7, 57.7, 50, 44.7.

use crate::build::{BuildError, Declaration, Reader};
use crate::kernel::{Form, cell, micros, word};
use crate::{Backlog, DropReason, Dropped, Ecn, Packet, Qdisc};
use std::collections::VecDeque;
use virtlab_wire::Nanos;

/// How the gap between drops follows from their count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ControlLaw {
    /// Linux: 16-bit inverse square root, one Newton step per drop.
    #[default]
    Linux,
    /// RFC 8289: `interval / sqrt(count)`.
    Ideal,
}

/// Parameters by their tc names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodelOptions {
    /// Acceptable standing delay.
    pub target: Nanos,
    /// Time for which the delay must stay above it; about a worst-case round trip.
    pub interval: Nanos,
    /// Packets that may wait.
    pub limit_packets: u64,
    /// Backlog in bytes at or below which nothing is dropped: one packet of the port (Linux: MTU and Ethernet header).
    pub mtu_bytes: u64,
    /// Spacing of drops.
    pub law: ControlLaw,
    /// Marks packets that can be marked instead of dropping them.
    pub ecn: bool,
}

impl Default for CodelOptions {
    fn default() -> Self {
        Self {
            target: Nanos(5_000_000),
            interval: Nanos(100_000_000),
            limit_packets: 1000,
            mtu_bytes: 1514,
            law: ControlLaw::Linux,
            ecn: false,
        }
    }
}

impl CodelOptions {
    /// Marks a packet in place of dropping it, if requested and possible.
    fn marks(&self, packet: &mut Packet) -> bool {
        let can = self.ecn && packet.ecn != Ecn::NotCapable;
        if can {
            packet.ecn = Ecn::Marked;
        }
        can
    }
}

/// A packet and when it came.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stamped {
    pub(crate) packet: Packet,
    pub(crate) came: Nanos,
}

/// The controller's state, one per queue; what FQ-CoDel has for every flow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Controller {
    pub(crate) count: u32,
    last_count: u32,
    dropping: bool,
    inverse_sqrt: u16,
    first_above: Option<Nanos>,
    drop_next: Nanos,
}

impl Default for Controller {
    fn default() -> Self {
        Self {
            count: 0,
            last_count: 0,
            dropping: false,
            inverse_sqrt: 0,
            first_above: None,
            drop_next: Nanos::ZERO,
        }
    }
}

impl Controller {
    /// One Newton step for `1/sqrt(count)`: `x (3 - count x^2) / 2` with x a 32-bit fraction of which 16 are kept.
    fn newton_step(&mut self) {
        let x = u64::from(self.inverse_sqrt) << 16;
        let square = (x * x) >> 32;
        let value = (3u64 << 32).wrapping_sub(u64::from(self.count).wrapping_mul(square)) >> 2;
        self.inverse_sqrt = ((value.wrapping_mul(x) >> 31) >> 16) as u16;
    }

    fn gap(&self, options: &CodelOptions) -> Nanos {
        match options.law {
            ControlLaw::Linux => {
                let fraction = u128::from(self.inverse_sqrt) << 16;
                Nanos(((u128::from(options.interval.0) * fraction) >> 32) as u64)
            }
            ControlLaw::Ideal => {
                let root = (u128::from(self.count.max(1)) << 64).isqrt(); // 32 bits behind the point
                Nanos(((u128::from(options.interval.0) << 32) / root) as u64)
            }
        }
    }

    fn should_drop(&mut self, head: &Stamped, left_bytes: u64, options: &CodelOptions, now: Nanos) -> bool {
        if now.since(head.came) < options.target || left_bytes <= options.mtu_bytes {
            self.first_above = None;
            return false;
        }
        match self.first_above {
            None => {
                self.first_above = Some(now + options.interval);
                false
            }
            Some(time) => now > time,
        }
    }

    /// The packet to send, taken by `next` from the queue; those dropped on the way go to `drops`.
    ///
    /// `next` returns the head and how many bytes the queue (FQ-CoDel: the whole discipline) then still holds.
    pub(crate) fn dequeue(
        &mut self,
        options: &CodelOptions,
        now: Nanos,
        drops: &mut Vec<Dropped>,
        mut next: impl FnMut() -> Option<(Stamped, u64)>,
    ) -> Option<Packet> {
        let Some((mut head, left)) = next() else {
            self.first_above = None;
            self.dropping = false;
            return None;
        };
        let drop_it = self.should_drop(&head, left, options, now);
        if self.dropping {
            if !drop_it {
                self.dropping = false;
            }
            while self.dropping && now >= self.drop_next {
                self.count = self.count.wrapping_add(1);
                self.newton_step();
                if options.marks(&mut head.packet) {
                    self.drop_next += self.gap(options);
                    break;
                }
                drops.push(Dropped { packet: head.packet, reason: DropReason::Congestion });
                match next() {
                    None => {
                        self.first_above = None;
                        self.dropping = false;
                        return None;
                    }
                    Some((packet, left)) => {
                        head = packet;
                        if self.should_drop(&head, left, options, now) {
                            self.drop_next += self.gap(options);
                        } else {
                            self.dropping = false;
                        }
                    }
                }
            }
        } else if drop_it {
            let mut emptied = false;
            if !options.marks(&mut head.packet) {
                drops.push(Dropped { packet: head.packet, reason: DropReason::Congestion });
                match next() {
                    // Only for its memory of when the delay rose: dropping begins whatever the second head says.
                    Some((packet, left)) => {
                        head = packet;
                        self.should_drop(&head, left, options, now);
                    }
                    None => {
                        self.first_above = None;
                        emptied = true;
                    }
                }
            }
            self.dropping = true;
            // Resume near the rate that controlled the queue last time, if that was not long ago.
            let delta = self.count.wrapping_sub(self.last_count);
            if delta > 1 && now.since(self.drop_next).0 < 16 * options.interval.0 {
                self.count = delta;
                self.newton_step();
            } else {
                self.count = 1;
                self.inverse_sqrt = u16::MAX;
            }
            self.last_count = self.count;
            self.drop_next = now + self.gap(options);
            if emptied {
                return None;
            }
        }
        Some(head.packet)
    }
}

/// A single queue under CoDel.
#[derive(Debug)]
pub struct Codel {
    options: CodelOptions,
    waiting: VecDeque<Stamped>,
    bytes: u64,
    controller: Controller,
}

impl Codel {
    /// An empty queue.
    #[must_use]
    pub fn new(options: CodelOptions) -> Self {
        Self { options, waiting: VecDeque::new(), bytes: 0, controller: Controller::default() }
    }
}

impl Qdisc for Codel {
    fn enqueue(&mut self, packet: Packet, now: Nanos, drops: &mut Vec<Dropped>) {
        if self.waiting.len() as u64 >= self.options.limit_packets {
            drops.push(Dropped { packet, reason: DropReason::PacketLimit });
            return;
        }
        self.bytes += u64::from(packet.bytes);
        self.waiting.push_back(Stamped { packet, came: now });
    }

    fn dequeue(&mut self, now: Nanos, drops: &mut Vec<Dropped>) -> Option<Packet> {
        let (waiting, bytes) = (&mut self.waiting, &mut self.bytes);
        self.controller.dequeue(&self.options, now, drops, || {
            let head = waiting.pop_front()?;
            *bytes -= u64::from(head.packet.bytes);
            Some((head, *bytes))
        })
    }

    fn next_event(&self, now: Nanos) -> Option<Nanos> {
        (!self.waiting.is_empty()).then_some(now)
    }

    fn backlog(&self) -> Backlog {
        Backlog { packets: self.waiting.len() as u64, bytes: self.bytes }
    }

    fn wants_ecn(&self) -> bool {
        self.options.ecn
    }
}

impl CodelOptions {
    /// These options where a Plan says nothing else.
    pub(crate) fn or_given(self, given: &Reader<'_>) -> Result<Self, BuildError> {
        Ok(Self {
            target: given.positive("target_ns")?.map_or(self.target, Nanos),
            interval: given.positive("interval_ns")?.map_or(self.interval, Nanos),
            limit_packets: given.limit_packets.unwrap_or(self.limit_packets),
            mtu_bytes: self.mtu_bytes,
            law: if given.flag("ideal")?.unwrap_or(false) { ControlLaw::Ideal } else { ControlLaw::Linux },
            ecn: given.flag("ecn")?.unwrap_or(self.ecn),
        })
    }
}

pub(crate) const DECLARATION: Declaration = Declaration {
    plain: Some(|given| Ok(Box::new(Codel::new(CodelOptions::default().or_given(given)?)))),
    kernel: Some(&[
        word("limit_packets", 2),
        micros("interval_ns", 3),
        micros("target_ns", 1),
        cell("ecn", 4, 0, Form::Flag),
    ]),
    // struct tc_codel_xstats.
    statistics: (None, &[("marked_packets", 6)]),
    ..Declaration::of("codel")
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{conserves, packet};
    use proptest::prelude::*;

    /// Gaps between drops of a queue that stays far above its target, served every 10 us.
    fn gaps_ms(law: ControlLaw, count: usize) -> Vec<f64> {
        let mut codel = Codel::new(CodelOptions { limit_packets: u64::MAX, law, ..CodelOptions::default() });
        let (mut drops, mut times) = (Vec::new(), Vec::new());
        for id in 0..300_000 {
            codel.enqueue(packet(id, 1500), Nanos(0), &mut drops);
        }
        let mut now = Nanos(10_000_000);
        while times.len() <= count {
            now += Nanos(10_000);
            codel.dequeue(now, &mut drops).expect("the queue outlasts the drops");
            times.resize(drops.len(), now);
        }
        times.windows(2).take(count).map(|pair| (pair[1] - pair[0]).0 as f64 / 1e6).collect()
    }

    #[test]
    fn linux_spaces_its_first_drops_by_a_16_bit_newton_step() {
        let published = [100.0, 50.0, 56.3, 48.8, 44.2, 40.4, 37.5, 35.2, 33.2, 31.5];
        for (gap, wanted) in gaps_ms(ControlLaw::Linux, 10).iter().zip(published) {
            assert!((gap - wanted).abs() <= 0.06, "{gap} ms, published {wanted} ms");
        }
    }

    #[test]
    fn the_ideal_law_spaces_drops_by_the_square_root_of_their_count() {
        for (at, gap) in gaps_ms(ControlLaw::Ideal, 10).iter().enumerate() {
            let wanted = 100.0 / ((at + 1) as f64).sqrt();
            assert!((gap - wanted).abs() <= 0.02, "{gap} ms, wanted {wanted} ms");
        }
    }

    #[test]
    fn a_packet_that_can_be_marked_is_not_dropped() {
        let mut codel =
            Codel::new(CodelOptions { limit_packets: u64::MAX, ecn: true, ..CodelOptions::default() });
        let (mut drops, mut marked) = (Vec::new(), 0);
        for id in 0..40_000 {
            let ecn = if id % 2 == 0 { Ecn::Capable } else { Ecn::NotCapable };
            codel.enqueue(Packet { ecn, ..packet(id, 1500) }, Nanos(0), &mut drops);
        }
        for step in 0..30_000 {
            let sent = codel.dequeue(Nanos(10_000_000 + step * 100_000), &mut drops).unwrap();
            marked += u64::from(sent.ecn == Ecn::Marked);
        }
        assert!(marked > 10 && drops.len() > 10);
        assert!(drops.iter().all(|dropped| dropped.packet.ecn == Ecn::NotCapable));
    }

    #[test]
    fn nothing_is_dropped_below_the_target() {
        let mut codel = Codel::new(CodelOptions::default());
        let mut drops = Vec::new();
        for id in 0..10_000 {
            let now = Nanos(id * 1_000_000);
            codel.enqueue(packet(id, 1500), now, &mut drops);
            if id >= 4 {
                codel.dequeue(now, &mut drops);
            }
        }
        assert!(drops.is_empty());
    }

    #[test]
    fn the_last_packet_is_never_dropped() {
        let mut codel = Codel::new(CodelOptions::default());
        let mut drops = Vec::new();
        for id in 0..50 {
            let now = Nanos(id * 1_000_000_000);
            codel.enqueue(packet(id, 1500), now, &mut drops);
            assert!(codel.dequeue(now + Nanos(900_000_000), &mut drops).is_some());
        }
        assert!(drops.is_empty());
    }

    proptest! {
        #[test]
        fn packets_leave_once_and_in_order(
            arrivals in prop::collection::vec((0u64..50_000_000, 60u32..1500), 1..200),
        ) {
            let sent = conserves(&mut Codel::new(CodelOptions { limit_packets: 20, ..CodelOptions::default() }), &arrivals);
            prop_assert!(sent.is_sorted_by_key(|(_, packet)| packet.id));
        }
    }
}
