//! One stream of frames over connections that break: what was not received is sent again, and nothing arrives twice.
//!
//! Each side counts the frames that it received, and tells the count now and then in a **note**: a control frame on
//! [`NOTE_CHANNEL`], itself not counted. A sender keeps every frame until a note covers it. On a new connection
//! each side tells its count first, and nothing else until it has the other's; then it continues with the first
//! frame that the other lacks. What one connection delivers is whole and in order (ssh over TCP), so a count says
//! which frames those were.
//!
//! No clock and no I/O: frames in, bytes out; bytes in, frames out.

use crate::frame::{Decoder, Frame, FrameError, Kind, encode};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use thiserror::Error;

/// The channel of notes; no agent has it.
pub const NOTE_CHANNEL: u16 = u16::MAX;
/// Bytes that may be kept before a sender should wait.
pub const MOST_KEPT_BYTES: usize = 4 << 20;
/// A note is due after so many frames, or so many bytes of them.
const NOTE_FRAMES: u64 = 32;
const NOTE_BYTES: usize = 64 << 10;

/// What the two sides tell each other.
#[derive(Debug, Serialize, Deserialize)]
struct Note {
    /// Frames received so far, over all connections.
    received: u64,
    /// The process that a new connection is to be joined to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    process: Option<u32>,
}

/// The other side is not the one that was spoken with before.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum LineError {
    /// It claims frames that were never sent, or lacks some that it had confirmed.
    #[error("the other side counts {reported} frames, {confirmed} to {sent} are possible")]
    Count {
        /// How many it reports.
        reported: u64,
        /// What it had confirmed.
        confirmed: u64,
        /// What was sent.
        sent: u64,
    },
    /// Its note is malformed.
    #[error("a note that cannot be read: {0}")]
    Note(String),
}

/// One side of the stream.
#[derive(Debug, Default)]
pub struct Line {
    decoder: Decoder,
    stray_bytes: u64,
    noise_bytes: u64,
    received: u64,
    reported: u64,
    untold_bytes: usize,
    sent: u64,
    unconfirmed: VecDeque<Vec<u8>>,
    kept_bytes: usize,
    joined: bool,
    out: Vec<u8>,
    process: Option<u32>,
    far_process: Option<u32>,
}

impl Line {
    /// A side that has not spoken yet; `process` is sent to the other.
    #[must_use]
    pub fn new(process: Option<u32>) -> Self {
        Self { process, ..Self::default() }
    }

    /// The connection is gone: what is sent from now on is kept for the next.
    pub fn disconnect(&mut self) {
        self.stray_bytes += self.decoder.stray_bytes();
        self.noise_bytes += self.decoder.noise_bytes();
        self.decoder = Decoder::new();
        self.joined = false;
        self.out.clear();
    }

    /// A new connection is there: what the last one had not delivered is not lost.
    pub fn connect(&mut self) {
        self.disconnect();
        self.note();
    }

    /// Whether both sides know on this connection what the other has.
    #[must_use]
    pub fn joined(&self) -> bool {
        self.joined
    }

    /// The process that the other side told.
    #[must_use]
    pub fn far_process(&self) -> Option<u32> {
        self.far_process
    }

    /// Whether so much is kept that a sender should wait.
    #[must_use]
    pub fn full(&self) -> bool {
        self.kept_bytes > MOST_KEPT_BYTES
    }

    /// Bytes so far that belonged to no valid frame.
    #[must_use]
    pub fn stray_bytes(&self) -> u64 {
        self.stray_bytes + self.decoder.stray_bytes()
    }

    /// What passing over cost so far, see [`Decoder::noise_bytes`].
    #[must_use]
    pub fn noise_bytes(&self) -> u64 {
        self.noise_bytes + self.decoder.noise_bytes()
    }

