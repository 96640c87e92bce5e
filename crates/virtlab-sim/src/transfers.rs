//! Bulk transfers of a world: who sends over which lines, how far it is, and what has arrived.
//!
//! Their shares are those of `bulk`. They change when a transfer begins or ends, and when it is seen what packets ask
//! for: every tenth of a second where a guest moves, and every hundredth of one else, because others are shorter.
//! Between two looks each goes at a constant rate, so a look costs as much whatever is sent. What one end of a
//! connection sends goes one message after another, each whole when its last octet has crossed the last line: behind
//! the first line it waits on each for one frame to be whole, and for the propagation.

use crate::bulk::{Capacity, Shares, Sharing, Transfer, shares};
use std::collections::VecDeque;
use virtlab_fabric::LineId;
use virtlab_wire::ethernet::{FCS_BYTES, PREAMBLE_AND_GAP_BYTES};

/// How often what packets ask for is seen, where a guest moves.
pub const SEEN_EVERY_NS: u64 = 100_000_000;
/// And else.
pub const SEEN_SOON_NS: u64 = 10_000_000;
const SECOND_NS: f64 = 1e9;
const BITS: f64 = 8.0;

/// A message as it is sent: so many frames, and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    pub frames: u64,
    /// Without preamble, check sequence and gap, as links count them.
    pub bytes: u64,
}

impl Load {
    /// What it holds a line for.
    pub fn octets(self) -> u64 {
        self.bytes + self.frames * u64::from(FCS_BYTES + PREAMBLE_AND_GAP_BYTES)
    }

    /// The part of it that has passed once so many octets have: whole frames.
    fn passed(self, octets: f64) -> Self {
        let frames = (octets / self.octets() as f64 * self.frames as f64 + 1e-6) as u64;
        Self { frames, bytes: self.bytes * frames / self.frames.max(1) }
    }
}

/// A line that transfers cross.
#[derive(Debug)]
pub struct Line {
    pub link: String,
    pub direction: String,
    pub id: LineId,
    /// Places of the queues in front of it, whose buckets go at its rate.
    pub gates: Vec<usize>,
    pub propagation_ns: u64,
    /// What had come to it when that was seen last, and what of all that is of transfers.
    pub offered_octets: u64,
    pub carried_octets: u64,
    /// The rate that packets find, and what of the last shares it was worked out from; NaN of none.
    pub found_bit_per_s: u64,
    pub found_octets_per_s: f64,
}

/// From one vNIC to another.
#[derive(Debug)]
pub struct Way {
    pub lines: Vec<usize>,
    pub nics: [usize; 2],
    /// Of each.
    pub most_octets_per_s: Option<f64>,
}

/// What one end of a connection sends: it, and the messages that wait behind the first.
#[derive(Debug)]
struct Sending {
    role: usize,
    side: usize,
    way: usize,
    loads: VecDeque<Load>,
    left_octets: f64,
    share: f64,
    ends_ns: u64,
}

impl Sending {
    fn plan(&mut self, now_ns: u64) {
        let left_ns = (self.left_octets / self.share * SECOND_NS).ceil();
        self.ends_ns = now_ns.saturating_add(left_ns as u64);
    }
}

/// What has left its sender, or a part of it that was given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    pub way: usize,
    pub load: Load,
    /// Who hears of it and when; none of what was given up.
    pub comes: Option<(usize, usize, u64)>,
}

/// All of a world.
#[derive(Debug, Default)]
pub struct Transfers {
    lines: Vec<Line>,
    capacities: Vec<Capacity>,
    ways: Vec<Way>,
    sending: Vec<Sending>,
    /// What each of them is to the lines.
    wishes: Vec<Transfer>,
    sharing: Sharing,
    /// Roles and sides at which something has come or will, and when.
    coming: VecDeque<(usize, usize, u64)>,
    passed_ns: u64,
    pub seen_ns: u64,
    pub planned_ns: Option<u64>,
    /// Whether shares are other ones than before.
    pub changed: bool,
}

