//! Frames of the agent protocol over any byte stream.
//!
//! ```text
//! magic "VLAB" | body length u32 | channel u16 | flags u16 | CRC32C u32 of the 12 bytes before it and the body | body
//! ```
//! Little endian, body at most 1 MiB. A stream may carry stray bytes (ssh banners, console noise): the decoder searches
//! for the next magic whose header and checksum agree, and counts what it passed over. A sender may mean ill: a magic
//! with a false length costs a checksum over what follows, so the bytes that were summed in vain count as noise too,
//! and an owner that hears more noise than there is reason for turns away.

use thiserror::Error;

/// First bytes of a frame.
pub const MAGIC: [u8; 4] = *b"VLAB";
/// Bytes before the body.
pub const HEADER_BYTES: usize = 16;
/// Largest body.
pub const MAXIMUM_BODY_BYTES: usize = 1 << 20;
/// Noise beyond which a stream that should carry frames carries none.
pub const MOST_NOISE_BYTES: u64 = 1 << 20;
/// So many bytes are summed in the time in which one is passed over.
const SUMMED_PER_NOISE: u64 = 64;

/// What a body holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum Kind {
    /// One JSON message.
    Control = 0,
    /// One columnar block, see [`crate::block`].
    Block = 1,
    /// Bytes of an open stream (console, tunnel, file).
    Data = 2,
}

/// A whole frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Which agent or stream behind the connection it is for; 0 is the peer itself.
    pub channel: u16,
    /// What the body holds.
    pub kind: Kind,
    /// The body.
    pub body: Vec<u8>,
}

/// A frame that cannot be sent.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum FrameError {
    /// The body exceeds [`MAXIMUM_BODY_BYTES`].
    #[error("a frame body holds at most {MAXIMUM_BODY_BYTES} bytes, this one has {0}")]
    TooLong(usize),
}

impl Frame {
    /// Appends the encoded frame to `out`.
    ///
    /// # Errors
    /// [`FrameError::TooLong`].
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<(), FrameError> {
        encode(self.channel, self.kind, &self.body, out)
    }
}

/// Appends one frame to `out` without copying its body twice.
///
/// # Errors
/// [`FrameError::TooLong`].
pub fn encode(channel: u16, kind: Kind, body: &[u8], out: &mut Vec<u8>) -> Result<(), FrameError> {
    if body.len() > MAXIMUM_BODY_BYTES {
        return Err(FrameError::TooLong(body.len()));
    }
    let start = out.len();
    out.reserve(HEADER_BYTES + body.len());
    out.extend_from_slice(&MAGIC);
    out.extend_from_slice(&(body.len() as u32).to_le_bytes());
    out.extend_from_slice(&channel.to_le_bytes());
    out.extend_from_slice(&(kind as u16).to_le_bytes());
    let checksum = crc32c::crc32c_append(crc32c::crc32c(&out[start..]), body);
    out.extend_from_slice(&checksum.to_le_bytes());
    out.extend_from_slice(body);
    Ok(())
}

/// Splits a byte stream into frames; give it bytes as they come.
#[derive(Debug, Default)]
pub struct Decoder {
    buffer: Vec<u8>,
    start: usize,
    stray_bytes: u64,
    vain_bytes: u64,
}

impl Decoder {
    /// An empty decoder.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes bytes from the stream.
    pub fn feed(&mut self, bytes: &[u8]) {
        if self.start > 0 && self.start >= self.buffer.len() / 2 {
            self.buffer.drain(..self.start);
            self.start = 0;
        }
        self.buffer.extend_from_slice(bytes);
    }

    /// Bytes passed over so far because they belonged to no valid frame.
    #[must_use]
    pub fn stray_bytes(&self) -> u64 {
        self.stray_bytes
    }

    /// What passing over cost so far, as bytes: those that belonged to no frame, and a share of those summed for none.
    #[must_use]
    pub fn noise_bytes(&self) -> u64 {
        self.stray_bytes + self.vain_noise_bytes()
    }

    /// The share of the noise that false lengths made, where whatever is no frame is words.
    #[must_use]
    pub fn vain_noise_bytes(&self) -> u64 {
        self.vain_bytes / SUMMED_PER_NOISE
    }

    /// Bytes held that are no whole frame yet.
    #[must_use]
    pub fn pending_bytes(&self) -> usize {
        self.buffer.len() - self.start
    }

