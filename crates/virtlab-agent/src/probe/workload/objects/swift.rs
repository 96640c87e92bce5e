//! Operations on objects of a Swift: PUT, GET, HEAD and DELETE in one container, and pages of the names in it, over
//! connections that stay.
//!
//! They are Swift's own requests, with a token where the store gives one, or those of S3, which are signed (`s3`):
//! there the container is a bucket.
//! Each thread does one operation at a time, on a connection of its own to one of the proxies; after an operation whose
//! connection broke or whose time was over it takes the next one. What an answer says and what it holds is compared
//! with what was written. When the samples are collected, after all traffic, every object is read once more.

use super::s3;
use crate::probe::report::Report;
use crate::probe::run::Run;
use crate::probe::socket::{self, Trouble, trouble, with_code_point};
use crate::probe::workload::by_threads::{self, AUDIT_PATIENCE, Driver, Failure, Performed};
use crate::probe::workload::content::{fill, is_content};
use crate::probe::workload::http::{Framing, HEAD_MOST_BYTES, Head, read_answer};
use crate::probe::workload::operations::{Choice, ELSEWHERE, Objects, lock};
use crate::probe::workload::{Arming, Workload, tcp};
use anyhow::{Context, bail, ensure};
use nix::errno::Errno;
use serde::Deserialize;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::sleep;
use std::time::Duration;
use virtlab_load::parameters::objects::Objects as Parameters;
use virtlab_store::{Deed, Ending, Key, LISTED_MOST, Listing, Pick};
use virtlab_system::clock;
use virtlab_wire::Nanos;

/// Beside a role's parameters.
pub const NAME: &str = "swift";
/// Of a role at a rate, which has no threads of its own.
const AT_ONCE_MOST: u32 = 64;
/// For an operation that is under way when the role is stopped.
const GRACE: Nanos = Nanos(2_000_000_000);
/// The longest sleep in a socket, so that a stop is seen.
const GLANCE_US: i64 = 100_000;
/// In front of what is sent, for the head of a request.
const HEAD_ROOM_BYTES: usize = 4 << 10;
/// Beside the path, which is shorter.
const PATH_MOST_BYTES: usize = HEAD_ROOM_BYTES / 2;
/// Where tokens are given (Swift's `tempauth`), and the field of a head that has one.
const LOGIN_PATH: &str = "/auth/v1.0";
const TOKEN: &str = "X-Auth-Token";
const VALUE_MOST_BYTES: usize = 512;
/// Of a name on a page: a line of Swift's, or what S3 says of it, too.
const NAMED_MOST_BYTES: usize = 512;
/// Of a page beside its names.
const PAGE_HEAD_BYTES: usize = 4 << 10;
/// Digits of an object's name.
const NAME_DIGITS: usize = 16;
const LAST_CHUNK: &[u8] = b"\r\n0\r\n\r\n";
/// After a connection that could not be made, or that broke: the next one would break as soon.
const REST: Duration = Duration::from_millis(20);

/// The Swift, as the testbed says it beside a role's parameters.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Asked {
    /// Addresses of its proxies.
    proxies: Vec<IpAddr>,
    /// Of the container.
    path: String,
    /// With them requests are those of S3, signed.
    keys: Option<s3::Keys>,
    /// With it requests bear a token, which the role gets once.
    login: Option<Login>,
    /// An operation that is not done by then has failed.
    timeout_ns: u64,
}

/// Who asks for a token.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Login {
    user: String,
    key: String,
}

/// Where the operations of a role go.
struct Place {
    asked: Asked,
    local: SocketAddr,
    port: u16,
    dscp: u8,
    /// That each request bears, once there is one.
    token: Option<String>,
    /// Proxies that were chosen so far: threads begin at one after the other.
    chosen: AtomicUsize,
}

/// A role that asks a Swift.
pub struct Client {
    own: Parameters,
    choice: Choice,
    place: Arc<Place>,
}

