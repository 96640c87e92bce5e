//! Bulk transfers as a fluid: each goes over some lines, and has its max-min fair share of them.
//!
//! No transfer can have more without one that has no more than it having less. What packets ask for is on each line one
//! more participant: on the average they have what they ask for, up to a fair share, and transfers have the rest. At
//! any instant packets find a line as fast as their share would be if they wanted all of it: a fluid of fair queueing,
//! which conserves work, so both hold at once.
//!
//! A TCP transfer of many segments arrives at such shares on its own (tests compare both). Deviation: packets do not
//! wait behind what a real transfer has queued in front of a line, because fair queueing serves each at its share.
//!
//! Source: D. Bertsekas and R. Gallager, "Data Networks", 2nd edition, section 6.5.2 (progressive filling).

/// Payload of a TCP segment with time stamps in an Ethernet frame of 1500 B, and what that holds a line for.
const SEGMENT_BYTES: f64 = 1448.0;
const SEGMENT_OCTETS: f64 = 1538.0;

/// The part of a line's octets that is payload of a bulk transfer.
pub const PAYLOAD_SHARE: f64 = SEGMENT_BYTES / SEGMENT_OCTETS;

/// A line, in octets a second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Capacity {
    /// What it carries.
    pub octets_per_s: f64,
    /// What packets ask for.
    pub asked_octets_per_s: f64,
}

/// A transfer under way.
#[derive(Clone, Debug, PartialEq)]
pub struct Transfer {
    /// Places of its lines; without any it shares nothing.
    pub lines: Vec<usize>,
    /// What it may have of each, in octets a second; absent: no limit.
    pub most_octets_per_s: Option<f64>,
}

/// Of each transfer its share, in octets a second, `f64::INFINITY` where nothing limits it; of each line what packets
/// find.
#[derive(Clone, Debug, PartialEq)]
pub struct Shares {
    /// By transfer.
    pub transfers: Vec<f64>,
    /// By line.
    pub packets: Vec<f64>,
}

/// The shares of transfers that are under way at once.
#[must_use]
pub fn shares(lines: &[Capacity], transfers: &[Transfer]) -> Shares {
    Sharing::default().of(lines, transfers)
}

/// Works shares out, again and again in the same places of memory.
#[derive(Debug, Default)]
pub struct Sharing {
    crossing: Crossing,
    filling: Filling,
}

impl Sharing {
    /// As [`shares`].
    pub fn of(&mut self, lines: &[Capacity], transfers: &[Transfer]) -> Shares {
        self.crossing.cross(lines.len(), transfers);
        let (crossing, filling) = (&self.crossing, &mut self.filling);
        let average = filling.fill(lines, transfers, crossing, |line| line.asked_octets_per_s).to_vec();
        let instant = filling.fill(lines, transfers, crossing, |_| f64::INFINITY);
        let mut packets: Vec<f64> = lines.iter().map(|line| line.octets_per_s.max(0.0)).collect();
        for &line in &crossing.lines {
            let taken: f64 = crossing.on(line).iter().map(|who| instant[*who]).sum();
            packets[line] = (lines[line].octets_per_s - taken).max(0.0);
        }
        Shares { packets, transfers: average }
    }
}

/// Which transfers cross each line, in their order.
#[derive(Debug, Default)]
struct Crossing {
    transfers: Vec<usize>,
    /// Lines that any of them crosses, in order.
    lines: Vec<usize>,
    /// Where those of a line end; they begin where those of the line before it do.
    ends: Vec<usize>,
    next: Vec<usize>,
}

impl Crossing {
    fn cross(&mut self, lines: usize, transfers: &[Transfer]) {
        self.ends.clear();
        self.ends.resize(lines, 0);
        for line in transfers.iter().flat_map(|transfer| &transfer.lines) {
            self.ends[*line] += 1;
        }
        let mut before = 0;
        self.next.clear();
        self.lines.clear();
        for (line, end) in self.ends.iter_mut().enumerate() {
            self.next.push(before);
            if *end > 0 {
                self.lines.push(line);
            }
            before += *end;
            *end = before;
        }
        self.transfers.clear();
        self.transfers.resize(before, 0);
        for (who, transfer) in transfers.iter().enumerate() {
            for line in &transfer.lines {
                self.transfers[self.next[*line]] = who;
                self.next[*line] += 1;
            }
        }
    }

