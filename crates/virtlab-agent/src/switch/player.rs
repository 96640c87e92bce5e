//! The fabric on real packets: rings in, the pure machine, batches out.
//!
//! One round: drain every ring, giving each frame to the fabric under the kernel's arrival stamp; play the fabric up to
//! now; send what has left. So the time that this process needed to wake up hides inside the frame's serialisation, and
//! the switches between the first and the last line cost no time of their own.

use super::lateness::Delays;
use super::request::{Configure, RECORD_MAXIMUM};
use super::ring::{Received, Ring};
use super::sender::{BATCH_FRAMES, Sender};
use super::stamps::StampClock;
use anyhow::{Context, bail};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::rc::Rc;
use virtlab_fabric::{Departure, Fabric, Frame, LineCounters, Mac, PortId, flow_hash};
use virtlab_qdisc::Ecn;
use virtlab_system::clock;
use virtlab_wire::Nanos;
use virtlab_wire::ethernet::HEADER_BYTES;

/// What one port has seen.
#[derive(Default)]
struct PortCounters {
    received_packets: u64,
    received_bytes: u64,
    sent_packets: u64,
    sent_bytes: u64,
    send_errors: u64,
    oversize: u64,
    bad_checksum: u64,
}

struct Port {
    ring: Ring,
    counters: PortCounters,
    lateness: Delays,
}

/// Of a recorded frame: all that disciplines and rules look at.
const HEAD_BYTES: usize = 64;

type Bytes = Rc<Vec<u8>>;

/// A fabric with its ports open.
pub struct Player {
    configure: Configure,
    fabric: Fabric<Bytes>,
    ports: Vec<Port>,
    sender: Sender,
    stamps: StampClock,
    departures: Vec<Departure<Bytes>>,
    spare: Vec<Bytes>,
    added: Delays,
    first: Option<Nanos>,
    recording: Option<Recording>,
}

/// Arrivals and departures that were kept.
struct Recording {
    origin: Nanos,
    frames: usize,
    arrivals: Vec<Value>,
    departures: Vec<Value>,
}

impl Player {
    /// Builds the fabric and opens its ports.
    ///
    /// # Errors
    /// When the layout is impossible, an interface is missing, or packet sockets are not allowed.
    pub fn new(configure: Configure) -> anyhow::Result<Self> {
        let fabric = Fabric::new(&configure.layout())?;
        if !(68..=65_535).contains(&configure.mtu_bytes) {
            bail!("mtu_bytes: {} is not a MTU; give 68 to 65535", configure.mtu_bytes);
        }
        let mut ports = Vec::new();
        for (name, ifname) in configure.interfaces() {
            let ring = Ring::open(ifname, configure.mtu_bytes).with_context(|| format!("ports.{name}"))?;
            ports.push(Port { ring, counters: PortCounters::default(), lateness: Delays::new() });
        }
        let sender = Sender::new(&ports.iter().map(|port| port.ring.ifindex).collect::<Vec<_>>())?;
        Ok(Self {
            configure,
            fabric,
            ports,
            sender,
            stamps: StampClock::new(),
            departures: Vec::with_capacity(1024),
            spare: Vec::new(),
            added: Delays::new(),
            first: None,
            recording: None,
        })
    }

    /// Its rings, to wait on them.
    pub fn rings(&self) -> impl Iterator<Item = &Ring> {
        self.ports.iter().map(|port| &port.ring)
    }

