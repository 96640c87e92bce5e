//! Latency and bandwidth over UDP: requests go while the window has room; what is not answered in time is lost and
//! makes room, too.

use super::report::{report, row};
use crate::agenda::Due;
use crate::input::{Finding, Role};
use crate::ip::Message;
use crate::network::Network;
use crate::samples::{RequestRow, Table};
use crate::workloads::workload::{Counters, SOCKET_BYTES, Workload, unreachable};
use std::collections::BTreeMap;
use virtlab_load::Transport;
use virtlab_load::parameters::psping::RequestPlan;
use virtlab_wire::Nanos;

/// One role.
pub struct Datagrams {
    role: usize,
    plan: RequestPlan,
    sockets: [usize; 2],
    end_ns: u64,
    next_ns: u64,
    sent: u64,
    /// When each request under way was sent, by number.
    under_way: BTreeMap<u64, u64>,
    late: u64,
    reflected: u64,
    finished: bool,
    rows: Vec<RequestRow>,
}

impl Datagrams {
    /// Prepares both ends.
    pub fn new(index: usize, role: &Role, plan: RequestPlan, network: &mut Network) -> Result<Self, Finding> {
        let [client, server] = &role.ends;
        let (Some(here), Some(there)) = (client.address, server.address) else {
            return Err(unreachable(role));
        };
        let mut open = |vnic, from, to| {
            network
                .socket(vnic, from, to, Transport::Udp, 10_000 + index as u16, SOCKET_BYTES)
                .ok_or_else(|| unreachable(role))
        };
        let sockets = [open(client.vnic, here, there)?, open(server.vnic, there, here)?];
        Ok(Self {
            role: index,
            plan,
            sockets,
            end_ns: u64::MAX,
            next_ns: 0,
            sent: 0,
            under_way: BTreeMap::new(),
            late: 0,
            reflected: 0,
            finished: false,
            rows: Vec::new(),
        })
    }

    fn due(&self) -> Due {
        Due::Tick { role: self.role, side: 0, generation: 0 }
    }

    fn go_on(&mut self, network: &mut Network) {
        let now_ns = network.now_ns;
        // Requests end in the order of their numbers or not at all, so the first is the oldest.
        while let Some((&k, &at)) = self.under_way.first_key_value()
            && now_ns - at > self.plan.timeout.0
        {
            self.rows.push(row(&self.plan, k, at, None));
            self.under_way.remove(&k);
        }
        while !self.finished {
            let over = self.sent == self.plan.total || now_ns >= self.end_ns;
            if over || self.under_way.len() as u64 >= self.plan.window {
                self.finished = over && self.under_way.is_empty();
                return;
            }
            if now_ns < self.next_ns {
                network.agenda.plan(self.next_ns, self.due());
                return;
            }
            if !network.has_room(self.sockets[0]) {
                network.await_room(self.sockets[0], self.due());
                return;
            }
            let message = Message {
                role: self.role as u32,
                origin: 0,
                reply: false,
                flow: 0,
                seq: self.sent,
                sent_ns: now_ns,
                payload_bytes: self.plan.sizes.0 as u32,
            };
            network.send(self.sockets[0], message);
            self.under_way.insert(self.sent, now_ns);
            self.sent += 1;
            self.next_ns = now_ns + self.plan.interval.0;
            network.agenda.plan(now_ns + self.plan.timeout.0 + 1, self.due());
        }
    }
}

impl Workload for Datagrams {
    fn start(&mut self, network: &mut Network) {
        self.end_ns = self.plan.end(Nanos(network.now_ns)).0;
        self.next_ns = network.now_ns;
        self.go_on(network);
    }

    fn tick(&mut self, _side: usize, _generation: u32, network: &mut Network) {
        self.go_on(network);
    }

    fn wakes(&self, _message: &Message) -> bool {
        true
    }

    fn take(&mut self, message: Message, network: &mut Network) {
        if !message.reply {
            self.reflected += 1;
            let answer = Message { reply: true, payload_bytes: self.plan.sizes.1 as u32, ..message };
            network.send_later(self.sockets[1], answer);
            return;
        }
        match self.under_way.remove(&message.seq).filter(|_| !self.finished) {
            Some(sent_ns) => {
                self.rows.push(row(&self.plan, message.seq, sent_ns, Some(network.now_ns)));
            }
            None => self.late += 1,
        }
        self.go_on(network);
    }

    fn stop(&mut self, _network: &mut Network) {
        self.finished = true;
    }

    fn finished(&self) -> bool {
        self.finished
    }

    fn report(&self, stream: &str) -> (Vec<Table>, Counters) {
        let more = [("late_answers", self.late), ("socket_drops", 0)];
        let server = vec![
            ("received_packets", self.reflected),
            ("received_bytes", self.reflected * self.plan.sizes.0),
            ("sent_packets", self.reflected),
            ("send_errors", 0),
        ];
        report(stream, &self.plan, &self.rows, self.sent, &more, server)
    }
}
