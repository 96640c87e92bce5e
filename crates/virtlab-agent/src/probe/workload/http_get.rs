//! `http_get`: GET requests over HTTP/1.1 and their answers, from a client of ours to a server of ours or to a service.
//!
//! On each connection there is one request at a time. In a closed loop each follows the answer before; with a rate they are
//! due by a schedule, whatever has been answered, wait for a connection that is free, and their time counts from when they
//! were due. Every request ends in one of these: answered with 200, answered otherwise, timed out, failed with its
//! connection, or still open when the role was stopped; all are counted. An answer that HTTP forbids ends the role, and one
//! of another length than a server of ours was told.
//!
//! One thread at either end looks after all connections, none of which it waits for alone.

use super::http::{self, HEAD_MOST_BYTES};
use super::http_answer::{Answer, Incoming};
use super::tcp;
use super::{Arming, Kind, Prepared, Side, Workload, parse};
use crate::clock;
use crate::probe::live::Tally;
use crate::probe::parameters::Idle;
use crate::probe::report::Report;
use crate::probe::run::Run;
use crate::probe::socket::{Trouble, trouble};
use crate::probe::spool::Spool;
use crate::probe::waits::Waits;
use anyhow::{Context, ensure};
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::socket::Shutdown;
use nix::sys::time::TimeSpec;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;
use virtlab_load::Histogram;
use virtlab_load::parameters::Buffers;
use virtlab_load::parameters::http_get::{HttpGet as Parameters, NAME};
use virtlab_load::schedule::Schedule;
use virtlab_wire::Nanos;
use virtlab_wire::rows::TransactionRow;

/// Read or written at once; bodies are counted in pieces of this size and never kept.
const PIECE_BYTES: usize = 64 << 10;
/// The longest sleep, so that a stop is seen.
const GLANCE: Nanos = Nanos(20_000_000);
/// Connections of one role at a time, with those that are about to end.
const CONNECTIONS_MOST: usize = 2048;
/// After a connection that failed, before the next one.
const REST: Nanos = Nanos(20_000_000);

/// In the table of workloads.
pub const KIND: Kind = Kind::of(NAME, prepare);

