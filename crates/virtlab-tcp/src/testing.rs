//! Two connections over a pipe of a rate, a delay and a queue, with losses, duplicates and reordering as a test wants.

use crate::{Connection, Options, Segment};
use std::collections::BTreeMap;
use virtlab_load::random::Stream;

/// What happens to packets on their way.
#[derive(Clone, Copy, Debug)]
pub struct Pipe {
    pub rate_bit_per_s: u64,
    /// One way.
    pub delay_ns: u64,
    pub limit_packets: usize,
    pub loss: f64,
    pub duplication: f64,
    pub reordering: f64,
    /// Marks instead of dropping from this queue length on, for packets that can be marked.
    pub mark_above: usize,
    pub seed: u64,
}

impl Default for Pipe {
    fn default() -> Self {
        Self {
            rate_bit_per_s: 100_000_000,
            delay_ns: 100_000,
            limit_packets: 100,
            loss: 0.0,
            duplication: 0.0,
            reordering: 0.0,
            mark_above: usize::MAX,
            seed: 1,
        }
    }
}

/// A flow from end 0 to end 1.
pub struct Trial {
    pub ends: [Connection; 2],
    pub now_ns: u64,
    pub events: u64,
    pub drops: u64,
    pub marks: u64,
    pub windows: Vec<(u64, u32)>,
    pipe: Pipe,
    random: Stream,
    busy_ns: [u64; 2],
    coming: BTreeMap<(u64, u64), (usize, Segment, bool)>,
    number: u64,
    written: u64,
    /// Fate of data packets by number of sending, for tests that lose particular ones.
    pub lose: Vec<u64>,
    /// Payload of the longest segment sent, until a test forgets it.
    pub longest_bytes: u32,
    data_sent: u64,
}

impl Trial {
    pub fn new(options: [Options; 2], pipe: Pipe) -> Self {
        Self {
            ends: [Connection::closed(options[0]), Connection::listening(options[1])],
            now_ns: 0,
            events: 0,
            drops: 0,
            marks: 0,
            windows: Vec::new(),
            random: Stream::new(pipe.seed, "pipe"),
            pipe,
            busy_ns: [0; 2],
            coming: BTreeMap::new(),
            number: 0,
            written: 0,
            lose: Vec::new(),
            longest_bytes: 0,
            data_sent: 0,
        }
    }

    fn send(&mut self, from: usize, segment: Segment) {
        let data = segment.bytes > 0;
        self.data_sent += u64::from(data);
        self.longest_bytes = self.longest_bytes.max(segment.bytes);
        if data && self.lose.contains(&self.data_sent) {
            self.drops += 1;
            return;
        }
        let wire = u64::from(segment.length_bytes()) + 58;
        let time_ns = wire * 8 * 1_000_000_000 / self.pipe.rate_bit_per_s;
        let full_ns = 1538 * 8 * 1_000_000_000 / self.pipe.rate_bit_per_s;
        let queued = (self.busy_ns[from].saturating_sub(self.now_ns) / full_ns.max(1)) as usize;
        if queued > self.pipe.limit_packets || self.random.uniform() < self.pipe.loss {
            self.drops += 1;
            return;
        }
        let marked = segment.markable && queued >= self.pipe.mark_above;
        self.marks += u64::from(marked);
        self.busy_ns[from] = self.busy_ns[from].max(self.now_ns) + time_ns;
        let mut at = self.busy_ns[from] + self.pipe.delay_ns;
        if self.random.uniform() < self.pipe.reordering {
            at += self.random.below(5 * full_ns + 1);
        }
        let copies = 1 + u32::from(self.random.uniform() < self.pipe.duplication);
        for _ in 0..copies {
            self.number += 1;
            self.coming.insert((at, self.number), (1 - from, segment, marked));
        }
    }

    fn pump(&mut self, bytes: u64) {
        for end in [0, 1] {
            if end == 0 {
                let room = self.ends[0].room_bytes().min(bytes - self.written);
                self.ends[0].write(room);
                self.written += room;
            }
            while let Some(segment) = self.ends[end].transmit(true, self.now_ns) {
                self.send(end, segment);
            }
        }
        let window = self.ends[0].window_packets();
        if self.windows.last().is_none_or(|(_, last)| *last != window) {
            self.windows.push((self.now_ns, window));
        }
    }

    /// Sends so many bytes, for at most so long; true when all have come.
    pub fn run(&mut self, bytes: u64, limit_ns: u64) -> bool {
        if self.now_ns == 0 {
            self.ends[0].connect();
        }
        self.pump(bytes);
        while self.ends[1].received_bytes() < bytes {
            let timer = (0..2usize).filter_map(|end| Some((self.ends[end].next_ns()?, end))).min();
            let packet = self.coming.first_key_value().map(|(key, _)| key.0);
            let Some(at) = timer.map(|(at, _)| at).into_iter().chain(packet).min() else { return false };
            if at > limit_ns {
                self.now_ns = limit_ns;
                return false;
            }
            assert!(at >= self.now_ns, "time goes back");
            self.events += 1;
            self.now_ns = at;
            if packet == Some(at) {
                let (_, (end, segment, marked)) = self.coming.pop_first().unwrap();
                let before = self.ends[end].received_bytes();
                self.ends[end].take(&segment, marked, at);
                assert!(self.ends[end].received_bytes() >= before);
                assert!(self.ends[1].received_bytes() <= self.written, "more bytes than were written");
                assert!(self.ends[0].acknowledged_bytes() <= self.ends[1].received_bytes());
            } else if let Some((_, end)) = timer {
                self.ends[end].alarm(at);
            }
            self.pump(bytes);
        }
        true
    }
}
