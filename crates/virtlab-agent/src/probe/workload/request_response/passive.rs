//! A passive server: it forwards what enters at it to the active one, on a connection of its own that is kept, and
//! returns the answers.
//!
//! Requests of all clients share that connection, each by a number, and come back in any order. Where it is refused,
//! ends, or brings no answer in time, the clients that wait are told so (`BadGateway`); the next request begins
//! another. One thread does it all: nothing is worked for here.

use super::super::tcp;
use super::message::{HEAD, Head, Incoming, Kind};
use super::readiness::Readiness;
use super::server::{CONNECTIONS_MOST, LISTENER, PIECE_BYTES};
use crate::probe::parameters::Idle;
use crate::probe::run::Run;
use crate::probe::socket::{Trouble, trouble};
use anyhow::Context;
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;
use virtlab_load::forwards::{Bounds, Forwards};
use virtlab_load::parameters::Buffers;
use virtlab_system::clock;
use virtlab_wire::Nanos;

/// The longest sleep.
const GLANCE: Nanos = Nanos(20_000_000);
/// By which the connection to the active server is told from those of clients.
const UPSTREAM: u64 = LISTENER - 1;

/// Messages that a connection has not taken yet.
#[derive(Default)]
struct Outbox {
    heads: VecDeque<Head>,
    /// Of the first.
    written: usize,
}

impl Outbox {
    /// Writes what the connection takes; whether it took any.
    fn flush(&mut self, fd: &OwnedFd, octets: &mut [u8]) -> io::Result<bool> {
        let mut wrote = false;
        while let Some(head) = self.heads.front() {
            let left = head.bytes as usize - self.written;
            octets[..HEAD].copy_from_slice(&head.octets());
            // Behind the head all octets are alike.
            let from = self.written.min(HEAD);
            let until = (from + left).min(octets.len());
            match tcp::write(fd, &octets[from..until]) {
                Ok(count) => {
                    (wrote, self.written) = (true, self.written + count);
                    if count == left {
                        self.heads.pop_front();
                        self.written = 0;
                    }
                }
                Err(error) if trouble(&error) == Trouble::Again => return Ok(wrote),
                Err(error) => return Err(error),
            }
        }
        Ok(wrote)
    }
}

/// One connection.
struct Line {
    fd: OwnedFd,
    incoming: Incoming,
    outbox: Outbox,
    /// Of a client: its request is forwarded. To the active server: it has taken something.
    busy: bool,
}

impl Line {
    fn new(fd: OwnedFd) -> Self {
        Self { fd, incoming: Incoming::new(), outbox: Outbox::default(), busy: false }
    }

    /// The next whole message; `None`: not yet. An error ends the connection.
    fn read(&mut self, inbox: &mut [u8], came: &mut Vec<Head>) -> io::Result<()> {
        loop {
            let count = match tcp::read(&self.fd, inbox, 0) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => count,
                Err(error) if trouble(&error) == Trouble::Again => return Ok(()),
                Err(error) => return Err(error),
            };
            let mut octets = &inbox[..count];
            while !octets.is_empty() {
                let whole = self.incoming.take(&mut octets).map_err(io::Error::other)?;
                came.extend(whole);
            }
        }
    }
}

/// A request: the client's connection, and the number and size that it gave.
#[derive(Clone, Copy)]
struct Job {
    line: u64,
    number: u64,
    bytes: u32,
}

/// One passive server.
pub struct Passive {
    listener: tcp::Listener,
    active: SocketAddr,
    buffers: Buffers,
    readiness: Readiness,
    forwards: Forwards<Job>,
    upstream: Option<Line>,
    lines: BTreeMap<u64, Line>,
    /// Connections so far.
    connections: u64,
    inbox: Vec<u8>,
    octets: Vec<u8>,
}

impl Passive {
    /// Of the active server at that address.
    pub fn new(
        listener: tcp::Listener,
        active: SocketAddr,
        buffers: Buffers,
        bounds: Bounds,
    ) -> anyhow::Result<Self> {
        let readiness = Readiness::new()?;
        readiness.while_readable(&listener, LISTENER)?;
        Ok(Self {
            listener,
            active,
            buffers,
            readiness,
            forwards: Forwards::new(bounds),
            upstream: None,
            lines: BTreeMap::new(),
            connections: 0,
            inbox: vec![0; PIECE_BYTES],
            octets: vec![0x66; PIECE_BYTES],
        })
    }