/// Prepares either end.
pub fn prepare(arming: Arming<'_>) -> anyhow::Result<Prepared> {
    let parameters: Parameters = parse(&arming.own)?;
    parameters.check().context("parameters")?;
    let buffers = parameters.buffers();
    let idle = arming.common.idle;
    match arming.side {
        Side::Client => {
            let (local, peer) = arming.ends()?;
            let request = http::request(&parameters.path, peer, parameters.keep_alive);
            let schedule = parameters
                .rate_per_s
                .map(|rate_pps| Schedule::PerSecond { rate_pps }.with(parameters.arrivals, arming.seed));
            Ok(Prepared::fixed(Client { parameters, request, schedule, local, peer, buffers, idle }))
        }
        Side::Server => {
            let (listener, port) = tcp::listen(&arming, buffers)?;
            fcntl(&listener, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
            Ok(Prepared::fixed(Server { parameters, listener, port, idle }))
        }
    }
}

/// Sleeps until a descriptor is ready or `wait` is over; a poller does not sleep.
fn sleep_in(ready: &mut [PollFd<'_>], wait: Nanos, idle: Idle) -> anyhow::Result<()> {
    let wait = if idle == Idle::Poll { Nanos::ZERO } else { wait.min(GLANCE) };
    match ppoll(ready, Some(TimeSpec::from_duration(Duration::from_nanos(wait.0))), None) {
        Err(nix::Error::EINTR) | Ok(_) => Ok(()),
        Err(error) => Err(error).context("cannot wait for connections"),
    }
}

/// One connection of the client.
#[derive(Default)]
struct Connection {
    fd: Option<OwnedFd>,
    /// When the request under way was due.
    asked: Option<Nanos>,
    /// Octets of it that have left.
    sent: usize,
    /// What came of the answer.
    answer: Incoming,
    /// Octets that have come of it.
    received: u64,
    /// From when on it may carry a request.
    free: Nanos,
    /// Whether something can be done without waiting.
    ready: bool,
}

/// How a request ended.
enum Ended {
    Answered(Answer),
    /// With its connection.
    Broken,
}

impl Connection {
    /// A request that was due then.
    fn ask(&mut self, due: Nanos) {
        (self.asked, self.sent, self.ready, self.received) = (Some(due), 0, true, 0);
        self.answer = Incoming::default();
    }

    /// Nothing is under way any more; without its socket where `ends`.
    fn rest(&mut self, free: Nanos, ends: bool) {
        (self.asked, self.free, self.ready) = (None, free, false);
        if ends {
            self.fd = None;
        }
    }

    /// Does what can be done without waiting; how the request ended, if it did.
    fn advance(&mut self, client: &Client, piece: &mut [u8]) -> anyhow::Result<Option<Ended>> {
        self.ready = false;
        if self.fd.is_none() {
            match tcp::dial(client.local, client.peer, client.buffers) {
                Ok(fd) => self.fd = Some(fd),
                Err(_) => return Ok(Some(Ended::Broken)),
            }
        }
        let Some(fd) = &self.fd else { return Ok(None) };
        while self.sent < client.request.len() {
            match tcp::write(fd, &client.request[self.sent..]) {
                Ok(count) => self.sent += count,
                Err(error) if trouble(&error) == Trouble::Again => return Ok(None),
                Err(_) => return Ok(Some(Ended::Broken)),
            }
            if self.sent == client.request.len() {
                return Ok(None); // no answer is there yet
            }
        }
        loop {
            match tcp::read(fd, piece, 0) {
                Ok(0) => return Ok(Some(self.answer.end().map_or(Ended::Broken, Ended::Answered))),
                Ok(count) => {
                    self.received += count as u64;
                    let mut octets = &piece[..count];
                    let whole = self.answer.take(&mut octets)?;
                    ensure!(octets.is_empty(), "octets follow the answer, which has its length already");
                    if let Some(whole) = whole {
                        return Ok(Some(Ended::Answered(whole)));
                    }
                }
                Err(error) if trouble(&error) == Trouble::Again => return Ok(None),
                Err(_) => return Ok(Some(Ended::Broken)),
            }
        }
    }
}

/// When requests are due.
struct Due {
    begun: Nanos,
    end: Nanos,
    /// Absent: as soon as a connection is free.
    schedule: Option<Schedule>,
    number: u64,
}

impl Due {
    /// When the next one is; `None` after the end.
    fn next(&mut self, now: Nanos) -> Option<Nanos> {
        let due = self.schedule.as_mut().map_or(now, |schedule| self.begun + schedule.offset(self.number));
        (due < self.end).then_some(due)
    }
}

/// How many requests ended how.
#[derive(Default)]
struct Count {
    requests: u64,
    transactions: u64,
    status_errors: u64,
    timeouts: u64,
    broken: u64,
    received_bytes: u64,
}

impl Count {
    fn add_to(&self, report: &mut Report) {
        let ended = self.transactions + self.status_errors + self.timeouts + self.broken;
        report.add("requests", self.requests);
        report.add("transactions", self.transactions);
        report.add("status_errors", self.status_errors);
        report.add("timeouts", self.timeouts);
        report.add("broken_connections", self.broken);
        report.add("open", self.requests - ended);
        report.add("received_bytes", self.received_bytes);
        report.add("send_errors", 0);
    }
}

struct Client {
    parameters: Parameters,
    request: Vec<u8>,
    schedule: Option<Schedule>,
    local: SocketAddr,
    peer: SocketAddr,
    buffers: Buffers,
    idle: Idle,
}

impl Workload for Client {
    fn run(self: Box<Self>, run: &Run) -> Report {
        let mut report = Report::default();
        let Some(begun) = run.begun() else { return report };
        let end = self.parameters.duration_ns.map_or(Nanos::MAX, |duration| begun + Nanos(duration));
        let mut asking = Asking {
            client: &self,
            due: Due { begun, end, schedule: self.schedule.clone(), number: 0 },
            count: Count::default(),
            rows: Spool::new(&run.budget),
            tally: run.tally(),
            waits: Waits::new(),
            pacing: Histogram::default(),
            piece: vec![0; PIECE_BYTES],
        };
        match asking.until_over(run) {
            Ok(complete) => report.complete = complete,
            Err(error) => report.failure = Some(format!("{error:#}")),
        }
        asking.count.add_to(&mut report);
        asking.waits.close(&mut report);
        report.pacing.merge(&asking.pacing);
        report.table(asking.rows);
        report
    }
}

/// The client at work.
struct Asking<'a> {
    client: &'a Client,
    due: Due,
    count: Count,
    rows: Spool<TransactionRow>,
    tally: Arc<Tally>,
    waits: Waits,
    pacing: Histogram,
    piece: Vec<u8>,
}

impl Asking<'_> {
    /// Whether all that was due has ended; false when it was stopped before.
    fn until_over(&mut self, run: &Run) -> anyhow::Result<bool> {
        let wanted = usize::from(self.client.parameters.connections);
        let mut connections: Vec<Connection> = (0..wanted).map(|_| Connection::default()).collect();
        while !run.stopped() {
            self.give_up_unsent();
            let mut wake = Nanos::MAX;
            for (flow, connection) in connections.iter_mut().enumerate() {
                wake = wake.min(self.step(flow, connection)?);
            }
            if wake == Nanos::MAX {
                return Ok(true);
            }
            self.sleep(&mut connections, wake)?;
        }
        Ok(false)
    }

    /// Those that no connection was free for in time are over before they were sent.
    fn give_up_unsent(&mut self) {
        let now = clock::raw();
        let timeout = Nanos(self.client.parameters.timeout_ns);
        while self.due.schedule.is_some() && self.due.next(now).is_some_and(|due| due + timeout < now) {
            self.due.number += 1;
            self.count.requests += 1;
            self.count.timeouts += 1;
        }
    }

    /// Does what one connection can do now; when it has to be looked at again, `Nanos::MAX` for never.
    fn step(&mut self, flow: usize, connection: &mut Connection) -> anyhow::Result<Nanos> {
        let timeout = Nanos(self.client.parameters.timeout_ns);
        loop {
            let now = clock::raw();
            let asked = match (connection.asked, self.due.next(now)) {
                (Some(asked), _) => asked,
                (None, None) => return Ok(Nanos::MAX),
                (None, Some(due)) if due.max(connection.free) > now => return Ok(due.max(connection.free)),
                (None, Some(due)) => {
                    if self.due.schedule.is_some() {
                        self.pacing.record(now.since(due.max(connection.free)));
                    }
                    connection.ask(due);
                    self.due.number += 1;
                    self.count.requests += 1;
                    due
                }
            };
            let ended =
                if connection.ready { connection.advance(self.client, &mut self.piece)? } else { None };
            let finished = clock::raw();
            if finished.since(asked) > timeout {
                self.count.timeouts += 1;
                connection.rest(finished, true);
                continue;
            }
            match ended {
                None => return Ok(asked + timeout),
                Some(Ended::Broken) => {
                    self.count.broken += 1;
                    connection.rest(finished + REST, true);
                }
                Some(Ended::Answered(answer)) => {
                    let fd = connection.fd.as_ref();
                    self.waits.dealt_with(now, || fd.and_then(tcp::since_data));
                    self.count.received_bytes += connection.received;
                    self.answered(flow, asked, finished, answer)?;
                    connection.rest(finished, answer.closes || !self.client.parameters.keep_alive);
                }
            }
        }
    }

    /// A whole answer.
    fn answered(&mut self, flow: usize, asked: Nanos, finished: Nanos, answer: Answer) -> anyhow::Result<()> {
        if answer.status != 200 {
            self.count.status_errors += 1;
            return Ok(());
        }
        let own = &self.client.parameters;
        let wanted = own.response_bytes;
        ensure!(
            own.service.is_some() || answer.body_bytes == wanted,
            "the answer has {} B where {wanted} B were requested",
            answer.body_bytes
        );
        self.count.transactions += 1;
        self.tally.seen(answer.body_bytes);
        self.tally.took(finished.since(asked).0);
        self.rows.push(TransactionRow {
            flow: flow as i32,
            started_ns: asked.0 as i64,
            finished_ns: finished.0 as i64,
        });
        Ok(())
    }

    /// Until `wake`, or until a connection is ready.
    fn sleep(&self, connections: &mut [Connection], wake: Nanos) -> anyhow::Result<()> {
        let length = self.client.request.len();
        let mut polled: Vec<PollFd<'_>> = connections
            .iter()
            .filter(|one| one.asked.is_some())
            .filter_map(|one| {
                let wanted = if one.sent < length { PollFlags::POLLOUT } else { PollFlags::POLLIN };
                Some(PollFd::new(one.fd.as_ref()?.as_fd(), wanted))
            })
            .collect();
        sleep_in(&mut polled, wake.since(clock::raw()), self.client.idle)?;
        let mut ready = polled.iter().map(|one| one.any().unwrap_or(true)).collect::<Vec<_>>().into_iter();
        for one in connections.iter_mut().filter(|one| one.asked.is_some() && one.fd.is_some()) {
            one.ready = ready.next().unwrap_or(true);
        }
        Ok(())
    }
}

