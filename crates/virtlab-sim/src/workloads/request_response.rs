//! `request_response`: a client of an open or a closed loop, and a server whose threads serve requests in order.
//!
//! Client and server cost nothing but the demands. Each task of one has a processor of its own for as long as it takes,
//! so a server of n threads has n processors; unless its guest has a number of them, which all that works in it shares.
//! Requests and answers cross the network over TCP, as the testbed's do. A request that was given up leaves its
//! connection to another; what the server had of it is served all the same. Over UDP a connection is no more than room
//! for one request at a time, and all share a pair of sockets. A server that is a service serves all roles that end at
//! it; of one with passive servers each connection has a link to every server.

mod ended;
mod links;

use self::ended::Ended;
use crate::agenda::Due;
use crate::input::{Finding, Role, RoleEnd};
use crate::ip::Message;
use crate::network::Network;
use crate::samples::{ResponseRow, Table};
use crate::servers::{Served, UNSERVED};
use crate::tcp::{Flow, Wishes};
use crate::workloads::workload::{Counters, Kind, SOCKET_BYTES, Workload, finding, parse, unreachable};
use serde_json::Value;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use virtlab_load::Transport;
use virtlab_load::entering::Entering;
use virtlab_load::histogram::Histogram;
use virtlab_load::parameters::request_response::{
    Ending, HEADER_BYTES, NAME, Protocol, RATE, RequestResponse as Parameters, Times,
};
use virtlab_load::requests::{Counted, Tries};
use virtlab_load::schedule::Schedule;

/// How a role of it is made.
pub const KIND: Kind = Kind {
    name: NAME,
    make: |index, role, network| Ok(Box::new(RequestResponse::new(index, role, network)?)),
    tags: false,
};

/// Of the sockets of datagrams, one above for each role.
const PORT: u16 = 40_000;

/// A request that is due, and where it enters.
#[derive(Clone, Copy)]
struct Wanted {
    intended_ns: u64,
    /// Among the entries of the role.
    entry: usize,
}

/// A request under way.
#[derive(Clone, Copy)]
struct Attempt {
    wanted: Wanted,
    /// When the first of its tries left.
    sent_ns: Option<u64>,
    /// When this try began, and how many may follow.
    begun_ns: u64,
    left: u16,
    /// Of its first try, and of the last; 0 before there is one.
    first: u64,
    number: u64,
}

/// The sockets of datagrams at both ends, and whose answer each brings.
struct Datagrams {
    sockets: [usize; 2],
    tries: Tries,
}

/// A connection of the role, on which there is one request at a time: to each entry it has a link, unless its requests
/// go in datagrams.
struct Seat {
    /// Places of the links.
    links: Vec<usize>,
    /// The link without which it is not free yet.
    opening: Option<usize>,
    attempt: Option<Attempt>,
    /// What is asked again on it.
    again: Option<Attempt>,
    thinking: Times,
    /// Of a closed loop.
    entering: Entering,
}

/// One link, and what both ends know of it.
struct Link {
    flow: Flow,
    seat: usize,
    entry: usize,
    /// Whether the client has left it to another.
    left: bool,
    /// Whole requests that the server has seen.
    requests: u64,
    /// Octets that the client will have when its answer is whole, and what came of the request then.
    answer: Option<(u64, Served)>,
    answers_bytes: u64,
}

/// When requests become due, and until when.
struct Coming {
    /// Absent: each follows an answer.
    schedule: Option<Schedule>,
    origin_ns: u64,
    end_ns: u64,
    number: u64,
    /// How many there may still be.
    left: u64,
}

impl Coming {
    fn next(&mut self) -> Option<u64> {
        let due = self.origin_ns.saturating_add(self.schedule.as_mut()?.offset(self.number).0);
        (due < self.end_ns && self.left > 0).then_some(due)
    }

    /// Whether a client of a closed loop asks one more, at that instant.
    fn wants(&self, at_ns: u64) -> bool {
        at_ns < self.end_ns && self.left > 0
    }
}

/// Requests that are due.
struct Client {
    coming: Coming,
    /// Where requests enter.
    entering: Entering,
    /// Requests that were due and for which no connection was free yet, and connections without a request.
    waiting: VecDeque<Wanted>,
    free: VecDeque<usize>,
    /// Connections whose client thinks, or asks again, and until when.
    thinking: BinaryHeap<Reverse<(u64, usize)>>,
    /// When requests under way are given up, or asked again: the instant, the connection, the try.
    patience: BinaryHeap<Reverse<(u64, usize, u64)>>,
    requests: u64,
    /// Requests that are asked again later.
    retrying: usize,
    /// For when the next look at them is planned.
    planned_ns: Option<u64>,
}

