//! `rtt`: round trips of ICMP or UDP echoes, open loop; an interval of 0 sends each request when the reply before it
//! has come. `rtt_ns` is from the send call to the reply, `path_rtt_ns` from the instant at which the (first) frame
//! left the vNIC.

use crate::agenda::Due;
use crate::input::{Finding, Role};
use crate::ip::Message;
use crate::network::Network;
use crate::samples::{RttRow, SentRow, Table};
use crate::workloads::workload::{Counters, Kind, Workload, finding, parse, unreachable, version_of};
use virtlab_load::Transport;
use virtlab_load::parameters::rtt::{NAME, Rtt as Parameters};
use virtlab_load::schedule::Schedule;
use virtlab_wire::Nanos;

/// Replies still on their way when the role is stopped are awaited this long.
const GRACE_NS: u64 = 30_000_000;

/// How a role of it is made.
pub const KIND: Kind = Kind {
    name: NAME,
    make: |index, role, network| Ok(Box::new(Rtt::new(index, role, network)?)),
    tags: false,
};

/// One echo role.
pub struct Rtt {
    role: usize,
    transport: Transport,
    interval_ns: u64,
    schedule: Schedule,
    count: u64,
    timeout_ns: u64,
    payload_bytes: u32,
    sockets: [usize; 2],
    start_ns: u64,
    /// Intended, sent, left the vNIC; by number.
    sent: Vec<(u64, u64, u64)>,
    answered: u64,
    late: u64,
    reflected: u64,
    rows: Vec<RttRow>,
    until_ns: Option<u64>,
    finished: bool,
}

impl Rtt {
    /// Prepares both ends.
    pub fn new(index: usize, role: &Role, network: &mut Network) -> Result<Self, Finding> {
        let own: Parameters = parse(role)?;
        own.check().map_err(|error| finding(role, &error.to_string()))?;
        let (transport, [client, server]) = (Transport::from(own.protocol), &role.ends);
        let size = own
            .size(version_of(role), network.mtu_bytes(client.vnic))
            .map_err(|error| finding(role, &error.to_string()))?;
        let (Some(here), Some(there)) = (client.address, server.address) else {
            return Err(unreachable(role));
        };
        let mut open = |vnic, from, to| {
            network
                .socket(vnic, from, to, transport, 10_000 + index as u16, u64::MAX)
                .ok_or_else(|| unreachable(role))
        };
        let sockets = [open(client.vnic, here, there)?, open(server.vnic, there, here)?];
        if transport == Transport::Icmp {
            network.by_kernel(sockets[1]);
        }
        Ok(Self {
            role: index,
            transport,
            interval_ns: own.interval_ns,
            schedule: Schedule::Fixed { interval: Nanos(own.interval_ns) }.with(own.arrivals, client.seed),
            count: own.count.unwrap_or(u64::MAX),
            timeout_ns: own.timeout_ns,
            payload_bytes: size.payload_bytes,
            sockets,
            start_ns: 0,
            sent: Vec::new(),
            answered: 0,
            late: 0,
            reflected: 0,
            rows: Vec::new(),
            until_ns: None,
            finished: false,
        })
    }

    fn next(&self) -> u64 {
        self.sent.len() as u64
    }

    fn send(&mut self, network: &mut Network) {
        let (k, now_ns) = (self.next(), network.now_ns);
        let closed = self.interval_ns == 0;
        let intended = if closed { now_ns } else { self.start_ns.saturating_add(self.schedule.offset(k).0) };
        let message = Message {
            role: self.role as u32,
            origin: 0,
            reply: false,
            flow: 0,
            seq: k,
            sent_ns: now_ns,
            payload_bytes: self.payload_bytes,
        };
        let left = network.send(self.sockets[0], message);
        self.sent.push((intended, now_ns, left));
        if k + 1 == self.count {
            self.wind_up(now_ns + self.timeout_ns, network);
        } else if closed {
            network.agenda.plan(now_ns + self.timeout_ns, Due::Expire { role: self.role, side: 0 });
        } else {
            let next = self.start_ns.saturating_add(self.schedule.offset(k + 1).0);
            network.agenda.plan(next, Due::Tick { role: self.role, side: 0, generation: 0 });
        }
    }

