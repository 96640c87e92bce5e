//! Token-bucket filter: a packet leaves once tokens for all its bytes are there.
//!
//! Source: Linux `net/sched/sch_tbf.c`. Tokens are kept as time: `burst` is the time its bytes take at `rate`, and a
//! packet costs the time of its own bytes. A second bucket, `peakrate` with `mtu`, bounds how fast a burst may leave.
//! Behind the buckets waits a FIFO of `limit` bytes; a packet longer than the bucket is deep can never pass and is
//! dropped at once.

use crate::build::{BuildError, Declaration, Limited};
use crate::kernel::{Form, LINK_LAYER_ETHERNET, cell, fixed, needed, word};
use crate::{Backlog, DropReason, Dropped, Fifo, Packet, Qdisc};
use virtlab_wire::{Nanos, ethernet};

/// Parameters by their tc names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TbfOptions {
    /// Long-term rate in bit/s.
    pub rate_bit_per_s: u64,
    /// Bucket depth in bytes (`burst`).
    pub burst_bytes: u32,
    /// Bytes that may wait (`limit`).
    pub limit_bytes: u64,
    /// Rate of a burst and the depth of its own bucket in bytes (`peakrate`, `mtu`).
    pub peak: Option<(u64, u32)>,
    /// Bytes added to every packet's length before it is charged (`overhead`).
    pub overhead_bytes: u32,
    /// Least length that is charged (`mpu`).
    pub minimum_bytes: u32,
}

impl TbfOptions {
    /// The `limit` that `latency` means: what leaves in that time at `rate`, and one bucket more.
    #[must_use]
    pub const fn limit_of_latency(rate_bit_per_s: u64, burst_bytes: u32, latency: Nanos) -> u64 {
        (rate_bit_per_s as u128 * latency.0 as u128 / 8_000_000_000) as u64 + burst_bytes as u64
    }
}

#[derive(Debug)]
struct Bucket {
    rate_bit_per_s: u64,
    depth_ns: i128,
    tokens_ns: i128,
}

impl Bucket {
    fn full(rate_bit_per_s: u64, depth_bytes: u32) -> Self {
        let depth_ns = i128::from(ethernet::serialisation(depth_bytes, rate_bit_per_s).0);
        Self { rate_bit_per_s, depth_ns, tokens_ns: depth_ns }
    }

    fn cost_ns(&self, bytes: u32) -> i128 {
        i128::from(ethernet::serialisation(bytes, self.rate_bit_per_s).0)
    }

    fn at(&self, elapsed: Nanos) -> i128 {
        (self.tokens_ns + i128::from(elapsed.0)).min(self.depth_ns)
    }
}

/// A token-bucket filter in front of a byte-limited FIFO.
#[derive(Debug)]
pub struct Tbf {
    options: TbfOptions,
    waiting: Fifo,
    head: Option<Packet>,
    buckets: Vec<Bucket>,
    counted: Nanos,
}

impl Tbf {
    /// Both buckets full.
    ///
    /// # Panics
    /// When a rate is zero.
    #[must_use]
    pub fn new(options: TbfOptions) -> Self {
        let mut buckets = vec![Bucket::full(options.rate_bit_per_s, options.burst_bytes)];
        buckets.extend(options.peak.map(|(rate, mtu)| Bucket::full(rate, mtu)));
        let waiting = Fifo::new(None, Some(options.limit_bytes));
        Self { options, waiting, head: None, buckets, counted: Nanos::ZERO }
    }

    fn charged_bytes(&self, packet: &Packet) -> u32 {
        (packet.bytes + self.options.overhead_bytes).max(self.options.minimum_bytes)
    }

    fn deepest_bytes(&self) -> u32 {
        self.options.peak.map_or(self.options.burst_bytes, |(_, mtu)| mtu.min(self.options.burst_bytes))
    }

    /// Time from `now` until the head may go; zero when it may go now.
    fn wait(&self, head: &Packet, now: Nanos) -> Nanos {
        let bytes = self.charged_bytes(head);
        let elapsed = now.since(self.counted);
        let lacking = self.buckets.iter().map(|bucket| bucket.cost_ns(bytes) - bucket.at(elapsed)).max();
        Nanos(lacking.unwrap_or(0).max(0) as u64)
    }
}

impl Qdisc for Tbf {
    fn enqueue(&mut self, packet: Packet, now: Nanos, drops: &mut Vec<Dropped>) {
        if self.charged_bytes(&packet) > self.deepest_bytes() {
            drops.push(Dropped { packet, reason: DropReason::Oversize });
            return;
        }
        // The head has left the FIFO but still waits: its bytes count against the limit.
        let held = self.backlog();
        if let Some(reason) = Fifo::refusal(held, packet.bytes, None, Some(self.options.limit_bytes)) {
            drops.push(Dropped { packet, reason });
        } else if held.packets == 0 {
            self.head = Some(packet);
        } else {
            self.waiting.enqueue(packet, now, drops);
        }
    }

    fn dequeue(&mut self, now: Nanos, drops: &mut Vec<Dropped>) -> Option<Packet> {
        let head = self.head?;
        if self.wait(&head, now) > Nanos::ZERO {
            return None;
        }
        let (bytes, elapsed) = (self.charged_bytes(&head), now.since(self.counted));
        for bucket in &mut self.buckets {
            bucket.tokens_ns = bucket.at(elapsed) - bucket.cost_ns(bytes);
        }
        self.counted = now;
        self.head = self.waiting.dequeue(now, drops);
        Some(head)
    }