    /// Throws away what waits in the rings, and begins with an empty fabric and counters at zero.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn start(&mut self) -> anyhow::Result<()> {
        self.discard();
        self.fabric = Fabric::new(&self.configure.layout())?;
        self.stamps = StampClock::new();
        self.reset();
        Ok(())
    }

    /// Throws away what waits in the rings.
    pub fn discard(&mut self) {
        for port in &mut self.ports {
            while port.ring.take(|_| ()).is_some() {}
        }
    }

    /// Stations are behind these ports from now on, by switch.
    ///
    /// # Errors
    /// When no link begins at such a port, or no switch has it.
    pub fn relocate(&mut self, forwarding: &BTreeMap<String, BTreeMap<Mac, String>>) -> anyhow::Result<()> {
        let links = self.configure.layout().links;
        for (&mac, port) in forwarding.values().flatten() {
            let line = links.iter().find_map(|(name, link)| {
                let from = link.ends.iter().position(|end| end == port)?;
                self.fabric.line(name, if from == 0 { "ab" } else { "ba" })
            });
            let known = line.is_some_and(|line| self.fabric.direct(mac, line, clock::monotonic()));
            anyhow::ensure!(known, "no switch has a port {port}");
        }
        Ok(())
    }

    /// A link sends frames that start from now on at a rate in bit/s.
    ///
    /// # Errors
    /// When there is no such link, or the rate is zero.
    pub fn set_rate(&mut self, link: &str, bit_per_s: u64) -> anyhow::Result<()> {
        for direction in ["ab", "ba"] {
            let line = self.fabric.line(link, direction).filter(|_| bit_per_s > 0);
            self.fabric.set_rate(line.context("no such link, or no rate")?, bit_per_s);
        }
        Ok(())
    }

    /// A link is cut or carries frames again, from now on.
    ///
    /// # Errors
    /// When there is no such link, or it was configured as one that is never cut.
    pub fn set_state(&mut self, link: &str, up: bool) -> anyhow::Result<()> {
        if self.ready() {
            self.drain();
        }
        let now = clock::monotonic();
        self.fabric.advance(now, &mut self.departures);
        for direction in ["ab", "ba"] {
            let line = self.fabric.line(link, direction).context("no such link")?;
            if up {
                self.fabric.mend(line, now);
            } else {
                anyhow::ensure!(self.fabric.cut(line, now), "links.{link}: it was configured without 'cuts'");
            }
        }
        Ok(())
    }

    /// Counters and lateness begin again at zero.
    pub fn reset(&mut self) {
        for port in &mut self.ports {
            port.ring.forget_drops();
            port.counters = PortCounters::default();
            port.lateness.reset();
        }
        self.added.reset();
        self.fabric.reset_counters();
        self.stamps.forget_counts();
    }

    /// Whether a frame waits in some ring.
    pub fn ready(&self) -> bool {
        self.ports.iter().any(|port| port.ring.ready())
    }

    /// No frame leaves before this; `None` when none is inside.
    pub fn next_departure(&self) -> Option<Nanos> {
        self.fabric.next_departure_bound()
    }

    /// When the first frame that the last round took from the rings arrived.
    pub fn first_arrival(&self) -> Option<Nanos> {
        self.first
    }

    /// One round; gives the time at its end.
    pub fn round(&mut self) -> Nanos {
        self.first = None;
        if self.ready() {
            self.drain();
        }
        let now = clock::monotonic();
        self.fabric.advance(now, &mut self.departures);
        if self.departures.is_empty() { now } else { self.send(now) }
    }

    fn drain(&mut self) {
        let now = self.stamps.refresh();
        for index in 0..self.ports.len() {
            // A bounded number, so that a flood at one port does not keep what has to leave.
            for _ in 0..2 * BATCH_FRAMES {
                let Some(port) = self.ports.get_mut(index) else { break };
                let (fabric, counters, spare) = (&mut self.fabric, &mut port.counters, &mut self.spare);
                let (wants_flow, wants_ecn) = (fabric.wants_flow(), fabric.wants_ecn());
                let mtu_bytes = self.configure.mtu_bytes;
                let Some(taken) = port.ring.take(|received| {
                    let bytes = admit(&received, mtu_bytes, counters, spare)?;
                    Some((received.stamp, bytes))
                }) else {
                    break;
                };
                let Some((stamp, bytes)) = taken else { continue };
                let now = now.max(if self.stamps.is_ahead(stamp, now) { clock::monotonic() } else { now });
                let at = self.stamps.monotonic(stamp, now);
                self.first = Some(self.first.map_or(at, |first| first.min(at)));
                let flow = if wants_flow { flow_hash(&bytes) } else { 0 };
                let ecn = if wants_ecn { virtlab_fabric::ecn(&bytes) } else { Ecn::default() };
                let length = bytes.len();
                let Some(mut frame) = Frame::parse(&Rc::clone(&bytes), bytes) else { continue };
                frame.flow = flow;
                frame.ecn = ecn;
                if fabric.wants_headers() {
                    frame.headers = Some(Box::new(virtlab_fabric::headers(&frame.payload)));
                }
                counters.received_packets += 1;
                counters.received_bytes += length as u64;
                if let Some(recording) = &mut self.recording {
                    recording.arrival(index, &frame, at);
                }
                fabric.arrive(PortId(index), frame, at);
            }
        }
    }

    /// Sends all departures, in order; gives the time at its end.
    fn send(&mut self, now: Nanos) -> Nanos {
        for departure in self.departures.iter_mut().filter(|departure| departure.marked) {
            virtlab_fabric::mark(Rc::<Vec<u8>>::make_mut(&mut departure.payload));
        }
        let mut before = now;
        for batch in self.departures.chunks(BATCH_FRAMES) {
            let ports = &mut self.ports;
            let mut failed = [false; BATCH_FRAMES];
            self.sender.send(batch.iter().map(|one| (one.port.0, one.payload.as_slice())), |at, _| {
                failed[at] = true
            });
            let after = clock::monotonic();
            let width = after.since(before).0;
            for (at, departure) in batch.iter().enumerate() {
                let counters = &mut ports[departure.port.0].counters;
                if failed[at] {
                    counters.send_errors += 1;
                    continue;
                }
                counters.sent_packets += 1;
                counters.sent_bytes += u64::from(departure.bytes);
                // The kernel takes the frames of a batch one after the other.
                let (begun, ended) = (width * at as u64, width * (at as u64 + 1));
                let count = batch.len() as u64;
                ports[departure.port.0].lateness.note((before + Nanos(begun / count)).since(departure.at).0);
                self.added.note((before + Nanos(ended / count)).since(departure.at).0);
            }
            before = after;
        }
        for departure in self.departures.drain(..) {
            if let Some(recording) = &mut self.recording {
                recording.departure(&departure);
            }
            if Rc::strong_count(&departure.payload) == 1 && self.spare.len() < 4096 {
                self.spare.push(departure.payload);
            }
        }
        before
    }

    /// Keeps the next arrivals and what leaves.
    ///
    /// # Errors
    /// When more are asked than one reply holds.
    pub fn record(&mut self, frames: usize) -> anyhow::Result<()> {
        if frames > RECORD_MAXIMUM {
            bail!("frames: at most {RECORD_MAXIMUM} can be kept");
        }
        let origin = clock::monotonic();
        self.recording = Some(Recording { origin, frames, arrivals: Vec::new(), departures: Vec::new() });
        Ok(())
    }

    /// What was kept, ends the keeping.
    pub fn recorded(&mut self) -> Value {
        let Some(recording) = self.recording.take() else {
            return json!({"ports": self.fabric.ports(), "arrivals": [], "departures": []});
        };
        json!({"ports": self.fabric.ports(), "arrivals": recording.arrivals, "departures": recording.departures})
    }

    /// Counters and lateness since the beginning or the last reset.
    pub fn stats(&mut self) -> Value {
        let now = clock::monotonic();
        let mut links = Map::new();
        for line in self.fabric.lines(now) {
            let counters = line.counters;
            let reasons: Map<String, Value> = LineCounters::REASONS
                .iter()
                .zip(counters.drops_by_reason)
                .map(|(reason, count)| (reason.name().to_owned(), count.into()))
                .collect();
            links.entry(line.link).or_insert_with(|| json!({}))[line.direction] = json!({
                "packets": counters.packets, "bytes": counters.bytes,
                "drops": counters.drops, "dropped_bytes": counters.dropped_bytes, "drops_by_reason": reasons,
                "backlog_packets": line.backlog.packets, "backlog_bytes": line.backlog.bytes,
                "backlog_max_packets": counters.backlog_max_packets, "backlog_max_bytes": counters.backlog_max_bytes,
                "busy_ns": counters.busy_ns, "residence_ns": counters.residence_ns,
                "residence_max_ns": counters.residence_max_ns, "residence_p50_ns": line.residence_p50_ns,
                "residence_p99_ns": line.residence_p99_ns, "marked_packets": counters.marked_packets,
                "classes": line.classes.iter().map(|(name, class)| ((*name).to_owned(), json!({
                    "packets": class.packets, "bytes": class.bytes, "drops": class.drops,
                    "marked_packets": class.marked_packets, "backlog_packets": class.backlog_packets,
                    "backlog_bytes": class.backlog_bytes, "backlog_max_packets": class.backlog_max_packets,
                    "residence_ns": class.residence_ns,
                    "residence_max_ns": class.residence_max_ns, "residence_p50_ns": class.residence_p50_ns,
                    "residence_p99_ns": class.residence_p99_ns,
                }))).collect::<Map<String, Value>>(),
            });
        }
        let mut lateness = Delays::new();
        let mut ports = Map::new();
        for (name, port) in self.fabric.ports().iter().zip(&mut self.ports) {
            let counters = &port.counters;
            lateness.add(&port.lateness);
            ports.insert(
                name.clone(),
                json!({
                    "received_packets": counters.received_packets, "received_bytes": counters.received_bytes,
                    "sent_packets": counters.sent_packets, "sent_bytes": counters.sent_bytes,
                    "send_errors": counters.send_errors, "ring_drops": port.ring.drops(),
                    "oversize": counters.oversize, "bad_checksum": counters.bad_checksum,
                    "lateness": port.lateness.report(),
                }),
            );
        }
        let switches: Map<String, Value> = self
            .fabric
            .switches()
            .map(|(name, counters)| {
                let (flooded, filtered) = (counters.flooded_packets, counters.filtered_packets);
                (name.to_owned(), json!({"flooded_packets": flooded, "filtered_packets": filtered}))
            })
            .collect();
        json!({
            "links": links, "ports": ports, "switches": switches,
            "lateness": lateness.report(), "added_delay": self.added.report(),
            "inside_packets": self.fabric.inside(), "late_arrivals": self.fabric.late_arrivals(),
            "clock_steps": self.stamps.steps, "stamps_clamped": self.stamps.clamped,
        })
    }
}

