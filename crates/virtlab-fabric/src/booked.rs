//! Frames of a FIFO in closed form that were offered before they come: counted when their instants do.

use crate::counters::LineCounters;
use crate::waits::Waits;
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

/// Frames in the order in which they come.
#[derive(Default)]
pub(crate) struct Booked {
    pub(crate) entries: VecDeque<Entry>,
    /// How many of the first are counted, and stand here only while they wait.
    counted: usize,
}

impl Booked {
    pub(crate) fn settle(&mut self, now: Nanos, counters: &mut LineCounters, waits: &mut Waits) {
        while let Some(entry) = self.entries.get(self.counted).filter(|entry| entry.at <= now) {
            counters.note_closed(entry, waits);
            self.counted += 1;
        }
        while self.counted > 0 && self.entries[0].start <= now {
            self.entries.pop_front();
            self.counted -= 1;
        }
    }

    pub(crate) fn backlog(&self, now: Nanos) -> Backlog {
        let waits = |entry: &&Entry| entry.at <= now && entry.start > now && entry.refused.is_none();
        self.entries.iter().filter(waits).fold(Backlog::default(), |sum, entry| Backlog {
            packets: sum.packets + 1,
            bytes: sum.bytes + u64::from(entry.bytes),
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
}
