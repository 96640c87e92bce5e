//! Requests and responses on a connection: a head of 16 octets that says how long the message is, then octets without a
//! meaning.

use virtlab_load::parameters::MOST_BYTES;
use virtlab_load::parameters::request_response::HEADER_BYTES;

/// Octets of a head.
pub const HEAD: usize = HEADER_BYTES as usize;

/// Which way a message goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// To the server.
    Request,
    /// Back, with what was requested.
    Response,
    /// Back, without it.
    Refusal,
    /// A request, from a passive server to its active one: several on a connection, answered in any order.
    Forward,
    /// Back, from a passive server that had no answer of its active one.
    BadGateway,
}

const KINDS: [(Kind, [u8; 2]); 5] = [
    (Kind::Request, *b"rq"),
    (Kind::Response, *b"rs"),
    (Kind::Refusal, *b"no"),
    (Kind::Forward, *b"fw"),
    (Kind::BadGateway, *b"bg"),
];

/// What a head says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Of the message, this head included.
    pub bytes: u32,
    pub kind: Kind,
    /// Place of the server that answers.
    pub server: u16,
    /// Of the request; its answer has the same.
    pub number: u64,
}

impl Head {
    /// In network order.
    pub fn octets(&self) -> [u8; HEAD] {
        let mut octets = [0; HEAD];
        octets[..4].copy_from_slice(&self.bytes.to_be_bytes());
        octets[4..6].copy_from_slice(&KINDS[self.kind as usize].1);
        octets[6..8].copy_from_slice(&self.server.to_be_bytes());
        octets[8..].copy_from_slice(&self.number.to_be_bytes());
        octets
    }

    /// Of a message that is one datagram of that length, which begins so.
    pub fn of_datagram(octets: &[u8], length: usize) -> Option<Self> {
        let head = Self::read(octets.first_chunk()?)?;
        (head.bytes as usize == length).then_some(head)
    }

    fn read(octets: &[u8; HEAD]) -> Option<Self> {
        let kind = KINDS.iter().find(|(_, word)| *word == octets[4..6])?.0;
        let [a, b, c, d, _, _, e, f, number @ ..] = *octets;
        let head = Self {
            bytes: u32::from_be_bytes([a, b, c, d]),
            kind,
            server: u16::from_be_bytes([e, f]),
            number: u64::from_be_bytes(number),
        };
        (HEADER_BYTES..=MOST_BYTES).contains(&u64::from(head.bytes)).then_some(head)
    }
}

/// What came is no message.
#[derive(Debug, PartialEq, Eq)]
pub struct Garbled;

impl std::fmt::Display for Garbled {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("what came is not the head of a message of this protocol")
    }
}

impl std::error::Error for Garbled {}

/// A message on its way in; its body is counted and not kept.
#[derive(Clone, Debug)]
pub struct Incoming {
    octets: [u8; HEAD],
    filled: usize,
    head: Option<Head>,
    left: usize,
}

impl Incoming {
    /// Nothing yet.
    pub const fn new() -> Self {
        Self { octets: [0; HEAD], filled: 0, head: None, left: 0 }
    }

    /// Takes octets from the front; the head of the message that they complete, after which the next one begins.
    pub fn take(&mut self, octets: &mut &[u8]) -> Result<Option<Head>, Garbled> {
        let head = match self.head {
            Some(head) => head,
            None => {
                let part = octets.len().min(HEAD - self.filled);
                self.octets[self.filled..self.filled + part].copy_from_slice(&octets[..part]);
                self.filled += part;
                *octets = &octets[part..];
                if self.filled < HEAD {
                    return Ok(None);
                }
                let head = Head::read(&self.octets).ok_or(Garbled)?;
                (self.head, self.left) = (Some(head), head.bytes as usize - HEAD);
                head
            }
        };
        let part = octets.len().min(self.left);
        self.left -= part;
        *octets = &octets[part..];
        if self.left > 0 {
            return Ok(None);
        }
        *self = Self::new();
        Ok(Some(head))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(bytes: u32, kind: Kind) -> Head {
        Head { bytes, kind, server: 3, number: 1 << 40 }
    }

    #[test]
    fn messages_come_whole_however_they_are_cut() {
        let kinds = [Kind::Request, Kind::Refusal, Kind::Response, Kind::Forward, Kind::BadGateway];
        let sent = [40, 16, 17, 64, 16].into_iter().zip(kinds).map(|(bytes, kind)| head(bytes, kind));
        let sent: Vec<Head> = sent.collect();
        let mut stream = Vec::new();
        for one in &sent {
            stream.extend_from_slice(&one.octets());
            stream.resize(stream.len() + one.bytes as usize - HEAD, 0x72);
        }
        for piece in 1..stream.len() {
            let (mut incoming, mut came) = (Incoming::new(), Vec::new());
            for mut octets in stream.chunks(piece) {
                while !octets.is_empty() {
                    came.extend(incoming.take(&mut octets).unwrap());
                }
            }
            assert_eq!(came, sent, "in pieces of {piece}");
        }
    }

    #[test]
    fn a_datagram_is_one_whole_message() {
        let sent = head(40, Kind::Request);
        let octets = [&sent.octets()[..], &[0; 24]].concat();
        assert_eq!(Head::of_datagram(&octets, 40), Some(sent));
        assert_eq!(Head::of_datagram(&octets[..HEAD], 40), Some(sent), "of which the beginning was kept");
        assert_eq!(Head::of_datagram(&octets, 41), None);
        assert_eq!(Head::of_datagram(&octets[..10], 10), None);
    }

    #[test]
    fn what_is_no_head_is_refused() {
        let take = |octets: [u8; HEAD]| Incoming::new().take(&mut &octets[..]);
        assert_eq!(take([0x41; HEAD]), Err(Garbled));
        assert_eq!(take(head(15, Kind::Request).octets()), Err(Garbled));
        assert_eq!(take(head(u32::MAX, Kind::Request).octets()), Err(Garbled));
    }
}
