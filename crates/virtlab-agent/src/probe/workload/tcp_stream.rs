//! `tcp_stream`: bytes over TCP as fast as they go, netperf's TCP_STREAM.
//!
//! The client writes messages of `message_bytes` on each of its connections until the duration is over; the server
//! reads whatever comes. Every 100 ms each end keeps a row per connection: the client what it wrote, with TCP_INFO, the
//! server what it read. An end fills its own columns and leaves the other's at 0. Goodput is what the server read.

use super::tcp::{self, Info};
use super::{Arming, Kind, Prepared, Side, Workload, meters, parse};
use crate::probe::pacing::{Pacer, Pacing};
use crate::probe::parameters::Meter;
use crate::probe::report::Report;
use crate::probe::run::Run;
use crate::probe::socket::{Trouble, trouble};
use crate::probe::spool::Spool;
use anyhow::Context;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use virtlab_load::parameters::Buffers;
use virtlab_load::parameters::tcp_stream::{NAME, TcpStream as Parameters};
use virtlab_system::clock;
use virtlab_wire::Nanos;
use virtlab_wire::rows::IntervalRow;

const READ_BYTES: usize = 256 << 10;

/// In the table of workloads.
pub const KIND: Kind =
    Kind { meters: &[(Meter::Iperf3, meters::iperf3::prepare_tcp)], ..Kind::of(NAME, prepare) };

/// Prepares either end.
pub fn prepare(arming: Arming<'_>) -> anyhow::Result<Prepared> {
    let parameters: Parameters = parse(&arming.own)?;
    parameters.check().context("parameters")?;
    let buffers = parameters.buffers();
    match arming.side {
        Side::Client => {
            let (local, peer) = arming.ends()?;
            Ok(Prepared::fixed(Client { parameters, local, peer, buffers }))
        }
        Side::Server => {
            let (listener, port) = tcp::listen(&arming, buffers)?;
            Ok(Prepared::fixed(Server { listener, port, interval: Nanos(parameters.interval_ns) }))
        }
    }
}

/// One connection, seen by the thread that moves its bytes and the one that samples it.
struct Flow {
    fd: OwnedFd,
    flow: u16,
    bytes: AtomicU64,
    /// When it began to count.
    since: Nanos,
}

/// A connection as sampled before.
struct Before {
    flow: Arc<Flow>,
    at: Nanos,
    bytes: u64,
    info: Info,
}

impl Before {
    fn new(flow: &Arc<Flow>) -> Self {
        Self { at: flow.since, flow: flow.clone(), bytes: 0, info: Info::default() }
    }

    /// The row of the time since the sample before.
    fn row(&mut self, now: Nanos, sender: bool) -> IntervalRow {
        let bytes = self.flow.bytes.load(Ordering::Relaxed);
        let moved = (bytes - self.bytes) as i64;
        let info = if sender { tcp::info(&self.flow.fd).unwrap_or(self.info) } else { Info::default() };
        let row = IntervalRow {
            flow: i32::from(self.flow.flow),
            begin_ns: self.at.0 as i64,
            end_ns: now.0 as i64,
            received_bytes: if sender { 0 } else { moved },
            sent_bytes: if sender { moved } else { 0 },
            retransmits: info.retransmits.saturating_sub(self.info.retransmits) as i64,
            srtt_ns: info.srtt.0 as i64,
            cwnd_packets: info.cwnd_packets as i64,
        };
        (self.at, self.bytes, self.info) = (now, bytes, info);
        row
    }
}

struct Client {
    parameters: Parameters,
    local: SocketAddr,
    peer: SocketAddr,
    buffers: Buffers,
}

