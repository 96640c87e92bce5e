//! One direction of a link: a queue, a transmitter that holds one frame for its serialisation time, and the cable.
//!
//! The transmitter is busy for preamble, frame and gap; the far end has the whole frame when the gap begins, later by
//! the propagation. A frame starts when it has come, when the one before it has left, and when the discipline lets it.
//!
//! A FIFO needs no discipline to ask: `start = max(arrival, end of the last)` is known as the frame comes, so it is
//! sent at once into the cable with its future time, and only the limits remember who still waits. Any other discipline
//! is asked whenever the transmitter falls free. Both give the same departures for a FIFO (tested).

mod ahead;
mod booked;
mod classes;
mod counters;
mod cut;
mod state;
mod trains;
mod transmitter;
mod waits;

pub use counters::{ClassCounters, LineCounters};

use ahead::Ahead;
use booked::{Booked, Booking, Entry};
use classes::Classes;
use state::State;
use std::collections::VecDeque;
use transmitter::{Transmitter, Wire};
use virtlab_qdisc::{Backlog, Classifier, DropReason, Dropped, Ecn, Fifo, Headers, Packet, Qdisc};
use virtlab_wire::Nanos;
use virtlab_wire::ethernet::{FCS_BYTES, PREAMBLE_AND_GAP_BYTES};
use waits::Waits;

/// What waits in front of the transmitter.
pub enum Queueing {
    /// A FIFO in closed form, with its limits.
    Fifo {
        /// Most packets that wait.
        limit_packets: Option<u64>,
        /// Most bytes that wait.
        limit_bytes: Option<u64>,
    },
    /// Any discipline, asked frame by frame.
    Discipline(Box<dyn Qdisc>),
    /// A discipline with classes, and the rules by which frames go to them.
    Classes {
        /// The discipline.
        qdisc: Box<dyn Qdisc>,
        /// Its rules.
        classifier: Classifier,
        /// Names of the classes, by number.
        names: Vec<String>,
    },
}

impl Queueing {
    /// The same, asked frame by frame.
    #[must_use]
    pub fn by_frames(self) -> Self {
        match self {
            Self::Fifo { limit_packets, limit_bytes } => {
                Self::Discipline(Box::new(Fifo::new(limit_packets, limit_bytes)))
            }
            other => other,
        }
    }

    fn discipline(&self) -> Option<&dyn Qdisc> {
        match self {
            Self::Fifo { .. } => None,
            Self::Discipline(qdisc) | Self::Classes { qdisc, .. } => Some(qdisc.as_ref()),
        }
    }
}

/// A frame in the cable.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Delivery {
    pub(crate) at: Nanos,
    pub(crate) packet: Packet,
}

/// One direction of a link.
pub(crate) struct Line {
    queueing: Queueing,
    ahead: Ahead,
    transmitter: Transmitter,
    cable: VecDeque<Delivery>,
    pub(crate) counters: LineCounters,
    /// How long frames had waited; of a FIFO in closed form only who had to wait.
    waits: Waits,
    /// Of a line that is offered frames before they come: those that counters or backlog do not yet, or still, know.
    booked: Option<Booked>,
    classes: Classes,
    /// When a frame came into the discipline, by its id; a FIFO in closed form knows the wait at once.
    came: Vec<Nanos>,
    link: State,
}

impl Line {
    pub(crate) fn new(rate_bit_per_s: u64, propagation: Nanos, queueing: Queueing) -> Self {
        let classes = match &queueing {
            Queueing::Classes { names, .. } => names.len(),
            _ => 0,
        };
        Self {
            queueing,
            ahead: Ahead::default(),
            transmitter: Transmitter::new(rate_bit_per_s, propagation),
            cable: VecDeque::new(),
            counters: LineCounters::default(),
            waits: Waits::default(),
            booked: None,
            classes: Classes::new(classes),
            came: Vec::new(),
            link: State::UP,
        }
    }

    /// From now on frames may be offered before they come, at instants ahead: what is counted waits for them.
    pub(crate) fn book(&mut self) {
        debug_assert!(matches!(self.queueing, Queueing::Fifo { .. }));
        if self.booked.is_none() {
            self.booked = Some(Booked::behind(&self.ahead, self.transmitter.clock));
        }
    }

    /// Counts the frames that have come by `now`.
    #[inline]
    pub(crate) fn settle_booked(&mut self, now: Nanos) {
        if let Some(booked) = &mut self.booked {
            booked.settle(now, &mut self.counters, &mut self.waits);
        }
    }

    /// Frames that it has been offered and that are not forgotten yet.
    #[inline]
    pub(crate) fn booked(&self) -> usize {
        self.booked.as_ref().map_or(0, |booked| booked.entries.len())
    }

