//! Messages that are sent whole, without packets: which lines each crosses, when it has crossed them, and what lines
//! have carried.
//!
//! A line serves who comes first: it knows when it is free, and a message holds it for the octets that its frames would
//! have there. It passes to the next line as soon as one frame of it has come through, and is whole behind a line when
//! its last frame has. What is long goes in parts, between which those of others have their turn, as the windows of TCP
//! have it: the next part comes to each line as the one before leaves it, so a message never waits for itself, and
//! others in front of the slowest line of its way wait for one part of it.
//!
//! Lines are asked in the order in which messages come to them. Where a message waits in front of one for longer than
//! `AHEAD_NS`, the next is asked no sooner than it comes there; within that time two may be served in the other order.

use crate::transfers::Load;
use virtlab_fabric::LineId;

/// A message longer than that goes in parts.
const WHOLE_BYTES: u64 = 256 << 10;
/// Of which none is longer than that.
const PART_BYTES: u64 = 512 << 10;
/// By so much a line may be asked before a message comes to it.
pub const AHEAD_NS: u64 = 2_000;
const SECOND_NS: u128 = 1_000_000_000;
const BITS: u128 = 8;
/// Times of octets are in 2^-32 ns.
const FINE: u32 = 32;

/// The parts of a message, all of one length but the last: at least two of what is too long to go whole.
pub fn part_bytes(bytes: u64) -> u64 {
    if bytes <= WHOLE_BYTES {
        return bytes;
    }
    bytes.div_ceil(bytes.div_ceil(PART_BYTES).max(2))
}

/// What the queue in front of a line holds, and how long that takes: where more waits, packets would be lost.
#[derive(Debug)]
pub struct Limit {
    octets: Option<u64>,
    ns: u64,
    /// Frames of messages that came when more waited.
    pub over: u64,
}

/// What a message crosses: a direction of a link, or a vNIC that lets less through. What every message touches comes
/// first: it lies in one line of the processor's cache.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Line {
    /// In 2^-32 ns. Of a line below 2 bit/s it is as much as a number can be.
    octet: u64,
    free_ns: u64,
    /// The burst of a bucket: so much passes it without delay.
    burst_ns: u64,
    /// To what is behind it.
    delay_ns: u64,
    /// What it was given until now, and for how long that holds it.
    given: Load,
    given_ns: u64,
    /// Whether a frame takes its time to be whole behind it; behind a vNIC it is so at once.
    stores: bool,
    pub limit: Limit,
    /// What of that was told.
    passed: Load,
    told_ns: u64,
    /// Of a link.
    pub of: Option<(LineId, String)>,
    /// Queues that guests share in front of it.
    pub gates: Vec<usize>,
}

impl Line {
    /// A direction of a link.
    pub fn of_link(id: LineId, link: &str, rate_bit_per_s: u64, delay_ns: u64, gates: Vec<usize>) -> Self {
        let of = Some((id, link.to_owned()));
        Self { delay_ns, stores: true, of, gates, ..Self::of_vnic(rate_bit_per_s, 0) }
    }

    /// A vNIC, which lets so much through at once.
    pub fn of_vnic(rate_bit_per_s: u64, burst_ns: u64) -> Self {
        Self {
            octet: octet(rate_bit_per_s),
            free_ns: 0,
            burst_ns,
            delay_ns: 0,
            given: Load::default(),
            given_ns: 0,
            stores: false,
            limit: Limit { octets: None, ns: u64::MAX, over: 0 },
            passed: Load::default(),
            told_ns: 0,
            of: None,
            gates: Vec::new(),
        }
    }

    /// In front of it is a queue that holds so many octets.
    pub fn bound(&mut self, octets: u64) {
        self.limit.octets = Some(octets);
        self.limit.ns = self.holds_ns(octets);
    }

    /// Something has waited for it for so long. What waits at its sender is in sockets, which are not meant here.
    #[inline]
    fn note_wait(&mut self, waits_ns: u64, load: Load) {
        if waits_ns > self.limit.ns {
            self.limit.over += load.frames;
        }
    }

    #[inline]
    fn holds_ns(&self, octets: u64) -> u64 {
        ((u128::from(octets) * u128::from(self.octet)) >> FINE) as u64
    }

