//! One end of a connection: handshake (RFC 9293; SYN again after 1, 2, 4 ... s), both sides put together, and the end.
//!
//! An end whose process is gone still sends what was written, then its FIN. What comes to an end without a connection
//! is answered by a reset (RFC 9293, 3.10.7.1).

use crate::options::Options;
use crate::receiver::Receiver;
use crate::segment::{Kind, Segment};
use crate::sender::{Sender, first};

const SYN_TIMEOUT_NS: u64 = 1_000_000_000;
const SYN_TRIES: u32 = 7;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Closed,
    Listening,
    SynSent,
    SynReceived,
    Open,
    /// No process is there.
    Refusing,
    /// It neither sends nor takes anything any more.
    Over,
}

/// One end.
#[derive(Debug)]
pub struct Connection {
    options: Options,
    phase: Phase,
    /// Whether a SYN or its answer must go.
    syn_due: bool,
    reset_due: bool,
    syn_at: Option<u64>,
    syn_tries: u32,
    syn_ns: u64,
    sender: Sender,
    receiver: Receiver,
    /// The acknowledgement that ends the handshake.
    greet: bool,
    paced_ns: u64,
    /// Where the streams end, if they do: this end's, and the other's.
    ends: [Option<u64>; 2],
}

impl Connection {
    /// An end that waits for the other.
    #[must_use]
    pub fn listening(options: Options) -> Self {
        Self {
            phase: Phase::Listening,
            syn_due: false,
            reset_due: false,
            syn_at: None,
            syn_tries: 0,
            syn_ns: 0,
            sender: Sender::new(options),
            receiver: Receiver::new(options),
            greet: false,
            paced_ns: 0,
            ends: [None; 2],
            options,
        }
    }

    /// An end that has yet to connect.
    #[must_use]
    pub fn closed(options: Options) -> Self {
        Self { phase: Phase::Closed, ..Self::listening(options) }
    }

    /// Begins the handshake.
    pub fn connect(&mut self) {
        (self.phase, self.syn_due) = (Phase::SynSent, true);
    }

    /// The process of this end is gone: its stream ends with what was written; a handshake that is under way is
    /// refused.
    pub fn close(&mut self) {
        match self.phase {
            Phase::Open if self.ends[0].is_none() => {
                self.sender.write(1);
                self.ends[0] = Some(self.sender.written());
            }
            Phase::SynSent | Phase::SynReceived => self.stop(Phase::Refusing),
            _ => {}
        }
    }

    /// An end that waits for the other refuses it.
    pub fn refuse(&mut self) {
        if self.phase == Phase::Listening {
            self.stop(Phase::Refusing);
        }
    }

    /// The application of this end is done with it, whatever is still under way.
    pub fn end(&mut self) {
        self.stop(Phase::Over);
    }

    fn stop(&mut self, phase: Phase) {
        (self.phase, self.syn_due, self.syn_at) = (phase, false, None);
    }