    /// A rate at which frames that start from now on are sent.
    pub(crate) fn set_rate(&mut self, rate_bit_per_s: u64) {
        self.transmitter.set_rate(rate_bit_per_s);
    }

    /// The rate of frames that start now, in bit/s, and the propagation.
    pub(crate) const fn speed(&self) -> (u64, Nanos) {
        self.transmitter.speed()
    }

    /// It has carried frames beside those that it was offered, for so long.
    pub(crate) fn count_beside(&mut self, frames: u64, bytes: u64, busy: Nanos) {
        self.counters.packets += frames;
        self.counters.bytes += bytes;
        self.counters.busy_ns += busy.0;
    }

    /// Octets on the wire of all frames that it has been offered, of dropped ones too.
    pub(crate) fn offered_octets(&self) -> u64 {
        let LineCounters { packets, bytes, drops, dropped_bytes, .. } = self.counters;
        bytes + dropped_bytes + (packets + drops) * u64::from(FCS_BYTES + PREAMBLE_AND_GAP_BYTES)
    }

    pub(crate) fn wants_flow(&self) -> bool {
        matches!(&self.queueing, Queueing::Classes { classifier, .. } if classifier.wants_flow)
            || self.queueing.discipline().is_some_and(Qdisc::wants_flow)
    }

    pub(crate) fn wants_ecn(&self) -> bool {
        self.queueing.discipline().is_some_and(Qdisc::wants_ecn)
    }

    /// Whether it has rules that look at headers.
    pub(crate) fn wants_headers(&self) -> bool {
        matches!(self.queueing, Queueing::Classes { .. })
    }

    /// The class of a frame here; 0 without classes.
    pub(crate) fn class_of(&self, headers: Option<&Headers>, flow: u64) -> u32 {
        match &self.queueing {
            Queueing::Classes { classifier, .. } => {
                classifier.class_of(&headers.copied().unwrap_or_default(), flow)
            }
            _ => 0,
        }
    }

    /// Classes and their counters.
    pub(crate) fn class_counters(&self) -> impl Iterator<Item = (&str, ClassCounters)> {
        let names: &[String] = match &self.queueing {
            Queueing::Classes { names, .. } => names,
            _ => &[],
        };
        names.iter().map(String::as_str).zip(self.classes.read())
    }

    /// The wait that a share of the frames do not exceed, within an eighth.
    pub(crate) fn residence_quantile_ns(&self, share: f64) -> u64 {
        let LineCounters { packets, residence_max_ns, .. } = self.counters;
        self.waits.quantile(share, packets).min(residence_max_ns)
    }

    /// Counts begin again at zero; what waits still waits.
    pub(crate) fn reset_counters(&mut self) {
        self.counters = LineCounters::default();
        self.waits = Waits::default();
        self.classes.reset();
    }

    /// A frame comes to a FIFO in closed form: when the far end has it, or why it is refused. `None` where a discipline
    /// has to be asked: then [`Line::offer`] takes it. `now` before that of an earlier call counts as that one's.
    #[inline]
    pub(crate) fn offer_closed(&mut self, packet: &Packet, now: Nanos) -> Option<Result<Nanos, DropReason>> {
        match self.offer_idle(packet, now) {
            Some(at) => Some(Ok(at)),
            None => self.offer_busy(packet, now),
        }
    }

    /// The same of a FIFO that is not idle.
    fn offer_busy(&mut self, packet: &Packet, now: Nanos) -> Option<Result<Nanos, DropReason>> {
        let Queueing::Fifo { limit_packets, limit_bytes } = self.queueing else { return None };
        let now = now.max(self.transmitter.clock);
        self.pass_starts(now);
        let Wire { occupied, whole, .. } = self.transmitter.measure(packet.bytes);
        let mut entry = Entry {
            at: now,
            start: now.max(self.transmitter.busy_until),
            occupied,
            bytes: packet.bytes,
            held: self.ahead.backlog(),
            marked: packet.ecn == Ecn::Marked,
            refused: None,
        };
        entry.refused = Fifo::refusal(entry.held, packet.bytes, limit_packets, limit_bytes);
        if entry.refused.is_none() {
            if entry.start > now {
                self.ahead.push(entry.start, packet.bytes);
                entry.held.packets += 1;
                entry.held.bytes += u64::from(packet.bytes);
            }
            self.transmitter.busy_until = entry.start + entry.occupied;
        }
        let answer = entry.refused.map_or(Ok(entry.start + whole), Err);
        match &mut self.booked {
            None => self.counters.note_closed(&entry, &mut self.waits),
            Some(booked) => booked.entries.push_back(Booking::of_one(entry)),
        }
        Some(answer)
    }

