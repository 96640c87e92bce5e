//! A passive server's connection to its active one: requests of all its clients go there, and what came of each comes
//! back.
//!
//! It is kept: the first request begins it, and one that brings no answer in time before it is there gives way to
//! another. The active server knows requests by their numbers, of which the answers come in any order. No Plan names
//! it; it is one more role of the network.

use crate::agenda::Due;
use crate::input::{Finding, Passive, Role};
use crate::ip::Message;
use crate::network::Network;
use crate::samples::Table;
use crate::servers::{Forwarded, Served, UNSERVED};
use crate::tcp::{Flow, Wishes};
use crate::workloads::workload::{Counters, Workload, parse};
use std::collections::{BTreeMap, VecDeque};
use virtlab_load::parameters::request_response::{Ending, HEADER_BYTES, RequestResponse as Parameters};
use virtlab_wire::Nanos;

/// What both ends know of a connection.
struct Line {
    flow: Flow,
    /// Octets that an end has when a message is whole, and which request that is; to the active server, and back.
    requests: VecDeque<(u64, u64)>,
    answers: VecDeque<(u64, u64, Ending)>,
    /// So far.
    requests_bytes: u64,
    answers_bytes: u64,
}

/// Of one passive server.
pub struct Forwarding {
    role: usize,
    ends: Role,
    own: Parameters,
    /// Of the world's servers, itself and the active one.
    servers: [usize; 2],
    /// Place of the active one, among those of its service.
    place: i32,
    lines: Vec<Line>,
    /// The last line, until it is over.
    current: Option<usize>,
    /// On which line a request went.
    under_way: BTreeMap<u64, usize>,
    planned_ns: Option<u64>,
}

impl Forwarding {
    /// Makes the first of its servers forward to the other.
    pub fn new(index: usize, role: &Role, passive: &Passive, network: &mut Network) -> Result<Self, Finding> {
        let own: Parameters = parse(role)?;
        let servers = [0, 1].map(|side: usize| {
            let end = &role.ends[side];
            network.servers.of(&own, end.seed, network.guest_with(end.vnic), passive.places[side])
        });
        network.servers.make_passive(servers[0], index, passive.bounds);
        let place = i32::from(passive.places[1]);
        let ends = role.clone();
        let (lines, under_way) = (Vec::new(), BTreeMap::new());
        let mut made = Self {
            role: index,
            ends,
            own,
            servers,
            place,
            lines,
            current: None,
            under_way,
            planned_ns: None,
        };
        made.line(network)?;
        Ok(made)
    }

    /// Prepares one more connection.
    fn line(&mut self, network: &mut Network) -> Result<usize, Finding> {
        let wishes = Wishes { buffers: self.own.buffers(), no_delay: true };
        let place = self.lines.len();
        let flow = Flow::new(self.role, place as u32, &self.ends, wishes, network)?;
        let (requests, answers) = (VecDeque::new(), VecDeque::new());
        self.lines.push(Line { flow, requests, answers, requests_bytes: 0, answers_bytes: 0 });
        Ok(place)
    }

    /// The connection on which requests go; the first of them begins it.
    fn connected(&mut self, network: &mut Network) -> usize {
        if let Some(place) = self.current {
            return place;
        }
        let unused = self.lines.len() - 1;
        let place = if self.lines[unused].requests_bytes == 0 {
            unused
        } else {
            self.line(network).expect("both ends had a connection before")
        };
        self.current = Some(place);
        self.lines[place].flow.connect(network);
        place
    }

    /// What may be under way is sent; then it is looked at again when the next is given up.
    fn go_on(&mut self, network: &mut Network) {
        self.give_up(network);
        let passive = self.servers[0];
        while let Some((number, Forwarded { bytes, .. })) =
            network.servers.forwards(passive).begin().map(|(number, forwarded)| (number, *forwarded))
        {
            let place = self.connected(network);
            self.under_way.insert(number, place);
            let line = &mut self.lines[place];
            line.requests_bytes += bytes;
            line.requests.push_back((line.requests_bytes, number));
            if line.flow.end(0).is_open() {
                line.flow.write(0, bytes, network);
            }
        }
        let next_ns = network.servers.forwards(passive).next().map(|at| at.0);
        if let Some(at_ns) =
            next_ns.filter(|at_ns| self.planned_ns.is_none_or(|planned_ns| *at_ns < planned_ns))
        {
            self.planned_ns = Some(at_ns);
            network.agenda.plan(at_ns, Due::Expire { role: self.role, side: 0 });
        }
    }

    /// Requests whose time is over. Where nothing was answered yet, not even the handshake, another connection follows.
    fn give_up(&mut self, network: &mut Network) {
        let (passive, now) = (self.servers[0], Nanos(network.now_ns));
        let mut over = Vec::new();
        while let Some(forwarded) = network.servers.forwards(passive).expired(now) {
            over.push(forwarded);
        }
        if over.is_empty() {
            return;
        }
        if let Some(place) = self.current.filter(|place| !self.lines[*place].flow.end(0).is_open()) {
            self.broke(place, network);
        }
        self.refuse(over, network);
    }

