//! Latency and bandwidth over one TCP connection without Nagle's algorithm, from processes that cost nothing.
//!
//! A process writes one request after another into its socket and waits while the socket has no room; a request begins
//! when the process turns to it, which it does while fewer than `window` are under way.

use super::report::{report, row};
use crate::agenda::Due;
use crate::input::{Finding, Role};
use crate::ip::Message;
use crate::network::Network;
use crate::samples::{RequestRow, Table};
use crate::tcp::{Flow, GREETING_BYTES, Wishes};
use crate::workloads::workload::{Counters, Workload};
use std::collections::VecDeque;
use virtlab_load::parameters::psping::RequestPlan;
use virtlab_wire::Nanos;

/// One role.
pub struct Requests {
    role: usize,
    plan: RequestPlan,
    flow: Flow,
    began_ns: u64,
    end_ns: u64,
    sent: u64,
    /// Bytes of the newest request that are not written yet.
    rest: u64,
    /// When each request under way began, oldest first.
    under_way: VecDeque<u64>,
    next_ns: u64,
    connect_ns: u64,
    answered: u64,
    finished: bool,
    rows: Vec<RequestRow>,
}

impl Requests {
    /// Prepares both ends.
    pub fn new(index: usize, role: &Role, plan: RequestPlan, network: &mut Network) -> Result<Self, Finding> {
        let flow = Flow::new(index, 0, role, Wishes { no_delay: true, ..Wishes::default() }, network)?;
        Ok(Self {
            role: index,
            plan,
            flow,
            began_ns: 0,
            end_ns: u64::MAX,
            sent: 0,
            rest: 0,
            under_way: VecDeque::new(),
            next_ns: 0,
            connect_ns: 0,
            answered: 0,
            finished: false,
            rows: Vec::new(),
        })
    }

    fn open(&mut self, network: &mut Network) {
        let now_ns = network.now_ns;
        self.connect_ns = now_ns - self.began_ns;
        self.end_ns = self.plan.end(Nanos(now_ns)).0;
        self.next_ns = now_ns;
        self.flow.write(0, GREETING_BYTES, network);
    }

    /// Writes what may be written now, and ends with the last answer.
    fn go_on(&mut self, network: &mut Network) {
        let now_ns = network.now_ns;
        while !self.finished && self.flow.end(0).is_open() {
            if self.rest == 0 {
                let over = self.sent == self.plan.total || now_ns >= self.end_ns;
                if over {
                    self.finished = self.under_way.is_empty();
                    return;
                }
                if self.under_way.len() as u64 >= self.plan.window {
                    return;
                }
                if self.plan.window == 1 && now_ns < self.next_ns {
                    let due = Due::Tick { role: self.role, side: 0, generation: 0 };
                    network.agenda.plan(self.next_ns, due);
                    return;
                }
                self.under_way.push_back(now_ns);
                self.sent += 1;
                self.rest = self.plan.sizes.0;
                self.next_ns = now_ns + self.plan.interval.0;
            }
            let bytes = self.flow.end(0).room_bytes().min(self.rest);
            if bytes == 0 {
                return;
            }
            self.rest -= bytes;
            self.flow.write(0, bytes, network);
        }
    }

    /// The server answers what it has whole; the client takes what it is answered.
    fn look(&mut self, network: &mut Network) {
        let (request_bytes, response_bytes) = self.plan.sizes;
        let whole = self.flow.end(1).received_bytes().saturating_sub(GREETING_BYTES) / request_bytes;
        while self.answered < whole {
            self.answered += 1;
            self.flow.write(1, response_bytes, network);
        }
        let back = self.flow.end(0).received_bytes() / response_bytes;
        while (self.rows.len() as u64) < back
            && let Some(sent_ns) = self.under_way.pop_front()
        {
            let k = self.rows.len() as u64;
            self.rows.push(row(&self.plan, k, sent_ns, Some(network.now_ns)));
        }
    }
}

impl Workload for Requests {
    fn start(&mut self, network: &mut Network) {
        self.began_ns = network.now_ns;
        self.flow.connect(network);
    }

    fn tick(&mut self, side: usize, generation: u32, network: &mut Network) {
        if generation > 0 {
            self.flow.alarm(side, network);
        }
        self.go_on(network);
    }

    fn path_changed(&mut self, side: usize, network: &mut Network) {
        self.flow.pump(side, network);
    }

    fn take(&mut self, message: Message, network: &mut Network) {
        let was_open = self.flow.end(0).is_open();
        let side = self.flow.take(message, network);
        if !was_open && self.flow.end(0).is_open() {
            self.open(network);
        }
        if !self.finished {
            self.look(network);
            self.go_on(network);
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
        let more = [("connect_ns", self.connect_ns), ("retransmits", self.flow.end(0).retransmits())];
        report(stream, &self.plan, &self.rows, self.sent, &more, vec![("answered", self.answered)])
    }
}
