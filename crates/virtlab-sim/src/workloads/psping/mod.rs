//! `psping`: PsPing's tests as the testbed's probe plays them, over what the network carries here.
//!
//! - `requests`: latency and bandwidth over one TCP connection;
//! - `datagrams`: the same over UDP, where what is not answered in time is lost;
//! - `connects`: a ping over TCP, which is a handshake;
//! - a ping over ICMP is the echo of `rtt`.

mod connects;
mod datagrams;
mod requests;

use crate::input::{Finding, Role};
use crate::network::Network;
use crate::samples::{RequestRow, Table};
use crate::workloads::rtt::Rtt;
use crate::workloads::workload::{Counters, Workload, finding, parse};
use connects::Connects;
use datagrams::Datagrams;
use requests::Requests;
use serde_json::{Map, Value, json};
use virtlab_load::Transport;
use virtlab_load::parameters::psping::{Asked, Psping, Test};

/// Prepares both ends.
pub fn new(index: usize, role: &Role, network: &mut Network) -> Result<Box<dyn Workload>, Finding> {
    let own: Psping = parse(role)?;
    let asked = own.asked().map_err(|error| finding(role, &error.to_string()))?;
    Ok(match (own.protocol, own.test) {
        (Transport::Icmp, _) => Box::new(Rtt::new(index, &echoes(role, &own), network)?),
        (Transport::Udp, _) => Box::new(Datagrams::new(index, role, asked, network)?),
        (Transport::Tcp, Test::Ping) => Box::new(Connects::new(index, role, asked)),
        (Transport::Tcp, _) => Box::new(Requests::new(index, role, asked, network)?),
    })
}

/// ICMP echoes are those of `rtt`: one after another, or at the interval.
fn echoes(role: &Role, own: &Psping) -> Role {
    let parameters: Map<String, Value> = [
        ("protocol", json!("icmp")),
        ("payload_bytes", json!(own.request_bytes)),
        ("interval_ns", json!(own.interval_ns)),
        ("count", json!(own.count + own.warmup)),
        ("timeout_ns", json!(own.timeout_ns)),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_owned(), value))
    .collect();
    Role { parameters, ..role.clone() }
}

/// A request that is over, or lost without `finished_ns`.
fn row(asked: &Asked, k: u64, sent_ns: u64, finished_ns: Option<u64>) -> RequestRow {
    RequestRow {
        seq: asked.seq(k),
        sent_ns: sent_ns as i64,
        finished_ns: finished_ns.map_or(-1, |instant| instant as i64),
        payload_bytes: asked.payload_bytes(),
    }
}

/// What every test counts, as the probe does.
fn report(
    stream: &str,
    asked: &Asked,
    rows: &[RequestRow],
    sent: u64,
    more: &[(&'static str, u64)],
    server: Vec<(&'static str, u64)>,
) -> (Vec<Table>, Counters) {
    let answered = rows.iter().filter(|row| row.finished_ns >= 0).count() as u64;
    let mut client = vec![
        ("sent_requests", sent),
        ("answered_requests", answered),
        ("sent_bytes", sent * asked.sizes.0),
        ("received_bytes", answered * asked.sizes.1),
        ("unsent_requests", asked.total - sent),
        ("send_errors", 0),
    ];
    client.extend(more);
    (RequestRow::table(stream, rows).into_iter().collect(), [client, server])
}