    /// It is given something that comes at an instant; when it begins with that, and for how long that holds it.
    #[inline]
    fn take(&mut self, head_ns: u64, load: Load, octets: u64) -> (u64, u64) {
        let holds_ns = self.holds_ns(octets);
        self.given.frames += load.frames;
        self.given.bytes += load.bytes;
        self.given_ns += holds_ns;
        let start_ns = head_ns.max(self.free_ns);
        self.free_ns = self.free_ns.max(start_ns.saturating_sub(self.burst_ns)) + holds_ns;
        (start_ns, holds_ns)
    }

    /// What it has carried since it was asked last, and for how long. What has yet to leave it is not carried: of that
    /// the time is known, and of frames the part that time has of all.
    fn tell(&mut self, now_ns: u64) -> (Load, u64) {
        let left_ns = self.free_ns.saturating_sub(now_ns).min(self.given_ns);
        let carried_ns = self.given_ns - left_ns;
        let part =
            |of: u64| (u128::from(of) * u128::from(carried_ns) / u128::from(self.given_ns.max(1))) as u64;
        let carried = if left_ns == 0 {
            self.given
        } else {
            Load { frames: part(self.given.frames), bytes: part(self.given.bytes) }
        };
        let new = Load {
            frames: carried.frames.saturating_sub(self.passed.frames),
            bytes: carried.bytes.saturating_sub(self.passed.bytes),
        };
        let new_ns = carried_ns.saturating_sub(self.told_ns);
        self.passed.frames += new.frames;
        self.passed.bytes += new.bytes;
        self.told_ns += new_ns;
        (new, new_ns)
    }
}

fn octet(rate_bit_per_s: u64) -> u64 {
    u64::try_from(((BITS * SECOND_NS) << FINE) / u128::from(rate_bit_per_s.max(1))).unwrap_or(u64::MAX)
}

/// What messages from one peer to another are made of.
#[derive(Clone, Copy, Debug)]
pub struct Frames {
    /// Content of a full segment of TCP, and heads of its frame.
    pub segment_bytes: u64,
    pub segment_heads_bytes: u64,
    /// Content of a full fragment of a datagram, heads of its frame, and heads of the datagram.
    pub fragment_bytes: u64,
    pub fragment_heads_bytes: u64,
    pub datagram_heads_bytes: u64,
}

impl Frames {
    /// So many octets of a connection.
    pub fn stream(&self, bytes: u64) -> Load {
        let frames = pieces(bytes, self.segment_bytes);
        Load { frames, bytes: bytes + frames * self.segment_heads_bytes }
    }

    /// A datagram.
    pub fn datagram(&self, bytes: u64) -> Load {
        let bytes = bytes + self.datagram_heads_bytes;
        let frames = pieces(bytes, self.fragment_bytes);
        Load { frames, bytes: bytes + frames * self.fragment_heads_bytes }
    }
}

/// So many pieces of a length are octets, at least one. Most messages are one, which takes no division.
#[inline]
fn pieces(bytes: u64, of_bytes: u64) -> u64 {
    if bytes <= of_bytes { 1 } else { bytes.div_ceil(of_bytes) }
}

/// From one vNIC to another.
#[derive(Debug)]
pub struct Way {
    pub lines: Vec<usize>,
    pub nics: [usize; 2],
    pub frames: Frames,
}

/// A line that what one peer says to all crosses, and what is behind it.
#[derive(Debug, Default)]
pub struct Branch {
    pub line: usize,
    /// Branches, and who hears, with the vNIC.
    pub next: Vec<usize>,
    pub hear: Vec<(usize, usize)>,
}

/// Where what one peer says to all goes.
#[derive(Debug)]
pub struct Flood {
    pub branches: Vec<Branch>,
    /// Branches that begin at the peer.
    pub roots: Vec<usize>,
    /// Who hears without a line between.
    pub neighbours: Vec<(usize, usize)>,
    pub nic: usize,
    pub frames: Frames,
}

/// To whom comes what was said to all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whom {
    /// To a branch.
    Branch(usize),
    /// To a peer, with that vNIC.
    Peer(usize, usize),
}

/// That it comes there, and when: one number, since all of that is put in order. Earlier is less, and at one
/// instant branches are less than peers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Arrival(u128);