impl Client {
    fn note_due(&mut self, now_ns: u64) {
        while let Some(due) = self.coming.next().filter(|due| *due <= now_ns) {
            self.coming.number += 1;
            self.coming.left -= 1;
            self.waiting.push_back(Wanted { intended_ns: due, entry: self.entering.draw() });
        }
    }
}

/// One role.
pub struct RequestResponse {
    role: usize,
    ends: Role,
    own: Parameters,
    seed: u64,
    seats: Vec<Seat>,
    links: Vec<Link>,
    datagrams: Option<Datagrams>,
    client: Client,
    /// Of the world's servers, by entry.
    servers: Vec<usize>,
    finished: bool,
    counted: Counted,
    ended: Ended,
}

/// One at each end.
fn datagram_sockets(index: usize, role: &Role, network: &mut Network) -> Result<[usize; 2], Finding> {
    let [client, server] = &role.ends;
    let (Some(here), Some(there)) = (client.address, server.address) else {
        return Err(unreachable(role));
    };
    let mut open = |vnic, from, to| {
        let port = PORT + index as u16;
        network.socket(vnic, from, to, Transport::Udp, port, SOCKET_BYTES).ok_or_else(|| unreachable(role))
    };
    Ok([open(client.vnic, here, there)?, open(server.vnic, there, here)?])
}

impl RequestResponse {
    /// Prepares both ends.
    pub fn new(index: usize, role: &Role, network: &mut Network) -> Result<Self, Finding> {
        let own: Parameters = parse(role)?;
        own.check().map_err(|error| finding(role, &error.to_string()))?;
        let seed = role.ends[0].seed;
        let client = Client {
            coming: Coming {
                schedule: own.due(seed),
                origin_ns: 0,
                end_ns: u64::MAX,
                number: 0,
                left: role.most.unwrap_or(u64::MAX),
            },
            entering: own.entering(seed, None),
            waiting: VecDeque::new(),
            free: VecDeque::new(),
            thinking: BinaryHeap::new(),
            patience: BinaryHeap::new(),
            requests: 0,
            retrying: 0,
            planned_ns: None,
        };
        let places: Vec<u16> = own.entries.iter().map(|entry| entry.place).collect();
        let mut servers = Vec::new();
        for (entry, end) in (0..own.entries.len().max(1)).map(|entry| (entry, far_end(&own, role, entry))) {
            let place = places.get(entry).copied().unwrap_or(0);
            // Servers at which a share enters are passive, and write nothing.
            let passive = entry > 0 && own.passive_share_ratio > 0.0;
            if !passive
                && let Some((key, what, cure)) =
                    network.servers.cannot_write(&own, network.guest_with(end.vnic))
            {
                return Err(Finding::new(format!("roles.{}.{key}", role.name), what, cure));
            }
            servers.push(network.servers.of(&own, end.seed, network.guest_with(end.vnic), place));
        }
        let datagrams = (own.protocol == Protocol::Udp).then(|| {
            let sockets = datagram_sockets(index, role, network)?;
            Ok(Datagrams { sockets, tries: Tries::new(own.connections) })
        });
        let datagrams = datagrams.transpose()?;
        let mut made = Self {
            role: index,
            ends: role.clone(),
            servers,
            own,
            seed,
            seats: Vec::new(),
            links: Vec::new(),
            datagrams,
            client,
            finished: false,
            counted: Counted::default(),
            ended: Ended::new(role.kept),
        };
        for number in 0..made.own.connections {
            let (seat, mut links) = (made.seats.len(), Vec::new());
            let entries = if made.datagrams.is_none() { made.servers.len() } else { 0 };
            for entry in 0..entries {
                links.push(made.link(seat, entry, network)?);
            }
            made.seats.push(Seat {
                opening: links.first().copied(),
                links,
                attempt: None,
                again: None,
                thinking: made.own.thinking(seed, number),
                entering: made.own.entering(seed, Some(number)),
            });
        }
        Ok(made)
    }

