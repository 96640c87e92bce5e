//! Frames of a FIFO in closed form that were offered before they come: counted when their instants do.

use super::ahead::Ahead;
use super::counters::LineCounters;
use super::waits::Waits;
use crate::train::Train;
use std::collections::VecDeque;
use virtlab_qdisc::{Backlog, DropReason};
use virtlab_wire::Nanos;

/// What a FIFO in closed form does with a frame.
#[derive(Clone, Copy)]
pub(crate) struct Entry {
    /// When it comes, and when it starts.
    pub(crate) at: Nanos,
    pub(crate) start: Nanos,
    /// How long it holds the transmitter.
    pub(crate) occupied: Nanos,
    pub(crate) bytes: u32,
    pub(crate) marked: bool,
    pub(crate) refused: Option<DropReason>,
    /// What waits then, itself included.
    pub(crate) held: Backlog,
}

/// Frames that fare alike, each `step` after the one before.
#[derive(Clone, Copy)]
pub(crate) struct Booking {
    /// The first.
    pub(crate) entry: Entry,
    pub(crate) step: Nanos,
    pub(crate) count: u32,
}

impl Booking {
    pub(crate) fn of_one(entry: Entry) -> Self {
        Self { entry, step: Nanos::ZERO, count: 1 }
    }

    fn come(&self) -> Train {
        Train { at: self.entry.at, step: self.step, count: self.count }
    }

    fn start(&self) -> Train {
        Train { at: self.entry.start, ..self.come() }
    }

    /// The first of them, and the others.
    fn parted(&self, first: u32) -> [Self; 2] {
        let entry = Entry { at: self.come().nth(first), start: self.start().nth(first), ..self.entry };
        [Self { count: first, ..*self }, Self { entry, count: self.count - first, ..*self }]
    }
}

/// Frames in the order in which they come.
#[derive(Default)]
pub(crate) struct Booked {
    pub(crate) entries: VecDeque<Booking>,
    /// How many of the first are counted, and are here only while they wait.
    counted: usize,
}

impl Booked {
    /// Behind frames that wait and have been counted.
    pub(crate) fn behind(ahead: &Ahead, now: Nanos) -> Self {
        let held = Backlog::default();
        let entry = |start: Nanos, bytes: u32| Entry {
            at: now,
            start,
            occupied: Nanos::ZERO,
            bytes,
            marked: false,
            refused: None,
            held,
        };
        let waits = ahead.starts.iter().filter(|(start, _)| *start > now);
        let entries: VecDeque<_> =
            waits.map(|&(start, bytes)| Booking::of_one(entry(start, bytes))).collect();
        Self { counted: entries.len(), entries }
    }

    pub(crate) fn settle(&mut self, now: Nanos, counters: &mut LineCounters, waits: &mut Waits) {
        while let Some(booking) = self.entries.get(self.counted) {
            let there = booking.come().by(now);
            if there == 0 {
                break;
            }
            if there < booking.count {
                let [come, later] = booking.parted(there);
                self.entries[self.counted] = come;
                self.entries.insert(self.counted + 1, later);
            }
            counters.note_alike(&self.entries[self.counted], waits);
            self.counted += 1;
        }
        while self.counted > 0 && self.entries[0].start().last() <= now {
            self.entries.pop_front();
            self.counted -= 1;
        }
    }

    /// What waits of the frames that are counted, which are those that have come.
    pub(crate) fn backlog(&self, now: Nanos) -> Backlog {
        let counted = self.entries.iter().take(self.counted);
        let held = counted.filter(|booking| booking.entry.refused.is_none());
        held.fold(Backlog::default(), |sum, booking| {
            let waiting = u64::from(booking.count - booking.start().by(now));
            Backlog {
                packets: sum.packets + waiting,
                bytes: sum.bytes + waiting * u64::from(booking.entry.bytes),
            }
        })
    }
}

impl LineCounters {
    #[inline]
    pub(crate) fn note_closed(&mut self, entry: &Entry, waits: &mut Waits) {
        self.note_held(entry.held);
        if let Some(reason) = entry.refused {
            return self.note_drop(entry.bytes, reason);
        }
        self.packets += 1;
        self.bytes += u64::from(entry.bytes);
        self.busy_ns += entry.occupied.0;
        self.marked_packets += u64::from(entry.marked);
        if entry.start > entry.at {
            let wait = entry.start.since(entry.at);
            waits.note(wait);
            self.residence_ns += wait.0;
            self.residence_max_ns = self.residence_max_ns.max(wait.0);
        }
    }

    /// Counts frames that fare alike.
    pub(crate) fn note_alike(&mut self, booking: &Booking, waits: &mut Waits) {
        let Booking { entry, count, .. } = booking;
        let others = u64::from(count - 1);
        self.note_closed(entry, waits);
        if others == 0 {
            return;
        }
        debug_assert!(entry.refused.is_none(), "refused frames are booked one by one");
        self.packets += others;
        self.bytes += others * u64::from(entry.bytes);
        self.busy_ns += others * entry.occupied.0;
        self.marked_packets += others * u64::from(entry.marked);
        if entry.start > entry.at {
            let wait = entry.start.since(entry.at);
            waits.note_many(wait, count - 1);
            self.residence_ns += others * wait.0;
        }
    }
}