    fn next_event(&self, now: Nanos) -> Option<Nanos> {
        self.head.as_ref().map(|head| now + self.wait(head, now))
    }

    fn backlog(&self) -> Backlog {
        let behind = self.waiting.backlog();
        match &self.head {
            Some(head) => {
                Backlog { packets: behind.packets + 1, bytes: behind.bytes + u64::from(head.bytes) }
            }
            None => behind,
        }
    }
}

pub(crate) const DECLARATION: Declaration = Declaration {
    limited: Limited::Bytes,
    plain: Some(|given| {
        let rate_bit_per_s = given.required("rate_bit_per_s")?;
        let burst_bytes =
            given.bytes("burst_bytes")?.ok_or_else(|| BuildError::new("burst_bytes", "is missing"))?;
        // tc asks for a limit; 50 ms is what its manual page shows.
        let limit_bytes = given
            .limit_bytes
            .unwrap_or_else(|| TbfOptions::limit_of_latency(rate_bit_per_s, burst_bytes, Nanos(50_000_000)));
        Ok(Box::new(Tbf::new(TbfOptions {
            rate_bit_per_s,
            burst_bytes,
            limit_bytes,
            peak: None,
            overhead_bytes: 0,
            minimum_bytes: 0,
        })))
    }),
    // TCA_TBF_PARMS, struct tc_tbf_qopt, without a peak rate; TCA_TBF_BURST.
    kernel: Some(&[
        fixed(1, 1, Form::Byte(LINK_LAYER_ETHERNET)),
        cell("overhead_bytes", 1, 2, Form::Half),
        cell("minimum_bytes", 1, 6, Form::Half),
        needed("rate_bit_per_s", 1, 8, Form::Rate(4)),
        needed("limit_bytes", 1, 24, Form::Word(1)),
        needed("burst_bytes", 1, 28, Form::Burst("rate_bit_per_s")),
        fixed(1, 32, Form::Constant(0)),
        word("burst_bytes", 6),
    ]),
    trial: &[("rate_bit_per_s", 100_000_000), ("burst_bytes", 15_000), ("limit_bytes", 150_000)],
    ..Declaration::of("tbf")
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{conserves, drain, packet};
    use proptest::prelude::*;

    fn options() -> TbfOptions {
        TbfOptions {
            rate_bit_per_s: 8_000_000,
            burst_bytes: 3000,
            limit_bytes: 20_000,
            peak: None,
            overhead_bytes: 0,
            minimum_bytes: 0,
        }
    }

    #[test]
    fn a_full_bucket_sends_its_depth_at_once_and_then_one_packet_per_refill() {
        let mut tbf = Tbf::new(options());
        let mut drops = Vec::new();
        for id in 0..5 {
            tbf.enqueue(packet(id, 1000), Nanos(0), &mut drops);
        }
        let times: Vec<u64> = drain(&mut tbf, Nanos(0)).iter().map(|(time, _)| time.0).collect();
        assert_eq!(times, [0, 0, 0, 1_000_000, 2_000_000]);
    }

    #[test]
    fn a_packet_longer_than_the_bucket_is_dropped_at_once() {
        let mut tbf = Tbf::new(options());
        let mut drops = Vec::new();
        tbf.enqueue(packet(0, 3001), Nanos(0), &mut drops);
        assert_eq!(drops, [Dropped { packet: packet(0, 3001), reason: DropReason::Oversize }]);
    }

    #[test]
    fn a_peak_rate_spreads_the_burst() {
        let mut tbf = Tbf::new(TbfOptions { peak: Some((16_000_000, 1000)), ..options() });
        let mut drops = Vec::new();
        for id in 0..3 {
            tbf.enqueue(packet(id, 1000), Nanos(0), &mut drops);
        }
        let times: Vec<u64> = drain(&mut tbf, Nanos(0)).iter().map(|(time, _)| time.0).collect();
        assert_eq!(times, [0, 500_000, 1_000_000]);
    }

    #[test]
    fn latency_bounds_the_queue_as_tc_computes_it() {
        assert_eq!(TbfOptions::limit_of_latency(8_000_000, 3000, Nanos(50_000_000)), 53_000);
    }

    proptest! {
        #[test]
        fn no_interval_carries_more_than_burst_and_rate_allow(
            arrivals in prop::collection::vec((0u64..3_000_000, 60u32..1500), 1..80),
        ) {
            let mut tbf = Tbf::new(options());
            let sent = conserves(&mut tbf, &arrivals);
            for (first, (begin, _)) in sent.iter().enumerate() {
                let mut bytes = 0u64;
                for (end, packet) in &sent[first..] {
                    bytes += u64::from(packet.bytes);
                    let allowed = 3000 + end.since(*begin).0 * 8_000_000 / 8 / 1_000_000_000;
                    prop_assert!(bytes <= allowed + 1, "{} bytes in {} ns", bytes, end.since(*begin).0);
                }
            }
            prop_assert!(sent.is_sorted_by_key(|(_, packet)| packet.id));
        }
    }
}