    /// A connection is over, and every request that waits for an answer on it is a bad gateway.
    fn broke(&mut self, place: usize, network: &mut Network) {
        self.current = None;
        self.under_way.retain(|_, line| *line != place);
        let all = network.servers.forwards(self.servers[0]).give_up();
        self.refuse(all, network);
    }

    /// There is no answer of the active server.
    fn refuse(&self, all: Vec<Forwarded>, network: &mut Network) {
        for Forwarded { owner, .. } in all {
            self.know(Served { owner, ending: Ending::BadGateway, by: UNSERVED }, network);
        }
    }

    fn know(&self, served: Served, network: &mut Network) {
        network.servers.know(self.servers[0], served);
        network.agenda.plan(network.now_ns, Due::Serve(self.servers[0]));
    }

    /// What the active server has whole is taken in.
    fn take_in(&mut self, place: usize, network: &mut Network) {
        if self.lines[place].flow.end(1).is_closed() {
            return;
        }
        loop {
            let line = &mut self.lines[place];
            let received = line.flow.end(1).received_bytes();
            let Some((_, number)) = line.requests.front().copied().filter(|(bytes, _)| *bytes <= received)
            else {
                break;
            };
            line.requests.pop_front();
            let owner = (self.role, number as usize);
            if !network.offer(self.servers[1], owner, HEADER_BYTES) {
                self.served(Served { owner, ending: Ending::Refused, by: UNSERVED }, network);
            }
        }
        network.look_at(self.servers[1]);
    }

    /// Answers that the passive server has whole are known.
    fn take_answers(&mut self, place: usize, network: &mut Network) {
        loop {
            let line = &mut self.lines[place];
            let received = line.flow.end(0).received_bytes();
            let whole = line.answers.front().copied().filter(|(bytes, ..)| *bytes <= received);
            let Some((_, number, ending)) = whole else { break };
            line.answers.pop_front();
            if let Some(Forwarded { owner, .. }) = network.servers.forwards(self.servers[0]).answered(number)
            {
                let by = if ending == Ending::Answered { self.place } else { UNSERVED };
                self.know(Served { owner, ending, by }, network);
            }
        }
        self.go_on(network);
    }
}

impl Workload for Forwarding {
    fn start(&mut self, _network: &mut Network) {}

    fn called(&mut self, network: &mut Network) {
        self.go_on(network);
    }

    fn tick(&mut self, side: usize, generation: u32, network: &mut Network) {
        self.lines[generation as usize - 1].flow.alarm(side, network);
    }

    fn expire(&mut self, _side: usize, network: &mut Network) {
        if self.planned_ns.is_some_and(|planned_ns| planned_ns <= network.now_ns) {
            self.planned_ns = None;
        }
        self.go_on(network);
    }

    fn served(&mut self, served: Served, network: &mut Network) {
        let number = served.owner.1 as u64;
        let Some(place) = self.under_way.remove(&number) else { return };
        let line = &mut self.lines[place];
        let bytes = if served.ending == Ending::Answered { self.own.response_bytes } else { HEADER_BYTES };
        line.answers_bytes += bytes;
        line.answers.push_back((line.answers_bytes, number, served.ending));
        line.flow.write(1, bytes, network);
    }

    fn take(&mut self, message: Message, network: &mut Network) {
        let place = message.flow as usize;
        let was_open = self.lines[place].flow.end(0).is_open();
        if message.origin == 0 && network.servers.has_failed(self.servers[1]) {
            self.lines[place].flow.refuse();
        }
        let side = self.lines[place].flow.take(message, network);
        if !was_open && self.lines[place].flow.end(0).is_open() {
            let bytes = self.lines[place].requests_bytes;
            self.lines[place].flow.write(0, bytes, network);
        }
        if side == 1 {
            self.take_in(place, network);
        } else {
            self.take_answers(place, network);
            if self.lines[place].flow.end(0).is_over() {
                self.lines[place].flow.end_both();
                if self.current == Some(place) {
                    self.broke(place, network);
                }
            }
        }
        self.lines[place].flow.pump(side, network);
    }

    fn server_failed(&mut self, server: usize, network: &mut Network) {
        let Some(side) = self.servers.iter().position(|own| *own == server) else { return };
        self.under_way.clear();
        if side == 0 {
            self.current = None;
        }
        for line in &mut self.lines {
            line.flow.close(side, network);
        }
    }

    fn path_changed(&mut self, side: usize, network: &mut Network) {
        for line in &mut self.lines {
            line.flow.pump(side, network);
        }
    }

    fn stop(&mut self, _network: &mut Network) {}

    fn finished(&self) -> bool {
        true
    }

    fn report(&self, _stream: &str) -> (Vec<Table>, Counters) {
        Default::default()
    }
}
