//! `psping` over UDP: one thread sends while the window has room and takes answers; what is not answered in time is
//! lost.

use super::totals::close;
use crate::probe::pacing::{Pacer, Pacing};
use crate::probe::report::Report;
use crate::probe::run::Run;
use crate::probe::socket::{self, Inbox, Trouble, trouble};
use crate::probe::spool::Spool;
use crate::probe::waits::Waits;
use crate::probe::workload::rtt::Reflector;
use crate::probe::workload::{Arming, Prepared, Side, Workload};
use anyhow::Context;
use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use virtlab_load::parameters::psping::RequestPlan;
use virtlab_system::clock;
use virtlab_wire::Nanos;
use virtlab_wire::probe_header::{ProbeHeader, Purpose};
use virtlab_wire::rows::RequestRow;

/// A receive waits at most so long, to see what is due.
const WAIT_US: i64 = 20_000;

/// Prepares either end.
///
/// # Errors
/// When a socket cannot be had.
pub fn prepare(arming: &Arming<'_>, plan: RequestPlan) -> anyhow::Result<Prepared> {
    if arming.side == Side::Server {
        return Ok(Prepared::fixed(Reflector::prepare(arming, Some(plan.sizes.1 as usize))?));
    }
    let (local, peer) = arming.ends()?;
    let fd = socket::udp(local, false).with_context(|| format!("cannot bind UDP {local}"))?;
    socket::connect(&fd, peer).with_context(|| format!("cannot reach {peer}"))?;
    socket::set_buffer(&fd, true, 8 << 20)?;
    socket::stamp_receives(&fd)?;
    Ok(Prepared::fixed(Client { plan, fd }))
}

struct Client {
    plan: RequestPlan,
    fd: OwnedFd,
}

impl Client {
    fn row(&self, k: u64, sent: Nanos, finished: Option<Nanos>) -> RequestRow {
        RequestRow {
            seq: self.plan.seq(k),
            sent_ns: sent.0 as i64,
            finished_ns: finished.map_or(-1, |instant| instant.0 as i64),
            payload_bytes: self.plan.payload_bytes(),
        }
    }
}

impl Workload for Client {
    fn run(self: Box<Self>, run: &Run) -> Report {
        let mut report = Report::default();
        let pacer = Pacer::new(Pacing::Spin);
        let Some(start) = run.wait_for_start(pacer) else { return report };
        let mut rows = Spool::new(&run.budget);
        let tally = run.tally();
        let mut request = vec![0x50; self.plan.sizes.0 as usize];
        let mut inbox = Inbox::new();
        let mut waits = Waits::new();
        let mut under_way: BTreeMap<u64, Nanos> = BTreeMap::new();
        let (mut sent, mut answered, mut late, mut drops, mut next) = (0u64, 0u64, 0u64, 0, start);
        let end = self.plan.end(start);
        while !run.stopped() && report.failure.is_none() {
            let now = clock::raw();
            // Requests end in the order of their numbers or not at all, so the first is the oldest.
            while let Some((&k, &at)) = under_way.first_key_value()
                && now.since(at) > self.plan.timeout
            {
                rows.push(self.row(k, at, None));
                tally.expect(1);
                under_way.remove(&k);
            }
            let over = sent == self.plan.total || now >= end;
            if over && under_way.is_empty() {
                break;
            }
            if !over && (under_way.len() as u64) < self.plan.window {
                if !pacer.wait_until(next, &run.stop) {
                    break;
                }
                let at = clock::raw();
                ProbeHeader { purpose: Purpose::Data, flow: 0, seq: sent, sent: at, intended: None }
                    .write(&mut request);
                match socket::send(self.fd.as_fd(), &request, None) {
                    Ok(()) => {
                        under_way.insert(sent, at);
                        sent += 1;
                        next = at + self.plan.interval;
                    }
                    Err(error) if trouble(&error) == Trouble::Fatal => {
                        report.failure = Some(format!("cannot send: {error}"));
                    }
                    Err(_) => report.add("blocked_sends", 1),
                }
                continue;
            }
            if let Err(error) = socket::set_timeout(&self.fd, libc::SO_RCVTIMEO, WAIT_US) {
                report.failure = Some(error.to_string());
            }
            match inbox.receive(self.fd.as_fd(), 0) {
                Ok(message) => {
                    let finished = clock::raw();
                    drops = message.drops.unwrap_or(drops);
                    let seq = ProbeHeader::read(message.bytes).map(|header| header.seq);
                    match seq.and_then(|k| under_way.remove(&k).map(|at| (k, at))) {
                        Some((k, at)) => {
                            rows.push(self.row(k, at, Some(finished)));
                            tally.seen(message.bytes.len() as u64);
                            tally.expect(1);
                            tally.took(finished.since(at).0);
                            answered += 1;
                        }
                        None => late += 1,
                    }
                    waits.dealt_with_datagram(finished, message.stamp);
                }
                Err(error) if trouble(&error) == Trouble::Fatal => {
                    report.failure = Some(format!("cannot receive: {error}"));
                }
                Err(_) => {}
            }
        }
        report.complete = report.failure.is_none() && !run.stopped();
        report.add("late_answers", late);
        report.add("socket_drops", u64::from(drops));
        waits.close(&mut report);
        close(&mut report, &self.plan, rows, answered, sent);
        report
    }
}
