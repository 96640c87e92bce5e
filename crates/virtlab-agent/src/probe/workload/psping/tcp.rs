//! `psping` over TCP: connections that are closed at once, or requests on one that is kept.

use super::totals::close;
use crate::probe::pacing::{Pacer, Pacing};
use crate::probe::parameters::Idle;
use crate::probe::report::Report;
use crate::probe::run::Run;
use crate::probe::socket;
use crate::probe::spool::Spool;
use crate::probe::waits::Waits;
use crate::probe::workload::tcp_rr::flags_of;
use crate::probe::workload::{Workload, tcp};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;
use virtlab_load::parameters::Buffers;
use virtlab_load::parameters::psping::RequestPlan;
use virtlab_system::clock;
use virtlab_wire::Nanos;
use virtlab_wire::rows::RequestRow;

/// `ping` over TCP: a connection each time, closed at once.
pub struct Connector {
    pub plan: RequestPlan,
    pub local: SocketAddr,
    pub peer: SocketAddr,
}

impl Connector {
    /// Instants before and after the handshake.
    fn connect(&self) -> anyhow::Result<(Nanos, Option<Nanos>)> {
        let fd = socket::open(socket::family(&self.peer), libc::SOCK_STREAM, 0)?;
        socket::bind(&fd, self.local)?;
        socket::set_timeout(&fd, libc::SO_SNDTIMEO, (self.plan.timeout.0 / 1000).max(1) as i64)?;
        let sent = clock::raw();
        let connected = socket::connect(&fd, self.peer).is_ok();
        Ok((sent, connected.then(clock::raw)))
    }
}

impl Workload for Connector {
    fn run(self: Box<Self>, run: &Run) -> Report {
        let mut report = Report::default();
        let pacer = Pacer::new(Pacing::Sleep);
        let Some(start) = run.wait_for_start(pacer) else { return report };
        let mut rows = Spool::new(&run.budget);
        let tally = run.tally();
        let (mut sent, mut answered, mut next) = (0, 0, start);
        let end = self.plan.end(start);
        while sent < self.plan.total && pacer.wait_until(next, &run.stop) && clock::raw() < end {
            let (began, finished) = match self.connect() {
                Ok(instants) => instants,
                Err(error) => {
                    report.failure = Some(format!("{error:#}"));
                    break;
                }
            };
            answered += u64::from(finished.is_some());
            tally.expect(1);
            if let Some(finished) = finished {
                tally.seen(0);
                tally.took(finished.since(began).0);
            }
            rows.push(RequestRow {
                seq: self.plan.seq(sent),
                sent_ns: began.0 as i64,
                finished_ns: finished.map_or(-1, |instant| instant.0 as i64),
                payload_bytes: 0,
            });
            sent += 1;
            next = began + self.plan.interval;
        }
        report.complete = report.failure.is_none() && !run.stopped();
        close(&mut report, &self.plan, rows, answered, sent);
        report
    }
}

/// `latency` and `bandwidth` over one TCP connection.
pub struct Client {
    pub plan: RequestPlan,
    pub local: SocketAddr,
    pub peer: SocketAddr,
    pub idle: Idle,
}

impl Workload for Client {
    fn run(self: Box<Self>, run: &Run) -> Report {
        let mut report = Report::default();
        let Some(start) = run.wait_for_start(Pacer::new(Pacing::Sleep)) else { return report };
        let began = clock::raw();
        let fd = match tcp::connect(run, self.local, self.peer, Buffers::default(), true, 0) {
            Ok(fd) => fd,
            Err(error) => {
                report.failure = (!run.stopped()).then(|| format!("{error:#}"));
                return report;
            }
        };
        report.add("connect_ns", clock::raw().since(began).0);
        let mut rows = Spool::new(&run.budget);
        let begun = clock::raw().max(start);
        let mut waits = Waits::new();
        let outcome = if self.plan.window == 1 {
            self.one_at_a_time(run, &fd, begun, &mut rows, &mut waits)
        } else {
            self.several(run, &fd, begun, &mut rows, &mut waits)
        };
        waits.close(&mut report);
        let answered = rows.len() as u64 + rows.overflowed;
        let sent = match outcome {
            Ok(sent) => sent,
            Err(error) => {
                report.failure = (!run.stopped()).then(|| format!("the connection broke: {error:#}"));
                answered
            }
        };
        report.complete = report.failure.is_none() && !run.stopped();
        report.add("retransmits", tcp::info(&fd).map_or(0, |info| info.retransmits));
        close(&mut report, &self.plan, rows, answered, sent);
        report
    }
}

impl Client {
    fn row(&self, k: u64, sent: Nanos, finished: Nanos) -> RequestRow {
        RequestRow {
            seq: self.plan.seq(k),
            sent_ns: sent.0 as i64,
            finished_ns: finished.0 as i64,
            payload_bytes: self.plan.payload_bytes(),
        }
    }

