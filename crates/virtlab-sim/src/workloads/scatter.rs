//! `scatter`: the yardstick's workload, in no Plan: every host sends packets of one size to its neighbour at a constant
//! gap, or each to any other one at exponential gaps; every one-way delay goes into a histogram, jitter is per
//! receiver.

use crate::agenda::Due;
use crate::input::{Finding, Role};
use crate::ip::{Message, TRANSPORT_BYTES};
use crate::network::{Address, Network};
use crate::samples::Table;
use crate::workloads::workload::{Counters, Kind, Workload, finding, parse, unreachable};
use core::net::IpAddr;
use serde::Deserialize;
use virtlab_load::Transport;
use virtlab_load::histogram::Histogram;
use virtlab_load::meters::Jitter;
use virtlab_load::parameters;
use virtlab_load::random::Stream;
use virtlab_load::schedule::Schedule;
use virtlab_load::size::IpVersion;
use virtlab_wire::Nanos;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Parameters {
    ip_packet_bytes: u32,
    gap_ns: u64,
    poisson: bool,
    duration_ns: u64,
    /// vNIC n has address n.
    hosts: Vec<IpAddr>,
}

impl parameters::Role for Parameters {
    const NAME: &str = "scatter";
}

struct Host {
    schedule: Schedule,
    choice: Stream,
    first_ns: u64,
    socket: usize,
    sent: u64,
    jitter: Jitter,
}

/// How a role of it is made.
pub const KIND: Kind = Kind {
    name: <Parameters as parameters::Role>::NAME,
    make: |index, role, network| Ok(Box::new(Scatter::new(index, role, network)?)),
    tags: false,
};

/// All hosts.
pub struct Scatter {
    role: usize,
    payload_bytes: u32,
    poisson: bool,
    duration_ns: u64,
    hosts: Vec<Host>,
    /// By host, where to send to.
    addresses: Vec<Address>,
    sending: usize,
    start_ns: u64,
    received: u64,
    delays: Histogram,
    least_ns: u64,
    stopped: bool,
}

impl Scatter {
    /// Prepares the hosts.
    pub fn new(index: usize, role: &Role, network: &mut Network) -> Result<Self, Finding> {
        let own: Parameters = parse(role)?;
        let count = own.hosts.len();
        let payload_bytes = own
            .ip_packet_bytes
            .checked_sub(IpVersion::V4.header_bytes() + TRANSPORT_BYTES)
            .filter(|_| count > 1 && own.gap_ns > 0)
            .ok_or_else(|| finding(role, "a packet of at least 28 B, a gap and two hosts"))?;
        let gap = Nanos(own.gap_ns);
        let host = |(vnic, from): (usize, &IpAddr)| {
            let to = own.hosts[(vnic + 1) % count];
            let socket = network.socket(vnic, *from, to, Transport::Udp, 40_000, u64::MAX)?;
            network.only_counted(socket);
            let stream = |of: &str| Stream::new(role.ends[0].seed, &format!("{of} {vnic}"));
            Some(Host {
                schedule: if own.poisson {
                    Schedule::poisson(gap, stream("gaps"))
                } else {
                    Schedule::Fixed { interval: gap }
                },
                choice: stream("receivers"),
                first_ns: if own.poisson { 0 } else { vnic as u64 * own.gap_ns / count as u64 },
                socket,
                sent: 0,
                jitter: Jitter::default(),
            })
        };
        let hosts: Option<Vec<Host>> = own.hosts.iter().enumerate().map(host).collect();
        let hosts = hosts.ok_or_else(|| unreachable(role))?;
        Ok(Self {
            role: index,
            payload_bytes,
            poisson: own.poisson,
            duration_ns: own.duration_ns,
            sending: count,
            addresses: hosts.iter().map(|host| network.own_address(host.socket)).collect(),
            hosts,
            start_ns: 0,
            received: 0,
            delays: Histogram::default(),
            least_ns: u64::MAX,
            stopped: false,
        })
    }

    fn plan(&mut self, side: usize, network: &mut Network) {
        let host = &mut self.hosts[side];
        let offset = host.first_ns + host.schedule.offset(host.sent).0;
        if offset < self.duration_ns {
            network.agenda.plan(self.start_ns + offset, Due::Tick { role: self.role, side, generation: 0 });
        } else {
            self.sending -= 1;
        }
    }
}

impl Workload for Scatter {
    fn start(&mut self, network: &mut Network) {
        self.start_ns = network.now_ns;
        for side in 0..self.hosts.len() {
            self.plan(side, network);
        }
    }

    fn tick(&mut self, side: usize, _generation: u32, network: &mut Network) {
        if self.stopped {
            return;
        }
        let others = self.hosts.len() - 1;
        let host = &mut self.hosts[side];
        let step = if self.poisson { host.choice.below(others as u64) as usize } else { 0 };
        let to = side + 1 + step;
        let to = if to > others { to - others - 1 } else { to };
        if self.poisson {
            network.aim(host.socket, self.addresses[to]);
        }
        let host = &mut self.hosts[side];
        let message = Message {
            role: self.role as u32,
            origin: 0,
            reply: false,
            flow: to as u32,
            seq: host.sent,
            sent_ns: network.now_ns,
            payload_bytes: self.payload_bytes,
        };
        host.sent += 1;
        network.send(host.socket, message);
        self.plan(side, network);
    }

    fn take(&mut self, message: Message, network: &mut Network) {
        self.count(message, network.now_ns);
    }

    fn count(&mut self, message: Message, at_ns: u64) {
        let delay_ns = at_ns - message.sent_ns;
        self.received += 1;
        self.least_ns = self.least_ns.min(delay_ns);
        self.delays.record(Nanos(delay_ns));
        self.hosts[message.flow as usize].jitter.record(message.sent_ns as i64, at_ns as i64);
    }

    fn stop(&mut self, _network: &mut Network) {
        self.stopped = true;
    }

    fn finished(&self) -> bool {
        self.stopped || self.sending == 0
    }

    fn report(&self, _stream: &str) -> (Vec<Table>, Counters) {
        let client = vec![("sent_packets", self.hosts.iter().map(|host| host.sent).sum())];
        let jitter_ns = self.hosts.iter().filter_map(|host| host.jitter.ns()).fold(0.0, f64::max) as u64;
        let mut server = vec![("received_packets", self.received), ("jitter_largest_ns", jitter_ns)];
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