impl Client {
    /// Of a role, whose container it makes.
    ///
    /// # Errors
    /// When the container cannot be made.
    pub fn new(own: Parameters, choice: Choice, asked: Asked, arming: &Arming<'_>) -> anyhow::Result<Self> {
        ensure!(!asked.proxies.is_empty(), "swift.proxies is empty");
        ensure!(asked.path.len() <= PATH_MOST_BYTES, "swift.path is longer than {PATH_MOST_BYTES} B");
        if let Some(Login { user, key }) = &asked.login {
            ensure!(is_value(user) && is_value(key), "swift.login is no user and key");
        }
        let local = SocketAddr::new(arming.local.ip("local")?, 0);
        let (port, dscp) = (arming.peer_port()?, arming.common.dscp);
        let mut place = Place { asked, local, port, dscp, token: None, chosen: AtomicUsize::new(0) };
        place.token = Connection::new(&place, None).log_in()?;
        let place = Arc::new(place);
        let mut connection = Connection::new(&place, None);
        connection.write("PUT", "", "", None);
        match connection.send("PUT", 0, clock::raw()) {
            Ok((head, _)) if (200..300).contains(&head.status) => {}
            Ok((head, body)) => match connection.code(head, body) {
                Some(s3::OWN_BUCKET) => {} // another role made it
                code => bail!("the container cannot be made: {}", refused(head.status, code)),
            },
            Err(trouble) => bail!("the container cannot be made: {}", trouble.why()),
        }
        Ok(Self { own, choice, place })
    }
}

impl Workload for Client {
    fn objects(&self) -> Option<Arc<dyn Objects>> {
        Some(self.choice.folder.clone())
    }

    fn run(self: Box<Self>, run: &Run) -> Report {
        let asks = self.own.asks();
        let threads = if asks.rate_per_s.is_some() { AT_ONCE_MOST } else { asks.threads };
        let driver = || Connection::new(&self.place, Some(run));
        let mut report = by_threads::play(run, &self.choice, asks, threads, &driver);
        report.last = Some(Box::new(move || self.audit()));
        report
    }
}

impl Client {
    /// What is there of the objects that ought to be.
    fn audit(&self) -> anyhow::Result<Vec<(&'static str, u64)>> {
        let folder = lock(&self.choice.folder);
        if folder.is_away() {
            return Ok(vec![ELSEWHERE]);
        }
        // What is there does not depend on the token that the role had, which may have been revoked.
        let renewed = Connection::new(&self.place, None).log_in().ok().flatten();
        let reader = || {
            let connection = Connection::new(&self.place, None);
            Connection { token: renewed.clone().or_else(|| self.place.token.clone()), ..connection }
        };
        let audit = by_threads::audit(&folder, self.own.threads, AUDIT_PATIENCE, &reader)?;
        let bytes = folder.there().map(|object| object.bytes).sum();
        Ok(audit.of_objects().into_iter().chain(super::in_memory(bytes)).collect())
    }
}

/// Why no answer came.
enum NoAnswer {
    Late,
    Broken(String),
}

impl NoAnswer {
    fn why(&self) -> &str {
        match self {
            Self::Late => "no answer came in time",
            Self::Broken(why) => why,
        }
    }
}

impl From<io::Error> for NoAnswer {
    fn from(error: io::Error) -> Self {
        match error.raw_os_error() {
            Some(libc::ETIMEDOUT | libc::EINPROGRESS) => Self::Late,
            Some(code) => Self::Broken(Errno::from_raw(code).desc().to_owned()),
            None => Self::Broken(error.to_string()),
        }
    }
}

/// One thread's way to the Swift.
struct Connection<'a> {
    place: &'a Place,
    run: Option<&'a Run>,
    /// Among the proxies.
    proxy: usize,
    token: Option<String>,
    fd: Option<OwnedFd>,
    /// Its head ends at `HEAD_ROOM_BYTES`, where its content begins.
    request: Vec<u8>,
    head_at: usize,
    /// The answer as it comes, longer than what has come of it.
    answer: Vec<u8>,
    /// When its first octets came.
    first: Option<Nanos>,
    page: Option<Listing>,
}

impl<'a> Connection<'a> {
    fn new(place: &'a Place, run: Option<&'a Run>) -> Self {
        let proxy = place.chosen.fetch_add(1, Ordering::Relaxed) % place.asked.proxies.len();
        Self {
            place,
            run,
            proxy,
            token: place.token.clone(),
            fd: None,
            request: Vec::new(),
            head_at: 0,
            answer: Vec::new(),
            first: None,
            page: None,
        }
    }

    fn end(&self) -> SocketAddr {
        SocketAddr::new(self.place.asked.proxies[self.proxy], self.place.port)
    }

