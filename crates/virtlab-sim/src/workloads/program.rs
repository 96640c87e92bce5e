//! `program`: what a program works at its own end. It is one request to a server of its own in its guest, which no
//! network brings: the demand is done on the guest's processors, which it shares with whatever works there.

use crate::input::{Finding, Role};
use crate::ip::Message;
use crate::network::Network;
use crate::samples::Table;
use crate::servers::Served;
use crate::workloads::workload::{Counters, Kind, Workload, finding, parse};
use virtlab_load::parameters::request_response::RequestResponse as Parameters;

/// How a role of it is made.
pub const KIND: Kind = Kind {
    name: "program",
    make: |index, role, network| Ok(Box::new(Program::new(index, role, network)?)),
    tags: false,
};

/// One role.
pub struct Program {
    role: usize,
    server: usize,
    finished: bool,
}

impl Program {
    /// Prepares what works.
    fn new(role: usize, input: &Role, network: &mut Network) -> Result<Self, Finding> {
        let own: Parameters = parse(input)?;
        own.check().map_err(|error| finding(input, &error.to_string()))?;
        let end = &input.ends[0];
        if let Some((key, what, cure)) = network.servers.cannot_write(&own, network.guest_with(end.vnic)) {
            return Err(Finding::new(format!("roles.{}.simulated_as.{key}", input.name), what, cure));
        }
        let server = network.servers.of(&own, end.seed, network.guest_with(end.vnic), 0);
        Ok(Self { role, server, finished: false })
    }
}

impl Workload for Program {
    fn start(&mut self, network: &mut Network) {
        network.offer(self.server, (self.role, 0), 0);
        network.look_at(self.server);
    }

    fn tick(&mut self, _side: usize, _generation: u32, _network: &mut Network) {}

    fn served(&mut self, _served: Served, _network: &mut Network) {
        self.finished = true;
    }

    fn take(&mut self, _message: Message, _network: &mut Network) {}

    fn stop(&mut self, network: &mut Network) {
        if !self.finished {
            network.servers.fail(self.server, network.now_ns);
            network.look_at(self.server);
            self.finished = true;
        }
    }

    fn finished(&self) -> bool {
        self.finished
    }

    fn report(&self, _stream: &str) -> (Vec<Table>, Counters) {
        Default::default()
    }
}
