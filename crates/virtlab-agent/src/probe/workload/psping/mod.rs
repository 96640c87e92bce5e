//! `psping`: the tests of Sysinternals PsPing. `ping` takes the time of an ICMP echo or of a TCP connection,
//! `latency` that of a request and its answer over TCP or UDP, one at a time; `bandwidth` keeps `outstanding`
//! requests under way.
//!
//! A request is over when the far end has it whole and its answer is back, so a bandwidth test is a latency test
//! with a larger window: nothing counts as sent because it lies in a socket's buffer. `reverse` (`-r`) swaps the
//! sizes of request and answer. A row per request; those of the warm-up have numbers below 0, those never answered
//! end at -1.

mod tcp;
mod totals;
mod udp;

use super::tcp_rr::answerer;
use super::{Arming, Kind, Prepared, Side, StandBy, parse, rtt};
use anyhow::Context;
use serde_json::json;
use virtlab_load::Transport;
use virtlab_load::parameters::Buffers;
use virtlab_load::parameters::psping::{NAME, Psping, Test};

/// In the table of workloads.
pub const KIND: Kind = Kind::of(NAME, prepare);

/// Prepares either end.
pub fn prepare(arming: Arming<'_>) -> anyhow::Result<Prepared> {
    let parameters: Psping = parse(&arming.own)?;
    let plan = parameters.plan().context("parameters")?;
    if parameters.protocol == Transport::Icmp {
        return prepare_icmp(arming, &parameters);
    }
    if parameters.protocol == Transport::Udp {
        return udp::prepare(&arming, plan);
    }
    if arming.side == Side::Server {
        return answerer(&arming, Buffers::default(), plan.sizes.0, plan.sizes.1);
    }
    let (local, peer) = arming.ends()?;
    if parameters.test == Test::Ping {
        return Ok(Prepared::fixed(tcp::Connector { plan, local, peer }));
    }
    Ok(Prepared::fixed(tcp::Client { plan, local, peer, idle: arming.common.idle }))
}

/// ICMP echoes are those of `rtt`: one after another, or at the interval.
fn prepare_icmp(arming: Arming<'_>, parameters: &Psping) -> anyhow::Result<Prepared> {
    if arming.side == Side::Server {
        return Ok(Prepared::fixed(StandBy));
    }
    let own = json!({
        "protocol": "icmp", "payload_bytes": parameters.request_bytes, "interval_ns": parameters.interval_ns,
        "count": parameters.count + parameters.warmup, "timeout_ns": parameters.timeout_ns,
    });
    let own = own.as_object().cloned().unwrap_or_default();
    let arming = Arming { own, ..arming };
    rtt::prepare(arming)
}
