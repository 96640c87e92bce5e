//! Interfaces come up, go down, and say what kernels say of themselves.
//!
//! A guest that is reset has all its vNICs down for a while, as when its links are taken down and brought up again.
//! What comes to a vNIC that is down is dropped there (`rx_dropped`), and what would leave it vanishes (`tx_dropped`).
//! What the guest had learnt of its neighbours is lost, and so is what virtual switches had learnt at its ports; what
//! they were told from the start stays. With noise of IPv6 its interfaces say all again as they come up. In a world
//! where that can happen every frame has its events, so that each meets the vNIC as it is then.

use crate::agenda::Due;
use crate::input::Versions;
use crate::network::edge::vnics::Presence;
use crate::network::guests::noise::Voice;
use crate::network::whole::Network;

impl Network {
    /// Takes the vNICs of a guest down, or brings them up.
    pub fn set_down(&mut self, guest: usize, down: bool) {
        let nics = self.edge.of_guest(guest);
        for &nic in &nics {
            self.edge.nics[nic].presence = if down { Presence::Down } else { Presence::Here };
            if down {
                self.forget_neighbours(nic, Versions::BOTH);
            }
        }
        for place in self.guests.noise.silence(&nics, down, self.now_ns) {
            self.agenda.plan(self.now_ns, Due::Speak(place));
        }
        if down {
            self.edge.bridges.forget(&nics);
        }
    }

    /// An interface says what it has to say now.
    pub fn speak(&mut self, place: usize) {
        let Some((voice, out, next_ns)) = self.guests.noise.speak(place, self.now_ns) else { return };
        if let Some(at_ns) = next_ns {
            self.agenda.plan(at_ns, Due::Speak(place));
        }
        match voice {
            Voice::Nic(nic) => {
                let ready = self.ready(nic, out.bytes, None);
                self.put(nic, &out, ready);
            }
            Voice::Behind(nic) => self.arrive(nic, out),
            Voice::Uplink(at) => self.enter(at, out),
            Voice::Bridge(bridge) => {
                for to in self.edge.bridges.ports(bridge).to_vec() {
                    self.pass(to, out);
                }
            }
        }
    }
}
