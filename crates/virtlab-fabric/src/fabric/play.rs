//! Frames come in, and events are played.

use super::bound;
use super::forecast::Foretold;
use super::graph::{Course, NONE, PortId};
use super::machine::{Departure, Fabric};
use super::schedule::Timed;
use super::store::Held;
use crate::Frame;
use crate::layout::End;
use crate::line::Delivery;
use virtlab_qdisc::{Ecn, Packet};
use virtlab_wire::Nanos;

impl<P: Clone> Fabric<P> {
    /// A frame comes in at `port`; `now` is when its owner handed it over.
    pub fn arrive(&mut self, port: PortId, frame: Frame<P>, now: Nanos) {
        self.clock.present = self.clock.present.max(now);
        let held = Held { frame, arrived: now };
        let packet = self.store.hold(held);
        let line = self.graph.port_lines[port.0];
        let before = self.lines[line].counters.packets;
        self.offer(line, packet, now);
        if self.lines[line].counters.packets > before
            && self.lines[line].next_delivery().is_some_and(|next| next.at < self.clock.played)
        {
            self.clock.late_arrivals += 1;
        }
        self.count_crowd(line);
    }

    /// Whether a frame may be handed over at `port` before it comes ([`Fabric::arrive_early`]): its first line is a
    /// FIFO in closed form, and it has an event at the switch behind that. Only of a fabric that foretells.
    #[must_use]
    pub fn takes_early(&self, port: PortId) -> bool {
        let course = &self.graph.courses[self.graph.port_lines[port.0]];
        course.closed && course.next == NONE && course.arrival != NONE
    }

    /// A frame is handed over now that comes in at `port` at `at`, before which none comes in there any more. Its first
    /// line belongs to the port alone, so what happens to it there is known; counters know of it when it comes.
    pub fn arrive_early(&mut self, port: PortId, frame: Frame<P>, now: Nanos, at: Nanos) {
        self.clock.present = self.clock.present.max(now);
        let line = self.graph.port_lines[port.0];
        self.lines[line].book();
        let packet = self.store.hold(Held { frame, arrived: at });
        self.offer(line, packet, at);
        self.count_crowd(line);
    }

    /// The time of the next event, inner ones included. Plays nothing.
    #[must_use]
    pub fn next_event(&self) -> Option<Nanos> {
        self.schedule.next()
    }

    /// A time before which no frame leaves, whatever has come in so far; `None` when none is inside. Not before the
    /// next event's time, and mostly the very time of the next departure.
    #[must_use]
    pub fn next_departure_bound(&self) -> Option<Nanos> {
        const SHORTEST: u32 = 14;
        self.schedule
            .all()
            .filter_map(|(at, timed)| match timed {
                Timed::Start(line) => {
                    bound::least(&self.graph.ends[line].ways, SHORTEST).map(|rest| at + rest)
                }
                Timed::Arrival(line) => {
                    let ways = &self.graph.ends[line].ways;
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
        while let Some((at, timer, timed)) = self.schedule.due(now) {
            match timed {
                Timed::Start(line) => {
                    self.schedule.clear(timer);
                    let idle = self.lines[line].next_delivery().is_none();
                    self.lines[line].run(at, &mut self.drops);
                    self.settle(line, idle);
                }
                Timed::Arrival(line) => self.deliver(line, departures),
            }
        }
        self.clock.played = self.clock.played.max(now);
    }

    /// A line is offered a frame.
    pub(super) fn offer(&mut self, line: usize, mut packet: Packet, now: Nanos) {
        if self.wants.headers {
            let frame = self.store.frame(&packet);
            packet.class = self.lines[line].class_of(frame.headers.as_deref(), packet.flow);
        }
        let own = &mut self.lines[line];
        let idle = own.next_delivery().is_none();
        match own.offer_closed(&packet, now) {
            Some(Ok(at)) => match self.graph.courses[line] {
                Course { arrival: NONE, far: End::Port(port), .. } => self.forecast.foretold.push(Foretold {
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
                        self.schedule.set(arrival, at);
                    }
                }
            },
            Some(Err(_)) => drop(self.store.release(&packet)),
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
            self.store.release(&dropped.packet);
        }
        let Course { far, start, arrival, .. } = self.graph.courses[line];
        if let (NONE, End::Port(port)) = (arrival, far) {
            while let Some(Delivery { at, packet }) = self.lines[line].deliver() {
                let marked = packet.ecn == Ecn::Marked;
                let slot = packet.id as usize;
                self.forecast.foretold.push(Foretold { port: PortId(port), at, marked, slot, met: false });
            }
        } else if idle && let Some(next) = self.lines[line].next_delivery() {
            self.schedule.set(arrival, next.at);
        }
        if start != NONE
            && let Some(at) = self.lines[line].next_start()
        {
            self.schedule.set(start, at);
        }
    }

    fn departure(&mut self, port: usize, delivery: Delivery) -> Departure<P> {
        let held = self.store.release(&delivery.packet);
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
        let Course { far, arrival, .. } = self.graph.courses[line];
        match own.next_delivery() {
            Some(next) => self.schedule.set(arrival, next.at),
            None => self.schedule.clear(arrival),
        }
        match far {
            // Of a line that may be cut: certain only now.
            End::Port(port) if self.forecast.on => self.forecast.foretold.push(Foretold {
                port: PortId(port),
                at: delivery.at,
                marked: delivery.packet.ecn == Ecn::Marked,
                slot: delivery.packet.id as usize,
                met: false,
            }),
            End::Port(port) => {
                let departure = self.departure(port, delivery);
                departures.push(departure);
            }
            End::Switch(switch) => self.forward(switch, line, delivery.packet, delivery.at),
        }
    }
}