impl Arrival {
    const OF_PEERS: u64 = 1 << 63;
    const PEER_AT: u32 = 32;

    /// At an instant.
    #[inline]
    pub fn new(at_ns: u64, whom: Whom) -> Self {
        let rank = match whom {
            Whom::Branch(branch) => branch as u64,
            Whom::Peer(peer, nic) => Self::OF_PEERS | (peer as u64) << Self::PEER_AT | nic as u64,
        };
        Self(u128::from(at_ns) << u64::BITS | u128::from(rank))
    }

    /// When.
    #[inline]
    pub fn at_ns(self) -> u64 {
        (self.0 >> u64::BITS) as u64
    }

    /// To whom.
    #[inline]
    pub fn whom(self) -> Whom {
        let rank = self.0 as u64;
        if rank & Self::OF_PEERS == 0 {
            return Whom::Branch(rank as usize);
        }
        let [peer, nic] = [(rank & !Self::OF_PEERS) >> Self::PEER_AT, rank & u64::from(u32::MAX)];
        Whom::Peer(peer as usize, nic as usize)
    }
}

/// The last first: so the next is at the end.
pub fn put_in_order(arrivals: &mut [Arrival]) {
    arrivals.sort_unstable_by(|one, other| other.cmp(one));
}

/// How far a message is, or a part of one.
#[derive(Clone, Copy, Debug)]
pub struct Passage {
    load: Load,
    frame_octets: u64,
    /// Of the lines of its way, those that it was given to.
    place: usize,
    /// When it comes to the next, and when all of it is behind the one before.
    head_ns: u64,
    tail_ns: u64,
    /// How long it takes to the next line where nothing waits.
    idle_ns: u64,
    /// When the next part may go.
    clear_ns: u64,
}

impl Passage {
    /// What is sent now.
    pub fn of(load: Load, now_ns: u64) -> Self {
        Self {
            load,
            frame_octets: if load.frames == 1 {
                load.octets()
            } else {
                load.octets().div_ceil(load.frames.max(1))
            },
            place: 0,
            head_ns: now_ns,
            tail_ns: now_ns,
            idle_ns: 0,
            clear_ns: now_ns,
        }
    }

    /// Whether no line was given it.
    pub fn is_new(&self) -> bool {
        self.place == 0
    }

    /// Whether all lines of its way were.
    pub fn is_over(&self, way: &Way) -> bool {
        self.place == way.lines.len()
    }

    /// Its frames.
    pub fn load(&self) -> Load {
        self.load
    }

    /// When the part behind it may go, once it is known when this one comes.
    pub fn clear_ns(&self) -> u64 {
        self.clear_ns
    }
}

/// What is next for a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// It comes to its next line then.
    Crosses(u64),
    /// It is whole at its end then.
    Comes(u64),
}

/// All lines of a world that messages cross.
#[derive(Debug, Default)]
pub struct Post {
    pub lines: Vec<Line>,
    paths: Vec<Way>,
    floods: Vec<Flood>,
    /// vNICs that are lines, each with its place.
    vnics: Vec<(usize, usize)>,
    waiting: Vec<(usize, u64)>,
}

impl Post {
    /// The place of a direction of a link, if it is known.
    pub fn line(&self, id: LineId) -> Option<usize> {
        self.lines.iter().position(|line| line.of.as_ref().is_some_and(|(own, _)| *own == id))
    }

    /// The place of a vNIC that lets less through than what is behind it.
    pub fn line_of_vnic(&mut self, nic: usize, rate_bit_per_s: u64, burst_ns: u64) -> usize {
        if let Some((_, place)) = self.vnics.iter().find(|(own, _)| *own == nic) {
            return *place;
        }
        let place = self.add_line(Line::of_vnic(rate_bit_per_s, burst_ns));
        self.vnics.push((nic, place));
        place
    }

    /// One more line; its place.
    pub fn add_line(&mut self, line: Line) -> usize {
        self.lines.push(line);
        self.lines.len() - 1
    }

    /// One more way; its place.
    pub fn add_way(&mut self, way: Way) -> usize {
        self.paths.push(way);
        self.paths.len() - 1
    }

