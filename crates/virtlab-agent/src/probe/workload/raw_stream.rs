//! `raw_stream`: frames of exact size, numbered per flow, one way.
//!
//! ```text
//! destination 6 | source 6 | EtherType 88B5 | probe header 26 | tag of the role u32 | padding
//! destination 6 | source 6 | IPv4 20 | UDP 8 | probe header 18 or 26 | padding            (with `via`)
//! ```
//! Each flow has its share of the rate and numbers of its own ([`Split`]). One thread sends all flows, or several share
//! them: thread t of T has the flows t, t + T, ... with a ring of its own, each flow still in order. Without `via`
//! nothing above layer 2 runs, a flow's source address tells it, and the stream crosses bridges and switches. With
//! `via`, flow f goes to the hardware address `via[f]`, with the receiver's address in the IPv4 header: a guest there
//! that forwards, at layer 2 or 3, passes it on. The receiver reads its ring below its own IP, whose copy of each
//! datagram ends at a socket that takes nothing, so no answer goes back. UDP goes without checksum (RFC 768), its
//! source port tells flows apart.

use super::arrivals::Arrivals;
use super::paced::{Batch, COUNTED_FLOWS, Numbered, Stream, flow_counter};
use super::ring::{self, Patience, ReceiveRing, TransmitRing};
use super::{Arming, Kind, Prepared, Side, Workload, parse};
use crate::probe::endpoint::parse_mac;
use crate::probe::pacing::{Pacer, Pacing};
use crate::probe::parameters::Idle;
use crate::probe::report::Report;
use crate::probe::run::Run;
use crate::probe::socket::{self, Trouble, trouble};
use anyhow::{Context, bail, ensure};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use serde_json::Value;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::OwnedFd;
use virtlab_load::Split;
use virtlab_load::parameters::{RawStream, raw_stream};
use virtlab_load::random::Stream as Random;
use virtlab_load::schedule::Schedule;
use virtlab_system::clock;
use virtlab_wire::Nanos;
use virtlab_wire::ethernet::{FCS_BYTES, HEADER_BYTES};
use virtlab_wire::probe_header::{FULL_BYTES, ProbeHeader, Purpose};

const PAYLOAD_AT: usize = HEADER_BYTES as usize;
const TAG_AT: usize = PAYLOAD_AT + FULL_BYTES;
const TAG_END: usize = TAG_AT + 4;
/// Of a VLAN tag; the receiver's kernel takes a priority tag off.
const TAG_BYTES: usize = 4;

const UDP_PAYLOAD_AT: usize = PAYLOAD_AT + IPV4_BYTES + 8;
const IPV4_BYTES: usize = 20;
const IP_SOURCE_AT: usize = PAYLOAD_AT + 12;
const TIME_TO_LIVE: u8 = 64;
/// Source ports of flows begin here, and there is one for each.
const FIRST_SOURCE_PORT: u16 = 1024;
/// In the first octet of the source addresses of all flows but the first.
const FLOW_MARK: u8 = 0x04;
/// How long a sender without a free slot waits before it looks again.
const SLOT_WAIT_MS: u8 = 1;
const MOST_UDP_FLOWS: u16 = u16::MAX - FIRST_SOURCE_PORT;

/// Guests that forward are named by their hardware addresses.
type Parameters = RawStream<String>;

/// In the table of workloads.
pub const KIND: Kind = Kind::of(raw_stream::NAME, prepare);

/// Prepares either end.
pub fn prepare(arming: Arming<'_>) -> anyhow::Result<Prepared> {
    let parameters: Parameters = parse(&arming.own)?;
    let split = parameters.split().context("parameters")?;
    parameters.check(arming.local.mtu_bytes).context("parameters")?;
    ensure!(
        arming.common.dscp == 0 || !parameters.via.is_empty(),
        "parameters.dscp: frames without IP carry no code point; give 'via', or 'priority'"
    );
    let tag_bytes = if parameters.priority.is_some() { TAG_BYTES } else { 0 };
    let name = arming.local.vnic.as_deref().context("local.vnic is missing")?;
    let interface = ring::interface_index(name)?;
    let routed = !parameters.via.is_empty();
    if arming.peer.next_hop_mac.is_some() && !routed {
        bail!(
            "a router stands between the two ends, and frames without IP do not cross it; use udp_stream, or name it in 'via'"
        );
    }
    ensure!(
        !routed || split.flows() <= MOST_UDP_FLOWS,
        "parameters.flows: {} flows, but with 'via' there are ports for {MOST_UDP_FLOWS}",
        split.flows()
    );
    // Both ends draw the same tag, from the name that they share.
    let tag = Random::new(0, &format!("{}.raw", arming.run.role)).below(1 << 32) as u32;
    let workload: Box<dyn Workload> = match arming.side {
        Side::Client => Box::new(Sender::prepare(&arming, &parameters, split, interface, tag)?),
        Side::Server => Box::new(Receiver::prepare(&arming, &split, interface, tag, (routed, tag_bytes))?),
    };
    Ok(Prepared { workload, check: Box::new(check_value) })
}