    /// Prepares one more link.
    fn link(&mut self, seat: usize, entry: usize, network: &mut Network) -> Result<usize, Finding> {
        let wishes = Wishes { buffers: self.own.buffers(), no_delay: true };
        let place = self.links.len();
        let flow = if entry == 0 {
            Flow::new(self.role, place as u32, &self.ends, wishes, network)?
        } else {
            let ends = [near_end(&self.own, &self.ends, entry), far_end(&self.own, &self.ends, entry)];
            network.end_elsewhere(self.role, place as u32, ends[1].vnic, self.own.entries[entry].address);
            Flow::new(self.role, place as u32, &Role { ends, ..self.ends.clone() }, wishes, network)?
        };
        self.links.push(Link { flow, seat, entry, left: false, requests: 0, answer: None, answers_bytes: 0 });
        Ok(place)
    }

    fn end(&mut self, wanted: Wanted, sent_ns: Option<u64>, now_ns: u64, ending: Ending, by: i32) {
        self.counted.end(ending);
        self.ended.note(ResponseRow {
            intended_ns: wanted.intended_ns as i64,
            sent_ns: sent_ns.map_or(-1, |sent_ns| sent_ns as i64),
            finished_ns: now_ns as i64,
            entry: self.own.place_of(wanted.entry),
            served_by: by,
            error: ending as i32,
        });
    }

    /// Everything that the client can do now; when it has to look again is planned.
    fn go_on(&mut self, network: &mut Network) {
        let now_ns = network.now_ns;
        if self.finished {
            return;
        }
        self.give_up(network);
        let open = self.client.coming.schedule.is_some();
        while let Some(&Reverse((from_ns, seat))) =
            self.client.thinking.peek().filter(|Reverse((from_ns, _))| *from_ns <= now_ns)
        {
            self.client.thinking.pop();
            if let Some(attempt) = self.seats[seat].again.take() {
                self.client.retrying -= 1;
                self.ask(seat, attempt, network);
            } else if open {
                self.client.free.push_back(seat);
            } else if self.client.coming.wants(from_ns) {
                self.client.coming.left -= 1;
                let wanted = Wanted { intended_ns: from_ns, entry: self.seats[seat].entering.draw() };
                self.ask_first(seat, wanted, network);
            }
        }
        self.client.note_due(now_ns);
        while let Some(&wanted) = self.client.waiting.front() {
            let Some(seat) = self.client.free.pop_front() else { break };
            self.client.waiting.pop_front();
            self.ask_first(seat, wanted, network);
        }
        let thinks = self.client.thinking.peek().map(|Reverse((from_ns, _))| *from_ns);
        let instants = [
            self.client.coming.next(),
            thinks.filter(|from_ns| {
                let wanted =
                    if open { !self.client.waiting.is_empty() } else { self.client.coming.wants(*from_ns) };
                wanted || self.client.retrying > 0
            }),
            self.client.waiting.front().map(|wanted| wanted.intended_ns.saturating_add(self.own.timeout_ns)),
            self.client.patience.peek().map(|Reverse((at_ns, ..))| *at_ns),
        ];
        let shaking =
            !open && self.client.coming.wants(now_ns) && self.seats.iter().any(|seat| seat.opening.is_some());
        match instants.into_iter().flatten().min().map(|at_ns| at_ns.max(now_ns)) {
            Some(at_ns) if self.client.planned_ns.is_none_or(|planned_ns| at_ns < planned_ns) => {
                self.client.planned_ns = Some(at_ns);
                network.agenda.plan(at_ns, Due::Tick { role: self.role, side: 0, generation: 0 });
            }
            None if !shaking => self.finished = true,
            _ => {}
        }
    }

    fn ask_first(&mut self, seat: usize, wanted: Wanted, network: &mut Network) {
        let now_ns = network.now_ns;
        let left = self.own.retries;
        let attempt = Attempt { wanted, sent_ns: None, begun_ns: now_ns, left, first: 0, number: 0 };
        self.ask(seat, attempt, network);
    }

    /// A try begins; it leaves once its link is there.
    fn ask(&mut self, seat: usize, attempt: Attempt, network: &mut Network) {
        let number = match &mut self.datagrams {
            Some(datagrams) => datagrams.tries.next(seat),
            None => {
                self.client.requests += 1;
                self.client.requests
            }
        };
        let first = if attempt.first == 0 { number } else { attempt.first };
        let mut attempt = Attempt { begun_ns: network.now_ns, first, number, ..attempt };
        if self.datagrams.is_some() {
            attempt.sent_ns = attempt.sent_ns.or(Some(network.now_ns));
        }
        let end_ns = attempt.wanted.intended_ns.saturating_add(self.own.timeout_ns);
        self.client.patience.push(Reverse((self.next_try(attempt).unwrap_or(end_ns), seat, number)));
        self.seats[seat].attempt = Some(attempt);
        if self.datagrams.is_some() {
            self.counted.sent_bytes += self.own.request_bytes;
            self.send(0, number, self.own.request_bytes, UNSERVED, network);
        } else {
            let mut place = self.seats[seat].links[attempt.wanted.entry];
            if self.links[place].left {
                place = self.dial(seat, attempt.wanted.entry, network);
            }
            if self.links[place].flow.end(0).is_open() {
                self.write(place, network);
            }
        }
    }