    /// One more flood; its place.
    pub fn add_flood(&mut self, flood: Flood) -> usize {
        self.floods.push(flood);
        self.floods.len() - 1
    }

    /// A way.
    #[inline]
    pub fn way(&self, place: usize) -> &Way {
        &self.paths[place]
    }

    /// A flood.
    pub fn flood(&self, place: usize) -> &Flood {
        &self.floods[place]
    }

    /// Both directions of a link have another rate. When what they were given before comes stays as it was found; they
    /// are free once they have carried the rest of it at the new rate.
    pub fn set_rate(&mut self, now_ns: u64, link: &str, rate_bit_per_s: u64) {
        let of_link = |line: &&mut Line| line.of.as_ref().is_some_and(|(_, own)| own == link);
        for line in self.lines.iter_mut().filter(of_link) {
            let (before, left_ns) = (line.octet, line.free_ns.saturating_sub(now_ns));
            line.octet = octet(rate_bit_per_s);
            line.limit.octets.into_iter().for_each(|octets| line.bound(octets));
            let longer_ns = (u128::from(left_ns) * u128::from(line.octet) / u128::from(before.max(1))) as u64;
            line.free_ns = line.free_ns - left_ns + longer_ns;
            line.given_ns = line.given_ns - left_ns.min(line.given_ns) + longer_ns;
        }
    }

    /// A message continues over lines that it comes to by now, or soon.
    #[inline]
    pub fn go(&mut self, now_ns: u64, way: usize, passage: &mut Passage) -> Step {
        let (way, octets) = (&self.paths[way], passage.load.octets());
        while let Some(&place) = way.lines.get(passage.place) {
            if passage.head_ns > now_ns + AHEAD_NS {
                return Step::Crosses(passage.head_ns);
            }
            let line = &mut self.lines[place];
            let (start_ns, holds_ns) = line.take(passage.head_ns, passage.load, octets);
            if passage.place > 0 {
                line.note_wait(start_ns - passage.head_ns, passage.load);
            }
            // A frame alone takes so long to be whole behind it.
            let frame_ns = match line.stores {
                true if passage.load.frames == 1 => holds_ns,
                true => line.holds_ns(passage.frame_octets),
                false => 0,
            };
            passage.clear_ns = passage.clear_ns.max(line.free_ns.saturating_sub(passage.idle_ns));
            passage.tail_ns = start_ns.max(line.free_ns).max(passage.tail_ns + frame_ns) + line.delay_ns;
            passage.head_ns = start_ns + frame_ns + line.delay_ns;
            passage.idle_ns += frame_ns + line.delay_ns;
            passage.place += 1;
        }
        Step::Comes(passage.tail_ns)
    }

    /// As [`Post::go`], from the beginning, of what nothing waits behind. Most of that is a frame.
    #[inline]
    pub fn go_alone(&mut self, now_ns: u64, way: usize, load: Load) -> (Passage, Step) {
        let mut passage = Passage::of(load, now_ns);
        if load.frames > 1 {
            let step = self.go(now_ns, way, &mut passage);
            return (passage, step);
        }
        let (octets, mut head_ns, mut tail_ns) = (load.octets(), now_ns, now_ns);
        for (gone, place) in self.paths[way].lines.iter().enumerate() {
            if head_ns > now_ns + AHEAD_NS {
                (passage.place, passage.head_ns, passage.tail_ns) = (gone, head_ns, tail_ns);
                return (passage, Step::Crosses(head_ns));
            }
            let line = &mut self.lines[*place];
            let (start_ns, holds_ns) = line.take(head_ns, load, octets);
            if gone > 0 {
                line.note_wait(start_ns - head_ns, load);
            }
            let frame_ns = if line.stores { holds_ns } else { 0 };
            tail_ns = start_ns.max(line.free_ns).max(tail_ns + frame_ns) + line.delay_ns;
            head_ns = start_ns + frame_ns + line.delay_ns;
        }
        (passage, Step::Comes(tail_ns))
    }

