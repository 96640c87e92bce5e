//! The platform: what it costs, what that holds up, and the processors on which guests forward.

pub mod flights;
pub mod service;

use crate::costs::Costs;
use crate::costs::upcalls::Seen;
use crate::input::Input;
use crate::ip::addresses::Number;
use crate::network::frames::{Outgoing, is_noise, is_resolution};
use flights::{Flight, Flights};
use service::Service;
use virtlab_load::size::IpVersion;

/// What a platform profile adds to an ideal world.
pub struct Platform {
    /// Absent: it costs nothing.
    pub costs: Option<Box<Costs>>,
    pub flights: Flights,
    pub service: Service,
}

impl Platform {
    /// Before the beginning, in a world with so many ports of the fabric.
    pub fn new(input: &Input, ports: usize) -> Self {
        Self {
            costs: input.costs.clone().map(|given| Box::new(Costs::new(given, ports, input.roles.len()))),
            flights: Flights::default(),
            service: Service::new(input),
        }
    }
}

impl Platform {
    /// When a frame that leaves a vNIC now stands behind its bridge, or on its port; `None`: at once.
    #[inline]
    pub fn leave(&mut self, now_ns: u64, nic: usize, bridge: Option<usize>, out: &Outgoing) -> Option<u64> {
        let costs = self.costs.as_mut()?;
        let asked_ns = costs.ask(now_ns, bridge, seen(out, nic));
        Some(costs.leave(now_ns, nic, bridge, out.bytes, asked_ns))
    }

    /// When a frame that the fabric lets go now stands behind the bridge of its port, or at its vNIC's far end; `None`:
    /// at once. `seen_at`: the number of that port among those of the bridge.
    #[inline]
    pub fn depart(
        &mut self,
        now_ns: u64,
        port: usize,
        bridge: Option<usize>,
        out: &Outgoing,
        seen_at: usize,
    ) -> Option<u64> {
        let costs = self.costs.as_mut()?;
        let asked_ns = costs.ask(now_ns, bridge, seen(out, seen_at));
        Some(costs.depart(now_ns, port, bridge, out.bytes, asked_ns))
    }

    /// When a frame that has come to a vNIC is in its guest's kernel; `None`: at once.
    #[inline]
    pub fn enter(&mut self, now_ns: u64, nic: usize, bytes: u32) -> Option<u64> {
        Some(self.costs.as_mut()?.enter(now_ns, nic, bytes))
    }

    /// The next guest that forwards, from a place in the queue of those that are ready; what that holds up, and until
    /// when.
    pub fn next_turn(&mut self, place: &mut usize, now_ns: u64) -> Option<(u64, Flight)> {
        self.service.next_turn(place, self.costs.as_mut()?, now_ns)
    }
}

/// What a virtual switch sees of a frame at one of its ports.
fn seen(out: &Outgoing, port: usize) -> Seen {
    let message = &out.cargo.message;
    let version = match out.cargo.ip {
        Some(packet) => Some(packet.to.version()),
        None if is_noise(message) => Some(IpVersion::V6),
        None => None,
    };
    let ether_type = match version {
        Some(IpVersion::V4) => 0x0800,
        Some(IpVersion::V6) => 0x86dd,
        None if !is_resolution(message) => 0x88b5,
        None if Number::of_bits(message.flow).version() == IpVersion::V6 => 0x86dd,
        None => 0x0806,
    };
    Seen { port, ether_type, destination: out.destination, flow: out.flow }
}
