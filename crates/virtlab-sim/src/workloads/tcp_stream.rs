//! `tcp_stream`: bytes over TCP as fast as they go, one way, from processes that cost nothing.
//!
//! As the testbed's: connections are made one after another, each begins with a greeting that is not counted, and every
//! 100 ms each end writes a row per connection.

use crate::agenda::Due;
use crate::input::{Finding, Role};
use crate::ip::Message;
use crate::network::Network;
use crate::samples::{IntervalRow, Table};
use crate::tcp::{Flow, GREETING_BYTES, Wishes};
use crate::workloads::workload::{Counters, Kind, Workload, finding, parse};
use virtlab_load::parameters::tcp_stream::{NAME, TcpStream as Parameters};

/// An end of a connection as sampled before.
#[derive(Clone, Copy)]
struct Before {
    at_ns: u64,
    bytes: u64,
    retransmits: u64,
}

struct Stream {
    flow: Flow,
    greeted: bool,
    written: u64,
    /// Rest of the message that is being written.
    rest: u64,
    before: [Option<Before>; 2],
}

/// How a role of it is made.
pub const KIND: Kind = Kind {
    name: NAME,
    make: |index, role, network| Ok(Box::new(TcpStream::new(index, role, network)?)),
    tags: false,
};

/// One stream role.
pub struct TcpStream {
    role: usize,
    own: Parameters,
    streams: Vec<Stream>,
    start_ns: u64,
    next_ns: u64,
    pouring: bool,
    finished: bool,
    /// What the server had read when the role finished.
    received: u64,
    retransmits: u64,
    rows: Vec<IntervalRow>,
}

impl TcpStream {
    /// Prepares both ends.
    pub fn new(index: usize, role: &Role, network: &mut Network) -> Result<Self, Finding> {
        let own: Parameters = parse(role)?;
        own.check().map_err(|error| finding(role, &error.to_string()))?;
        let wishes = Wishes { buffers: own.buffers(), no_delay: own.no_delay };
        let stream = |flow| Stream { flow, greeted: false, written: 0, rest: 0, before: [None; 2] };
        let streams: Result<Vec<Stream>, Finding> = (0..u32::from(own.streams))
            .map(|number| Flow::new(index, number, role, wishes, network).map(stream))
            .collect();
        Ok(Self {
            role: index,
            streams: streams?,
            own,
            start_ns: 0,
            next_ns: 0,
            pouring: false,
            finished: false,
            received: 0,
            retransmits: 0,
            rows: Vec::new(),
        })
    }

    /// The next connection, or, when all are there, the bytes.
    fn go_on(&mut self, network: &mut Network) {
        for at in 0..self.streams.len() {
            let stream = &mut self.streams[at];
            if !stream.flow.end(0).is_open() {
                stream.flow.connect(network);
                return;
            }
            if !stream.greeted {
                stream.greeted = true;
                stream.before[0] = Some(Before { at_ns: network.now_ns, bytes: 0, retransmits: 0 });
                stream.flow.write(0, GREETING_BYTES, network);
            }
        }
        self.pouring = true;
        if let Some(duration_ns) = self.own.duration_ns {
            network.agenda.plan(network.now_ns + duration_ns, Due::Expire { role: self.role, side: 0 });
        }
        for at in 0..self.streams.len() {
            self.pour(at, network);
        }
    }

    fn pour(&mut self, at: usize, network: &mut Network) {
        if !self.pouring || self.finished {
            return;
        }
        let stream = &mut self.streams[at];
        loop {
            if stream.rest == 0 {
                stream.rest = self.own.message_bytes;
            }
            let bytes = stream.flow.end(0).room_bytes().min(stream.rest);
            if bytes == 0 {
                return;
            }
            stream.rest -= bytes;
            stream.written += bytes;
            stream.flow.write(0, bytes, network);
        }
    }

