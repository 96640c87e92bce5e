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
use crate::servers::{Look, Owner, Servers};
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
    /// What serves requests, and the processors that it shares.
    pub servers: Servers,
}

impl Network {
    /// The world's network. A finding when the fabric cannot be.
    pub fn new(input: &Input) -> Result<Self, Finding> {
        let mut wire = Wire::new(input)?;
        let edge = Edge::new(input, |name| wire.port(name))?;
        wire.plug(&edge, edge.outages || input.noise.is_some());
        if input.by_events {
            wire.paths.know_none();
        }
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
            servers: Servers::new(input),
        })
    }

    /// A server takes a request of that size in; false where there is no room for it.
    pub fn offer(&mut self, server: usize, owner: Owner, bytes: u64) -> bool {
        self.servers.offer(server, owner, bytes, self.now_ns)
    }

    /// Looks at a server again when something of it is done.
    pub fn look_at(&mut self, server: usize) {
        for look in self.servers.looks(server, self.now_ns) {
            match look {
                Look::Pool(pool, at_ns) => self.agenda.plan(at_ns, Due::Work(pool)),
                Look::Server(server, at_ns) => self.agenda.plan(at_ns, Due::Serve(server)),
                Look::Disk(guest, at_ns) => self.agenda.plan(at_ns, Due::Disk(guest)),
                Look::Forwarder(role) => self.agenda.plan(self.now_ns, Due::Call(role)),
            }
        }
    }
}
