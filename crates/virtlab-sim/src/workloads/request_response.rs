//! `request_response`: a client of an open or a closed loop, and a server whose threads serve requests in order.
//!
//! Client and server cost nothing but the demands. Each task of one has a processor of its own for as long as it takes, so a
//! server of n threads has n processors; unless its guest has a number of them, which all that works in it shares. Requests
//! and answers cross the network over TCP, as the testbed's do. A request that was given up leaves its connection to another;
//! what the server had of it is served all the same. A server that is a service serves all roles that end at it; of one with
//! passive servers each connection has a link to every server.

use crate::agenda::Due;
use crate::input::{Finding, Role, RoleEnd};
use crate::ip::Message;
use crate::network::Network;
use crate::samples::{ResponseRow, Table};
use crate::servers::{Served, UNSERVED};
use crate::tcp::{Flow, Wishes};
use crate::workloads::workload::{Counters, Kind, Workload, finding, parse};
use serde_json::Value;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use virtlab_load::entering::Entering;
use virtlab_load::parameters::request_response::{
    ENDINGS, Ending, HEADER_BYTES, NAME, RATE, RequestResponse as Parameters, Times,
};
use virtlab_load::schedule::Schedule;

/// How a role of it is made.
pub const KIND: Kind = Kind {
    name: NAME,
    make: |index, role, network| Ok(Box::new(RequestResponse::new(index, role, network)?)),
    tags: false,
};

/// A request that is due, and where it enters.
#[derive(Clone, Copy)]
struct Wanted {
    intended_ns: u64,
    /// Among the entries of the role.
    entry: usize,
}

/// A request under way.
#[derive(Clone, Copy)]
struct Asked {
    wanted: Wanted,
    sent_ns: u64,
    /// When this try began, and how many may follow.
    begun_ns: u64,
    left: u16,
    number: u64,
}

/// A connection of the role, on which there is one request at a time: to each entry it has a link.
struct Seat {
    /// Places of the links.
    links: Vec<usize>,
    /// The link without which it is not free yet.
    opening: Option<usize>,
    asked: Option<Asked>,
    /// What is asked again on it.
    again: Option<Asked>,
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

/// Requests that are due.
struct Asking {
    schedule: Option<Schedule>,
    origin_ns: u64,
    end_ns: u64,
    number: u64,
    /// Where requests enter.
    entering: Entering,
    /// Requests that were due and for which no connection was free yet, and connections without a request.
    waiting: VecDeque<Wanted>,
    free: VecDeque<usize>,
    /// Connections whose client thinks, or asks again, and until when.
    thinking: BinaryHeap<Reverse<(u64, usize)>>,
    /// When requests under way are given up, or asked again: the instant, the connection, the try.
    patience: BinaryHeap<Reverse<(u64, usize, u64)>>,
    asked: u64,
    retries: u64,
    /// Requests that are asked again later.
    retrying: usize,
}

impl Asking {
    fn next(&mut self) -> Option<u64> {
        let due = self.origin_ns.saturating_add(self.schedule.as_mut()?.offset(self.number).0);
        (due < self.end_ns).then_some(due)
    }

