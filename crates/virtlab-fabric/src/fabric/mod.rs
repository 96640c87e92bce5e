//! The machine: frames in, model time, frames out.
//!
//! Every event is in an agenda under its own time. `advance(now)` plays all up to `now`; a frame that comes in with a
//! stamp before that is still played from its stamp, because its first line belongs to its port alone and its effect on
//! others lies a serialisation time ahead. Only an effect that would lie in the played past is late, and counted.

mod bound;
mod build;
mod certain;
mod foretell;
mod forward;
mod meet;
mod read;
mod table;

pub use certain::Passage;
pub use foretell::Foretold;
pub use meet::Meeting;
pub use read::LineView;

use crate::layout::End;
use crate::line::{Delivery, Line};
use crate::timers::Timers;
use crate::{Frame, Mac, Train};
use bound::Way;
use table::Table;
use virtlab_qdisc::{Dropped, Ecn, Packet};
use virtlab_wire::Nanos;

/// A port of a fabric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PortId(pub usize);

/// A frame that leaves.
#[derive(Clone, Debug)]
pub struct Departure<P> {
    /// Where.
    pub port: PortId,
    /// When its last bit reaches that port.
    pub at: Nanos,
    /// When it came in.
    pub arrived: Nanos,
    /// Header and payload, no FCS.
    pub bytes: u32,
    /// Whether a discipline marked it; its owner writes CE into the header.
    pub marked: bool,
    /// What came with it.
    pub payload: P,
}

struct Switch {
    name: String,
    table: Table,
    /// Lines that leave it.
    out: Vec<usize>,
    counters: SwitchCounters,
}

/// What a switch has seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SwitchCounters {
    /// Frames that it sent to all its other ports.
    pub flooded_packets: u64,
    /// Frames that it did not pass on: towards where they came from, or to addresses that bridges never forward.
    pub filtered_packets: u64,
}

struct LineEnds {
    link: String,
    direction: &'static str,
    far: End,
    /// The line back.
    reverse: usize,
    /// From its far end.
    ways: Vec<Way>,
    /// Whether its discipline is asked frame by frame, so that its transmitter has a timer.
    asked: bool,
}

/// What a frame in passing needs to know of a line.
#[derive(Clone, Copy)]
struct Course {
    far: End,
    /// The line back.
    reverse: usize,
    /// Its timers; [`NONE`] where it needs none.
    start: usize,
    arrival: usize,
    /// The line that gets all its frames from this one, so that they may be offered before they come; else [`NONE`].
    next: usize,
    /// The address last met behind its far end that the switch there need not learn.
    settled: Option<Mac>,
    /// Whether it is a FIFO in closed form of a fabric that foretells.
    closed: bool,
}

const NONE: usize = usize::MAX;

/// What a timer is for.
#[derive(Clone, Copy)]
enum Timed {
    /// The line's transmitter may start a frame.
    Start(usize),
    /// The line's next frame reaches the far end.
    Arrival(usize),
}

struct Held<P> {
    frame: Frame<P>,
    arrived: Nanos,
}

/// A loop-free graph of switches and links. `P` is what the owner gets back with each frame; a flood clones it.
pub struct Fabric<P> {
    ports: Vec<String>,
    port_lines: Vec<usize>,
    switches: Vec<Switch>,
    lines: Vec<Line>,
    ends: Vec<LineEnds>,
    courses: Vec<Course>,
    /// All transmitters' timers before all arrivals', each by line: so events of one instant have their order.
    agenda: Timers,
    timed: Vec<Timed>,
    /// Whether departures are told as soon as they are certain, and those not fetched yet.
    foretells: bool,
    foretold: Vec<Foretold>,
    /// By line, frames without an event that come to it, in order; and those that have been foretold.
    comings: Vec<Vec<meet::Coming<P>>>,
    /// How many these are in all.
    still_coming: usize,
    met: Vec<(u32, P)>,
    /// Trains between two lines, while they are passed on.
    passing: Vec<Train>,
    /// Whether a frame has come whose way is not known from the start.
    strays: bool,
    /// No line is asked about an instant before this.
    present: Nanos,
    held: Vec<Option<Held<P>>>,
    vacant: Vec<usize>,
    drops: Vec<Dropped>,
    played: Nanos,
    late_arrivals: u64,
    wants_flow: bool,
    wants_ecn: bool,
    wants_headers: bool,
}

