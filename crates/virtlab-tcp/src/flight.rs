//! Segments under way: which were acknowledged selectively, which are held lost, which were sent again.
//!
//! Scoreboard of RFC 6675 in Linux's packet counts: `under way = sent - selectively acknowledged - lost + sent
//! again`. Loss is found by time, RFC 8985 (RACK): a segment is lost when one sent later has arrived and a
//! reordering window has passed. The window is 0 once three segments above were acknowledged (RFC 6675's DupThresh)
//! or in recovery, unless reordering was seen: then, and before, a quarter of the least round trip. So a lost
//! retransmission is found too.

use crate::ranges::Ranges;
use std::collections::{BTreeSet, VecDeque};

/// RFC 6675's.
const DUPLICATE_THRESHOLD: u32 = 3;

#[derive(Clone, Copy, Debug)]
struct Sent {
    seq: u64,
    bytes: u32,
    sent_ns: u64,
    again: bool,
    sacked: bool,
    lost: bool,
    /// Sent again and not known to have arrived or to be lost again.
    repeated: bool,
}

/// What an acknowledgement told.
#[derive(Clone, Copy, Debug, Default)]
pub struct News {
    /// Packets newly known to have arrived.
    pub delivered: u32,
    /// Packets acknowledged in order.
    pub acked: u32,
    /// Whether the front moved.
    pub advanced: bool,
    /// Round-trip time of the first packet of those acknowledged in order.
    pub rtt_ns: Option<u64>,
    /// Round-trip time of the last of them.
    pub newest_rtt_ns: Option<u64>,
}

/// All that was sent and not acknowledged.
#[derive(Debug, Default)]
pub struct Flight {
    segments: VecDeque<Sent>,
    sacked: u32,
    lost: u32,
    repeated: u32,
    /// Without SACK: duplicate acknowledgements, each of which stands for a packet that arrived.
    duplicates: u32,
    known: Ranges,
    /// Numbers of segments to be sent again.
    due: BTreeSet<u64>,
    /// In the order of sending; an entry is void once its segment is gone, known, or was sent again.
    order: VecDeque<(u64, u64)>,
    /// RACK: the arrived segment that was sent last (instant, end), and its round trip.
    newest: (u64, u64),
    newest_rtt_ns: u64,
    highest_sacked: u64,
    reordering_seen: bool,
    /// Shortest round trip so far.
    pub least_rtt_ns: u64,
}

impl Flight {
    /// Packets in the network.
    pub fn under_way(&self) -> u32 {
        self.segments.len() as u32 - (self.sacked + self.lost + self.duplicates.min(self.unmarked()))
            + self.repeated
    }

    fn unmarked(&self) -> u32 {
        self.segments.len() as u32 - self.sacked - self.lost
    }

    /// Packets sent and not acknowledged in order.
    pub fn outstanding(&self) -> u32 {
        self.segments.len() as u32
    }

    /// Lost packets not yet sent again.
    pub fn next_due(&self) -> Option<(u64, u32)> {
        let seq = *self.due.first()?;
        let at = self.find(seq)?;
        Some((seq, self.segments[at].bytes))
    }

    /// The last packet sent.
    pub fn last(&self) -> Option<(u64, u32)> {
        self.segments.back().map(|sent| (sent.seq, sent.bytes))
    }

    fn find(&self, seq: u64) -> Option<usize> {
        let first = self.segments.front()?.seq;
        if seq <= first {
            return (seq == first).then_some(0); // mostly it is that, or gone
        }
        let at = self.segments.partition_point(|sent| sent.seq < seq);
        self.segments.get(at).filter(|sent| sent.seq == seq).map(|_| at)
    }

    /// New bytes leave.
    pub fn send(&mut self, seq: u64, bytes: u32, now_ns: u64) {
        self.segments.push_back(Sent {
            seq,
            bytes,
            sent_ns: now_ns,
            again: false,
            sacked: false,
            lost: false,
            repeated: false,
        });
        self.order.push_back((now_ns, seq));
    }

    /// Bytes leave again.
    pub fn send_again(&mut self, seq: u64, now_ns: u64) {
        self.due.remove(&seq);
        let Some(at) = self.find(seq) else { return };
        let sent = &mut self.segments[at];
        if sent.lost && !sent.repeated {
            sent.repeated = true;
            self.repeated += 1;
        }
        (sent.sent_ns, sent.again) = (now_ns, true);
        self.order.push_back((now_ns, seq));
    }

    /// An acknowledgement in order up to `ack`.
    pub fn acknowledge(&mut self, ack: u64, now_ns: u64, news: &mut News) {
        while let Some(front) = self.segments.front_mut() {
            if front.seq + u64::from(front.bytes) > ack {
                if front.seq < ack {
                    let (before, cut) = (front.seq, (ack - front.seq) as u32);
                    (front.seq, front.bytes) = (ack, front.bytes - cut);
                    let sent_ns = front.sent_ns;
                    if self.due.remove(&before) {
                        self.due.insert(ack);
                    }
                    self.order.push_front((sent_ns, ack));
                }
                break;
            }
            let sent = *front;
            self.segments.pop_front();
            news.acked += 1;
            if sent.sacked {
                self.sacked -= 1;
            } else {
                news.delivered += 1;
                if !sent.again {
                    let rtt_ns = now_ns - sent.sent_ns;
                    news.rtt_ns.get_or_insert(rtt_ns);
                    news.newest_rtt_ns = Some(rtt_ns);
                    self.reordering_seen |= sent.seq < self.highest_sacked && !sent.lost;
                }
                self.arrived(&sent, now_ns);
            }
            self.lost -= u32::from(sent.lost);
            self.repeated -= u32::from(sent.repeated);
            self.due.remove(&sent.seq);
        }
        if news.acked > 0 {
            news.advanced = true;
            self.duplicates = self.duplicates.saturating_sub(news.acked.saturating_sub(1));
            self.known.forget_below(ack);
        }
        if self.segments.is_empty() {
            self.order.clear();
        }
    }

