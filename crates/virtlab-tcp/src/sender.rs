//! The sending side: what may go, what acknowledgements mean for it, and recovery.
//!
//! Recovery: RFC 6675's entry and end; the window falls by proportional rate reduction (RFC 9937, Linux's form with
//! slow start's catch-up bound); an ECN echo is answered likewise, once a window (RFC 3168). Without SACK it is RFC
//! 6582's. A time-out holds all lost and begins with one packet. A tail that stays silent for two round trips is
//! probed first (RFC 8985, section 7). What a window limited by something else than itself does not use, it does
//! not grow by (RFC 7661; Linux: in slow start up to twice of what was used).

use crate::control::{Control, Growth};
use crate::flight::{Flight, News};
use crate::options::{Buffer, Options};
use crate::rtt::RoundTrip;
use crate::segment::Segment;

/// Longest that the other side holds back an acknowledgement, as a probe of the tail must allow for it.
const LONGEST_DELAY_NS: u64 = 200_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Open,
    /// Reducing after an ECN echo.
    Reducing,
    Recovering,
    /// After a time-out.
    Lost,
}

/// Proportional rate reduction.
#[derive(Clone, Copy, Debug, Default)]
struct Reduction {
    delivered: u32,
    sent: u32,
    window_before: u32,
}

/// What a transmission is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transmission {
    /// First byte.
    pub seq: u64,
    /// How many.
    pub bytes: u32,
}

/// The sending side of a connection.
#[derive(Debug)]
pub struct Sender {
    options: Options,
    /// Window and threshold.
    pub control: Control,
    /// Round trip.
    pub rtt: RoundTrip,
    flight: Flight,
    state: State,
    reduction: Reduction,
    /// Recovery ends when this is acknowledged.
    until: u64,
    first: u64,
    next: u64,
    /// Bytes that the application has written.
    written: u64,
    /// The other side's: up to where it takes bytes, and the most it ever took.
    edge: u64,
    most_window: u64,
    /// End of the last small segment.
    small_end: u64,
    /// Whether the window held back a segment since `used_until` was set, and the most packets out since then.
    limited: bool,
    most_used: u32,
    used_until: u64,
    any_sent: bool,
    retransmits: u64,
    tell_reduced: bool,
    last_sent_ns: u64,
    timeout_at: Option<u64>,
    reorder_at: Option<u64>,
    probe_at: Option<u64>,
    probe_due: bool,
    probed: bool,
}

impl Sender {
    /// Nothing sent yet.
    pub fn new(options: Options) -> Self {
        Self {
            control: Control::new(&options),
            rtt: RoundTrip::default(),
            flight: Flight::default(),
            state: State::Open,
            reduction: Reduction::default(),
            until: 0,
            first: 0,
            next: 0,
            written: 0,
            edge: 0,
            most_window: 0,
            small_end: 0,
            limited: false,
            most_used: 0,
            used_until: 0,
            any_sent: false,
            retransmits: 0,
            tell_reduced: false,
            last_sent_ns: 0,
            timeout_at: None,
            reorder_at: None,
            probe_at: None,
            probe_due: false,
            probed: false,
            options,
        }
    }

    /// Segments sent again.
    pub fn retransmits(&self) -> u64 {
        self.retransmits
    }

    /// Bytes acknowledged in order.
    pub fn acknowledged(&self) -> u64 {
        self.first
    }

    /// Bytes of the buffer that are free. A buffer that grows holds twice the window, as Linux sizes it.
    pub fn room_bytes(&self) -> u64 {
        let held = self.written - self.first;
        let capacity = match self.options.send_buffer {
            Buffer::Fixed(bytes) => bytes,
            Buffer::Grows(most) => {
                let window = u64::from(self.control.window.max(self.options.initial_window_packets));
                most.min((2 * window * u64::from(self.options.segment_bytes)).max(16 << 10))
            }
        };
        capacity.saturating_sub(held)
    }

    /// Bytes written so far.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// The application writes.
    pub fn write(&mut self, bytes: u64) {
        self.written += bytes;
    }

    /// The other side's window, also that of its SYN.
    pub fn open(&mut self, ack: u64, window: u64) {
        self.edge = self.edge.max(ack + window);
        self.most_window = self.most_window.max(window);
    }