    /// What one peer says to all goes, from the beginning or from a branch, over lines that it comes to by now, or
    /// soon. What comes of it is put behind what is there.
    pub fn spread(
        &mut self,
        now_ns: u64,
        flood: usize,
        from: Option<usize>,
        load: Load,
        arrivals: &mut Vec<Arrival>,
    ) {
        let (Self { lines, floods, waiting, .. }, octets) = (self, load.octets());
        let flood = &floods[flood];
        match from {
            Some(branch) => waiting.push((branch, now_ns)),
            None => {
                waiting.extend(flood.roots.iter().map(|root| (*root, now_ns)));
                let hear = |(peer, nic): &(usize, usize)| Arrival::new(now_ns, Whom::Peer(*peer, *nic));
                arrivals.extend(flood.neighbours.iter().map(hear));
                arrivals.reserve(flood.branches.len());
            }
        }
        while let Some((place, head_ns)) = waiting.pop() {
            if head_ns > now_ns + AHEAD_NS {
                arrivals.push(Arrival::new(head_ns, Whom::Branch(place)));
                continue;
            }
            let branch = &flood.branches[place];
            let line = &mut lines[branch.line];
            let (start_ns, holds_ns) = line.take(head_ns, load, octets);
            if from.is_some() || head_ns > now_ns {
                line.note_wait(start_ns - head_ns, load);
            }
            // A question is a frame, or hardly more.
            let behind_ns = start_ns + holds_ns + line.delay_ns;
            for &(peer, nic) in &branch.hear {
                arrivals.push(Arrival::new(behind_ns, Whom::Peer(peer, nic)));
            }
            for next in &branch.next {
                waiting.push((*next, behind_ns));
            }
        }
    }

