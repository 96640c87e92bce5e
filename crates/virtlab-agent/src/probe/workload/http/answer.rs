//! An answer over HTTP/1.1 on its way in: a head, then a body that is counted and never kept.
//!
//! Bytes in, whole answers out. A body has a length, or chunks with a trailer (RFC 9112, 7.1), or ends with its
//! connection. Interim answers (100 to 199) are read over. httparse reads heads, sizes of chunks and trailers.

use super::{Framing, HEAD_MOST_BYTES, Head, read_answer};
use anyhow::{anyhow, ensure};
use httparse::{EMPTY_HEADER, Status};

/// Fields of a trailer.
const TRAILER_MOST: usize = 64;
const LINE_END: &[u8] = b"\r\n";

/// A whole answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// 200 and so on.
    pub status: u16,
    /// Of the body, its chunks' heads not included.
    pub body_bytes: u64,
    /// Whether the connection ends with it.
    pub closes: bool,
}

/// What comes next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Part {
    #[default]
    Head,
    /// The rest of a body of known length.
    Body(u64),
    /// The rest of a body that ends with its connection.
    Open,
    /// How long the next chunk is.
    Size,
    /// The rest of a chunk.
    Chunk(u64),
    /// What ends a chunk.
    ChunkEnd,
    Trailer,
}

/// An answer of which a part has come.
#[derive(Debug, Default)]
pub struct Incoming {
    /// Octets of a head, of a chunk's size or of a trailer that are not whole yet.
    partial: Vec<u8>,
    head: Option<Head>,
    part: Part,
    body_bytes: u64,
}

impl Incoming {
    /// Takes octets from the front; the answer that they complete, after which the next one begins.
    ///
    /// # Errors
    /// When they can never become an answer; that is the other end's fault.
    pub fn take(&mut self, octets: &mut &[u8]) -> anyhow::Result<Option<Answer>> {
        loop {
            let next = match self.part {
                Part::Head => match self.gather(octets, read_answer, |head| head.bytes)? {
                    None => return Ok(None),
                    Some(head) if head.status < 200 => Part::Head,
                    Some(head) => {
                        self.head = Some(head);
                        match head.body {
                            Framing::Length(bytes) => Part::Body(bytes),
                            Framing::Chunks => Part::Size,
                            Framing::End => Part::Open,
                        }
                    }
                },
                Part::Body(0) => return Ok(Some(self.whole())),
                Part::Body(left) => match self.skip(octets, left) {
                    0 => Part::Body(0),
                    left => {
                        self.part = Part::Body(left);
                        return Ok(None);
                    }
                },
                Part::Open => {
                    self.skip(octets, u64::MAX);
                    return Ok(None);
                }
                Part::Size => match self.gather(octets, read_size, |(bytes, _)| *bytes)? {
                    None => return Ok(None),
                    Some((_, 0)) => Part::Trailer,
                    Some((_, size)) => Part::Chunk(size),
                },
                Part::Chunk(left) => match self.skip(octets, left) {
                    0 => Part::ChunkEnd,
                    left => {
                        self.part = Part::Chunk(left);
                        return Ok(None);
                    }
                },
                Part::ChunkEnd => match self.gather(octets, read_chunk_end, |bytes| *bytes)? {
                    None => return Ok(None),
                    Some(_) => Part::Size,
                },
                Part::Trailer => match self.gather(octets, read_trailer, |bytes| *bytes)? {
                    None => return Ok(None),
                    Some(_) => Part::Body(0),
                },
            };
            self.part = next;
        }
    }

    /// The connection has ended; the answer that is whole by that.
    pub fn end(&mut self) -> Option<Answer> {
        (self.part == Part::Open).then(|| self.whole())
    }

    fn whole(&mut self) -> Answer {
        let head = self.head.take().expect("a body follows a head");
        let answer = Answer { status: head.status, body_bytes: self.body_bytes, closes: head.closes };
        (self.part, self.body_bytes) = (Part::Head, 0);
        answer
    }

    /// Counts octets of a body; how many are still to come.
    fn skip(&mut self, octets: &mut &[u8], left: u64) -> u64 {
        let part = usize::try_from(left).unwrap_or(usize::MAX).min(octets.len());
        *octets = &octets[part..];
        self.body_bytes += part as u64;
        left - part as u64
    }

