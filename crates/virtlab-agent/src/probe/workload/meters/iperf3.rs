//! `udp_stream` and `tcp_stream` measured by `iperf3`: an alternative to this probe's own meters, and a cross-check.
//!
//! iperf3 tells sums per interval, not packets, so a role has `interval/1` rows and counters only. Its clock is its
//! own: interval instants count from the start of the program, which precedes the first byte by the connection's
//! set-up. iperf3's rate is of payload; the role's is of IP packets, and is converted. What iperf3 calls lost includes
//! what its own socket buffer dropped.
//!
//! Its server opens its own sockets and has no option for who may connect. So it listens at the role's address, for one
//! test; until the peer is the only one connected, it is killed and started again when a stranger connects; and the
//! hosts that it says it measured must be the peer. A stranger can make a role fail so, and is in no result.

use super::connections::{self, Connections};
use super::program;
use crate::probe::endpoint::version_of;
use crate::probe::pacing::{Pacer, Pacing, sleep};
use crate::probe::report::Report;
use crate::probe::run::Run;
use crate::probe::socket;
use crate::probe::spool::Spool;
use crate::probe::workload::{Arming, Prepared, Side, Workload, parse};
use anyhow::Context;
use serde_json::Value;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use virtlab_load::Transport;
use virtlab_load::parameters::{TcpStream, UdpStream};
use virtlab_load::schedule::Arrivals;
use virtlab_wire::Nanos;
use virtlab_wire::rows::IntervalRow;

/// iperf3's server may need a moment to listen.
const CONNECT_TRIES: usize = 20;
/// Between two rows of a connection: `-i 0.1`.
const INTERVAL_NS: u64 = 100_000_000;
/// What its client says when it found no server, or one that a stranger kept.
const NOT_SERVED: [&str; 4] =
    ["unable to connect", "the server is busy", "closed unexpectedly", "Connection reset by peer"];

/// Prepares either end of a UDP stream.
pub fn prepare_udp(arming: Arming<'_>) -> anyhow::Result<Prepared> {
    let parameters: UdpStream = parse(&arming.own)?;
    parameters.check().context("parameters")?;
    anyhow::ensure!(
        parameters.arrivals == Arrivals::Constant && !parameters.keep_sent,
        "parameters: iperf3 neither draws 'arrivals' nor keeps rows of what it sent; use meter virtlab"
    );
    let peer = arming.peer.ip("peer")?;
    let size = parameters
        .packet()
        .resolve(Transport::Udp, version_of(peer), arming.local.mtu_bytes)
        .context("parameters")?;
    let rate = parameters.rate_bit_per_s.map_or(0, |rate| {
        (u128::from(rate) * u128::from(size.payload_bytes) / u128::from(size.ip_packet_bytes)) as u64
    });
    let mut arguments = vec![
        "-u".to_owned(),
        "-b".to_owned(),
        rate.to_string(),
        "-l".to_owned(),
        size.payload_bytes.to_string(),
    ];
    alike(parameters.send_buffer_bytes, parameters.receive_buffer_bytes)?;
    arguments.extend(
        parameters.send_buffer_bytes.into_iter().flat_map(|bytes| ["-w".to_owned(), bytes.to_string()]),
    );
    prepare(&arming, arguments, parameters.duration_ns, true)
}

/// Prepares either end of a TCP stream.
pub fn prepare_tcp(arming: Arming<'_>) -> anyhow::Result<Prepared> {
    let parameters: TcpStream = parse(&arming.own)?;
    parameters.check().context("parameters")?;
    anyhow::ensure!(
        parameters.interval_ns == INTERVAL_NS,
        "parameters.interval_ns: of iperf3 it is 100 ms; use meter virtlab"
    );
    let mut arguments = Vec::new();
    alike(parameters.send_buffer_bytes, parameters.receive_buffer_bytes)?;
    let streams = u64::from(parameters.streams);
    let pairs =
        [("-l", Some(parameters.message_bytes)), ("-w", parameters.send_buffer_bytes), ("-P", Some(streams))];
    for (option, value) in pairs {
        arguments.extend(value.into_iter().flat_map(|value| [option.to_owned(), value.to_string()]));
    }
    arguments.extend(parameters.no_delay.then(|| "-N".to_owned()));
    if let Some(congestion_control) = parameters.congestion_control {
        arguments.extend(["-C".to_owned(), congestion_control.kernel_name().to_owned()]);
    }
    prepare(&arming, arguments, parameters.duration_ns, false)
}

