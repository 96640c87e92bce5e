//! `psping`: PsPing's tests as the testbed's probe plays them, over what the network carries here.
//!
//! - `requests`: latency and bandwidth over one TCP connection;
//! - `datagrams`: the same over UDP, where what is not answered in time is lost;
//! - `connects`: a ping over TCP, which is a handshake;
//! - a ping over ICMP is the echo of `rtt`.

mod connects;
mod datagrams;
mod report;
mod requests;

use crate::input::{Finding, Role};
use crate::network::Network;
use crate::workloads::rtt::Rtt;
use crate::workloads::workload::{Kind, Workload, finding, parse};
use connects::Connects;
use datagrams::Datagrams;
use requests::Requests;
use serde_json::{Map, Value, json};
use virtlab_load::Transport;
use virtlab_load::parameters::psping::{NAME, Psping, Test};

/// How a role of it is made.
pub const KIND: Kind = Kind { name: NAME, make: new, tags: false };

/// Prepares both ends.
pub fn new(index: usize, role: &Role, network: &mut Network) -> Result<Box<dyn Workload>, Finding> {
    let own: Psping = parse(role)?;
    let plan = own.plan().map_err(|error| finding(role, &error.to_string()))?;
    Ok(match (own.protocol, own.test) {
        (Transport::Icmp, _) => Box::new(Rtt::new(index, &echoes(role, &own), network)?),
        (Transport::Udp, _) => Box::new(Datagrams::new(index, role, plan, network)?),
        (Transport::Tcp, Test::Ping) => Box::new(Connects::new(index, role, plan)),
        (Transport::Tcp, _) => Box::new(Requests::new(index, role, plan, network)?),
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