    fn on(&self, line: usize) -> &[usize] {
        let begins = line.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.transfers[begins..self.ends[line]]
    }
}

/// A line that transfers cross, while all grow.
#[derive(Debug)]
struct Crossed {
    line: usize,
    /// Packets of it are a participant on it alone; what they have, once they do not grow.
    packets: Option<f64>,
    /// Who grows, packets included.
    growing: usize,
    /// Whether someone on it has stopped growing since its level was worked out.
    changed: bool,
}

/// Progressive filling: all grow alike until one has what it asks for, or a line is full.
#[derive(Debug, Default)]
struct Filling {
    crossed: Vec<Crossed>,
    /// Of each of them, where all that grow are when it is full; without end where none does.
    levels: Vec<f64>,
    /// Where a line that is crossed is among them.
    places: Vec<usize>,
    /// What packets of each ask for, the least first.
    demands: Vec<(f64, usize)>,
    /// Of each transfer its share, once it does not grow.
    settled: Vec<Option<f64>>,
    shares: Vec<f64>,
}

impl Filling {
    fn begin(&mut self, lines: &[Capacity], crossing: &Crossing, demand: impl Fn(&Capacity) -> f64) {
        self.crossed.clear();
        self.demands.clear();
        self.places.resize(lines.len(), usize::MAX);
        for (place, &line) in crossing.lines.iter().enumerate() {
            self.places[line] = place;
            self.demands.push((demand(&lines[line]), place));
            let growing = crossing.on(line).len() + 1;
            self.crossed.push(Crossed { line, packets: None, growing, changed: true });
        }
        self.demands.sort_unstable_by(|one, other| one.0.total_cmp(&other.0));
        self.levels.clear();
        self.levels.resize(self.crossed.len(), f64::INFINITY);
    }

    /// Works the levels of lines out on which someone has stopped growing.
    fn look(&mut self, lines: &[Capacity], crossing: &Crossing) {
        for (crossed, level) in self.crossed.iter_mut().zip(&mut self.levels).filter(|(one, _)| one.changed) {
            crossed.changed = false;
            let held = crossing.on(crossed.line).iter().filter_map(|who| self.settled[*who]);
            let taken: f64 = held.chain(crossed.packets).sum();
            *level = match crossed.growing {
                0 => f64::INFINITY,
                growing => (lines[crossed.line].octets_per_s - taken).max(0.0) / growing as f64,
            };
        }
    }

    /// Packets of a line have so much, and grow no more.
    fn settle(&mut self, place: usize, share: f64) {
        let crossed = &mut self.crossed[place];
        (crossed.packets, crossed.changed) = (Some(share), true);
        crossed.growing -= 1;
    }

    /// The shares of transfers, where packets of lines ask for so much.
    fn fill(
        &mut self,
        lines: &[Capacity],
        transfers: &[Transfer],
        crossing: &Crossing,
        demand: impl Fn(&Capacity) -> f64,
    ) -> &[f64] {
        self.begin(lines, crossing, demand);
        self.settled.clear();
        self.settled.resize(transfers.len(), None);
        let most = |who: usize| transfers[who].most_octets_per_s.unwrap_or(f64::INFINITY);
        let least_most = (0..transfers.len()).map(most).fold(f64::INFINITY, f64::min);
        let (mut open, mut next_demand) = (transfers.len(), 0);
        while open > 0 {
            self.look(lines, crossing);
            let first = |full: (usize, f64), (place, level): (usize, &f64)| {
                if *level < full.1 { (place, *level) } else { full }
            };
            let (place, level) = self.levels.iter().enumerate().fold((0, f64::INFINITY), first);
            while self
                .demands
                .get(next_demand)
                .is_some_and(|(_, place)| self.crossed[*place].packets.is_some())
            {
                next_demand += 1;
            }
            let mut content = self.demands.get(next_demand).map_or(f64::INFINITY, |(demand, _)| *demand);
            if least_most < content && least_most <= level {
                let grow = (0..transfers.len()).filter(|who| self.settled[*who].is_none());
                content = grow.map(most).fold(content, f64::min);
            }
            if level < content {
                if self.crossed[place].packets.is_none() {
                    self.settle(place, level);
                }
                let line = self.crossed[place].line;
                for who in crossing.on(line) {
                    open -= self.stop(*who, level, transfers);
                }
                continue;
            }
            while let Some(&(demand, place)) =
                self.demands.get(next_demand).filter(|(demand, _)| *demand <= content)
            {
                next_demand += 1;
                if self.crossed[place].packets.is_none() {
                    debug_assert!(demand <= content);
                    self.settle(place, content);
                }
            }
            if least_most <= content {
                for who in (0..transfers.len()).filter(|who| most(*who) <= content) {
                    open -= self.stop(who, content, transfers);
                }
            }
        }
        self.shares.clear();
        self.shares.extend(self.settled.iter().map(|share| share.unwrap_or_default()));
        &self.shares
    }