    fn connect(&self) -> Result<OwnedFd, NoAnswer> {
        let (place, peer) = (self.place, self.end());
        let open = || socket::open(socket::family(&peer), libc::SOCK_STREAM, 0);
        let fd = with_code_point(place.dscp, open)?;
        // A port is chosen with the peer.
        socket::set_option(&fd, libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT, 1i32)?;
        socket::bind(&fd, place.local)?;
        // SO_SNDTIMEO bounds connect(2), too.
        let whole_us = i64::try_from(place.asked.timeout_ns / 1000).unwrap_or(i64::MAX);
        socket::set_timeout(&fd, libc::SO_SNDTIMEO, whole_us)?;
        socket::connect(&fd, peer)?;
        tcp::set_no_delay(&fd)?;
        socket::set_timeout(&fd, libc::SO_SNDTIMEO, GLANCE_US)?;
        socket::set_timeout(&fd, libc::SO_RCVTIMEO, GLANCE_US)?;
        Ok(fd)
    }

    /// Whether the last moment for an answer is over.
    fn is_late(&self, sent: Nanos) -> bool {
        let now = clock::raw();
        now > sent + Nanos(self.place.asked.timeout_ns)
            || self.run.is_some_and(|run| run.stopped() && now > sent + GRACE)
    }

    /// A token from the store, where it gives one.
    fn log_in(&mut self) -> anyhow::Result<Option<String>> {
        let Some(Login { user, key }) = &self.place.asked.login else { return Ok(None) };
        let lines = format!("X-Storage-User: {user}\r\nX-Storage-Pass: {key}\r\n");
        self.request.resize(HEAD_ROOM_BYTES, 0);
        self.write_head("GET", LOGIN_PATH, &lines);
        match self.send("GET", 0, clock::raw()) {
            Ok((head, _)) if head.status == 200 => {
                let token =
                    token(&self.answer[..head.bytes]).context("a login was answered without a token")?;
                Ok(Some(token.to_owned()))
            }
            Ok((head, _)) => bail!("the store gives no token: {}", refused(head.status, None)),
            Err(trouble) => bail!("the store gives no token: {}", trouble.why()),
        }
    }

    /// The head of a request, in front of its content.
    fn write_head(&mut self, method: &str, path: &str, lines: &str) {
        let host = self.end();
        let head = format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: virtlab\r\n{lines}\r\n");
        self.head_at = HEAD_ROOM_BYTES - head.len();
        self.request[self.head_at..HEAD_ROOM_BYTES].copy_from_slice(head.as_bytes());
    }

    /// The octets of a request.
    fn write(&mut self, method: &str, name: &str, query: &str, content: Option<(&Pick, usize)>) {
        let (path, host) = (format!("{}{name}", self.place.asked.path), self.end().to_string());
        self.request.resize(HEAD_ROOM_BYTES + content.map_or(0, |(_, bytes)| bytes), 0);
        let body = &mut self.request[HEAD_ROOM_BYTES..];
        if let Some((pick, _)) = content {
            fill(pick.key, pick.content(), body);
        }
        let mut lines =
            if method == "PUT" { format!("Content-Length: {}\r\n", body.len()) } else { String::new() };
        if let Some(keys) = &self.place.asked.keys {
            let (fields, body_hash) = ([("host", host.as_str())], s3::hash(body));
            let request = s3::Request { method, path: &path, query, fields: &fields, body_hash: &body_hash };
            lines.push_str(&keys.head_lines(&request, clock::realtime()));
        }
        if let Some(token) = &self.token {
            lines.extend([TOKEN, ": ", token, "\r\n"]);
        }
        let mark = if query.is_empty() { "" } else { "?" };
        self.write_head(method, &format!("{path}{mark}{query}"), &lines);
    }

