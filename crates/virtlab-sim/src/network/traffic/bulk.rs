//! Bulk transfers beside packets: at what rate packets find each line, and what lines and vNICs have counted.
//!
//! What a transfer has brought over a line is counted there when a message has left its sender, as so many frames of
//! its connection; of one that is given up, what had left by then.

use crate::agenda::Due;
use crate::bulk::Transfer;
use crate::network::whole::Network;
use crate::transfers::{Line, Load, SEEN_EVERY_NS, SEEN_SOON_NS, Sent, Transfers, Way};
use virtlab_wire::Nanos;

const BITS: f64 = 8.0;
const SECOND_NS: f64 = 1e9;

impl Network {
    /// What crosses links in bulk.
    pub fn transfers(&self) -> &Transfers {
        &self.wire.transfers
    }

    /// Takes the next message that has come in bulk to an end of a role by now, if any has.
    pub fn has_come_in_bulk(&mut self, role: usize, side: usize) -> bool {
        self.wire.transfers.has_come(self.now_ns, role, side)
    }

    /// Both directions of a link have another rate, for transfers.
    pub fn set_rate_of_bulk(&mut self, link: &str, rate_bit_per_s: u64) {
        self.wire.transfers.set_rate(link, rate_bit_per_s);
    }

    /// The place of a direction of a link among those that transfers cross; `None`: there is no such link.
    pub fn bulk_line(&mut self, link: &str, direction: &str) -> Option<usize> {
        if let Some(place) = self.wire.transfers.line(link, direction) {
            return Some(place);
        }
        let id = self.wire.fabric.line(link, direction)?;
        let (rate_bit_per_s, propagation) = self.wire.fabric.speed(id);
        let gates = (0..self.edge.nics.len()).filter(|nic| {
            let at = self.edge.nics[*nic].port;
            at.is_some_and(|at| self.wire.fabric.line_from(at) == Some(id))
        });
        let line = Line {
            link: link.to_owned(),
            direction: direction.to_owned(),
            id,
            gates: gates.collect(),
            propagation_ns: propagation.0,
            offered_octets: 0,
            carried_octets: 0,
            found_bit_per_s: rate_bit_per_s,
            found_octets_per_s: f64::NAN,
        };
        Some(self.wire.transfers.add_line(line, rate_bit_per_s as f64 / BITS))
    }

    /// A way of transfers between vNICs.
    pub fn bulk_way(&mut self, lines: Vec<usize>, nics: [usize; 2]) -> usize {
        let most = self.edge.nics[nics[0]].given.pushback_bit_per_s;
        let most_octets_per_s = most.map(|rate| rate as f64 / BITS);
        self.wire.transfers.add_way(Way { lines, nics, most_octets_per_s })
    }

    /// Whether what packets cost the platform is played.
    pub fn has_costs(&self) -> bool {
        self.platform.costs.is_some()
    }

    /// An end of a role sends a message in bulk.
    pub fn send_bulk(&mut self, end: (usize, usize), way: usize, load: Load) {
        self.wire.transfers.send(self.now_ns, end, way, load);
        self.look_at_bulk();
    }

    /// A role's connection is gone.
    pub fn forget_bulk(&mut self, role: usize) {
        for sent in self.wire.transfers.forget(self.now_ns, role) {
            self.carry(sent);
        }
        self.look_at_bulk();
    }

    /// Plans a look at transfers at this instant, where their shares are other ones.
    fn look_at_bulk(&mut self) {
        if self.wire.transfers.changed && self.wire.transfers.planned_ns != Some(self.now_ns) {
            self.wire.transfers.planned_ns = Some(self.now_ns);
            self.agenda.plan(self.now_ns, Due::Bulk);
        }
    }

