//! `rtt` measured by `ping` of iputils: an alternative to this probe's own meter, and a cross-check of it.
//!
//! ping gives one line per reply with the instant and the time; it has no kernel stamps for the path and tells no
//! schedule, so `path_rtt_ns` is -1 and `intended_ns` is when it sent. Its own summary becomes counters.

use super::program;
use crate::probe::endpoint::version_of;
use crate::probe::pacing::{Pacer, Pacing};
use crate::probe::report::Report;
use crate::probe::run::Run;
use crate::probe::spool::Spool;
use crate::probe::stamps::StampClock;
use crate::probe::taint;
use crate::probe::workload::{Arming, Prepared, Side, StandBy, Workload, parse};
use anyhow::{Context, bail};
use std::path::PathBuf;
use virtlab_load::parameters::{Carrier, Rtt as Parameters};
use virtlab_load::schedule::Arrivals;
use virtlab_system::clock;
use virtlab_wire::Nanos;
use virtlab_wire::rows::RttRow;

/// ping writes its own instant into the payload, and measures nothing where it does not fit.
const LEAST_PAYLOAD_BYTES: u32 = 16;

/// Prepares either end; the far kernel answers.
pub fn prepare(arming: Arming<'_>) -> anyhow::Result<Prepared> {
    let parameters: Parameters = parse(&arming.own)?;
    parameters.check().context("parameters")?;
    if parameters.protocol != Carrier::Icmp {
        bail!("parameters.meter: ping measures protocol icmp only; use meter virtlab for udp");
    }
    if parameters.arrivals != Arrivals::Constant {
        bail!("parameters.arrivals: ping sends at constant intervals only; use meter virtlab");
    }
    if arming.side == Side::Server {
        return Ok(Prepared::fixed(StandBy));
    }
    let path = program::find("ping", "iputils-ping")?;
    let (local, peer) = (arming.local.ip("local")?, arming.peer.ip("peer")?);
    let size = parameters.size(version_of(peer), arming.local.mtu_bytes).context("parameters")?;
    if size.payload_bytes < LEAST_PAYLOAD_BYTES {
        bail!("parameters: ping measures no time with less than {LEAST_PAYLOAD_BYTES} B of payload");
    }
    if parameters.interval_ns < 1_000_000 {
        bail!("parameters.interval_ns: ping keeps no interval below 1 ms; use meter virtlab");
    }
    let seconds = |ns: u64| format!("{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000);
    let mut arguments: Vec<String> = ["-n", "-D", "-I"].map(str::to_owned).to_vec();
    arguments.extend([
        local.to_string(),
        if peer.is_ipv6() { "-6" } else { "-4" }.to_owned(),
        format!("-i{}", seconds(parameters.interval_ns)),
        format!("-s{}", size.payload_bytes),
        format!("-W{}", seconds(parameters.timeout_ns)),
        "-Mdont".to_owned(),
    ]);
    arguments.extend(parameters.count.map(|count| format!("-c{count}")));
    arguments.push(peer.to_string());
    let payload_bytes = u64::from(size.payload_bytes);
    Ok(Prepared::fixed(Ping { path, arguments, payload_bytes, timeout: Nanos(parameters.timeout_ns) }))
}

struct Ping {
    path: PathBuf,
    arguments: Vec<String>,
    payload_bytes: u64,
    timeout: Nanos,
}

impl Workload for Ping {
    fn run(self: Box<Self>, run: &Run) -> Report {
        let mut report = Report::default();
        if run.wait_for_start(Pacer::new(Pacing::Sleep)).is_none() {
            return report;
        }
        let mut clocks = StampClock::new();
        let output = match program::run(&self.path, &self.arguments, run) {
            Ok(output) => output,
            Err(error) => {
                report.failure = Some(format!("{error:#}"));
                return report;
            }
        };
        clocks.refresh(clock::raw());
        let mut rows: Spool<RttRow> = Spool::new(&run.budget);
        let mut seen = virtlab_load::meters::Sequence::default();
        for reply in output.text.lines().filter_map(reply_of) {
            let received_ns = clocks.raw_ns(Nanos(reply.realtime_ns));
            let sent_ns = received_ns - reply.rtt_ns;
            if seen.record(reply.seq) == virtlab_load::meters::Arrival::Duplicate {
                continue;
            }
            if reply.rtt_ns > self.timeout.0 as i64 {
                report.add("late_packets", 1);
                continue;
            }
            rows.push(RttRow {
                seq: reply.seq as i64,
                flow: 0,
                intended_ns: sent_ns,
                sent_ns,
                received_ns,
                rtt_ns: reply.rtt_ns,
                path_rtt_ns: -1,
            });
        }
        let received = rows.len() as u64 + rows.overflowed;
        for (name, value) in summary_of(&output.text) {
            report.add(name, value);
        }
        let sent = report.counters.get("sent_packets").copied().unwrap_or(0).max(0) as u64;
        report.add("sent_bytes", sent * self.payload_bytes);
        report.add("received_packets", received);
        report.add("received_bytes", received * self.payload_bytes);
        report.add("lost_packets", sent.saturating_sub(received));
        report.add("duplicate_packets", seen.duplicates);
        report.add("reordered_packets", seen.reordered);
        // ping fails when nothing is answered; that is a measurement.
        report.failure = output.failure.filter(|_| sent == 0);
        report.complete = report.failure.is_none() && !run.stopped();
        if clocks.steps > 0 {
            report.taint(
                taint::Kind::ClockStep,
                "the wall clock was set while ping measured with it".to_owned(),
            );
        }
        report.table(rows);
        report
    }
}

/// One line of ping.
#[derive(Debug, PartialEq, Eq)]
struct ReplyLine {
    seq: u64,
    realtime_ns: u64,
    rtt_ns: i64,
}

/// `[1700000000.123456] 64 bytes from 10.0.0.2: icmp_seq=1 ttl=64 time=0.034 ms`
fn reply_of(line: &str) -> Option<ReplyLine> {
    let (stamp, rest) = line.strip_prefix('[')?.split_once(']')?;
    let after = |key: &str| rest.split_once(key).and_then(|(_, value)| value.split_whitespace().next());
    let seq: u64 = after("icmp_seq=")?.parse().ok()?;
    Some(ReplyLine {
        // ping counts from 1.
        seq: seq.checked_sub(1)?,
        realtime_ns: decimal(stamp, 9)?,
        rtt_ns: decimal(after("time=")?, 6)? as i64,
    })
}

/// A decimal number times ten to the `places`, exactly.
fn decimal(text: &str, places: usize) -> Option<u64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits: String = fraction.chars().chain(std::iter::repeat('0')).take(places).collect();
    whole.parse::<u64>().ok()?.checked_mul(10u64.pow(places as u32))?.checked_add(digits.parse().ok()?)
}

