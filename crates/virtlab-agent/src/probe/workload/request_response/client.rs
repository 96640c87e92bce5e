//! The client: requests that are due, connections that are free, and how each request ended.
//!
//! Every request ends in one way: answered, refused by the server, given up at its time-out, broken with its
//! connection, or open when the role was stopped. Each has a row with the instant at which it was due, also one that
//! never left. One thread looks after all connections, none of which it waits for alone. Of a service with passive
//! servers each connection has a socket to every server, and a request leaves on the one of the server at which it
//! enters. Over UDP a connection is no more than room for one request at a time, and all share one socket
//! (`by_datagram`).

use super::super::Workload;
use super::super::tcp;
use super::calendar::Calendar;
use super::datagrams::Datagrams;
use super::exchange::{Answer, Incoming, Requests, Success};
use super::ledger::{Due, Ledger, Record};
use super::readiness::Readiness;
use crate::probe::parameters::Idle;
use crate::probe::report::Report;
use crate::probe::run::Run;
use crate::probe::socket::{Trouble, trouble};
use crate::probe::taint;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use virtlab_load::entering::Entering;
use virtlab_load::parameters::Buffers;
use virtlab_load::parameters::request_response::{Ending, Protocol, RequestResponse as Parameters, Times};
use virtlab_system::clock;
use virtlab_system::work;
use virtlab_wire::Nanos;

/// By which the socket of datagrams is told from connections.
pub const DATAGRAMS: u64 = u64::MAX;
/// Read at once.
const PIECE_BYTES: usize = 64 << 10;
/// After a connection that failed, before the next one.
const REST: Nanos = Nanos(20_000_000);
/// A client that takes more of a processor is what limits the load.
const BUSY_RATIO: f64 = 0.9;
/// A shorter run says nothing of that.
const BUSY_LEAST: Nanos = Nanos(100_000_000);

pub struct Client {
    pub parameters: Parameters,
    /// Of each entry: this end and the other.
    pub ends: Vec<[SocketAddr; 2]>,
    pub buffers: Buffers,
    pub idle: Idle,
    pub seed: u64,
    pub record: Record,
    pub success: Success,
}

impl Workload for Client {
    fn run(self: Box<Self>, run: &Run) -> Report {
        let mut report = Report::default();
        let Some(begun) = run.begun() else { return report };
        let charged_ns = work::charged_ns();
        let mut asking = match Asking::new(&self, run, begun) {
            Ok(asking) => asking,
            Err(error) => {
                report.failure = Some(format!("{error:#}"));
                return report;
            }
        };
        match asking.until_over() {
            Ok(complete) => report.complete = complete,
            Err(error) => report.failure = Some(format!("{error:#}")),
        }
        asking.leave_open();
        let (took, charged) = (clock::raw().since(begun), Nanos(work::charged_ns() - charged_ns));
        if self.record == Record::Responses
            && self.idle == Idle::Sleep
            && let Some(percent) = limits_the_load(charged, took)
        {
            let text = format!(
                "the client took {percent:.0} % of a processor, so that it may be what limits the load"
            );
            report.taint(taint::Kind::Starved, text);
        }
        if self.record == Record::Responses {
            report.add("client_cpu_ns", charged.0);
        }
        if let Some(datagrams) = asking.sockets.datagrams {
            report.add("socket_drops", u64::from(datagrams.drops()));
            asking.ledger.counted.stray = Some(datagrams.tries.stray);
        }
        asking.ledger.close(&mut report);
        report
    }
}

/// The share of a processor (%) that a client took in so long, if that may be what limits the load.
fn limits_the_load(charged: Nanos, took: Nanos) -> Option<f64> {
    let share = charged.0 as f64 / took.0.max(1) as f64;
    (took > BUSY_LEAST && share > BUSY_RATIO).then_some(share * 100.0)
}