/// The bytes of a frame that a wire could carry, its tag back in place; others are counted.
fn admit(
    received: &Received<'_>,
    mtu_bytes: usize,
    counters: &mut PortCounters,
    spare: &mut Vec<Bytes>,
) -> Option<Bytes> {
    let tags = tags_inside(received.bytes);
    if received.length > mtu_bytes + HEADER_BYTES as usize + tags || received.bytes.len() < received.length {
        counters.oversize += 1;
        return None;
    }
    if received.checksum_missing {
        counters.bad_checksum += 1;
        return None;
    }
    if received.length < HEADER_BYTES as usize {
        return None;
    }
    let mut bytes = spare.pop().unwrap_or_else(|| Rc::new(Vec::with_capacity(mtu_bytes + 32)));
    let buffer = Rc::get_mut(&mut bytes).expect("spare buffers have one owner");
    buffer.clear();
    match received.tag {
        None => buffer.extend_from_slice(received.bytes),
        Some((identifier, control)) => {
            buffer.extend_from_slice(&received.bytes[..12]);
            buffer.extend_from_slice(&identifier.to_be_bytes());
            buffer.extend_from_slice(&control.to_be_bytes());
            buffer.extend_from_slice(&received.bytes[12..]);
        }
    }
    Some(bytes)
}

/// Bytes of VLAN tags that are in the frame; they do not count against the MTU.
fn tags_inside(bytes: &[u8]) -> usize {
    match bytes.get(12..14) {
        Some([0x81, 0x00] | [0x88, 0xa8]) => 4,
        _ => 0,
    }
}

impl Recording {
    fn arrival(&mut self, port: usize, frame: &Frame<Bytes>, at: Nanos) {
        if self.arrivals.len() < self.frames {
            let (source, destination) = (frame.source.to_string(), frame.destination.to_string());
            let head: String =
                frame.payload.iter().take(HEAD_BYTES).map(|byte| format!("{byte:02x}")).collect();
            self.arrivals.push(json!([
                port,
                at.since(self.origin).0,
                frame.bytes,
                source,
                destination,
                head
            ]));
        }
    }

    fn departure(&mut self, departure: &Departure<Bytes>) {
        if self.departures.len() < RECORD_MAXIMUM {
            let (at, arrived) = (departure.at.since(self.origin).0, departure.arrived.since(self.origin).0);
            self.departures.push(json!([departure.port.0, at, departure.bytes, arrived, departure.marked]));
        }
    }
}
