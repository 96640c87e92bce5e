//! PIE: drops packets as they come, with a probability that follows how long packets wait (RFC 8033).
//!
//! Source: RFC 8033 with Linux's parameters and arithmetic (`net/sched/sch_pie.c`): the wait is that of the last packet
//! that left, by its time of arrival; times are counted in ticks of 64 ns, probabilities in parts of 2^56. Every
//! `tupdate` the probability changes by
//!
//! ```text
//! alpha (wait - target) + beta (wait - wait before),
//! ```
//!
//! scaled down while it is small, by at most 2 % upwards once it is above a tenth. A packet is dropped by a draw
//! against the probability, never before the probabilities since the last drop add up to 0.85, always once they add up
//! to 8.5.
//!
//! Three things differ from Linux, each where its own behaviour is an accident of timers: the first update is `tupdate`
//! after the first packet, not after a timer that begins with the discipline; a probability ends at 1 (RFC 8033,
//! section 4.2), where Linux's may grow beyond; and `tupdate` is kept as it is, where Linux rounds it up to whole timer
//! ticks.

use crate::build::{BuildError, Declaration, Reader};
use crate::draws::Draws;
use crate::kernel::{Form, cell, micros, word};
use crate::{Backlog, DropReason, Dropped, Ecn, Packet, Qdisc};
use std::collections::VecDeque;
use virtlab_wire::Nanos;

const TICK_NS: u64 = 64;
const TICKS_PER_S: i64 = 15_625_000;
/// A probability of 1.
const CERTAIN: i64 = (1 << 56) - 1;
/// For how long a queue that begins drops nothing.
const BURST_ALLOWANCE: i64 = 150_000_000 / TICK_NS as i64;
/// A wait from which on the probability grows by 2 % more at each update.
const LONG_WAIT: i64 = 250_000_000 / TICK_NS as i64;
/// MTU and Ethernet header.
const FULL_FRAME_BYTES: u32 = 1514;

/// Parameters by their tc names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PieOptions {
    /// The wait that is aimed at (`target`).
    pub target: Nanos,
    /// Time between updates of the probability (`tupdate`).
    pub update: Nanos,
    /// Packets that may wait (`limit`).
    pub limit_packets: u64,
    /// Weight of the wait's distance from the target, in sixteenths per second (`alpha`).
    pub alpha: u32,
    /// Weight of the wait's change, in sixteenths per second (`beta`).
    pub beta: u32,
    /// Mark instead of dropping while the probability is at most a tenth (`ecn`).
    pub ecn: bool,
    /// Short packets are dropped less often (`bytemode`).
    pub by_bytes: bool,
    /// Seed of the draws.
    pub seed: u64,
}

impl Default for PieOptions {
    fn default() -> Self {
        Self {
            target: Nanos(15_000_000),
            update: Nanos(15_000_000),
            limit_packets: 1000,
            alpha: 2,
            beta: 20,
            ecn: false,
            by_bytes: false,
            seed: 0,
        }
    }
}

/// What the probability is worked out from; times in ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Control {
    probability: i64,
    /// Sum of the probabilities since the last drop.
    added_up: i64,
    burst_left: i64,
    wait: i64,
    wait_before: i64,
    last_departure: Option<Nanos>,
}

impl Control {
    const START: Self = Self {
        probability: 0,
        added_up: 0,
        burst_left: BURST_ALLOWANCE,
        wait: 0,
        wait_before: 0,
        last_departure: None,
    };

