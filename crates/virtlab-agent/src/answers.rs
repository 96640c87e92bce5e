//! Whether a service of a guest answers: one try, from inside the guest, at the addresses that its clients will use.
//!
//! A port answers when it accepts a connection, a path when a GET of it has a status below 400. The exit code tells;
//! why not is the last line of errors. The caller tries again for as long as it has patience.

use anyhow::{Context, bail};
use clap::Args;
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// A head that is longer is no answer.
const MOST_HEAD_BYTES: usize = 64 << 10;

/// What is tried.
#[derive(Args, Debug)]
pub struct Options {
    /// Where it may listen; one that answers is enough.
    #[arg(long, required = true)]
    address: Vec<IpAddr>,
    #[arg(long)]
    port: u16,
    /// What to GET; without it a connection is enough.
    #[arg(long)]
    path: Option<String>,
    /// For how long an answer is waited for.
    #[arg(long)]
    patience_ms: u64,
}

/// Tries each address.
///
/// # Errors
/// When none answers: why the last did not.
pub fn main(options: &Options) -> anyhow::Result<()> {
    let end = Instant::now() + Duration::from_millis(options.patience_ms);
    let mut last = Ok(());
    for address in &options.address {
        let place = SocketAddr::new(*address, options.port);
        last = answers(place, options.path.as_deref(), end).with_context(|| place.to_string());
        if last.is_ok() {
            break;
        }
    }
    last
}

fn answers(place: SocketAddr, path: Option<&str>, end: Instant) -> anyhow::Result<()> {
    let mut stream = TcpStream::connect_timeout(&place, left(end)?)?;
    let Some(path) = path else { return Ok(()) };
    let request = format!("GET {path} HTTP/1.1\r\nHost: {place}\r\nConnection: close\r\n\r\n");
    stream.set_write_timeout(Some(left(end)?))?;
    stream.write_all(request.as_bytes())?;
    let mut head = Vec::new();
    let mut chunk = [0; 4096];
    loop {
        stream.set_read_timeout(Some(left(end)?))?;
        let count = stream.read(&mut chunk).context("no answer")?;
        if count == 0 {
            bail!("it closed the connection before it had answered");
        }
        head.extend_from_slice(&chunk[..count]);
        if let Some(status) = status(&head)? {
            if status >= 400 {
                bail!("GET {path} was answered with status {status}");
            }
            return Ok(());
        }
        if head.len() > MOST_HEAD_BYTES {
            bail!("its answer has no end of a head in {MOST_HEAD_BYTES} bytes");
        }
    }
}

fn left(end: Instant) -> anyhow::Result<Duration> {
    let left = end.saturating_duration_since(Instant::now());
    if left.is_zero() {
        bail!("no answer in time");
    }
    Ok(left)
}

/// The status of an answer whose head is whole.
fn status(head: &[u8]) -> anyhow::Result<Option<u16>> {
    let mut fields = [httparse::EMPTY_HEADER; 128];
    let mut answer = httparse::Response::new(&mut fields);
    match answer.parse(head) {
        Ok(httparse::Status::Complete(_)) => Ok(answer.code),
        Ok(httparse::Status::Partial) => Ok(None),
        Err(error) => bail!("its answer is no HTTP: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use std::thread;

    /// A server of one connection that sends these bytes, and where it listens.
    fn server(answer: &'static [u8]) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let place = listener.local_addr().unwrap();
        thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let _ = stream.read(&mut [0; 1024]);
            let _ = stream.write_all(answer);
        });
        place
    }

    fn tried(place: SocketAddr, path: Option<&str>) -> Result<(), String> {
        let end = Instant::now() + Duration::from_secs(5);
        answers(place, path, end).map_err(|error| format!("{error:#}"))
    }

    #[test]
    fn a_port_that_accepts_a_connection_answers() {
        assert_eq!(tried(server(b""), None), Ok(()));
    }

    #[test]
    fn a_port_on_which_nothing_listens_does_not() {
        let place = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        assert!(tried(place, None).unwrap_err().contains("refused"));
    }

    #[test]
    fn the_status_of_a_path_decides() {
        assert_eq!(tried(server(b"HTTP/1.1 204 No Content\r\n\r\n"), Some("/")), Ok(()));
        let refused = tried(server(b"HTTP/1.1 503 Busy\r\nRetry-After: 1\r\n\r\n"), Some("/up"));
        assert_eq!(refused.unwrap_err(), "GET /up was answered with status 503");
    }

    #[test]
    fn what_is_no_http_is_said_to_be_none() {
        assert!(tried(server(b"-ERR unknown command\r\n\r\n"), Some("/")).unwrap_err().contains("no HTTP"));
        assert!(tried(server(b"HTTP/1.1 200"), Some("/")).unwrap_err().contains("closed"));
    }
}
