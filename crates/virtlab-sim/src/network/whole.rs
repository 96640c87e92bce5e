//! The network as the sum of its parts.

use super::edge::Edge;
use super::frames::Incoming;
use super::guests::Guests;
use super::labels::Labels;
use super::packets::Packets;
use super::platform::Platform;
use super::sockets::Socket;
use super::wire::Wire;
use crate::agenda::{Agenda, Due};
use crate::input::{Finding, Input};
use crate::processors::{Asker, Processors, Rest};
use std::collections::VecDeque;

/// Everything between two sockets.
pub struct Network {
    /// Virtual time.
    pub now_ns: u64,
    /// What is planned.
    pub agenda: Agenda,
    /// Frames that stand at vNICs now.
    pub inbox: VecDeque<Incoming>,
    /// When the message that a role takes came to its kernel.
    pub stamp_ns: u64,
    pub(super) sockets: Vec<Socket>,
    pub(super) packets: Packets,
    pub(super) labels: Labels,
    pub(super) guests: Guests,
    pub(super) edge: Edge,
    pub(super) wire: Wire,
    pub(super) platform: Platform,
    /// Of each guest that shares what it has of them; of others, whatever asks has one of its own.
    processors: Vec<Option<Processors>>,
}

impl Network {
    /// The world's network. A finding when the fabric cannot be.
    pub fn new(input: &Input) -> Result<Self, Finding> {
        let mut wire = Wire::new(input)?;
        let edge = Edge::new(input, |name| wire.port(name))?;
        wire.plug(&edge, edge.outages || input.noise.is_some());
        let guests = Guests::new(input, |name| wire.fabric.port(name));
        let mut agenda = Agenda::default();
        for (place, at_ns) in guests.noise.first() {
            agenda.plan(at_ns, Due::Speak(place));
        }
        Ok(Self {
            now_ns: 0,
            agenda,
            inbox: VecDeque::new(),
            stamp_ns: 0,
            sockets: Vec::new(),
            packets: Packets::default(),
            labels: Labels::default(),
            guests,
            edge,
            platform: Platform::new(input, wire.ports.all.len()),
            wire,
            processors: input.guests.iter().map(|guest| guest.processors.map(Processors::new)).collect(),
        })
    }

    /// Whether what works in a guest shares its processors.
    pub fn shares(&self, guest: usize) -> bool {
        self.processors[guest].is_some()
    }

    /// A guest that shares its processors works this off for a role, which is told when it is done: `Workload::worked`.
    pub fn work(&mut self, guest: usize, work: Rest, asker: Asker) {
        if let Some(processors) = &mut self.processors[guest] {
            processors.ask(self.now_ns, work, asker);
        }
        self.plan_work(guest);
    }

    /// Work of a role stops for now: which, and what is left of each.
    pub fn stop_work(&mut self, guest: usize, role: usize) -> Vec<(u64, Rest)> {
        let now_ns = self.now_ns;
        self.processors[guest].as_mut().map(|each| each.take_back(now_ns, role)).unwrap_or_default()
    }

    /// Whose work is done by now.
    pub fn done(&mut self, guest: usize) -> Option<Asker> {
        let processors = self.processors[guest].as_mut()?;
        processors.looked(self.now_ns);
        processors.done(self.now_ns)
    }

    /// Looks again when the next is done.
    pub fn plan_work(&mut self, guest: usize) {
        if let Some(at_ns) = self.processors[guest].as_mut().and_then(Processors::plan) {
            self.agenda.plan(at_ns, Due::Work(guest));
        }
    }
}