/// A request that has a connection.
#[derive(Clone, Copy)]
pub struct Attempt {
    pub due: Due,
    /// When its last try began, and how many may follow.
    begun: Nanos,
    left: u16,
    /// Of its first try, and of the last.
    pub first: u64,
    pub number: u64,
    written: usize,
}

impl Attempt {
    /// None of it is under way yet.
    const fn new(due: Due, left: u16) -> Self {
        Self { due, begun: due.intended, left, first: 0, number: 0, written: 0 }
    }

    /// Whether that try is one of its own.
    pub fn has_tried(&self, number: u64) -> bool {
        (self.first..=self.number).contains(&number)
    }
}

/// The way to one entry.
struct Line {
    fd: Option<OwnedFd>,
    incoming: Incoming,
}

/// One connection; to each entry it has a socket, and carries a request on one of them.
pub struct Connection {
    lines: Vec<Line>,
    pub attempt: Option<Attempt>,
    /// What is asked again on it.
    pub again: Option<Attempt>,
    /// From when on it could carry a request.
    pub free: Nanos,
    thinking: Times,
    /// Of a closed loop.
    entering: Entering,
}

/// What reports that sockets are ready, and the socket of datagrams; without that one, each connection has a socket of
/// its own.
pub struct Sockets {
    readiness: Readiness,
    pub datagrams: Option<Datagrams>,
}

/// The client at work.
pub struct Asking<'a> {
    pub client: &'a Client,
    run: &'a Run,
    calendar: Calendar,
    pub sockets: Sockets,
    pub connections: Vec<Connection>,
    /// Of an open loop: requests that were due and for which no connection was free yet, and connections without a
    /// request.
    waiting: VecDeque<Due>,
    free: VecDeque<usize>,
    /// Connections that are left alone until an instant: their client thinks, or they failed.
    resting: BinaryHeap<Reverse<(Nanos, usize)>>,
    /// Of them, those that ask again then.
    pub retrying: usize,
    /// When requests under way are given up, or asked again: the instant, the connection, the try.
    patience: BinaryHeap<Reverse<(Nanos, usize, u64)>>,
    buffers: (Requests, Vec<u8>),
    pub ledger: Ledger,
}

impl<'a> Asking<'a> {
    fn new(client: &'a Client, run: &'a Run, begun: Nanos) -> anyhow::Result<Self> {
        let own = &client.parameters;
        let line = |_: &_| Line { fd: None, incoming: Incoming::new(own.protocol) };
        let connection = |number| Connection {
            lines: client.ends.iter().map(line).collect(),
            attempt: None,
            again: None,
            free: begun,
            thinking: own.thinking(client.seed, number),
            entering: own.entering(client.seed, Some(number)),
        };
        let entries = 0..client.ends.len();
        let readiness = Readiness::new()?;
        let datagrams =
            (own.protocol == Protocol::Udp).then(|| Datagrams::new(client.ends[0], own)).transpose()?;
        if let Some(datagrams) = &datagrams {
            readiness.while_readable(&datagrams.fd, DATAGRAMS)?;
        }
        let mut asking = Self {
            client,
            run,
            calendar: Calendar::new(own, begun, client.seed),
            sockets: Sockets { readiness, datagrams },
            connections: (0..own.connections).map(connection).collect(),
            waiting: VecDeque::new(),
            free: VecDeque::new(),
            resting: BinaryHeap::new(),
            retrying: 0,
            patience: BinaryHeap::new(),
            buffers: (Requests::new(own, client.ends.iter().map(|[_, peer]| *peer)), vec![0; PIECE_BYTES]),
            ledger: Ledger::new(
                run,
                client.record,
                entries.clone().map(|entry| own.place_of(entry)).collect(),
            ),
        };
        for place in 0..asking.connections.len() {
            if own.keep_alive.unwrap_or(true) && asking.sockets.datagrams.is_none() {
                for entry in entries.clone() {
                    let _ = asking.dial(place, entry)?; // one that cannot be made now is tried again with its first request
                }
            }
            asking.resting.push(Reverse((begun, place)));
        }
        Ok(asking)
    }