    /// The request of a connection leaves on its link.
    fn write(&mut self, place: usize, network: &mut Network) {
        self.counted.sent_bytes += self.own.request_bytes;
        if let Some(attempt) = &mut self.seats[self.links[place].seat].attempt {
            attempt.sent_ns = attempt.sent_ns.or(Some(network.now_ns));
        }
        self.links[place].flow.write(0, self.own.request_bytes, network);
    }

    /// A message leaves in a datagram: a request, or an answer of the server of that place.
    fn send(&self, side: usize, number: u64, bytes: u64, by: i32, network: &mut Network) {
        let Some(datagrams) = &self.datagrams else { return };
        let message = Message {
            role: self.role as u32,
            origin: 0,
            reply: side == 1,
            flow: (by + 1) as u32,
            seq: number,
            sent_ns: network.now_ns,
            payload_bytes: bytes as u32,
        };
        network.send_later(datagrams.sockets[side], message);
    }

    /// When a request is asked again, unless this try is answered; `None` after the last.
    fn next_try(&self, attempt: Attempt) -> Option<u64> {
        let at_ns = attempt.begun_ns.saturating_add(self.own.retry_after_ns?);
        let end_ns = attempt.wanted.intended_ns.saturating_add(self.own.timeout_ns);
        (attempt.left > 0 && at_ns < end_ns).then_some(at_ns)
    }

    /// Requests whose time is over: they are not waited for any more.
    fn give_up(&mut self, network: &mut Network) {
        let now_ns = network.now_ns;
        while let Some(&Reverse((at_ns, seat, number))) = self.client.patience.peek() {
            match self.seats[seat].attempt.filter(|attempt| attempt.number == number) {
                None => {}
                Some(_) if at_ns > now_ns => break,
                Some(attempt) => {
                    let again = self.next_try(attempt).is_some();
                    self.seats[seat].attempt = None;
                    if self.datagrams.is_none() {
                        self.replace(seat, attempt.wanted.entry, network);
                    }
                    if again {
                        self.counted.retries += 1;
                        self.ask(seat, Attempt { left: attempt.left - 1, ..attempt }, network);
                    } else {
                        self.end(attempt.wanted, attempt.sent_ns, now_ns, Ending::Lost, UNSERVED);
                        if let Some(datagrams) = &mut self.datagrams {
                            datagrams.tries.lost(seat, attempt.first, attempt.number);
                            self.is_free(seat, now_ns);
                        }
                    }
                }
            }
            self.client.patience.pop();
        }
        let timeout_ns = self.own.timeout_ns;
        let over = |wanted: &&Wanted| wanted.intended_ns.saturating_add(timeout_ns) <= now_ns;
        while let Some(&wanted) = self.client.waiting.front().filter(over) {
            self.client.waiting.pop_front();
            self.end(wanted, None, now_ns, Ending::Lost, UNSERVED);
        }
    }

    /// What the server has whole of a link is taken in.
    fn take_in(&mut self, place: usize, network: &mut Network) {
        let link = &mut self.links[place];
        if link.flow.end(1).is_closed()
            || link.flow.end(1).received_bytes() < (link.requests + 1) * self.own.request_bytes
        {
            return;
        }
        link.requests += 1;
        let (server, owner) = (self.servers[link.entry], (self.role, place));
        if !network.offer(server, owner, self.own.request_bytes) {
            self.answer(Served { owner, ending: Ending::Refused, by: UNSERVED }, network);
        }
        network.look_at(server);
    }

    fn answer(&mut self, served: Served, network: &mut Network) {
        let link = &mut self.links[served.owner.1];
        let bytes = if served.ending == Ending::Answered { self.own.response_bytes } else { HEADER_BYTES };
        link.answers_bytes += bytes;
        link.answer = Some((link.answers_bytes, served));
        link.flow.write(1, bytes, network);
    }