fn ipv4(address: IpAddr, whose: &str) -> anyhow::Result<Ipv4Addr> {
    match address {
        IpAddr::V4(address) => Ok(address),
        IpAddr::V6(address) => {
            bail!("{whose}.address {address} is IPv6, and frames with 'via' are IPv4; give both ends IPv4")
        }
    }
}

fn check_value(parameter: &str, value: &Value) -> anyhow::Result<()> {
    match (parameter, value.as_u64()) {
        ("rate_pps", Some(rate)) => Ok(raw_stream::check_rate(rate)?),
        ("rate_pps", None) => bail!("rate_pps must be a whole number above 0, not {value}"),
        _ => bail!("parameter '{parameter}' cannot be changed while the role runs; rate_pps can"),
    }
}

struct Sender {
    /// One per thread.
    parts: Vec<(Stream, RingBatch)>,
}

impl Sender {
    fn prepare(
        arming: &Arming<'_>,
        parameters: &Parameters,
        split: Split,
        interface: i32,
        tag: u32,
    ) -> anyhow::Result<Self> {
        let frame_bytes = (parameters.frame_bytes - FCS_BYTES) as usize;
        let (mut fronts, mut payload_at) = if parameters.via.is_empty() {
            (raw_fronts(arming, &split)?, PAYLOAD_AT)
        } else {
            (udp_fronts(arming, parameters, &split)?, UDP_PAYLOAD_AT)
        };
        let mut template: Vec<u8> = (0..frame_bytes).map(|at| at as u8).collect();
        let mut tag_at = TAG_AT;
        if let Some(priority) = parameters.priority {
            fronts.iter_mut().for_each(|front| insert_vlan_tag(front, priority));
            payload_at += TAG_BYTES;
            tag_at += TAG_BYTES;
        }
        if parameters.via.is_empty() {
            template[tag_at..tag_at + 4].copy_from_slice(&tag.to_le_bytes());
        }
        let (own, seed) = (parameters.clone(), arming.seed);
        let paced = move |rate_pps| own.paced(rate_pps, seed);
        let schedule = parameters.rate_pps.map_or(Schedule::Flood, &paced);
        let part = |number: u16| {
            let stream = Stream {
                schedule: schedule.clone(),
                tune: ("rate_pps", Box::new(paced.clone())),
                duration: parameters.duration_ns.map_or(Nanos::MAX, Nanos),
                pacer: Pacer::new(arming.common.pacing.unwrap_or(Pacing::Sleep)),
                split: split.part(number, parameters.threads()),
                packet_bytes: u64::from(parameters.frame_bytes),
                keep_sent: parameters.keep_sent,
                leads: number == 0,
            };
            let mut ring = TransmitRing::open(interface, frame_bytes)?;
            ring.fill(&template);
            let header_end = frame_bytes.min(payload_at + FULL_BYTES);
            let patience = if parameters.rate_pps.is_some() { Patience::None } else { Patience::UntilGone };
            let fronts = fronts.clone();
            let batch = RingBatch { ring, frame_bytes, header_end, fronts, flows: Vec::new(), patience };
            anyhow::Ok((stream, batch))
        };
        Ok(Self { parts: (0..parameters.threads()).map(part).collect::<anyhow::Result<_>>()? })
    }
}

/// Puts a priority tag (IEEE 802.1Q, VLAN 0) behind the addresses.
fn insert_vlan_tag(front: &mut Vec<u8>, priority: u8) {
    let [high, low] = (u16::from(priority) << 13).to_be_bytes();
    front.splice(12..12, [0x81, 0x00, high, low]);
}

