//! A store in virtual time: nodes with disks and links, proxies and clients, over a network that cuts, loses, doubles
//! and reorders as a test wants.
#![allow(dead_code, reason = "each test uses a part of it")]

use std::collections::{BTreeMap, BTreeSet};
use virtlab_disk::{Disk, Kind, Model, Request};
use virtlab_load::random::Stream;
use virtlab_store::{
    Attempt, Client, Key, Left, Listing, Message, Node, Outcome, Output, Peer, Policy, Proxy, Task, To,
};
use virtlab_wire::Nanos;

pub const MS: u64 = 1_000_000;
pub const S: u64 = 1_000_000_000;
const PACKET_BYTES: u64 = 1500;

/// What happens to messages on their way. Each peer has a link of this rate in each direction, which carries messages
/// with content one after the other. What fits into one packet goes between the packets of these, and waits for none.
#[derive(Clone, Copy, Debug)]
pub struct Network {
    pub rate_byte_per_s: Option<u64>,
    pub delay: Nanos,
    pub loss: f64,
    pub duplication: f64,
    /// The longest that a message is held back beyond the delay.
    pub jitter: Nanos,
}

impl Network {
    pub const FAST: Self = Self {
        rate_byte_per_s: None,
        delay: Nanos(50_000),
        loss: 0.0,
        duplication: 0.0,
        jitter: Nanos::ZERO,
    };
    /// 1 Gbit/s, of which 110 MB/s carry payload.
    pub const GIGABIT: Self = Self { rate_byte_per_s: Some(110_000_000), ..Self::FAST };
}

/// An operation, as its client saw it.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    pub key: Key,
    pub task: Task,
    pub began: Nanos,
    pub ended: Option<(Nanos, Outcome)>,
    /// Attempts beyond the first, once it has ended.
    pub retries: u32,
}

#[derive(Debug)]
enum Machine {
    Node(Box<Node>),
    Proxy(Box<Proxy>),
    Client(Box<Client>),
}

#[derive(Debug)]
enum Event {
    Message(Peer, Peer, Message),
    Disk(Peer),
}

#[derive(Clone, Copy, Debug, Default)]
struct Link {
    out: Nanos,
    into: Nanos,
}

pub struct World {
    pub now: Nanos,
    pub policy: Policy,
    pub network: Network,
    pub seen: Vec<Seen>,
    /// Pages of names, by the places in `seen` of those who asked for them.
    pub pages: BTreeMap<usize, Listing>,
    /// Peers that neither send nor get anything.
    pub cut: BTreeSet<Peer>,
    pub counts: Counts,
    /// Who has said something to whom.
    pub pairs: BTreeSet<(Peer, Peer)>,
    /// Clients whose operations have ended, in that order, until a test takes them.
    free: Vec<u32>,
    /// By how much each peer's clock is ahead of the world's.
    ahead: Vec<Nanos>,
    machines: Vec<Machine>,
    disks: Vec<Disk>,
    links: Vec<Link>,
    agenda: Agenda,
    random: Stream,
}

/// What was sent and done.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    pub messages: u64,
    pub bytes: u64,
    pub flushes: u64,
    pub events: u64,
    /// Copies that nodes sent for others that are silent.
    pub stand_ins: u64,
}

#[derive(Default)]
struct Agenda {
    number: u64,
    events: BTreeMap<(Nanos, u64), Event>,
    wakes: BTreeSet<(Nanos, Peer)>,
    of: Vec<Option<Nanos>>,
}

/// Clients at full speed: each begins its next operation when its last has ended.
#[derive(Clone, Copy, Debug)]
pub struct Closed {
    pub clients: u32,
    pub operations: u64,
    /// Operation n is about key n modulo so many.
    pub keys: u64,
}

impl Closed {
    /// Plays all operations; how many were done.
    pub fn play(self, world: &mut World, task: impl Fn(u64) -> Task) -> u64 {
        let first = world.seen.len();
        let begin = |world: &mut World, client: u32| {
            let number = (world.seen.len() - first) as u64;
            if number < self.operations {
                world.request(client, Key(number % self.keys), task(number));
            }
        };
        (0..self.clients).for_each(|client| begin(world, client));
        let all = first + self.operations as usize;
        let mut ended = 0;
        while ended < self.operations {
            assert!(world.step(), "operations without an end");
            while let Some(client) = world.free.pop() {
                ended += 1;
                begin(world, client);
            }
        }
        let done = |one: &Seen| matches!(one.ended, Some((_, Outcome::Done { .. })));
        world.seen[first..all].iter().filter(|one| done(one)).count() as u64
    }
}

pub const FAST_DISK: Model =
    Model { size_bytes: 1 << 60, rate_byte_per_s: None, latency_ns: 100_000, write_cache_bytes: 0 };