/// One connection of the server.
struct Asker {
    fd: OwnedFd,
    /// Octets of requests that are not answered yet.
    octets: Vec<u8>,
    /// Of the answer: its head, and how much of its body, still to go.
    head: Vec<u8>,
    body_left: u64,
    closes: bool,
}

impl Asker {
    fn is_answering(&self) -> bool {
        !self.head.is_empty() || self.body_left > 0
    }
}

struct Server {
    parameters: Parameters,
    listener: tcp::Listener,
    port: u16,
    idle: Idle,
}

impl Workload for Server {
    fn port(&self) -> Option<u16> {
        Some(self.port)
    }

    fn run(self: Box<Self>, run: &Run) -> Report {
        let mut report = Report::default();
        let mut serving = Serving {
            server: &self,
            waits: Waits::new(),
            inbox: vec![0; HEAD_MOST_BYTES],
            body: vec![0x72; PIECE_BYTES],
            answered: 0,
            refused: 0,
            connections: 0,
        };
        if let Err(error) = serving.until_stopped(run) {
            report.failure = Some(format!("{error:#}"));
        }
        report.add("answered", serving.answered);
        report.add("refused_requests", serving.refused);
        report.add("connections", serving.connections);
        serving.waits.close(&mut report);
        report
    }
}

/// The server at work.
struct Serving<'a> {
    server: &'a Server,
    waits: Waits,
    /// Where requests are read to.
    inbox: Vec<u8>,
    /// What bodies consist of.
    body: Vec<u8>,
    answered: u64,
    refused: u64,
    connections: u64,
}