/// It has one option for both.
fn alike(send_bytes: Option<u64>, receive_bytes: Option<u64>) -> anyhow::Result<()> {
    anyhow::ensure!(
        send_bytes == receive_bytes,
        "parameters: iperf3 sets both socket buffers alike; give both the same size, or use meter virtlab"
    );
    Ok(())
}

fn prepare(
    arming: &Arming<'_>,
    own: Vec<String>,
    duration_ns: Option<u64>,
    udp: bool,
) -> anyhow::Result<Prepared> {
    let duration_ns = duration_ns.context("parameters.duration_ns is missing; iperf3 sends for a time")?;
    let path = program::find("iperf3", "iperf3")?;
    let (local, peer) = (arming.local.ip("local")?, arming.peer.ip("peer")?);
    let mut arguments: Vec<String> =
        vec!["-J".into(), "-B".into(), local.to_string(), "-i".into(), "0.1".into()];
    let port = match arming.side {
        Side::Server => free_port(SocketAddr::new(local, arming.local.port.unwrap_or(0)))?,
        Side::Client => arming.peer_port()?,
    };
    arguments.extend(["-p".to_owned(), port.to_string()]);
    match arming.side {
        Side::Server => arguments.extend(["-s".to_owned(), "-1".to_owned()]),
        Side::Client => {
            arguments.extend(["-c".to_owned(), peer.to_string(), "-t".to_owned()]);
            // iperf3 takes whole seconds.
            arguments.push(duration_ns.div_ceil(1_000_000_000).max(1).to_string());
            arguments.extend(own);
        }
    }
    Ok(Prepared::fixed(Iperf3 { path, arguments, port, peer, side: arming.side, udp }))
}

/// A port that is free now; the program binds it a moment later.
fn free_port(address: SocketAddr) -> anyhow::Result<u16> {
    let fd = socket::open(socket::family(&address), libc::SOCK_STREAM, 0)?;
    socket::bind(&fd, address).with_context(|| format!("cannot bind TCP {address}"))?;
    Ok(socket::local_address(&fd)?.port())
}

struct Iperf3 {
    path: PathBuf,
    arguments: Vec<String>,
    port: u16,
    peer: IpAddr,
    side: Side,
    udp: bool,
}

impl Iperf3 {
    /// Whether the server must be started again, because a stranger is connected to it.
    fn is_kept_by_a_stranger(&self, served: &mut bool) -> bool {
        if *served || self.side == Side::Client {
            return false;
        }
        let Connections { peer, others } = connections::at(self.port, self.peer);
        *served = peer && !others;
        others
    }
}

impl Workload for Iperf3 {
    fn port(&self) -> Option<u16> {
        (self.side == Side::Server).then_some(self.port)
    }

    fn run(self: Box<Self>, run: &Run) -> Report {
        let mut report = Report::default();
        if self.side == Side::Client && run.wait_for_start(Pacer::new(Pacing::Sleep)).is_none() {
            return report;
        }
        let mut rows = Spool::new(&run.budget);
        for attempt in 1.. {
            let (mut served, mut kept) = (false, false);
            let stranger = || {
                kept = self.is_kept_by_a_stranger(&mut served);
                kept
            };
            let output = match program::run_unless(&self.path, &self.arguments, run, stranger) {
                Ok(output) => output,
                Err(error) => {
                    report.failure = Some(format!("{error:#}"));
                    break;
                }
            };
            let document: Value = serde_json::from_str(&output.text).unwrap_or_default();
            let complaint = document.get("error").and_then(Value::as_str).map(str::to_owned);
            let said = |words: &[&str]| {
                complaint.as_deref().is_some_and(|text| words.iter().any(|word| text.contains(word)))
            };
            let whose = measured(&document);
            let of_a_stranger = self.side == Side::Server
                && whose.first().map_or(kept || said(&["client"]), |host| *host != self.peer);
            let not_served = self.side == Side::Client && attempt < CONNECT_TRIES && said(&NOT_SERVED);
            if (of_a_stranger || not_served) && !run.stopped() {
                sleep(Nanos(30_000_000));
                continue;
            }
            if of_a_stranger {
                break;
            }
            if let Some(host) = whose.iter().find(|host| self.side == Side::Server && **host != self.peer) {
                report.failure =
                    Some(format!("iperf3's server measured {host}, which is not this role's other end"));
                break;
            }
            take(&document, output.started, self.side, self.udp, &mut report, &mut rows);
            if !run.stopped() {
                report.failure = complaint.map(|text| format!("iperf3: {text}")).or(output.failure);
            }
            break;
        }
        report.complete = self.side == Side::Client && report.failure.is_none() && !run.stopped();
        report.table(rows);
        if self.side == Side::Server && report.failure.is_none() {
            run.wait_for_stop();
        }
        report
    }
}