impl Workload for Client {
    fn run(self: Box<Self>, run: &Run) -> Report {
        let mut report = Report::default();
        let pacer = Pacer::new(Pacing::Sleep);
        let Some(start) = run.wait_for_start(pacer) else {
            return report;
        };
        let mut flows = Vec::new();
        for flow in 0..self.parameters.streams {
            let connected =
                tcp::connect(run, self.local, self.peer, self.buffers, self.parameters.no_delay, flow);
            match connected {
                Ok(fd) => {
                    flows.push(Arc::new(Flow { fd, flow, bytes: AtomicU64::new(0), since: clock::raw() }))
                }
                Err(error) => {
                    report.failure = (!run.stopped()).then(|| format!("{error:#}"));
                    return report;
                }
            }
        }
        let end = self
            .parameters
            .duration_ns
            .map_or(Nanos::MAX, |duration| clock::raw().max(start) + Nanos(duration));
        let message = vec![0x5A; self.parameters.message_bytes as usize];
        let mut rows = Spool::new(&run.budget);
        let over = AtomicBool::new(false);
        let failure = Mutex::new(None);
        std::thread::scope(|scope| {
            for flow in &flows {
                let (message, over, failure) = (&message, &over, &failure);
                scope.spawn(move || {
                    if let Err(error) = pour(flow, message, over) {
                        *failure.lock().unwrap_or_else(PoisonError::into_inner) =
                            Some(format!("cannot send: {error}"));
                        over.store(true, Ordering::Relaxed);
                    }
                });
            }
            let mut before: Vec<Before> = flows.iter().map(Before::new).collect();
            let mut next = start + Nanos(self.parameters.interval_ns);
            loop {
                let alive = pacer.wait_until(next.min(end), &run.stop) && !over.load(Ordering::Relaxed);
                let now = clock::raw();
                before.iter_mut().for_each(|flow| rows.push(flow.row(now, true)));
                if !alive || now >= end {
                    report.complete = alive;
                    break;
                }
                next += Nanos(self.parameters.interval_ns);
            }
            over.store(true, Ordering::Relaxed);
        });
        let total: u64 = flows.iter().map(|flow| flow.bytes.load(Ordering::Relaxed)).sum();
        let retransmits: u64 =
            flows.iter().filter_map(|flow| tcp::info(&flow.fd).ok()).map(|info| info.retransmits).sum();
        report.add("sent_bytes", total);
        report.add("retransmits", retransmits);
        report.add("send_errors", 0);
        report.failure = failure.into_inner().unwrap_or_else(PoisonError::into_inner);
        report.complete &= report.failure.is_none();
        report.table(rows);
        report
    }
}

/// Writes messages until over.
fn pour(flow: &Flow, message: &[u8], over: &AtomicBool) -> std::io::Result<()> {
    let mut rest = message;
    while !over.load(Ordering::Relaxed) {
        match tcp::write(&flow.fd, rest) {
            Ok(count) => {
                flow.bytes.fetch_add(count as u64, Ordering::Relaxed);
                rest = if count == rest.len() { message } else { &rest[count..] };
            }
            Err(error) if trouble(&error) == Trouble::Again => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

struct Server {
    listener: tcp::Listener,
    port: u16,
    interval: Nanos,
}

impl Workload for Server {
    fn port(&self) -> Option<u16> {
        Some(self.port)
    }

    fn run(self: Box<Self>, run: &Run) -> Report {
        let mut report = Report::default();
        let flows: Mutex<Vec<Arc<Flow>>> = Mutex::new(Vec::new());
        let failure = Mutex::new(None);
        let mut rows = Spool::new(&run.budget);
        std::thread::scope(|scope| {
            let (flows, failure, listener) = (&flows, &failure, &self.listener);
            scope.spawn(move || {
                loop {
                    match tcp::accept(run, listener) {
                        Ok(Some((fd, number))) => {
                            let flow = Arc::new(Flow {
                                fd,
                                flow: number,
                                bytes: AtomicU64::new(0),
                                since: clock::raw(),
                            });
                            flows.lock().unwrap_or_else(PoisonError::into_inner).push(flow.clone());
                            scope.spawn(move || drain(run, &flow));
                        }
                        Ok(None) => break,
                        Err(error) => {
                            *failure.lock().unwrap_or_else(PoisonError::into_inner) =
                                Some(format!("{error:#}"));
                            break;
                        }
                    }
                }
            });
            let pacer = Pacer::new(Pacing::Sleep);
            let tally = run.tally();
            let mut before: Vec<Before> = Vec::new();
            let mut next = clock::raw() + self.interval;
            loop {
                let alive = pacer.wait_until(next, &run.stop);
                let now = clock::raw();
                {
                    let flows = flows.lock().unwrap_or_else(PoisonError::into_inner);
                    before.extend(flows[before.len()..].iter().map(Before::new));
                }
                for flow in &mut before {
                    let row = flow.row(now, false);
                    if row.received_bytes > 0 {
                        tally.seen(row.received_bytes as u64);
                        rows.push(row);
                    }
                }
                if !alive {
                    break;
                }
                next += self.interval;
            }
        });
        let flows = flows.into_inner().unwrap_or_else(PoisonError::into_inner);
        report.add("received_bytes", flows.iter().map(|flow| flow.bytes.load(Ordering::Relaxed)).sum());
        report.add("connections", flows.len() as u64);
        report.failure = failure.into_inner().unwrap_or_else(PoisonError::into_inner);
        report.table(rows);
        report
    }
}

/// Reads until the connection or the role ends; after a stop, what has arrived already.
fn drain(run: &Run, flow: &Flow) {
    let mut buffer = vec![0; READ_BYTES];
    loop {
        let stopped = run.stopped();
        match tcp::read(&flow.fd, &mut buffer, if stopped { libc::MSG_DONTWAIT } else { 0 }) {
            Ok(0) => return,
            Ok(count) => {
                flow.bytes.fetch_add(count as u64, Ordering::Relaxed);
            }
            Err(error) if trouble(&error) == Trouble::Again && !stopped => {}
            Err(_) => return,
        }
    }
}
