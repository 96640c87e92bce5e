//! The server: one thread reads requests, others serve them in the order in which they came.
//!
//! A request takes a counted amount of work, whatever else the processor does meanwhile, in a serial stage and in
//! subtasks that threads share. What comes while all threads are busy waits in a backlog; beyond its bound it is
//! refused at once, or waits, too. The thread that does the last of a request writes its answer itself. This server is
//! what is measured, so that it gets no processor is no fault of the measurement.

use super::super::Workload;
use super::super::tcp;
use super::datagrams::{Came, Inbox, Outbox, Return};
use super::lock::Lock;
use super::message::{HEAD, Head, Incoming, Kind};
use super::readiness::Readiness;
use super::writer::Writer;
use crate::probe::pacing::sleep;
use crate::probe::parameters::Idle;
use crate::probe::report::Report;
use crate::probe::run::Run;
use crate::probe::socket::{Trouble, trouble};
use anyhow::Context;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use virtlab_load::parameters::request_response::{Pause, RequestResponse as Parameters};
use virtlab_load::station::{Done, Station, Task};
use virtlab_system::clock;
use virtlab_system::work;
use virtlab_wire::Nanos;

/// Read at once.
pub const PIECE_BYTES: usize = 64 << 10;
/// Connections at a time, with those that are about to end.
pub const CONNECTIONS_MOST: usize = 2048;
/// Requests of one passive server at a time: one of each of its clients.
const FORWARDS_MOST: u32 = 65_536;
/// The longest sleep, so that a stop is seen.
const GLANCE: Nanos = Nanos(20_000_000);
/// By which the listener, and the socket of datagrams, are told from connections.
pub const LISTENER: u64 = u64::MAX;
const DATAGRAMS: u64 = u64::MAX - 1;

/// Where requests come in.
pub struct Doors {
    pub listener: Option<tcp::Listener>,
    pub datagrams: Option<OwnedFd>,
}

pub struct Server {
    pub parameters: Parameters,
    pub doors: Doors,
    pub port: u16,
    pub idle: Idle,
    pub seed: u64,
    pub writer: Option<Writer>,
    /// Among the servers of its service.
    pub place: u16,
}

/// A connection, of which a reading and a serving thread know.
struct Line {
    fd: OwnedFd,
    /// Requests of it that wait or are served: one of a client, more of a passive server.
    busy: AtomicU32,
    /// Who has it writes a whole message.
    turn: Mutex<()>,
}

impl Line {
    /// Whether a request of that kind may come; it is one more then.
    fn admits(&self, kind: Kind) -> bool {
        let most = match kind {
            Kind::Request => 1,
            Kind::Forward => FORWARDS_MOST,
            _ => 0,
        };
        self.busy.fetch_add(1, Ordering::AcqRel) < most
    }
}

/// Who waits for an answer.
enum Asker {
    Line(Arc<Line>),
    Sender(Option<Return>),
}

/// A request to be served.
struct Job {
    asker: Asker,
    number: u64,
}

/// What waits, for all threads.
struct Backlog {
    station: Station<Job>,
    /// Threads that wait for a task.
    idle: usize,
    pause: Option<Pause>,
    closed: bool,
    /// Times for which threads waited for the lock.
    lock_wait: Nanos,
    /// What kept the server from writing.
    failure: Option<anyhow::Error>,
}

struct Shared<'a> {
    place: u16,
    parameters: &'a Parameters,
    work_per_s: u64,
    run: &'a Run,
    backlog: Mutex<Backlog>,
    changed: Condvar,
    lock: Lock,
    writer: Option<&'a Writer>,
    datagrams: Option<&'a OwnedFd>,
}