    fn note_due(&mut self, now_ns: u64) {
        while let Some(due) = self.next().filter(|due| *due <= now_ns) {
            self.number += 1;
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
    asking: Asking,
    /// Of the world's servers, by entry.
    servers: Vec<usize>,
    planned_ns: Option<u64>,
    finished: bool,
    ended: [u64; ENDINGS],
    rows: Vec<ResponseRow>,
}

impl RequestResponse {
    /// Prepares both ends.
    pub fn new(index: usize, role: &Role, network: &mut Network) -> Result<Self, Finding> {
        let own: Parameters = parse(role)?;
        own.check().map_err(|error| finding(role, &error.to_string()))?;
        if own.write_bytes > 0 {
            let what = "simulated guests have no disks, so what a write takes is unknown";
            let cure = "remove 'write', or run it on the testbed";
            return Err(Finding::new(format!("roles.{}.write_bytes", role.name), what, cure));
        }
        let seed = role.ends[0].seed;
        let asking = Asking {
            schedule: own.due(seed),
            origin_ns: 0,
            end_ns: u64::MAX,
            number: 0,
            entering: own.entering(seed, None),
            waiting: VecDeque::new(),
            free: VecDeque::new(),
            thinking: BinaryHeap::new(),
            patience: BinaryHeap::new(),
            asked: 0,
            retries: 0,
            retrying: 0,
        };
        let places: Vec<u16> = own.entries.iter().map(|entry| entry.place).collect();
        let mut servers = Vec::new();
        for (entry, end) in (0..own.entries.len().max(1)).map(|entry| (entry, far_end(&own, role, entry))) {
            let place = places.get(entry).copied().unwrap_or(0);
            servers.push(network.servers.of(&own, end.seed, network.guest_with(end.vnic), place));
        }
        let mut made = Self {
            role: index,
            ends: role.clone(),
            servers,
            own,
            seed,
            seats: Vec::new(),
            links: Vec::new(),
            asking,
            planned_ns: None,
            finished: false,
            ended: [0; ENDINGS],
            rows: Vec::new(),
        };
        for number in 0..made.own.connections {
            let (seat, mut links) = (made.seats.len(), Vec::new());
            for entry in 0..made.servers.len() {
                links.push(made.link(seat, entry, network)?);
            }
            made.seats.push(Seat {
                opening: links.first().copied(),
                links,
                asked: None,
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
        self.ended[ending as usize] += 1;
        self.rows.push(ResponseRow {
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
        let open = self.asking.schedule.is_some();
        while let Some(&Reverse((from_ns, seat))) =
            self.asking.thinking.peek().filter(|Reverse((from_ns, _))| *from_ns <= now_ns)
        {
            self.asking.thinking.pop();
            if let Some(asked) = self.seats[seat].again.take() {
                self.asking.retrying -= 1;
                self.ask(seat, asked, network);
            } else if from_ns < self.asking.end_ns {
                let wanted = Wanted { intended_ns: from_ns, entry: self.seats[seat].entering.draw() };
                self.ask_first(seat, wanted, network);
            }
        }
        self.asking.note_due(now_ns);
        while let Some(&wanted) = self.asking.waiting.front() {
            let Some(seat) = self.asking.free.pop_front() else { break };
            self.asking.waiting.pop_front();
            self.ask_first(seat, wanted, network);
        }
        let end_ns = self.asking.end_ns;
        let thinks = self.asking.thinking.peek().map(|Reverse((from_ns, _))| *from_ns);
        let instants = [
            self.asking.next(),
            thinks.filter(|from_ns| *from_ns < end_ns || self.asking.retrying > 0),
            self.asking.waiting.front().map(|wanted| wanted.intended_ns.saturating_add(self.own.timeout_ns)),
            self.asking.patience.peek().map(|Reverse((at_ns, ..))| *at_ns),
        ];
        let shaking = !open && now_ns < end_ns && self.links.iter().any(|link| !link.flow.end(0).is_open());
        match instants.into_iter().flatten().min() {
            Some(at_ns) if self.planned_ns.is_none_or(|planned_ns| at_ns < planned_ns) => {
                self.planned_ns = Some(at_ns);
                network.agenda.plan(at_ns, Due::Tick { role: self.role, side: 0, generation: 0 });
            }
            None if !shaking => self.finished = true,
            _ => {}
        }
    }

    fn ask_first(&mut self, seat: usize, wanted: Wanted, network: &mut Network) {
        let now_ns = network.now_ns;
        let left = self.own.retries;
        let asked = Asked { wanted, sent_ns: now_ns, begun_ns: now_ns, left, number: 0 };
        self.ask(seat, asked, network);
    }

    /// A try begins; it leaves once its link is there.
    fn ask(&mut self, seat: usize, asked: Asked, network: &mut Network) {
        let number = self.asking.asked;
        self.asking.asked += 1;
        let asked = Asked { begun_ns: network.now_ns, number, ..asked };
        let end_ns = asked.wanted.intended_ns.saturating_add(self.own.timeout_ns);
        self.asking.patience.push(Reverse((self.next_try(asked).unwrap_or(end_ns), seat, number)));
        self.seats[seat].asked = Some(asked);
        let link = &mut self.links[self.seats[seat].links[asked.wanted.entry]];
        if link.flow.end(0).is_open() {
            link.flow.write(0, self.own.request_bytes, network);
        }
    }

    /// When a request is asked again, unless this try is answered; `None` after the last.
    fn next_try(&self, asked: Asked) -> Option<u64> {
        let at_ns = asked.begun_ns.saturating_add(self.own.retry_after_ns?);
        let end_ns = asked.wanted.intended_ns.saturating_add(self.own.timeout_ns);
        (asked.left > 0 && at_ns < end_ns).then_some(at_ns)
    }

    /// Requests whose time is over: they are not waited for any more.
    fn give_up(&mut self, network: &mut Network) {
        let now_ns = network.now_ns;
        while let Some(&Reverse((at_ns, seat, number))) = self.asking.patience.peek() {
            match self.seats[seat].asked.filter(|asked| asked.number == number) {
                None => {}
                Some(_) if at_ns > now_ns => break,
                Some(asked) => {
                    let again = self.next_try(asked).is_some();
                    self.seats[seat].asked = None;
                    self.replace(seat, asked.wanted.entry, network);
                    if again {
                        self.asking.retries += 1;
                        self.ask(seat, Asked { left: asked.left - 1, ..asked }, network);
                    } else {
                        self.end(asked.wanted, Some(asked.sent_ns), now_ns, Ending::Lost, UNSERVED);
                    }
                }
            }
            self.asking.patience.pop();
        }
        let timeout_ns = self.own.timeout_ns;
        let over = |wanted: &&Wanted| wanted.intended_ns.saturating_add(timeout_ns) <= now_ns;
        while let Some(&wanted) = self.asking.waiting.front().filter(over) {
            self.asking.waiting.pop_front();
            self.end(wanted, None, now_ns, Ending::Lost, UNSERVED);
        }
    }

    /// A new link instead of one whose request was given up; its connection is free once it is open.
    fn replace(&mut self, seat: usize, entry: usize, network: &mut Network) {
        let old = self.seats[seat].links[entry];
        self.links[old].left = true;
        let new = self.link(seat, entry, network).expect("both ends had a link before");
        self.seats[seat].links[entry] = new;
        self.seats[seat].opening = Some(new);
        self.links[new].flow.connect(network);
    }

    /// A link is there: the request that waits for it leaves, or its connection is free.
    fn is_open(&mut self, place: usize, network: &mut Network) {
        let Link { seat, entry, .. } = self.links[place];
        let waits = self.seats[seat].asked.is_some_and(|asked| asked.wanted.entry == entry);
        let opens = self.seats[seat].opening.take_if(|opening| *opening == place).is_some();
        if waits && self.seats[seat].links[entry] == place {
            self.links[place].flow.write(0, self.own.request_bytes, network);
        } else if opens {
            self.is_free(seat, network.now_ns);
        }
    }

    /// What the server has whole of a link is taken in.
    fn take_in(&mut self, place: usize, network: &mut Network) {
        let link = &mut self.links[place];
        if link.flow.end(1).received_bytes() < (link.requests + 1) * self.own.request_bytes {
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

    /// The client takes the answer of a link, if it is whole.
    fn take_answer(&mut self, place: usize, network: &mut Network) {
        let link = &mut self.links[place];
        let Some((_, served)) = link.answer.filter(|(bytes, _)| link.flow.end(0).received_bytes() >= *bytes)
        else {
            return;
        };
        link.answer = None;
        let seat = link.seat;
        let Some(asked) = self.seats[seat].asked.take() else { return };
        let now_ns = network.now_ns;
        if served.ending != Ending::Answered
            && let Some(at_ns) = self.next_try(asked)
        {
            self.asking.retries += 1;
            self.asking.retrying += 1;
            self.seats[seat].again = Some(Asked { left: asked.left - 1, ..asked });
            self.asking.thinking.push(Reverse((at_ns.max(now_ns), seat)));
            return;
        }
        let think = self.seats[seat].thinking.draw();
        self.end(asked.wanted, Some(asked.sent_ns), now_ns, served.ending, served.by);
        self.is_free(seat, now_ns.saturating_add(think.0));
    }

    /// A connection without a request: its client may ask from then on.
    fn is_free(&mut self, seat: usize, from_ns: u64) {
        if self.asking.schedule.is_some() {
            self.asking.free.push_back(seat);
        } else {
            self.asking.thinking.push(Reverse((from_ns, seat)));
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
        Some(entry) => RoleEnd { vnic: entry.vnics[1], address: Some(entry.address), ..role.ends[1].clone() },
        None => role.ends[1].clone(),
    }
}

impl Workload for RequestResponse {
    fn start(&mut self, network: &mut Network) {
        let end_ns = self.own.duration_ns.map_or(u64::MAX, |length_ns| network.now_ns + length_ns);
        (self.asking.origin_ns, self.asking.end_ns) = (network.now_ns, end_ns);
        if end_ns < u64::MAX {
            network.agenda.plan(end_ns, Due::Expire { role: self.role, side: 0 });
        }
        for place in 0..self.links.len() {
            self.links[place].flow.connect(network);
        }
        self.go_on(network);
    }

    fn tick(&mut self, side: usize, generation: u32, network: &mut Network) {
        if generation > 0 {
            self.links[generation as usize - 1].flow.alarm(side, network);
        } else {
            if self.planned_ns.is_some_and(|planned_ns| planned_ns <= network.now_ns) {
                self.planned_ns = None;
            }
            self.go_on(network);
        }
    }

    fn served(&mut self, served: Served, network: &mut Network) {
        self.answer(served, network);
    }

    fn server(&self) -> Option<usize> {
        self.own.service.is_none().then_some(self.servers[0])
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
        let was_open = self.links[place].flow.end(0).is_open();
        let side = self.links[place].flow.take(message, network);
        if !was_open && self.links[place].flow.end(0).is_open() {
            self.is_open(place, network);
            self.go_on(network);
        }
        if side == 1 {
            self.take_in(place, network);
        } else if !self.links[place].left && !self.finished {
            self.take_answer(place, network);
            self.go_on(network);
        }
        self.links[place].flow.pump(side, network);
    }

    fn stop(&mut self, network: &mut Network) {
        if self.finished {
            return;
        }
        let now_ns = network.now_ns;
        self.asking.note_due(now_ns);
        let sent = self.seats.iter().filter_map(|seat| seat.asked.or(seat.again));
        let sent: Vec<_> = sent.map(|asked| (asked.wanted, Some(asked.sent_ns))).collect();
        let unsent = std::mem::take(&mut self.asking.waiting).into_iter().map(|wanted| (wanted, None));
        for (wanted, sent_ns) in sent.into_iter().chain(unsent) {
            self.end(wanted, sent_ns, now_ns, Ending::Open, UNSERVED);
        }
        self.finished = true;
    }

    fn set(&mut self, parameter: &str, value: &Value, network: &mut Network) {
        let (RATE, Some(rate), true) = (parameter, value.as_u64(), self.own.rate_per_s.is_some()) else {
            return;
        };
        self.asking.note_due(network.now_ns);
        self.asking.schedule = Some(self.own.schedule(rate, self.seed));
        (self.asking.origin_ns, self.asking.number) = (network.now_ns, 0);
        self.go_on(network);
    }

    fn finished(&self) -> bool {
        self.finished
    }

    fn report(&self, stream: &str) -> (Vec<Table>, Counters) {
        let [answered, refused, lost, broken, open, failed, bad_gateway] = self.ended;
        let sent = self.rows.iter().filter(|row| row.sent_ns >= 0).count() as u64;
        let client = vec![
            ("requests", self.ended.iter().sum()),
            ("answered_requests", answered),
            ("refused_requests", refused),
            ("lost_requests", lost),
            ("broken_requests", broken),
            ("open_requests", open),
            ("failed_requests", failed),
            ("bad_gateway_requests", bad_gateway),
            ("retries", self.asking.retries),
            ("sent_bytes", (sent + self.asking.retries) * self.own.request_bytes),
            ("received_bytes", answered * self.own.response_bytes + (refused + bad_gateway) * HEADER_BYTES),
            ("send_errors", 0),
        ];
        let open = self.links.iter().filter(|link| link.flow.end(1).is_open()).count() as u64;
        let server = if self.own.service.is_none() { vec![("connections", open)] } else { Vec::new() };
        (Table::of(stream, &self.rows).into_iter().collect(), [client, server])
    }
}
