//! A guest that is reset: all its vNICs are down for a while, as when its links are taken down and brought up again.
//!
//! What comes to a vNIC that is down is dropped there (`rx_dropped`), and what would leave it vanishes (`tx_dropped`). What the
//! guest had learnt of its neighbours is lost, and so is what virtual switches had learnt at its ports; what they were told
//! from the start stays. With noise of IPv6 its interfaces say all again as they come up. In a world where that can happen
//! every frame has its events, so that each meets the vNIC as it is then.

use super::Network;
use super::bridges::Place;
use crate::input::Versions;

impl Network {
    /// Takes the vNICs of a guest down, or brings them up.
    pub fn set_down(&mut self, guest: usize, down: bool) {
        let own = |nic: &usize| self.nics[*nic].given.guest == guest;
        let nics: Vec<usize> = (0..self.nics.len()).filter(own).collect();
        for &nic in &nics {
            self.nics[nic].down = down;
            if down {
                self.forget_neighbours(nic, Versions::BOTH);
            }
        }
        self.silence(&nics, down);
        for bridge in self.bridges.iter_mut().filter(|bridge| down && bridge.learns) {
            bridge.ways.retain(|_, place| !matches!(place, Place::Nic(nic) if nics.contains(nic)));
        }
    }

    /// Whether a frame that comes to a vNIC is lost there.
    #[inline]
    pub(super) fn misses(&mut self, nic: usize) -> bool {
        let port = &mut self.nics[nic];
        port.traffic.missed += u64::from(port.down);
        port.down
    }
}
