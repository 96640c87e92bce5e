//! `burst_load`: L bytes every T in S streams, one way or with replies, from one end or both.
//!
//! An end that originates serves its streams' schedules in order of time, as one thread does; a datagram for which its
//! socket has no room holds it back. Bursts are never left out: late ones follow at once.

use crate::agenda::Due;
use crate::input::{Finding, Role};
use crate::ip::Message;
use crate::network::Network;
use crate::samples::{BurstRow, Table};
use crate::workloads::workload::{Counters, Kind, SOCKET_BYTES, Workload, finding, parse, unreachable};
use serde_json::Value;
use virtlab_load::Transport;
use virtlab_load::burst::{self, MAXIMUM_DATAGRAM_BYTES, OriginSide};
use virtlab_load::parameters::burst_load::{BurstLoad as Parameters, NAME};
use virtlab_wire::Nanos;

/// Replies still on their way at the end are awaited this long.
const GRACE_NS: u64 = 40_000_000;

struct Stream {
    phase_ns: u64,
    next_burst: u64,
    next_seq: u64,
    /// First number and row of each burst.
    bursts: Vec<(u64, usize)>,
}

/// A burst that is being sent.
struct Sending {
    stream: usize,
    row: usize,
    sizes: Vec<u32>,
    next: usize,
}

struct Origin {
    streams: Vec<Stream>,
    sockets: Vec<usize>,
    rows: Vec<BurstRow>,
    sending: Option<Sending>,
    start_ns: u64,
    until_ns: Option<u64>,
    sent: (u64, u64),
    replied: (u64, u64),
    finished: bool,
}

/// What an answering end has seen.
#[derive(Default)]
struct Answers {
    received: (u64, u64),
    sent: (u64, u64),
}

/// How a role of it is made.
pub const KIND: Kind = Kind {
    name: NAME,
    make: |index, role, network| Ok(Box::new(BurstLoad::new(index, role, network)?)),
    tags: false,
};

/// One load role.
pub struct BurstLoad {
    role: usize,
    icmp: bool,
    replies: bool,
    burst_bytes: u64,
    period_ns: u64,
    duration_ns: u64,
    origins: [Option<Origin>; 2],
    /// The socket from which each side answers.
    answering: [usize; 2],
    answers: [Answers; 2],
    stopped: bool,
}

impl BurstLoad {
    /// Prepares both ends.
    pub fn new(index: usize, role: &Role, network: &mut Network) -> Result<Self, Finding> {
        let own: Parameters = parse(role)?;
        own.check().map_err(|error| finding(role, &error.to_string()))?;
        let transport = Transport::from(own.protocol);
        let (icmp, replies) = (transport == Transport::Icmp, own.replies());
        let addresses = [role.ends[0].address, role.ends[1].address];
        let mut open = |side: usize, port: u32, most| {
            let (from, to) = (addresses[side]?, addresses[1 - side]?);
            network.socket(role.ends[side].vnic, from, to, transport, port as u16, most)
        };
        let port = 20_000 + 100 * index as u32;
        let mut origins = [None, None];
        let mut answering = [0; 2];
        let mut kernel = Vec::new();
        for (side, ours) in [(0, OriginSide::From), (1, OriginSide::To)] {
            let most = if icmp { u64::MAX } else { SOCKET_BYTES };
            answering[side] = open(side, 5001, most).ok_or_else(|| unreachable(role))?;
            if icmp {
                kernel.push(answering[side]);
            }
            if !own.comes_from(ours) {
                continue;
            }
            let name = format!("{}.{}", role.name, if side == 0 { "from" } else { "to" });
            let phases = burst::phases(
                own.phase,
                Nanos(own.phase_ns),
                Nanos(own.period_ns),
                own.streams,
                role.ends[side].seed,
                &name,
            );
            // With ICMP there is a single socket.
            let sockets: Option<Vec<usize>> = (0..if icmp { 1 } else { own.streams })
                .map(|stream| open(side, port + stream, SOCKET_BYTES))
                .collect();
            let stream =
                |phase: Nanos| Stream { phase_ns: phase.0, next_burst: 0, next_seq: 0, bursts: Vec::new() };
            origins[side] = Some(Origin {
                streams: phases.into_iter().map(stream).collect(),
                sockets: sockets.ok_or_else(|| unreachable(role))?,
                rows: Vec::new(),
                sending: None,
                start_ns: 0,
                until_ns: None,
                sent: (0, 0),
                replied: (0, 0),
                finished: false,
            });
        }
        kernel.into_iter().for_each(|socket| network.by_kernel(socket));
        Ok(Self {
            role: index,
            icmp,
            replies,
            burst_bytes: own.burst_bytes,
            period_ns: own.period_ns,
            duration_ns: own.duration_ns.unwrap_or(u64::MAX),
            origins,
            answering,
            answers: Default::default(),
            stopped: false,
        })
    }