    /// A datagram has come: a request to the server, or an answer to the client.
    fn take_datagram(&mut self, message: Message, network: &mut Network) {
        let (number, server) = (message.seq, self.servers[0]);
        if !message.reply {
            if network.servers.has_failed(server) {
                return;
            }
            if !network.offer(server, (self.role, number as usize), self.own.request_bytes) {
                self.send(1, number, HEADER_BYTES, UNSERVED, network);
            }
            network.look_at(server);
            return;
        }
        let Some(datagrams) = self.datagrams.as_mut().filter(|_| !self.finished) else { return };
        let Some(place) = datagrams.tries.place(number) else { return };
        self.counted.received_bytes += u64::from(message.payload_bytes);
        let by = message.flow as i32 - 1;
        let ending = if by == UNSERVED { Ending::Refused } else { Ending::Answered };
        let tried = |attempt: &Attempt| (attempt.first..=attempt.number).contains(&number);
        let seat = &mut self.seats[place];
        if let Some(attempt) = seat.attempt.take_if(|attempt| tried(attempt)) {
            self.answered(place, attempt, ending, by, network);
        } else if ending == Ending::Answered
            && let Some(attempt) = seat.again.take_if(|attempt| tried(attempt))
        {
            // Before it was asked again; its place rests until then.
            self.client.retrying -= 1;
            self.counted.retries -= 1;
            self.end(attempt.wanted, attempt.sent_ns, network.now_ns, ending, by);
        } else {
            datagrams.tries.astray(place, number);
        }
        self.go_on(network);
    }

    /// The client takes the answer of a link, if it is whole.
    fn take_answer(&mut self, place: usize, network: &mut Network) {
        let link = &mut self.links[place];
        let Some((_, served)) = link.answer.filter(|(bytes, _)| link.flow.end(0).received_bytes() >= *bytes)
        else {
            return;
        };
        link.answer = None;
        let seat = link.seat;
        let Some(attempt) = self.seats[seat].attempt.take() else { return };
        let answered = served.ending == Ending::Answered;
        self.counted.received_bytes += if answered { self.own.response_bytes } else { HEADER_BYTES };
        self.answered(seat, attempt, served.ending, served.by, network);
    }

    /// The whole answer to a request.
    fn answered(&mut self, seat: usize, attempt: Attempt, ending: Ending, by: i32, network: &Network) {
        let now_ns = network.now_ns;
        if ending != Ending::Answered
            && let Some(at_ns) = self.next_try(attempt)
        {
            self.counted.retries += 1;
            self.client.retrying += 1;
            self.seats[seat].again = Some(Attempt { left: attempt.left - 1, ..attempt });
            self.client.thinking.push(Reverse((at_ns.max(now_ns), seat)));
            return;
        }
        let think = self.seats[seat].thinking.draw();
        self.end(attempt.wanted, attempt.sent_ns, now_ns, ending, by);
        self.is_free(seat, now_ns.saturating_add(think.0));
    }

    /// A connection without a request: its client may ask from then on.
    fn is_free(&mut self, seat: usize, from_ns: u64) {
        if self.client.coming.schedule.is_some() {
            self.client.free.push_back(seat);
        } else {
            self.client.thinking.push(Reverse((from_ns, seat)));
        }
    }
}

/// The client's end towards one of the servers.
fn near_end(own: &Parameters, role: &Role, entry: usize) -> RoleEnd {
    match own.entries.get(entry) {
        Some(entry) => RoleEnd { vnic: entry.vnics[0], address: Some(entry.local), ..role.ends[0].clone() },
        None => role.ends[0].clone(),
    }
}

/// The end of one of the servers.
fn far_end(own: &Parameters, role: &Role, entry: usize) -> RoleEnd {
    match own.entries.get(entry) {
        Some(entry) => RoleEnd {
            vnic: entry.vnics[1],
            address: Some(entry.address),
            seed: entry.seed.unwrap_or(role.ends[1].seed),
        },
        None => role.ends[1].clone(),
    }
}

impl Workload for RequestResponse {
    fn start(&mut self, network: &mut Network) {
        let end_ns = self.own.duration_ns.map_or(u64::MAX, |length_ns| network.now_ns + length_ns);
        (self.client.coming.origin_ns, self.client.coming.end_ns) = (network.now_ns, end_ns);
        if end_ns < u64::MAX {
            network.agenda.plan(end_ns, Due::Expire { role: self.role, side: 0 });
        }
        for link in &mut self.links {
            link.flow.connect(network);
        }
        if self.datagrams.is_some() {
            for seat in 0..self.seats.len() {
                self.is_free(seat, network.now_ns);
            }
        }
        self.go_on(network);
    }

