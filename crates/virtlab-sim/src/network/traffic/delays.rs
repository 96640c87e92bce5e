//! What a cost of the platform holds up continues at its instant.

use crate::agenda::Due;
use crate::ip::Message;
use crate::network::platform::flights::Flight;
use crate::network::whole::Network;

impl Network {
    pub(super) fn fly(&mut self, at_ns: u64, flight: Flight) {
        let slot = self.platform.flights.hold(flight);
        self.agenda.plan(at_ns, Due::Resume(slot));
    }

    /// What a cost held up continues; a message that its process has now.
    pub fn resume(&mut self, slot: usize) -> Option<Message> {
        match self.platform.flights.release(slot)? {
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
        match &mut self.platform.costs {
            Some(costs) if wakes => {
                let role = message.role as usize;
                let guest = self.guests.hosts.of_side(role, side);
                let at_ns = costs.hand_over(self.now_ns, guest, role, side);
                self.fly(at_ns, Flight::Handed(message, self.now_ns));
                None
            }
            _ => Some(message),
        }
    }
}