    /// Of each line what it has carried since it was asked last, and for how long.
    pub fn tell(&mut self, now_ns: u64) -> impl Iterator<Item = (&Line, Load, u64)> {
        self.lines.iter_mut().map(move |line| {
            let (load, busy_ns) = line.tell(now_ns);
            (&*line, load, busy_ns)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use virtlab_fabric::Fabric;

    const GIGABIT: u64 = 1_000_000_000;
    const DELAY_NS: u64 = 100;
    const FRAMES: Frames = Frames {
        segment_bytes: 1448,
        segment_heads_bytes: 66,
        fragment_bytes: 1480,
        fragment_heads_bytes: 34,
        datagram_heads_bytes: 8,
    };

    /// Lines of such rates, one behind the other, each with a delay to what is behind it.
    fn world(rates: &[u64]) -> Post {
        let links: serde_json::Map<String, serde_json::Value> = (0..rates.len())
            .map(|at| {
                let ends = [format!("p{at}"), format!("s.{at}")];
                (format!("l{at}"), serde_json::json!({"ends": ends, "rate_bit_per_s": rates[at]}))
            })
            .collect();
        let ports: Vec<String> = (0..rates.len()).map(|at| format!("p{at}")).collect();
        let layout = serde_json::json!({"ports": ports, "switches": {"s": {}}, "links": links});
        let fabric: Fabric<()> = Fabric::new(&serde_json::from_value(layout).unwrap()).unwrap();
        let mut post = Post::default();
        for (at, rate) in rates.iter().enumerate() {
            let link = format!("l{at}");
            post.add_line(Line::of_link(
                fabric.line(&link, "ab").unwrap(),
                &link,
                *rate,
                DELAY_NS,
                Vec::new(),
            ));
        }
        post.add_way(Way { lines: (0..rates.len()).collect(), nics: [0, 1], frames: FRAMES });
        post
    }

    fn sent(post: &mut Post, at_ns: u64, bytes: u64) -> u64 {
        let mut passage = Passage::of(FRAMES.stream(bytes), at_ns);
        let mut now_ns = at_ns;
        loop {
            match post.go(now_ns, 0, &mut passage) {
                Step::Crosses(next_ns) => now_ns = next_ns,
                Step::Comes(comes_ns) => return comes_ns,
            }
        }
    }

    #[test]
    fn a_frame_crosses_each_line_whole_and_many_follow_each_other() {
        let mut post = world(&[GIGABIT; 2]);
        let full = 1538 * 8;
        assert_eq!(sent(&mut post, 0, 1448), 2 * full + 2 * DELAY_NS);
        // Ten frames are behind the first line after ten, and one of them has the second to cross.
        assert_eq!(sent(&mut post, 1_000_000, 14_480), 1_000_000 + 11 * full + 2 * DELAY_NS);
    }

    #[test]
    fn what_comes_first_is_served_first() {
        let mut post = world(&[GIGABIT]);
        let each = 10 * 1538 * 8;
        let come: Vec<u64> = (0..3).map(|_| sent(&mut post, 0, 14_480)).collect();
        assert_eq!(come, [each + DELAY_NS, 2 * each + DELAY_NS, 3 * each + DELAY_NS]);
    }

    #[test]
    fn a_fast_line_behind_a_slow_one_is_free_for_others_meanwhile() {
        let mut post = world(&[GIGABIT, 10 * GIGABIT]);
        post.add_way(Way { lines: vec![1], nics: [2, 1], frames: FRAMES });
        let full = 1538 * 8;
        assert!(sent(&mut post, 0, 144_800).abs_diff(100 * full + full / 10 + 2 * DELAY_NS) < 10);
        let mut other = Passage::of(FRAMES.stream(1448), 500_000);
        assert_eq!(post.go(500_000, 1, &mut other), Step::Comes(500_000 + full / 10 + DELAY_NS));
    }

    #[test]
    fn a_line_is_not_asked_before_a_message_that_waits_comes_to_it() {
        let mut post = world(&[GIGABIT; 2]);
        sent(&mut post, 0, 144_800);
        let mut behind = Passage::of(FRAMES.stream(1448), 0);
        let full = 1538 * 8;
        assert_eq!(post.go(0, 0, &mut behind), Step::Crosses(101 * full + DELAY_NS));
        assert_eq!(post.go(101 * full + DELAY_NS, 0, &mut behind), Step::Comes(102 * full + 2 * DELAY_NS));
    }

    #[test]
    fn the_next_part_comes_to_the_slowest_line_as_the_one_before_leaves_it() {
        let mut post = world(&[10 * GIGABIT, GIGABIT]);
        let full = 1538 * 8;
        let mut first = Passage::of(FRAMES.stream(144_800), 0);
        assert!(matches!(post.go(0, 0, &mut first), Step::Comes(_)));
        let mut next = Passage::of(FRAMES.stream(144_800), first.clear_ns());
        let Step::Comes(comes_ns) = post.go(first.clear_ns(), 0, &mut next) else { panic!("{next:?}") };
        assert!(comes_ns.abs_diff(200 * full + full / 10 + 2 * DELAY_NS) < 10, "{comes_ns}");
    }

    #[test]
    fn what_comes_when_a_queue_would_be_full_is_counted_but_not_at_its_sender() {
        let mut post = world(&[10 * GIGABIT, GIGABIT]);
        post.lines.iter_mut().for_each(|line| line.bound(150 * 1538));
        for _ in 0..4 {
            let mut passage = Passage::of(FRAMES.stream(144_800), 0);
            while let Step::Crosses(at_ns) = post.go(passage.head_ns, 0, &mut passage) {
                assert!(at_ns > 0);
            }
        }
        // They come to the second line in a tenth of the time that it takes for them: 90, 180 and 270 frames wait.
        assert_eq!([post.lines[0].limit.over, post.lines[1].limit.over], [0, 200]);
    }

    #[test]
    fn what_waits_for_a_line_that_is_slowed_holds_it_for_longer() {
        let mut post = world(&[GIGABIT]);
        let (full, each) = (1538 * 8, 100 * 1538 * 8);
        sent(&mut post, 0, 144_800);
        post.set_rate(each / 2, "l0", GIGABIT / 10);
        let free_ns = each / 2 + 10 * (each - each / 2);
        assert!(sent(&mut post, each / 2, 1448).abs_diff(free_ns + 10 * full + DELAY_NS) < 10);
        let told_ns: u64 = post.tell(u64::MAX).map(|(_, _, busy_ns)| busy_ns).sum();
        assert!(told_ns.abs_diff(free_ns + 10 * full) < 10, "{told_ns}");
    }

    #[test]
    fn all_hear_what_is_said_to_all_and_it_crosses_each_line_once() {
        let mut post = world(&[GIGABIT; 4]);
        let branch = |line, next, hear| Branch { line, next, hear };
        let branches = vec![
            branch(0, vec![1, 2], vec![]),
            branch(1, vec![], vec![(1, 11)]),
            branch(2, vec![], vec![(2, 12)]),
        ];
        post.add_flood(Flood {
            branches,
            roots: vec![0],
            neighbours: vec![(3, 13)],
            nic: 10,
            frames: FRAMES,
        });
        let load = FRAMES.datagram(64);
        assert_eq!(load, Load { frames: 1, bytes: 106 });
        let (frame, mut found) = (130 * 8, Vec::new());
        post.spread(0, 0, None, load, &mut found);
        found.sort_unstable();
        let both = 2 * frame + 2 * DELAY_NS;
        let hear = [(0, 3, 13), (both, 1, 11), (both, 2, 12)];
        assert_eq!(found, hear.map(|(at_ns, peer, nic)| Arrival::new(at_ns, Whom::Peer(peer, nic))));
        let frames: Vec<u64> = post.tell(1_000_000).map(|(_, load, _)| load.frames).collect();
        assert_eq!(frames, [1, 1, 1, 0]);
        // What waits in front of the first line comes to the branches behind it later.
        sent(&mut post, 2_000_000, 144_800);
        found.clear();
        post.spread(2_000_000, 0, None, load, &mut found);
        assert!(
            found.iter().any(|next| next.at_ns() > 3_200_000 && next.whom() == Whom::Branch(1)),
            "{found:?}"
        );
    }

    proptest! {
        #[test]
        fn what_nothing_waits_behind_goes_as_all_else_does(
            rates in prop::collection::vec(1u64..40, 1..4),
            bursts in prop::bool::ANY,
            steps in prop::collection::vec((0u64..30_000, 1u64..4000), 1..60),
        ) {
            let rates: Vec<u64> = rates.iter().map(|rate| rate * GIGABIT / 4).collect();
            let worlds = || {
                let mut post = world(&rates);
                let lines = (0..rates.len()).collect::<Vec<_>>();
                let nic = if bursts { vec![post.line_of_vnic(0, GIGABIT / 8, 20_000)] } else { Vec::new() };
                let way = post.add_way(Way { lines: [nic, lines].concat(), nics: [0, 1], frames: FRAMES });
                (post, way)
            };
            let ((mut post, way), (mut other, _)) = (worlds(), worlds());
            let mut now_ns = 0;
            for (later_ns, bytes) in steps {
                now_ns += later_ns;
                let load = FRAMES.datagram(bytes);
                let mut passage = Passage::of(load, now_ns);
                let step = post.go(now_ns, way, &mut passage);
                let (mut alone, other_step) = other.go_alone(now_ns, way, load);
                prop_assert_eq!(other_step, step);
                if let Step::Crosses(at_ns) = step {
                    let steps = (post.go(at_ns, way, &mut passage), other.go(at_ns, way, &mut alone));
                    prop_assert_eq!(steps.0, steps.1);
                }
            }
            for (one, other) in post.lines.iter().zip(&other.lines) {
                prop_assert_eq!(
                    (one.free_ns, one.given, one.given_ns, one.limit.over),
                    (other.free_ns, other.given, other.given_ns, other.limit.over)
                );
            }
        }

        #[test]
        fn what_is_told_of_a_line_is_all_that_it_was_given_and_never_more(
            steps in prop::collection::vec((0u64..3_000_000, 1u64..200_000), 1..60),
        ) {
            let mut post = world(&[GIGABIT]);
            let (mut now_ns, mut told, mut told_ns, mut given) = (0, Load::default(), 0, Load::default());
            for (later_ns, bytes) in steps {
                now_ns += later_ns;
                sent(&mut post, now_ns, bytes);
                let load = FRAMES.stream(bytes);
                (given.frames, given.bytes) = (given.frames + load.frames, given.bytes + load.bytes);
                for (_, load, busy_ns) in post.tell(now_ns) {
                    (told.frames, told.bytes) = (told.frames + load.frames, told.bytes + load.bytes);
                    told_ns += busy_ns;
                }
                prop_assert!(told.frames <= given.frames && told.bytes <= given.bytes && told_ns <= now_ns);
            }
            for (_, load, _) in post.tell(u64::MAX) {
                (told.frames, told.bytes) = (told.frames + load.frames, told.bytes + load.bytes);
            }
            prop_assert_eq!(told, given);
        }
    }
}
