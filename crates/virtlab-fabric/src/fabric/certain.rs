//! Frames whose whole way is certain as they come in.
//!
//! A switch with two links gets, for each of them, all frames from the other one. Where both lines are FIFOs in closed
//! form and the switch knows both addresses from the start, the second line can be offered a frame before it comes:
//! nothing else can come between. So the frame needs no event at the switch, and one all of whose switches are such
//! needs none at all: its departure is a sum and a maximum per line. What the lines count waits for the instants at
//! which the frames come.
//!
//! A frame whose addresses a switch does not know from the start is played by events, as is everything after it.

use super::graph::{NONE, PortId};
use super::machine::Fabric;
use crate::layout::End;
use crate::{Mac, Train};
use virtlab_qdisc::{Ecn, Packet};
use virtlab_wire::Nanos;

/// Frames that a line has been offered, from which on those that have come are counted without waiting for a reader.
const CROWD: usize = 64;

/// The way of frames between two addresses, where it is certain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Passage {
    lines: Vec<usize>,
    /// Where they leave.
    pub port: PortId,
}

impl<P: Clone> Fabric<P> {
    /// Finds the lines that get all their frames from one other.
    pub(super) fn chain(&mut self) {
        for line in 0..self.lines.len() {
            let End::Switch(switch) = self.graph.ends[line].far else { continue };
            let out = &self.switches[switch].out;
            let Some(&next) = out.iter().find(|next| **next != self.graph.ends[line].reverse) else {
                continue;
            };
            if out.len() == 2 && !self.graph.ends[line].asked && !self.graph.ends[next].asked {
                self.graph.courses[line].next = next;
                self.lines[next].book();
            }
        }
    }

    /// The way of frames between two addresses that come in at `port`, where it is certain: only of a fabric that
    /// foretells.
    #[must_use]
    pub fn passage(&self, port: PortId, source: Mac, destination: Mac) -> Option<Passage> {
        let mut line = self.graph.port_lines[port.0];
        let mut lines = vec![line];
        if self.graph.ends[line].asked || !self.forecast.on {
            return None;
        }
        loop {
            match self.graph.ends[line].far {
                End::Port(port) => return Some(Passage { lines, port: PortId(port) }),
                End::Switch(_) if self.leads_on(line, source, destination) => {
                    line = self.graph.courses[line].next;
                    lines.push(line);
                }
                End::Switch(_) => return None,
            }
        }
    }

    /// A frame of `bytes` comes in at `at` and goes a certain way: when its last bit leaves; `None` when a queue has no
    /// room for it. It is never held, and costs no event. `at` lies before no earlier frame's of the same port, at
    /// which none has come since the first whose way is not known from the start: [`Fabric::strays`].
    #[inline]
    pub fn pass(&mut self, passage: &Passage, bytes: u32, at: Nanos) -> Option<Nanos> {
        self.clock.present = self.clock.present.max(at);
        let packet = Packet { id: 0, bytes, flow: 0, class: 0, ecn: Ecn::NotCapable };
        let mut at = at;
        for &line in &passage.lines {
            debug_assert!(self.lines[line].next_delivery().is_none(), "a frame is overtaken");
            at = self.lines[line].offer_closed(&packet, at)?.ok()?;
            self.count_crowd(line);
        }
        Some(at)
    }

    /// As [`Fabric::pass`], of a train of frames of `bytes`: `left` is when those leave that are not refused. One line
    /// after the other is passed by all of them, which is the same, because no other frame comes between.
    pub fn pass_train(&mut self, passage: &Passage, bytes: u32, train: Train, left: &mut Vec<Train>) {
        self.clock.present = self.clock.present.max(train.last());
        left.clear();
        left.push(train);
        let mut came = core::mem::take(&mut self.forecast.passing);
        for &line in &passage.lines {
            debug_assert!(self.lines[line].next_delivery().is_none(), "a frame is overtaken");
            came.clear();
            core::mem::swap(&mut came, left);
            for part in &came {
                self.lines[line].offer_train(bytes, *part, left);
            }
            self.count_crowd(line);
        }
        self.forecast.passing = came;
    }

    /// Whether a frame has come whose way is not known from the start.
    #[must_use]
    #[inline]
    pub fn strays(&self) -> bool {
        self.forecast.strays
    }

    /// Counts what has come to lines by `now`; before [`Fabric::lines`] is read, of a fabric that foretells.
    pub fn settle_counters(&mut self, now: Nanos) {
        self.settle_counters_but(now, &[]);
    }

    /// The same, where what was handed over early at some ports ([`Fabric::arrive_early`]) comes at `now`, but after
    /// the reader.
    pub fn settle_counters_but(&mut self, now: Nanos, later: &[PortId]) {
        self.clock.present = self.clock.present.max(now);
        let later: Vec<usize> = later.iter().map(|port| self.graph.port_lines[port.0]).collect();
        for (number, line) in self.lines.iter_mut().enumerate() {
            line.settle_booked(if later.contains(&number) { before(now) } else { now });
        }
    }

    /// Counts what has come to a line, if that is much. Whether what was handed over early for this very instant has
    /// come, only its owner knows.
    #[inline]
    pub(super) fn count_crowd(&mut self, line: usize) {
        if self.lines[line].booked() >= CROWD {
            self.lines[line].settle_booked(before(self.clock.present));
        }
    }

    /// Whether a frame that has been taken by a line may be offered to the next at once.
    pub(super) fn is_known(&mut self, line: usize, packet: &Packet) -> bool {
        if self.forecast.strays {
            return false;
        }
        let frame = self.store.frame(packet);
        self.forecast.strays = !self.leads_on(line, frame.source, frame.destination);
        !self.forecast.strays
    }

    /// Whether the switch at the far end of a line has both addresses in its table for ever, and leads on.
    fn leads_on(&self, line: usize, source: Mac, destination: Mac) -> bool {
        let (End::Switch(switch), next) = (self.graph.ends[line].far, self.graph.courses[line].next) else {
            return false;
        };
        let table = &self.switches[switch].table;
        next != NONE && table.fixed(source).is_some() && table.fixed(destination) == Some(next)
    }
}

/// The instant before another.
fn before(at: Nanos) -> Nanos {
    Nanos(at.0.saturating_sub(1))
}