impl Shared<'_> {
    fn backlog(&self) -> MutexGuard<'_, Backlog> {
        self.backlog.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a request in; false where there is no room for it.
    fn offer(&self, job: Job) -> bool {
        let mut backlog = self.backlog();
        backlog.pause.get_or_insert_with(|| self.parameters.pause(clock::raw()));
        let idle = backlog.idle;
        let room = backlog.station.offer(job, idle).is_ok();
        drop(backlog);
        if room {
            self.changed.notify_one();
        }
        room
    }

    /// The next task, and when it may not be done; `None` at the end. Answers do not wait for it.
    fn next(&self, outbox: &mut Outbox) -> Option<(Task, Pause)> {
        let mut backlog = self.backlog();
        loop {
            if backlog.closed {
                return None;
            }
            if let Some((task, beside)) = backlog.station.begin() {
                let pause = backlog.pause.unwrap_or_else(|| self.parameters.pause(Nanos::ZERO));
                self.wake(beside);
                return Some((task, pause));
            }
            if !outbox.is_empty() {
                drop(backlog);
                self.post(outbox);
                backlog = self.backlog();
                continue;
            }
            backlog.idle += 1;
            backlog = self.changed.wait(backlog).unwrap_or_else(PoisonError::into_inner);
            backlog.idle -= 1;
        }
    }

    /// So many threads, if they wait.
    fn wake(&self, threads: usize) {
        for _ in 0..threads {
            self.changed.notify_one();
        }
    }

    fn close(&self) {
        self.backlog().closed = true;
        self.changed.notify_all();
    }

    /// A serving thread.
    fn serve(&self) {
        let mut response = vec![0x72; self.parameters.response_bytes as usize];
        let mut outbox = Outbox::new(self.parameters.response_bytes, 0x72);
        while let Some((task, pause)) = self.next(&mut outbox) {
            let waits =
                task.work > Nanos::ZERO || self.writer.is_some() || pause.holds(clock::raw()).is_some();
            if waits || outbox.is_full() {
                self.post(&mut outbox);
            }
            let Some(lock_wait) = self.spend(task.work, pause) else { return };
            let done = {
                let mut backlog = self.backlog();
                backlog.lock_wait += lock_wait;
                backlog.station.done(task)
            };
            let job = match done {
                Done::Request(job) => job,
                // This thread does one of them itself.
                Done::Subtasks(count) => {
                    self.wake(count - 1);
                    continue;
                }
                Done::Part => continue,
            };
            if !self.store() {
                return;
            }
            let (bytes, number) = (response.len() as u32, job.number);
            let head = Head { bytes, kind: Kind::Response, server: self.place, number };
            match job.asker {
                Asker::Line(line) => {
                    response[..HEAD].copy_from_slice(&head.octets());
                    line.busy.fetch_sub(1, Ordering::AcqRel);
                    self.write(&line, &response);
                }
                Asker::Sender(back) => outbox.push(head, back),
            }
        }
    }

    /// Works, first without the lock; how long it waited for that, or `None` when the role was stopped.
    fn spend(&self, demand: Nanos, pause: Pause) -> Option<Nanos> {
        let goes_on = || {
            while let Some(end) = pause.holds(clock::raw()) {
                if self.run.stopped() {
                    return false;
                }
                sleep(end.since(clock::raw()).min(GLANCE));
            }
            !self.run.stopped()
        };
        let work = |time: Nanos| work::work(work::units_of(time.0, self.work_per_s), goes_on);
        let locked = self.parameters.locked(demand);
        // A request without any demand does not pass a pause either.
        if !goes_on() || !work(demand.since(locked)) {
            return None;
        }
        if locked == Nanos::ZERO {
            return Some(Nanos::ZERO);
        }
        let begun = clock::raw();
        if !self.lock.take(|| self.run.stopped()) {
            return None;
        }
        let waited = clock::raw().since(begun);
        let done = work(locked);
        self.lock.give();
        done.then_some(waited)
    }

    /// Writes what a request writes to the server's file; false when the role ends.
    fn store(&self) -> bool {
        match self.writer.map(|writer| writer.write(|| self.over())) {
            None => true,
            Some(Ok(done)) => done,
            Some(Err(error)) => {
                self.fail(error);
                false
            }
        }
    }

    /// Whether the role was stopped, or has failed.
    fn over(&self) -> bool {
        self.run.stopped() || self.backlog().closed
    }

    fn fail(&self, error: anyhow::Error) {
        self.backlog().failure.get_or_insert(error);
    }

    /// Sends answers, all that wait. What the network has no way for is passed over: its client counts it as lost.
    fn post(&self, outbox: &mut Outbox) {
        let Some(fd) = self.datagrams else { return };
        let mut refused = false;
        while !outbox.is_empty() && !self.run.stopped() {
            match outbox.send(fd, |_| {}).map_err(|error| trouble(&error)) {
                Ok(()) => refused = false,
                Err(Trouble::Again) => wait_for_room(fd),
                // What an earlier one met is told once, and nothing was sent then.
                Err(Trouble::Refused) if !refused => refused = true,
                Err(_) => outbox.pass_over(),
            }
        }
    }

    /// Writes an answer. A client that is gone gets none, and reports that itself.
    fn write(&self, line: &Line, mut octets: &[u8]) {
        let (fd, _turn) = (&line.fd, line.turn.lock().unwrap_or_else(PoisonError::into_inner));
        while !octets.is_empty() && !self.run.stopped() {
            match tcp::write(fd, octets) {
                Ok(count) => octets = &octets[count..],
                Err(error) if trouble(&error) == Trouble::Again => wait_for_room(fd),
                Err(_) => return,
            }
        }
    }
}