impl Transfers {
    /// The place of a line that is known.
    pub fn line(&self, link: &str, direction: &str) -> Option<usize> {
        self.lines.iter().position(|line| line.link == link && line.direction == direction)
    }

    /// One more line; its place.
    pub fn add_line(&mut self, line: Line, octets_per_s: f64) -> usize {
        self.lines.push(line);
        self.capacities.push(Capacity { octets_per_s, asked_octets_per_s: 0.0 });
        self.lines.len() - 1
    }

    /// One more way; its place.
    pub fn add_way(&mut self, way: Way) -> usize {
        self.ways.push(way);
        self.ways.len() - 1
    }

    /// A way.
    pub fn way(&self, place: usize) -> &Way {
        &self.ways[place]
    }

    /// All lines.
    pub fn lines(&mut self) -> &mut [Line] {
        &mut self.lines
    }

    /// Whether anything is sent.
    pub fn any(&self) -> bool {
        !self.sending.is_empty()
    }

    /// Whether an end of a role sends.
    pub fn sends(&self, role: usize, side: usize) -> bool {
        self.sending.iter().any(|one| (one.role, one.side) == (role, side))
    }

    /// An end of a role sends a message behind those that it sends.
    pub fn send(&mut self, now_ns: u64, (role, side): (usize, usize), way: usize, load: Load) {
        if let Some(one) = self.sending.iter_mut().find(|one| (one.role, one.side) == (role, side)) {
            one.loads.push_back(load);
            return;
        }
        self.pass(now_ns);
        let (loads, left_octets) = (VecDeque::from([load]), load.octets() as f64);
        self.sending.push(Sending { role, side, way, loads, left_octets, share: 0.0, ends_ns: u64::MAX });
        let Way { lines, most_octets_per_s, .. } = &self.ways[way];
        self.wishes.push(Transfer { lines: lines.clone(), most_octets_per_s: *most_octets_per_s });
        self.changed = true;
    }

    /// Time passes.
    pub fn pass(&mut self, now_ns: u64) {
        let seconds = (now_ns - self.passed_ns) as f64 / SECOND_NS;
        self.passed_ns = now_ns;
        if seconds > 0.0 {
            for one in &mut self.sending {
                one.left_octets = (one.left_octets - one.share * seconds).max(0.0);
            }
        }
    }

    /// What has left its sender by now.
    pub fn turn(&mut self, now_ns: u64) -> Vec<Sent> {
        self.pass(now_ns);
        let mut found = Vec::new();
        let mut at = 0;
        while at < self.sending.len() {
            while self.sending[at].ends_ns <= now_ns
                && let Some(load) = self.sending[at].loads.pop_front()
            {
                let (role, side, way) =
                    (self.sending[at].role, 1 - self.sending[at].side, self.sending[at].way);
                let comes = (role, side, now_ns + self.later_ns(way, load));
                self.coming.push_back(comes);
                found.push(Sent { way, load, comes: Some(comes) });
                let one = &mut self.sending[at];
                one.left_octets = one.loads.front().map_or(0.0, |next| next.octets() as f64);
                one.plan(now_ns);
            }
            if self.sending[at].loads.is_empty() {
                self.sending.remove(at);
                self.wishes.remove(at);
                self.changed = true;
            } else {
                at += 1;
            }
        }
        found
    }

    /// By how much later the last octet of a message has come than it has left.
    fn later_ns(&self, way: usize, load: Load) -> u64 {
        let lines = &self.ways[way].lines;
        let frame_octets = load.octets().div_ceil(load.frames.max(1)) as f64;
        let propagation_ns: u64 = lines.iter().map(|line| self.lines[*line].propagation_ns).sum();
        let again = lines.iter().skip(1).map(|line| frame_octets / self.capacities[*line].octets_per_s);
        propagation_ns + (again.sum::<f64>() * SECOND_NS).ceil() as u64
    }

