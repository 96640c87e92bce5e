//! The machine: frames in, model time, frames out.
//!
//! Every event stands in an agenda under its own time. `advance(now)` plays all up to `now`; a frame that comes in with a
//! stamp before that is still played from its stamp, because its first line belongs to its port alone and its effect on
//! others lies a serialisation time ahead. Only an effect that would lie in the played past is late, and counted.

mod certain;

pub use certain::Passage;

use crate::bound::{self, Way};
use crate::counters::LineCounters;
use crate::layout::{End, Layout, LayoutError};
use crate::line::{Delivery, Line, Queueing};
use crate::table::Table;
use crate::timers::Timers;
use crate::{ClassCounters, Frame, Mac};
use virtlab_qdisc::{Backlog, Dropped, Ecn, Packet};
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

/// A frame that will leave. It stays with the fabric, which can be asked about it, until it is taken.
#[derive(Clone, Copy, Debug)]
pub struct Foretold {
    /// Where.
    pub port: PortId,
    /// When its last bit reaches that port.
    pub at: Nanos,
    /// Whether a discipline marked it.
    pub marked: bool,
    slot: usize,
}

/// One direction of a link, for reports.
#[derive(Debug)]
pub struct LineView<'a> {
    /// The link.
    pub link: &'a str,
    /// `ab` or `ba`.
    pub direction: &'static str,
    /// What it has seen.
    pub counters: &'a LineCounters,
    /// Half of the frames had waited no longer, within an eighth.
    pub residence_p50_ns: u64,
    /// 99 % of the frames had waited no longer, within an eighth.
    pub residence_p99_ns: u64,
    /// What waits now.
    pub backlog: Backlog,
    /// Its classes by name, where the queue has some.
    pub classes: Vec<(&'a str, ClassCounters)>,
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
    /// A fabric as the layout has it: FIFOs in closed form, other disciplines asked frame by frame.
    ///
    /// # Errors
    /// What [`Layout::check`] finds.
    pub fn new(layout: &Layout) -> Result<Self, LayoutError> {
        Self::with_queueing(layout, |queue| queue.queueing().expect("the layout was checked"))
    }

    /// A fabric whose queues `queueing` makes.
    ///
    /// # Errors
    /// What [`Layout::check`] finds.
    pub fn with_queueing(
        layout: &Layout,
        mut queueing: impl FnMut(&crate::QueueLayout) -> Queueing,
    ) -> Result<Self, LayoutError> {
        layout.check()?;
        let mut lines = Vec::new();
        let mut ends: Vec<LineEnds> = Vec::new();
        let mut steps = Vec::new();
        let mut port_lines = vec![usize::MAX; layout.ports.len()];
        let mut outs: Vec<Vec<usize>> = vec![Vec::new(); layout.switches.len()];
        let processing: Vec<u64> = layout.switches.values().map(|switch| switch.processing_ns).collect();
        let mut named = std::collections::BTreeMap::new();
        for (name, link) in &layout.links {
            let sides = [layout.end(name, &link.ends[0])?, layout.end(name, &link.ends[1])?];
            for (from, direction, queue) in [(0, "ab", &link.queue.ab), (1, "ba", &link.queue.ba)] {
                let at = lines.len();
                let far = sides[1 - from];
                match sides[from] {
                    End::Port(port) => port_lines[port] = at,
                    End::Switch(switch) => outs[switch].push(at),
                }
                named.insert(link.ends[from].as_str(), at);
                let delay = link.propagation_ns
                    + match far {
                        End::Port(_) => 0,
                        End::Switch(switch) => processing[switch],
                    };
                steps.push(bound::step(link.rate_bit_per_s, delay));
                let queueing = queueing(queue);
                let asked = !matches!(queueing, Queueing::Fifo { .. });
                lines.push(Line::new(link.rate_bit_per_s, Nanos(delay), queueing));
                ends.push(LineEnds {
                    link: name.clone(),
                    direction,
                    far,
                    reverse: if from == 0 { at + 1 } else { at - 1 },
                    ways: Vec::new(),
                    asked,
                });
            }
        }
        let mut switches: Vec<Switch> = outs
            .into_iter()
            .zip(layout.switches.keys())
            .map(|(out, name)| Switch {
                name: name.clone(),
                table: Table::default(),
                out,
                counters: SwitchCounters::default(),
            })
            .collect();
        for (index, name) in layout.switches.keys().enumerate() {
            for (&mac, port) in layout.forwarding.get(name).into_iter().flatten() {
                switches[index].table.fix(mac, named[port.as_str()]);
            }
        }
        let mut known: Vec<Option<Vec<Way>>> = vec![None; lines.len()];
        for line in 0..lines.len() {
            ends[line].ways = ways_behind(line, &ends, &switches, &steps, &mut known);
        }
        let wants_flow = lines.iter().any(Line::wants_flow);
        let wants_ecn = lines.iter().any(Line::wants_ecn);
        let wants_headers = lines.iter().any(Line::wants_headers);
        let mut fabric = Self {
            ports: layout.ports.iter().cloned().collect(),
            port_lines,
            switches,
            agenda: Timers::new(0),
            timed: Vec::new(),
            courses: Vec::new(),
            lines,
            ends,
            foretells: false,
            foretold: Vec::new(),
            strays: false,
            present: Nanos::ZERO,
            held: Vec::new(),
            vacant: Vec::new(),
            drops: Vec::new(),
            played: Nanos::ZERO,
            late_arrivals: 0,
            wants_flow,
            wants_ecn,
            wants_headers,
        };
        fabric.set_course();
        Ok(fabric)
    }

    /// Gives lines the timers that they need.
    fn set_course(&mut self) {
        let course = |ends: &LineEnds| Course {
            far: ends.far,
            reverse: ends.reverse,
            start: NONE,
            arrival: NONE,
            next: NONE,
            settled: None,
        };
        self.courses = self.ends.iter().map(course).collect();
        self.timed.clear();
        for (line, _) in self.ends.iter().enumerate().filter(|(_, ends)| ends.asked) {
            self.courses[line].start = self.timed.len();
            self.timed.push(Timed::Start(line));
        }
        for (line, ends) in self.ends.iter().enumerate() {
            if !(self.foretells && matches!(ends.far, End::Port(_))) {
                self.courses[line].arrival = self.timed.len();
                self.timed.push(Timed::Arrival(line));
            }
        }
        self.agenda = Timers::new(self.timed.len());
        if self.foretells {
            self.chain();
        }
    }

    /// From now on every departure is told as soon as it is certain, which is when its last transmitter takes the frame:
    /// nothing can call it back from there. It then costs no event of its own. Fetch them with [`Fabric::foretold`].
    ///
    /// # Panics
    /// When a frame is inside.
    pub fn foretell(&mut self) {
        assert!(self.inside() == 0, "departures are foretold from the beginning");
        self.foretells = true;
        self.set_course();
    }

    /// Whether a departure has become certain since the last call of [`Fabric::foretold`].
    #[must_use]
    #[inline]
    pub fn has_foretold(&self) -> bool {
        !self.foretold.is_empty()
    }

    /// Moves the departures that have become certain since the last call into an empty list; their times may lie ahead, and
    /// never go back at one port.
    #[inline]
    pub fn foretold(&mut self, into: &mut Vec<Foretold>) {
        debug_assert!(into.is_empty());
        std::mem::swap(&mut self.foretold, into);
    }

    /// The frame of a departure that was foretold and not taken.
    #[must_use]
    #[inline]
    pub fn frame(&self, foretold: &Foretold) -> &Frame<P> {
        &self.held[foretold.slot].as_ref().expect("a foretold frame is held until it is taken").frame
    }

    /// Takes the frame of a departure out of the fabric.
    #[inline]
    pub fn take(&mut self, foretold: &Foretold) -> Frame<P> {
        self.release_slot(foretold.slot).frame
    }

    /// Lets the frame of a departure go.
    #[inline]
    pub fn forget(&mut self, foretold: &Foretold) {
        self.held[foretold.slot] = None;
        self.vacant.push(foretold.slot);
    }

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

    /// A time before which no frame leaves, whatever has come in so far; `None` when none is inside. Not before the next
    /// event's time, and mostly the very time of the next departure.
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

    /// All directions of links.
    pub fn lines(&self, now: Nanos) -> impl Iterator<Item = LineView<'_>> {
        self.lines.iter().zip(&self.ends).map(move |(line, ends)| LineView {
            link: &ends.link,
            direction: ends.direction,
            counters: &line.counters,
            residence_p50_ns: line.residence_quantile_ns(0.5),
            residence_p99_ns: line.residence_quantile_ns(0.99),
            backlog: line.backlog(now),
            classes: line.class_counters().collect(),
        })
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

    /// All switches.
    pub fn switches(&self) -> impl Iterator<Item = (&str, &SwitchCounters)> {
        self.switches.iter().map(|switch| (switch.name.as_str(), &switch.counters))
    }

    /// Counters begin again at zero; frames inside and learned addresses stay.
    pub fn reset_counters(&mut self) {
        for line in &mut self.lines {
            line.reset_counters();
        }
        for switch in &mut self.switches {
            switch.counters = SwitchCounters::default();
        }
        self.late_arrivals = 0;
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
    /// was empty before, so that its next delivery does not stand there yet.
    fn settle(&mut self, line: usize, idle: bool) {
        while let Some(dropped) = self.drops.pop() {
            self.release(dropped.packet);
        }
        let Course { far, start, arrival, .. } = self.courses[line];
        if let (NONE, End::Port(port)) = (arrival, far) {
            while let Some(Delivery { at, packet }) = self.lines[line].deliver() {
                let marked = packet.ecn == Ecn::Marked;
                self.foretold.push(Foretold { port: PortId(port), at, marked, slot: packet.id as usize });
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

    /// A whole frame stands in `switch`, come over `line`.
    fn forward(&mut self, switch: usize, line: usize, packet: Packet, now: Nanos) {
        let (source, destination) = {
            let frame = &self.held[packet.id as usize].as_ref().expect("a frame in a cable is held").frame;
            (frame.source, frame.destination)
        };
        let back = self.courses[line].reverse;
        if self.courses[line].settled != Some(source) && !self.switches[switch].table.learn(source, back, now)
        {
            self.courses[line].settled = Some(source);
        }
        match self.way(switch, destination, now) {
            Some(line) if line == back => self.filter(switch, packet),
            Some(line) => self.offer(line, packet, now),
            None if destination.is_link_local() => self.filter(switch, packet),
            None => self.flood(switch, back, packet, now),
        }
    }

    fn way(&self, switch: usize, destination: Mac, now: Nanos) -> Option<usize> {
        if destination.is_group() { None } else { self.switches[switch].table.find(destination, now) }
    }

    fn filter(&mut self, switch: usize, packet: Packet) {
        self.switches[switch].counters.filtered_packets += 1;
        self.release(packet);
    }

    fn flood(&mut self, switch: usize, back: usize, packet: Packet, now: Nanos) {
        self.switches[switch].counters.flooded_packets += 1;
        let mut held = self.release(packet);
        held.frame.ecn = packet.ecn;
        for index in 0..self.switches[switch].out.len() {
            let line = self.switches[switch].out[index];
            if line != back {
                let copy = self.hold(Held { frame: held.frame.clone(), arrived: held.arrived });
                self.offer(line, copy, now);
            }
        }
    }
}

/// The ways out from the far end of `line`, which never lead back over the same link. The graph has no loop, so this ends.
fn ways_behind(
    line: usize,
    ends: &[LineEnds],
    switches: &[Switch],
    steps: &[Way],
    known: &mut Vec<Option<Vec<Way>>>,
) -> Vec<Way> {
    if let Some(ways) = &known[line] {
        return ways.clone();
    }
    let ways = match ends[line].far {
        End::Port(_) => vec![Way { fixed_ns: 0, ps_per_octet: 0 }],
        End::Switch(switch) => {
            let mut ways = Vec::new();
            for &out in &switches[switch].out {
                if out != ends[line].reverse {
                    ways.extend(ways_behind(out, ends, switches, steps, known).into_iter().map(|rest| Way {
                        fixed_ns: rest.fixed_ns + steps[out].fixed_ns,
                        ps_per_octet: rest.ps_per_octet + steps[out].ps_per_octet,
                    }));
                }
            }
            bound::best(ways)
        }
    };
    known[line] = Some(ways.clone());
    ways
}
