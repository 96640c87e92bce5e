//! A TCP connection between the ends of a role: the state machine of `virtlab-tcp` on this network's sockets.
//!
//! What waits in the vNIC is bounded as by Linux's small queues: what the flow sends in about 1 ms at the rate at which
//! it would be paced, two segments at least; a frame counts there with the memory it takes, 2,304 B for 1,514 B. A
//! segment's header waits beside the network under the number that its packet carries. Timers are planned lazily: an
//! event that finds its time put off plans itself again, so an acknowledgement that only moves a time-out costs none.

use super::offload::most_segments;
use crate::agenda::Due;
use crate::input::{Finding, Role, finding, unreachable, version_of};
use crate::ip::Message;
use crate::network::{Network, STREAM_SOCKET_BYTES};
use crate::transfers::Load;
use std::collections::{BTreeMap, VecDeque};
use virtlab_load::parameters::{Buffers, CongestionControl};
use virtlab_tcp::{Algorithm, Buffer, Connection, Kind, Options, Segment, full_bytes};
use virtlab_wire::ethernet::HEADER_BYTES;

/// Bytes with which the testbed's client says which flow a connection is; they are not counted.
pub const GREETING_BYTES: u64 = 18;
/// Memory that Linux counts for a frame of 1,514 B.
const FRAME_MEMORY_BYTES: u64 = 2304;
const FRAME_BYTES: u64 = 1514;
/// Of a segment with data and time stamps.
const TCP_HEADER_BYTES: u32 = 32;
/// A packet that so many later ones have overtaken does not come any more.
const OVERTAKEN: u64 = 1 << 16;

/// What a role says of its connections.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wishes {
    pub buffers: Buffers,
    pub no_delay: bool,
}

/// Headers of segments under way from one end, by number.
#[derive(Default)]
struct Wire {
    first: u64,
    segments: VecDeque<Segment>,
    overtaken: BTreeMap<u64, Segment>,
}

impl Wire {
    fn put(&mut self, segment: Segment) -> u64 {
        self.segments.push_back(segment);
        self.first + self.segments.len() as u64 - 1
    }

    fn take(&mut self, number: u64) -> Option<Segment> {
        if number < self.first {
            return self.overtaken.remove(&number);
        }
        while self.first < number {
            let passed = self.segments.pop_front()?;
            self.overtaken.insert(self.first, passed);
            self.first += 1;
        }
        while let Some((&lost, _)) =
            self.overtaken.first_key_value().filter(|(at, _)| **at + OVERTAKEN < number)
        {
            self.overtaken.remove(&lost);
        }
        self.first += 1;
        self.segments.pop_front()
    }

    /// What is under way belongs to a connection that is no more.
    fn forget(&mut self) {
        self.first += self.segments.len() as u64;
        self.segments.clear();
        self.overtaken.clear();
    }
}

struct End {
    connection: Connection,
    socket: usize,
    wire: Wire,
    planned_ns: Option<u64>,
    held_back: bool,
}

/// One connection; end 0 is the client's.
pub struct Flow {
    ip_header_bytes: u32,
    /// Payload of a full segment, as far as both ends' own links have it.
    segment_bytes: u32,
    role: usize,
    number: u32,
    options: Options,
    ends: [End; 2],
}

impl Flow {
    /// Prepares both ends.
    pub fn new(
        index: usize,
        number: u32,
        role: &Role,
        wishes: Wishes,
        network: &mut Network,
    ) -> Result<Self, Finding> {
        let [client, server] = &role.ends;
        let (Some(here), Some(there)) = (client.address, server.address) else {
            return Err(unreachable(role));
        };
        let mtu_bytes = network.mtu_bytes(client.vnic).min(network.mtu_bytes(server.vnic));
        if mtu_bytes < 128 {
            return Err(finding(role, "TCP needs an MTU of at least 128 B"));
        }
        let fixed = |bytes: Option<u64>, most| bytes.map_or(Buffer::Grows(most), Buffer::Fixed);
        let ip_header_bytes = version_of(role).header_bytes();
        let segment_bytes = full_bytes(mtu_bytes, ip_header_bytes, true);
        let options = Options {
            segment_bytes,
            algorithm: match wishes.buffers.congestion_control.unwrap_or_default() {
                CongestionControl::Cubic => Algorithm::Cubic,
                CongestionControl::NewReno => Algorithm::NewReno,
            },
            nagle: !wishes.no_delay,
            ecn: network.speaks_ecn(index),
            send_buffer: fixed(wishes.buffers.send_bytes, 4 << 20),
            receive_buffer: fixed(wishes.buffers.receive_bytes, 3 << 20),
            ..Options::default()
        };
        let port = 30_000 + 100 * index as u32 + number;
        let sockets = network
            .tcp_sockets([client.vnic, server.vnic], [here, there], port as u16, STREAM_SOCKET_BYTES)
            .ok_or_else(|| unreachable(role))?;
        network.never_cut(index);
        let end = |connection, socket| End {
            connection,
            socket,
            wire: Wire::default(),
            planned_ns: None,
            held_back: false,
        };
        let ends =
            [end(Connection::closed(options), sockets[0]), end(Connection::listening(options), sockets[1])];
        Ok(Self { ip_header_bytes, segment_bytes, role: index, number, options, ends })
    }