    /// Round trips for what must be said before: bytes per second that are about to go, as Linux paces.
    pub fn rate_byte_per_s(&self) -> Option<u64> {
        let srtt_ns = self.rtt.smoothed_ns()?;
        let window = u64::from(self.control.window);
        let percent = if self.control.window < self.control.threshold / 2 { 200 } else { 120 };
        let bits = u128::from(window * u64::from(self.options.segment_bytes)) * percent * 10_000_000;
        Some((bits / u128::from(srtt_ns)) as u64)
    }

    /// The next transmission; the caller sends it.
    pub fn transmit(&mut self, now_ns: u64) -> Option<Transmission> {
        if self.probe_due {
            self.probe_due = false;
            if let Some(new) = self.new_bytes() {
                return Some(self.send_new(new, now_ns));
            }
            if let Some((seq, bytes)) = self.flight.last() {
                return Some(self.send_again(seq, bytes, now_ns));
            }
        }
        if self.flight.under_way() < self.control.window {
            if let Some((seq, bytes)) = self.flight.next_due() {
                return Some(self.send_again(seq, bytes, now_ns));
            }
            if let Some(bytes) = self.new_bytes() {
                return Some(self.send_new(bytes, now_ns));
            }
        }
        self.pause();
        None
    }

    /// Sending ends for now: notes whether the window is the reason, which holds for a window of bytes (Linux's form of
    /// RFC 7661; the rate by which a small queue is bounded follows the window, so it matters how long).
    pub fn pause(&mut self) {
        let limited = self.flight.under_way() >= self.control.window;
        if !self.any_sent && !limited {
            return;
        }
        self.any_sent = false;
        let out = self.flight.outstanding();
        if self.first >= self.used_until || limited || (!self.limited && out > self.most_used) {
            (self.limited, self.most_used, self.used_until) = (limited, out, self.next);
        }
    }

    /// How many new bytes may go as one segment: a full one, or the rest when neither Nagle's algorithm (in
    /// Minshall's form, as in Linux) nor the avoidance of silly windows (RFC 9293, 3.8.6.2) holds it back.
    fn new_bytes(&self) -> Option<u32> {
        let full = u64::from(self.options.segment_bytes);
        let waiting = self.written - self.next;
        let bytes = waiting.min(full).min(self.edge.saturating_sub(self.next));
        if bytes == 0 {
            return None;
        }
        if bytes < full {
            let small_under_way = self.small_end > self.first;
            if bytes == waiting {
                if self.options.nagle && small_under_way {
                    return None;
                }
            } else if bytes < self.most_window / 2 && self.next > self.first {
                return None;
            }
        }
        Some(bytes as u32)
    }

    fn send_new(&mut self, bytes: u32, now_ns: u64) -> Transmission {
        let idle_ns = now_ns - self.last_sent_ns;
        if self.flight.outstanding() == 0 && self.last_sent_ns > 0 && idle_ns > 0 {
            self.rest(idle_ns, now_ns);
        }
        let seq = self.next;
        self.flight.send(seq, bytes, now_ns);
        self.next += u64::from(bytes);
        if bytes < self.options.segment_bytes {
            self.small_end = self.next;
        }
        self.sent(now_ns);
        Transmission { seq, bytes }
    }

    fn send_again(&mut self, seq: u64, bytes: u32, now_ns: u64) -> Transmission {
        self.flight.send_again(seq, now_ns);
        self.retransmits += 1;
        self.sent(now_ns);
        Transmission { seq, bytes }
    }

    fn sent(&mut self, now_ns: u64) {
        self.last_sent_ns = now_ns;
        self.any_sent = true;
        self.reduction.sent += 1;
        if self.timeout_at.is_none() {
            self.timeout_at = Some(now_ns + self.rtt.timeout_ns());
        }
        self.plan_probe(now_ns);
    }

    /// After a pause longer than the time-out the window halves for every time-out that passed (RFC 2861, RFC 5681
    /// 4.1).
    fn rest(&mut self, mut idle_ns: u64, now_ns: u64) {
        self.control.idle(idle_ns, now_ns);
        let timeout_ns = self.rtt.timeout_ns();
        let least = self.options.initial_window_packets.min(self.control.window);
        if idle_ns > timeout_ns {
            self.control.threshold = self.control.threshold.max(self.control.window / 4 * 3);
        }
        while idle_ns > timeout_ns && self.control.window > least {
            idle_ns -= timeout_ns;
            self.control.window = (self.control.window / 2).max(least);
        }
    }

