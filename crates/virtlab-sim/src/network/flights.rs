//! What a cost of the platform holds up, until its instant.

use super::Network;
use super::vnics::Outgoing;
use crate::agenda::Due;
use crate::ip::Message;

/// What a cost of the platform holds up.
#[derive(Clone, Copy, Debug)]
pub(super) enum Flight {
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

impl Network {
    pub(super) fn fly(&mut self, at_ns: u64, flight: Flight) {
        let slot = self.landed.pop().unwrap_or(self.flights.len());
        if slot == self.flights.len() {
            self.flights.push(Some(flight));
        } else {
            self.flights[slot] = Some(flight);
        }
        self.agenda.plan(at_ns, Due::Resume(slot));
    }

    /// What a cost held up continues; a message that its process has now.
    pub fn resume(&mut self, slot: usize) -> Option<Message> {
        let flight = self.flights[slot].take()?;
        self.landed.push(slot);
        match flight {
            Flight::Out(nic, out) => self.leave(nic, out),
            Flight::Departed(port, out) => self.departed(port, out),
            Flight::In(nic, out) => self.come(nic, out),
            Flight::Roused(guest) => self.roused(guest),
            Flight::Forwarded(guest, nic, out) => self.forwarded(guest, nic, out),
            Flight::Handed(message, stamp_ns) => {
                self.stamp_ns = stamp_ns;
                return Some(message);
            }
        }
        None
    }

    /// Stamps a message that has come to its kernel; it is given back when its process has it at once.
    pub fn hand_over(&mut self, message: Message, wakes: bool) -> Option<Message> {
        self.stamp_ns = self.now_ns;
        let side = usize::from(message.origin ^ u8::from(!message.reply));
        match &mut self.costs {
            Some(costs) if wakes => {
                let role = message.role as usize;
                let guest = self.sides[role][side];
                let at = costs.hand_over(self.now_ns, guest, role, side);
                self.fly(at, Flight::Handed(message, self.now_ns));
                None
            }
            _ => Some(message),
        }
    }
}