    /// A frame comes to a FIFO in closed form that has started all that came, counts at once what comes, and takes it:
    /// when the far end has it.
    #[inline]
    fn offer_idle(&mut self, packet: &Packet, now: Nanos) -> Option<Nanos> {
        let Queueing::Fifo { limit_packets, limit_bytes } = self.queueing else { return None };
        let now = now.max(self.transmitter.clock);
        let idle = now >= self.transmitter.busy_until && self.booked.is_none();
        if !idle || Fifo::refusal(Backlog::default(), packet.bytes, limit_packets, limit_bytes).is_some() {
            return None;
        }
        self.ahead.clear();
        self.transmitter.clock = now;
        Some(self.transmit(packet, now))
    }

    /// A frame comes. `now` before that of an earlier call counts as that one's.
    pub(crate) fn offer(&mut self, packet: Packet, now: Nanos, drops: &mut Vec<Dropped>) {
        match self.offer_closed(&packet, now) {
            Some(Ok(at)) => return self.carry(at, packet),
            Some(Err(reason)) => return drops.push(Dropped { packet, reason }),
            None => {}
        }
        if self.link.is_down_at(now) {
            return self.refuse(packet, drops);
        }
        let now = now.max(self.transmitter.clock);
        self.run(now, drops);
        let first_drop = drops.len();
        let (Queueing::Discipline(qdisc) | Queueing::Classes { qdisc, .. }) = &mut self.queueing else {
            unreachable!("a FIFO returned above")
        };
        let slot = packet.id as usize;
        if self.came.len() <= slot {
            self.came.resize(slot + 1, Nanos::ZERO);
        }
        self.came[slot] = now;
        let class = packet.class as usize;
        qdisc.enqueue(packet, now, drops);
        self.classes.queue(&packet);
        self.drops_since(first_drop, drops);
        self.run(now, drops);
        self.note_backlog();
        self.classes.note_backlog(class);
    }

    /// Puts a frame into the cable, which the far end has at `at`.
    pub(crate) fn carry(&mut self, at: Nanos, packet: Packet) {
        self.cable.push_back(Delivery { at, packet });
    }

    /// Forgets the frames of a FIFO in closed form that have started by `until`.
    #[inline]
    fn pass_starts(&mut self, until: Nanos) {
        self.transmitter.clock = self.transmitter.clock.max(until);
        self.ahead.pass(until);
    }

    /// Starts every frame whose time has come by `until`.
    pub(crate) fn run(&mut self, until: Nanos, drops: &mut Vec<Dropped>) {
        if let Queueing::Fifo { .. } = self.queueing {
            return self.pass_starts(until);
        }
        while let Some(start) = self.next_start() {
            if start > until {
                break;
            }
            let first_drop = drops.len();
            let (Queueing::Discipline(qdisc) | Queueing::Classes { qdisc, .. }) = &mut self.queueing else {
                unreachable!("a FIFO returned above")
            };
            let packet = qdisc.dequeue(start, drops);
            self.transmitter.clock = start; // and the discipline's next time is later when it gave nothing, so this ends
            self.drops_since(first_drop, drops);
            if let Some(packet) = packet {
                let wait = start.since(self.came[packet.id as usize]);
                self.classes.send(&packet, wait);
                let at = self.transmit(&packet, start);
                self.carry(at, packet);
                self.note_residence(wait);
            }
        }
        self.transmitter.clock = self.transmitter.clock.max(until);
    }

    /// When the discipline must be asked next; never for a FIFO in closed form.
    pub(crate) fn next_start(&self) -> Option<Nanos> {
        match &self.queueing {
            Queueing::Fifo { .. } => None,
            Queueing::Discipline(qdisc) | Queueing::Classes { qdisc, .. } => {
                let free = self.transmitter.busy_until.max(self.transmitter.clock);
                qdisc.next_event(free).map(|at| at.max(free))
            }
        }
    }

    /// The frame that reaches the far end next.
    pub(crate) fn next_delivery(&self) -> Option<&Delivery> {
        self.cable.front()
    }

    /// The first two frames in the cable.
    pub(crate) fn first_two(&self) -> (Option<&Delivery>, Option<&Delivery>) {
        (self.cable.front(), self.cable.get(1))
    }

    #[inline]
    pub(crate) fn deliver(&mut self) -> Option<Delivery> {
        let delivery = self.cable.pop_front();
        if self.cable.is_empty() {
            self.cable.clear(); // begins at the front again, which is in the cache
        }
        delivery
    }

    /// What waits at `now`.
    pub(crate) fn backlog(&self, now: Nanos) -> Backlog {
        if let Some(booked) = &self.booked {
            return booked.backlog(now);
        }
        match &self.queueing {
            Queueing::Fifo { .. } => self.ahead.backlog_at(now),
            Queueing::Discipline(qdisc) | Queueing::Classes { qdisc, .. } => qdisc.backlog(),
        }
    }