    /// Reads something of bounded length that may have come in pieces; `length` says how long it was.
    fn gather<T>(
        &mut self,
        octets: &mut &[u8],
        read: impl Fn(&[u8]) -> anyhow::Result<Option<T>>,
        length: impl Fn(&T) -> usize,
    ) -> anyhow::Result<Option<T>> {
        if self.partial.is_empty() {
            if let Some(found) = read(octets)? {
                *octets = &octets[length(&found)..];
                return Ok(Some(found));
            }
            self.partial.extend_from_slice(octets); // shorter than what `read` refuses
            *octets = &[];
            return Ok(None);
        }
        let before = self.partial.len();
        let part = octets.len().min(HEAD_MOST_BYTES - before);
        self.partial.extend_from_slice(&octets[..part]);
        let found = read(&self.partial)?;
        *octets = match &found {
            None => &octets[part..],
            Some(found) => &octets[length(found) - before..],
        };
        if found.is_some() {
            self.partial.clear();
        }
        Ok(found)
    }
}

/// Of a part that is not whole: whether it may become longer.
fn bounded<T>(parsed: Option<T>, held: usize, part: &str) -> anyhow::Result<Option<T>> {
    ensure!(parsed.is_some() || held < HEAD_MOST_BYTES, "{part} is longer than {HEAD_MOST_BYTES} B");
    Ok(parsed)
}

/// Length of what says the size of a chunk, and that size.
fn read_size(octets: &[u8]) -> anyhow::Result<Option<(usize, u64)>> {
    match httparse::parse_chunk_size(octets) {
        Ok(Status::Complete(found)) => Ok(Some(found)),
        Ok(Status::Partial) => bounded(None, octets.len(), "the size of a chunk"),
        Err(_) => Err(anyhow!("the size of a chunk cannot be read")),
    }
}

fn read_chunk_end(octets: &[u8]) -> anyhow::Result<Option<usize>> {
    let known = octets.len().min(LINE_END.len());
    ensure!(octets[..known] == LINE_END[..known], "a chunk is longer than its size says");
    Ok((known == LINE_END.len()).then_some(known))
}

/// Length of the fields behind the last chunk, with the empty line.
fn read_trailer(octets: &[u8]) -> anyhow::Result<Option<usize>> {
    let mut fields = [EMPTY_HEADER; TRAILER_MOST];
    match httparse::parse_headers(octets, &mut fields) {
        Ok(Status::Complete((bytes, _))) => Ok(Some(bytes)),
        Ok(Status::Partial) => bounded(None, octets.len(), "the trailer of the answer"),
        Err(error) => Err(anyhow!("the trailer of the answer cannot be read: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const STREAM: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello\
        HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n\
        HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;x=y\r\nhello\r\n1a\r\nabcdefghijklmnopqrstuvwxyz\r\n\
        0\r\nExpires: never\r\n\r\n\
        HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n\
        HTTP/1.1 200 OK\r\n\r\nuntil the end";

    fn answer(status: u16, body_bytes: u64, closes: bool) -> Answer {
        Answer { status, body_bytes, closes }
    }

    #[test]
    fn answers_come_whole_however_they_are_cut() {
        let expected =
            [answer(200, 5, false), answer(200, 31, false), answer(503, 0, true), answer(200, 13, true)];
        for piece in 1..=STREAM.len() {
            let (mut incoming, mut came) = (Incoming::default(), Vec::new());
            for mut octets in STREAM.chunks(piece) {
                while !octets.is_empty() {
                    came.extend(incoming.take(&mut octets).unwrap());
                }
            }
            came.extend(incoming.end());
            assert_eq!(came, expected, "in pieces of {piece}");
        }
    }

    #[test]
    fn a_connection_that_ends_within_an_answer_completes_none() {
        for cut in [10, 40, 110, 150] {
            let mut incoming = Incoming::default();
            let mut octets = &STREAM[..cut];
            while !octets.is_empty() {
                incoming.take(&mut octets).unwrap();
            }
            assert_eq!(incoming.end(), None, "after {cut} B");
        }
    }

    #[test]
    fn chunks_that_cannot_be_read_are_refused_with_one_reason() {
        let reason = |body: &[u8]| {
            let text = [b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", body].concat();
            let mut octets = &text[..];
            format!("{:#}", Incoming::default().take(&mut octets).unwrap_err())
        };
        assert_eq!(reason(b"x\r\n"), "the size of a chunk cannot be read");
        assert_eq!(reason(b"1\r\nabc"), "a chunk is longer than its size says");
        let endless = [b"0\r\nA: ", &vec![b'x'; HEAD_MOST_BYTES][..]].concat();
        assert_eq!(reason(&endless), "the trailer of the answer is longer than 16384 B");
    }

    proptest! {
        #[test]
        fn no_octets_make_it_panic(pieces in proptest::collection::vec(
            prop_oneof![proptest::collection::vec(any::<u8>(), 0..300), Just(STREAM.to_vec())], 0..8,
        )) {
            let mut incoming = Incoming::default();
            for piece in &pieces {
                let mut octets = &piece[..];
                while !octets.is_empty() {
                    if incoming.take(&mut octets).is_err() {
                        return Ok(());
                    }
                }
            }
            incoming.end();
        }
    }
}