    /// Serves until it is killed.
    ///
    /// # Errors
    /// When it can take no more connections.
    pub fn serve(mut self, run: &Run) -> anyhow::Result<()> {
        while !run.stopped() {
            let now = clock::raw();
            let mut overdue = false;
            while let Some(job) = self.forwards.expired(now) {
                overdue = true;
                self.answer(job, Kind::BadGateway, HEAD as u32, 0);
            }
            if overdue && self.upstream.as_ref().is_some_and(|line| !line.busy) {
                self.broke(); // nothing answers there, not even that it refuses
            }
            let wait = self.forwards.next().map_or(GLANCE, |at| at.since(now).min(GLANCE));
            for number in self.readiness.wait(wait, Idle::Sleep)? {
                match number {
                    LISTENER => self.welcome()?,
                    UPSTREAM => self.advance(),
                    client => self.hear(client),
                }
            }
        }
        Ok(())
    }

    /// Whatever connections have come. Beyond the most that a client has, they are closed at once.
    fn welcome(&mut self) -> anyhow::Result<()> {
        loop {
            match tcp::accept_one(&self.listener, libc::SOCK_NONBLOCK) {
                Ok(Some(fd)) if self.lines.len() < CONNECTIONS_MOST && tcp::set_no_delay(&fd).is_ok() => {
                    self.readiness.as_it_changes(&fd, self.connections)?;
                    self.lines.insert(self.connections, Line::new(fd));
                    self.connections += 1;
                }
                Ok(_) => {}
                Err(error) if trouble(&error) == Trouble::Again => return Ok(()),
                Err(error) => return Err(error).context("cannot accept a connection"),
            }
        }
    }

    /// Something can be read from a client, or written to it.
    fn hear(&mut self, client: u64) {
        let Some(line) = self.lines.get_mut(&client) else { return };
        let mut came = Vec::new();
        let flushed = line.outbox.flush(&line.fd, &mut self.octets);
        let over = flushed.is_err() || line.read(&mut self.inbox, &mut came).is_err();
        for head in came {
            let Some(line) = self.lines.get_mut(&client) else { return };
            // One at a time, as at every server of ours.
            if head.kind != Kind::Request || std::mem::replace(&mut line.busy, true) {
                self.lines.remove(&client);
                return;
            }
            let job = Job { line: client, number: head.number, bytes: head.bytes };
            if let Err(job) = self.forwards.offer(job, clock::raw()) {
                self.answer(job, Kind::Refusal, HEAD as u32, 0);
            }
        }
        if over {
            self.lines.remove(&client);
        }
        self.forward();
    }

    /// Sends to the active server what may be under way there.
    fn forward(&mut self) {
        while let Some((number, job)) = self.forwards.begin() {
            let head = Head { bytes: job.bytes, kind: Kind::Forward, server: 0, number };
            if self.upstream.is_none() && !self.dial() {
                return self.broke();
            }
            if let Some(line) = &mut self.upstream {
                line.outbox.heads.push_back(head);
            }
        }
        let Some(line) = &mut self.upstream else { return };
        match line.outbox.flush(&line.fd, &mut self.octets) {
            Ok(wrote) => line.busy |= wrote,
            Err(_) => self.broke(),
        }
    }

    /// Begins a connection to the active server; false when there is no way there.
    fn dial(&mut self) -> bool {
        let any: IpAddr =
            if self.active.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
        let Ok(fd) = tcp::dial(SocketAddr::new(any, 0), self.active, self.buffers) else { return false };
        if self.readiness.as_it_changes(&fd, UPSTREAM).is_err() {
            return false;
        }
        self.upstream = Some(Line::new(fd));
        true
    }

    /// Something can be read from the active server, or written to it.
    fn advance(&mut self) {
        let Some(line) = &mut self.upstream else { return };
        let mut came = Vec::new();
        let read = line.read(&mut self.inbox, &mut came);
        for head in came {
            if !matches!(head.kind, Kind::Response | Kind::Refusal) {
                return self.broke();
            }
            if let Some(job) = self.forwards.answered(head.number) {
                self.answer(job, head.kind, head.bytes, head.server);
            }
        }
        match read {
            Ok(()) => self.forward(),
            Err(_) => self.broke(),
        }
    }

    /// The connection to the active server is over: all that wait for it are told so.
    fn broke(&mut self) {
        self.upstream = None;
        for job in self.forwards.give_up() {
            self.answer(job, Kind::BadGateway, HEAD as u32, 0);
        }
    }

    /// Answers a client, if it is still there.
    fn answer(&mut self, job: Job, kind: Kind, bytes: u32, server: u16) {
        let Some(line) = self.lines.get_mut(&job.line) else { return };
        line.busy = false;
        line.outbox.heads.push_back(Head { bytes, kind, server, number: job.number });
        if line.outbox.flush(&line.fd, &mut self.octets).is_err() {
            self.lines.remove(&job.line);
        }
    }
}
