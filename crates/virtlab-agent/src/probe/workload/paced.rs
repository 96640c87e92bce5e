//! Sending a numbered stream: at a rate, or as fast as the sender can.
//!
//! The loop knows nothing of sockets: a [`Batch`] fills and sends up to 64 packets at a time. At a rate, packets go when
//! they are due, several at once when several are; a call that turns out slow makes the next batch smaller, so that the
//! instants written into packets stay near the truth where the network pushes back. Lateness counts as a pacing error
//! only from the moment on at which this sender was free: waiting for the network is the network's.

use crate::clock;
use crate::probe::pacing::Pacer;
use crate::probe::report::Report;
use crate::probe::run::Run;
use crate::probe::socket::{Trouble, trouble};
use crate::probe::spool::{SentRow, Spool};
use std::io;
use std::sync::atomic::Ordering;
use virtlab_load::schedule::Schedule;
use virtlab_wire::Nanos;

/// Most packets in one system call.
pub const BATCH: usize = 64;
/// A send call longer than this halves the batch.
const SLOW_CALL: Nanos = Nanos(150_000);

/// A packet's place in the stream.
#[derive(Clone, Copy, Debug)]
pub struct Numbered {
    /// 0, 1, 2, ... over all flows.
    pub number: u64,
    /// When it was handed over.
    pub sent: Nanos,
    /// When its schedule wanted it, if it has one.
    pub intended: Option<Nanos>,
}

/// Fills and sends packets.
pub trait Batch {
    /// Fills packet `index` of the batch.
    fn fill(&mut self, index: usize, packet: Numbered);
    /// Sends the first `count`; how many the kernel took.
    ///
    /// # Errors
    /// When it took none.
    fn send(&mut self, count: usize) -> io::Result<usize>;
}

/// What is sent.
pub struct Stream {
    /// When packets are wanted.
    pub schedule: Schedule,
    /// The schedule at another rate, and the parameter that says so.
    pub tune: (&'static str, Box<dyn Fn(u64) -> Schedule + Send>),
    /// How long.
    pub duration: Nanos,
    /// How it waits.
    pub pacer: Pacer,
    /// Flows, served in turn.
    pub flows: u64,
    /// Bytes that each packet counts.
    pub packet_bytes: u64,
    /// Whether a row per packet is kept.
    pub keep_sent: bool,
}

impl Stream {
    /// Sends until the duration is over or the role stopped.
    pub fn send(mut self, run: &Run, batch: &mut impl Batch) -> Report {
        let mut report = Report::default();
        let mut rows: Spool<SentRow> = Spool::new(&run.budget);
        let Some(start) = run.wait_for_start(self.pacer) else {
            return report;
        };
        // Numbers go on when the rate is changed; the schedule then counts from `base` and `origin` on.
        let (mut sent, mut base, mut origin) = (0u64, 0u64, start);
        let (mut limit, mut tuned) = (BATCH, 0);
        let mut free = start;
        let mut places = [Numbered { number: 0, sent: start, intended: None }; BATCH];
        let end = start + self.duration;
        while !run.stopped() {
            let changes = run.tuned_count.load(Ordering::Acquire);
            if changes != tuned {
                tuned = changes;
                if let Some(rate) = run.tuned(self.tune.0).and_then(|value| value.as_u64()) {
                    self.schedule = (self.tune.1)(rate);
                    (base, origin) = (sent, clock::raw());
                }
            }
            let flooding = matches!(self.schedule, Schedule::Flood);
            let now = clock::raw();
            if now >= end {
                report.complete = true;
                break;
            }
            let due = self.schedule.due(now.since(origin)).unwrap_or(0).saturating_sub(sent - base);
            let intended = origin + self.schedule.offset(sent - base);
            if due == 0 {
                self.pacer.wait_until(intended.min(end), &run.stop);
                free = free.max(intended.min(end));
                continue;
            }
            let count = due.min(limit as u64) as usize;
            for (index, number) in (sent..).take(count).enumerate() {
                let intended = (!flooding).then(|| origin + self.schedule.offset(number - base));
                places[index] = Numbered { number, sent: clock::raw(), intended };
                batch.fill(index, places[index]);
            }
            let before = places[0].sent;
            if !flooding {
                report.pacing.record(before.since(intended.max(free)));
            }
            match batch.send(count) {
                Ok(taken) => {
                    if self.keep_sent {
                        places[..taken].iter().for_each(|place| rows.push(self.row(place)));
                    }
                    sent += taken as u64;
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
        report.add("sent_packets", sent);
        report.add("sent_bytes", sent * self.packet_bytes);
        report.add("sending_ns", clock::raw().since(start).0);
        report.add("send_errors", 0);
        if report.complete
            && let Some(intended) = self.schedule.due(end.since(origin)).filter(|due| *due < u64::MAX)
        {
            // The packet that is due at the very end is not part of the stream.
            report.add("unsent_packets", (intended + base).saturating_sub(sent + 1));
        }
        if self.keep_sent {
            report.table(rows);
        }
        report
    }

    fn row(&self, place: &Numbered) -> SentRow {
        SentRow {
            seq: (place.number / self.flows) as i64,
            flow: (place.number % self.flows) as i32,
            intended_ns: place.intended.unwrap_or(place.sent).0 as i64,
            sent_ns: place.sent.0 as i64,
            payload_bytes: self.packet_bytes as i32,
        }
    }
}