    /// A block that came out of order.
    pub fn acknowledge_block(&mut self, (begin, end): (u64, u64), now_ns: u64, news: &mut News) {
        let Some(front) = self.segments.front().map(|sent| sent.seq) else { return };
        if end <= front || begin >= end {
            return; // a duplicate's (RFC 2883)
        }
        for (low, high) in self.known.missing(begin.max(front), end) {
            let mut at = self.segments.partition_point(|sent| sent.seq < low);
            while let Some(sent) = self.segments.get_mut(at) {
                if sent.seq + u64::from(sent.bytes) > high {
                    break;
                }
                at += 1;
                if sent.sacked {
                    continue;
                }
                let before = *sent;
                (sent.sacked, sent.lost, sent.repeated) = (true, false, false);
                self.sacked += 1;
                self.lost -= u32::from(before.lost);
                self.repeated -= u32::from(before.repeated);
                self.due.remove(&before.seq);
                news.delivered += 1;
                if !before.again {
                    news.newest_rtt_ns = Some(now_ns - before.sent_ns);
                    self.reordering_seen |= before.seq < self.highest_sacked && !before.lost;
                }
                self.highest_sacked = self.highest_sacked.max(before.seq);
                self.arrived(&before, now_ns);
            }
        }
        self.known.insert(begin.max(front), end);
    }

    /// RACK's step 2: the arrived segment that was sent last. What came sooner than any round trip was an earlier copy.
    fn arrived(&mut self, sent: &Sent, now_ns: u64) {
        if sent.again && now_ns - sent.sent_ns < self.least_rtt_ns {
            return;
        }
        let this = (sent.sent_ns, sent.seq + u64::from(sent.bytes));
        if this > self.newest {
            self.newest = this;
            self.newest_rtt_ns = now_ns - sent.sent_ns;
        }
    }

    /// Marks what must be lost; true when something newly is, and when to look again.
    pub fn find_losses(&mut self, now_ns: u64, recovering: bool) -> (bool, Option<u64>) {
        let sure = recovering || self.sacked >= DUPLICATE_THRESHOLD;
        let patience_ns = if sure && !self.reordering_seen { 0 } else { self.least_rtt_ns / 4 };
        let mut found = false;
        while let Some(&(sent_ns, seq)) = self.order.front() {
            let at = self.find(seq).filter(|at| {
                let sent = &self.segments[*at];
                sent.sent_ns == sent_ns && !sent.sacked && (!sent.lost || sent.repeated)
            });
            let Some(at) = at else {
                self.order.pop_front();
                continue;
            };
            let end = seq + u64::from(self.segments[at].bytes);
            if (sent_ns, end) >= self.newest {
                break;
            }
            let until = sent_ns + self.newest_rtt_ns + patience_ns;
            if until > now_ns {
                return (found, Some(until));
            }
            self.order.pop_front();
            self.lose(at);
            found = true;
        }
        (found, None)
    }

    fn lose(&mut self, at: usize) {
        let sent = &mut self.segments[at];
        if sent.lost {
            self.repeated -= u32::from(sent.repeated);
            sent.repeated = false;
        } else {
            sent.lost = true;
            self.lost += 1;
        }
        self.due.insert(sent.seq);
    }

    /// Without SACK: another acknowledgement of the same; true when the threshold is reached.
    pub fn duplicate(&mut self) -> bool {
        if self.duplicates < self.outstanding() {
            self.duplicates += 1;
        }
        self.duplicates >= DUPLICATE_THRESHOLD
    }

    /// Without SACK: the front is lost.
    pub fn lose_front(&mut self) {
        if !self.segments.is_empty() && !self.segments[0].lost {
            self.lose(0);
        }
    }

    /// Without SACK: duplicates count again.
    pub fn forget_duplicates(&mut self) {
        self.duplicates = 0;
    }

    /// Cuts segments that are longer than `most_bytes` and not known to have arrived, and holds them lost; true
    /// when there was one.
    pub fn cut(&mut self, most_bytes: u32) -> bool {
        let mut found = false;
        let mut at = 0;
        while at < self.segments.len() {
            let sent = self.segments[at];
            if sent.sacked || sent.bytes <= most_bytes {
                at += 1;
                continue;
            }
            found = true;
            self.lost -= u32::from(sent.lost);
            self.repeated -= u32::from(sent.repeated);
            let pieces = sent.bytes.div_ceil(most_bytes);
            for piece in 0..pieces {
                let skipped = piece * most_bytes;
                let part = Sent {
                    seq: sent.seq + u64::from(skipped),
                    bytes: most_bytes.min(sent.bytes - skipped),
                    lost: false,
                    repeated: false,
                    ..sent
                };
                if piece == 0 {
                    self.segments[at] = part;
                } else {
                    self.segments.insert(at, part);
                }
                self.lose(at);
                at += 1;
            }
        }
        found
    }

    /// After a time-out: all is lost that is not known to have arrived.
    pub fn lose_all(&mut self) {
        self.duplicates = 0;
        self.order.clear();
        for at in 0..self.segments.len() {
            if !self.segments[at].sacked {
                self.lose(at);
            }
        }
    }
}
