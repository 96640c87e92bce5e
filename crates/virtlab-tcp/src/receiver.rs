//! The receiving side: bytes into order, SACK blocks, when to acknowledge, and how much to take.
//!
//! Blocks: RFC 2018, the one with the newest segment first; a duplicate's first of all (RFC 2883). Acknowledgements:
//! RFC 5681 4.2, at the second full segment, at once out of order or when a gap closes, else after 40 ms, Linux's
//! least. Linux acknowledges the first 16 segments at once, and after each pause longer than that; an end that answers
//! (a reply within 40 ms) stops doing so. The window begins at 64 KiB and grows to twice of what the application read
//! in a round trip (Linux's dynamic right-sizing). The application reads at once.

use crate::options::{Buffer, Options};
use crate::ranges::Ranges;
use crate::segment::{SACK_BLOCKS, Segment};

/// Longest wait for a second segment.
pub const DELAY_NS: u64 = 40_000_000;
/// Acknowledged at once at the start.
const QUICK: u32 = 16;
/// Linux's first window: half of tcp_rmem's default of 128 KiB.
const FIRST_WINDOW_BYTES: u64 = 65_535;

/// The receiving side of a connection.
#[derive(Debug)]
pub struct Receiver {
    options: Options,
    next: u64,
    waiting: Ranges,
    recent: Vec<(u64, u64)>,
    duplicate: Option<(u64, u64)>,
    unacknowledged: u64,
    at_once: bool,
    delayed_until: Option<u64>,
    quick: u32,
    answering: bool,
    last_ns: Option<u64>,
    /// Stamp to echo (RFC 7323: of the segment that moved the front).
    echo_ns: Option<u64>,
    last_acked: u64,
    window: u64,
    edge: u64,
    /// Right-sizing: since when, from which byte.
    measured: (u64, u64),
    congestion: bool,
}

impl Receiver {
    /// Nothing received yet.
    pub fn new(options: Options) -> Self {
        let window = match options.receive_buffer {
            Buffer::Fixed(bytes) => bytes,
            Buffer::Grows(most) => most.min(FIRST_WINDOW_BYTES),
        };
        Self {
            next: 0,
            waiting: Ranges::default(),
            recent: Vec::new(),
            duplicate: None,
            unacknowledged: 0,
            at_once: false,
            delayed_until: None,
            quick: QUICK,
            answering: false,
            last_ns: None,
            echo_ns: None,
            last_acked: 0,
            window,
            edge: window,
            measured: (0, 0),
            congestion: false,
            options,
        }
    }

    /// Bytes in order so far.
    pub fn in_order(&self) -> u64 {
        self.next
    }

    /// Keeps the stamp of the other side's SYN.
    pub fn stamp(&mut self, segment: &Segment) {
        self.echo_ns = Some(segment.stamp_ns);
    }

    /// Takes a segment; `marked`: its packet saw congestion.
    pub fn take(&mut self, segment: &Segment, marked: bool, now_ns: u64) {
        if self.options.ecn {
            if segment.window_reduced {
                self.congestion = false;
            }
            self.congestion |= marked;
        }
        if segment.seq <= self.last_acked {
            self.echo_ns = Some(segment.stamp_ns).max(self.echo_ns);
        }
        if segment.bytes == 0 {
            return;
        }
        let (begin, end) = (segment.seq, segment.seq + u64::from(segment.bytes));
        if self.last_ns.is_some_and(|last| now_ns - last > 5 * DELAY_NS) {
            self.quick = QUICK;
        }
        self.last_ns = Some(now_ns);
        if end > self.edge {
            self.at_once = true; // beyond the window: dropped
            return;
        }
        if end <= self.next || (begin > self.next && self.waiting.missing(begin, end).is_empty()) {
            (self.duplicate, self.at_once) = (Some((begin, end)), true);
            return;
        }
        if begin > self.next {
            let block = self.waiting.insert(begin, end);
            self.recent.retain(|(low, high)| *high <= block.0 || *low >= block.1);
            self.recent.insert(0, block);
            self.recent.truncate(SACK_BLOCKS + 1);
            self.at_once = true;
            return;
        }
        self.unacknowledged += end - self.next;
        self.at_once |= !self.waiting.is_empty(); // a gap closes, or others stay open
        self.next = end;
        while let Some(high) = self.waiting.take_from(self.next) {
            self.next = high;
        }
        self.waiting.forget_below(self.next);
        self.recent.retain(|(_, high)| *high > self.next);
        self.measure(segment, now_ns);
        let quick = self.quick > 0 && !self.answering;
        let second = self.unacknowledged > u64::from(self.options.segment_bytes);
        if quick || second || marked || !self.options.delayed_ack {
            self.at_once = true;
        } else if self.delayed_until.is_none() {
            self.delayed_until = Some(now_ns + DELAY_NS);
        }
    }

    fn measure(&mut self, segment: &Segment, now_ns: u64) {
        let Buffer::Grows(most) = self.options.receive_buffer else { return };
        let (since, from) = self.measured;
        let Some(rtt_ns) = segment.echo_ns.map(|echo| now_ns - echo) else { return };
        if now_ns - since < rtt_ns {
            return;
        }
        let wanted = 2 * (self.next - from) + 16 * u64::from(self.options.segment_bytes);
        self.window = self.window.max(wanted.min(most));
        self.measured = (now_ns, self.next);
    }

    /// A full segment holds so many bytes from now on, of which Linux acknowledges every second.
    pub fn expect(&mut self, segment_bytes: u32) {
        self.options.segment_bytes = segment_bytes;
    }

    /// Whether anything has come that is not acknowledged.
    pub const fn owes(&self) -> bool {
        self.at_once || self.delayed_until.is_some()
    }

    /// Whether an acknowledgement must go now.
    pub fn is_due(&self, now_ns: u64) -> bool {
        self.at_once || self.delayed_until.is_some_and(|until| until <= now_ns)
    }

    /// When one must go at last.
    pub fn next_ns(&self) -> Option<u64> {
        self.delayed_until
    }

    /// The blocks that a segment tells of, and how many they are.
    #[cold]
    fn blocks(&mut self, stamped: bool) -> ([(u64, u64); SACK_BLOCKS], u8) {
        let most = SACK_BLOCKS + usize::from(!stamped);
        let blocks = self.duplicate.take().into_iter().chain(self.recent.iter().copied());
        let (mut sack, mut many) = ([(0, 0); SACK_BLOCKS], 0);
        for (place, block) in sack.iter_mut().zip(blocks.take(most)) {
            *place = block;
            many += 1;
        }
        (sack, many)
    }

    /// What a segment says of this side; `stamped`: it has time stamps, `data`: it carries some.
    #[inline]
    pub fn acknowledge(&mut self, stamped: bool, data: bool, now_ns: u64) -> Segment {
        self.edge = self.edge.max(self.next + self.window);
        let told = self.options.sack && (self.duplicate.is_some() || !self.recent.is_empty());
        let (sack, blocks) = if told { self.blocks(stamped) } else { Default::default() };
        let segment = Segment {
            ack: self.next,
            window: self.edge - self.next,
            stamped,
            echo_ns: self.echo_ns.filter(|_| stamped),
            echo_congestion: self.congestion,
            sack,
            blocks,
            ..Segment::default()
        };
        if data && self.last_ns.is_some_and(|last| now_ns - last < DELAY_NS) {
            self.answering = true;
        }
        self.quick = self.quick.saturating_sub(u32::from(self.unacknowledged > 0));
        self.last_acked = self.next;
        (self.unacknowledged, self.at_once, self.delayed_until) = (0, false, None);
        segment
    }
}