    fn plan_probe(&mut self, now_ns: u64) {
        self.probe_at = None;
        let Some(srtt_ns) = self.rtt.smoothed_ns() else { return };
        if !self.options.sack || self.state != State::Open || self.probed || self.flight.outstanding() == 0 {
            return;
        }
        let alone = if self.flight.outstanding() == 1 { LONGEST_DELAY_NS } else { 2_000_000 };
        self.probe_at = Some(now_ns + (2 * srtt_ns + alone).min(self.rtt.timeout_ns()));
    }

    /// An acknowledgement of any kind.
    pub fn acknowledged_by(&mut self, segment: &Segment, now_ns: u64) {
        if segment.ack > self.next {
            return;
        }
        let idle = self.flight.outstanding() == 0 && self.state == State::Open;
        if idle && segment.ack == self.first && !segment.echo_congestion {
            return self.open(segment.ack, segment.window); // it says nothing else to an end that has sent nothing
        }
        let moved_edge = segment.ack + segment.window > self.edge;
        let mut news = News::default();
        self.flight.acknowledge(segment.ack, now_ns, &mut news);
        self.first = self.first.max(segment.ack);
        if self.options.sack {
            for block in segment.blocks() {
                self.flight.acknowledge_block(*block, now_ns, &mut news);
            }
        }
        self.open(segment.ack, segment.window);
        let rtt_ns = news.rtt_ns.or_else(|| {
            let stamp = segment.echo_ns.filter(|_| news.advanced && news.newest_rtt_ns.is_none());
            stamp.map(|echo| now_ns - echo).or(news.newest_rtt_ns)
        });
        if let Some(rtt_ns) = rtt_ns {
            self.rtt.sample(rtt_ns);
            self.flight.least_rtt_ns = self.rtt.least_ns().unwrap_or(0);
        }
        let duplicate = !news.advanced && !moved_edge && segment.bytes == 0 && self.flight.outstanding() > 0;
        let was = self.state;
        self.end_recovery(news.advanced);
        let new_losses = self.find_losses(duplicate, news.advanced, now_ns);
        if new_losses && matches!(self.state, State::Open | State::Reducing) {
            self.begin_reduction(State::Recovering);
        } else if segment.echo_congestion && self.state == State::Open && self.options.ecn {
            self.begin_reduction(State::Reducing);
            self.tell_reduced = true;
        }
        let delivered = news.delivered + u32::from(!self.options.sack && duplicate);
        if matches!(self.state, State::Recovering | State::Reducing) {
            self.reduce_by_delivery(delivered, news.advanced && !new_losses);
        } else if news.advanced && was != State::Recovering && self.may_grow() {
            self.control.grow(Growth {
                packets: news.delivered.max(u32::from(!self.options.sack)),
                front: [self.first, self.next],
                now_ns,
                rtt_ns,
                least_rtt_ns: self.rtt.least_ns().unwrap_or(1),
            });
        }
        if news.advanced {
            self.rtt.progress();
            self.probed = false;
            self.timeout_at = (self.flight.outstanding() > 0).then(|| now_ns + self.rtt.timeout_ns());
        }
        if news.delivered > 0 {
            self.plan_probe(now_ns);
        }
    }

    fn may_grow(&self) -> bool {
        self.limited || self.control.starting() && self.control.window < 2 * self.most_used
    }

    fn end_recovery(&mut self, advanced: bool) {
        if self.state == State::Open || self.first < self.until {
            return;
        }
        // Acknowledgements echo congestion until one for a segment sent since, which says that the window was reduced.
        if self.state == State::Reducing && self.first == self.until {
            return;
        }
        // RFC 6582 waits for an acknowledgement beyond the last: without SACK duplicates of old ones would begin again.
        if !self.options.sack && self.state == State::Recovering && !advanced {
            return;
        }
        if matches!(self.state, State::Recovering | State::Reducing) {
            self.control.window = self.control.threshold;
        }
        self.state = State::Open;
        self.flight.forget_duplicates();
    }

    fn find_losses(&mut self, duplicate: bool, advanced: bool, now_ns: u64) -> bool {
        if !self.options.sack {
            let third = duplicate && self.flight.duplicate();
            let partial = advanced && self.state == State::Recovering;
            if (third && matches!(self.state, State::Open | State::Reducing)) || partial {
                self.flight.lose_front();
                return true;
            }
            return false;
        }
        let recovering = matches!(self.state, State::Recovering | State::Lost);
        let (found, again) = self.flight.find_losses(now_ns, recovering);
        self.reorder_at = again;
        found
    }