    /// Whether all that was due has ended; false when it was stopped before.
    fn until_over(&mut self) -> anyhow::Result<bool> {
        while !self.run.stopped() {
            let now = clock::raw();
            self.retune(now);
            self.give_up(now)?;
            let next = self.ask_all(now)?;
            let Some(next) = next else { return Ok(true) };
            let next = self.post()?.map_or(next, |again| again.min(next));
            let wait = next.since(clock::raw());
            let entries = self.client.ends.len();
            for line in self.sockets.readiness.wait(wait, self.client.idle)? {
                match line {
                    DATAGRAMS => self.collect()?,
                    line => self.advance(line as usize / entries, line as usize % entries)?,
                }
            }
        }
        Ok(false)
    }

    /// Another rate: what is due by now is so by the old one.
    fn retune(&mut self, now: Nanos) {
        if let Some(rate) = self.calendar.changed(self.run) {
            self.note_due(now);
            self.calendar.retune(&self.client.parameters, rate, now);
        }
    }

    fn note_due(&mut self, now: Nanos) {
        while let Some(due) = self.calendar.take(now) {
            self.waiting.push_back(due);
        }
    }

    /// Sends what can be sent now; when to look again, `None` when all is over.
    fn ask_all(&mut self, now: Nanos) -> anyhow::Result<Option<Nanos>> {
        let open = self.calendar.is_open();
        while let Some(&Reverse((from, place))) =
            self.resting.peek().filter(|Reverse((from, _))| *from <= now)
        {
            self.resting.pop();
            if let Some(attempt) = self.connections[place].again.take() {
                self.retrying -= 1;
                self.ask(place, attempt, now)?;
            } else if open {
                self.free.push_back(place);
            } else if from < self.calendar.end {
                let entry = self.connections[place].entering.draw();
                let due = Due { intended: from, entry, sent: None };
                self.ask(place, Attempt::new(due, self.client.parameters.retries), now)?;
            }
        }
        self.note_due(now);
        while let Some(&due) = self.waiting.front() {
            let Some(place) = self.free.pop_front() else { break };
            self.waiting.pop_front();
            self.ask(place, Attempt::new(due, self.client.parameters.retries), now)?;
        }
        let timeout = Nanos(self.client.parameters.timeout_ns);
        let rests = self.resting.peek().map(|Reverse((from, _))| *from);
        let wanted = self.retrying > 0
            || if open {
                !self.waiting.is_empty()
            } else {
                rests.is_some_and(|from| from < self.calendar.end)
            };
        let instants = [
            self.calendar.next(),
            rests.filter(|_| wanted),
            self.waiting.front().map(|due| due.intended + timeout),
            self.patience.peek().map(|Reverse((at, ..))| *at),
        ];
        Ok(instants.into_iter().flatten().min())
    }

    /// Requests whose time is over: they are not waited for any more.
    fn give_up(&mut self, now: Nanos) -> anyhow::Result<()> {
        let timeout = Nanos(self.client.parameters.timeout_ns);
        while let Some(&Reverse((at, place, number))) = self.patience.peek() {
            let attempt = self.connections[place].attempt.filter(|attempt| attempt.number == number);
            match attempt {
                None => {}
                Some(_) if at > now => break,
                Some(attempt) => {
                    self.missed(place, attempt, now, Ending::Lost);
                    if self.sockets.datagrams.is_none() {
                        // What is still to come would be taken for the answer to the next request.
                        let _ = self.dial(place, attempt.due.entry)?;
                    }
                }
            }
            self.patience.pop();
        }
        while let Some(&due) = self.waiting.front().filter(|due| due.intended + timeout <= now) {
            self.waiting.pop_front();
            self.ledger.unanswered(due, now, Ending::Lost);
        }
        Ok(())
    }