/// Counters of the last lines: `40 packets transmitted, 39 received, ...`, `rtt min/avg/max/mdev = 1/2/3/4 ms`.
fn summary_of(text: &str) -> Vec<(&'static str, u64)> {
    let mut found = Vec::new();
    for line in text.lines() {
        if let Some(sent) = line.split_once(" packets transmitted").and_then(|(sent, _)| sent.parse().ok()) {
            found.push(("sent_packets", sent));
        }
        if let Some(values) = line.strip_prefix("rtt min/avg/max/mdev = ") {
            let names = ["ping_min_ns", "ping_avg_ns", "ping_max_ns", "ping_mdev_ns"];
            let values = values.split_whitespace().next().unwrap_or_default().split('/');
            found.extend(
                names.into_iter().zip(values).filter_map(|(name, value)| Some((name, decimal(value, 6)?))),
            );
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_reply_line_gives_number_instant_and_time_exactly() {
        let line = "[1700000000.123456] 64 bytes from 10.0.0.2: icmp_seq=3 ttl=64 time=0.034 ms";
        let wanted = ReplyLine { seq: 2, realtime_ns: 1_700_000_000_123_456_000, rtt_ns: 34_000 };
        assert_eq!(reply_of(line), Some(wanted));
        assert_eq!(reply_of("[1.5] From 10.0.0.9 icmp_seq=1 Destination Host Unreachable"), None);
    }

    #[test]
    fn the_summary_becomes_counters() {
        let text = "3 packets transmitted, 2 received, +1 duplicates, 33% packet loss, time 2040ms\n\
                    rtt min/avg/max/mdev = 0.030/0.045/1.050/0.500 ms\n";
        assert_eq!(
            summary_of(text),
            [
                ("sent_packets", 3),
                ("ping_min_ns", 30_000),
                ("ping_avg_ns", 45_000),
                ("ping_max_ns", 1_050_000),
                ("ping_mdev_ns", 500_000)
            ]
        );
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in ".*") {
            let _ = (reply_of(&text), summary_of(&text));
        }
    }
}