impl<P: Clone> Fabric<P> {
    /// The port of this name.
    #[must_use]
    pub fn port(&self, name: &str) -> Option<PortId> {
        self.ports.iter().position(|port| port == name).map(PortId)
    }

    /// The names of all ports, by [`PortId`].
    #[must_use]
    pub fn ports(&self) -> &[String] {
        &self.ports
    }

    /// Whether frames need their [`Frame::flow`].
    #[must_use]
    pub fn wants_flow(&self) -> bool {
        self.wants_flow
    }

    /// Whether frames need their [`Frame::ecn`].
    #[must_use]
    pub fn wants_ecn(&self) -> bool {
        self.wants_ecn
    }

    /// Whether frames need their [`Frame::headers`].
    #[must_use]
    pub fn wants_headers(&self) -> bool {
        self.wants_headers
    }

    /// A frame comes in at `port`; `now` is when its owner handed it over.
    pub fn arrive(&mut self, port: PortId, frame: Frame<P>, now: Nanos) {
        self.present = self.present.max(now);
        let held = Held { frame, arrived: now };
        let packet = self.hold(held);
        let line = self.port_lines[port.0];
        let before = self.lines[line].counters.packets;
        self.offer(line, packet, now);
        if self.lines[line].counters.packets > before
            && self.lines[line].next_delivery().is_some_and(|next| next.at < self.played)
        {
            self.late_arrivals += 1;
        }
    }

    /// The time of the next event, inner ones included. Plays nothing.
    #[must_use]
    pub fn next_event(&self) -> Option<Nanos> {
        self.agenda.first().map(|(at, _)| at)
    }

    /// A time before which no frame leaves, whatever has come in so far; `None` when none is inside. Not before the
    /// next event's time, and mostly the very time of the next departure.
    #[must_use]
    pub fn next_departure_bound(&self) -> Option<Nanos> {
        const SHORTEST: u32 = 14;
        self.agenda
            .iter()
            .filter_map(|(at, timer)| match self.timed[timer] {
                Timed::Start(line) => bound::least(&self.ends[line].ways, SHORTEST).map(|rest| at + rest),
                Timed::Arrival(line) => {
                    let ways = &self.ends[line].ways;
                    let (first, second) = self.lines[line].first_two();
                    let first = first.and_then(|one| Some(one.at + bound::least(ways, one.packet.bytes)?));
                    let second = second.and_then(|two| Some(two.at + bound::least(ways, SHORTEST)?));
                    first.into_iter().chain(second).min()
                }
            })
            .min()
    }

    /// Plays every event up to `now`; frames that leave are appended to `departures` in the order of their times.
    pub fn advance(&mut self, now: Nanos, departures: &mut Vec<Departure<P>>) {
        while let Some((at, timer)) = self.agenda.first().filter(|(at, _)| *at <= now) {
            match self.timed[timer] {
                Timed::Start(line) => {
                    self.agenda.clear(timer);
                    let idle = self.lines[line].next_delivery().is_none();
                    self.lines[line].run(at, &mut self.drops);
                    self.settle(line, idle);
                }
                Timed::Arrival(line) => self.deliver(line, departures),
            }
        }
        self.played = self.played.max(now);
    }

    /// Frames inside, copies of a flood each counted.
    #[must_use]
    pub fn inside(&self) -> u64 {
        (self.held.len() - self.vacant.len()) as u64
    }

    /// Frames that came in so late that an effect of theirs lies before what was already played.
    #[must_use]
    pub fn late_arrivals(&self) -> u64 {
        self.late_arrivals
    }

