//! `request_response`: requests to a server of ours that spends processor time on each, or to a service.
//!
//! A client with a rate is an open loop: requests are due by a schedule, whatever has been answered, and their time
//! counts from when they were due. Without a rate each connection is a client that waits for its answer, thinks, and
//! asks again.

mod by_datagram;
mod calendar;
pub mod client;
mod datagrams;
pub mod exchange;
pub mod ledger;
mod lock;
mod message;
mod passive;
mod readiness;
mod server;
pub mod service;
mod writer;

use super::tcp;
use super::{Arming, Kind, Prepared, Side, parse};
use crate::probe::socket;
use anyhow::{Context, bail};
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use serde_json::Value;
use std::net::SocketAddr;
use virtlab_load::parameters::request_response::{
    Entry, NAME, Protocol, RATE, RequestResponse as Parameters,
};

/// In the table of workloads.
pub const KIND: Kind = Kind::of(NAME, prepare);

/// Prepares either end.
pub fn prepare(arming: Arming<'_>) -> anyhow::Result<Prepared> {
    let parameters: Parameters = parse(&arming.own)?;
    parameters.check().context("parameters")?;
    let buffers = parameters.buffers();
    let (idle, seed) = (arming.common.idle, arming.seed);
    let check = if parameters.rate_per_s.is_some() { check_value } else { check_closed };
    let workload: Box<dyn super::Workload> = match arming.side {
        Side::Client => {
            let (local, peer) = arming.ends()?;
            let at = |entry: &Entry| {
                [SocketAddr::new(entry.local, 0), SocketAddr::new(entry.address, peer.port())]
            };
            let mut ends: Vec<_> = parameters.entries.iter().map(at).collect();
            if ends.is_empty() {
                ends.push([local, peer]);
            }
            let record = ledger::Record::Responses;
            let success = exchange::Success { statuses: 100..=399, body_bytes: None };
            Box::new(client::Client { parameters, ends, buffers, idle, seed, record, success })
        }
        Side::Server => {
            let (doors, port) = if parameters.protocol == Protocol::Udp {
                let (address, peer) = (arming.local.socket_address("local")?, arming.peer.ip("peer")?);
                let fd =
                    socket::udp_from(address, peer).with_context(|| format!("cannot bind UDP {address}"))?;
                datagrams::ready(&fd, buffers)?;
                let port = socket::local_address(&fd)?.port();
                (server::Doors { listener: None, datagrams: Some(fd) }, port)
            } else {
                let (listener, port) = tcp::listen(&arming, buffers)?;
                fcntl(&listener, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
                (server::Doors { listener: Some(listener), datagrams: None }, port)
            };
            let writer = writer::Writer::new(&parameters)?;
            Box::new(server::Server { parameters, doors, port, idle, seed, writer, place: 0 })
        }
    };
    Ok(Prepared { workload, check: Box::new(check) })
}

fn check_value(parameter: &str, value: &Value) -> anyhow::Result<()> {
    match (parameter, value.as_u64()) {
        (RATE, Some(rate)) => Ok(Parameters::check_rate(rate)?),
        (RATE, None) => bail!("{RATE} must be a whole number above 0, not {value}"),
        _ => bail!("parameter '{parameter}' cannot be changed while the role runs; {RATE} can"),
    }
}

fn check_closed(parameter: &str, _: &Value) -> anyhow::Result<()> {
    bail!("parameter '{parameter}' cannot be changed: a role without a rate has none that can")
}