    /// Begins a connection; false when there is no way there.
    fn dial(&mut self, place: usize, entry: usize) -> anyhow::Result<bool> {
        let client = self.client;
        let [local, peer] = client.ends[entry];
        let Ok(fd) = tcp::dial(local, peer, client.buffers) else { return Ok(false) };
        self.sockets.readiness.as_it_changes(&fd, (place * client.ends.len() + entry) as u64)?;
        let incoming = Incoming::new(client.parameters.protocol);
        self.connections[place].lines[entry] = Line { fd: Some(fd), incoming };
        Ok(true)
    }

    /// A try of a request leaves, on a connection that has none under way.
    fn ask(&mut self, place: usize, attempt: Attempt, now: Nanos) -> anyhow::Result<()> {
        let number = match &mut self.sockets.datagrams {
            Some(datagrams) => datagrams.put(place, &self.client.parameters),
            None => self.buffers.0.next_number(),
        };
        let first = if attempt.first == 0 { number } else { attempt.first };
        let attempt = Attempt { begun: now, first, number, written: 0, ..attempt };
        self.connections[place].attempt = Some(attempt);
        let entry = attempt.due.entry;
        let unmade = self.sockets.datagrams.is_none() && self.connections[place].lines[entry].fd.is_none();
        if unmade && !self.dial(place, entry)? {
            self.broke(place, entry);
            return Ok(());
        }
        let end = attempt.due.intended + Nanos(self.client.parameters.timeout_ns);
        self.patience.push(Reverse((self.next_try(attempt).unwrap_or(end), place, number)));
        self.write(place);
        Ok(())
    }

    /// When a request is asked again, unless this try is answered; `None` after the last.
    fn next_try(&self, attempt: Attempt) -> Option<Nanos> {
        let own = &self.client.parameters;
        let at = attempt.begun + Nanos(own.retry_after_ns?);
        (attempt.left > 0 && at < attempt.due.intended + Nanos(own.timeout_ns)).then_some(at)
    }

    /// A try has no answer, and its connection ends: it is followed by another, or the request has ended so.
    fn missed(&mut self, place: usize, attempt: Attempt, until: Nanos, ending: Ending) {
        if !self.again(place, attempt, until, true) {
            self.ledger.unanswered(attempt.due, clock::raw(), ending);
            if let Some(datagrams) = &mut self.sockets.datagrams {
                datagrams.tries.lost(place, attempt.first, attempt.number);
            }
            self.rest(place, until, Some(attempt.due.entry));
        }
    }

    /// Whether a request is asked again, on the same place.
    fn again(&mut self, place: usize, attempt: Attempt, until: Nanos, ends: bool) -> bool {
        let Some(at) = self.next_try(attempt) else { return false };
        self.ledger.counted.retries += 1;
        self.retrying += 1;
        self.connections[place].again = Some(Attempt { left: attempt.left - 1, ..attempt });
        self.rest(place, at.max(until), ends.then_some(attempt.due.entry));
        true
    }

    /// Writes what the connection takes of its request.
    fn write(&mut self, place: usize) {
        let connection = &mut self.connections[place];
        let Some(attempt) = &mut connection.attempt else { return };
        let Some(fd) = &connection.lines[attempt.due.entry].fd else { return };
        let entry = attempt.due.entry;
        let request = self.buffers.0.numbered(attempt.number, entry);
        while attempt.written < request.len() {
            let now = clock::raw();
            match tcp::write(fd, &request[attempt.written..]) {
                Ok(count) => {
                    if attempt.due.sent.is_none() {
                        attempt.due.sent = Some(now);
                        self.ledger.pacing.record(now.since(attempt.due.intended.max(connection.free)));
                    }
                    attempt.written += count;
                    self.ledger.counted.sent_bytes += count as u64;
                }
                Err(error) if trouble(&error) == Trouble::Again => return,
                Err(_) => return self.broke(place, entry),
            }
        }
    }

