//! Sending a numbered stream: at a rate, or as fast as the sender can.
//!
//! The loop knows nothing of sockets: a [`Batch`] fills and sends up to 64 packets at a time. At a rate, packets go
//! when they are due, several at once when several are; a call that turns out slow makes the next batch smaller, so
//! that the instants written into packets stay near the truth where the network pushes back. Lateness counts as a
//! pacing error only from the moment on at which this sender was free: waiting for the network is the network's.
//! Which flow's turn it is says a [`Split`]; all flows go from this one thread.

pub use crate::probe::batch::MOST as BATCH;
use crate::probe::pacing::Pacer;
use crate::probe::report::Report;
use crate::probe::run::Run;
use crate::probe::socket::{Trouble, trouble};
use crate::probe::spool::Spool;
use std::io;
use std::sync::atomic::Ordering;
use virtlab_load::Split;
use virtlab_load::schedule::Schedule;
use virtlab_system::clock;
use virtlab_wire::Nanos;
use virtlab_wire::rows::SentRow;

/// A send call longer than this halves the batch.
const SLOW_CALL: Nanos = Nanos(150_000);
/// What was due before the end still goes for so long after it: a sleep ends late by less.
const GRACE: Nanos = Nanos(200_000);
/// A packet due so shortly before the end is not missed (RFC 2544 search: "beyond 10 us worth").
const UNSENT_SLACK: Nanos = Nanos(10_000);
/// Flows beyond this number have no counters of their own.
pub const COUNTED_FLOWS: usize = 1024;

/// A packet's place in the stream.
#[derive(Clone, Copy, Debug)]
pub struct Numbered {
    /// Which flow.
    pub flow: u16,
    /// 0, 1, 2, ... within the flow.
    pub seq: u64,
    /// When it was handed over.
    pub sent: Nanos,
    /// When its schedule wanted it, if it has one.
    pub intended: Option<Nanos>,
}

/// Fills and sends packets.
pub trait Batch {
    /// Fills and sends them, at most [`BATCH`]; how many of the first the kernel took.
    ///
    /// # Errors
    /// When it took none.
    fn send(&mut self, packets: &[Numbered]) -> io::Result<usize>;
}

/// What is sent.
pub struct Stream {
    /// When packets are wanted.
    pub schedule: Schedule,
    /// The schedule at another rate, and the parameter that says so.
    pub tune: (&'static str, Box<dyn Fn(u64) -> Schedule + Send>),
    /// How long.
    pub duration: Nanos,
    /// The way it waits.
    pub pacer: Pacer,
    /// The flow of each packet.
    pub split: Split,
    /// Bytes that each packet counts.
    pub packet_bytes: u64,
    /// Whether a row per packet is kept.
    pub keep_sent: bool,
    /// Whether this is the thread of the role that says `started`.
    pub leads: bool,
}

impl Stream {
    /// Sends until the duration is over or the role stopped.
    pub fn send(mut self, run: &Run, batch: &mut impl Batch) -> Report {
        let mut report = Report::default();
        let mut rows: Spool<SentRow> = Spool::new(&run.budget);
        let start = if self.leads { run.wait_for_start(self.pacer) } else { run.wait_for_gate(self.pacer) };
        let Some(start) = start else {
            return report;
        };
        let mut sent = vec![0u64; usize::from(self.split.flows())];
        // Positions continue when the rate is changed; the schedule then counts from `base` and `origin` on.
        let (mut base, mut origin) = (0.0, start);
        let (mut limit, mut tuned) = (BATCH, 0);
        let mut free = start;
        // Due, or of a flood, and not yet taken by the kernel.
        let mut waiting: Vec<Numbered> = Vec::with_capacity(BATCH);
        let end = start + self.duration;
        while !run.stopped() {
            let changes = run.tuned_count.load(Ordering::Acquire);
            if changes != tuned {
                tuned = changes;
                if let Some(rate) = run.tuned(self.tune.0).and_then(|value| value.as_u64()) {
                    self.schedule = (self.tune.1)(rate);
                    (base, origin) = (self.split.peek().at, clock::raw());
                }
            }
            let flooding = matches!(self.schedule, Schedule::Flood);
            let now = clock::raw();
            if now >= end && (flooding || now >= end + GRACE) {
                report.complete = true;
                break;
            }
            let mut next = end;
            while waiting.len() < limit {
                let turn = self.split.peek();
                let intended = (!flooding).then(|| origin + self.schedule.offset_at(turn.at - base));
                next = intended.unwrap_or(now);
                if next > now || next >= end {
                    break;
                }
                waiting.push(Numbered { flow: turn.flow, seq: turn.seq, sent: now, intended });
                self.split.advance();
            }
            let count = waiting.len().min(limit);
            if count == 0 {
                if now >= end {
                    report.complete = true;
                    break;
                }
                self.pacer.wait_until(next.min(end), &run.stop);
                free = free.max(next.min(end));
                continue;
            }
            let before = clock::raw();
            waiting[..count].iter_mut().for_each(|packet| packet.sent = before);
            if let Some(intended) = waiting[0].intended {
                report.pacing.record(before.since(intended.max(free)));
            }
            match batch.send(&waiting[..count]) {
                Ok(taken) => {
                    for packet in waiting.drain(..taken) {
                        sent[usize::from(packet.flow)] += 1;
                        if self.keep_sent {
                            rows.push(self.row(&packet));
                        }
                    }
                }
                Err(error) => match trouble(&error) {
                    Trouble::Again => report.add("blocked_sends", 1),
                    Trouble::NoRoom => report.add("no_buffer_sends", 1),
                    Trouble::Refused => report.add("refused", 1),
                    Trouble::Fatal => {
                        report.add("send_errors", 1);
                        report.failure = Some(format!("cannot send: {error}"));
                        break;
                    }
                },
            }
            free = clock::raw();
            limit = if free.since(before) > SLOW_CALL { (count / 2).max(1) } else { (limit * 2).min(BATCH) };
        }
        let total: u64 = sent.iter().sum();
        report.add("sent_packets", total);
        report.add("sent_bytes", total * self.packet_bytes);
        report.add("sending_ns", clock::raw().since(start).0);
        report.add("send_errors", 0);
        let counted = (2..=COUNTED_FLOWS).contains(&sent.len());
        if counted {
            sent.iter().enumerate().for_each(|(flow, &sent)| report.add(&flow_counter("sent", flow), sent));
        }
        if report.complete
            && let Some(position) = self.schedule.position(end.since(origin + UNSENT_SLACK))
        {
            let due = self.split.before(base + position);
            let missing = due.iter().zip(&sent).map(|(due, sent)| due.saturating_sub(*sent));
            for (flow, missing) in missing.enumerate() {
                report.add("unsent_packets", missing);
                if counted {
                    report.add(&flow_counter("unsent", flow), missing);
                }
            }
        }
        if self.keep_sent {
            report.table(rows);
        }
        report
    }

    fn row(&self, place: &Numbered) -> SentRow {
        SentRow {
            seq: place.seq as i64,
            flow: i32::from(place.flow),
            intended_ns: place.intended.unwrap_or(place.sent).0 as i64,
            sent_ns: place.sent.0 as i64,
            payload_bytes: self.packet_bytes as i32,
        }
    }
}

/// Name of a counter of one flow: `flow3.sent_packets`.
pub fn flow_counter(kind: &str, flow: usize) -> String {
    format!("flow{flow}.{kind}_packets")
}