    /// An update of the probability. `held_bytes`: what waits.
    fn update(&mut self, options: &PieOptions, held_bytes: u64) {
        let target = ticks(options.target);
        // Too little waits to say how long it will.
        let silent = self.wait == 0 && held_bytes > 0;
        let weight = |sixteenths: u32| (i64::from(sixteenths) * (CERTAIN / TICKS_PER_S)) >> 4;
        let shift = scaling(self.probability);
        let (alpha, beta) = (weight(options.alpha) >> shift, weight(options.beta) >> shift);
        let mut delta = alpha
            .saturating_mul(self.wait - target)
            .saturating_add(beta.saturating_mul(self.wait - self.wait_before));
        if self.probability >= CERTAIN / 10 {
            delta = delta.min(CERTAIN / 50);
        }
        if self.wait > LONG_WAIT {
            delta = delta.saturating_add(CERTAIN / 50);
        }
        self.probability = self.probability.saturating_add(delta).clamp(0, CERTAIN);
        if self.wait == 0 && self.wait_before == 0 && !silent {
            self.probability -= self.probability / 64;
        }
        if self.wait < target / 2 && self.wait_before < target / 2 && self.probability == 0 {
            *self = Self { wait: self.wait, ..Self::START };
        }
        self.wait_before = self.wait;
    }

    /// Whether a packet that comes is to be dropped or marked. `held_bytes`: what waits before it.
    fn strikes(
        &mut self,
        options: &PieOptions,
        packet_bytes: u32,
        held_bytes: u64,
        draws: &mut Draws,
    ) -> bool {
        let short_and_rare = self.wait < ticks(options.target) / 2 && self.probability < CERTAIN / 5;
        if self.burst_left > 0 || short_and_rare || held_bytes < 2 * u64::from(FULL_FRAME_BYTES) {
            return false;
        }
        let probability = if options.by_bytes && packet_bytes <= FULL_FRAME_BYTES {
            i64::from(packet_bytes) * (self.probability / i64::from(FULL_FRAME_BYTES))
        } else {
            self.probability
        };
        self.added_up = if probability == 0 { 0 } else { self.added_up.saturating_add(probability) };
        if self.added_up < CERTAIN / 100 * 85 {
            return false;
        }
        if self.added_up >= CERTAIN / 2 * 17 {
            return true;
        }
        let strikes = ((draws.draw() >> 8) as i64) < probability;
        if strikes {
            self.added_up = 0;
        }
        strikes
    }

    /// A packet leaves that waited so long. `held_bytes`: what still waits.
    fn departs(&mut self, waited: Nanos, held_bytes: u64, now: Nanos) {
        self.wait = if held_bytes == 0 { 0 } else { ticks(waited) };
        let since = self.last_departure.map_or(0, |last| ticks(now.since(last)));
        self.last_departure = Some(now);
        self.burst_left = (self.burst_left - since).max(0);
    }
}

fn ticks(time: Nanos) -> i64 {
    i64::try_from(time.0 / TICK_NS).unwrap_or(i64::MAX)
}

/// By how many bits both weights are smaller at a small probability (RFC 8033, section 4.2, with Linux's steps).
fn scaling(probability: i64) -> u32 {
    if probability >= CERTAIN / 10 {
        return 0;
    }
    let powers = [100, 1_000, 10_000, 100_000, 1_000_000];
    1 + 2 * powers.iter().take_while(|power| probability < CERTAIN / **power).count() as u32
}

/// A queue under PIE.
#[derive(Debug)]
pub struct Pie {
    options: PieOptions,
    control: Control,
    /// From the first packet on.
    next_update: Option<Nanos>,
    draws: Draws,
    waiting: VecDeque<(Nanos, Packet)>,
    bytes: u64,
}

impl Pie {
    /// Empty.
    #[must_use]
    pub fn new(options: PieOptions) -> Self {
        let options = PieOptions { update: options.update.max(Nanos(1)), ..options };
        Self {
            options,
            control: Control::START,
            next_update: None,
            draws: Draws(options.seed),
            waiting: VecDeque::new(),
            bytes: 0,
        }
    }

    /// The probability with which a packet is dropped now.
    #[must_use]
    pub fn probability(&self) -> f64 {
        self.control.probability as f64 / CERTAIN as f64
    }

