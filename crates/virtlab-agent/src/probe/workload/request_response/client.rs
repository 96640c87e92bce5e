//! The client: requests that are due, connections that are free, and how each request ended.
//!
//! Every request ends in one way: answered, refused by the server, given up at its time-out, broken with its connection, or
//! open when the role was stopped. Each has a row with the instant at which it was due, also one that never left. One
//! thread looks after all connections, none of which it waits for alone.

use super::super::Workload;
use super::super::tcp;
use super::message::{HEAD, Head, Incoming, Kind};
use super::readiness::Readiness;
use crate::clock;
use crate::probe::live::Tally;
use crate::probe::pacing::{Pacer, Pacing};
use crate::probe::parameters::Idle;
use crate::probe::report::Report;
use crate::probe::run::Run;
use crate::probe::socket::{Trouble, trouble};
use crate::probe::spool::Spool;
use crate::work;
use anyhow::{Context, ensure};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use virtlab_load::Histogram;
use virtlab_load::parameters::Buffers;
use virtlab_load::parameters::request_response::{Ending, RATE, RequestResponse as Parameters, Times};
use virtlab_load::schedule::Schedule;
use virtlab_wire::Nanos;
use virtlab_wire::rows::ResponseRow;

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
    pub local: SocketAddr,
    pub peer: SocketAddr,
    pub buffers: Buffers,
    pub idle: Idle,
    pub seed: u64,
}

impl Workload for Client {
    fn run(self: Box<Self>, run: &Run) -> Report {
        let mut report = Report::default();
        let Some(start) = run.wait_for_start(Pacer::new(Pacing::Sleep)) else {
            return report;
        };
        let begun = clock::raw().max(start);
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
        let share = charged.0 as f64 / took.0.max(1) as f64;
        if took > BUSY_LEAST && share > BUSY_RATIO && self.idle == Idle::Sleep {
            let percent = share * 100.0;
            report.taints.push(format!(
                "starved: the client took {percent:.0} % of a processor, so that it may be what limits the load"
            ));
        }
        report.add("client_cpu_ns", charged.0);
        asking.ledger.close(&mut report);
        report
    }
}

/// A request under way.
#[derive(Clone, Copy)]
struct Asked {
    intended: Nanos,
    /// When its first octets left.
    sent: Option<Nanos>,
    number: u64,
    written: usize,
}

/// One connection.
struct Connection {
    fd: Option<OwnedFd>,
    asked: Option<Asked>,
    incoming: Incoming,
    /// From when on it could carry a request.
    free: Nanos,
    thinking: Times,
}

/// When requests are due.
struct Due {
    origin: Nanos,
    end: Nanos,
    /// Absent: when a client has done thinking.
    schedule: Option<Schedule>,
    number: u64,
    /// Changes of the rate that are known.
    tuned: u64,
}

impl Due {
    /// When the next one is; `None` after the end.
    fn next(&mut self) -> Option<Nanos> {
        let due = self.origin + self.schedule.as_mut()?.offset(self.number);
        (due < self.end).then_some(due)
    }
}

/// How requests ended, and their rows.
struct Ledger {
    rows: Spool<ResponseRow>,
    tally: Arc<Tally>,
    pacing: Histogram,
    /// By how they ended.
    ended: [u64; 5],
    sent_bytes: u64,
    received_bytes: u64,
}

impl Ledger {
    fn end(&mut self, intended: Nanos, sent: Option<Nanos>, finished: Nanos, server: i32, ending: Ending) {
        self.ended[ending as usize] += 1;
        self.rows.push(ResponseRow {
            intended_ns: intended.0 as i64,
            sent_ns: sent.map_or(-1, |sent| sent.0 as i64),
            finished_ns: finished.0 as i64,
            entry: 0,
            served_by: server,
            error: ending as i32,
        });
    }

    fn close(self, report: &mut Report) {
        let [answered, refused, lost, broken, open] = self.ended;
        report.add("requests", self.ended.iter().sum());
        report.add("answered_requests", answered);
        report.add("refused_requests", refused);
        report.add("lost_requests", lost);
        report.add("broken_requests", broken);
        report.add("open_requests", open);
        report.add("sent_bytes", self.sent_bytes);
        report.add("received_bytes", self.received_bytes);
        report.add("send_errors", 0);
        report.pacing.merge(&self.pacing);
        report.table(self.rows);
    }
}

/// The client at work.
struct Asking<'a> {
    client: &'a Client,
    run: &'a Run,
    due: Due,
    readiness: Readiness,
    connections: Vec<Connection>,
    /// Of an open loop: when requests were due for which no connection was free yet, and connections without a request.
    waiting: VecDeque<Nanos>,
    free: VecDeque<usize>,
    /// Connections that are left alone until an instant: their client thinks, or they failed.
    resting: BinaryHeap<Reverse<(Nanos, usize)>>,
    /// When requests under way are given up, in order: the instant, the connection, the request.
    patience: VecDeque<(Nanos, usize, u64)>,
    asked: u64,
    buffers: (Vec<u8>, Vec<u8>),
    ledger: Ledger,
}