    /// Takes a frame to be sent, now or on the next connection.
    ///
    /// # Errors
    /// [`FrameError`] when its body is too long.
    pub fn send(&mut self, channel: u16, kind: Kind, body: &[u8]) -> Result<(), FrameError> {
        let mut bytes = Vec::new();
        encode(channel, kind, body, &mut bytes)?;
        self.send_encoded(bytes);
        Ok(())
    }

    /// Takes one frame that is encoded already.
    pub fn send_encoded(&mut self, bytes: Vec<u8>) {
        if self.joined {
            self.out.extend_from_slice(&bytes);
        }
        self.sent += 1;
        self.kept_bytes += bytes.len();
        self.unconfirmed.push_back(bytes);
    }

    /// What is to be written on this connection now.
    pub fn take_out(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.out)
    }

    /// Takes bytes from this connection.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.decoder.feed(bytes);
    }

    /// The next frame of the other side, each exactly once; `None` until more bytes come.
    ///
    /// # Errors
    /// [`LineError`] when the other side is not the one that was spoken with.
    pub fn next_frame(&mut self) -> Result<Option<Frame>, LineError> {
        while let Some(frame) = self.decoder.next_frame() {
            if frame.channel == NOTE_CHANNEL {
                self.hear(&frame.body)?;
                continue;
            }
            self.received += 1;
            self.untold_bytes += frame.body.len();
            if self.received - self.reported >= NOTE_FRAMES || self.untold_bytes >= NOTE_BYTES {
                self.note();
            }
            return Ok(Some(frame));
        }
        Ok(None)
    }

    fn note(&mut self) {
        let note = Note { received: self.received, process: self.process };
        let body = serde_json::to_vec(&note).expect("two numbers are JSON");
        encode(NOTE_CHANNEL, Kind::Control, &body, &mut self.out).expect("a note is short");
        self.reported = self.received;
        self.untold_bytes = 0;
    }

    /// The other side has so many frames: those are kept no longer, and on a new connection the rest goes out again.
    fn hear(&mut self, body: &[u8]) -> Result<(), LineError> {
        let note: Note = serde_json::from_slice(body).map_err(|error| LineError::Note(error.to_string()))?;
        let confirmed = self.sent - self.unconfirmed.len() as u64;
        if !(confirmed..=self.sent).contains(&note.received) {
            return Err(LineError::Count { reported: note.received, confirmed, sent: self.sent });
        }
        for bytes in self.unconfirmed.drain(..(note.received - confirmed) as usize) {
            self.kept_bytes -= bytes.len();
        }
        self.far_process = note.process.or(self.far_process);
        if !self.joined {
            self.joined = true;
            self.unconfirmed.iter().for_each(|bytes| self.out.extend_from_slice(bytes));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn heard(line: &mut Line) -> Vec<Vec<u8>> {
        std::iter::from_fn(|| line.next_frame().unwrap()).map(|frame| frame.body).collect()
    }

    #[test]
    fn nothing_is_sent_before_the_other_side_told_what_it_has() {
        let mut here = Line::new(Some(7));
        here.send(0, Kind::Control, b"first").unwrap();
        assert!(here.take_out().is_empty());
        here.connect();
        let mut there = Line::new(None);
        there.connect();
        there.feed(&here.take_out());
        assert!(heard(&mut there).is_empty());
        assert_eq!((there.joined(), there.far_process()), (true, Some(7)));
        here.feed(&there.take_out());
        assert!(heard(&mut here).is_empty());
        there.feed(&here.take_out());
        assert_eq!(heard(&mut there), [b"first".to_vec()]);
    }

    #[test]
    fn a_banner_before_the_first_note_is_passed_over_and_counted() {
        let mut line = Line::default();
        let mut other = Line::default();
        other.connect();
        line.connect();
        line.feed(b"Welcome to this host.\n");
        line.feed(&other.take_out());
        assert!(heard(&mut line).is_empty());
        assert_eq!((line.joined(), line.stray_bytes()), (true, 22));
    }

    #[test]
    fn a_side_that_never_heard_of_us_is_refused() {
        let (mut here, mut there, mut stranger) = (Line::default(), Line::default(), Line::default());
        here.connect();
        there.connect();
        here.feed(&there.take_out());
        heard(&mut here);
        (0..NOTE_FRAMES).for_each(|_| here.send(0, Kind::Control, b"{}").unwrap());
        there.feed(&here.take_out());
        assert_eq!(heard(&mut there).len(), NOTE_FRAMES as usize);
        here.feed(&there.take_out());
        heard(&mut here);
        stranger.connect();
        here.connect();
        here.feed(&stranger.take_out());
        let refused = LineError::Count { reported: 0, confirmed: NOTE_FRAMES, sent: NOTE_FRAMES };
        assert_eq!(here.next_frame(), Err(refused));
    }

    #[test]
    fn what_is_confirmed_is_kept_no_longer() {
        let (mut here, mut there) = (Line::default(), Line::default());
        here.connect();
        there.connect();
        here.feed(&there.take_out());
        heard(&mut here);
        let body = vec![1; 1 << 20];
        let mut given = 0;
        while !here.full() {
            here.send(3, Kind::Block, &body).unwrap();
            given += 1;
        }
        there.feed(&here.take_out());
        assert_eq!(heard(&mut there).len(), given);
        here.feed(&there.take_out());
        heard(&mut here);
        assert_eq!((here.full(), here.unconfirmed.len(), here.kept_bytes), (false, 0, 0));
    }

    /// What happens next to two sides and the connection between them.
    #[derive(Clone, Debug)]
    enum Step {
        Send(bool, usize),
        Carry(bool, usize),
        Cut,
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            4 => (any::<bool>(), 0usize..3000).prop_map(|(who, size)| Step::Send(who, size)),
            6 => (any::<bool>(), 1usize..6000).prop_map(|(who, bytes)| Step::Carry(who, bytes)),
            1 => Just(Step::Cut),
        ];
        prop::collection::vec(step, 0..200)
    }

    /// Two sides, what each was given, what each has heard, and the bytes on their way.
    #[derive(Default)]
    struct Pair {
        sides: [Line; 2],
        given: [Vec<Vec<u8>>; 2],
        heard: [Vec<Vec<u8>>; 2],
        wire: [VecDeque<u8>; 2],
    }

    impl Pair {
        fn cut(&mut self) {
            self.wire = Default::default();
            self.sides.iter_mut().for_each(Line::connect);
        }

        /// Moves up to `bytes` from one side to the other.
        fn carry(&mut self, from: usize, bytes: usize) -> usize {
            let out = self.sides[from].take_out();
            self.wire[from].extend(out);
            let count = bytes.min(self.wire[from].len());
            let moved: Vec<u8> = self.wire[from].drain(..count).collect();
            self.sides[1 - from].feed(&moved);
            let heard = heard(&mut self.sides[1 - from]);
            self.heard[1 - from].extend(heard);
            count
        }
    }

    proptest! {
        #[test]
        fn whatever_is_cut_everything_arrives_once_and_in_order(steps in steps()) {
            let mut pair = Pair::default();
            pair.cut();
            for step in steps {
                match step {
                    Step::Send(who, size) => {
                        let who = usize::from(who);
                        let mut body = pair.given[who].len().to_le_bytes().to_vec();
                        body.resize(8 + size, 0x5a);
                        pair.sides[who].send(1, Kind::Data, &body).unwrap();
                        pair.given[who].push(body);
                    }
                    Step::Carry(who, bytes) => { pair.carry(usize::from(who), bytes); }
                    Step::Cut => pair.cut(),
                }
            }
            while pair.carry(0, 1 << 20) + pair.carry(1, 1 << 20) > 0 {}
            prop_assert_eq!(&pair.heard[1], &pair.given[0]);
            prop_assert_eq!(&pair.heard[0], &pair.given[1]);
            prop_assert!(pair.sides.iter().all(|side| side.unconfirmed.len() < NOTE_FRAMES as usize));
        }
    }
}