    fn wind_up(&mut self, side: usize, network: &mut Network) {
        let Some(origin) = &mut self.origins[side] else { return };
        if origin.until_ns.is_none() {
            let until = network.now_ns + if self.replies { GRACE_NS } else { 0 };
            origin.until_ns = Some(until);
            network.agenda.plan(until, Due::Expire { role: self.role, side });
        }
        origin.look(network.now_ns);
    }
}

impl Origin {
    fn look(&mut self, now_ns: u64) {
        let over = |until| now_ns >= until || self.replied.0 == self.sent.0;
        self.finished |= self.until_ns.is_some_and(over);
    }

    /// When and of which stream the next burst is.
    fn next(&self, period_ns: u64) -> Option<(u64, usize)> {
        let instant = |stream: &Stream| {
            let offset = stream.phase_ns.saturating_add(stream.next_burst.saturating_mul(period_ns));
            self.start_ns.saturating_add(offset)
        };
        self.streams.iter().map(instant).zip(0..).min()
    }
}

impl Workload for BurstLoad {
    fn start(&mut self, network: &mut Network) {
        for side in [0, 1] {
            if let Some(origin) = &mut self.origins[side] {
                origin.start_ns = network.now_ns;
                self.tick(side, 0, network);
            }
        }
    }

    fn tick(&mut self, side: usize, generation: u32, network: &mut Network) {
        let (role, burst_bytes, most) = (self.role, self.burst_bytes, MAXIMUM_DATAGRAM_BYTES);
        let Some(origin) = &mut self.origins[side] else { return };
        let due = Due::Tick { role, side, generation };
        while origin.until_ns.is_none() {
            if let Some(sending) = &mut origin.sending {
                let socket = origin.sockets[sending.stream.min(origin.sockets.len() - 1)];
                if !network.has_room(socket) {
                    network.await_room(socket, due);
                    return;
                }
                let stream = &mut origin.streams[sending.stream];
                let payload_bytes = sending.sizes[sending.next];
                let message = Message {
                    role: role as u32,
                    origin: side as u8,
                    reply: false,
                    flow: sending.stream as u32,
                    seq: stream.next_seq,
                    sent_ns: network.now_ns,
                    payload_bytes,
                };
                network.send(socket, message);
                stream.next_seq += 1;
                origin.sent.0 += 1;
                origin.sent.1 += u64::from(payload_bytes);
                origin.rows[sending.row].sent_bytes += i64::from(payload_bytes);
                sending.next += 1;
                if sending.next == sending.sizes.len() {
                    origin.sending = None;
                }
                continue;
            }
            let Some((intended, index)) = origin.next(self.period_ns) else { return };
            let end = origin.start_ns.saturating_add(self.duration_ns);
            if intended > network.now_ns && end > network.now_ns {
                network.agenda.plan(intended.min(end), due);
                return;
            }
            if intended >= end {
                self.wind_up(side, network);
                return;
            }
            let count = origin.streams.len() as u32;
            let stream = &mut origin.streams[index];
            let burst = stream.next_burst;
            stream.next_burst += 1;
            let sizes = burst::datagrams(burst::share(burst_bytes, count, index as u32), most);
            if sizes.is_empty() {
                continue;
            }
            stream.bursts.push((stream.next_seq, origin.rows.len()));
            origin.sending = Some(Sending { stream: index, row: origin.rows.len(), sizes, next: 0 });
            origin.rows.push(BurstRow {
                burst: burst as i64,
                stream: index as i32,
                intended_ns: intended as i64,
                sent_ns: network.now_ns as i64,
                finished_ns: -1,
                sent_bytes: 0,
                replied_bytes: 0,
            });
        }
    }

