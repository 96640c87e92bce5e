//! What a receiver keeps of a numbered stream: a row per packet, and per flow what is missing, doubled, out of order.

use super::paced::{COUNTED_FLOWS, flow_counter};
use crate::probe::live::Tally;
use crate::probe::report::{Report, STALL};
use crate::probe::run::Run;
use crate::probe::spool::Spool;
use crate::probe::stamps::StampClock;
use crate::probe::taint;
use std::sync::Arc;
use virtlab_load::meters::{Arrival, Jitter, Sequence};
use virtlab_wire::Nanos;
use virtlab_wire::probe_header::{ProbeHeader, Purpose};
use virtlab_wire::rows::PacketRow;

/// Arrivals of one role.
pub struct Arrivals {
    rows: Spool<PacketRow>,
    tally: Arc<Tally>,
    stamps: StampClock,
    flows: Vec<Sequence>,
    jitter: Jitter,
    bytes: u64,
    strangers: u64,
    stalls: Option<u64>,
    unstamped: u64,
}

impl Arrivals {
    /// Of a role with `flows` flows. `wakes_at_once`: user space is woken for each packet, so a long way from the
    /// kernel to it is a stall.
    pub fn new(run: &Run, flows: usize, wakes_at_once: bool) -> Self {
        Self {
            rows: Spool::new(&run.budget),
            tally: run.tally(),
            stamps: StampClock::new(),
            flows: vec![Sequence::default(); flows.max(1)],
            jitter: Jitter::default(),
            bytes: 0,
            strangers: 0,
            stalls: wakes_at_once.then_some(0),
            unstamped: 0,
        }
    }

    /// A receive call returned at `user`.
    pub fn awake(&mut self, user: Nanos) {
        self.stamps.refresh(user);
    }

    /// A packet that is not this role's.
    pub fn stranger(&mut self) {
        self.strangers += 1;
    }

    /// Takes one packet whose counted part has `bytes`; true when it belongs to the role.
    #[inline]
    pub fn take(&mut self, payload: &[u8], bytes: usize, stamp: Option<Nanos>, user: Nanos) -> bool {
        let header = ProbeHeader::read(payload).filter(|header| header.purpose == Purpose::Data);
        let Some((header, flow)) =
            header.and_then(|header| self.flows.get_mut(usize::from(header.flow)).map(|flow| (header, flow)))
        else {
            self.strangers += u64::from(!payload.is_empty());
            return false;
        };
        let received_ns = match stamp {
            Some(stamp) => self.stamps.raw_ns(stamp),
            None => {
                self.unstamped += 1;
                user.0 as i64
            }
        };
        if let Some(stalls) = &mut self.stalls {
            *stalls += u64::from(user.0 as i64 - received_ns > STALL.0 as i64);
        }
        let expected = flow.next_expected();
        if flow.record(header.seq) != Arrival::Duplicate {
            self.bytes += bytes as u64;
            self.tally.seen(bytes as u64);
            self.tally.expect(flow.next_expected().saturating_sub(expected));
        }
        self.jitter.record(header.sent.0 as i64, received_ns);
        self.rows.push(PacketRow {
            seq: header.seq as i64,
            flow: i32::from(header.flow),
            sent_ns: header.sent.0 as i64,
            received_ns,
            user_ns: user.0 as i64,
            payload_bytes: bytes as i32,
        });
        true
    }

    /// Everything into the report.
    pub fn close(self, report: &mut Report) {
        let sum = |of: fn(&Sequence) -> u64| self.flows.iter().map(of).sum::<u64>();
        report.add("received_packets", sum(|flow| flow.received));
        report.add("received_bytes", self.bytes);
        report.add("duplicate_packets", sum(|flow| flow.duplicates));
        report.add("reordered_packets", sum(|flow| flow.reordered));
        report.add("missing_packets", sum(|flow| flow.lost(flow.next_expected())));
        if (2..=COUNTED_FLOWS).contains(&self.flows.len()) {
            for (number, flow) in self.flows.iter().enumerate() {
                report.add(&flow_counter("received", number), flow.received);
                report.add(&flow_counter("duplicate", number), flow.duplicates);
                report.add(&flow_counter("reordered", number), flow.reordered);
            }
        }
        report.add("stranger_packets", self.strangers);
        report.add("unstamped_packets", self.unstamped);
        if let Some(stalls) = self.stalls {
            report.add("receive_stalls", stalls);
        }
        if let Some(jitter) = self.jitter.ns() {
            report.add("jitter_rfc3550_ns", jitter as u64);
        }
        if self.stamps.steps > 0 {
            report.taint(
                taint::Kind::ClockStep,
                "the wall clock was set while packets were stamped with it".to_owned(),
            );
        }
        report.table(self.rows);
    }
}
