//! A distant network behind a port: every packet is held for a time, and some are lost at random, in the order in which
//! they came.
//!
//! Source: Linux `net/sched/sch_netem.c`, of which this is `delay` and `loss random`: a packet is lost as it comes,
//! with one chance in as many as a number of 32 bits says; what does not fit is dropped; the others leave when their
//! time is over and the transmitter is free. The delay is one and the same for all, so none overtakes another.

use crate::build::Declaration;
use crate::draws::Draws;
use crate::kernel::{Form, cell, fixed, needed};
use crate::{Backlog, DropReason, Dropped, Packet, Qdisc};
use std::collections::VecDeque;
use virtlab_wire::Nanos;

/// Parameters by their tc names.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NetemOptions {
    /// How long each packet is held (`delay`).
    pub delay: Nanos,
    /// The share of packets that is lost (`loss`).
    pub loss_ratio: f64,
    /// Packets that may be held (`limit`).
    pub limit_packets: u64,
    /// Seed of the draws.
    pub seed: u64,
}

impl Default for NetemOptions {
    fn default() -> Self {
        Self { delay: Nanos::ZERO, loss_ratio: 0.0, limit_packets: 1000, seed: 0 }
    }
}

/// Packets that are held, with the instants from which on they may go.
#[derive(Debug)]
pub struct Netem {
    options: NetemOptions,
    /// The number of draws among 2^32 that lose their packet.
    lost_of_all: u64,
    waiting: VecDeque<(Nanos, Packet)>,
    bytes: u64,
    draws: Draws,
}

impl Netem {
    /// Empty.
    #[must_use]
    pub fn new(options: NetemOptions) -> Self {
        let lost_of_all = (options.loss_ratio.clamp(0.0, 1.0) * 4_294_967_296.0).round() as u64;
        Self { options, lost_of_all, waiting: VecDeque::new(), bytes: 0, draws: Draws(options.seed) }
    }
}

impl Qdisc for Netem {
    fn enqueue(&mut self, packet: Packet, now: Nanos, drops: &mut Vec<Dropped>) {
        if self.lost_of_all > 0 && self.draws.draw() >> 32 < self.lost_of_all {
            drops.push(Dropped { packet, reason: DropReason::Lost });
        } else if self.waiting.len() as u64 >= self.options.limit_packets {
            drops.push(Dropped { packet, reason: DropReason::PacketLimit });
        } else {
            self.bytes += u64::from(packet.bytes);
            self.waiting.push_back((now + self.options.delay, packet));
        }
    }

    fn dequeue(&mut self, now: Nanos, _drops: &mut Vec<Dropped>) -> Option<Packet> {
        self.waiting.front().filter(|(at, _)| *at <= now)?;
        let (_, packet) = self.waiting.pop_front()?;
        self.bytes -= u64::from(packet.bytes);
        Some(packet)
    }

    fn next_event(&self, now: Nanos) -> Option<Nanos> {
        self.waiting.front().map(|(at, _)| (*at).max(now))
    }

    fn backlog(&self) -> Backlog {
        Backlog { packets: self.waiting.len() as u64, bytes: self.bytes }
    }
}

