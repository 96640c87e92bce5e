//! `udp_stream` and `raw_stream`: a numbered stream one way, at a rate or as fast as the vNIC lets it.
//!
//! Packets go at their intended instants; where the socket has no room they go as soon as it has, several at once when
//! several are due.

use crate::agenda::Due;
use crate::input::{Finding, Role};
use crate::ip::Message;
use crate::network::Network;
use crate::samples::{PacketRow, SentRow, Table};
use crate::workloads::workload::{
    Counters, Kind, STREAM_SOCKET_BYTES, Workload, finding, parse, unreachable, version_of,
};
use serde_json::Value;
use virtlab_load::meters::{Jitter, Sequence};
use virtlab_load::parameters::{RawStream, UdpStream, raw_stream, udp_stream};
use virtlab_load::schedule::{Arrivals, Schedule};
use virtlab_load::{Split, Transport};
use virtlab_wire::Nanos;
use virtlab_wire::ethernet::{FCS_BYTES, HEADER_BYTES};

/// A packet due so shortly before the end is not missed, as in the testbed.
const UNSENT_SLACK_NS: u64 = 10_000;
/// Flows beyond this number have no counters of their own, as in the testbed.
const COUNTED_FLOWS: usize = 1024;

/// A socket per flow, whose turn it is, and how gaps come about, with their seed.
struct Routes {
    sockets: Vec<usize>,
    split: Split,
    gaps: (Arrivals, u64),
}

/// How a role of datagrams is made.
pub const DATAGRAMS: Kind = Kind {
    name: udp_stream::NAME,
    make: |index, role, network| Ok(Box::new(Stream::udp(index, role, network)?)),
    tags: false,
};

/// How a role of whole frames is made.
pub const FRAMES: Kind = Kind {
    name: raw_stream::NAME,
    make: |index, role, network| Ok(Box::new(Stream::raw(index, role, network)?)),
    tags: true,
};

/// One stream role.
pub struct Stream {
    role: usize,
    schedule: Schedule,
    arrivals: Arrivals,
    seed: u64,
    /// Bits of a packet that count against a rate; absent when the rate is in packets.
    packet_bits: Option<u64>,
    duration_ns: u64,
    payload_bytes: u32,
    keep_sent: bool,
    with_rows: bool,
    /// One per flow.
    sockets: Vec<usize>,
    split: Split,
    sent_by_flow: Vec<u64>,
    start_ns: u64,
    base: f64,
    origin_ns: u64,
    generation: u32,
    sent: u64,
    complete: bool,
    finished: bool,
    sent_rows: Vec<SentRow>,
    rows: Vec<PacketRow>,
    flows: Vec<Sequence>,
    jitter: Jitter,
    received_bytes: u64,
}

impl Stream {
    /// Prepares both ends of a `udp_stream`.
    pub fn udp(index: usize, role: &Role, network: &mut Network) -> Result<Self, Finding> {
        let own: UdpStream = parse(role)?;
        own.check().map_err(|error| finding(role, &error.to_string()))?;
        let [client, server] = &role.ends;
        let size = own
            .size(version_of(role), network.mtu_bytes(client.vnic))
            .map_err(|error| finding(role, &error.to_string()))?;
        let (Some(from), Some(to)) = (client.address, server.address) else { return Err(unreachable(role)) };
        let port = 40_000 + index as u16;
        let frame_bytes = u64::from(size.ip_packet_bytes + HEADER_BYTES + FCS_BYTES);
        // What may wait in front of the wire is as of a sender's socket, whose buffer Linux doubles; a receiver takes
        // what comes at once.
        let room_bytes =
            own.send_buffer_bytes.map_or(STREAM_SOCKET_BYTES, |bytes| (2 * bytes).max(frame_bytes));
        let socket = network
            .socket(client.vnic, from, to, Transport::Udp, port, room_bytes)
            .ok_or_else(|| unreachable(role))?;
        network.only_counted(socket);
        let packet_bits = u64::from(size.ip_packet_bytes) * 8;
        let schedule = match own.rate_bit_per_s {
            Some(rate) => own.paced(size, rate, client.seed),
            None => flood(role, client.vnic, network)?,
        };
        Ok(Self::new(
            index,
            schedule,
            Some(packet_bits),
            own.duration_ns,
            size.payload_bytes,
            [own.keep_sent, role.kept],
            Routes {
                gaps: (own.arrivals, client.seed),
                sockets: vec![socket],
                split: Split::even(1).map_err(|error| finding(role, &error.to_string()))?,
            },
        ))
    }