fn wait_for_room(fd: &OwnedFd) {
    let mut room = [PollFd::new(fd.as_fd(), PollFlags::POLLOUT)];
    let _ = poll(&mut room, PollTimeout::from(20u8));
}

impl Workload for Server {
    fn port(&self) -> Option<u16> {
        Some(self.port)
    }

    fn run(self: Box<Self>, run: &Run) -> Report {
        let mut report = Report::default();
        let works = self.parameters.works();
        let shared = Shared {
            place: self.place,
            parameters: &self.parameters,
            work_per_s: self
                .parameters
                .work_per_s
                .unwrap_or_else(|| if works { work::rate_per_s() } else { 1 }),
            run,
            backlog: Mutex::new(Backlog {
                station: Station::new(&self.parameters, self.seed),
                idle: 0,
                pause: None,
                closed: false,
                lock_wait: Nanos::ZERO,
                failure: None,
            }),
            changed: Condvar::new(),
            lock: Lock::default(),
            writer: self.writer.as_ref(),
            datagrams: self.doors.datagrams.as_ref(),
        };
        let mut reading = Reading { shared: &shared, connections: 0, garbled: 0, datagrams: None };
        let outcome = std::thread::scope(|scope| {
            let begun = (0..self.parameters.threads).try_for_each(|_| {
                let thread = std::thread::Builder::new().spawn_scoped(scope, || shared.serve());
                thread.map(|_| ()).context("cannot start a thread of the server")
            });
            let idle = begun.and_then(|()| {
                let Some(writer) = shared.writer else { return Ok(()) };
                let write =
                    || writer.write_when_idle(|| shared.over()).unwrap_or_else(|error| shared.fail(error));
                let thread = std::thread::Builder::new().spawn_scoped(scope, write);
                thread.map(|_| ()).context("cannot start the thread that writes without a request")
            });
            let outcome = idle.and_then(|()| reading.until_stopped(&self));
            shared.close();
            outcome
        });
        if let Err(error) = outcome {
            report.failure = Some(format!("{error:#}"));
        }
        if self.doors.listener.is_some() {
            report.add("connections", reading.connections);
            report.add("garbled_connections", reading.garbled);
        }
        if let Some((inbox, garbled)) = &reading.datagrams {
            report.add("garbled_datagrams", *garbled);
            report.add("socket_drops", u64::from(inbox.drops));
        }
        let backlog = shared.backlog();
        let station = &backlog.station;
        report.add("rejected_requests", station.rejected);
        report.add("served_requests", station.served);
        report.add("worked_ns", station.worked.0);
        report.add("lock_wait_ns", backlog.lock_wait.0);
        if let Some(counts) = shared.writer.map(Writer::counts) {
            report.add("writes", counts.writes);
            report.add("idle_writes", counts.idle_writes);
            report.add("written_bytes", counts.bytes);
            report.add("write_ns", counts.time.0);
            report.add("throttled_ns", counts.throttled.0);
        }
        report.add("work_per_ms", if works { shared.work_per_s / 1000 } else { 0 });
        drop(backlog);
        report
    }
}

/// The reading thread.
struct Reading<'a> {
    shared: &'a Shared<'a>,
    connections: u64,
    garbled: u64,
    /// Of the socket of datagrams, and how many of those were no requests.
    datagrams: Option<(Inbox, u64)>,
}

