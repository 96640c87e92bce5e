//! What every workload does: it hears of its start, its instants, its messages and its stop, and gives its samples at
//! the end.

use crate::input::{Finding, Role};
use crate::ip::Message;
use crate::network::Network;
use crate::samples::Table;
use crate::servers::Served;
use serde_json::Value;
use virtlab_load::histogram::Histogram;
use virtlab_load::parameters;

pub use crate::input::{finding, unreachable, version_of};
pub use crate::network::{SOCKET_BYTES, STREAM_SOCKET_BYTES};

/// Counters of the client and of the server.
pub type Counters = [Vec<(&'static str, u64)>; 2];

/// Both ends of a role, or why they cannot be made.
pub type Made = Result<Box<dyn Workload>, Finding>;

/// A workload that a role can have.
pub struct Kind {
    /// As a Plan calls it.
    pub name: &'static str,
    /// Makes both ends of a role, which has that place among the roles.
    pub make: fn(usize, &Role, &mut Network) -> Made,
    /// Whether its frames can have a priority (802.1p).
    pub tags: bool,
}

/// A running workload.
pub trait Workload: Send {
    /// Begins now.
    fn start(&mut self, network: &mut Network);
    /// An instant that the workload planned.
    fn tick(&mut self, side: usize, generation: u32, network: &mut Network);
    /// A server has done with the request of one of its connections.
    fn served(&mut self, served: Served, _network: &mut Network) {
        unreachable!("{served:?} is of no workload of this kind")
    }
    /// The disk of a guest has done what this asked it for by that number.
    fn stored(&mut self, id: u64, _network: &mut Network) {
        unreachable!("nothing of this kind asks a disk, and {id} is done")
    }
    /// A server of the world has failed: its ends of connections have no process any more.
    fn server_failed(&mut self, _server: usize, _network: &mut Network) {}
    /// Something that it asked has something for it, at once.
    fn called(&mut self, _network: &mut Network) {}
    /// The server that it has for itself.
    fn server(&self) -> Option<usize> {
        None
    }
    /// How many answers have come since it began; `None`: it cannot say.
    fn come(&self) -> Option<u64> {
        None
    }
    /// Looks whether its waiting is over.
    fn expire(&mut self, _side: usize, _network: &mut Network) {}
    /// Whether a process takes the message, not the kernel: then it has to be woken first.
    fn wakes(&self, _message: &Message) -> bool {
        false
    }
    /// A whole message has come.
    fn take(&mut self, message: Message, network: &mut Network);
    /// The same of one from which nothing follows, as far as that was foreseen.
    fn take_quiet(&mut self, message: Message, network: &mut Network) {
        self.take(message, network);
    }
    /// Counts a message that came at `at_ns`, which may lie before now: called instead of `take` where the message's
    /// socket is only counted (`Network::only_counted`). It can neither send nor finish the workload.
    fn count(&mut self, message: Message, at_ns: u64) {
        let _ = (message, at_ns);
        unreachable!("only a workload whose sockets are only counted is asked to count")
    }
    /// The kernel of a side's guest has learnt how long packets of some path may be.
    fn path_changed(&mut self, _side: usize, _network: &mut Network) {}
    /// No more requests; it finishes when the replies under way have come, or soon.
    fn stop(&mut self, network: &mut Network);
    /// A tunable parameter changes.
    fn set(&mut self, _parameter: &str, _value: &Value, _network: &mut Network) {}
    /// Whether the client's side is over.
    fn finished(&self) -> bool;
    /// Once it is over: why the trial has failed by it.
    fn failure(&self) -> Option<String> {
        None
    }
    /// Samples, and counters.
    fn report(&self, stream: &str) -> (Vec<Table>, Counters);
    /// Counters of the client and of the server by flow, as `flow0.sent_packets`.
    fn flow_counters(&self) -> [Vec<(String, u64)>; 2] {
        Default::default()
    }
    /// One-way delays, or times until answers, where the workload gathers them instead of keeping samples.
    fn delays(&self) -> Option<&Histogram> {
        None
    }
}

/// The workload's own parameters, strictly.
pub fn parse<T: parameters::Role>(role: &Role) -> Result<T, Finding> {
    parameters::read(&role.parameters).map_err(|error| finding(role, &error.to_string()))
}