    fn wind_up(&mut self, until_ns: u64, network: &mut Network) {
        let until_ns = self.until_ns.map_or(until_ns, |until| until.min(until_ns));
        self.until_ns = Some(until_ns);
        network.agenda.plan(until_ns, Due::Expire { role: self.role, side: 0 });
        self.look(network.now_ns);
    }

    fn look(&mut self, now_ns: u64) {
        let over = |until| now_ns >= until || self.answered == self.next();
        self.finished |= self.until_ns.is_some_and(over);
    }
}

impl Workload for Rtt {
    fn start(&mut self, network: &mut Network) {
        self.start_ns = network.now_ns;
        if self.count == 0 {
            self.wind_up(network.now_ns, network);
        } else {
            self.send(network);
        }
    }

    fn tick(&mut self, _side: usize, _generation: u32, network: &mut Network) {
        if self.until_ns.is_none() {
            self.send(network);
        }
    }

    fn expire(&mut self, _side: usize, network: &mut Network) {
        let now_ns = network.now_ns;
        self.look(now_ns);
        let unanswered = self.sent.last().is_some_and(|(_, sent, _)| now_ns >= sent + self.timeout_ns);
        if self.until_ns.is_none() && unanswered {
            self.send(network);
        }
    }

    fn wakes(&self, message: &Message) -> bool {
        message.reply || self.transport != Transport::Icmp
    }

    fn take(&mut self, message: Message, network: &mut Network) {
        if !message.reply {
            self.reflected += 1;
            network.send_later(self.sockets[1], Message { reply: true, ..message });
            return;
        }
        let now_ns = network.now_ns;
        if self.finished {
            self.late += 1;
            return;
        }
        self.answered += 1;
        let (intended, sent, left) = self.sent[message.seq as usize];
        let left = network.left_ns(&Message { origin: 0, reply: false, ..message }, left);
        if now_ns - sent > self.timeout_ns {
            self.late += 1;
        } else {
            self.rows.push(RttRow {
                seq: message.seq as i64,
                flow: 0,
                intended_ns: intended as i64,
                sent_ns: sent as i64,
                received_ns: now_ns as i64,
                rtt_ns: (now_ns - sent) as i64,
                path_rtt_ns: (network.stamp_ns - left) as i64,
            });
        }
        self.look(now_ns);
        let newest = message.seq + 1 == self.next();
        if self.interval_ns == 0 && newest && self.until_ns.is_none() {
            network.agenda.plan(now_ns, Due::Tick { role: self.role, side: 0, generation: 0 });
        }
    }

    fn stop(&mut self, network: &mut Network) {
        self.wind_up(network.now_ns + GRACE_NS, network);
    }

    fn finished(&self) -> bool {
        self.finished
    }

    fn report(&self, stream: &str) -> (Vec<Table>, Counters) {
        let sent: Vec<SentRow> = self
            .sent
            .iter()
            .zip(0..)
            .map(|((intended, sent, _), seq)| SentRow {
                seq,
                flow: 0,
                intended_ns: *intended as i64,
                sent_ns: *sent as i64,
                payload_bytes: self.payload_bytes as i32,
            })
            .collect();
        let bytes = u64::from(self.payload_bytes);
        let received = self.rows.len() as u64;
        let client = vec![
            ("sent_packets", self.next()),
            ("sent_bytes", self.next() * bytes),
            ("received_packets", received),
            ("received_bytes", received * bytes),
            ("lost_packets", self.next() - received),
            ("late_packets", self.late),
            ("send_errors", 0),
        ];
        let server = if self.transport == Transport::Udp {
            vec![
                ("received_packets", self.reflected),
                ("received_bytes", self.reflected * bytes),
                ("sent_packets", self.reflected),
                ("send_errors", 0),
            ]
        } else {
            Vec::new() // the kernel answers
        };
        let tables = Table::of(stream, &sent).into_iter().chain(Table::of(stream, &self.rows));
        (tables.collect(), [client, server])
    }
}