    fn begin_reduction(&mut self, state: State) {
        if self.state != State::Reducing {
            self.reduction = Reduction { window_before: self.control.window, ..Reduction::default() };
            self.control.reduce();
        }
        self.state = state;
        self.until = self.next;
        self.probe_at = None;
    }

    fn reduce_by_delivery(&mut self, delivered: u32, clean: bool) {
        if delivered == 0 && self.reduction.delivered > 0 {
            return;
        }
        self.reduction.delivered += delivered;
        let (under_way, threshold) = (self.flight.under_way(), self.control.threshold);
        let Reduction { delivered: total, sent, window_before } = self.reduction;
        let quota = if under_way > threshold {
            let due = (u64::from(threshold) * u64::from(total)).div_ceil(u64::from(window_before.max(1)));
            (due as u32).saturating_sub(sent)
        } else {
            let owed = total.saturating_sub(sent).max(delivered) + u32::from(clean);
            owed.min(threshold - under_way)
        };
        let first = u32::from(sent == 0);
        self.control.window = under_way + quota.max(first);
    }

    /// Segments of another length. Those under way that are longer than the path takes are lost for certain: they
    /// are cut and sent again, without any reduction of the window (as Linux does: RFC 1191, 6.4, wants no more).
    pub fn fit(&mut self, segment_bytes: u32) -> bool {
        if segment_bytes == self.options.segment_bytes {
            return false;
        }
        self.options.segment_bytes = segment_bytes;
        if self.flight.cut(segment_bytes) && self.state != State::Lost {
            if !matches!(self.state, State::Recovering | State::Reducing) {
                let most = self.control.window / 4 * 3;
                self.control.threshold = self.control.threshold.max(most);
            }
            (self.state, self.until) = (State::Lost, self.next);
            self.probe_at = None;
        }
        true
    }

    /// When something must be done without any segment coming.
    pub fn next_ns(&self) -> Option<u64> {
        first([self.timeout_at, self.reorder_at, self.probe_at])
    }

    /// Time has come to one of them, or to none.
    pub fn alarm(&mut self, now_ns: u64) {
        if self.reorder_at.is_some_and(|at| at <= now_ns) {
            self.reorder_at = None;
            let recovering = matches!(self.state, State::Recovering | State::Lost);
            let (found, again) = self.flight.find_losses(now_ns, recovering);
            self.reorder_at = again;
            if found && matches!(self.state, State::Open | State::Reducing) {
                self.begin_reduction(State::Recovering);
                self.reduce_by_delivery(0, false);
            } else if found && self.state == State::Recovering {
                self.control.window = self.control.window.max(self.flight.under_way() + 1);
            }
        }
        if self.timeout_at.is_some_and(|at| at <= now_ns) {
            self.time_out(now_ns);
        } else if self.probe_at.is_some_and(|at| at <= now_ns) {
            self.probe_at = None;
            if self.flight.outstanding() > 0 {
                (self.probe_due, self.probed) = (true, true);
                self.timeout_at = Some(now_ns + self.rtt.timeout_ns());
            }
        }
    }

    fn time_out(&mut self, now_ns: u64) {
        self.timeout_at = None;
        (self.probe_at, self.reorder_at) = (None, None);
        if self.flight.outstanding() == 0 {
            return;
        }
        // A time-out of a retransmission reduces no further (RFC 5681, 3.1).
        if self.state != State::Lost || self.first >= self.until {
            if self.state != State::Recovering {
                self.control.reduce();
            }
            self.until = self.next;
        }
        self.state = State::Lost;
        self.flight.lose_all();
        self.control.collapse(self.flight.under_way() + 1);
        self.rtt.back_off();
        self.timeout_at = Some(now_ns + self.rtt.timeout_ns());
    }

    /// Whether the next data segment says that the window was reduced; once.
    pub fn take_reduced(&mut self) -> bool {
        std::mem::take(&mut self.tell_reduced)
    }
}

/// The first of some instants that may come, without a branch: it is asked after every segment.
pub fn first<const N: usize>(instants: [Option<u64>; N]) -> Option<u64> {
    let first = instants.into_iter().map(|at| at.unwrap_or(u64::MAX)).fold(u64::MAX, u64::min);
    (first < u64::MAX).then_some(first)
}