    fn expire(&mut self, side: usize, network: &mut Network) {
        if let Some(origin) = &mut self.origins[side] {
            origin.look(network.now_ns);
        }
    }

    fn wakes(&self, message: &Message) -> bool {
        message.reply || !self.icmp
    }

    fn take(&mut self, message: Message, network: &mut Network) {
        let bytes = u64::from(message.payload_bytes);
        if !message.reply {
            let side = 1 - usize::from(message.origin);
            let answers = &mut self.answers[side];
            answers.received.0 += 1;
            answers.received.1 += bytes;
            if self.replies {
                answers.sent.0 += 1;
                answers.sent.1 += bytes;
                network.send_later(self.answering[side], Message { reply: true, ..message });
            }
            return;
        }
        let Some(origin) = &mut self.origins[usize::from(message.origin)] else { return };
        if origin.finished {
            return;
        }
        origin.replied.0 += 1;
        origin.replied.1 += bytes;
        let bursts = &origin.streams[message.flow as usize].bursts;
        let after = match bursts.last() {
            Some((first, _)) if *first <= message.seq => bursts.len(),
            _ => bursts.partition_point(|(first, _)| *first <= message.seq),
        };
        let row = &mut origin.rows[bursts[after - 1].1];
        row.replied_bytes += i64::from(message.payload_bytes);
        let whole = origin.sending.as_ref().is_none_or(|sending| sending.row != bursts[after - 1].1);
        if whole && row.replied_bytes >= row.sent_bytes {
            row.finished_ns = network.now_ns as i64;
        }
        origin.look(network.now_ns);
    }

    fn stop(&mut self, network: &mut Network) {
        self.stopped = true;
        for side in [0, 1] {
            self.wind_up(side, network);
        }
    }

    fn set(&mut self, parameter: &str, value: &Value, _network: &mut Network) {
        if let ("burst_bytes", Some(bytes)) = (parameter, value.as_u64()) {
            self.burst_bytes = bytes;
        }
    }

    fn finished(&self) -> bool {
        let over = |origin: &Option<Origin>| origin.as_ref().is_none_or(|origin| origin.finished);
        match &self.origins[0] {
            Some(client) if !self.stopped => client.finished,
            _ => self.stopped && self.origins.iter().all(over),
        }
    }

    fn report(&self, stream: &str) -> (Vec<Table>, Counters) {
        let mut counters = [Vec::new(), Vec::new()];
        let mut rows = Vec::new();
        for (side, counters) in counters.iter_mut().enumerate() {
            let answers = &self.answers[side];
            let mut sent = (0, 0);
            let mut received = (0, 0);
            if let Some(origin) = &self.origins[side] {
                rows.extend(origin.rows.iter().copied());
                let bursts = origin.streams.iter().map(|stream| stream.next_burst).sum();
                counters.extend([
                    ("requests_sent_packets", origin.sent.0),
                    ("requests_sent_bytes", origin.sent.1),
                    ("replies_received_packets", origin.replied.0),
                    ("replies_received_bytes", origin.replied.1),
                    ("bursts", bursts),
                ]);
                sent = origin.sent;
                received = origin.replied;
            }
            if !self.icmp && (side == 1 || self.origins[1 - side].is_some()) {
                counters.extend([
                    ("requests_received_packets", answers.received.0),
                    ("requests_received_bytes", answers.received.1),
                    ("replies_sent_packets", answers.sent.0),
                    ("replies_sent_bytes", answers.sent.1),
                ]);
                sent = (sent.0 + answers.sent.0, sent.1 + answers.sent.1);
                received = (received.0 + answers.received.0, received.1 + answers.received.1);
            }
            counters.extend([
                ("sent_packets", sent.0),
                ("sent_bytes", sent.1),
                ("received_packets", received.0),
                ("received_bytes", received.1),
                ("send_errors", 0),
            ]);
        }
        (Table::of(stream, &rows).into_iter().collect(), counters)
    }
}