    fn tick(&mut self, side: usize, generation: u32, network: &mut Network) {
        if generation > 0 {
            self.links[generation as usize - 1].flow.alarm(side, network);
        } else {
            if self.client.planned_ns.is_some_and(|planned_ns| planned_ns <= network.now_ns) {
                self.client.planned_ns = None;
            }
            self.go_on(network);
        }
    }

    fn served(&mut self, served: Served, network: &mut Network) {
        match self.datagrams {
            Some(_) => {
                self.send(1, served.owner.1 as u64, self.own.response_bytes, served.by, network);
            }
            None => self.answer(served, network),
        }
    }

    fn wakes(&self, _message: &Message) -> bool {
        self.datagrams.is_some()
    }

    fn server_failed(&mut self, server: usize, network: &mut Network) {
        for link in self.links.iter_mut().filter(|link| self.servers[link.entry] == server) {
            link.flow.close(1, network);
        }
    }

    fn server(&self) -> Option<usize> {
        self.own.service.is_none().then_some(self.servers[0])
    }

    fn come(&self) -> Option<u64> {
        Some(self.counted.of(Ending::Answered))
    }

    fn path_changed(&mut self, side: usize, network: &mut Network) {
        for link in &mut self.links {
            link.flow.pump(side, network);
        }
    }

    fn expire(&mut self, _side: usize, network: &mut Network) {
        self.go_on(network);
    }

    fn take(&mut self, message: Message, network: &mut Network) {
        let place = message.flow as usize;
        if self.datagrams.is_some() {
            return self.take_datagram(message, network);
        }
        let was_open = self.links[place].flow.end(0).is_open();
        if message.origin == 0 && network.servers.has_failed(self.servers[self.links[place].entry]) {
            self.links[place].flow.refuse();
        }
        let side = self.links[place].flow.take(message, network);
        if !was_open && self.links[place].flow.end(0).is_open() {
            self.is_open(place, network);
            self.go_on(network);
        }
        if side == 1 {
            self.take_in(place, network);
        } else {
            let known = !self.links[place].left && !self.finished;
            if known {
                self.take_answer(place, network);
            }
            if self.links[place].flow.end(0).is_over() {
                self.links[place].flow.end_both();
                if known {
                    self.broke(place, network);
                }
            }
            if known {
                self.go_on(network);
            }
        }
        self.links[place].flow.pump(side, network);
    }

    fn stop(&mut self, network: &mut Network) {
        if self.finished {
            return;
        }
        let now_ns = network.now_ns;
        self.client.note_due(now_ns);
        let sent = self.seats.iter().filter_map(|seat| seat.attempt.or(seat.again));
        let sent: Vec<_> = sent.map(|attempt| (attempt.wanted, attempt.sent_ns)).collect();
        let unsent = std::mem::take(&mut self.client.waiting).into_iter().map(|wanted| (wanted, None));
        for (wanted, sent_ns) in sent.into_iter().chain(unsent) {
            self.end(wanted, sent_ns, now_ns, Ending::Open, UNSERVED);
        }
        self.finished = true;
    }

    fn set(&mut self, parameter: &str, value: &Value, network: &mut Network) {
        let (RATE, Some(rate), true) = (parameter, value.as_u64(), self.own.rate_per_s.is_some()) else {
            return;
        };
        self.client.note_due(network.now_ns);
        self.client.coming.schedule = Some(self.own.schedule(rate, self.seed));
        (self.client.coming.origin_ns, self.client.coming.number) = (network.now_ns, 0);
        self.go_on(network);
    }

    fn finished(&self) -> bool {
        self.finished
    }

    fn delays(&self) -> Option<&Histogram> {
        self.ended.times()
    }

    fn report(&self, stream: &str) -> (Vec<Table>, Counters) {
        let mut counted = self.counted;
        counted.stray = self.datagrams.as_ref().map(|datagrams| datagrams.tries.stray);
        let client = counted.counters();
        let open = self.links.iter().filter(|link| link.flow.end(1).is_open()).count() as u64;
        let own = self.own.service.is_none() && self.datagrams.is_none();
        let server = if own { vec![("connections", open)] } else { Vec::new() };
        (self.ended.table(stream).into_iter().collect(), [client, server])
    }
}