pub(crate) const DECLARATION: Declaration = Declaration {
    plain: Some(|given| {
        let default = NetemOptions::default();
        Ok(Box::new(Netem::new(NetemOptions {
            delay: given.whole("delay_ns")?.map_or(default.delay, Nanos),
            loss_ratio: given.ratio("loss_ratio")?.unwrap_or(default.loss_ratio),
            limit_packets: given.limit_packets.unwrap_or(default.limit_packets),
            seed: given.whole("seed")?.unwrap_or(default.seed),
        })))
    }),
    is_far: true,
    // struct tc_netem_qopt: latency, limit, loss, gap, duplicate, jitter; TCA_NETEM_RATE, without cells;
    // TCA_NETEM_LATENCY64.
    kernel: Some(&[
        cell("delay_ns", 0, 0, Form::Ticks),
        needed("limit_packets", 0, 4, Form::Word(1)),
        cell("loss_ratio", 0, 8, Form::Share),
        fixed(0, 20, Form::Constant(0)),
        cell("rate_bit_per_s", 6, 0, Form::Rate(8)),
        cell("overhead_bytes", 6, 4, Form::Word(1)),
        fixed(6, 12, Form::Constant(0)),
        cell("delay_ns", 10, 0, Form::Long),
    ]),
    trial: &[
        ("rate_bit_per_s", 100_000_000),
        ("delay_ns", 1000),
        ("limit_packets", 100),
        ("overhead_bytes", 24),
    ],
    ..Declaration::of("netem")
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{conserves, drain, packet};
    use proptest::prelude::*;

    fn netem(delay_ns: u64, loss_ratio: f64, seed: u64) -> Netem {
        let delay = Nanos(delay_ns);
        Netem::new(NetemOptions { delay, loss_ratio, seed, ..NetemOptions::default() })
    }

    #[test]
    fn every_packet_is_held_for_its_time_and_none_overtakes() {
        let mut own = netem(5000, 0.0, 0);
        let sent = conserves(&mut own, &[(0, 1514), (100, 60), (9000, 60)]);
        let found: Vec<(u64, u64)> = sent.iter().map(|(at, packet)| (at.0, packet.id)).collect();
        assert_eq!(found, [(5000, 0), (5100, 1), (14_100, 2)]);
    }

    #[test]
    fn what_does_not_fit_is_dropped() {
        let mut own =
            Netem::new(NetemOptions { delay: Nanos(9), limit_packets: 2, ..NetemOptions::default() });
        let mut drops = Vec::new();
        for id in 0..3 {
            own.enqueue(packet(id, 100), Nanos(0), &mut drops);
        }
        assert_eq!(drops, [Dropped { packet: packet(2, 100), reason: DropReason::PacketLimit }]);
        assert_eq!(drain(&mut own, Nanos(0)).len(), 2);
    }

    #[test]
    fn as_many_are_lost_as_was_said_and_equal_seeds_lose_the_same() {
        let lost = |ratio: f64, seed: u64| {
            let mut own = netem(0, ratio, seed);
            let mut drops = Vec::new();
            for id in 0..100_000 {
                own.enqueue(packet(id, 100), Nanos(id), &mut drops);
                own.dequeue(Nanos(id), &mut drops);
            }
            drops.iter().map(|dropped| dropped.packet.id).collect::<Vec<_>>()
        };
        // Five standard deviations of a binomial draw.
        for (ratio, most_off) in [(0.01, 158.0), (0.25, 685.0)] {
            let count = lost(ratio, 7).len() as f64;
            assert!((count - 100_000.0 * ratio).abs() < most_off, "{count} of 100,000 at {ratio}");
        }
        assert_eq!(lost(0.1, 7), lost(0.1, 7));
        assert_ne!(lost(0.1, 7), lost(0.1, 8));
        assert_eq!((lost(0.0, 7).len(), lost(1.0, 7).len()), (0, 100_000));
    }

    proptest! {
        #[test]
        fn packets_leave_once_in_order_and_not_before_their_time(
            arrivals in prop::collection::vec((0u64..3000, 60u32..1515), 0..200),
            delay_ns in 0u64..10_000,
            loss_ratio in 0.0f64..0.5,
        ) {
            let sent = conserves(&mut netem(delay_ns, loss_ratio, 1), &arrivals);
            prop_assert!(sent.iter().is_sorted_by_key(|(_, packet)| packet.id));
            let came: Vec<u64> = arrivals
                .iter()
                .scan(0, |now, (gap, _)| {
                    *now += gap;
                    Some(*now)
                })
                .collect();
            for (at, packet) in &sent {
                prop_assert_eq!(at.0, came[packet.id as usize] + delay_ns);
            }
        }
    }
}