    /// The client begins the handshake.
    pub fn connect(&mut self, network: &mut Network) {
        self.ends[0].connection.connect();
        self.pump(0, network);
    }

    /// The process of an end is gone.
    pub fn close(&mut self, side: usize, network: &mut Network) {
        self.ends[side].connection.close();
        self.pump(side, network);
    }

    /// The server's end refuses the client, unless that has been welcomed before.
    pub fn refuse(&mut self) {
        self.ends[1].connection.refuse();
    }

    /// Both ends are done with it.
    pub fn end_both(&mut self) {
        for end in &mut self.ends {
            end.connection.end();
        }
    }

    /// Nothing is left of the connection at either end, and another can begin.
    pub fn renew(&mut self) {
        let connections = [Connection::closed(self.options), Connection::listening(self.options)];
        for (end, connection) in self.ends.iter_mut().zip(connections) {
            end.connection = connection;
            (end.planned_ns, end.held_back) = (None, false);
            end.wire.forget();
        }
    }

    /// One end's state.
    pub fn end(&self, side: usize) -> &Connection {
        &self.ends[side].connection
    }

    /// What so many octets are on a line, in full segments.
    pub fn load_of(&self, bytes: u64) -> Load {
        let frames = bytes.div_ceil(u64::from(self.segment_bytes).max(1)).max(1);
        let heads = HEADER_BYTES + self.ip_header_bytes + TCP_HEADER_BYTES;
        Load { frames, bytes: bytes + frames * u64::from(heads) }
    }

    /// What an end sends beside the connection takes along what it has yet to acknowledge.
    pub fn acknowledge_beside(&mut self, side: usize, network: &mut Network) {
        let now_ns = network.now_ns;
        if let Some(segment) = self.ends[side].connection.acknowledgement_beside(now_ns) {
            self.ends[1 - side].connection.take(&segment, false, now_ns);
            network.confirm(self.ends[1 - side].socket);
            self.pump(1 - side, network);
        }
    }

    /// Writes at an end, and sends what may go.
    pub fn write(&mut self, side: usize, bytes: u64, network: &mut Network) {
        self.ends[side].connection.write(bytes);
        self.pump(side, network);
    }

    /// A segment comes; which end took it. Its answer goes when the application has had its turn: [`Flow::pump`].
    pub fn take(&mut self, message: Message, network: &mut Network) -> usize {
        let side = 1 - usize::from(message.origin);
        let now_ns = network.now_ns;
        let before = self.ends[side].connection.acknowledged_bytes();
        let mut came = false;
        for number in 0..network.segments_in(&message) {
            let own = Message { seq: message.seq + number, ..message };
            if let Some(segment) = self.ends[usize::from(message.origin)].wire.take(own.seq) {
                let marked = network.was_marked(&own);
                self.ends[side].connection.take(&segment, marked, now_ns);
                came = true;
            }
        }
        if self.ends[side].connection.acknowledged_bytes() > before {
            network.confirm(self.ends[side].socket);
        }
        // The kernel acknowledges before the process runs.
        if came && let Some(answer) = self.ends[side].connection.acknowledgement(now_ns) {
            self.send(side, answer, network);
        }
        side
    }

    /// An instant that this flow planned has come at an end.
    pub fn alarm(&mut self, side: usize, network: &mut Network) {
        let end = &mut self.ends[side];
        end.held_back = false;
        if end.planned_ns.is_some_and(|at| at <= network.now_ns) {
            end.planned_ns = None;
        }
        if end.connection.next_ns().is_some_and(|at| at <= network.now_ns) {
            end.connection.alarm(network.now_ns);
        }
        self.pump(side, network);
    }