impl<'a> Asking<'a> {
    fn new(client: &'a Client, run: &'a Run, begun: Nanos) -> anyhow::Result<Self> {
        let own = &client.parameters;
        let connection = |number| Connection {
            fd: None,
            asked: None,
            incoming: Incoming::new(),
            free: begun,
            thinking: own.thinking(client.seed, number),
        };
        let mut asking = Self {
            client,
            run,
            due: Due {
                origin: begun,
                end: own.duration_ns.map_or(Nanos::MAX, |duration| begun + Nanos(duration)),
                schedule: own.rate_per_s.map(|rate| own.schedule(rate, client.seed)),
                number: 0,
                tuned: 0,
            },
            readiness: Readiness::new()?,
            connections: (0..own.connections).map(connection).collect(),
            waiting: VecDeque::new(),
            free: VecDeque::new(),
            resting: BinaryHeap::new(),
            patience: VecDeque::new(),
            asked: 0,
            buffers: (vec![0x52; own.request_bytes as usize], vec![0; PIECE_BYTES]),
            ledger: Ledger {
                rows: Spool::new(&run.budget),
                tally: run.tally(),
                pacing: Histogram::default(),
                ended: [0; 5],
                sent_bytes: 0,
                received_bytes: 0,
            },
        };
        for place in 0..asking.connections.len() {
            let _ = asking.dial(place)?; // one that cannot be made now is tried again with its first request
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
            let wait = next.since(clock::raw());
            for place in self.readiness.wait(wait, self.client.idle)? {
                self.advance(place as usize)?;
            }
        }
        Ok(false)
    }

    /// Another rate: what is due by now is so by the old one.
    fn retune(&mut self, now: Nanos) {
        let changes = self.run.tuned_count.load(Ordering::Acquire);
        if changes == self.due.tuned {
            return;
        }
        self.due.tuned = changes;
        if let Some(rate) = self.run.tuned(RATE).and_then(|value| value.as_u64()) {
            self.note_due(now);
            let schedule = self.client.parameters.schedule(rate, self.client.seed);
            (self.due.schedule, self.due.origin, self.due.number) = (Some(schedule), now, 0);
        }
    }

    fn note_due(&mut self, now: Nanos) {
        while let Some(due) = self.due.next().filter(|due| *due <= now) {
            self.due.number += 1;
            self.waiting.push_back(due);
        }
    }

    /// Sends what can be sent now; when to look again, `None` when all is over.
    fn ask_all(&mut self, now: Nanos) -> anyhow::Result<Option<Nanos>> {
        let open = self.due.schedule.is_some();
        while let Some(&Reverse((from, place))) =
            self.resting.peek().filter(|Reverse((from, _))| *from <= now)
        {
            if !open && from >= self.due.end {
                break;
            }
            self.resting.pop();
            if open {
                self.free.push_back(place);
            } else {
                self.ask(place, from)?;
            }
        }
        self.note_due(now);
        while let Some(&intended) = self.waiting.front() {
            let Some(place) = self.free.pop_front() else { break };
            self.waiting.pop_front();
            self.ask(place, intended)?;
        }
        let timeout = Nanos(self.client.parameters.timeout_ns);
        let rests = self.resting.peek().map(|Reverse((from, _))| *from);
        let wanted =
            if open { !self.waiting.is_empty() } else { rests.is_some_and(|from| from < self.due.end) };
        let instants = [
            self.due.next(),
            rests.filter(|_| wanted),
            self.waiting.front().map(|intended| *intended + timeout),
            self.patience.front().map(|(at, ..)| *at),
        ];
        Ok(instants.into_iter().flatten().min())
    }

    /// Requests whose time is over: they are not waited for any more.
    fn give_up(&mut self, now: Nanos) -> anyhow::Result<()> {
        let timeout = Nanos(self.client.parameters.timeout_ns);
        while let Some(&(at, place, number)) = self.patience.front() {
            let asked = self.connections[place].asked.filter(|asked| asked.number == number);
            match asked {
                None => {}
                Some(_) if at > now => break,
                Some(asked) => {
                    // What is still to come would be taken for the answer to the next request.
                    self.ledger.end(asked.intended, asked.sent, now, -1, Ending::Lost);
                    self.rest(place, now, true);
                    let _ = self.dial(place)?;
                }
            }
            self.patience.pop_front();
        }
        while let Some(&intended) = self.waiting.front().filter(|intended| **intended + timeout <= now) {
            self.waiting.pop_front();
            self.ledger.end(intended, None, now, -1, Ending::Lost);
        }
        Ok(())
    }

    /// Begins a connection; false when there is no way there.
    fn dial(&mut self, place: usize) -> anyhow::Result<bool> {
        let client = self.client;
        let Ok(fd) = tcp::dial(client.local, client.peer, client.buffers) else { return Ok(false) };
        self.readiness.as_it_changes(&fd, place as u64)?;
        self.connections[place].fd = Some(fd);
        self.connections[place].incoming = Incoming::new();
        Ok(true)
    }

