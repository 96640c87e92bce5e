//! `raw_stream`: layer-2 frames of exact size, numbered per flow, one way.
//!
//! ```text
//! destination 6 | source 6 | EtherType 88B5 | probe header 26 | tag of the role u32 | padding
//! ```
//! Flow f of F carries every F-th frame, with numbers of its own, and its source address ends in its number, so that a
//! switch or a queue discipline can tell flows apart. Nothing above layer 2 runs: the stream crosses bridges and switches,
//! not routers.

use super::arrivals::Arrivals;
use super::paced::{Batch, Numbered, Stream};
use super::ring::{self, ReceiveRing, TransmitRing};
use super::{Arming, Prepared, Side, Workload, parse};
use crate::clock;
use crate::probe::pacing::{Pacer, Pacing};
use crate::probe::parameters::{Idle, positive};
use crate::probe::report::Report;
use crate::probe::run::Run;
use crate::probe::socket::{Trouble, trouble};
use anyhow::{Context, bail};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use serde::Deserialize;
use serde_json::Value;
use std::io;
use virtlab_load::random::Stream as Random;
use virtlab_load::schedule::Schedule;
use virtlab_wire::Nanos;
use virtlab_wire::ethernet::{FCS_BYTES, HEADER_BYTES, MINIMUM_FRAME_BYTES};
use virtlab_wire::probe_header::{FULL_BYTES, ProbeHeader, Purpose};

const PAYLOAD_AT: usize = HEADER_BYTES as usize;
const TAG_AT: usize = PAYLOAD_AT + FULL_BYTES;
const TAG_END: usize = TAG_AT + 4;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Parameters {
    frame_bytes: u32,
    rate_pps: Option<u64>,
    /// Absent: until stopped.
    duration_ns: Option<u64>,
    #[serde(default = "one")]
    flows: u16,
}

const fn one() -> u16 {
    1
}

/// Prepares either end.
pub fn prepare(arming: Arming<'_>) -> anyhow::Result<Prepared> {
    let parameters: Parameters = parse(arming.own.clone())?;
    positive("flows", u64::from(parameters.flows))?;
    let most = arming.local.mtu_bytes + HEADER_BYTES + FCS_BYTES;
    if !(MINIMUM_FRAME_BYTES..=most).contains(&parameters.frame_bytes) {
        bail!(
            "parameters.frame_bytes: {} B, but a frame here has {MINIMUM_FRAME_BYTES} to {most} B, header to checksum",
            parameters.frame_bytes
        );
    }
    let name = arming.local.vnic.as_deref().context("local.vnic is missing")?;
    let interface = ring::interface_index(name)?;
    if arming.peer.next_hop_mac.is_some() {
        bail!("a router stands between the two ends, and frames without IP do not cross it; use udp_stream");
    }
    // Both ends draw the same tag, from the name that they share.
    let tag = Random::new(0, &format!("{}.raw", arming.run.role)).below(1 << 32) as u32;
    let workload: Box<dyn Workload> = match arming.side {
        Side::Client => Box::new(Sender::prepare(&arming, &parameters, interface, tag)?),
        Side::Server => Box::new(Receiver {
            ring: ReceiveRing::open(interface)?,
            idle: arming.common.idle,
            flows: usize::from(parameters.flows),
            tag,
        }),
    };
    Ok(Prepared { workload, check: Box::new(check_value) })
}

fn check_value(parameter: &str, value: &Value) -> anyhow::Result<()> {
    match (parameter, value.as_u64()) {
        ("rate_pps", Some(rate)) => positive("rate_pps", rate).map(|_| ()),
        ("rate_pps", None) => bail!("rate_pps must be a whole number above 0, not {value}"),
        _ => bail!("parameter '{parameter}' cannot be changed while the role runs; rate_pps can"),
    }
}

struct Sender {
    stream: Stream,
    batch: RingBatch,
}