    /// Makes the updates that are due. While nothing comes or goes they soon change nothing any more.
    fn catch_up(&mut self, now: Nanos) {
        let period = self.options.update;
        while let Some(due) = self.next_update.filter(|due| *due <= now) {
            let before = self.control;
            self.control.update(&self.options, self.bytes);
            let unchanged = if self.control == before { now.since(due).0 / period.0 } else { 0 };
            self.next_update = Some(due + Nanos((unchanged + 1) * period.0));
        }
    }
}

impl Qdisc for Pie {
    fn enqueue(&mut self, mut packet: Packet, now: Nanos, drops: &mut Vec<Dropped>) {
        self.catch_up(now);
        self.next_update = self.next_update.or(Some(now + self.options.update));
        let reason = if self.waiting.len() as u64 >= self.options.limit_packets {
            Some(DropReason::PacketLimit)
        } else if !self.control.strikes(&self.options, packet.bytes, self.bytes, &mut self.draws) {
            None
        } else if self.options.ecn
            && self.control.probability <= CERTAIN / 10
            && packet.ecn != Ecn::NotCapable
        {
            packet.ecn = Ecn::Marked;
            None
        } else {
            Some(DropReason::Congestion)
        };
        if let Some(reason) = reason {
            self.control.added_up = 0;
            drops.push(Dropped { packet, reason });
        } else {
            self.bytes += u64::from(packet.bytes);
            self.waiting.push_back((now, packet));
        }
    }

    fn dequeue(&mut self, now: Nanos, _drops: &mut Vec<Dropped>) -> Option<Packet> {
        self.catch_up(now);
        let (came, packet) = self.waiting.pop_front()?;
        self.bytes -= u64::from(packet.bytes);
        self.control.departs(now.since(came), self.bytes, now);
        Some(packet)
    }

    fn next_event(&self, now: Nanos) -> Option<Nanos> {
        self.waiting.front().map(|_| now)
    }

    fn backlog(&self) -> Backlog {
        Backlog { packets: self.waiting.len() as u64, bytes: self.bytes }
    }

    fn wants_ecn(&self) -> bool {
        self.options.ecn
    }
}

/// A weight in sixteenths, as tc takes them.
fn weight(given: &Reader<'_>, key: &'static str) -> Result<Option<u32>, BuildError> {
    let in_range = |value| u32::try_from(value).ok().filter(|value| *value <= 32);
    let refused = || BuildError::new(key, "is a weight, 0 to 32");
    given.whole(key)?.map(|value| in_range(value).ok_or_else(refused)).transpose()
}