    /// Prepares both ends of a `raw_stream`.
    pub fn raw(index: usize, role: &Role, network: &mut Network) -> Result<Self, Finding> {
        // Guests that forward are named by the places of their vNICs. Sending takes no time here, so one thread sends
        // as fast as many.
        let own: RawStream<usize> = parse(role)?;
        let [client, server] = &role.ends;
        own.check(network.mtu_bytes(client.vnic)).map_err(|error| finding(role, &error.to_string()))?;
        let split = own.split().map_err(|error| finding(role, &error.to_string()))?;
        let schedule = match own.rate_pps {
            Some(rate) => own.paced(rate, client.seed),
            None => flood(role, client.vnic, network)?,
        };
        let ends = client.address.zip(server.address);
        let sockets: Vec<usize> = (0..split.flows())
            .map(|flow| match (own.via.get(usize::from(flow) % own.via.len().max(1)), ends) {
                (None, _) => Ok(network.raw_socket(client.vnic, server.vnic, flow, STREAM_SOCKET_BYTES)),
                (Some(via), Some((from, to))) => {
                    Ok(network.raw_socket_via((client.vnic, from), *via, to, flow, STREAM_SOCKET_BYTES))
                }
                (Some(_), None) => Err(unreachable(role)),
            })
            .collect::<Result<_, Finding>>()?;
        sockets.iter().for_each(|socket| network.only_counted(*socket));
        Ok(Self::new(
            index,
            schedule,
            None,
            own.duration_ns,
            own.frame_bytes,
            [own.keep_sent, role.kept],
            Routes { sockets, split, gaps: (own.arrivals, client.seed) },
        ))
    }

    fn new(
        role: usize,
        schedule: Schedule,
        packet_bits: Option<u64>,
        duration_ns: Option<u64>,
        payload_bytes: u32,
        records: [bool; 2],
        routes: Routes,
    ) -> Self {
        let [keep_sent, with_rows] = records;
        let Routes { sockets, split, gaps } = routes;
        Self {
            role,
            schedule,
            arrivals: gaps.0,
            seed: gaps.1,
            packet_bits,
            duration_ns: duration_ns.unwrap_or(u64::MAX),
            payload_bytes,
            keep_sent,
            with_rows,
            flows: vec![Sequence::default(); sockets.len()],
            sockets,
            sent_by_flow: vec![0; usize::from(split.flows())],
            split,
            start_ns: 0,
            base: 0.0,
            origin_ns: 0,
            generation: 0,
            sent: 0,
            complete: false,
            finished: false,
            sent_rows: Vec::new(),
            rows: Vec::new(),
            jitter: Jitter::default(),
            received_bytes: 0,
        }
    }

    fn end_ns(&self) -> u64 {
        self.start_ns.saturating_add(self.duration_ns)
    }

    /// By flow, what was due and did not leave; `None` where nothing is ever due, or the role was stopped.
    fn unsent(&self) -> Option<Vec<u64>> {
        let elapsed = Nanos(self.end_ns().saturating_sub(self.origin_ns).saturating_sub(UNSENT_SLACK_NS));
        let position = self.schedule.position(elapsed).filter(|_| self.complete)?;
        let due = self.split.before(self.base + position);
        Some(due.iter().zip(&self.sent_by_flow).map(|(due, sent)| due.saturating_sub(*sent)).collect())
    }

    fn send(&mut self, socket: usize, intended_ns: u64, network: &mut Network) {
        let turn = self.split.peek();
        self.split.advance();
        self.sent_by_flow[usize::from(turn.flow)] += 1;
        let (flow, seq, sent_ns) = (u32::from(turn.flow), turn.seq, network.now_ns);
        let message = Message {
            role: self.role as u32,
            origin: 0,
            reply: false,
            flow,
            seq,
            sent_ns,
            payload_bytes: self.payload_bytes,
        };
        network.send(socket, message);
        self.sent += 1;
        if self.keep_sent {
            self.sent_rows.push(SentRow {
                seq: seq as i64,
                flow: flow as i32,
                intended_ns: intended_ns as i64,
                sent_ns: sent_ns as i64,
                payload_bytes: self.payload_bytes as i32,
            });
        }
    }
}

/// As fast as the vNIC lets it; a vNIC that never holds back would let a costless sender send for ever in no time.
fn flood(role: &Role, vnic: usize, network: &Network) -> Result<Schedule, Finding> {
    if network.bounds_a_flood(vnic) {
        return Ok(Schedule::Flood);
    }
    Err(Finding::new(
        format!("roles.{}", role.name),
        "as fast as possible has no meaning where sending costs nothing and the vNIC does not push back",
        "give the role a rate, its vNIC a pushback, or the platform its costs (--profile)",
    ))
}

impl Workload for Stream {
    fn start(&mut self, network: &mut Network) {
        (self.start_ns, self.origin_ns) = (network.now_ns, network.now_ns);
        if self.duration_ns < u64::MAX {
            network.agenda.plan(self.end_ns(), Due::Expire { role: self.role, side: 0 });
        }
        self.tick(0, 0, network);
    }