impl Serving<'_> {
    fn until_stopped(&mut self, run: &Run) -> anyhow::Result<()> {
        let mut askers: Vec<Asker> = Vec::new();
        while !run.stopped() {
            let mut polled = vec![PollFd::new(self.server.listener.as_fd(), PollFlags::POLLIN)];
            polled.extend(askers.iter().map(|one| {
                let wanted = if one.is_answering() { PollFlags::POLLOUT } else { PollFlags::POLLIN };
                PollFd::new(one.fd.as_fd(), wanted)
            }));
            sleep_in(&mut polled, GLANCE, self.server.idle)?;
            let ready: Vec<bool> = polled.iter().map(|one| one.any().unwrap_or(true)).collect();
            let mut place = 0;
            askers.retain_mut(|asker| {
                place += 1;
                !ready[place] || self.serve(asker)
            });
            if ready[0] && !run.stopped() {
                self.welcome(&mut askers)?;
            }
        }
        Ok(())
    }

    /// Whatever connections have come. Beyond the most that a client has, they are closed at once.
    fn welcome(&mut self, askers: &mut Vec<Asker>) -> anyhow::Result<()> {
        loop {
            match tcp::accept_one(&self.server.listener, libc::SOCK_NONBLOCK) {
                Ok(Some(fd)) if askers.len() < CONNECTIONS_MOST && tcp::set_no_delay(&fd).is_ok() => {
                    self.connections += 1;
                    let mut asker =
                        Asker { fd, octets: Vec::new(), head: Vec::new(), body_left: 0, closes: false };
                    if self.serve(&mut asker) {
                        askers.push(asker);
                    }
                }
                Ok(_) => {}
                Err(error) if trouble(&error) == Trouble::Again => return Ok(()),
                Err(error) => return Err(error).context("cannot accept a connection"),
            }
        }
    }

    /// Does what can be done without waiting; false when the connection is over.
    fn serve(&mut self, asker: &mut Asker) -> bool {
        let taken = clock::raw();
        loop {
            if asker.is_answering() {
                match self.write(asker) {
                    Ok(()) => {}
                    Err(error) => return trouble(&error) == Trouble::Again,
                }
                self.waits.dealt_with(taken, || tcp::since_data(&asker.fd));
                if asker.closes {
                    let _ = nix::sys::socket::shutdown(asker.fd.as_raw_fd(), Shutdown::Write);
                    return false;
                }
            }
            if self.read_request(asker) {
                continue;
            }
            match tcp::read(&asker.fd, &mut self.inbox, 0) {
                Ok(0) => return false,
                Ok(count) => {
                    let room = HEAD_MOST_BYTES.saturating_sub(asker.octets.len());
                    asker.octets.extend_from_slice(&self.inbox[..count.min(room)]);
                }
                Err(error) => return trouble(&error) == Trouble::Again,
            }
        }
    }

    /// Prepares the answer to a request that is there; false when none is whole.
    fn read_request(&mut self, asker: &mut Asker) -> bool {
        let (status, closes) = match http::read_request(&asker.octets) {
            Ok(None) => return false,
            Err(_) => (400, true),
            Ok(Some(request)) => {
                asker.octets.drain(..request.bytes);
                let known = request.path == self.server.parameters.path;
                let status = if !request.is_get {
                    405
                } else if known {
                    200
                } else {
                    404
                };
                (status, request.closes)
            }
        };
        asker.body_left = if status == 200 { self.server.parameters.response_bytes } else { 0 };
        asker.head = http::answer_head(status, asker.body_left, closes);
        asker.closes = closes;
        *(if status == 200 { &mut self.answered } else { &mut self.refused }) += 1;
        true
    }

    /// Writes the answer; the error that says that it has to wait, or that the connection is over.
    fn write(&self, asker: &mut Asker) -> std::io::Result<()> {
        while asker.is_answering() {
            // The head, and what ends the connection, leave with the body, not in segments of their own.
            let (octets, more): (&[u8], bool) = if asker.head.is_empty() {
                let piece = usize::try_from(asker.body_left).unwrap_or(PIECE_BYTES).min(PIECE_BYTES);
                (&self.body[..piece], asker.closes || asker.body_left > piece as u64)
            } else {
                (&asker.head, asker.closes || asker.body_left > 0)
            };
            let count = tcp::write_with(&asker.fd, octets, if more { libc::MSG_MORE } else { 0 })?;
            if asker.head.is_empty() {
                asker.body_left -= count as u64;
            } else {
                asker.head.drain(..count);
            }
        }
        Ok(())
    }
}
