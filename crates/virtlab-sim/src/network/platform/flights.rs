//! What a cost of the platform holds up, until its instant.

use crate::ip::Message;
use crate::network::frames::Outgoing;

/// What a cost of the platform holds up.
#[derive(Clone, Copy, Debug)]
pub enum Flight {
    /// A frame between a vNIC and what lies behind it.
    Out(usize, Outgoing),
    /// A frame between the fabric and what lies behind the port.
    Departed(usize, Outgoing),
    /// A frame that is coming into a guest.
    In(usize, Outgoing),
    /// A guest that has been asleep.
    Roused(usize),
    /// A frame that a guest is forwarding through a vNIC.
    Forwarded(usize, usize, Outgoing),
    /// A message that the kernel has had since an instant, and the process has not.
    Handed(Message, u64),
}

/// All that is held up, each in a slot.
#[derive(Default)]
pub struct Flights {
    held: Vec<Option<Flight>>,
    vacant: Vec<usize>,
}

impl Flights {
    /// Holds something up, in a slot.
    pub fn hold(&mut self, flight: Flight) -> usize {
        let slot = self.vacant.pop().unwrap_or(self.held.len());
        if slot == self.held.len() {
            self.held.push(Some(flight));
        } else {
            self.held[slot] = Some(flight);
        }
        slot
    }

    /// What was held up in a slot continues.
    pub fn release(&mut self, slot: usize) -> Option<Flight> {
        let flight = self.held[slot].take()?;
        self.vacant.push(slot);
        Some(flight)
    }
}