    /// A connection's way to an entry is over, with the request on it.
    fn broke(&mut self, place: usize, entry: usize) {
        let now = clock::raw();
        if let Some(attempt) = self.connections[place].attempt.filter(|attempt| attempt.due.entry == entry) {
            self.missed(place, attempt, now + REST, Ending::Broken);
        } else {
            self.connections[place].lines[entry].fd = None;
        }
    }

    /// No request is under way on a connection any more, and none is until an instant; `ends`: without its socket to
    /// there.
    fn rest(&mut self, place: usize, until: Nanos, ends: Option<usize>) {
        let connection = &mut self.connections[place];
        (connection.attempt, connection.free) = (None, until);
        if let Some(entry) = ends {
            connection.lines[entry].fd = None;
        }
        self.resting.push(Reverse((until, place)));
    }

    /// Something can be written to a connection, or read.
    fn advance(&mut self, place: usize, entry: usize) -> anyhow::Result<()> {
        let attempt = self.connections[place].attempt.filter(|attempt| attempt.due.entry == entry);
        if let Some(attempt) = attempt.filter(|attempt| attempt.written < self.buffers.0.len(entry)) {
            if attempt.due.sent.is_none() {
                // The handshake was the network's.
                self.connections[place].free = self.connections[place].free.max(clock::raw());
            }
            self.write(place);
        }
        loop {
            let connection = &mut self.connections[place];
            let number =
                connection.attempt.filter(|attempt| attempt.due.entry == entry).map(|attempt| attempt.number);
            let Line { fd: Some(fd), incoming } = &mut connection.lines[entry] else { return Ok(()) };
            let (whole, over) = match tcp::read(fd, &mut self.buffers.1, 0) {
                Err(error) if trouble(&error) == Trouble::Again => return Ok(()),
                Ok(0) => (incoming.end(number, &self.client.success)?, true),
                Err(_) => (None, true),
                Ok(count) => {
                    self.ledger.counted.received_bytes += count as u64;
                    let (own, success) = (&self.client.parameters, &self.client.success);
                    (incoming.take(&self.buffers.1[..count], number, own, success)?, false)
                }
            };
            match whole {
                Some(answer) => {
                    let finished = clock::raw();
                    self.ledger.dealt_with(finished, || tcp::since_data(fd));
                    self.answered(place, answer, finished);
                }
                None if over => self.broke(place, entry),
                None => continue,
            }
            return Ok(());
        }
    }

    /// A whole answer.
    pub fn answered(&mut self, place: usize, answer: Answer, now: Nanos) {
        let connection = &mut self.connections[place];
        let Some(attempt) = connection.attempt.take() else { return };
        let ends = answer.closes || self.client.parameters.keep_alive == Some(false);
        if answer.ending != Ending::Answered && self.again(place, attempt, now, ends) {
            return;
        }
        let connection = &mut self.connections[place];
        let think = connection.thinking.draw();
        self.ledger.answered(place, attempt.due, now, answer);
        if ends {
            connection.lines[attempt.due.entry].fd = None;
        }
        if self.calendar.is_open() {
            connection.free = now;
            self.free.push_back(place);
        } else {
            self.rest(place, now + think, None);
        }
    }

    /// Requests without an answer at the end.
    fn leave_open(&mut self) {
        let now = clock::raw();
        self.note_due(now);
        let unsent = std::mem::take(&mut self.waiting);
        let sent =
            self.connections.iter().filter_map(|one| one.attempt.or(one.again)).map(|attempt| attempt.due);
        for due in sent.chain(unsent) {
            self.ledger.unanswered(due, now, Ending::Open);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Nanos = Nanos(1_000_000_000);

    #[test]
    fn a_client_above_nine_tenths_of_a_processor_is_told() {
        assert_eq!(limits_the_load(Nanos(910_000_000), SECOND), Some(91.0));
        assert_eq!(limits_the_load(Nanos(890_000_000), SECOND), None);
    }

    #[test]
    fn a_moment_says_nothing_of_a_client() {
        assert_eq!(limits_the_load(Nanos(50_000_000), Nanos(50_000_000)), None);
    }
}
