//! HTTP/1.1 (RFC 9112) as a load needs it: GET requests without a body, and the heads of their answers.
//!
//! Bytes in, heads out; no sockets and no time. httparse reads the heads. All that the other end sends is bounded: a
//! head by its octets and fields, and a body is never kept (`answer`). What cannot be read is refused with one reason.

pub mod answer;

use anyhow::{Context, bail, ensure};
use httparse::{EMPTY_HEADER, Header, Status};
use std::net::SocketAddr;

/// Longest head of a request or an answer.
pub const HEAD_MOST_BYTES: usize = 16 << 10;
const FIELDS_MOST: usize = 64;

/// A request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Length of its head; a GET has nothing else.
    pub bytes: usize,
    /// Whether it is a GET.
    pub is_get: bool,
    /// Its target.
    pub path: String,
    /// Whether the connection ends with its answer.
    pub closes: bool,
}

/// How long a body is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// So many octets.
    Length(u64),
    /// As its chunks say.
    Chunks,
    /// Until the connection ends.
    End,
}

/// Head of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Its length.
    pub bytes: usize,
    /// 200 and so on.
    pub status: u16,
    /// Of what follows it.
    pub body: Framing,
    /// Whether the connection ends with it.
    pub closes: bool,
}

/// The octets of a request.
pub fn request(path: &str, host: SocketAddr, keep_alive: bool) -> Vec<u8> {
    let connection = if keep_alive { "" } else { "Connection: close\r\n" };
    format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: virtlab\r\n{connection}\r\n").into_bytes()
}

/// The octets of an answer's head.
pub fn answer_head(status: u16, body_bytes: u64, closes: bool) -> Vec<u8> {
    let phrase = match status {
        200 => "OK",
        404 => "Not Found",
        405 => "Method Not Allowed",
        _ => "Bad Request",
    };
    let connection = if closes { "Connection: close\r\n" } else { "" };
    format!("HTTP/1.1 {status} {phrase}\r\nContent-Length: {body_bytes}\r\n{connection}\r\n").into_bytes()
}

/// The request that these octets begin with; `None` when its head is not whole yet.
///
/// # Errors
/// When they can never become a request that is answered here.
pub fn read_request(octets: &[u8]) -> anyhow::Result<Option<Request>> {
    let mut fields = [EMPTY_HEADER; FIELDS_MOST];
    let mut parsed = httparse::Request::new(&mut fields);
    let Some(bytes) = whole(parsed.parse(octets), octets.len(), "request")? else { return Ok(None) };
    let body = framing(parsed.headers)?.unwrap_or(Framing::Length(0));
    ensure!(body == Framing::Length(0), "the request has a body");
    Ok(Some(Request {
        bytes,
        is_get: parsed.method == Some("GET"),
        path: parsed.path.unwrap_or_default().to_owned(),
        closes: closes(parsed.headers, parsed.version),
    }))
}

/// The head of the answer that these octets begin with; `None` when it is not whole yet.
///
/// # Errors
/// When they can never become an answer.
pub fn read_answer(octets: &[u8]) -> anyhow::Result<Option<Head>> {
    let mut fields = [EMPTY_HEADER; FIELDS_MOST];
    let mut parsed = httparse::Response::new(&mut fields);
    let Some(bytes) = whole(parsed.parse(octets), octets.len(), "answer")? else { return Ok(None) };
    let status = parsed.code.unwrap_or_default();
    ensure!(status != 101, "the answer switches to another protocol, which was not requested");
    let said = framing(parsed.headers)?;
    let body = match status {
        100..=199 | 204 | 304 => Framing::Length(0), // RFC 9112, 6.3
        _ => said.unwrap_or(Framing::End),
    };
    let closes = body == Framing::End || closes(parsed.headers, parsed.version);
    Ok(Some(Head { bytes, status, body, closes }))
}

/// Length of a head that is whole.
fn whole(parsed: httparse::Result<usize>, held: usize, message: &str) -> anyhow::Result<Option<usize>> {
    let bytes = match parsed {
        Ok(Status::Complete(bytes)) => Some(bytes),
        Ok(Status::Partial) => None,
        Err(httparse::Error::TooManyHeaders) => {
            bail!("the head of the {message} has more than {FIELDS_MOST} fields")
        }
        Err(error) => bail!("the head of the {message} cannot be read: {error}"),
    };
    ensure!(
        bytes.unwrap_or(held) <= HEAD_MOST_BYTES && (bytes.is_some() || held < HEAD_MOST_BYTES),
        "the head of the {message} is longer than {HEAD_MOST_BYTES} B"
    );
    Ok(bytes)
}