/// What is in front of the probe header, per flow: frames straight to the receiver.
fn raw_fronts(arming: &Arming<'_>, split: &Split) -> anyhow::Result<Vec<Vec<u8>>> {
    let (peer, local) = (arming.peer.mac("peer")?, arming.local.mac("local")?);
    let front = |flow: u16| {
        let source = source_of(local, flow);
        [&peer[..], &source, &ring::ETHERTYPE.to_be_bytes()].concat()
    };
    Ok((0..split.flows()).map(front).collect())
}

/// A flow's own source address. Flow 0 has the vNIC's; the others differ from every address of a Plan in their
/// first octet, so that no switch learns another guest's address at this port, and from one sender to the next in
/// the last three.
fn source_of(local: [u8; 6], flow: u16) -> [u8; 6] {
    let [number, low] = flow.to_be_bytes();
    let mark = if flow == 0 { 0 } else { FLOW_MARK };
    [local[0] ^ mark, local[1] ^ number, local[2] ^ low, local[3], local[4], local[5]]
}

/// The same for datagrams by way of forwarders.
fn udp_fronts(arming: &Arming<'_>, parameters: &Parameters, split: &Split) -> anyhow::Result<Vec<Vec<u8>>> {
    let local = arming.local.mac("local")?;
    let source = ipv4(arming.local.ip("local")?, "local")?;
    let destination = ipv4(arming.peer.ip("peer")?, "peer")?;
    let port = arming.peer_port()?;
    let via = parameters.via.iter().map(|mac| parse_mac(mac)).collect::<anyhow::Result<Vec<_>>>();
    let via = via.context("parameters.via")?;
    let tag_bytes = if parameters.priority.is_some() { TAG_BYTES as u32 } else { 0 };
    let packet_bytes = (parameters.frame_bytes - HEADER_BYTES - FCS_BYTES - tag_bytes) as u16;
    let mut ip = [0u8; IPV4_BYTES];
    ip[0] = 0x45;
    ip[1] = arming.common.dscp << 2;
    ip[2..4].copy_from_slice(&packet_bytes.to_be_bytes());
    ip[6] = 0x40; // not to be fragmented
    ip[8] = TIME_TO_LIVE;
    ip[9] = libc::IPPROTO_UDP as u8;
    ip[12..16].copy_from_slice(&source.octets());
    ip[16..20].copy_from_slice(&destination.octets());
    let checksum = internet_checksum(&ip);
    ip[10..12].copy_from_slice(&checksum.to_be_bytes());
    let front = |flow: u16| {
        let udp = [FIRST_SOURCE_PORT + flow, port, packet_bytes - IPV4_BYTES as u16, 0].map(u16::to_be_bytes);
        let to = via[usize::from(flow) % via.len()];
        [&to[..], &local, &(libc::ETH_P_IP as u16).to_be_bytes(), &ip, udp.as_flattened()].concat()
    };
    Ok((0..split.flows()).map(front).collect())
}

