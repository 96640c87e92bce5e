//! `burst_load`: L bytes every T in S streams, one way or with replies, from one end or both.
//!
//! An end that originates has one socket per stream and one sending thread that serves the streams' schedules in
//! order of time; where replies are requested, a second thread takes them. An end that is not the origin answers on
//! one socket: it counts, and sends back what asks for a reply. With ICMP the far kernel answers.
//!
//! A server that originates must learn where to send: the client's answering socket registers at the server's,
//! again every 20 ms until it is acknowledged, and the server's bursts begin then (unless it was told the client's
//! port when armed). What was achieved is kept per burst: sent, answered in full, and when.

mod answer;
mod origin;

use self::answer::{Answering, Responder};
use self::origin::{Origin, Plan};
use super::{Arming, Kind, Prepared, Side, Workload, parse};
use crate::probe::endpoint::version_of;
use crate::probe::pacing::{Pacer, Pacing};
use crate::probe::parameters::Idle;
use crate::probe::report::Report;
use crate::probe::run::Run;
use anyhow::{Context, bail};
use serde_json::Value;
use std::net::SocketAddr;
use virtlab_load::burst::{self, MAXIMUM_DATAGRAM_BYTES, OriginSide};
use virtlab_load::parameters::Carrier;
use virtlab_load::parameters::burst_load::{BurstLoad as Parameters, NAME};
use virtlab_load::size::IpVersion;
use virtlab_wire::Nanos;

/// In the table of workloads.
pub const KIND: Kind = Kind::of(NAME, prepare);

/// Prepares either end.
pub fn prepare(arming: Arming<'_>) -> anyhow::Result<Prepared> {
    let parameters: Parameters = parse(&arming.own)?;
    parameters.check().context("parameters")?;
    let (local, peer) = (arming.local.ip("local")?, arming.peer.ip("peer")?);
    let (replies, icmp) = (parameters.replies(), parameters.protocol == Carrier::Icmp);
    let most_bytes = most_datagram_bytes(version_of(peer));
    let (ours, theirs) = match arming.side {
        Side::Client => (OriginSide::From, OriginSide::To),
        Side::Server => (OriginSide::To, OriginSide::From),
    };
    let (originates, answers) = (parameters.comes_from(ours), parameters.comes_from(theirs) && !icmp);
    let serves = arming.side == Side::Server && !icmp;
    let responder = (answers || serves)
        .then(|| {
            Responder::open(
                arming.run,
                SocketAddr::new(local, if serves { arming.local.port.unwrap_or(0) } else { 0 }),
                peer,
            )
        })
        .transpose()?;
    let plan = Plan {
        burst_bytes: parameters.burst_bytes,
        period: Nanos(parameters.period_ns),
        streams: parameters.streams,
        phases: burst::phases(
            parameters.phase,
            Nanos(parameters.phase_ns),
            Nanos(parameters.period_ns),
            parameters.streams,
            arming.seed,
            &format!("{}.{}", arming.run.role, if arming.side == Side::Client { "from" } else { "to" }),
        ),
        replies,
        most_bytes,
        duration: parameters.duration_ns.map_or(Nanos::MAX, Nanos),
    };
    let origin = originates.then(|| Origin::open(plan, local, peer, icmp)).transpose()?;
    let server = arming.peer.port.map(|port| SocketAddr::new(peer, port));
    if arming.side == Side::Client && !icmp && server.is_none() {
        bail!("peer.port is missing; arm the server first");
    }
    let load = BurstLoad {
        side: arming.side,
        answers,
        replies,
        icmp,
        origin,
        port: responder.as_ref().filter(|_| serves).map(|responder| responder.port),
        responder,
        peer: server,
        idle: arming.common.idle,
        pacer: Pacer::new(arming.common.pacing.unwrap_or(Pacing::Sleep)),
    };
    let check = move |parameter: &str, value: &Value| match (parameter, value.as_u64()) {
        ("burst_bytes", Some(bytes)) => Ok(parameters.check_burst(bytes)?),
        ("burst_bytes", None) => bail!("burst_bytes must be a whole number, not {value}"),
        _ => bail!("parameter '{parameter}' cannot be changed while the role runs; burst_bytes can"),
    };
    Ok(Prepared { workload: Box::new(load), check: Box::new(check) })
}

fn most_datagram_bytes(version: IpVersion) -> u64 {
    MAXIMUM_DATAGRAM_BYTES.min(u64::from(version.maximum_packet_bytes() - version.header_bytes()) - 8)
}

struct BurstLoad {
    side: Side,
    answers: bool,
    replies: bool,
    icmp: bool,
    origin: Option<Origin>,
    responder: Option<Responder>,
    port: Option<u16>,
    peer: Option<SocketAddr>,
    idle: Idle,
    pacer: Pacer,
}

impl Workload for BurstLoad {
    fn port(&self) -> Option<u16> {
        self.port
    }

    fn run(mut self: Box<Self>, run: &Run) -> Report {
        let answering = Answering::new(self.replies, self.idle);
        let responder = self.responder.take();
        std::thread::scope(|scope| {
            let thread = responder.as_ref().map(|responder| {
                let answering = &answering;
                scope.spawn(move || responder.serve(run, answering))
            });
            let mut report = Report::default();
            if run.wait_for_start(self.pacer).is_some() {
                report = self.after_start(run, &answering, responder.as_ref());
            }
            if let Some(thread) = thread {
                // A server answers until it is stopped, whatever it originated itself.
                if self.side == Side::Server {
                    run.wait_for_stop();
                }
                run.request_stop();
                match thread.join() {
                    Ok(answered) => report.merge(answered),
                    Err(_) => report.failure = Some("the answering thread panicked".to_owned()),
                }
            }
            report
        })
    }
}

impl BurstLoad {
    fn after_start(&mut self, run: &Run, answering: &Answering, responder: Option<&Responder>) -> Report {
        if let (Side::Client, true, Some(responder), Some(server)) =
            (self.side, self.answers, responder, self.peer)
            && !responder.register(run, answering, server)
        {
            let failure =
                (!run.stopped()).then(|| format!("the server at {server} acknowledged no registration"));
            return Report { failure, ..Report::default() };
        }
        let Some(origin) = &mut self.origin else {
            if self.side == Side::Client {
                run.wait_for_stop();
            }
            return Report::default();
        };
        let target = match (self.icmp, self.side) {
            (true, _) => None,
            (false, Side::Client) => self.peer,
            (false, Side::Server) => match self.peer.or_else(|| answering.wait_for_registration(run)) {
                Some(client) => Some(client),
                None => return Report::default(),
            },
        };
        origin.run(run, target, self.pacer)
    }
}
