//! What is polled: a page of a server, at an address and never a name, or a regular file. Both are bounded.

use crate::probe::{Framing, read_answer};
use anyhow::{Context, bail, ensure};
use std::fs::OpenOptions;
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// What a poll finds at most.
const MOST_BYTES: usize = 1 << 20;
const PAGES: &str = "http://";

/// One of them, and how often it is asked.
#[derive(Debug)]
pub struct Source {
    pub every: Duration,
    place: Place,
}

#[derive(Debug, PartialEq, Eq)]
enum Place {
    Page { server: SocketAddr, path: String },
    File(PathBuf),
}

impl Source {
    /// Of the words of a command line.
    ///
    /// # Errors
    /// When they name no source.
    pub fn parse(every_ns: &str, address: &str) -> anyhow::Result<Source> {
        let every_ns: u64 =
            every_ns.parse().with_context(|| format!("'{every_ns}' is not a valid interval"))?;
        ensure!(every_ns > 0, "an interval of nothing");
        let place = match address.strip_prefix(PAGES) {
            Some(rest) => {
                let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
                let path = if path.is_empty() { "/" } else { path };
                Place::Page { server: server(authority)?, path: path.to_owned() }
            }
            None => Place::File(address.into()),
        };
        Ok(Source { every: Duration::from_nanos(every_ns), place })
    }

    /// What is there now.
    ///
    /// # Errors
    /// When nothing is, or more than is read.
    pub fn poll(&self) -> anyhow::Result<Vec<u8>> {
        match &self.place {
            Place::Page { server, path } => page(*server, path, Instant::now() + patience(self.every)),
            Place::File(path) => file(path),
        }
    }
}

/// `10.0.0.1`, `10.0.0.1:80`, `[fd00::1]` or `[fd00::1]:80`. Without brackets it is unknown where an address of IPv6
/// ends.
fn server(authority: &str) -> anyhow::Result<SocketAddr> {
    if let Ok(server) = authority.parse() {
        return Ok(server);
    }
    let bracketed = authority.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let address = bracketed.and_then(|inner| inner.parse().ok().map(IpAddr::V6));
    if let Some(address) = address.or_else(|| authority.parse().ok().map(IpAddr::V4)) {
        return Ok(SocketAddr::new(address, 80));
    }
    bail!("'{authority}' is not an address with a port; write IPv6 in brackets")
}

fn file(path: &PathBuf) -> anyhow::Result<Vec<u8>> {
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    ensure!(file.metadata()?.is_file(), "it is no regular file");
    let mut octets = Vec::new();
    file.take(MOST_BYTES as u64 + 1).read_to_end(&mut octets)?;
    ensure!(octets.len() <= MOST_BYTES, "it is longer than {MOST_BYTES} B");
    ensure!(!octets.is_empty(), "it is empty");
    Ok(octets)
}

/// By HTTP/1.0, so that the server neither sends chunks nor waits for another question.
fn page(server: SocketAddr, path: &str, end: Instant) -> anyhow::Result<Vec<u8>> {
    let mut stream = TcpStream::connect_timeout(&server, left(end)?)?;
    stream.set_write_timeout(Some(left(end)?))?;
    stream.write_all(
        format!("GET {path} HTTP/1.0\r\nHost: {server}\r\nUser-Agent: virtlab\r\n\r\n").as_bytes(),
    )?;
    let (mut octets, mut chunk) = (Vec::new(), vec![0; 64 << 10]);
    loop {
        stream.set_read_timeout(Some(left(end)?))?;
        let count = stream.read(&mut chunk).context("no answer in time")?;
        octets.extend_from_slice(&chunk[..count]);
        if let Some(body) = body(&octets, count == 0)? {
            return Ok(body);
        }
    }
}