    /// A transfer has its share, if it has none yet, and grows no more: how many do so.
    fn stop(&mut self, who: usize, share: f64, transfers: &[Transfer]) -> usize {
        if self.settled[who].is_some() {
            return 0;
        }
        self.settled[who] = Some(share);
        for line in &transfers[who].lines {
            let crossed = &mut self.crossed[self.places[*line]];
            crossed.growing -= 1;
            crossed.changed = true;
        }
        1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn line(octets_per_s: f64, asked_octets_per_s: f64) -> Capacity {
        Capacity { octets_per_s, asked_octets_per_s }
    }

    fn over(lines: &[usize], most_octets_per_s: Option<f64>) -> Transfer {
        Transfer { lines: lines.to_vec(), most_octets_per_s }
    }

    #[test]
    fn a_transfer_alone_has_what_packets_leave_and_packets_find_half() {
        let found = shares(&[line(100.0, 10.0)], &[over(&[0], None)]);
        assert_eq!(found, Shares { transfers: vec![90.0], packets: vec![50.0] });
        // They ask for more than their share: half each.
        assert_eq!(shares(&[line(100.0, 80.0)], &[over(&[0], None)]).transfers, [50.0]);
        // A limit leaves the rest to packets.
        let found = shares(&[line(100.0, 10.0)], &[over(&[0], Some(30.0))]);
        assert_eq!(found, Shares { transfers: vec![30.0], packets: vec![70.0] });
    }

    #[test]
    fn the_narrowest_line_bounds_a_transfer_and_leaves_the_others_more() {
        let lines = [line(100.0, 0.0), line(40.0, 0.0)];
        let found = shares(&lines, &[over(&[0, 1], None), over(&[0], None)]);
        assert_eq!(found.transfers, [40.0, 60.0]);
        assert_eq!(shares(&lines, &[over(&[], None)]).transfers, [f64::INFINITY]);
        assert_eq!(shares(&lines, &[over(&[], Some(7.0))]).transfers, [7.0]);
    }

    /// The same, looking at everything at each step: where all that grow are when a line is full, and what each asks
    /// for.
    fn plainly(lines: &[Capacity], transfers: &[Transfer], demand: impl Fn(&Capacity) -> f64) -> Vec<f64> {
        let most = |who: usize| transfers[who].most_octets_per_s.unwrap_or(f64::INFINITY);
        let on = |line: usize| (0..transfers.len()).filter(move |who| transfers[*who].lines.contains(&line));
        let crossed: Vec<usize> = (0..lines.len()).filter(|line| on(*line).count() > 0).collect();
        let (mut found, mut packets) = (vec![None; transfers.len()], vec![None; lines.len()]);
        while found.contains(&None) {
            let level = |line: usize| {
                let has = on(line).map(|who| found[who]).chain([packets[line]]);
                let growing = has.clone().filter(Option::is_none).count();
                let taken: f64 = has.flatten().sum();
                (growing > 0).then(|| ((lines[line].octets_per_s - taken).max(0.0) / growing as f64, line))
            };
            let full = crossed.iter().filter_map(|line| level(*line)).min_by(|a, b| a.0.total_cmp(&b.0));
            let grow = (0..transfers.len()).filter(|who| found[*who].is_none()).map(most);
            let ask =
                crossed.iter().filter(|line| packets[**line].is_none()).map(|line| demand(&lines[*line]));
            let content = grow.chain(ask).fold(f64::INFINITY, f64::min);
            match full {
                Some((level, line)) if level < content => {
                    packets[line].get_or_insert(level);
                    for who in on(line) {
                        found[who].get_or_insert(level);
                    }
                }
                _ => {
                    for line in crossed.iter().filter(|line| demand(&lines[**line]) <= content) {
                        packets[*line].get_or_insert(content);
                    }
                    for who in (0..transfers.len()).filter(|who| most(*who) <= content) {
                        found[who].get_or_insert(content);
                    }
                }
            }
        }
        found.into_iter().map(Option::unwrap_or_default).collect()
    }

    fn some() -> impl Strategy<Value = (Vec<Capacity>, Vec<Transfer>)> {
        let octets = prop::sample::select(vec![100.0, 125.0, 1e3 / 3.0, 1000.0]);
        let demand = prop_oneof![Just(0.0), 0.0f64..1000.0, prop::sample::select(vec![7.0, 20.0])];
        let lines = prop::collection::vec((octets, demand), 1..7);
        let way = prop::collection::btree_set(0usize..7, 0..4);
        let most = prop::option::of(prop::sample::select(vec![5.0, 50.0, 1000.0]));
        (lines, prop::collection::vec((way, most), 0..9)).prop_map(|(lines, ways)| {
            let lines: Vec<Capacity> =
                lines.into_iter().map(|(octets, demand)| line(octets, demand)).collect();
            let transfer = |(way, most): (std::collections::BTreeSet<usize>, _)| {
                let way: std::collections::BTreeSet<usize> =
                    way.iter().map(|place| place % lines.len()).collect();
                over(&way.into_iter().collect::<Vec<_>>(), most)
            };
            let transfers = ways.into_iter().map(transfer).collect();
            (lines, transfers)
        })
    }

    proptest! {
        #[test]
        fn shares_are_those_of_a_look_at_everything_to_the_bit(worlds in prop::collection::vec(some(), 1..4)) {
            let mut sharing = Sharing::default();
            for (lines, transfers) in worlds {
                let found = sharing.of(&lines, &transfers);
                let average = plainly(&lines, &transfers, |line| line.asked_octets_per_s);
                let instant = plainly(&lines, &transfers, |_| f64::INFINITY);
                let bits = |all: &[f64]| all.iter().map(|share| share.to_bits()).collect::<Vec<_>>();
                prop_assert_eq!(bits(&found.transfers), bits(&average));
                for (place, line) in lines.iter().enumerate() {
                    let on = transfers.iter().zip(&instant).filter(|(one, _)| one.lines.contains(&place));
                    let packets = (line.octets_per_s - on.map(|(_, share)| share).sum::<f64>()).max(0.0);
                    prop_assert_eq!(found.packets[place].to_bits(), packets.to_bits());
                }
            }
        }

        /// No line carries more than it can; each transfer has its limit, or a full line on which no other has more.
        #[test]
        fn shares_are_max_min(
            lines in prop::collection::vec((1.0f64..1000.0, 0.0f64..1000.0), 1..5),
            ways in prop::collection::vec((prop::collection::btree_set(0usize..5, 1..4), prop::option::of(1.0f64..500.0)), 1..6),
        ) {
            let lines: Vec<Capacity> = lines.into_iter().map(|(octets, demand)| line(octets, demand)).collect();
            let transfers: Vec<Transfer> = ways
                .into_iter()
                .map(|(way, most)| {
                    let way: std::collections::BTreeSet<usize> = way.iter().map(|place| place % lines.len()).collect();
                    over(&way.into_iter().collect::<Vec<_>>(), most)
                })
                .collect();
            let found = shares(&lines, &transfers);
            let on = |place: usize| {
                transfers.iter().zip(&found.transfers).filter(move |(each, _)| each.lines.contains(&place))
            };
            for (place, line) in lines.iter().enumerate() {
                prop_assert!(on(place).map(|(_, share)| share).sum::<f64>() <= line.octets_per_s * (1.0 + 1e-9));
                prop_assert!(found.packets[place] >= 0.0);
            }
            for (transfer, share) in transfers.iter().zip(&found.transfers) {
                let limited = transfer.most_octets_per_s.is_some_and(|most| (share - most).abs() < 1e-6);
                let bottleneck = transfer.lines.iter().any(|place| {
                    let all: f64 = on(*place).map(|(_, share)| share).sum();
                    let packets = lines[*place].asked_octets_per_s.min(*share);
                    let full = all + packets >= lines[*place].octets_per_s * (1.0 - 1e-9);
                    full && on(*place).all(|(_, other)| *other <= share * (1.0 + 1e-9))
                });
                prop_assert!(limited || bottleneck);
            }
        }
    }
}
