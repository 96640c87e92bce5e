//! `tcp_rr`: one request, one response, one at a time, over one connection; netperf's TCP_RR.
//!
//! A row per transaction: from just before the request is written until the whole response is read. Nagle's algorithm
//! is off: with one transaction under way it changes nothing but requests of several segments, whose last one it would
//! hold back for the receiver's delayed acknowledgement.

use super::tcp;
use super::{Arming, Kind, Prepared, Side, Workload, parse};
use crate::probe::pacing::{Pacer, Pacing};
use crate::probe::parameters::Idle;
use crate::probe::report::Report;
use crate::probe::run::Run;
use crate::probe::spool::Spool;
use crate::probe::waits::Waits;
use anyhow::Context;
use std::net::SocketAddr;
use virtlab_load::parameters::Buffers;
use virtlab_load::parameters::tcp_rr::{NAME, TcpRr as Parameters};
use virtlab_system::clock;
use virtlab_wire::Nanos;
use virtlab_wire::rows::TransactionRow;

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
            Ok(Prepared::fixed(Client { parameters, local, peer, buffers, idle }))
        }
        Side::Server => answerer(&arming, buffers, parameters.request_bytes, parameters.response_bytes),
    }
}

/// The answering end: for each whole request, a response.
///
/// # Errors
/// When the address cannot be bound or a buffer is not granted.
pub fn answerer(
    arming: &Arming<'_>,
    buffers: Buffers,
    request_bytes: u64,
    response_bytes: u64,
) -> anyhow::Result<Prepared> {
    let (listener, port) = tcp::listen(arming, buffers)?;
    let idle = arming.common.idle;
    Ok(Prepared::fixed(Server { request_bytes, response_bytes, listener, port, idle }))
}

/// Flags of a read that sleeps or polls.
pub fn flags_of(idle: Idle) -> i32 {
    if idle == Idle::Poll { libc::MSG_DONTWAIT } else { 0 }
}

struct Client {
    parameters: Parameters,
    local: SocketAddr,
    peer: SocketAddr,
    buffers: Buffers,
    idle: Idle,
}

impl Workload for Client {
    fn run(self: Box<Self>, run: &Run) -> Report {
        let mut report = Report::default();
        let Some(start) = run.wait_for_start(Pacer::new(Pacing::Sleep)) else {
            return report;
        };
        let mut rows = Spool::new(&run.budget);
        let tally = run.tally();
        let fd = match tcp::connect(run, self.local, self.peer, self.buffers, true, 0) {
            Ok(fd) => fd,
            Err(error) => {
                report.failure = (!run.stopped()).then(|| format!("{error:#}"));
                return report;
            }
        };
        let request = vec![0x52; self.parameters.request_bytes as usize];
        let mut response = vec![0; self.parameters.response_bytes as usize];
        let begun = clock::raw().max(start);
        let end = self.parameters.duration_ns.map_or(Nanos::MAX, |duration| begun + Nanos(duration));
        let mut transactions = 0u64;
        let mut waits = Waits::new();
        loop {
            let started = clock::raw();
            if started >= end || run.stopped() {
                report.complete = !run.stopped();
                break;
            }
            let answered = tcp::write_whole(run, &fd, &request).and_then(|written| {
                Ok(written && tcp::read_whole_with(run, &fd, &mut response, flags_of(self.idle))?)
            });
            match answered {
                Ok(true) => {}
                Ok(false) if run.stopped() => break,
                Ok(false) => {
                    report.failure = Some("the server closed the connection".to_owned());
                    break;
                }
                Err(error) => {
                    report.failure = Some(format!("the connection broke: {error}"));
                    break;
                }
            }
            transactions += 1;
            let finished = clock::raw();
            rows.push(TransactionRow {
                flow: 0,
                started_ns: started.0 as i64,
                finished_ns: finished.0 as i64,
            });
            tally.seen(self.parameters.response_bytes);
            tally.took(finished.since(started).0);
            waits.dealt_with(finished, || tcp::since_data(&fd));
        }
        waits.close(&mut report);
        report.add("transactions", transactions);
        report.add("sent_bytes", transactions * self.parameters.request_bytes);
        report.add("received_bytes", transactions * self.parameters.response_bytes);
        report.add("retransmits", tcp::info(&fd).map_or(0, |info| info.retransmits));
        report.add("send_errors", 0);
        report.table(rows);
        report
    }
}

struct Server {
    request_bytes: u64,
    response_bytes: u64,
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
        let mut request = vec![0; self.request_bytes as usize];
        let response = vec![0x72; self.response_bytes as usize];
        let mut answered = 0u64;
        loop {
            let fd = match tcp::accept(run, &self.listener) {
                Ok(Some((fd, _))) => fd,
                Ok(None) => break,
                Err(error) => {
                    report.failure = Some(format!("{error:#}"));
                    break;
                }
            };
            // A connection that breaks ends; the client says why, and another may come.
            if tcp::set_no_delay(&fd).is_err() {
                continue;
            }
            let mut waits = Waits::new();
            while let Ok(true) = tcp::read_whole_with(run, &fd, &mut request, flags_of(self.idle)) {
                let taken = clock::raw();
                let Ok(true) = tcp::write_whole(run, &fd, &response) else { break };
                waits.dealt_with(taken, || tcp::since_data(&fd));
                answered += 1;
            }
            waits.close(&mut report);
        }
        report.add("answered", answered);
        report
    }
}