/// The body of an answer that is whole; `None` where more is to come.
fn body(octets: &[u8], ended: bool) -> anyhow::Result<Option<Vec<u8>>> {
    let Some(head) = read_answer(octets)? else {
        ensure!(!ended, "the connection ended before the answer did");
        return Ok(None);
    };
    ensure!(head.status == 200, "it was answered with status {}", head.status);
    let rest = &octets[head.bytes..];
    ensure!(rest.len() <= MOST_BYTES, "the answer is longer than {MOST_BYTES} B");
    match head.body {
        Framing::Length(bytes) => {
            let length = usize::try_from(bytes).ok().filter(|bytes| *bytes <= MOST_BYTES);
            let length = length.with_context(|| format!("the answer is longer than {MOST_BYTES} B"))?;
            ensure!(!ended || rest.len() >= length, "the connection ended before the answer did");
            Ok((rest.len() >= length).then(|| rest[..length].to_vec()))
        }
        Framing::End => Ok(ended.then(|| rest.to_vec())),
        Framing::Chunks => bail!("a question of HTTP/1.0 was answered in chunks"),
    }
}

/// For how long one poll may take.
fn patience(every: Duration) -> Duration {
    every.max(Duration::from_secs(1))
}

fn left(end: Instant) -> anyhow::Result<Duration> {
    let left = end.saturating_duration_since(Instant::now());
    ensure!(!left.is_zero(), "no answer in time");
    Ok(left)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use std::thread;

    /// What a poll of a server of one connection finds, which sends these octets.
    fn polled(answer: &'static [u8]) -> Result<Vec<u8>, String> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let what = format!("http://{}/metrics", listener.local_addr().unwrap());
        thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let _ = stream.read(&mut [0; 1024]);
            let _ = stream.write_all(answer);
        });
        Source::parse("1000000", &what).unwrap().poll().map_err(|error| format!("{error:#}"))
    }

    #[test]
    fn a_page_is_its_body_however_its_end_is_said() {
        assert_eq!(polled(b"HTTP/1.0 200 OK\r\n\r\nup 1\n"), Ok(b"up 1\n".to_vec()));
        assert_eq!(polled(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nup 1\n"), Ok(b"up 1".to_vec()));
    }

    #[test]
    fn what_is_no_whole_page_is_refused_with_the_reason() {
        assert!(polled(b"HTTP/1.0 503 Busy\r\n\r\n").unwrap_err().contains("status 503"));
        assert!(
            polled(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nup").unwrap_err().contains("ended before")
        );
        assert!(polled(b"HTTP/1.1 200").unwrap_err().contains("ended before"));
        assert!(polled(b"-ERR\r\n\r\n").unwrap_err().contains("cannot be read"));
        let chunks = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n";
        assert!(polled(chunks).unwrap_err().contains("in chunks"));
    }

    #[test]
    fn a_place_is_an_address_or_a_file() {
        let place = |what: &str| Source::parse("1", what).map(|source| source.place);
        let page =
            |server: &str, path: &str| Place::Page { server: server.parse().unwrap(), path: path.to_owned() };
        assert_eq!(place("http://10.0.0.1").unwrap(), page("10.0.0.1:80", "/"));
        assert_eq!(place("http://10.0.0.1:9/m?a=b").unwrap(), page("10.0.0.1:9", "/m?a=b"));
        assert_eq!(place("http://[fd00::1]:9/").unwrap(), page("[fd00::1]:9", "/"));
        assert_eq!(place("http://[fd00::1]/").unwrap(), page("[fd00::1]:80", "/"));
        assert_eq!(place("state/now").unwrap(), Place::File("state/now".into()));
        assert!(place("http://example.org/").is_err());
        assert!(place("http://fd00::1:9/").is_err());
    }

    #[test]
    fn a_file_that_is_none_or_too_long_is_refused() {
        let refused = |path: &str| file(&path.into()).unwrap_err().to_string();
        assert!(refused("/dev/null").contains("no regular file"));
        assert!(refused("/no/such/file").contains("No such file"));
        assert!(refused("/proc/self/exe").contains("longer than"));
    }
}