    /// Takes the next message that has come to an end of a role by now, if any has.
    pub fn has_come(&mut self, now_ns: u64, role: usize, side: usize) -> bool {
        let own = |one: &(usize, usize, u64)| (one.0, one.1) == (role, side) && one.2 <= now_ns;
        let found = self.coming.iter().position(own);
        found.and_then(|place| self.coming.remove(place)).is_some()
    }

    /// A role's connection is gone, with what was sent over it: what of that had left.
    pub fn forget(&mut self, now_ns: u64, role: usize) -> Vec<Sent> {
        self.coming.retain(|one| one.0 != role);
        if self.sending.iter().all(|one| one.role != role) {
            return Vec::new();
        }
        self.pass(now_ns);
        self.changed = true;
        let keeps: Vec<bool> = self.sending.iter().map(|one| one.role != role).collect();
        let gone = self.sending.iter().filter(|one| one.role == role).filter_map(|one| {
            let load = *one.loads.front()?;
            let load = load.passed(load.octets() as f64 - one.left_octets);
            Some(Sent { way: one.way, load, comes: None })
        });
        let gone = gone.collect();
        let mut kept = keeps.iter();
        self.sending.retain(|_| kept.next() == Some(&true));
        let mut kept = keeps.iter();
        self.wishes.retain(|_| kept.next() == Some(&true));
        gone
    }

    /// Frames of transfers have crossed a line, which is as fast as is returned.
    pub fn carry(&mut self, line: usize, load: Load) -> f64 {
        self.lines[line].carried_octets += load.octets();
        self.capacities[line].octets_per_s
    }

    /// Both directions of a link have another rate, at which packets find it until shares are other ones.
    pub fn set_rate(&mut self, link: &str, rate_bit_per_s: u64) {
        for (line, capacity) in self.lines.iter_mut().zip(&mut self.capacities) {
            if line.link == link {
                (line.found_bit_per_s, line.found_octets_per_s) = (rate_bit_per_s, f64::NAN);
                capacity.octets_per_s = rate_bit_per_s as f64 / BITS;
                self.changed = true;
            }
        }
    }

    /// Looks what packets ask for, from what they have brought to each line until now; `afresh`: what they brought
    /// before is long ago.
    pub fn see(&mut self, now_ns: u64, offered: impl Fn(LineId) -> u64, afresh: bool) {
        let passed_ns = now_ns - self.seen_ns;
        self.seen_ns = now_ns;
        for (line, capacity) in self.lines.iter_mut().zip(&mut self.capacities) {
            let offered_octets = offered(line.id) - line.carried_octets;
            let come = (offered_octets - line.offered_octets) as f64;
            let asked = if afresh { 0.0 } else { come * SECOND_NS / passed_ns as f64 };
            self.changed |= asked != capacity.asked_octets_per_s;
            (capacity.asked_octets_per_s, line.offered_octets) = (asked, offered_octets);
        }
    }

    /// The shares of all.
    pub fn share(&mut self) -> Shares {
        self.sharing.of(&self.capacities, &self.wishes)
    }

    /// The same, those of some others first.
    pub fn shares(&self, others: &[Transfer]) -> Shares {
        let all: Vec<Transfer> = others.iter().chain(&self.wishes).cloned().collect();
        shares(&self.capacities, &all)
    }

    /// Each sends at its share from now on.
    pub fn go_at(&mut self, now_ns: u64, shares: &[f64]) {
        self.pass(now_ns);
        self.changed = false;
        for (one, share) in self.sending.iter_mut().zip(shares) {
            one.share = *share;
            one.plan(now_ns);
        }
    }