impl Reading<'_> {
    fn until_stopped(&mut self, server: &Server) -> anyhow::Result<()> {
        let mut readiness = Readiness::new()?;
        if let Some(listener) = &server.doors.listener {
            readiness.while_readable(listener, LISTENER)?;
        }
        if let Some(fd) = &server.doors.datagrams {
            readiness.while_readable(fd, DATAGRAMS)?;
            self.datagrams = Some((Inbox::of_many(), 0));
        }
        let mut refusals = Outbox::new(HEAD as u64, 0);
        let mut lines: BTreeMap<u64, (Arc<Line>, Incoming)> = BTreeMap::new();
        let mut inbox = vec![0; PIECE_BYTES];
        while !self.shared.run.stopped() {
            if let Some(error) = self.shared.backlog().failure.take() {
                return Err(error);
            }
            for number in readiness.wait(GLANCE, server.idle)? {
                if let (LISTENER, Some(listener)) = (number, &server.doors.listener) {
                    self.welcome(listener, &readiness, &mut lines)?;
                } else if number == DATAGRAMS {
                    self.collect(&mut refusals)?;
                } else if let Some((line, incoming)) = lines.get_mut(&number)
                    && !self.read(line, incoming, &mut inbox)
                {
                    readiness.forget(&line.fd);
                    lines.remove(&number);
                }
            }
        }
        Ok(())
    }

    /// Whatever connections have come. Beyond the most that a client has, they are closed at once.
    fn welcome(
        &mut self,
        listener: &tcp::Listener,
        readiness: &Readiness,
        lines: &mut BTreeMap<u64, (Arc<Line>, Incoming)>,
    ) -> anyhow::Result<()> {
        loop {
            match tcp::accept_one(listener, libc::SOCK_NONBLOCK) {
                Ok(Some(fd)) if lines.len() < CONNECTIONS_MOST && tcp::set_no_delay(&fd).is_ok() => {
                    readiness.while_readable(&fd, self.connections)?;
                    let line = Line { fd, busy: AtomicU32::new(0), turn: Mutex::new(()) };
                    lines.insert(self.connections, (Arc::new(line), Incoming::new()));
                    self.connections += 1;
                }
                Ok(_) => {}
                Err(_) if self.shared.run.stopped() => return Ok(()),
                Err(error) if trouble(&error) == Trouble::Again => return Ok(()),
                Err(error) => return Err(error).context("cannot accept a connection"),
            }
        }
    }

    /// Takes what has come on a connection; false when it is over.
    fn read(&mut self, line: &Arc<Line>, incoming: &mut Incoming, inbox: &mut [u8]) -> bool {
        let count = match tcp::read(&line.fd, inbox, 0) {
            Ok(0) => return false,
            Ok(count) => count,
            Err(error) => return trouble(&error) == Trouble::Again,
        };
        let mut octets = &inbox[..count];
        while !octets.is_empty() {
            match incoming.take(&mut octets) {
                Ok(None) => {}
                // One at a time on each connection: a client that sends more breaks the protocol.
                Ok(Some(Head { kind, number, .. })) if line.admits(kind) => self.take_in(line, number),
                Ok(Some(_)) | Err(_) => {
                    self.garbled += 1;
                    return false;
                }
            }
        }
        true
    }

    fn take_in(&mut self, line: &Arc<Line>, number: u64) {
        if self.shared.offer(Job { asker: Asker::Line(line.clone()), number }) {
            return;
        }
        line.busy.fetch_sub(1, Ordering::AcqRel);
        self.shared.write(line, &refusal(number).octets());
    }

    /// Takes the datagrams that have come, each a request.
    fn collect(&mut self, refusals: &mut Outbox) -> anyhow::Result<()> {
        let (Some((inbox, garbled)), Some(fd)) = (&mut self.datagrams, self.shared.datagrams) else {
            return Ok(());
        };
        inbox.receive(fd, |came| {
            match came {
                Came::Whole(Head { kind: Kind::Request, number, .. }, back) => {
                    if !self.shared.offer(Job { asker: Asker::Sender(back), number }) {
                        refusals.push(refusal(number), back);
                    }
                }
                _ => *garbled += 1,
            }
            Ok(())
        })?;
        self.shared.post(refusals);
        Ok(())
    }
}

/// To a request for which there is no room.
const fn refusal(number: u64) -> Head {
    Head { bytes: HEAD as u32, kind: Kind::Refusal, server: 0, number }
}