    /// The next whole frame, or `None` until more bytes come.
    pub fn next_frame(&mut self) -> Option<Frame> {
        loop {
            let rest = &self.buffer[self.start..];
            let skip = magic_offset(rest);
            self.stray_bytes += skip as u64;
            self.start += skip;
            let rest = &self.buffer[self.start..];
            if rest.len() < HEADER_BYTES {
                return None;
            }
            let length = u32::from_le_bytes([rest[4], rest[5], rest[6], rest[7]]) as usize;
            let kind = match u16::from_le_bytes([rest[10], rest[11]]) {
                0 => Kind::Control,
                1 => Kind::Block,
                2 => Kind::Data,
                _ => {
                    self.pass_over_magic();
                    continue;
                }
            };
            if length > MAXIMUM_BODY_BYTES {
                self.pass_over_magic();
                continue;
            }
            if rest.len() < HEADER_BYTES + length {
                return None;
            }
            let body = &rest[HEADER_BYTES..HEADER_BYTES + length];
            let stated = u32::from_le_bytes([rest[12], rest[13], rest[14], rest[15]]);
            if crc32c::crc32c_append(crc32c::crc32c(&rest[..12]), body) != stated {
                self.vain_bytes += length as u64;
                self.pass_over_magic();
                continue;
            }
            let frame = Frame { channel: u16::from_le_bytes([rest[8], rest[9]]), kind, body: body.to_vec() };
            self.start += HEADER_BYTES + length;
            return Some(frame);
        }
    }

    fn pass_over_magic(&mut self) {
        self.start += 1;
        self.stray_bytes += 1;
    }
}

/// Where the next magic, or a beginning of one at the end, stands.
fn magic_offset(bytes: &[u8]) -> usize {
    (0..bytes.len())
        .find(|&at| {
            let window = &bytes[at..bytes.len().min(at + MAGIC.len())];
            window == &MAGIC[..window.len()]
        })
        .unwrap_or(bytes.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn frame(channel: u16, body: &[u8]) -> Frame {
        Frame { channel, kind: Kind::Control, body: body.to_vec() }
    }

    fn bytes_of(frame: &Frame) -> Vec<u8> {
        let mut out = Vec::new();
        frame.encode(&mut out).unwrap();
        out
    }

    #[test]
    fn a_frame_survives_stray_bytes_around_it() {
        let wanted = frame(3, b"{\"id\":1}");
        let mut decoder = Decoder::new();
        decoder.feed(b"Welcome to the host\nVLAVLABxx");
        decoder.feed(&bytes_of(&wanted));
        decoder.feed(b"noise");
        // The false magic claims a length that the following frame seems to fill: it is dropped once its checksum
        // fails.
        for _ in 0..40 {
            decoder.feed(&[0; 1 << 16]);
        }
        assert_eq!(decoder.next_frame(), Some(wanted));
    }

    #[test]
    fn a_flipped_bit_loses_that_frame_and_no_other() {
        let mut bytes = bytes_of(&frame(0, b"first"));
        bytes[HEADER_BYTES] ^= 1;
        bytes.extend(bytes_of(&frame(0, b"second")));
        let mut decoder = Decoder::new();
        decoder.feed(&bytes);
        assert_eq!(decoder.next_frame(), Some(frame(0, b"second")));
        assert_eq!(decoder.stray_bytes(), 21);
    }

    #[test]
    fn false_lengths_count_as_noise_by_what_they_cost() {
        let mut head = MAGIC.to_vec();
        let length = MAXIMUM_BODY_BYTES / 2;
        head.extend_from_slice(&(length as u32).to_le_bytes());
        head.extend_from_slice(&[0; 8]);
        let mut decoder = Decoder::new();
        decoder.feed(&head.repeat(200));
        decoder.feed(&vec![b'V'; length]);
        assert_eq!(decoder.next_frame(), None);
        assert!(decoder.noise_bytes() > MOST_NOISE_BYTES && decoder.stray_bytes() < MOST_NOISE_BYTES);
    }

    #[test]
    fn too_long_a_body_is_refused() {
        let body = vec![0; MAXIMUM_BODY_BYTES + 1];
        assert_eq!(encode(0, Kind::Data, &body, &mut Vec::new()), Err(FrameError::TooLong(body.len())));
    }

    proptest! {
        #[test]
        fn frames_come_out_as_they_went_in_however_the_stream_is_cut(
            bodies in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 0..8),
            cut in 1usize..50,
        ) {
            let frames: Vec<Frame> = bodies.iter().enumerate().map(|(i, body)| frame(i as u16, body)).collect();
            let stream: Vec<u8> = frames.iter().flat_map(bytes_of).collect();
            let mut decoder = Decoder::new();
            let mut seen = Vec::new();
            for piece in stream.chunks(cut) {
                decoder.feed(piece);
                while let Some(frame) = decoder.next_frame() {
                    seen.push(frame);
                }
            }
            prop_assert_eq!(seen, frames);
            prop_assert_eq!(decoder.stray_bytes(), 0);
        }

        #[test]
        fn no_bytes_make_the_decoder_panic(bytes in prop::collection::vec(any::<u8>(), 0..2000)) {
            let mut decoder = Decoder::new();
            decoder.feed(&bytes);
            while decoder.next_frame().is_some() {}
        }
    }
}
