//! Frames of many lines that meet in one, without events.
//!
//! A frame that its receiver only counts changes nothing at the switch where it meets others but the queue that it
//! goes to, and nothing looks at that queue before the next frame there that has an event, or a reader of counters.
//! So it needs no event of its own: as its first line takes it, its instant at the switch is known. It is put among
//! those that come to the same line out, in the order in which their events would be (by instant, then by the line
//! they come over, as the agenda has it), and all that have come are offered one after the other when somebody
//! could notice: [`Fabric::gather`], and every frame with an event that is passed on to that line. So the line is
//! given the same frames at the same instants in the same order.
//!
//! That holds where both lines are FIFOs in closed form, the first comes from a port and the second leads to one,
//! and the switch knows both addresses from the start: then the frame there can only join the queue.

use super::comings::Coming;
use super::forecast::Foretold;
use super::graph::{Course, NONE, PortId};
use super::machine::Fabric;
use crate::Mac;
use crate::layout::End;
use virtlab_qdisc::{Ecn, Packet};
use virtlab_wire::Nanos;

/// The way of frames between two addresses that meet others once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Meeting {
    first: usize,
    out: usize,
    /// Where they leave.
    pub port: PortId,
}

impl<P: Clone> Fabric<P> {
    /// The way of frames between two addresses that come in at `port`, where they meet others only once and nothing
    /// else can happen to them. Only a fabric that foretells has such ways.
    #[must_use]
    #[inline]
    pub fn meeting(&mut self, port: PortId, source: Mac, destination: Mac) -> Option<Meeting> {
        let first = self.graph.port_lines[port.0];
        let Course { far: End::Switch(switch), reverse, next: NONE, settled, closed: true, .. } =
            self.graph.courses[first]
        else {
            return None;
        };
        let table = &self.switches[switch].table;
        if settled != Some(source) {
            table.fixed(source)?;
            self.graph.courses[first].settled = Some(source);
        }
        let out = table.fixed(destination).filter(|out| *out != reverse)?;
        match self.graph.courses[out] {
            Course { far: End::Port(port), arrival: NONE, closed: true, .. } => {
                Some(Meeting { first, out, port: PortId(port) })
            }
            _ => None,
        }
    }

    /// A frame of `bytes` comes in at `at` and meets others on its way, without an event; it is dropped where its
    /// first line has no room. `at` lies before no earlier frame's of the same port. True when many have come to
    /// where it goes that wait to be gathered.
    #[inline]
    pub fn meet(&mut self, meeting: &Meeting, bytes: u32, at: Nanos, payload: P) -> bool {
        self.clock.present = self.clock.present.max(at);
        let packet = Packet { id: 0, bytes, flow: 0, class: 0, ecn: Ecn::NotCapable };
        let Some(Ok(there)) = self.lines[meeting.first].offer_closed(&packet, at) else { return false };
        let new = Coming { at: there, from: meeting.first as u32, bytes, payload };
        self.comings.insert(meeting.out, new, at)
    }

    /// Offers the line that leads to `port` what has come to it by `now`; false where nothing has.
    #[inline]
    pub fn gather(&mut self, port: PortId, now: Nanos) -> bool {
        if self.comings.is_empty() {
            return false;
        }
        let out = self.graph.courses[self.graph.port_lines[port.0]].reverse;
        self.gather_before(out, (Nanos(now.0.saturating_add(1)), 0))
    }

    /// When the last frame comes to a switch that has no event there; `None` where all have been gathered.
    #[must_use]
    pub fn last_coming(&self) -> Option<Nanos> {
        self.comings.last()
    }

    /// Offers a line what comes before an event: one at this instant, over a line of this number. False where
    /// nothing does.
    #[inline]
    pub(super) fn gather_before(&mut self, out: usize, event: (Nanos, usize)) -> bool {
        let some = self.comings.some_before(out, event);
        if some {
            self.gather_some(out, event);
        }
        some
    }

    fn gather_some(&mut self, out: usize, event: (Nanos, usize)) {
        let (mut coming, count) = self.comings.take(out, event);
        let Course { far: End::Port(port), .. } = self.graph.courses[out] else {
            unreachable!("frames meet where a line leads to a port")
        };
        for Coming { at, bytes, payload, .. } in coming.drain(..count) {
            let packet = Packet { id: 0, bytes, flow: 0, class: 0, ecn: Ecn::NotCapable };
            if let Some(Ok(at)) = self.lines[out].offer_closed(&packet, at) {
                self.forecast.foretold.push(Foretold {
                    port: PortId(port),
                    at,
                    marked: false,
                    slot: self.comings.met.len(),
                    met: true,
                });
                self.comings.met.push((bytes, payload));
            }
        }
        self.comings.give_back(out, coming);
    }
}
