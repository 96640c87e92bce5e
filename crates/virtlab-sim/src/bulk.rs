//! Bulk transfers as a fluid: each goes over some lines, and has its max-min fair share of them.
//!
//! No transfer can have more without one that has no more than it having less. What packets ask for is on each line one more
//! participant: on the average they have what they ask for, up to a fair share, and transfers have the rest. At any instant
//! packets find a line as fast as their share would be if they wanted all of it: a fluid of fair queueing, which
//! conserves work, so both hold at once.
//!
//! A TCP transfer of many segments arrives at such shares on its own (tests compare both). Deviation: packets do not wait behind
//! what a real transfer has queued in front of a line, because fair queueing serves each at its share.
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

/// Of each transfer its share, in octets a second, `f64::INFINITY` where nothing limits it; of each line what packets find.
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
    let crossing = Crossing::of(lines.len(), transfers);
    let average = filled(lines, transfers, &crossing, |line| line.asked_octets_per_s);
    let instant = filled(lines, transfers, &crossing, |_| f64::INFINITY);
    let packets = lines.iter().enumerate().map(|(place, line)| {
        let taken: f64 = crossing.on(place).iter().map(|who| instant[*who]).sum();
        (line.octets_per_s - taken).max(0.0)
    });
    Shares { packets: packets.collect(), transfers: average }
}

/// Which transfers cross each line, in their order.
struct Crossing {
    transfers: Vec<usize>,
    /// Where those of a line end; they begin where those of the line before it do.
    ends: Vec<usize>,
}

impl Crossing {
    fn of(lines: usize, transfers: &[Transfer]) -> Self {
        let mut ends = vec![0; lines];
        for line in transfers.iter().flat_map(|transfer| &transfer.lines) {
            ends[*line] += 1;
        }
        let mut before = 0;
        let mut next: Vec<usize> = Vec::with_capacity(lines);
        for end in &mut ends {
            next.push(before);
            before += *end;
            *end = before;
        }
        let mut own = Self { transfers: vec![0; before], ends };
        for (who, transfer) in transfers.iter().enumerate() {
            for line in &transfer.lines {
                own.transfers[next[*line]] = who;
                next[*line] += 1;
            }
        }
        own
    }

    fn on(&self, line: usize) -> &[usize] {
        let begins = line.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.transfers[begins..self.ends[line]]
    }
}

/// A line that transfers cross, while all grow.
struct Filling {
    line: usize,
    /// Packets of it are a participant on it alone, with what they ask for; what they have, once they do not grow.
    asked: f64,
    packets: Option<f64>,
    /// Who grows, packets included, and where they all are when the line is full.
    growing: usize,
    level: f64,
}

impl Filling {
    fn look(&mut self, lines: &[Capacity], crossing: &Crossing, found: &[Option<f64>]) {
        let held = crossing.on(self.line).iter().filter_map(|who| found[*who]);
        let taken: f64 = held.chain(self.packets).sum();
        self.level = (lines[self.line].octets_per_s - taken).max(0.0) / self.growing as f64;
    }
}

/// Progressive filling: all grow alike until one has what it asks for, or a line is full.
fn filled(
    lines: &[Capacity],
    transfers: &[Transfer],
    crossing: &Crossing,
    asked: impl Fn(&Capacity) -> f64,
) -> Vec<f64> {
    let most = |transfer: &Transfer| transfer.most_octets_per_s.unwrap_or(f64::INFINITY);
    let mut found: Vec<Option<f64>> = vec![None; transfers.len()];
    let crossed = (0..lines.len()).filter(|line| !crossing.on(*line).is_empty());
    let mut fillings: Vec<Filling> = crossed
        .map(|line| Filling {
            line,
            asked: asked(&lines[line]),
            packets: None,
            growing: crossing.on(line).len() + 1,
            level: 0.0,
        })
        .collect();
    let mut places = vec![usize::MAX; lines.len()];
    for (place, filling) in fillings.iter_mut().enumerate() {
        places[filling.line] = place;
        filling.look(lines, crossing, &found);
    }
    let mut open: Vec<usize> = (0..transfers.len()).collect();
    let mut changed = Vec::new();
    while !open.is_empty() {
        let full = fillings
            .iter()
            .enumerate()
            .filter(|(_, filling)| filling.growing > 0)
            .map(|(place, filling)| (filling.level, place))
            .min_by(|one, other| one.0.total_cmp(&other.0));
        let growing =
            fillings.iter().filter(|filling| filling.packets.is_none()).map(|filling| filling.asked);
        let content = open.iter().map(|who| most(&transfers[*who])).chain(growing);
        let content = content.min_by(f64::total_cmp).unwrap_or(f64::INFINITY);
        let mut settled = |filling: &mut Filling, share: f64| {
            filling.packets = Some(share);
            filling.growing -= 1;
            changed.push(places[filling.line]);
        };
        let (share, line) = match full {
            Some((level, place)) if level < content => {
                if fillings[place].packets.is_none() {
                    settled(&mut fillings[place], level);
                }
                (level, Some(fillings[place].line))
            }
            _ => {
                let grow = |filling: &&mut Filling| filling.packets.is_none() && filling.asked <= content;
                fillings.iter_mut().filter(grow).for_each(|filling| settled(filling, content));
                (content, None)
            }
        };
        let ends = |who: &usize| match line {
            Some(line) => transfers[*who].lines.contains(&line),
            None => most(&transfers[*who]) <= content,
        };
        for who in open.extract_if(.., |who| ends(who)) {
            found[who] = Some(share);
            for line in &transfers[who].lines {
                fillings[places[*line]].growing -= 1;
                changed.push(places[*line]);
            }
        }
        changed.sort_unstable();
        changed.dedup();
        for place in changed.drain(..) {
            fillings[place].look(lines, crossing, &found);
        }
    }
    found.into_iter().map(Option::unwrap_or_default).collect()
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

    proptest! {
        /// No line carries more than it can; each transfer has its limit, or a full line on which no other has more.
        #[test]
        fn shares_are_max_min(
            lines in prop::collection::vec((1.0f64..1000.0, 0.0f64..1000.0), 1..5),
            ways in prop::collection::vec((prop::collection::btree_set(0usize..5, 1..4), prop::option::of(1.0f64..500.0)), 1..6),
        ) {
            let lines: Vec<Capacity> = lines.into_iter().map(|(octets, asked)| line(octets, asked)).collect();
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
