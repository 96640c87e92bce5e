//! `http_get`: GET requests over HTTP/1.1 and their answers, from the client of requests to a server of ours or to a
//! service.
//!
//! The client is that of `request_response`. A request that was answered with 200 is a transaction, which has a row;
//! the others, answered otherwise, timed out, failed with their connection, or open when the role was stopped, are
//! counted alone. An answer that HTTP forbids ends the role, and one of another length than a server of ours was told.
//!
//! One thread of the server looks after all connections, none of which it waits for alone.

use super::http::{self, HEAD_MOST_BYTES};
use super::request_response::client::Client;
use super::request_response::exchange::Success;
use super::request_response::ledger::Record;
use super::tcp;
use super::{Arming, Kind, Prepared, Side, Workload, parse};
use crate::probe::parameters::Idle;
use crate::probe::report::Report;
use crate::probe::run::Run;
use crate::probe::socket::{Trouble, trouble};
use crate::probe::waits::Waits;
use anyhow::Context;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::socket::Shutdown;
use nix::sys::time::TimeSpec;
use serde_json::Map;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::Duration;
use virtlab_load::parameters::http_get::{HttpGet as Parameters, NAME};
use virtlab_system::clock;
use virtlab_wire::Nanos;

/// Read or written at once; bodies are counted in pieces of this size and never kept.
const PIECE_BYTES: usize = 64 << 10;
/// The longest sleep, so that a stop is seen.
const GLANCE: Nanos = Nanos(20_000_000);
/// Connections of one role at a time, with those that are about to end.
const CONNECTIONS_MOST: usize = 2048;

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
            let own_server = parameters.service.is_none();
            Ok(Prepared::fixed(Client {
                ends: vec![[local, peer]],
                buffers,
                idle,
                seed: arming.seed,
                record: Record::Transactions,
                success: Success {
                    statuses: 200..=200,
                    body_bytes: own_server.then_some(parameters.response_bytes),
                },
                parameters: parameters.of_client(parse(&Map::new())?),
            }))
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