    /// The transmitter takes a frame; when the far end has it.
    #[inline]
    fn transmit(&mut self, packet: &Packet, start: Nanos) -> Nanos {
        let Wire { occupied, whole, .. } = self.transmitter.measure(packet.bytes);
        self.transmitter.busy_until = start + occupied;
        self.counters.packets += 1;
        self.counters.bytes += u64::from(packet.bytes);
        self.counters.busy_ns += occupied.0;
        self.counters.marked_packets += u64::from(packet.ecn == Ecn::Marked);
        start + whole
    }

    fn note_residence(&mut self, wait: Nanos) {
        self.waits.note(wait);
        self.counters.residence_ns += wait.0;
        self.counters.residence_max_ns = self.counters.residence_max_ns.max(wait.0);
    }

    fn drops_since(&mut self, first: usize, drops: &[Dropped]) {
        for dropped in &drops[first..] {
            self.counters.note_drop(dropped.packet.bytes, dropped.reason);
            self.classes.drop(&dropped.packet);
        }
    }

    fn note_backlog(&mut self) {
        self.counters.note_held(self.queueing.discipline().map(Qdisc::backlog).unwrap_or_default());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use virtlab_wire::ethernet::{serialisation, wire_bytes};

    fn packet(id: u64, bytes: u32) -> Packet {
        Packet { id, bytes, flow: 0, class: 0, ecn: Ecn::NotCapable }
    }

    /// Offers all, runs to the end, and gives deliveries, drops and counters.
    fn play(mut line: Line, offers: &[(Nanos, u32)]) -> (Vec<(u64, u64)>, Vec<Dropped>, LineCounters) {
        let mut drops = Vec::new();
        for (id, &(at, bytes)) in offers.iter().enumerate() {
            line.offer(packet(id as u64, bytes), at, &mut drops);
        }
        line.run(Nanos(u64::MAX / 2), &mut drops);
        let out = std::iter::from_fn(|| line.deliver())
            .map(|delivery| (delivery.packet.id, delivery.at.0))
            .collect();
        (out, drops, line.counters)
    }

    #[test]
    fn a_frame_is_whole_at_the_far_end_before_the_gap_ends() {
        let line =
            Line::new(100_000_000, Nanos(500), Queueing::Fifo { limit_packets: None, limit_bytes: None });
        let (out, _, counters) = play(line, &[(Nanos(1000), 1514), (Nanos(1000), 1514)]);
        assert_eq!(out, [(0, 1000 + 122_080 + 500), (1, 1000 + 123_040 + 122_080 + 500)]);
        assert_eq!(counters.busy_ns, 2 * 123_040);
        assert_eq!((counters.backlog_max_packets, counters.backlog_max_bytes), (1, 1514));
        assert_eq!((counters.residence_ns, counters.residence_max_ns), (123_040, 123_040));
    }

    proptest! {
        #[test]
        fn the_closed_form_equals_the_discipline_asked_frame_by_frame(
            gaps in prop::collection::vec((0u64..3000, 14u32..1600), 0..200),
            rate in prop::sample::select(vec![10_000_000u64, 333_333_333, 1_000_000_000, 9_999_999_999]),
            limit_packets in prop::option::of(1u64..10),
            limit_bytes in prop::option::of(1u64..10_000),
        ) {
            let mut at = 0;
            let offers: Vec<(Nanos, u32)> = gaps.iter().map(|&(gap, bytes)| { at += gap; (Nanos(at), bytes) }).collect();
            let closed = Line::new(rate, Nanos(70), Queueing::Fifo { limit_packets, limit_bytes });
            let asked = Line::new(
                rate, Nanos(70), Queueing::Discipline(Box::new(Fifo::new(limit_packets, limit_bytes))));
            prop_assert_eq!(play(closed, &offers), play(asked, &offers));
        }

        #[test]
        fn a_line_never_sends_faster_than_its_rate(
            gaps in prop::collection::vec((0u64..3000, 14u32..1600), 2..100),
        ) {
            let mut at = 0;
            let offers: Vec<(Nanos, u32)> = gaps.iter().map(|&(gap, bytes)| { at += gap; (Nanos(at), bytes) }).collect();
            let line = Line::new(1_000_000_000, Nanos(0), Queueing::Fifo { limit_packets: None, limit_bytes: None });
            let (out, drops, counters) = play(line, &offers);
            prop_assert!(drops.is_empty());
            prop_assert_eq!(counters.packets, offers.len() as u64);
            for pair in out.windows(2) {
                let bytes = offers[pair[1].0 as usize].1;
                prop_assert!(pair[1].1 - pair[0].1 >= serialisation(wire_bytes(bytes), 1_000_000_000).0);
            }
        }
    }
}