    /// A request that was due then leaves, on a connection that has none.
    fn ask(&mut self, place: usize, intended: Nanos) -> anyhow::Result<()> {
        if self.connections[place].fd.is_none() && !self.dial(place)? {
            let now = clock::raw();
            self.ledger.end(intended, None, now, -1, Ending::Broken);
            self.rest(place, now + REST, true);
            return Ok(());
        }
        let number = self.asked;
        self.asked += 1;
        self.connections[place].asked = Some(Asked { intended, sent: None, number, written: 0 });
        self.patience.push_back((intended + Nanos(self.client.parameters.timeout_ns), place, number));
        self.write(place);
        Ok(())
    }

    /// Writes what the connection takes of its request.
    fn write(&mut self, place: usize) {
        let connection = &mut self.connections[place];
        let (Some(asked), Some(fd)) = (&mut connection.asked, &connection.fd) else { return };
        let request = &mut self.buffers.0;
        let head = Head { bytes: request.len() as u32, kind: Kind::Request, server: 0, number: asked.number };
        request[..HEAD].copy_from_slice(&head.octets());
        while asked.written < request.len() {
            let now = clock::raw();
            match tcp::write(fd, &request[asked.written..]) {
                Ok(count) => {
                    if asked.sent.is_none() {
                        asked.sent = Some(now);
                        self.ledger.pacing.record(now.since(asked.intended.max(connection.free)));
                    }
                    asked.written += count;
                    self.ledger.sent_bytes += count as u64;
                }
                Err(error) if trouble(&error) == Trouble::Again => return,
                Err(_) => return self.broke(place),
            }
        }
    }

    /// A connection is over, with the request on it.
    fn broke(&mut self, place: usize) {
        let now = clock::raw();
        let asked = self.connections[place].asked;
        if let Some(asked) = asked {
            self.ledger.end(asked.intended, asked.sent, now, -1, Ending::Broken);
            self.rest(place, now + REST, true);
        } else {
            self.connections[place].fd = None;
        }
    }

    /// No request is under way on a connection any more, and none is until an instant; without its socket where `ends`.
    fn rest(&mut self, place: usize, until: Nanos, ends: bool) {
        let connection = &mut self.connections[place];
        (connection.asked, connection.free) = (None, until);
        if ends {
            connection.fd = None;
        }
        self.resting.push(Reverse((until, place)));
    }

    /// Something can be written to a connection, or read.
    fn advance(&mut self, place: usize) -> anyhow::Result<()> {
        if self.connections[place].asked.is_some_and(|asked| asked.written < self.buffers.0.len()) {
            if self.connections[place].asked.is_some_and(|asked| asked.sent.is_none()) {
                // The handshake was the network's.
                self.connections[place].free = self.connections[place].free.max(clock::raw());
            }
            self.write(place);
        }
        loop {
            let connection = &mut self.connections[place];
            let Some(fd) = &connection.fd else { return Ok(()) };
            let count = match tcp::read(fd, &mut self.buffers.1, 0) {
                Ok(0) => {
                    self.broke(place);
                    return Ok(());
                }
                Ok(count) => count,
                Err(error) if trouble(&error) == Trouble::Again => return Ok(()),
                Err(_) => {
                    self.broke(place);
                    return Ok(());
                }
            };
            self.ledger.received_bytes += count as u64;
            let mut octets = &self.buffers.1[..count];
            let whole = connection.incoming.take(&mut octets).context("the server answers otherwise")?;
            ensure!(octets.is_empty(), "octets follow the answer, which has its length already");
            if let Some(head) = whole {
                return self.answered(place, head);
            }
        }
    }

    /// A whole answer.
    fn answered(&mut self, place: usize, head: Head) -> anyhow::Result<()> {
        let now = clock::raw();
        let connection = &mut self.connections[place];
        let asked = connection.asked.filter(|asked| asked.number == head.number);
        let asked = asked.context("an answer came to a request that was not asked on its connection")?;
        let refused = head.kind == Kind::Refusal;
        let wanted = if refused { HEAD as u64 } else { self.client.parameters.response_bytes };
        ensure!(
            head.kind != Kind::Request && u64::from(head.bytes) == wanted,
            "the answer has {} B where {wanted} B were requested",
            head.bytes
        );
        let think = connection.thinking.draw();
        let (server, ending) = match refused {
            true => (-1, Ending::Refused),
            false => (i32::from(head.server), Ending::Answered),
        };
        self.ledger.end(asked.intended, asked.sent, now, server, ending);
        if !refused {
            self.ledger.tally.seen(wanted);
            self.ledger.tally.took(now.since(asked.intended).0);
        }
        if self.due.schedule.is_some() {
            (connection.asked, connection.free) = (None, now);
            self.free.push_back(place);
        } else {
            self.rest(place, now + think, false);
        }
        Ok(())
    }

    /// Requests without an answer at the end.
    fn leave_open(&mut self) {
        let now = clock::raw();
        self.note_due(now);
        let unsent = std::mem::take(&mut self.waiting).into_iter().map(|intended| (intended, None));
        let sent =
            self.connections.iter().filter_map(|one| one.asked).map(|asked| (asked.intended, asked.sent));
        for (intended, sent) in sent.chain(unsent) {
            self.ledger.end(intended, sent, now, -1, Ending::Open);
        }
    }
}