    fn sample(&mut self, now_ns: u64) {
        for (stream, number) in self.streams.iter_mut().zip(0..) {
            if let Some(before) = &mut stream.before[0] {
                let end = stream.flow.end(0);
                let (bytes, retransmits) = (stream.written, end.retransmits());
                self.rows.push(IntervalRow {
                    flow: number,
                    begin_ns: before.at_ns as i64,
                    end_ns: now_ns as i64,
                    received_bytes: 0,
                    sent_bytes: (bytes - before.bytes) as i64,
                    retransmits: (retransmits - before.retransmits) as i64,
                    srtt_ns: end.smoothed_ns().unwrap_or(0) as i64,
                    cwnd_packets: i64::from(end.window_packets()),
                });
                *before = Before { at_ns: now_ns, bytes, retransmits };
            }
            if let Some(before) = &mut stream.before[1] {
                let bytes = stream.flow.end(1).received_bytes() - GREETING_BYTES;
                if bytes > before.bytes {
                    self.rows.push(IntervalRow {
                        flow: number,
                        begin_ns: before.at_ns as i64,
                        end_ns: now_ns as i64,
                        received_bytes: (bytes - before.bytes) as i64,
                        ..IntervalRow::default()
                    });
                }
                *before = Before { at_ns: now_ns, bytes, retransmits: 0 };
            }
        }
    }

    fn received_now(&self) -> u64 {
        let read = |stream: &Stream| stream.flow.end(1).received_bytes().saturating_sub(GREETING_BYTES);
        self.streams.iter().map(read).sum()
    }

    fn finish(&mut self, network: &Network) {
        if !self.finished {
            self.finished = true;
            self.sample(network.now_ns);
            self.received = self.received_now();
            self.retransmits = self.streams.iter().map(|stream| stream.flow.end(0).retransmits()).sum();
        }
    }

    fn plan_row(&mut self, network: &mut Network) {
        self.next_ns += self.own.interval_ns;
        network.agenda.plan(self.next_ns, Due::Tick { role: self.role, side: 0, generation: 0 });
    }
}

impl Workload for TcpStream {
    fn start(&mut self, network: &mut Network) {
        (self.start_ns, self.next_ns) = (network.now_ns, network.now_ns);
        self.plan_row(network);
        self.go_on(network);
    }

    fn tick(&mut self, side: usize, generation: u32, network: &mut Network) {
        if generation > 0 {
            let at = generation as usize - 1;
            self.streams[at].flow.alarm(side, network);
            self.pour(at, network);
        } else if !self.finished {
            self.sample(network.now_ns);
            self.plan_row(network);
        }
    }

    fn path_changed(&mut self, side: usize, network: &mut Network) {
        for stream in &mut self.streams {
            stream.flow.pump(side, network);
        }
    }

    fn expire(&mut self, _side: usize, network: &mut Network) {
        self.finish(network);
    }

    fn take(&mut self, message: Message, network: &mut Network) {
        let at = message.flow as usize;
        let was_open = self.streams[at].flow.end(0).is_open();
        let stream = &mut self.streams[at];
        let side = stream.flow.take(message, network);
        stream.flow.pump(side, network);
        if side == 1 {
            if stream.before[1].is_none() && stream.flow.end(1).received_bytes() >= GREETING_BYTES {
                stream.before[1] = Some(Before { at_ns: network.now_ns, bytes: 0, retransmits: 0 });
            }
        } else if !was_open && stream.flow.end(0).is_open() {
            if !self.finished {
                self.go_on(network);
            }
        } else {
            self.pour(at, network);
        }
    }

    fn stop(&mut self, network: &mut Network) {
        self.finish(network);
    }

    fn finished(&self) -> bool {
        self.finished
    }

    fn report(&self, stream: &str) -> (Vec<Table>, Counters) {
        let connections = self.streams.iter().filter(|stream| stream.before[1].is_some()).count();
        let client = vec![
            ("sent_bytes", self.streams.iter().map(|stream| stream.written).sum()),
            ("retransmits", self.retransmits),
            ("send_errors", 0),
        ];
        let received = if self.finished { self.received } else { self.received_now() };
        let server = vec![("received_bytes", received), ("connections", connections as u64)];
        (Table::of(stream, &self.rows).into_iter().collect(), [client, server])
    }
}