pub(crate) const DECLARATION: Declaration = Declaration {
    plain: Some(|given| {
        let default = PieOptions::default();
        Ok(Box::new(Pie::new(PieOptions {
            target: given.positive("target_ns")?.map_or(default.target, Nanos),
            update: given.positive("tupdate_ns")?.map_or(default.update, Nanos),
            limit_packets: given.limit_packets.unwrap_or(default.limit_packets),
            alpha: weight(given, "alpha")?.unwrap_or(default.alpha),
            beta: weight(given, "beta")?.unwrap_or(default.beta),
            ecn: given.flag("ecn")?.unwrap_or(default.ecn),
            by_bytes: given.flag("bytemode")?.unwrap_or(default.by_bytes),
            seed: given.whole("seed")?.unwrap_or(default.seed),
        })))
    }),
    kernel: Some(&[
        micros("target_ns", 1),
        word("limit_packets", 2),
        micros("tupdate_ns", 3),
        word("alpha", 4),
        word("beta", 5),
        cell("ecn", 6, 0, Form::Flag),
        cell("bytemode", 7, 0, Form::Flag),
    ]),
    // struct tc_pie_xstats: prob has 64 bits.
    statistics: (None, &[("marked_packets", 9)]),
    ..Declaration::of("pie")
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{conserves, packet};
    use proptest::prelude::*;

    const MS: u64 = 1_000_000;

    fn control(probability: f64, wait_ms: u64, before_ms: u64) -> Control {
        Control {
            probability: (probability * CERTAIN as f64) as i64,
            wait: ticks(Nanos(wait_ms * MS)),
            wait_before: ticks(Nanos(before_ms * MS)),
            ..Control::START
        }
    }

    fn updated(probability: f64, wait_ms: u64, before_ms: u64) -> f64 {
        let mut control = control(probability, wait_ms, before_ms);
        control.update(&PieOptions::default(), 30_000);
        control.probability as f64 / CERTAIN as f64
    }

    fn close(actual: f64, wanted: f64) -> bool {
        (actual - wanted).abs() <= 1e-3 * wanted
    }

    #[test]
    fn the_probability_follows_the_pseudo_code_of_rfc_8033() {
        // p = alpha (wait - target) + beta (wait - before), alpha 1/8 and beta 5/4 per second, target 15 ms.
        let from_zero = (0.125 * 0.085 + 1.25 * 0.1) / 2048.0;
        assert!(close(updated(0.0, 100, 0), from_zero), "{}", updated(0.0, 100, 0));
        // At half of each threshold, the divisor of that row.
        for (probability, divisor) in
            [(5e-6, 512.0), (5e-5, 128.0), (5e-4, 32.0), (5e-3, 8.0), (5e-2, 2.0), (0.5, 1.0)]
        {
            let grown = probability + (0.125 * 0.005 + 1.25 * 0.01) / divisor;
            assert!(close(updated(probability, 20, 10), grown), "{probability}");
        }
        assert!(close(updated(0.2, 200, 0), 0.22), "never up by more than 2 % at once above a tenth");
        assert!(close(updated(0.2, 300, 300), 0.24), "and by 2 % more where the wait is beyond 250 ms");
        let mut idle = control(0.5, 0, 0);
        idle.update(&PieOptions::default(), 0);
        let left = (0.5 - 0.125 * 0.015) * 63.0 / 64.0;
        assert!(close(idle.probability as f64 / CERTAIN as f64, left), "an empty queue forgets by a 64th");
    }

    /// A queue that has worked for long: its burst allowance is used up.
    fn worked(probability: f64, wait_ms: u64, options: PieOptions) -> Pie {
        let mut pie = Pie::new(PieOptions { update: Nanos(u64::MAX / 4), ..options });
        pie.control = Control { burst_left: 0, ..control(probability, wait_ms, wait_ms) };
        for id in 0..4 {
            pie.waiting.push_back((Nanos(0), packet(id, 1514)));
            pie.bytes += 1514;
        }
        pie
    }

    fn dropped(pie: &mut Pie, packets: u64, ecn: Ecn, bytes: u32) -> Vec<Dropped> {
        let mut drops = Vec::new();
        for id in 0..packets {
            pie.enqueue(Packet { ecn, ..packet(10 + id, bytes) }, Nanos(0), &mut drops);
        }
        drops
    }

    #[test]
    fn a_packet_is_dropped_by_the_draw_and_not_before_the_probabilities_add_up_to_085() {
        let options = PieOptions { limit_packets: 100_000, ..PieOptions::default() };
        let drops = dropped(&mut worked(0.25, 30, options), 20_000, Ecn::NotCapable, 1000);
        assert!(drops.iter().all(|drop| drop.reason == DropReason::Congestion));
        let gaps: Vec<u64> = drops.windows(2).map(|two| two[1].packet.id - two[0].packet.id).collect();
        assert!(gaps.iter().all(|gap| (4..=34).contains(gap)), "0.85 and 8.5 at 0.25 each");
        // After three packets that are safe every one is dropped with probability 1/4: one in 3 + 4.
        let mean = gaps.iter().sum::<u64>() as f64 / gaps.len() as f64;
        assert!((6.5..7.5).contains(&mean), "{mean}");
    }

    #[test]
    fn short_packets_are_dropped_less_often_where_bytes_count() {
        let options = PieOptions { limit_packets: 100_000, by_bytes: true, ..PieOptions::default() };
        let long = dropped(&mut worked(0.5, 30, options), 10_000, Ecn::NotCapable, 1514).len();
        let short = dropped(&mut worked(0.5, 30, options), 10_000, Ecn::NotCapable, 151).len();
        assert!(long > 5 * short, "{long} and {short}");
    }

    #[test]
    fn packets_are_marked_up_to_a_tenth_and_dropped_beyond() {
        let options = PieOptions { limit_packets: 100_000, ecn: true, ..PieOptions::default() };
        let mut rare = worked(0.09, 30, options);
        assert_eq!(dropped(&mut rare, 1000, Ecn::Capable, 1000), []);
        assert!(rare.waiting.iter().any(|(_, packet)| packet.ecn == Ecn::Marked));
        assert!(!dropped(&mut worked(0.09, 30, options), 1000, Ecn::NotCapable, 1000).is_empty());
        assert!(!dropped(&mut worked(0.11, 30, options), 1000, Ecn::Capable, 1000).is_empty());
    }

    #[test]
    fn a_queue_that_stays_empty_begins_anew_however_long_that_is() {
        let mut pie = worked(1.0, 100, PieOptions::default());
        pie.options.update = Nanos(15 * MS);
        pie.next_update = Some(Nanos(15 * MS));
        while pie.dequeue(Nanos(10 * MS), &mut Vec::new()).is_some() {}
        pie.catch_up(Nanos(u64::MAX / 2));
        assert_eq!(Control { last_departure: None, ..pie.control }, Control::START);
        assert!(pie.next_update > Some(Nanos(u64::MAX / 2)));
    }

    proptest! {
        #[test]
        fn a_probability_is_one_and_nothing_is_dropped_that_the_rfc_lets_pass(
            arrivals in prop::collection::vec((0u64..3 * MS, 60u32..1515), 1..600),
            rate in prop::sample::select(vec![1_000_000_u64, 4_000_000, 20_000_000]),
            seed in any::<u64>(), by_bytes in any::<bool>(),
        ) {
            let options = PieOptions { seed, by_bytes, target: Nanos(5 * MS), ..PieOptions::default() };
            let (mut pie, mut drops) = (Pie::new(options), Vec::new());
            let (mut now, mut free, mut served) = (Nanos(0), Nanos(0), None);
            let mut sent = 0;
            for (id, (gap, bytes)) in arrivals.iter().enumerate() {
                now += Nanos(*gap);
                while free <= now {
                    let Some(packet) = pie.dequeue(free, &mut drops) else { break };
                    served = served.or(Some(free));
                    sent += 1;
                    free += virtlab_wire::ethernet::serialisation(packet.bytes, rate);
                }
                free = free.max(now);
                pie.catch_up(now);
                let (before, held) = (pie.control, pie.backlog());
                let count = drops.len();
                pie.enqueue(packet(id as u64, *bytes), now, &mut drops);
                prop_assert!((0.0..=1.0).contains(&pie.probability()));
                if drops[count..].iter().any(|drop| drop.reason == DropReason::Congestion) {
                    prop_assert!(before.wait >= ticks(options.target) / 2 || before.probability >= CERTAIN / 5);
                    prop_assert!(served.is_some_and(|served| now.since(served) >= Nanos(150 * MS)));
                    prop_assert!(held.bytes >= 2 * u64::from(FULL_FRAME_BYTES));
                }
                prop_assert_eq!(pie.backlog().packets + sent + drops.len() as u64, id as u64 + 1);
            }
        }

        #[test]
        fn packets_are_conserved(arrivals in prop::collection::vec((0u64..200_000, 60u32..1515), 1..200)) {
            conserves(&mut Pie::new(PieOptions { limit_packets: 20, ..PieOptions::default() }), &arrivals);
        }
    }
}