    fn one_at_a_time(
        &self,
        run: &Run,
        fd: &OwnedFd,
        begun: Nanos,
        rows: &mut Spool<RequestRow>,
        waits: &mut Waits,
    ) -> anyhow::Result<u64> {
        let request = vec![0x50; self.plan.sizes.0 as usize];
        let mut response = vec![0; self.plan.sizes.1 as usize];
        let pacer = Pacer::new(Pacing::Spin);
        let tally = run.tally();
        let (end, mut next) = (self.plan.end(begun), begun);
        for k in 0..self.plan.total {
            if !pacer.wait_until(next, &run.stop) || clock::raw() >= end {
                return Ok(k);
            }
            let sent = clock::raw();
            let answered = tcp::write_whole(run, fd, &request)?
                && tcp::read_whole_with(run, fd, &mut response, flags_of(self.idle))?;
            if !answered {
                anyhow::ensure!(run.stopped(), "the server closed it");
                return Ok(k);
            }
            let finished = clock::raw();
            rows.push(self.row(k, sent, finished));
            tally.seen(self.plan.sizes.1);
            tally.took(finished.since(sent).0);
            waits.dealt_with(finished, || tcp::since_data(fd));
            next = sent + self.plan.interval;
        }
        Ok(self.plan.total)
    }

    /// A writer that waits for room in the window, and this thread, which reads answers.
    fn several(
        &self,
        run: &Run,
        fd: &OwnedFd,
        begun: Nanos,
        rows: &mut Spool<RequestRow>,
        waits: &mut Waits,
    ) -> anyhow::Result<u64> {
        let mut response = vec![0; self.plan.sizes.1 as usize];
        let window = Window::default();
        let tally = run.tally();
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| self.write(run, fd, begun, &window));
            let mut k = 0;
            let heard = loop {
                let Some(sent) = window.oldest() else { break Ok(()) };
                match tcp::read_whole_with(run, fd, &mut response, flags_of(self.idle)) {
                    Ok(true) => {
                        let finished = clock::raw();
                        rows.push(self.row(k, sent, finished));
                        tally.seen(self.plan.sizes.1);
                        tally.took(finished.since(sent).0);
                        window.pop();
                        waits.dealt_with(finished, || tcp::since_data(fd));
                        k += 1;
                    }
                    Ok(false) if run.stopped() => break Ok(()),
                    Ok(false) => break Err(anyhow::anyhow!("the server closed it")),
                    Err(error) => break Err(error.into()),
                }
            };
            window.close();
            let sent = writer.join().map_err(|_| anyhow::anyhow!("its writer ended"))?;
            heard.and(sent)
        })
    }

    fn write(&self, run: &Run, fd: &OwnedFd, begun: Nanos, window: &Window) -> anyhow::Result<u64> {
        let request = vec![0x50; self.plan.sizes.0 as usize];
        let end = self.plan.end(begun);
        let mut sent = 0;
        while sent < self.plan.total && !run.stop.load(Ordering::Relaxed) && clock::raw() < end {
            if !window.push(self.plan.window, run) {
                break;
            }
            match tcp::write_whole(run, fd, &request) {
                Ok(true) => sent += 1,
                Ok(false) => break,
                Err(error) => {
                    window.close();
                    return Err(error.into());
                }
            }
        }
        window.last();
        Ok(sent)
    }
}

/// Instants of the requests under way, oldest first.
#[derive(Default)]
struct Window {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    under_way: VecDeque<Nanos>,
    /// No request will follow.
    complete: bool,
    /// No thread reads answers any more.
    closed: bool,
}

impl Window {
    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for room and begins a request; false if none exists to be begun.
    fn push(&self, room: u64, run: &Run) -> bool {
        let mut state = self.lock();
        while state.under_way.len() as u64 >= room {
            if state.closed || run.stopped() {
                return false;
            }
            let waited = self.changed.wait_timeout(state, Duration::from_millis(20));
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        state.under_way.push_back(clock::raw());
        self.changed.notify_all();
        !state.closed
    }

    /// When the oldest request began; waits for one; `None` if none exists and none will follow.
    fn oldest(&self) -> Option<Nanos> {
        let mut state = self.lock();
        loop {
            if let Some(sent) = state.under_way.front() {
                return Some(*sent);
            }
            if state.complete || state.closed {
                return None;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn pop(&self) {
        self.lock().under_way.pop_front();
        self.changed.notify_all();
    }

    fn last(&self) {
        self.lock().complete = true;
        self.changed.notify_all();
    }

    fn close(&self) {
        self.lock().closed = true;
        self.changed.notify_all();
    }
}