    /// Sends what was written, at an instant; the answer's head, and how many octets of its body came: these are in
    /// `answer` behind the head. Of a body that is longer than `most`, the rest is left with its connection.
    fn send(&mut self, method: &str, most: usize, sent: Nanos) -> Result<(Head, usize), NoAnswer> {
        let kept = self.fd.take().filter(is_quiet);
        let fd = kept.map_or_else(|| self.connect(), Ok)?;
        // Bodies of errors say what is the matter.
        let most = if self.place.asked.keys.is_some() { most.max(s3::ERROR_MOST_BYTES) } else { most };
        let mut left = &self.request[self.head_at..];
        while !left.is_empty() {
            match tcp::write(&fd, left) {
                Ok(count) => left = &left[count..],
                Err(error) if trouble(&error) == Trouble::Again => {
                    if self.is_late(sent) {
                        return Err(NoAnswer::Late);
                    }
                }
                Err(error) => return Err(error.into()),
            }
        }
        let room = HEAD_MOST_BYTES + most;
        if self.answer.len() < room {
            self.answer.resize(room, 0);
        }
        let (mut came, mut head) = (0, None::<Head>);
        self.first = None;
        loop {
            if head.is_none() {
                let read = read_answer(&self.answer[..came.min(HEAD_MOST_BYTES)]);
                head = read.map_err(|error| NoAnswer::Broken(format!("{error:#}")))?;
            }
            if let Some(head) = head {
                let said = match head.body {
                    _ if method == "HEAD" => Some(0),
                    Framing::Length(bytes) => Some(bytes),
                    Framing::Chunks | Framing::End => None,
                };
                let body = came - head.bytes;
                // A body of chunks is that of an error, which is not taken apart.
                let whole = said.is_some_and(|said| body as u64 >= said)
                    || head.body == Framing::Chunks && self.answer[..came].ends_with(LAST_CHUNK);
                if whole || body >= most && said.is_none_or(|said| said > most as u64) {
                    // More than the answer would belong to none, and the rest of one to the next.
                    if !head.closes && said == Some(body as u64) {
                        self.fd = Some(fd);
                    }
                    return Ok((head, body));
                }
            }
            match tcp::read(&fd, &mut self.answer[came..room], 0) {
                Ok(0) if head.is_some_and(|head| head.body == Framing::End) => {
                    let head = head.unwrap_or_else(|| unreachable!("looked at before"));
                    return Ok((head, came - head.bytes));
                }
                Ok(0) => return Err(NoAnswer::Broken("the connection ended without an answer".to_owned())),
                Ok(count) => {
                    came += count;
                    self.first = self.first.or_else(|| Some(clock::raw()));
                }
                Err(error) if trouble(&error) == Trouble::Again => {
                    if self.is_late(sent) {
                        return Err(NoAnswer::Late);
                    }
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl Connection<'_> {
    /// Of S3: what an answer's body says is the matter.
    fn code(&self, head: Head, body: usize) -> Option<&str> {
        let is_error = self.place.asked.keys.is_some() && head.status >= 300;
        is_error.then(|| s3::code(&self.answer[head.bytes..head.bytes + body])).flatten()
    }
}

/// The token in an answer's head.
fn token(head: &[u8]) -> Option<&str> {
    let lines = std::str::from_utf8(head).ok()?.lines();
    let (_, value) =
        lines.filter_map(|line| line.split_once(':')).find(|(name, _)| name.eq_ignore_ascii_case(TOKEN))?;
    Some(value.trim()).filter(|value| is_value(value))
}

/// Whether a text can be what a field of a head says, and leaves room for the rest.
fn is_value(text: &str) -> bool {
    !text.is_empty() && text.len() <= VALUE_MOST_BYTES && text.bytes().all(|octet| octet.is_ascii_graphic())
}

/// Whether nothing came on a connection between two requests, not even its end.
fn is_quiet(fd: &OwnedFd) -> bool {
    let looked = tcp::read(fd, &mut [0], libc::MSG_PEEK | libc::MSG_DONTWAIT);
    looked.is_err_and(|error| trouble(&error) == Trouble::Again)
}

/// What an answer means for an operation, before content is looked at; a write is answered with the status `stored`.
fn ending(deed: Deed, head: Head, code: Option<&str>, bytes: u64, stored: u16) -> Ending {
    match (deed, head.status) {
        (Deed::Create | Deed::Overwrite, status) if status == stored => Ending::Done,
        (Deed::Delete, 204) => Ending::Done,
        (Deed::Read | Deed::Stat | Deed::Open, 200) if head.body == Framing::Length(bytes) => Ending::Done,
        (Deed::Read | Deed::Stat | Deed::Open, 200) => Ending::Wrong,
        (Deed::List, 200 | 204) => Ending::Done,
        (Deed::Read | Deed::Stat | Deed::Open | Deed::Delete, 404)
            if code.is_none_or(|code| code == s3::NO_KEY) =>
        {
            Ending::Missing
        }
        _ => Ending::Failed,
    }
}

/// The class of an answer by which an operation failed.
fn class(status: u16, code: Option<&str>) -> Option<Failure> {
    match (status, code) {
        (_, Some(s3::SLOW_DOWN)) | (429 | 498, _) => Some(Failure::Throttled),
        (_, Some(s3::NO_BUCKET)) | (404, None) => Some(Failure::NoBucket),
        (401 | 403, _) => Some(Failure::Denied),
        (500.., _) => Some(Failure::Server),
        _ => None,
    }
}

/// The answer by which an operation failed.
fn refused(status: u16, code: Option<&str>) -> String {
    code.map_or_else(|| format!("HTTP status {status}"), |code| format!("HTTP status {status}, {code}"))
}

impl Driver for Connection<'_> {
    const CLASSES: &'static [Failure] = &Failure::ALL;

    fn perform(&mut self, pick: &Pick) -> anyhow::Result<Performed> {
        let bytes = usize::try_from(pick.bytes()).context("an object is larger than memory")?;
        let mut name = format!("/{}", name_of(pick.key));
        let (mut query, mut most) = (String::new(), 0);
        let (method, content) = match pick.deed {
            Deed::Create | Deed::Overwrite => ("PUT", Some((pick, bytes))),
            Deed::Read => {
                most = bytes;
                ("GET", None)
            }
            Deed::Stat | Deed::Open => ("HEAD", None),
            Deed::Delete => ("DELETE", None),
            Deed::List => {
                name.clear();
                query = self.query_of_page(pick.key);
                most = PAGE_HEAD_BYTES + LISTED_MOST * NAMED_MOST_BYTES;
                ("GET", None)
            }
        };
        self.page = None;
        self.write(method, &name, &query, content);
        let sent = clock::raw();
        let answered = self.send(method, most, sent);
        let finished = clock::raw();
        let (mut why, mut failure) = (String::new(), None);
        let ending = match answered {
            Ok((head, body)) => {
                let code = self.code(head, body);
                let stored = if self.place.asked.keys.is_some() { 200 } else { 201 };
                match ending(pick.deed, head, code, pick.bytes(), stored) {
                    Ending::Done if pick.deed == Deed::Read => {
                        let octets = &self.answer[head.bytes..head.bytes + body];
                        if is_content(pick.key, pick.content(), octets) {
                            Ending::Done
                        } else {
                            Ending::Wrong
                        }
                    }
                    Ending::Done if pick.deed == Deed::List => {
                        let octets = &self.answer[head.bytes..head.bytes + body];
                        self.page = page(octets, pick.key, self.place.asked.keys.is_some());
                        // Of a page that is cut, or of other names, nothing is known.
                        if self.page.is_some() { Ending::Done } else { Ending::Wrong }
                    }
                    Ending::Failed => {
                        (why, failure) = (refused(head.status, code), class(head.status, code));
                        Ending::Failed
                    }
                    ending => ending,
                }
            }
            Err(no_answer) => {
                self.proxy = (self.proxy + 1) % self.place.asked.proxies.len();
                why.push_str(no_answer.why());
                if matches!(no_answer, NoAnswer::Late) {
                    Ending::TimedOut
                } else {
                    failure = Some(Failure::Broken);
                    sleep(REST);
                    Ending::Failed
                }
            }
        };
        let first = self.first.filter(|_| pick.deed == Deed::Read && ending == Ending::Done);
        Ok(Performed { ending, why, failure, sent, finished, first })
    }

    fn page(&mut self) -> Option<Listing> {
        self.page.take()
    }
}

/// An object's name: names are in the order of keys.
fn name_of(key: Key) -> String {
    format!("{:0width$x}", key.0, width = NAME_DIGITS)
}

impl Connection<'_> {
    /// What asks for the names from one on. Both interfaces begin behind a name, which need not be there.
    fn query_of_page(&self, first: Key) -> String {
        let behind = first.0.checked_sub(1).map(|before| name_of(Key(before)));
        if self.place.asked.keys.is_some() {
            let behind = behind.map(|name| format!("&start-after={name}")).unwrap_or_default();
            return format!("list-type=2&max-keys={LISTED_MOST}{behind}");
        }
        let behind = behind.map(|name| format!("&marker={name}")).unwrap_or_default();
        format!("format=plain&limit={LISTED_MOST}{behind}")
    }
}

/// The page of names that an answer is: Swift's lines, or the keys of S3's XML; `None`: it has other names, or more.
fn page(body: &[u8], first: Key, is_s3: bool) -> Option<Listing> {
    let text = std::str::from_utf8(body).ok()?;
    let named = |name: &str| {
        let is_name = name.len() == NAME_DIGITS && name.bytes().all(|one| one.is_ascii_hexdigit());
        is_name.then(|| u64::from_str_radix(name, 16).ok()).flatten().map(Key)
    };
    let (names, more) = if is_s3 {
        let keys = text.split("<Key>").skip(1).map(|rest| named(rest.split_once("</Key>")?.0));
        let whole = text.trim_end().ends_with("</ListBucketResult>");
        let more = text.contains("<IsTruncated>true</IsTruncated>");
        (keys.collect::<Option<Vec<_>>>().filter(|_| whole)?, more)
    } else {
        let names = text.lines().map(named).collect::<Option<Vec<_>>>()?;
        let more = names.len() == LISTED_MOST;
        (names, more)
    };
    let until = names.last().copied().filter(|_| more).unwrap_or(first.last_of_folder());
    (names.len() <= LISTED_MOST).then_some(Listing { names, until })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::workload::content::make;
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::thread::JoinHandle;
    use virtlab_store::Folder;

    const TIMEOUT_NS: u64 = 300_000_000;

    /// Answers the requests of one connection after another with what is said of each, and returns their heads.
    fn proxy(connections: Vec<Vec<Vec<u8>>>) -> (u16, JoinHandle<Vec<String>>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let served = std::thread::spawn(move || {
            let mut heads = Vec::new();
            for answers in connections {
                let (mut stream, _) = listener.accept().unwrap();
                for answer in answers {
                    let mut octets = vec![0; 1 << 16];
                    let count = stream.read(&mut octets).unwrap();
                    let text = String::from_utf8_lossy(&octets[..count]).into_owned();
                    heads.push(text.lines().next().unwrap_or_default().to_owned());
                    stream.write_all(&answer).unwrap();
                }
            }
            heads
        });
        (port, served)
    }

    fn place(port: u16) -> Place {
        Place {
            asked: Asked {
                proxies: vec!["127.0.0.1".parse().unwrap()],
                path: "/v1/a/c".to_owned(),
                keys: None,
                login: None,
                timeout_ns: TIMEOUT_NS,
            },
            local: "127.0.0.1:0".parse().unwrap(),
            port,
            dscp: 0,
            token: None,
            chosen: AtomicUsize::new(0),
        }
    }

    fn signed_place(port: u16) -> Place {
        let keys = r#"{"access_key": "test:tester", "secret_key": "testing", "region": "us-east-1"}"#;
        let mut place = place(port);
        place.asked.path = "/bucket".to_owned();
        place.asked.keys = Some(serde_json::from_str(keys).unwrap());
        place
    }

    fn error(line: &str, code: &str) -> Vec<u8> {
        let body = format!("<?xml version='1.0'?><Error><Code>{code}</Code><Message>No.</Message></Error>");
        with(status(line, body.len()), body.as_bytes())
    }

    fn status(line: &str, bytes: usize) -> Vec<u8> {
        format!("HTTP/1.1 {line}\r\nContent-Length: {bytes}\r\n\r\n").into_bytes()
    }

    fn with(mut head: Vec<u8>, body: &[u8]) -> Vec<u8> {
        head.extend_from_slice(body);
        head
    }

    fn one_there() -> (Folder, Vec<u8>) {
        let mut folder = Folder::new("a", 1);
        let made = folder.pick(Deed::Create, 0, 5000).unwrap();
        let whole = make(made.key, made.content(), 5000);
        folder.close(&made, Ending::Done);
        (folder, whole)
    }

    #[test]
    fn one_connection_carries_all_requests_and_each_answer_is_looked_at() {
        let (mut folder, whole) = one_there();
        let mut damaged = whole.clone();
        damaged[4000] ^= 1;
        let answers = vec![
            with(status("200 OK", 5000), &whole),
            with(status("200 OK", 5000), &damaged),
            status("200 OK", 5000),
            status("200 OK", 4999),
            with(status("200 OK", 4999), &whole[..4999]),
            with(status("404 Not Found", 9), b"not found")[..].to_vec(),
        ];
        let (port, served) = proxy(vec![answers]);
        let place = place(port);
        let mut connection = Connection::new(&place, None);
        let mut ended = Vec::new();
        for deed in [Deed::Read, Deed::Read, Deed::Stat, Deed::Stat, Deed::Read, Deed::Delete] {
            let pick = folder.pick(deed, 0, 0).unwrap();
            ended.push(connection.perform(&pick).unwrap().ending);
            if deed != Deed::Delete {
                folder.close(&pick, Ending::Done);
            }
        }
        use Ending::{Done, Missing, Wrong};
        assert_eq!(ended, [Done, Wrong, Done, Wrong, Wrong, Missing]);
        let heads = served.join().unwrap();
        assert_eq!(heads[0], "GET /v1/a/c/0001000000000000 HTTP/1.1");
        assert_eq!((heads[2].split(' ').next(), heads[5].split(' ').next()), (Some("HEAD"), Some("DELETE")));
    }

    #[test]
    fn a_page_of_names_is_compared_with_those_that_are_there() {
        let (mut folder, _) = one_there();
        let made = folder.pick(Deed::Create, 0, 5000).unwrap();
        folder.close(&made, Ending::Done);
        let xml = |names: &str| {
            format!("<?xml?><ListBucketResult><IsTruncated>false</IsTruncated>{names}</ListBucketResult>\n")
        };
        let both = "0001000000000000\n0001000000000001\n";
        let keys = "<Contents><Key>0001000000000000</Key></Contents><Contents><Key>0001000000000001</Key></Contents>";
        let bodies =
            [both.to_owned(), both[..17].to_owned(), format!("{both}0001000000000002\n"), "x\n".into()];
        let of_s3 = [xml(keys), xml(&keys[..50]), xml(""), keys.to_owned()];
        use Ending::{Done, Wrong};
        for (signed, bodies) in [(false, bodies), (true, of_s3)] {
            let answers =
                bodies.iter().map(|one| with(status("200 OK", one.len()), one.as_bytes())).collect();
            let (port, served) = proxy(vec![answers]);
            let place = if signed { signed_place(port) } else { place(port) };
            let mut connection = Connection::new(&place, None);
            let mut ended = Vec::new();
            for _ in 0..4 {
                let pick = folder.pick(Deed::List, 0, 0).unwrap();
                let ending = connection.perform(&pick).unwrap().ending;
                let is_page = connection.page().is_some_and(|page| folder.is_page(&pick, &page));
                ended.push(if ending == Done && is_page { Done } else { Wrong });
                folder.close(&pick, Done);
            }
            assert_eq!(ended, [Done, Wrong, Wrong, Wrong], "signed: {signed}");
            let head = &served.join().unwrap()[0];
            let asked = if signed {
                "/bucket?list-type=2&max-keys=1000&start-after=0000ffffffffffff"
            } else {
                "/v1/a/c?format=plain&limit=1000&marker=0000ffffffffffff"
            };
            assert_eq!(*head, format!("GET {asked} HTTP/1.1"));
        }
    }

    #[test]
    fn a_connection_that_ended_between_two_requests_is_made_anew() {
        let (mut folder, whole) = one_there();
        let answer = with(status("200 OK", 5000), &whole);
        let (port, served) = proxy(vec![vec![answer.clone()], vec![answer]]);
        let place = place(port);
        let mut connection = Connection::new(&place, None);
        for _ in 0..2 {
            let pick = folder.pick(Deed::Read, 0, 0).unwrap();
            assert_eq!(connection.perform(&pick).unwrap().ending, Ending::Done);
            folder.close(&pick, Ending::Done);
            sleep(Duration::from_millis(50));
        }
        assert_eq!(served.join().unwrap().len(), 2);
    }

    #[test]
    fn errors_late_answers_and_broken_connections_are_told_apart() {
        let (mut folder, _) = one_there();
        let half = b"HTTP/1.1 200 OK\r\nContent-Le".to_vec();
        let (port, served) = proxy(vec![vec![status("503 Service Unavailable", 0)], vec![half]]);
        let place = place(port);
        let mut connection = Connection::new(&place, None);
        let mut perform = || {
            let pick = folder.pick(Deed::Read, 0, 0).unwrap();
            let performed = connection.perform(&pick).unwrap();
            folder.close(&pick, Ending::Done);
            (performed.ending, performed.why)
        };
        assert_eq!(perform(), (Ending::Failed, "HTTP status 503".to_owned()));
        sleep(Duration::from_millis(50));
        assert_eq!(perform(), (Ending::Failed, "the connection ended without an answer".to_owned()));
        served.join().unwrap();
        assert_eq!(perform().0, Ending::Failed);
        let mute = TcpListener::bind("127.0.0.1:0").unwrap();
        let place = self::place(mute.local_addr().unwrap().port());
        let pick = folder.pick(Deed::Read, 0, 0).unwrap();
        assert_eq!(Connection::new(&place, None).perform(&pick).unwrap().ending, Ending::TimedOut);
    }

    #[test]
    fn a_token_is_asked_for_once_and_each_request_bears_it_until_it_is_refused() {
        let given = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nx-auth-token: AUTH_tk1\r\n\r\n".to_vec();
        let (mut folder, whole) = one_there();
        let answers = vec![given, with(status("200 OK", 5000), &whole), status("401 Unauthorized", 0)];
        let (port, served) = proxy(vec![answers]);
        let mut place = place(port);
        place.asked.login = Some(Login { user: "lab:client".to_owned(), key: "tested".to_owned() });
        let mut connection = Connection::new(&place, None);
        connection.token = connection.log_in().unwrap();
        let login = String::from_utf8(connection.request[connection.head_at..].to_vec()).unwrap();
        assert!(login.starts_with("GET /auth/v1.0 HTTP/1.1\r\n"), "{login}");
        assert!(login.contains("\r\nX-Storage-User: lab:client\r\nX-Storage-Pass: tested\r\n"), "{login}");
        let mut ended = Vec::new();
        for _ in 0..2 {
            let pick = folder.pick(Deed::Read, 0, 0).unwrap();
            let performed = connection.perform(&pick).unwrap();
            ended.push((performed.ending, performed.failure));
            folder.close(&pick, Ending::Done);
            let head = String::from_utf8(connection.request[connection.head_at..].to_vec()).unwrap();
            assert!(head.contains("\r\nX-Auth-Token: AUTH_tk1\r\n\r\n"), "{head}");
        }
        assert_eq!(ended, [(Ending::Done, None), (Ending::Failed, Some(Failure::Denied))]);
        assert_eq!(served.join().unwrap().len(), 3);
        for none in ["", "X-Auth-Token:\r\n", "X-Auth-Token: a b\r\n", "X-Auth-Tokens: a\r\n"] {
            assert_eq!(token(format!("HTTP/1.1 200 OK\r\n{none}\r\n").as_bytes()), None);
        }
    }

    #[test]
    fn answers_of_s3_are_told_apart_by_their_codes() {
        let (mut folder, whole) = one_there();
        let chunks = b"HTTP/1.1 404 Not Found\r\nTransfer-Encoding: chunked\r\n\r\n\
            2c\r\n<Error><Code>NoSuchBucket</Code></Error>.....\r\n0\r\n\r\n";
        let mut answers = vec![
            with(status("200 OK", 5000), &whole),
            error("404 Not Found", "NoSuchKey"),
            error("404 Not Found", "NoSuchBucket"),
            chunks.to_vec(),
            error("403 Forbidden", "AccessDenied"),
            error("503 Slow Down", "SlowDown"),
            error("500 Internal Server Error", "InternalError"),
            error("400 Bad Request", "InvalidArgument"),
            status("404 Not Found", 0),
        ];
        let later = answers.split_off(4); // chunks are not taken apart, so their connection is left
        let (port, served) = proxy(vec![answers, later]);
        let place = signed_place(port);
        let mut connection = Connection::new(&place, None);
        let mut ended = Vec::new();
        for _ in 0..9 {
            let pick = folder.pick(Deed::Read, 0, 0).unwrap();
            let performed = connection.perform(&pick).unwrap();
            ended.push((performed.ending, performed.failure, performed.why));
            folder.close(&pick, Ending::Done);
        }
        let said = |why: &str| format!("HTTP status {why}");
        use Ending::{Done, Failed, Missing};
        assert_eq!(
            ended,
            [
                (Done, None, String::new()),
                (Missing, None, String::new()),
                (Failed, Some(Failure::NoBucket), said("404, NoSuchBucket")),
                (Failed, Some(Failure::NoBucket), said("404, NoSuchBucket")),
                (Failed, Some(Failure::Denied), said("403, AccessDenied")),
                (Failed, Some(Failure::Throttled), said("503, SlowDown")),
                (Failed, Some(Failure::Server), said("500, InternalError")),
                (Failed, None, said("400, InvalidArgument")),
                (Missing, None, String::new()),
            ]
        );
        assert_eq!(served.join().unwrap()[0], "GET /bucket/0001000000000000 HTTP/1.1");
    }

    #[test]
    fn a_write_of_s3_carries_the_hash_of_its_content_and_a_signature_and_needs_no_other_status_than_200() {
        let (mut folder, _) = one_there();
        let place = signed_place(1);
        let mut connection = Connection::new(&place, None);
        let pick = folder.pick(Deed::Overwrite, 0, 900).unwrap();
        connection.write("PUT", "/one", "", Some((&pick, 900)));
        let (head, body) = connection.request.split_at(HEAD_ROOM_BYTES);
        assert_eq!(body, make(pick.key, pick.content(), 900));
        let head = std::str::from_utf8(&head[connection.head_at..]).unwrap();
        assert!(
            head.starts_with("PUT /bucket/one HTTP/1.1\r\nHost: 127.0.0.1:1\r\n")
                && head.ends_with("\r\n\r\n")
        );
        assert!(head.contains(&format!("\r\nx-amz-content-sha256: {}\r\n", s3::hash(body))));
        assert!(head.contains("\r\nAuthorization: AWS4-HMAC-SHA256 Credential=test:tester/"));
        let answer = |status| Head { bytes: 0, status, body: Framing::Length(0), closes: false };
        assert_eq!(ending(Deed::Create, answer(201), None, 9, 200), Ending::Failed);
        assert_eq!(class(404, None), Some(Failure::NoBucket));
    }
}