    /// When something of it changes by itself, if what packets ask for is seen so often.
    pub fn next_ns(&self, every_ns: u64) -> Option<u64> {
        let ends_ns = self.sending.iter().map(|one| one.ends_ns).min()?;
        Some(ends_ns.min(self.seen_ns.saturating_add(every_ns)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use virtlab_fabric::Fabric;

    const LINE_OCTETS_PER_S: f64 = 125e6;

    /// Two lines behind one another, of as many octets a second each, and three ways over both.
    fn world() -> Transfers {
        let layout = serde_json::json!({
            "ports": ["one", "other"],
            "switches": {"s": {}},
            "links": {"a": {"ends": ["one", "s.1"], "rate_bit_per_s": 1_000_000_000u64},
                      "b": {"ends": ["s.2", "other"], "rate_bit_per_s": 1_000_000_000u64}},
        });
        let fabric: Fabric<()> = Fabric::new(&serde_json::from_value(layout).unwrap()).unwrap();
        let mut own = Transfers::default();
        for link in ["a", "b"] {
            let line = Line {
                link: link.to_owned(),
                direction: "ab".to_owned(),
                id: fabric.line(link, "ab").unwrap(),
                gates: Vec::new(),
                propagation_ns: 1000,
                offered_octets: 0,
                carried_octets: 0,
                found_bit_per_s: 1_000_000_000,
                found_octets_per_s: f64::NAN,
            };
            own.add_line(line, LINE_OCTETS_PER_S);
        }
        own.add_way(Way { lines: vec![0, 1], nics: [0, 1], most_octets_per_s: None });
        own
    }

    /// Plays on until nothing is sent: what has left, and when.
    fn played(own: &mut Transfers, until_ns: u64) -> Vec<(u64, Sent)> {
        let mut found = Vec::new();
        loop {
            if own.changed {
                let shares = own.share().transfers;
                own.go_at(own.passed_ns, &shares);
            }
            let Some(next_ns) = own.sending.iter().map(|one| one.ends_ns).min() else { return found };
            if next_ns > until_ns {
                own.pass(until_ns);
                return found;
            }
            found.extend(own.turn(next_ns).into_iter().map(|sent| (next_ns, sent)));
        }
    }

    fn load(octets: u64) -> Load {
        Load { frames: 1, bytes: octets - u64::from(FCS_BYTES + PREAMBLE_AND_GAP_BYTES) }
    }

    #[test]
    fn messages_of_one_end_go_in_order_and_ends_share_the_line() {
        let mut own = world();
        own.send(0, (7, 0), 0, load(125_000));
        own.send(0, (7, 0), 0, load(125_000));
        own.send(0, (8, 1), 0, load(125_000));
        let left = played(&mut own, u64::MAX);
        let roles: Vec<usize> = left.iter().map(|(_, sent)| sent.comes.unwrap().0).collect();
        assert_eq!(roles, [7, 8, 7]);
        // Alone each takes 1 ms; the first of both ends go at half, then the second has all.
        for ((at, _), expected) in left.iter().zip([2_000_000, 2_000_000, 3_000_000]) {
            assert!(at.abs_diff(expected) <= 2, "{at}");
        }
        // Both propagations, and a frame over the second line: here all of it.
        assert!(!own.has_come(3_001_000, 8, 0));
        assert!(own.has_come(3_002_010, 8, 0) && own.has_come(3_002_010, 7, 1));
        assert!(!own.has_come(3_002_010, 7, 1) && own.has_come(4_002_010, 7, 1));
        assert!(!own.has_come(u64::MAX, 8, 0));
    }

    #[test]
    fn what_is_forgotten_has_left_in_part_and_the_others_have_its_share() {
        let mut own = world();
        let many = Load { frames: 100, bytes: 100 * (1250 - u64::from(FCS_BYTES + PREAMBLE_AND_GAP_BYTES)) };
        own.send(0, (7, 0), 0, many);
        own.send(0, (8, 0), 0, load(125_000));
        assert!(played(&mut own, 1_000_000).is_empty());
        let gone = own.forget(1_000_000, 7);
        let [Sent { load: Load { frames, bytes }, comes: None, .. }] = gone[..] else { panic!("{gone:?}") };
        assert_eq!((frames, bytes), (50, 50 * 1226));
        assert!(!own.sends(7, 0) && own.sends(8, 0));
        assert!(played(&mut own, u64::MAX)[0].0.abs_diff(1_500_000) <= 2);
        assert!(!own.has_come(u64::MAX, 7, 1));
    }
}