impl World {
    pub fn new(policy: Policy, clients: u32, network: Network, disk: Model, seed: u64) -> Self {
        policy.check().expect("a store");
        let mut machines: Vec<Machine> =
            policy.peers().map(|one| Machine::Node(Box::new(Node::new(one, policy)))).collect();
        machines.extend((0..policy.proxies).map(|_| Machine::Proxy(Box::new(Proxy::new(policy)))));
        let first = policy.nodes + policy.proxies;
        machines.extend(
            (0..clients).map(|one| Machine::Client(Box::new(Client::new(Peer(first + one), policy)))),
        );
        Self {
            now: Nanos::ZERO,
            policy,
            network,
            seen: Vec::new(),
            pages: BTreeMap::new(),
            cut: BTreeSet::new(),
            counts: Counts::default(),
            pairs: BTreeSet::new(),
            free: Vec::new(),
            disks: policy.peers().map(|_| Disk::new(disk)).collect(),
            links: vec![Link::default(); machines.len()],
            agenda: Agenda { of: vec![None; machines.len()], ..Agenda::default() },
            ahead: vec![Nanos::ZERO; machines.len()],
            machines,
            random: Stream::new(seed, "world"),
        }
    }

    /// Clocks of clients and proxies differ, by less than so much.
    pub fn skew(&mut self, most: Nanos) {
        for one in self.policy.nodes as usize..self.machines.len() {
            self.ahead[one] = Nanos(self.random.below(most.0.max(1)));
        }
    }

    /// A client's clock is ahead of all others.
    pub fn hurry(&mut self, client: u32, by: Nanos) {
        let peer = self.client(client);
        self.ahead[peer.0 as usize] = by;
    }

    fn clock(&self, peer: Peer) -> Nanos {
        self.now + self.ahead[peer.0 as usize]
    }

    pub fn client(&self, number: u32) -> Peer {
        Peer(self.policy.nodes + self.policy.proxies + number)
    }

    pub fn node(&self, peer: Peer) -> &Node {
        match &self.machines[peer.0 as usize] {
            Machine::Node(node) => node,
            _ => panic!("no node"),
        }
    }

    fn with_node(&mut self, peer: Peer, act: impl FnOnce(&mut Node, Nanos)) {
        let now = self.now;
        match &mut self.machines[peer.0 as usize] {
            Machine::Node(node) => act(node, now),
            _ => panic!("no node"),
        }
        self.drain(peer);
    }

    /// The requests that its disk had are gone with it.
    pub fn restart(&mut self, peer: Peer, left: Left) {
        if left != Left::All {
            let model = *self.disks[peer.0 as usize].model();
            self.disks[peer.0 as usize] = Disk::new(model);
        }
        self.with_node(peer, |node, now| node.restart(now, left));
    }

    pub fn heal(&mut self, peer: Peer) {
        self.with_node(peer, |node, now| node.heal(now));
    }

    pub fn watch(&mut self, period: Nanos, after: Nanos) {
        for peer in self.policy.peers() {
            self.with_node(peer, |node, now| node.watch(now, period, after));
        }
    }

    pub fn spread(&mut self, peer: Peer, lost: Peer) {
        self.with_node(peer, |node, now| node.spread(now, lost));
    }

    /// Begins an operation; its place in `seen`.
    pub fn request(&mut self, client: u32, key: Key, task: Task) -> usize {
        let peer = self.client(client);
        let number = self.seen.len();
        self.seen.push(Seen { key, task, began: self.now, ended: None, retries: 0 });
        let now = self.clock(peer);
        if let Machine::Client(client) = &mut self.machines[peer.0 as usize] {
            client.request(now, number as u64, key, task);
        }
        self.drain(peer);
        number
    }

    /// Does an operation to its end.
    pub fn act(&mut self, client: u32, key: Key, task: Task) -> Outcome {
        let number = self.request(client, key, task);
        while self.seen[number].ended.is_none() {
            assert!(self.step(), "an operation without an end");
        }
        self.seen[number].ended.expect("it has ended").1
    }

    /// Plays until nothing more happens before an instant.
    pub fn until(&mut self, at: Nanos) {
        while self.next().is_some_and(|next| next <= at) {
            self.step();
        }
        self.now = self.now.max(at);
    }

    fn next(&self) -> Option<Nanos> {
        let event = self.agenda.events.first_key_value().map(|(&(at, _), _)| at);
        let wake = self.agenda.wakes.first().map(|&(at, _)| at);
        event.into_iter().chain(wake).min()
    }

    /// One event; false if there is none.
    pub fn step(&mut self) -> bool {
        let Some(at) = self.next() else { return false };
        self.now = self.now.max(at);
        self.counts.events += 1;
        let now = self.now;
        if let Some(&(wake, peer)) = self.agenda.wakes.first().filter(|&&(wake, _)| wake <= at) {
            self.agenda.wakes.remove(&(wake, peer));
            self.agenda.of[peer.0 as usize] = None;
            let now = self.clock(peer);
            match &mut self.machines[peer.0 as usize] {
                Machine::Node(one) => one.wake(now),
                Machine::Proxy(one) => one.wake(now),
                Machine::Client(one) => one.wake(now),
            }
            self.drain(peer);
            return true;
        }
        let Some((_, event)) = self.agenda.events.pop_first() else { return false };
        match event {
            Event::Message(from, to, message) => {
                if from != to && (self.cut.contains(&from) || self.cut.contains(&to)) {
                    return true;
                }
                let now = self.clock(to);
                match &mut self.machines[to.0 as usize] {
                    Machine::Node(one) => one.handle(now, from, message),
                    Machine::Proxy(one) => one.handle(now, from, message),
                    Machine::Client(one) => one.handle(now, from, message),
                }
                self.drain(to);
            }
            Event::Disk(peer) => {
                while let Some(done) = self.disks[peer.0 as usize].complete(now) {
                    if let Machine::Node(node) = &mut self.machines[peer.0 as usize] {
                        node.complete(now, done.id);
                    }
                }
                self.drain(peer);
            }
        }
        true
    }