    /// Whether the process of this end is gone.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.ends[0].is_some() || self.phase == Phase::Refusing
    }

    /// Whether the other end has refused, or all of its stream has come and that has an end.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.phase == Phase::Over || self.ends[1] == Some(self.receiver.in_order())
    }

    /// Whether the handshake is over.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.phase == Phase::Open
    }

    /// Whether the other end has answered none of its SYNs, and no more will be sent.
    #[must_use]
    pub fn has_given_up(&self) -> bool {
        self.phase == Phase::SynSent && !self.syn_due && self.syn_at.is_none() && self.syn_tries > SYN_TRIES
    }

    /// Bytes that can be written now.
    #[must_use]
    pub fn room_bytes(&self) -> u64 {
        if self.is_open() { self.sender.room_bytes() } else { 0 }
    }

    /// Writes bytes; the caller keeps to the room, or to a message that does not fit once.
    pub fn write(&mut self, bytes: u64) {
        self.sender.write(bytes);
    }

    /// How many bytes a full segment may hold from now on, as the path has become known; what is under way in
    /// longer ones goes again. False when nothing changes.
    pub fn fit(&mut self, segment_bytes: u32) -> bool {
        self.sender.fit(segment_bytes)
    }

    /// The other end's full segments hold so many bytes from now on.
    pub fn expect(&mut self, segment_bytes: u32) {
        self.receiver.expect(segment_bytes);
    }

    /// Bytes that came in order, all of which the application has read.
    #[must_use]
    pub fn received_bytes(&self) -> u64 {
        self.receiver.in_order() - u64::from(self.ends[1] == Some(self.receiver.in_order()))
    }

    /// Bytes of this end that the other has acknowledged.
    #[must_use]
    pub fn acknowledged_bytes(&self) -> u64 {
        self.sender.acknowledged()
    }

    /// Segments sent again.
    #[must_use]
    pub fn retransmits(&self) -> u64 {
        self.sender.retransmits()
    }

    /// Smoothed round trip.
    #[must_use]
    pub fn smoothed_ns(&self) -> Option<u64> {
        self.sender.rtt.smoothed_ns()
    }

    /// Least round trip.
    #[must_use]
    pub fn least_ns(&self) -> Option<u64> {
        self.sender.rtt.least_ns()
    }

    /// Congestion window.
    #[must_use]
    pub fn window_packets(&self) -> u32 {
        self.sender.control.window
    }

    /// Rate at which Linux would pace, by which it also bounds what waits in the vNIC.
    #[must_use]
    pub fn rate_byte_per_s(&self) -> Option<u64> {
        self.sender.rate_byte_per_s()
    }

    /// A segment comes; `marked`: its packet saw congestion on the way.
    pub fn take(&mut self, segment: &Segment, marked: bool, now_ns: u64) {
        match (self.phase, segment.kind) {
            (Phase::Listening, Kind::Syn) => {
                self.phase = Phase::SynReceived;
                self.syn_due = true;
                self.meet(segment);
            }
            (Phase::SynReceived, Kind::Syn) => self.syn_due = true,
            (Phase::SynSent, Kind::SynAck) => {
                self.phase = Phase::Open;
                self.meet(segment);
                self.shake(now_ns);
                self.greet = true;
            }
            (Phase::Open, Kind::Syn | Kind::SynAck) => self.greet = true,
            (Phase::Refusing, Kind::Syn | Kind::SynAck | Kind::Data | Kind::Fin) => self.reset_due = true,
            (Phase::SynSent | Phase::SynReceived | Phase::Open, Kind::Reset) => self.end(),
            (Phase::SynReceived | Phase::Open, Kind::Data | Kind::Fin) => {
                if self.phase == Phase::SynReceived {
                    self.phase = Phase::Open;
                    self.shake(now_ns);
                }
                if segment.kind == Kind::Fin {
                    self.ends[1] = Some(segment.seq + u64::from(segment.bytes));
                }
                self.sender.acknowledged_by(segment, now_ns);
                self.receiver.take(segment, marked, now_ns);
            }
            _ => {}
        }
    }

    fn meet(&mut self, segment: &Segment) {
        self.receiver.stamp(segment);
        self.sender.open(0, segment.window);
        self.options.ecn &= segment.echo_congestion;
    }

    /// The round trip of a handshake that was not repeated is the first sample.
    fn shake(&mut self, now_ns: u64) {
        (self.syn_at, self.syn_due) = (None, false);
        if self.syn_tries == 1 {
            self.sender.rtt.sample(now_ns - self.syn_ns);
        }
    }

    /// The next segment to send now; asked until it gives `None`. `room`: whether data may go, acknowledgements
    /// always may.
    pub fn transmit(&mut self, room: bool, now_ns: u64) -> Option<Segment> {
        if self.syn_due {
            return Some(self.handshake(now_ns));
        }
        if std::mem::take(&mut self.reset_due) {
            return Some(Segment { kind: Kind::Reset, ..Segment::default() });
        }
        if !self.is_open() {
            return None;
        }
        let stamped = self.options.timestamps;
        if self.greet {
            self.greet = false;
            return Some(Segment { stamp_ns: now_ns, ..self.receiver.acknowledge(stamped, false, now_ns) });
        }
        let held = self.options.pacing && self.paced_ns > now_ns;
        if room
            && !held
            && let Some(sent) = self.sender.transmit(now_ns)
        {
            let ends = self.ends[0] == Some(sent.seq + u64::from(sent.bytes));
            if self.options.pacing
                && let Some(rate) = self.sender.rate_byte_per_s()
            {
                let gap_ns = u64::from(sent.bytes) * 1_000_000_000 / rate.max(1);
                self.paced_ns = self.paced_ns.max(now_ns) + gap_ns;
            }
            return Some(Segment {
                kind: if ends { Kind::Fin } else { Kind::Data },
                seq: sent.seq,
                bytes: sent.bytes,
                stamp_ns: now_ns,
                window_reduced: self.sender.take_reduced(),
                markable: self.options.ecn,
                ..self.receiver.acknowledge(stamped, true, now_ns)
            });
        }
        if !room || held {
            self.sender.pause();
        }
        self.acknowledgement(now_ns)
    }

    /// An acknowledgement without data, when one is due.
    pub fn acknowledgement(&mut self, now_ns: u64) -> Option<Segment> {
        (self.is_open() && self.receiver.is_due(now_ns)).then(|| self.without_data(now_ns))
    }

    /// What is not acknowledged yet, for something that goes beside the connection and takes it along.
    pub fn acknowledgement_beside(&mut self, now_ns: u64) -> Option<Segment> {
        (self.is_open() && self.receiver.owes()).then(|| self.without_data(now_ns))
    }

    /// An acknowledgement without data.
    fn without_data(&mut self, now_ns: u64) -> Segment {
        let told = self.receiver.acknowledge(self.options.timestamps, false, now_ns);
        Segment { seq: self.sender.acknowledged(), stamp_ns: now_ns, ..told }
    }

    fn handshake(&mut self, now_ns: u64) -> Segment {
        self.syn_due = false;
        self.syn_tries += 1;
        if self.syn_tries == 1 {
            self.syn_ns = now_ns;
        }
        self.syn_at = Some(now_ns + (SYN_TIMEOUT_NS << (self.syn_tries - 1).min(6)));
        let answer = self.phase == Phase::SynReceived;
        let told = self.receiver.acknowledge(self.options.timestamps, false, now_ns);
        // In SYNs the bit says that its sender speaks ECN; the window of a SYN is not scaled.
        Segment {
            kind: if answer { Kind::SynAck } else { Kind::Syn },
            stamp_ns: now_ns,
            echo_congestion: self.options.ecn,
            window: told.window.min(65_535),
            ..told
        }
    }

    /// When something must be done although nothing comes.
    #[must_use]
    pub fn next_ns(&self) -> Option<u64> {
        if matches!(self.phase, Phase::Refusing | Phase::Over) {
            return None;
        }
        let paced = (self.options.pacing && self.paced_ns > 0).then_some(self.paced_ns);
        first([self.syn_at, self.sender.next_ns(), self.receiver.next_ns(), paced])
    }

    /// Time has come to that.
    pub fn alarm(&mut self, now_ns: u64) {
        if self.syn_at.is_some_and(|at| at <= now_ns) {
            self.syn_at = None;
            if self.syn_tries <= SYN_TRIES {
                self.syn_due = true;
            }
        }
        if self.paced_ns <= now_ns {
            self.paced_ns = 0;
        }
        self.sender.alarm(now_ns);
    }
}