    /// Fits an end's segments to what its guest knows of the path.
    fn fit(&mut self, side: usize, network: &Network) {
        let mtu_bytes = network.path_mtu_bytes(self.ends[side].socket);
        let bytes = full_bytes(mtu_bytes, self.ip_header_bytes, true).min(self.segment_bytes);
        if self.ends[side].connection.fit(bytes) {
            self.ends[1 - side].connection.expect(bytes);
        }
    }

    /// Sends all that may go now.
    pub fn pump(&mut self, side: usize, network: &mut Network) {
        if network.knows_paths() {
            self.fit(side, network);
        }
        let due = Due::Tick { role: self.role, side, generation: self.number + 1 };
        let end = &mut self.ends[side];
        let socket = end.socket;
        let together = if network.takes_together(socket) { self.together(side) } else { 1 };
        let end = &mut self.ends[side];
        let most_bytes = small_queue_bytes(&end.connection);
        network.bound(socket, most_bytes.max(2 * together as u64 * FRAME_BYTES).min(STREAM_SOCKET_BYTES));
        // One that does not go with those before it.
        let mut odd = None;
        loop {
            let room = network.has_room(socket);
            let next = odd.take().or_else(|| self.ends[side].connection.transmit(room, network.now_ns));
            let Some(segment) = next else {
                if !room && !self.ends[side].held_back {
                    self.ends[side].held_back = true;
                    network.await_room(socket, due);
                }
                break;
            };
            if together > 1 {
                odd = self.send_together(side, segment, together, network);
            } else {
                self.send(side, segment, network);
            }
        }
        let end = &mut self.ends[side];
        if let Some(at) = end.connection.next_ns()
            && end.planned_ns.is_none_or(|planned| at < planned)
        {
            end.planned_ns = Some(at.max(network.now_ns));
            network.agenda.plan(at.max(network.now_ns), due);
        }
    }

    /// How many segments an end sends as one.
    fn together(&self, side: usize) -> usize {
        let connection = &self.ends[side].connection;
        most_segments(self.segment_bytes, connection.rate_byte_per_s(), connection.least_ns())
    }

    /// Sends a segment with those that follow it and are as long, the last maybe shorter; one that does not go with
    /// them.
    fn send_together(
        &mut self,
        side: usize,
        first: Segment,
        most: usize,
        network: &mut Network,
    ) -> Option<Segment> {
        let mut segments = vec![first];
        let mut odd = None;
        while segments.len() < most && goes_on(&first, &segments[segments.len() - 1]) {
            let last = segments[segments.len() - 1];
            match self.ends[side].connection.transmit(true, network.now_ns) {
                Some(next) if follows(&last, &next) => segments.push(next),
                other => {
                    odd = other;
                    break;
                }
            }
        }
        let messages: Vec<Message> =
            segments.into_iter().map(|segment| self.message(side, segment, network)).collect();
        network.send_together(self.ends[side].socket, &messages, first.header_bytes());
        odd
    }

    fn send(&mut self, side: usize, segment: Segment, network: &mut Network) {
        let message = self.message(side, segment, network);
        network.send(self.ends[side].socket, message);
    }

    fn message(&mut self, side: usize, segment: Segment, network: &mut Network) -> Message {
        let end = &mut self.ends[side];
        let message = Message {
            role: self.role as u32,
            origin: side as u8,
            reply: false,
            flow: self.number,
            seq: end.wire.put(segment),
            sent_ns: network.now_ns,
            payload_bytes: segment.length_bytes(),
        };
        if segment.markable {
            network.may_mark(&message);
        }
        message
    }
}

/// Whether another may follow a segment in one with it.
fn goes_on(first: &Segment, last: &Segment) -> bool {
    last.kind == Kind::Data && last.bytes > 0 && last.bytes == first.bytes
}

/// Whether a segment goes with the one before it.
fn follows(last: &Segment, next: &Segment) -> bool {
    next.kind == Kind::Data
        && (1..=last.bytes).contains(&next.bytes)
        && next.seq == last.seq + u64::from(last.bytes)
        && next.header_bytes() == last.header_bytes()
        && !next.window_reduced
}

/// Bytes of frames that may wait in the vNIC.
fn small_queue_bytes(connection: &Connection) -> u64 {
    match connection.rate_byte_per_s() {
        None => STREAM_SOCKET_BYTES,
        Some(rate) => {
            (rate / 1024 * FRAME_BYTES / FRAME_MEMORY_BYTES).clamp(2 * FRAME_BYTES, STREAM_SOCKET_BYTES)
        }
    }
}
