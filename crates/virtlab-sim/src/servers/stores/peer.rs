//! A peer of a store: its machine, and where it is.

use super::processor::Processor;
use crate::input::Asker;
use std::collections::VecDeque;
use virtlab_store::{Client, Listing, Message, Node, Outcome, Output, Peer as Number, Proxy};
use virtlab_wire::Nanos;

/// What a peer is.
pub enum Machine {
    Node(Box<Node>),
    Proxy(Box<Proxy>),
    Client(Box<Client>),
}

impl Machine {
    /// The peer that it is in a guest, as the client of a role or a disk, if of any.
    pub fn within(self, guest: usize, asker: Option<Asker>) -> Peer {
        Peer {
            machine: self,
            guest,
            asker,
            group: None,
            planned_ns: None,
            answers: VecDeque::new(),
            folder: None,
            said: SaidFor::default(),
            disk_offset: 0,
            processor: Processor::default(),
            down: false,
            restarts: 0,
        }
    }

    pub fn handle(&mut self, now: Nanos, from: Number, message: Message) {
        match self {
            Self::Node(node) => node.handle(now, from, message),
            Self::Proxy(proxy) => proxy.handle(now, from, message),
            Self::Client(client) => client.handle(now, from, message),
        }
    }

    pub fn wake(&mut self, now: Nanos) {
        match self {
            Self::Node(node) => node.wake(now),
            Self::Proxy(proxy) => proxy.wake(now),
            Self::Client(client) => client.wake(now),
        }
    }

    pub fn output(&mut self) -> Option<Output> {
        match self {
            Self::Node(node) => node.output(),
            Self::Proxy(proxy) => proxy.output(),
            Self::Client(client) => client.output(),
        }
    }

    pub fn next_ns(&self) -> Option<u64> {
        let at = match self {
            Self::Node(node) => node.next_event(),
            Self::Proxy(proxy) => proxy.next_event(),
            Self::Client(client) => client.next_event(),
        };
        at.map(|at| at.0)
    }
}

/// An operation that has ended: its number, how, and attempts beyond the first; of a list that is done, its page.
pub type Answer = (u64, Outcome, u32, Option<Listing>);

/// What was said for a client's attempts, by all peers: messages, and their bytes without the heads of the network. Of
/// a question to all nodes there is one message.
#[derive(Clone, Copy, Debug, Default)]
pub struct Said {
    pub messages: u64,
    pub bytes: u64,
}

impl Said {
    pub fn add(&mut self, bytes: u64) {
        self.add_all(Self { messages: 1, bytes });
    }

    pub fn add_all(&mut self, said: Self) {
        self.messages += said.messages;
        self.bytes += said.bytes;
    }
}

/// What was said for a client.
#[derive(Clone, Copy, Debug, Default)]
pub struct SaidFor {
    /// To find holders.
    pub lookup: Said,
    /// All.
    pub all: Said,
}

/// A peer.
pub struct Peer {
    pub machine: Machine,
    pub guest: usize,
    /// For whom it asks, if it is a client.
    pub asker: Option<Asker>,
    /// To the group of all nodes.
    pub group: Option<usize>,
    /// For when a look at it is planned.
    pub planned_ns: Option<u64>,
    /// Of a client.
    pub answers: VecDeque<Answer>,
    /// Of a client: the place of the folder that it works in.
    pub folder: Option<usize>,
    /// Of a client.
    pub said: SaidFor,
    /// Of a node: where on its disk the next object lies.
    pub disk_offset: u64,
    /// What it hears with.
    pub processor: Processor,
    /// Of a node that has failed: it does nothing, and hears nothing.
    pub down: bool,
    /// How often it has failed: nothing of its connections outlives that.
    pub restarts: u32,
}

impl Peer {
    /// Something comes from another.
    pub fn hear(&mut self, now: Nanos, from: usize, message: Message) {
        if let Some(message) = self.processor.takes(now, from, message) {
            self.machine.handle(now, Number(from as u32), message);
        }
    }

    /// Does what is due.
    pub fn wake(&mut self, now: Nanos) {
        while let Some((from, message)) = self.processor.done(now) {
            self.machine.handle(now, Number(from as u32), message);
        }
        self.machine.wake(now);
    }

    /// When it has something to do.
    pub fn next_ns(&self) -> Option<u64> {
        self.machine.next_ns().into_iter().chain(self.processor.next_ns()).min()
    }
}