    fn hold(&mut self, held: Held<P>) -> Packet {
        let (bytes, flow, ecn) = (held.frame.bytes, held.frame.flow, held.frame.ecn);
        let slot = match self.vacant.pop() {
            Some(slot) => {
                self.held[slot] = Some(held);
                slot
            }
            None => {
                self.held.push(Some(held));
                self.held.len() - 1
            }
        };
        Packet { id: slot as u64, bytes, flow, class: 0, ecn }
    }

    fn release(&mut self, packet: Packet) -> Held<P> {
        self.release_slot(packet.id as usize)
    }

    fn release_slot(&mut self, slot: usize) -> Held<P> {
        self.vacant.push(slot);
        self.held[slot].take().expect("a packet is released once")
    }

    fn offer(&mut self, line: usize, mut packet: Packet, now: Nanos) {
        if self.wants_headers {
            let held = self.held[packet.id as usize].as_ref().expect("an offered frame is held");
            packet.class = self.lines[line].class_of(held.frame.headers.as_deref(), packet.flow);
        }
        let own = &mut self.lines[line];
        let idle = own.next_delivery().is_none();
        match own.offer_closed(&packet, now) {
            Some(Ok(at)) => match self.courses[line] {
                Course { arrival: NONE, far: End::Port(port), .. } => self.foretold.push(Foretold {
                    port: PortId(port),
                    at,
                    marked: packet.ecn == Ecn::Marked,
                    slot: packet.id as usize,
                    met: false,
                }),
                Course { next, arrival, .. } => {
                    if next != NONE && self.is_known(line, &packet) {
                        self.offer(next, packet, at);
                        return self.count_crowd(next);
                    }
                    self.lines[line].carry(at, packet);
                    if idle {
                        self.agenda.set(arrival, at);
                    }
                }
            },
            Some(Err(_)) => drop(self.release(packet)),
            None => {
                own.offer(packet, now, &mut self.drops);
                self.settle(line, idle);
            }
        }
    }

    /// After a line moved: frees what it dropped, and writes its next events into the agenda. `idle`: whether its cable
    /// was empty before, so that its next delivery is not there yet.
    fn settle(&mut self, line: usize, idle: bool) {
        while let Some(dropped) = self.drops.pop() {
            self.release(dropped.packet);
        }
        let Course { far, start, arrival, .. } = self.courses[line];
        if let (NONE, End::Port(port)) = (arrival, far) {
            while let Some(Delivery { at, packet }) = self.lines[line].deliver() {
                let marked = packet.ecn == Ecn::Marked;
                let slot = packet.id as usize;
                self.foretold.push(Foretold { port: PortId(port), at, marked, slot, met: false });
            }
        } else if idle && let Some(next) = self.lines[line].next_delivery() {
            self.agenda.set(arrival, next.at);
        }
        if start != NONE
            && let Some(at) = self.lines[line].next_start()
        {
            self.agenda.set(start, at);
        }
    }

    fn departure(&mut self, port: usize, delivery: Delivery) -> Departure<P> {
        let held = self.release(delivery.packet);
        Departure {
            port: PortId(port),
            at: delivery.at,
            arrived: held.arrived,
            bytes: held.frame.bytes,
            marked: delivery.packet.ecn == Ecn::Marked,
            payload: held.frame.payload,
        }
    }

    fn deliver(&mut self, line: usize, departures: &mut Vec<Departure<P>>) {
        let own = &mut self.lines[line];
        let delivery = own.deliver().expect("a delivery in the agenda is in its line's cable");
        let Course { far, arrival, .. } = self.courses[line];
        match own.next_delivery() {
            Some(next) => self.agenda.set(arrival, next.at),
            None => self.agenda.clear(arrival),
        }
        match far {
            End::Port(port) => {
                let departure = self.departure(port, delivery);
                departures.push(departure);
            }
            End::Switch(switch) => self.forward(switch, line, delivery.packet, delivery.at),
        }
    }
}