    fn drain(&mut self, peer: Peer) {
        let at = peer.0 as usize;
        loop {
            let output = match &mut self.machines[at] {
                Machine::Node(one) => one.output(),
                Machine::Proxy(one) => one.output(),
                Machine::Client(one) => one.output(),
            };
            let Some(output) = output else { break };
            self.carry(peer, output);
        }
        let wake = match &self.machines[at] {
            Machine::Node(one) => one.next_event(),
            Machine::Proxy(one) => one.next_event(),
            Machine::Client(one) => one.next_event(),
        };
        let wake = wake.map(|at| at.since(self.ahead[peer.0 as usize]));
        let before = std::mem::replace(&mut self.agenda.of[at], wake);
        if before != wake {
            before.map(|before| self.agenda.wakes.remove(&(before, peer)));
            wake.map(|wake| self.agenda.wakes.insert((wake, peer)));
        }
    }

    fn carry(&mut self, peer: Peer, output: Output) {
        match output {
            Output::Send(To::Peer(to), message) => {
                let for_another = |attempt: &Attempt| attempt.client == peer && attempt.operation == u64::MAX;
                let is_stand_in = matches!(&message, Message::Put { attempt, .. } if for_another(attempt));
                self.counts.stand_ins += u64::from(is_stand_in);
                let left = self.leave(peer, to, &message);
                self.deliver(peer, to, message, left);
            }
            Output::Send(To::Nodes, message) => {
                let left = self.out(peer, message.bytes());
                for to in self.policy.peers() {
                    self.deliver(peer, to, message.clone(), left);
                }
            }
            Output::Disk { id, kind, bytes, .. } => {
                self.counts.flushes += u64::from(kind == Kind::Flush);
                let request = Request { kind, offset: 0, bytes };
                let disk = &mut self.disks[peer.0 as usize];
                let done = disk.submit(self.now, id, request).expect("whole sectors");
                self.later(done, Event::Disk(peer));
            }
            Output::Answer { operation, outcome, retries, listing } => {
                self.pages.extend(listing.map(|listing| (operation as usize, listing)));
                let seen = &mut self.seen[operation as usize];
                assert!(seen.ended.is_none(), "answered twice");
                (seen.ended, seen.retries) = (Some((self.now, outcome)), retries);
                self.free.push(peer.0 - self.policy.nodes - self.policy.proxies);
            }
        }
    }

    fn takes(&self, bytes: u64) -> Nanos {
        let ns = self
            .network
            .rate_byte_per_s
            .map_or(0, |rate| u128::from(bytes) * u128::from(S) / u128::from(rate));
        Nanos(ns as u64)
    }

    fn out(&mut self, peer: Peer, bytes: u64) -> Nanos {
        let takes = self.takes(bytes);
        if bytes <= PACKET_BYTES {
            return self.now + takes;
        }
        let link = &mut self.links[peer.0 as usize];
        link.out = link.out.max(self.now) + takes;
        link.out
    }

    /// When a message has left its sender.
    fn leave(&mut self, from: Peer, to: Peer, message: &Message) -> Nanos {
        if from == to { self.now } else { self.out(from, message.bytes()) }
    }

    fn deliver(&mut self, from: Peer, to: Peer, message: Message, left: Nanos) {
        if from == to {
            self.later(self.now, Event::Message(from, to, message));
            return;
        }
        self.counts.messages += 1;
        self.pairs.insert((from, to));
        self.counts.bytes += message.bytes();
        if self.cut.contains(&from) || self.random.uniform() < self.network.loss {
            return;
        }
        let twice = self.random.uniform() < self.network.duplication;
        let takes = self.takes(message.bytes());
        let link = &mut self.links[to.0 as usize];
        let mut at = left + self.network.delay;
        if message.bytes() > PACKET_BYTES {
            link.into = at.max(link.into + takes);
            at = link.into;
        }
        for message in twice.then(|| message.clone()).into_iter().chain([message]) {
            let held = (self.random.uniform() * self.network.jitter.0 as f64) as u64;
            self.later(at + Nanos(held), Event::Message(from, to, message));
        }
    }

    fn later(&mut self, at: Nanos, event: Event) {
        self.agenda.number += 1;
        self.agenda.events.insert((at, self.agenda.number), event);
    }
}