    fn tick(&mut self, side: usize, generation: u32, network: &mut Network) {
        let due = Due::Tick { role: self.role, side, generation };
        while generation == self.generation && !self.finished && network.now_ns < self.end_ns() {
            let turn = self.split.peek();
            let offset = self.schedule.offset_at(turn.at - self.base);
            let intended = self.origin_ns.saturating_add(offset.0);
            if intended > network.now_ns {
                network.agenda.plan(intended, due);
                return;
            }
            let socket = self.sockets[usize::from(turn.flow)];
            if !network.has_room(socket) {
                network.await_room(socket, due);
                return;
            }
            let flooding = matches!(self.schedule, Schedule::Flood);
            self.send(socket, if flooding { network.now_ns } else { intended }, network);
        }
    }

    fn expire(&mut self, _side: usize, _network: &mut Network) {
        self.complete |= !self.finished;
        self.finished = true;
    }

    fn wakes(&self, _message: &Message) -> bool {
        true
    }

    fn take(&mut self, message: Message, network: &mut Network) {
        self.count(message, network.stamp_ns);
        if let (true, Some(row)) = (self.with_rows, self.rows.last_mut()) {
            row.user_ns = network.now_ns as i64;
        }
    }

    fn count(&mut self, message: Message, at_ns: u64) {
        let bytes = u64::from(message.payload_bytes);
        self.flows[message.flow as usize].record(message.seq);
        self.received_bytes += bytes;
        self.jitter.record(message.sent_ns as i64, at_ns as i64);
        if !self.with_rows {
            return;
        }
        self.rows.push(PacketRow {
            seq: message.seq as i64,
            flow: message.flow as i32,
            sent_ns: message.sent_ns as i64,
            received_ns: at_ns as i64,
            user_ns: at_ns as i64,
            payload_bytes: message.payload_bytes as i32,
        });
    }

    fn stop(&mut self, _network: &mut Network) {
        self.finished = true;
    }

    fn set(&mut self, parameter: &str, value: &Value, network: &mut Network) {
        let schedule = match (parameter, self.packet_bits, value.as_u64()) {
            ("rate_bit_per_s", Some(packet_bits), Some(rate_bit_per_s)) => {
                Schedule::Paced { packet_bits, rate_bit_per_s }
            }
            ("rate_pps", None, Some(rate_pps)) => Schedule::PerSecond { rate_pps },
            _ => return,
        };
        self.schedule = schedule.with(self.arrivals, self.seed);
        (self.base, self.origin_ns) = (self.split.peek().at, network.now_ns);
        self.generation += 1;
        self.tick(0, self.generation, network);
    }

    fn finished(&self) -> bool {
        self.finished
    }

    fn flow_counters(&self) -> [Vec<(String, u64)>; 2] {
        if !(2..=COUNTED_FLOWS).contains(&self.flows.len()) {
            return Default::default();
        }
        let name = |flow: usize, what: &str| format!("flow{flow}.{what}_packets");
        let sent = self.sent_by_flow.iter().enumerate().map(|(flow, sent)| (name(flow, "sent"), *sent));
        let unsent = self.unsent().unwrap_or_default();
        let unsent = unsent.into_iter().enumerate().map(|(flow, unsent)| (name(flow, "unsent"), unsent));
        let came = self.flows.iter().enumerate().flat_map(|(flow, found)| {
            [
                (name(flow, "received"), found.received),
                (name(flow, "duplicate"), found.duplicates),
                (name(flow, "reordered"), found.reordered),
            ]
        });
        [sent.chain(unsent).collect(), came.collect()]
    }

    fn report(&self, stream: &str) -> (Vec<Table>, Counters) {
        let sum = |of: fn(&Sequence) -> u64| self.flows.iter().map(of).sum::<u64>();
        let mut client = vec![
            ("sent_packets", self.sent),
            ("sent_bytes", self.sent * u64::from(self.payload_bytes)),
            ("send_errors", 0),
        ];
        if let Some(unsent) = self.unsent() {
            client.push(("unsent_packets", unsent.iter().sum()));
        }
        let mut server = vec![
            ("received_packets", sum(|flow| flow.received)),
            ("received_bytes", self.received_bytes),
            ("duplicate_packets", sum(|flow| flow.duplicates)),
            ("reordered_packets", sum(|flow| flow.reordered)),
            ("missing_packets", sum(|flow| flow.lost(flow.next_expected()))),
            ("socket_drops", 0),
        ];
        if let Some(jitter) = self.jitter.ns() {
            server.push(("jitter_rfc3550_ns", jitter as u64));
        }
        let sent = Table::of(stream, &self.sent_rows);
        (sent.into_iter().chain(Table::of(stream, &self.rows)).collect(), [client, server])
    }
}
