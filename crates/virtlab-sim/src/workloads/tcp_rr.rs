//! `tcp_rr`: one request, one response, one at a time, over one connection without Nagle's algorithm, as the testbed's.

use crate::agenda::Due;
use crate::input::{Finding, Role};
use crate::ip::Message;
use crate::network::Network;
use crate::samples::{Table, TransactionRow};
use crate::tcp::{Flow, GREETING_BYTES, Wishes};
use crate::workloads::workload::{Counters, Kind, Workload, finding, parse};
use virtlab_load::parameters::tcp_rr::{NAME, TcpRr as Parameters};

/// How a role of it is made.
pub const KIND: Kind = Kind {
    name: NAME,
    make: |index, role, network| Ok(Box::new(TcpRr::new(index, role, network)?)),
    tags: false,
};

/// One transaction role.
pub struct TcpRr {
    role: usize,
    own: Parameters,
    flow: Flow,
    began_ns: Option<u64>,
    answered: u64,
    finished: bool,
    rows: Vec<TransactionRow>,
}

impl TcpRr {
    /// Prepares both ends.
    pub fn new(index: usize, role: &Role, network: &mut Network) -> Result<Self, Finding> {
        let own: Parameters = parse(role)?;
        own.check().map_err(|error| finding(role, &error.to_string()))?;
        let wishes = Wishes { buffers: own.buffers(), no_delay: true };
        let flow = Flow::new(index, 0, role, wishes, network)?;
        Ok(Self { role: index, own, flow, began_ns: None, answered: 0, finished: false, rows: Vec::new() })
    }

    fn ask(&mut self, network: &mut Network) {
        if !self.finished {
            self.began_ns = Some(network.now_ns);
            self.flow.write(0, self.own.request_bytes, network);
        }
    }

    fn look(&mut self, network: &mut Network) {
        let asked = self.flow.end(1).received_bytes().saturating_sub(GREETING_BYTES) / self.own.request_bytes;
        while self.answered < asked {
            self.answered += 1;
            self.flow.write(1, self.own.response_bytes, network);
        }
        let Some(began_ns) = self.began_ns else { return };
        if self.flow.end(0).received_bytes() >= (self.rows.len() as u64 + 1) * self.own.response_bytes {
            self.rows.push(TransactionRow {
                flow: 0,
                started_ns: began_ns as i64,
                finished_ns: network.now_ns as i64,
            });
            self.began_ns = None;
            self.ask(network);
        }
    }
}

impl Workload for TcpRr {
    fn start(&mut self, network: &mut Network) {
        self.flow.connect(network);
    }

    fn tick(&mut self, side: usize, _generation: u32, network: &mut Network) {
        self.flow.alarm(side, network);
    }

    fn path_changed(&mut self, side: usize, network: &mut Network) {
        self.flow.pump(side, network);
    }

    fn expire(&mut self, _side: usize, _network: &mut Network) {
        self.finished = true;
    }

    fn take(&mut self, message: Message, network: &mut Network) {
        let was_open = self.flow.end(0).is_open();
        let side = self.flow.take(message, network);
        if !was_open && self.flow.end(0).is_open() {
            if let Some(duration_ns) = self.own.duration_ns {
                network.agenda.plan(network.now_ns + duration_ns, Due::Expire { role: self.role, side: 0 });
            }
            self.flow.write(0, GREETING_BYTES, network);
            self.ask(network);
        }
        if !self.finished {
            self.look(network);
        }
        self.flow.pump(side, network);
    }

    fn stop(&mut self, _network: &mut Network) {
        self.finished = true;
    }

    fn finished(&self) -> bool {
        self.finished
    }

    fn report(&self, stream: &str) -> (Vec<Table>, Counters) {
        let done = self.rows.len() as u64;
        let client = vec![
            ("transactions", done),
            ("sent_bytes", done * self.own.request_bytes),
            ("received_bytes", done * self.own.response_bytes),
            ("retransmits", self.flow.end(0).retransmits()),
            ("send_errors", 0),
        ];
        let server = vec![("answered", self.answered)];
        (Table::of(stream, &self.rows).into_iter().collect(), [client, server])
    }
}