/// RFC 1071, of an even number of bytes.
fn internet_checksum(bytes: &[u8]) -> u16 {
    let sum: u32 = bytes.chunks_exact(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
    let folded = (sum & 0xFFFF) + (sum >> 16);
    !((folded + (folded >> 16)) as u16)
}

impl Workload for Sender {
    fn run(self: Box<Self>, run: &Run) -> Report {
        let mut parts = self.parts.into_iter();
        let Some(first) = parts.next() else { return Report::default() };
        std::thread::scope(|scope| {
            let others: Vec<_> = parts.map(|part| scope.spawn(|| send(part, run))).collect();
            let mut report = send(first, run);
            // Threads send at the same time, so their times of sending do not add up.
            let sending_ns = report.counters.get("sending_ns").copied();
            for other in others {
                match other.join() {
                    Ok(sent) => {
                        report.complete &= sent.complete;
                        report.merge(sent);
                    }
                    Err(_) => report.failure = Some("a sending thread ended too soon".to_owned()),
                }
            }
            report.counters.extend(sending_ns.map(|ns| ("sending_ns".to_owned(), ns)));
            report
        })
    }
}

/// What one thread sends.
fn send((stream, mut batch): (Stream, RingBatch), run: &Run) -> Report {
    let mut report = stream.send(run, &mut batch);
    // What the kernel has not taken yet goes now, or is not counted as sent.
    let until = clock::raw() + Nanos(40_000_000);
    while batch.ring.waiting().next().is_some() && clock::raw() < until {
        let _ = batch.ring.flush(Patience::UntilGone);
    }
    let counted = (2..=COUNTED_FLOWS).contains(&batch.fronts.len());
    for slot in batch.ring.waiting() {
        *report.counters.entry("sent_packets".to_owned()).or_default() -= 1;
        if counted {
            let flow = usize::from(batch.flows[slot]);
            *report.counters.entry(flow_counter("sent", flow)).or_default() -= 1;
        }
    }
    report
}

/// A batch in a transmit ring.
struct RingBatch {
    ring: TransmitRing,
    frame_bytes: usize,
    /// End of what differs between the frames of a flow.
    header_end: usize,
    /// Per flow, up to the probe header.
    fronts: Vec<Vec<u8>>,
    /// Per slot, whose frame it held last.
    flows: Vec<u16>,
    /// A flood goes as fast as its frames are taken. A rate is kept, whatever queues do: a sender that waited until a
    /// slow device let its frames go would offer what the device takes, in bursts, and never more.
    patience: Patience,
}

impl Batch for RingBatch {
    fn send(&mut self, packets: &[Numbered]) -> io::Result<usize> {
        let mut filled = 0;
        for packet in packets {
            let Some(slot) = self.ring.slot(filled, self.frame_bytes) else { break };
            let Numbered { flow, seq, sent, intended } = *packet;
            let front = &self.fronts[usize::from(flow)];
            slot[..front.len()].copy_from_slice(front);
            ProbeHeader { purpose: Purpose::Data, flow, seq, sent, intended }
                .write(&mut slot[front.len()..self.header_end]);
            let place = self.ring.place(filled);
            if self.flows.len() <= place {
                self.flows.resize(place + 1, 0);
            }
            self.flows[place] = flow;
            filled += 1;
        }
        if filled == 0 {
            self.ring.flush(self.patience)?;
            if self.patience == Patience::None {
                self.ring.wait_for_slot(SLOT_WAIT_MS);
            }
            return Err(io::Error::from_raw_os_error(libc::EAGAIN));
        }
        // Frames that a failed call leaves are marked: the kernel takes them with the next one.
        match self.ring.send(filled, self.frame_bytes, self.patience) {
            Err(error) if trouble(&error) == Trouble::Fatal => Err(error),
            _ => Ok(filled),
        }
    }
}

struct Receiver {
    ring: ReceiveRing,
    idle: Idle,
    flows: usize,
    /// Where the probe header stands.
    payload_at: usize,
    peer: Peer,
    /// What a frame had on the wire and is not seen here: checksum, VLAN tag.
    beyond_bytes: usize,
    /// Where the kernel's own copies of datagrams end.
    sink: Option<(OwnedFd, u16)>,
}

impl Receiver {
    fn prepare(
        arming: &Arming<'_>,
        split: &Split,
        interface: i32,
        tag: u32,
        (routed, tag_bytes): (bool, usize),
    ) -> anyhow::Result<Self> {
        let sink = if routed { Some(sink(ipv4(arming.local.ip("local")?, "local")?)?) } else { None };
        Ok(Self {
            ring: ReceiveRing::open(interface, sink.as_ref().map(|(_, port)| *port))?,
            idle: arming.common.idle,
            flows: usize::from(split.flows()),
            payload_at: if routed { UDP_PAYLOAD_AT } else { PAYLOAD_AT },
            peer: if routed {
                Peer::Address(ipv4(arming.peer.ip("peer")?, "peer")?.octets())
            } else {
                Peer::Interface { mac: arming.peer.mac("peer")?, tag: tag.to_le_bytes() }
            },
            beyond_bytes: tag_bytes + FCS_BYTES as usize,
            sink,
        })
    }
}

/// Who sends the role's frames: what others send is not counted.
#[derive(Clone, Copy)]
enum Peer {
    /// Of datagrams: the source address, which forwarders leave as it is.
    Address([u8; 4]),
    /// Of raw frames: the sender's hardware address, from which those of its flows are made, and the role's tag behind
    /// the probe header.
    Interface { mac: [u8; 6], tag: [u8; 4] },
}

impl Peer {
    #[inline]
    fn sent(&self, frame: &[u8]) -> bool {
        match self {
            Self::Address(address) => frame.get(IP_SOURCE_AT..IP_SOURCE_AT + 4) == Some(address),
            Self::Interface { mac, tag } => {
                frame.get(TAG_AT..TAG_END) == Some(tag)
                    && (frame[6] | FLOW_MARK, &frame[9..12]) == (mac[0] | FLOW_MARK, &mac[3..])
            }
        }
    }
}

/// A UDP socket that takes nothing, and its port: without one the kernel would answer that the port is unreachable.
fn sink(address: Ipv4Addr) -> anyhow::Result<(OwnedFd, u16)> {
    let address = SocketAddr::new(address.into(), 0);
    let socket = socket::open(libc::AF_INET, libc::SOCK_DGRAM, 0)?;
    let nothing = libc::sock_filter { code: (libc::BPF_RET | libc::BPF_K) as u16, jt: 0, jf: 0, k: 0 };
    let program = libc::sock_fprog { len: 1, filter: (&raw const nothing).cast_mut() };
    socket::set_option(&socket, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, program)?;
    socket::bind(&socket, address).with_context(|| format!("cannot bind UDP {address}"))?;
    let port = socket::local_address(&socket)?.port();
    Ok((socket, port))
}

impl Workload for Receiver {
    fn port(&self) -> Option<u16> {
        self.sink.as_ref().map(|(_, port)| *port)
    }

    fn run(mut self: Box<Self>, run: &Run) -> Report {
        let mut arrivals = Arrivals::new(run, self.flows, false);
        let mut report = Report::default();
        let (at, peer, beyond_bytes) = (self.payload_at, self.peer, self.beyond_bytes);
        let mut last_look = None;
        loop {
            let user = clock::raw();
            arrivals.awake(user);
            let any = self.ring.next_block(|frame| match frame.bytes.get(at..) {
                Some(payload) if peer.sent(frame.bytes) => {
                    let counted = frame.length + beyond_bytes;
                    arrivals.take(payload, counted, Some(frame.stamp), user);
                }
                _ => arrivals.stranger(),
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn no_flow_of_a_sender_has_an_address_of_another_guest_or_of_its_flows() {
        let guests = (1..=4u8).map(|n| [2, 0, 0, 0, 0, n]);
        let addresses: BTreeSet<[u8; 6]> =
            guests.flat_map(|mac| (0..1000).map(move |flow| source_of(mac, flow))).collect();
        assert_eq!(addresses.len(), 4000);
        assert!(addresses.iter().all(|mac| mac[0] & 1 == 0), "none is a group address");
        assert_eq!(addresses.iter().filter(|mac| mac[0] == 2).count(), 4);
    }

    #[test]
    fn frames_of_the_peer_are_counted_and_no_others() {
        let (tag, own) = ([1, 2, 3, 4], [2, 0, 0, 0, 0, 1]);
        let frame = |source: [u8; 6], tag: [u8; 4]| {
            [&[2, 0, 0, 0, 0, 9][..], &source, &[0x88, 0xb5], &[0; FULL_BYTES], &tag].concat()
        };
        let peer = Peer::Interface { mac: own, tag };
        assert!((0..1000).all(|flow| peer.sent(&frame(source_of(own, flow), tag))));
        assert!(!peer.sent(&frame(own, [1, 2, 3, 5])));
        assert!((0..1000).all(|flow| !peer.sent(&frame(source_of([2, 0, 0, 0, 0, 2], flow), tag))));
        assert!((0..TAG_END).all(|length| !peer.sent(&frame(own, tag)[..length])));
        let mut datagram = frame(own, tag);
        datagram[IP_SOURCE_AT..IP_SOURCE_AT + 4].copy_from_slice(&[10, 0, 0, 1]);
        assert!(Peer::Address([10, 0, 0, 1]).sent(&datagram));
        assert!(!Peer::Address([10, 0, 0, 66]).sent(&datagram));
        assert!(!Peer::Address([10, 0, 0, 1]).sent(&datagram[..IP_SOURCE_AT + 3]));
    }

    #[test]
    fn a_priority_tag_stands_behind_the_addresses_and_names_no_vlan() {
        let mut front: Vec<u8> = (0..14).collect();
        insert_vlan_tag(&mut front, 5);
        assert_eq!(front[10..], [10, 11, 0x81, 0, 0xa0, 0, 12, 13]);
    }

    #[test]
    fn a_checksum_over_a_header_with_its_checksum_is_zero() {
        // A header whose checksum is known: b861.
        let mut header =
            [0x45, 0, 0, 0x73, 0, 0, 0x40, 0, 0x40, 0x11, 0, 0, 0xc0, 0xa8, 0, 1, 0xc0, 0xa8, 0, 0xc7];
        assert_eq!(internet_checksum(&header), 0xb861);
        header[10..12].copy_from_slice(&0xb861u16.to_be_bytes());
        assert_eq!(internet_checksum(&header), 0);
    }
}
