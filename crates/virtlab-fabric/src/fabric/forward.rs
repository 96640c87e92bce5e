//! What a switch does with a whole frame: learn where it came from, and send it on, to all, or nowhere.

use super::machine::Fabric;
use super::store::Held;
use crate::Mac;
use virtlab_qdisc::Packet;
use virtlab_wire::Nanos;

impl<P: Clone> Fabric<P> {
    /// A whole frame is in `switch`, come over `line`.
    pub(super) fn forward(&mut self, switch: usize, line: usize, packet: Packet, now: Nanos) {
        let frame = self.store.frame(&packet);
        let (source, destination) = (frame.source, frame.destination);
        let back = self.graph.courses[line].reverse;
        if self.graph.courses[line].settled != Some(source)
            && !self.switches[switch].table.learn(source, back, now)
        {
            self.graph.courses[line].settled = Some(source);
        }
        match self.way(switch, destination, now) {
            Some(out) if out == back => self.filter(switch, packet),
            Some(out) => {
                self.gather_before(out, (now, line));
                self.offer(out, packet, now);
            }
            None if destination.is_link_local() => self.filter(switch, packet),
            None => self.flood(switch, line, packet, now),
        }
    }

    fn way(&self, switch: usize, destination: Mac, now: Nanos) -> Option<usize> {
        if destination.is_group() { None } else { self.switches[switch].table.find(destination, now) }
    }

    fn filter(&mut self, switch: usize, packet: Packet) {
        self.switches[switch].counters.filtered_packets += 1;
        self.store.release(&packet);
    }

    fn flood(&mut self, switch: usize, from: usize, packet: Packet, now: Nanos) {
        let back = self.graph.courses[from].reverse;
        self.switches[switch].counters.flooded_packets += 1;
        let mut held = self.store.release(&packet);
        held.frame.ecn = packet.ecn;
        for index in 0..self.switches[switch].out.len() {
            let line = self.switches[switch].out[index];
            if line != back {
                let copy = self.store.hold(Held { frame: held.frame.clone(), arrived: held.arrived });
                self.gather_before(line, (now, from));
                self.offer(line, copy, now);
            }
        }
    }
}