/// What a head says of its body, if anything; an error when it says several things.
fn framing(fields: &[Header<'_>]) -> anyhow::Result<Option<Framing>> {
    let mut found = None;
    for field in fields {
        let said = if field.name.eq_ignore_ascii_case("Transfer-Encoding") {
            let chunked = field.value.trim_ascii().eq_ignore_ascii_case(b"chunked");
            ensure!(chunked, "the body has a transfer encoding that was not requested");
            Framing::Chunks
        } else if field.name.eq_ignore_ascii_case("Content-Length") {
            let digits = !field.value.is_empty() && field.value.iter().all(u8::is_ascii_digit);
            let said =
                std::str::from_utf8(field.value).ok().filter(|_| digits).and_then(|text| text.parse().ok());
            Framing::Length(said.context("Content-Length is no number")?)
        } else {
            continue;
        };
        ensure!(
            found.is_none_or(|before| before == said),
            "the length of the body is said twice, differently"
        );
        found = Some(said);
    }
    Ok(found)
}

/// Whether the connection ends (RFC 9112, 9.3); HTTP/1.0 ends it always here.
fn closes(fields: &[Header<'_>], version: Option<u8>) -> bool {
    let said = fields.iter().any(|field| {
        field.name.eq_ignore_ascii_case("Connection")
            && field
                .value
                .split(|byte| *byte == b',')
                .any(|word| word.trim_ascii().eq_ignore_ascii_case(b"close"))
    });
    said || version != Some(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn reason(octets: &[u8]) -> String {
        format!("{:#}", read_answer(octets).unwrap_err())
    }

    #[test]
    fn what_a_client_writes_a_server_reads() {
        for keep_alive in [true, false] {
            let octets = request("/a?b=c", "10.0.0.1:80".parse().unwrap(), keep_alive);
            let read = read_request(&octets).unwrap().unwrap();
            let expected =
                Request { bytes: octets.len(), is_get: true, path: "/a?b=c".to_owned(), closes: !keep_alive };
            assert_eq!(read, expected);
            assert!((0..octets.len()).all(|cut| read_request(&octets[..cut]).unwrap().is_none()));
        }
    }

    #[test]
    fn what_a_server_writes_a_client_reads() {
        for (status, closes) in [(200, false), (404, false), (400, true)] {
            let octets = answer_head(status, 1234, closes);
            let expected = Head { bytes: octets.len(), status, body: Framing::Length(1234), closes };
            assert_eq!(read_answer(&octets).unwrap(), Some(expected));
        }
    }

    #[test]
    fn a_head_without_end_is_refused_at_its_bound() {
        let mut octets = b"HTTP/1.1 200 OK\r\nX: ".to_vec();
        octets.resize(HEAD_MOST_BYTES - 1, b'x');
        assert_eq!(read_answer(&octets).unwrap(), None);
        octets.push(b'x');
        assert_eq!(reason(&octets), "the head of the answer is longer than 16384 B");
        let fields = b"HTTP/1.1 200 OK\r\n".iter().copied().chain(b"a: b\r\n".repeat(65)).collect::<Vec<_>>();
        assert_eq!(reason(&fields), "the head of the answer has more than 64 fields");
    }

    #[test]
    fn a_length_that_is_wrong_or_said_twice_is_refused() {
        let head = |fields: &str| format!("HTTP/1.1 200 OK\r\n{fields}\r\n").into_bytes();
        for wrong in ["-1", "+1", "1e3", "", "99999999999999999999"] {
            assert_eq!(reason(&head(&format!("Content-Length: {wrong}\r\n"))), "Content-Length is no number");
        }
        let twice = "the length of the body is said twice, differently";
        assert_eq!(reason(&head("Content-Length: 1\r\ncontent-length: 2\r\n")), twice);
        assert_eq!(reason(&head("Content-Length: 1\r\nTransfer-Encoding: chunked\r\n")), twice);
        let packed = head("Transfer-Encoding: gzip, chunked\r\n");
        assert_eq!(reason(&packed), "the body has a transfer encoding that was not requested");
        assert!(read_request(b"GET / HTTP/1.1\r\nContent-Length: 1\r\n\r\n").is_err());
        assert!(read_request(b"GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n").is_err());
    }

    #[test]
    fn an_answer_without_a_length_ends_with_its_connection_unless_it_has_no_body() {
        let read = |text: &str| read_answer(text.as_bytes()).unwrap().unwrap();
        let none = read("HTTP/1.1 204 No Content\r\n\r\n");
        assert_eq!((none.status, none.body, none.closes), (204, Framing::Length(0), false));
        let open = read("HTTP/1.1 200 OK\r\n\r\n");
        assert_eq!((open.body, open.closes), (Framing::End, true));
        let chunks = read("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
        assert_eq!((chunks.body, chunks.closes), (Framing::Chunks, false));
        assert!(reason(b"HTTP/1.1 101 Switching Protocols\r\n\r\n").starts_with("the answer switches"));
    }

    proptest! {
        #[test]
        fn no_octets_make_it_panic(octets in proptest::collection::vec(any::<u8>(), 0..2000)) {
            let _ = read_request(&octets);
            let _ = read_answer(&octets);
        }
    }
}