impl Sender {
    fn prepare(
        arming: &Arming<'_>,
        parameters: &Parameters,
        interface: i32,
        tag: u32,
    ) -> anyhow::Result<Self> {
        let frame_bytes = (parameters.frame_bytes - FCS_BYTES) as usize;
        let mut template: Vec<u8> = (0..frame_bytes).map(|at| at as u8).collect();
        template[..6].copy_from_slice(&arming.peer.mac("peer")?);
        template[6..12].copy_from_slice(&arming.local.mac("local")?);
        template[12..14].copy_from_slice(&ring::ETHERTYPE.to_be_bytes());
        template[TAG_AT..TAG_END].copy_from_slice(&tag.to_le_bytes());
        let schedule = match parameters.rate_pps {
            Some(rate) => Schedule::PerSecond { rate_pps: positive("rate_pps", rate)? },
            None => Schedule::Flood,
        };
        let stream = Stream {
            schedule,
            tune: ("rate_pps", Box::new(|rate_pps| Schedule::PerSecond { rate_pps })),
            duration: parameters.duration_ns.map_or(Nanos::MAX, Nanos),
            pacer: Pacer::new(arming.common.pacing.unwrap_or(Pacing::Sleep)),
            flows: u64::from(parameters.flows),
            packet_bytes: u64::from(parameters.frame_bytes),
            keep_sent: arming.common.keep_sent,
        };
        let ring = TransmitRing::open(interface, frame_bytes)?;
        let batch = RingBatch { ring, template, flows: u64::from(parameters.flows), places: Vec::new() };
        Ok(Self { stream, batch })
    }
}

impl Workload for Sender {
    fn run(mut self: Box<Self>, run: &Run) -> Report {
        let mut report = self.stream.send(run, &mut self.batch);
        // What the kernel has not taken yet goes now, or is not counted as sent.
        let until = clock::raw() + Nanos(40_000_000);
        while self.batch.ring.waiting() > 0 && clock::raw() < until {
            let _ = self.batch.ring.flush();
        }
        let left = self.batch.ring.waiting() as i64;
        *report.counters.entry("sent_packets".to_owned()).or_default() -= left;
        report
    }
}

/// A batch in a transmit ring.
struct RingBatch {
    ring: TransmitRing,
    template: Vec<u8>,
    flows: u64,
    places: Vec<Numbered>,
}

impl Batch for RingBatch {
    fn fill(&mut self, index: usize, packet: Numbered) {
        self.places.truncate(index);
        self.places.push(packet);
    }

    fn send(&mut self, count: usize) -> io::Result<usize> {
        let length = self.template.len();
        let mut filled = 0;
        for place in &self.places[..count] {
            let Some(slot) = self.ring.slot(filled, length) else { break };
            slot.copy_from_slice(&self.template);
            let Numbered { number, sent, intended } = *place;
            let (seq, flow) = (number / self.flows, (number % self.flows) as u16);
            slot[10] ^= (flow >> 8) as u8;
            slot[11] ^= flow as u8;
            ProbeHeader { purpose: Purpose::Data, flow, seq, sent, intended }
                .write(&mut slot[PAYLOAD_AT..TAG_AT]);
            filled += 1;
        }
        if filled == 0 {
            self.ring.flush()?;
            return Err(io::Error::from_raw_os_error(libc::EAGAIN));
        }
        // Frames that a failed call leaves are marked: the kernel takes them with the next one.
        match self.ring.send(filled, length) {
            Err(error) if trouble(&error) == Trouble::Fatal => Err(error),
            _ => Ok(filled),
        }
    }
}

struct Receiver {
    ring: ReceiveRing,
    idle: Idle,
    flows: usize,
    tag: u32,
}

impl Workload for Receiver {
    fn run(mut self: Box<Self>, run: &Run) -> Report {
        let mut arrivals = Arrivals::new(&run.budget, self.flows, false);
        let mut report = Report::default();
        let tag = self.tag.to_le_bytes();
        let mut last_look = None;
        loop {
            let user = clock::raw();
            arrivals.awake(user);
            let any = self.ring.next_block(|frame| {
                let ours = frame.bytes.get(TAG_AT..TAG_END) == Some(&tag);
                if ours {
                    let counted = frame.length + FCS_BYTES as usize;
                    arrivals.take(&frame.bytes[PAYLOAD_AT..TAG_AT], counted, Some(frame.stamp), user);
                } else {
                    arrivals.stranger();
                }
            });
            if any {
                continue;
            }
            // After a stop, one more block: the kernel hands over what it has within a few milliseconds.
            if run.stopped() && *last_look.get_or_insert(user + Nanos(20_000_000)) <= user {
                break;
            }
            if self.idle == Idle::Sleep {
                let _ = poll(&mut [PollFd::new(self.ring.fd(), PollFlags::POLLIN)], PollTimeout::from(10u8));
            }
        }
        report.add("ring_drops", self.ring.drops());
        report.add("ring_bytes", u64::from(self.ring.ring_bytes));
        report.add("socket_drops", 0);
        arrivals.close(&mut report);
        report
    }
}