/// The hosts that took part in a server's test: of the control connection, then of each stream.
fn measured(document: &Value) -> Vec<IpAddr> {
    let start = document.get("start").unwrap_or(&Value::Null);
    let control = start.get("accepted_connection").and_then(|connection| connection.get("host"));
    let streams = start.get("connected").and_then(Value::as_array).into_iter().flatten();
    let hosts = control.into_iter().chain(streams.filter_map(|stream| stream.get("remote_host")));
    hosts
        .filter_map(|host| host.as_str().and_then(|text| text.parse::<IpAddr>().ok()))
        .map(|host| host.to_canonical())
        .collect()
}

/// Rows and counters of iperf3's JSON.
fn take(
    document: &Value,
    started: Nanos,
    side: Side,
    udp: bool,
    report: &mut Report,
    rows: &mut Spool<IntervalRow>,
) {
    let number = |value: &Value, name: &str| value.get(name).and_then(Value::as_f64).unwrap_or(0.0);
    let list =
        |value: &Value, name: &str| value.get(name).and_then(Value::as_array).cloned().unwrap_or_default();
    let segment_bytes = number(document.get("start").unwrap_or(&Value::Null), "tcp_mss_default").max(1.0);
    let sender = side == Side::Client;
    for interval in list(document, "intervals") {
        for (flow, stream) in list(&interval, "streams").iter().enumerate() {
            let instant = |name| started.0 as i64 + (number(stream, name) * 1e9) as i64;
            let bytes = number(stream, "bytes") as i64;
            rows.push(IntervalRow {
                flow: flow as i32,
                begin_ns: instant("start"),
                end_ns: instant("end"),
                received_bytes: if sender { 0 } else { bytes },
                sent_bytes: if sender { bytes } else { 0 },
                retransmits: number(stream, "retransmits") as i64,
                srtt_ns: (number(stream, "rtt") * 1e3) as i64,
                cwnd_packets: (number(stream, "snd_cwnd") / segment_bytes) as i64,
            });
        }
    }
    let end = document.get("end").unwrap_or(&Value::Null);
    let part = |name: &str| end.get(name).unwrap_or(&Value::Null);
    match (udp, sender) {
        (true, true) => {
            report.add("sent_packets", number(part("sum"), "packets") as u64);
            report.add("sent_bytes", number(part("sum"), "bytes") as u64);
        }
        (true, false) => {
            let (packets, lost) = (number(part("sum"), "packets"), number(part("sum"), "lost_packets"));
            report.add("received_packets", (packets - lost).max(0.0) as u64);
            report.add(
                "received_bytes",
                number(part("sum_received"), "bytes").max(number(part("sum"), "bytes")) as u64,
            );
            report.add("iperf3_lost_packets", lost.max(0.0) as u64);
            report.add("jitter_rfc3550_ns", (number(part("sum"), "jitter_ms") * 1e6) as u64);
        }
        (false, true) => {
            report.add("sent_bytes", number(part("sum_sent"), "bytes") as u64);
            report.add("retransmits", number(part("sum_sent"), "retransmits") as u64);
        }
        (false, false) => report.add("received_bytes", number(part("sum_received"), "bytes") as u64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_hosts_of_a_test_are_those_of_its_control_connection_and_its_streams() {
        let document = json!({"start": {
            "accepted_connection": {"host": "::ffff:10.0.0.1", "port": 9},
            "connected": [{"remote_host": "10.0.0.1"}, {"remote_host": "10.0.0.66"}],
        }});
        let hosts: Vec<IpAddr> =
            ["10.0.0.1", "10.0.0.1", "10.0.0.66"].map(|text| text.parse().unwrap()).to_vec();
        assert_eq!(measured(&document), hosts);
        assert_eq!(measured(&json!({"error": "unable to receive parameters"})), Vec::<IpAddr>::new());
    }
}
