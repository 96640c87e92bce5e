//! A train of equal frames through a FIFO in closed form.
//!
//! Two cases are the same for every frame, so they cost as much for all of them as for one. Frames that come no closer
//! than they are sent, to a transmitter that is free, start at once. Frames that come exactly as they are sent, behind
//! some of their own length that follow each other without a pause, all wait for the same time: each finds as many
//! waiting as the first did, because one starts as one comes. Frames that come all at once start one after the other;
//! each waits longer than the one before, but nothing else has to be asked again. Anything else goes frame by frame
//! until it is one of these.

use super::booked::{Booking, Entry};
use super::transmitter::Wire;
use super::{Line, Queueing};
use crate::train::Train;
use virtlab_qdisc::{Backlog, Ecn, Fifo, Packet};
use virtlab_wire::Nanos;

impl Line {
    /// Frames of `bytes` come: when the far end has them is appended to `into`; refused ones are absent. As so many
    /// calls of [`Line::offer_closed`].
    pub(crate) fn offer_train(&mut self, bytes: u32, train: Train, into: &mut Vec<Train>) {
        let packet = Packet { id: 0, bytes, flow: 0, class: 0, ecn: Ecn::NotCapable };
        if train.count > 1
            && train.step == Nanos::ZERO
            && let Some(train) = self.offer_at_once(bytes, train)
        {
            return train.join(into);
        }
        for number in 0..train.count {
            let left = train.without(number);
            if left.count > 1
                && let Some(at) = self.offer_alike(bytes, left)
            {
                return Train { at, ..left }.join(into);
            }
            match self.offer_closed(&packet, left.at) {
                Some(Ok(at)) => Train::of_one(at).join(into),
                Some(Err(_)) => {}
                None => unreachable!("a train goes through FIFOs in closed form"),
            }
        }
    }

    /// When the far end has the first frame of a train of which all fare alike; `None`, and nothing is done, where they
    /// do not.
    fn offer_alike(&mut self, bytes: u32, train: Train) -> Option<Nanos> {
        let Queueing::Fifo { limit_packets, limit_bytes } = self.queueing else { return None };
        let Wire { occupied, whole, .. } = self.transmitter.measure(bytes);
        if train.at < self.transmitter.clock || train.step < occupied {
            return None;
        }
        self.pass_starts(train.at);
        let wait = self.transmitter.busy_until.since(train.at);
        let mut held = self.ahead.backlog();
        if wait > Nanos::ZERO && !(train.step == occupied && self.follows_alike(bytes, occupied, wait)) {
            return None;
        }
        if Fifo::refusal(held, bytes, limit_packets, limit_bytes).is_some() {
            return None;
        }
        if wait > Nanos::ZERO {
            let later = Nanos(occupied.0 * u64::from(train.count - 1));
            for (start, _) in &mut self.ahead.starts {
                *start += later;
            }
            self.ahead.push(train.last() + wait, bytes);
            held.packets += 1;
            held.bytes += u64::from(bytes);
        }
        self.transmitter.clock = train.last();
        self.transmitter.busy_until = train.last() + wait + occupied;
        let (start, marked, refused) = (train.at + wait, false, None);
        let entry = Entry { at: train.at, start, occupied, bytes, marked, refused, held };
        let booking = Booking { entry, step: train.step, count: train.count };
        match &mut self.booked {
            None => self.counters.note_alike(&booking, &mut self.waits),
            Some(booked) => booked.entries.push_back(booking),
        }
        Some(start + whole)
    }

    /// When the far end has frames that come at one instant; `None`, and nothing is done, where some may be refused, or
    /// are to be counted later.
    fn offer_at_once(&mut self, bytes: u32, train: Train) -> Option<Train> {
        let Queueing::Fifo { limit_packets, limit_bytes } = self.queueing else { return None };
        if self.booked.is_some() {
            return None;
        }
        let Wire { occupied, whole, .. } = self.transmitter.measure(bytes);
        let now = train.at.max(self.transmitter.clock);
        self.pass_starts(now);
        let (ahead, before) = (self.ahead.backlog(), u64::from(train.count - 1));
        let held =
            Backlog { packets: ahead.packets + before, bytes: ahead.bytes + before * u64::from(bytes) };
        if Fifo::refusal(held, bytes, limit_packets, limit_bytes).is_some() {
            return None;
        }
        let starts = Train { at: now.max(self.transmitter.busy_until), step: occupied, count: train.count };
        for number in 0..train.count {
            let start = starts.nth(number);
            if start > now {
                let wait = start.since(now);
                self.ahead.push(start, bytes);
                self.waits.note(wait);
                self.counters.residence_ns += wait.0;
            }
        }
        self.counters.residence_max_ns = self.counters.residence_max_ns.max(starts.last().since(now).0);
        self.counters.note_held(self.ahead.backlog());
        self.counters.packets += u64::from(train.count);
        self.counters.bytes += u64::from(train.count) * u64::from(bytes);
        self.counters.busy_ns += u64::from(train.count) * occupied.0;
        self.transmitter.busy_until = starts.last() + occupied;
        Some(Train { at: starts.at + whole, ..starts })
    }

    /// Whether all that wait are as long, and they and what is being sent hold the transmitter without a pause until it
    /// is free, in `wait`.
    fn follows_alike(&self, bytes: u32, occupied: Nanos, wait: Nanos) -> bool {
        let end = self.transmitter.busy_until.0;
        wait.0 <= (self.ahead.starts.len() as u64 + 1) * occupied.0
            && self
                .ahead
                .starts
                .iter()
                .rev()
                .zip(1..)
                .all(|(&(start, waiting), behind)| waiting == bytes && start.0 + behind * occupied.0 == end)
    }
}
