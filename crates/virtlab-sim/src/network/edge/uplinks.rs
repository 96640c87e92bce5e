//! The queue that all guests of a host share in front of its wire (pushback `uplink`).
//!
//! Their vNICs take frames as fast as they come. In front of the wire frames wait in one FIFO, which lets them go as a
//! vNIC with pushback does: by a token bucket at the wire's rate with a burst of ten frames. It is played as one more
//! vNIC, behind the real ones, with nothing but the port behind it. A frame that waits there is charged to the socket
//! that sent it, so who sends is held back by what its host's wire has still to carry, its neighbours' frames
//! included; where its guest or its virtual switch is not of the machine's kernel, the excess is dropped. Linux charges
//! a frame's memory, more than its bytes. A frame for which there is no room is dropped, and counted here: it never
//! was on the way.

use super::Edge;
use super::vnics::Nic;
use crate::input::{On, Uplink, Vnic};
use crate::network::frames::Place;
use virtlab_fabric::{Mac, PortId};

/// Of such a queue, which belongs to no guest.
const NOBODY: usize = usize::MAX;

impl Nic {
    /// The queue in front of a port.
    pub fn in_front_of(uplink: &Uplink, at: PortId) -> Self {
        let given = Vnic {
            name: format!("uplinks.{}", uplink.port),
            guest: NOBODY,
            mac: Mac([0; 6]),
            mtu_bytes: uplink.mtu_bytes,
            pushback_bit_per_s: Some(uplink.rate_bit_per_s),
            licence: None,
            held: false,
            on: On::Port(uplink.port.clone()),
        };
        let mut own = Self::new(&given, None, Some(at));
        own.share(uplink.limit_packets);
        own.queue.note_port(at);
        own
    }
}

impl Edge {
    /// The queue that guests share in front of a port.
    #[inline]
    pub fn shared(&self, at: PortId) -> Option<usize> {
        self.shared.get(at.0).copied().flatten()
    }

    /// Whether what a vNIC sends is held back by such a queue, towards a wire of its virtual switch.
    pub fn is_held(&self, nic: usize) -> bool {
        let own = &self.nics[nic];
        own.given.held
            && own.bridge.is_some_and(|bridge| {
                let ports = self.bridges.ports(bridge);
                ports.iter().any(|place| matches!(place, Place::Port(at) if self.shared(*at).is_some()))
            })
    }
}
