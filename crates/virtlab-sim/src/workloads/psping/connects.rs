//! A ping over TCP: a connection each time, whose handshake is timed. How it is closed afterwards is not played.

use super::report::{report, row};
use crate::agenda::Due;
use crate::input::Role;
use crate::ip::Message;
use crate::network::Network;
use crate::samples::{RequestRow, Table};
use crate::tcp::{Flow, Wishes};
use crate::workloads::workload::{Counters, Workload};
use virtlab_load::parameters::psping::RequestPlan;
use virtlab_wire::Nanos;

/// One role.
pub struct Connects {
    index: usize,
    role: Role,
    plan: RequestPlan,
    /// The connection that is being made, and since when.
    making: Option<(Flow, u64)>,
    end_ns: u64,
    next_ns: u64,
    begun: u64,
    finished: bool,
    rows: Vec<RequestRow>,
}

impl Connects {
    /// Prepares the client; a connection's ends are made when it is.
    pub fn new(index: usize, role: &Role, plan: RequestPlan) -> Self {
        Self {
            index,
            role: role.clone(),
            plan,
            making: None,
            end_ns: u64::MAX,
            next_ns: 0,
            begun: 0,
            finished: false,
            rows: Vec::new(),
        }
    }

    /// The next connection, when it is time.
    fn go_on(&mut self, network: &mut Network) {
        let now_ns = network.now_ns;
        if self.finished || self.making.is_some() {
            return;
        }
        if self.begun == self.plan.total || now_ns >= self.end_ns {
            self.finished = true;
            return;
        }
        if now_ns < self.next_ns {
            network.agenda.plan(self.next_ns, Due::Tick { role: self.index, side: 0, generation: 0 });
            return;
        }
        let number = self.begun as u32;
        self.begun += 1;
        self.next_ns = now_ns + self.plan.interval.0;
        let Ok(mut flow) = Flow::new(self.index, number, &self.role, Wishes::default(), network) else {
            // Nothing leads there: each is lost at once.
            self.rows.push(row(&self.plan, u64::from(number), now_ns, None));
            network
                .agenda
                .plan(now_ns + self.plan.timeout.0, Due::Tick { role: self.index, side: 0, generation: 0 });
            return;
        };
        flow.connect(network);
        self.making = Some((flow, now_ns));
        network.agenda.plan(now_ns + self.plan.timeout.0, Due::Expire { role: self.index, side: 0 });
    }

    /// The number of the connection that is being made.
    fn current(&self) -> u64 {
        self.begun.wrapping_sub(1)
    }
}

impl Workload for Connects {
    fn start(&mut self, network: &mut Network) {
        self.end_ns = self.plan.end(Nanos(network.now_ns)).0;
        self.next_ns = network.now_ns;
        self.go_on(network);
    }

    fn tick(&mut self, side: usize, generation: u32, network: &mut Network) {
        if generation == 0 {
            self.go_on(network);
        } else if u64::from(generation) == self.begun
            && let Some((flow, _)) = &mut self.making
        {
            flow.alarm(side, network);
        }
    }

    fn expire(&mut self, _side: usize, network: &mut Network) {
        let late = |since: u64| network.now_ns >= since + self.plan.timeout.0;
        if let Some((_, since)) = self.making.take_if(|(_, since)| late(*since)) {
            self.rows.push(row(&self.plan, self.current(), since, None));
            self.go_on(network);
        }
    }

    fn take(&mut self, message: Message, network: &mut Network) {
        // What is left of earlier connections is dropped.
        if u64::from(message.flow) != self.current() || self.finished {
            return;
        }
        let Some((flow, since)) = &mut self.making else { return };
        let since = *since;
        let side = flow.take(message, network);
        flow.pump(side, network);
        if flow.end(0).is_open() {
            self.making = None;
            self.rows.push(row(&self.plan, self.current(), since, Some(network.now_ns)));
            self.go_on(network);
        }
    }

    fn stop(&mut self, _network: &mut Network) {
        self.finished = true;
    }

    fn finished(&self) -> bool {
        self.finished
    }

    fn report(&self, stream: &str) -> (Vec<Table>, Counters) {
        report(stream, &self.plan, &self.rows, self.begun, &[], Vec::new())
    }
}
