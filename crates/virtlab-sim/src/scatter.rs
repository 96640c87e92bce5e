//! `scatter`: the yardstick's workload, in no Plan: one host sends packets of one size to one other host, or each to one
//! of many at random, at a constant or exponential gap; every one-way delay goes into a histogram.

use crate::agenda::Due;
use crate::input::{Finding, Role};
use crate::ip::{HEADER_BYTES, Message, TRANSPORT_BYTES};
use crate::network::Network;
use crate::role::{Counters, Workload, finding, parse, unreachable};
use crate::rows::Table;
use core::net::Ipv4Addr;
use serde::Deserialize;
use serde_json::Value;
use virtlab_load::Transport;
use virtlab_load::histogram::Histogram;
use virtlab_load::meters::Jitter;
use virtlab_load::random::Stream;
use virtlab_load::schedule::Schedule;
use virtlab_wire::Nanos;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Parameters {
    ip_packet_bytes: u32,
    gap_ns: u64,
    poisson: bool,
    first_ns: u64,
    duration_ns: u64,
    to: Vec<Ipv4Addr>,
}

/// One sending host.
pub struct Scatter {
    role: usize,
    payload_bytes: u32,
    schedule: Schedule,
    choice: Stream,
    first_ns: u64,
    duration_ns: u64,
    sockets: Vec<usize>,
    start_ns: u64,
    sent: u64,
    received: u64,
    delays: Histogram,
    least_ns: u64,
    jitter: Jitter,
    finished: bool,
}

impl Scatter {
    /// Prepares a host.
    pub fn new(index: usize, role: &Role, network: &mut Network) -> Result<Self, Finding> {
        let own: Parameters = parse(role)?;
        let client = &role.ends[0];
        let from = client.address.ok_or_else(|| unreachable(role))?;
        let payload_bytes = own
            .ip_packet_bytes
            .checked_sub(HEADER_BYTES + TRANSPORT_BYTES)
            .filter(|_| !own.to.is_empty() && own.gap_ns > 0)
            .ok_or_else(|| finding(role, "a packet of at least 28 B, a gap and somebody to send to"))?;
        let sockets: Option<Vec<usize>> = own
            .to
            .iter()
            .map(|to| network.socket(client.vnic, from, *to, Transport::Udp, 40_000, u64::MAX))
            .collect();
        let sockets = sockets.ok_or_else(|| unreachable(role))?;
        sockets.iter().for_each(|socket| network.only_counted(*socket));
        let gap = Nanos(own.gap_ns);
        let schedule = if own.poisson {
            Schedule::poisson(gap, Stream::new(client.seed, "gaps"))
        } else {
            Schedule::Fixed { interval: gap }
        };
        Ok(Self {
            role: index,
            payload_bytes,
            schedule,
            choice: Stream::new(client.seed, "receivers"),
            first_ns: own.first_ns,
            duration_ns: own.duration_ns,
            sockets,
            start_ns: 0,
            sent: 0,
            received: 0,
            delays: Histogram::default(),
            least_ns: u64::MAX,
            jitter: Jitter::default(),
            finished: false,
        })
    }

    fn plan(&mut self, network: &mut Network) {
        let offset = self.first_ns + self.schedule.offset(self.sent).0;
        if offset < self.duration_ns {
            let due = Due::Tick { role: self.role, side: 0, generation: 0 };
            network.agenda.plan(self.start_ns + offset, due);
        } else {
            self.finished = true;
        }
    }
}

impl Workload for Scatter {
    fn start(&mut self, network: &mut Network) {
        self.start_ns = network.now_ns;
        self.plan(network);
    }

    fn tick(&mut self, _side: usize, _generation: u32, network: &mut Network) {
        let to = match self.sockets.len() {
            1 => 0,
            others => self.choice.below(others as u64) as usize,
        };
        let message = Message {
            role: self.role,
            origin: 0,
            reply: false,
            flow: to as u32,
            seq: self.sent,
            sent_ns: network.now_ns,
            payload_bytes: self.payload_bytes,
        };
        network.send(self.sockets[to], message);
        self.sent += 1;
        self.plan(network);
    }

    fn expire(&mut self, _side: usize, _network: &mut Network) {}

    fn take(&mut self, message: Message, network: &mut Network) {
        self.count(message, network.now_ns);
    }

    fn count(&mut self, message: Message, at_ns: u64) {
        let delay_ns = at_ns - message.sent_ns;
        self.received += 1;
        self.least_ns = self.least_ns.min(delay_ns);
        self.delays.record(Nanos(delay_ns));
        self.jitter.record(message.sent_ns as i64, at_ns as i64);
    }

    fn stop(&mut self, _network: &mut Network) {
        self.finished = true;
    }

    fn set(&mut self, _parameter: &str, _value: &Value, _network: &mut Network) {}

    fn finished(&self) -> bool {
        self.finished
    }

    fn report(&self, _stream: &str) -> (Vec<Table>, Counters) {
        let client = vec![("sent_packets", self.sent)];
        let jitter_ns = self.jitter.ns().map_or(0, |jitter| jitter as u64);
        let mut server = vec![("received_packets", self.received), ("jitter_rfc3550_ns", jitter_ns)];
        if self.received > 0 {
            server.push(("delay_least_ns", self.least_ns));
            server.push(("delay_largest_ns", self.delays.largest().0));
        }
        (Vec::new(), [client, server])
    }

    fn delays(&self) -> Option<&Histogram> {
        Some(&self.delays)
    }
}
