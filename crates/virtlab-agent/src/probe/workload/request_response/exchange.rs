//! A request and its answer on a connection, in the protocol of the role: ours, or HTTP/1.1.

use super::super::http;
use super::message::{self, HEAD, Head, Kind};
use anyhow::{Context, bail, ensure};
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use virtlab_load::parameters::request_response::{Ending, Protocol, RequestResponse as Parameters};

/// Place of the server of a request that none has served.
pub const UNSERVED: i32 = -1;

/// Which answers over HTTP are successful.
#[derive(Clone, Debug)]
pub struct Success {
    pub statuses: RangeInclusive<u16>,
    /// Of their bodies; absent: whatever the service sends.
    pub body_bytes: Option<u64>,
}

/// A whole answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    pub ending: Ending,
    /// Place of the server that served the request, below 0 where none did; absent where the protocol does not say it:
    /// the one that was asked.
    pub server: Option<i32>,
    /// Of what was requested.
    pub bytes: u64,
    /// Whether the connection ends with it.
    pub closes: bool,
}

/// The octets of requests.
pub struct Requests {
    /// To each entry; in our own protocol they are the same to all.
    octets: Vec<Vec<u8>>,
    numbered: bool,
    /// Tries so far.
    count: u64,
}

impl Requests {
    /// To servers there.
    pub fn new(own: &Parameters, peers: impl Iterator<Item = SocketAddr>) -> Self {
        let numbered = own.protocol != Protocol::Http;
        let octets = if numbered {
            vec![vec![0x52; own.request_bytes as usize]]
        } else {
            let path = own.path.as_deref().unwrap_or("/");
            peers.map(|peer| http::request(path, peer, own.keep_alive.unwrap_or(true))).collect()
        };
        Self { octets, numbered, count: 0 }
    }

    /// Of one to an entry.
    pub fn len(&self, entry: usize) -> usize {
        self.octets[if self.numbered { 0 } else { entry }].len()
    }

    /// Of a try that begins.
    pub const fn next_number(&mut self) -> u64 {
        self.count += 1;
        self.count
    }

    /// Those of one request to an entry.
    pub fn numbered(&mut self, number: u64, entry: usize) -> &[u8] {
        if !self.numbered {
            return &self.octets[entry];
        }
        let octets = &mut self.octets[0];
        let head = Head { bytes: octets.len() as u32, kind: Kind::Request, server: 0, number };
        octets[..HEAD].copy_from_slice(&head.octets());
        octets
    }
}

/// An answer of which a part has come.
pub enum Incoming {
    Own(message::Incoming),
    Http(http::answer::Incoming),
}

impl Incoming {
    /// Nothing yet.
    pub fn new(protocol: Protocol) -> Self {
        match protocol {
            Protocol::Tcp | Protocol::Udp => Self::Own(message::Incoming::new()),
            Protocol::Http => Self::Http(http::answer::Incoming::default()),
        }
    }

    /// Takes all octets that came since the request of that number; the answer, once it is whole. An error is the other
    /// end's fault.
    pub fn take(
        &mut self,
        mut octets: &[u8],
        number: Option<u64>,
        own: &Parameters,
        success: &Success,
    ) -> anyhow::Result<Option<Answer>> {
        let rest = &mut octets;
        let whole = match self {
            Self::Own(incoming) => {
                let whole = incoming.take(rest).context("the server answers otherwise")?;
                whole.map(|head| read(head, number, own))
            }
            Self::Http(incoming) => {
                let whole = incoming.take(rest).context("the service answers otherwise")?;
                whole.map(|answer| read_http(answer, number, success))
            }
        };
        ensure!(octets.is_empty(), "octets follow the answer, which has its length already");
        whole.transpose()
    }

    /// The connection has ended; the answer that is whole by that.
    pub fn end(&mut self, number: Option<u64>, success: &Success) -> anyhow::Result<Option<Answer>> {
        match self {
            Self::Own(_) => Ok(None),
            Self::Http(incoming) => {
                incoming.end().map(|answer| read_http(answer, number, success)).transpose()
            }
        }
    }
}

const UNASKED: &str = "an answer came to a request that was not asked on its connection";

/// What an answer says that came to the request of that number.
pub fn read(head: Head, number: Option<u64>, own: &Parameters) -> anyhow::Result<Answer> {
    ensure!(number == Some(head.number), UNASKED);
    let (ending, server) = match head.kind {
        Kind::Response => (Ending::Answered, i32::from(head.server)),
        Kind::Refusal => (Ending::Refused, UNSERVED),
        Kind::BadGateway => (Ending::BadGateway, UNSERVED),
        Kind::Request | Kind::Forward => bail!("a request came where an answer was due"),
    };
    let bytes = u64::from(head.bytes);
    let served = ending == Ending::Answered;
    let wanted = if served { own.response_bytes } else { HEAD as u64 };
    ensure!(
        bytes == wanted || (own.service.is_some() && served),
        "the answer has {bytes} B where {wanted} B were requested"
    );
    Ok(Answer { ending, server: Some(server), bytes, closes: false })
}

fn read_http(answer: http::answer::Answer, number: Option<u64>, success: &Success) -> anyhow::Result<Answer> {
    ensure!(number.is_some(), UNASKED);
    let (bytes, closes) = (answer.body_bytes, answer.closes);
    if !success.statuses.contains(&answer.status) {
        return Ok(Answer { ending: Ending::Failed, server: Some(UNSERVED), bytes, closes });
    }
    let wanted = success.body_bytes.unwrap_or(bytes);
    ensure!(bytes == wanted, "the answer has {bytes} B where {wanted} B were requested");
    Ok(Answer { ending: Ending::Answered, server: None, bytes, closes })
}