    /// Lets arrive what has been sent by now.
    pub fn turn_bulk(&mut self) {
        for sent in self.wire.transfers.turn(self.now_ns) {
            self.carry(sent);
            if let Some((role, side, at_ns)) = sent.comes {
                self.agenda.plan(at_ns, Due::Tick { role, side, generation: 0 });
            }
        }
    }

    fn carry(&mut self, sent: Sent) {
        let Sent { way, load: Load { frames, bytes }, .. } = sent;
        let [from, to] = self.wire.transfers.way(way).nics;
        for at in 0..self.wire.transfers.way(way).lines.len() {
            let place = self.wire.transfers.way(way).lines[at];
            let octets_per_s = self.wire.transfers.carry(place, sent.load);
            let line = &self.wire.transfers.lines()[place];
            let busy_ns = sent.load.octets() as f64 * SECOND_NS / octets_per_s;
            self.wire.fabric.count_beside(line.id, frames, bytes, Nanos(busy_ns.round() as u64));
            for gate in &line.gates {
                if self.edge.nics[*gate].is_shared() {
                    let traffic = &mut self.edge.nics[*gate].traffic;
                    traffic.sent_packets += frames;
                    traffic.sent_bytes += bytes;
                }
            }
        }
        let traffic = &mut self.edge.nics[from].traffic;
        traffic.sent_packets += frames;
        traffic.sent_bytes += bytes;
        let traffic = &mut self.edge.nics[to].traffic;
        traffic.received_packets += frames;
        traffic.received_bytes += bytes;
    }

    /// Sees what packets ask for; `afresh`: nothing was sent until now.
    pub fn see_bulk(&mut self, afresh: bool) {
        self.wire.fabric.settle_counters(Nanos(self.now_ns));
        self.wire.transfers.see(self.now_ns, |line| self.wire.fabric.offered_octets(line), afresh);
    }

    /// All send at their shares from now on, and packets find the rest; the shares of some others.
    pub fn share_out(&mut self, others: &[Transfer]) -> Vec<f64> {
        let mut found = match others {
            [] => self.wire.transfers.share(),
            _ => self.wire.transfers.shares(others),
        };
        self.wire.transfers.go_at(self.now_ns, &found.transfers[others.len()..]);
        for (line, octets_per_s) in self.wire.transfers.lines().iter_mut().zip(found.packets) {
            if line.found_octets_per_s == octets_per_s {
                continue;
            }
            line.found_octets_per_s = octets_per_s;
            let rate_bit_per_s = ((octets_per_s * BITS).round() as u64).max(1);
            if line.found_bit_per_s != rate_bit_per_s {
                line.found_bit_per_s = rate_bit_per_s;
                self.wire.fabric.set_rate(line.id, rate_bit_per_s);
                for gate in &line.gates {
                    self.edge.nics[*gate].go_at(rate_bit_per_s);
                }
            }
        }
        found.transfers.truncate(others.len());
        found.transfers
    }

    /// Lets happen to transfers what has by now, and looks when something else will.
    pub fn go_on_sending(&mut self) {
        let idle_ns = self.now_ns - self.wire.transfers.seen_ns;
        self.turn_bulk();
        if self.wire.transfers.any() && idle_ns >= SEEN_SOON_NS {
            self.see_bulk(idle_ns >= 2 * SEEN_EVERY_NS);
        }
        if self.wire.transfers.changed {
            self.share_out(&[]);
        }
        self.plan_bulk(SEEN_SOON_NS);
    }

    /// Plans the next look at transfers, of which one is due after so long.
    pub fn plan_bulk(&mut self, every_ns: u64) {
        let Some(next_ns) = self.wire.transfers.next_ns(every_ns) else { return };
        let planned_ns = self.wire.transfers.planned_ns.filter(|at_ns| *at_ns > self.now_ns);
        if planned_ns.is_none_or(|planned_ns| next_ns < planned_ns) {
            self.wire.transfers.planned_ns = Some(next_ns);
            self.agenda.plan(next_ns, Due::Bulk);
        }
    }
}
