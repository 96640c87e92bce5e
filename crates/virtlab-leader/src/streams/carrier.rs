//! Between the leader of an existing host and the connections to it: a line of frames that outlives a connection.
//!
//! The first connection is the standard input and output that an ssh session gave. When it is cut, the leader
//! continues and the carrier waits, for a bounded time, for another session of the same user that knocks at a door (an
//! abstract socket: no port, no file, gone with this process). Over that one everything continues with the first
//! frame that was not received.
//!
//! A cut is not an end. Where the control plane itself ended, its ssh client says so: the input ends while the
//! output can still be written. Where the connection was cut, the output breaks with the input.

use crate::streams::peer::{Peer, set_nonblocking};
use anyhow::Context;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{self, AddressFamily, Backlog, SockFlag, SockType, UnixAddr, sockopt};
use nix::unistd;
use std::collections::VecDeque;
use std::io::Write as _;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use virtlab_system::clock;
use virtlab_wire::Nanos;
use virtlab_wire::line::Line;

/// How long an ended input may turn out to be a cut connection: on a busy host, ssh closes one way well after the
/// other.
const SETTLE: Nanos = Nanos(2_000_000_000);
/// How long a leader without a connection waits for another one.
const PATIENCE: Nanos = Nanos(12_000_000_000);
/// How long the last frames of an ended leader may take to be written.
const LAST_WORDS: Nanos = Nanos(5_000_000_000);
/// Bytes that may wait for the leader before no more are read for it.
const MOST_WAITING_BYTES: usize = 1 << 20;
const CHUNK_BYTES: usize = 64 << 10;

/// One connection to the control plane.
#[derive(Debug)]
struct Link {
    input: OwnedFd,
    output: OwnedFd,
    waiting: VecDeque<u8>,
    /// When its input ended.
    ended: Option<Nanos>,
}

/// What came of reading or writing a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Whole,
    Cut,
}

impl Link {
    fn new(input: OwnedFd, output: OwnedFd) -> anyhow::Result<Self> {
        set_nonblocking(input.as_fd())?;
        set_nonblocking(output.as_fd())?;
        Ok(Self { input, output, waiting: VecDeque::new(), ended: None })
    }

    /// Writes what is taken now. Nothing after the input ended: who does not read is told by that alone.
    fn flush(&mut self) -> State {
        while !self.waiting.is_empty() && self.ended.is_none() {
            match unistd::write(&self.output, self.waiting.as_slices().0) {
                Ok(n) => drop(self.waiting.drain(..n)),
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => return State::Whole,
                Err(_) => return State::Cut,
            }
        }
        State::Whole
    }
}

/// The name under which a leader can be reached again: of the kernel's abstract sockets, in the host's own network.
pub fn address(name: &str) -> anyhow::Result<UnixAddr> {
    UnixAddr::new_abstract(format!("virtlab-line-{name}").as_bytes()).context("the name is too long")
}

/// Carries frames between the leader and the connected client.
#[derive(Debug)]
pub struct Carrier {
    leader: Peer,
    leads: bool,
    line: Line,
    link: Option<Link>,
    door: OwnedFd,
    /// Since when no client is connected that showed what came last: one who only connects does not count.
    alone_since: Option<Nanos>,
}

impl Carrier {
    /// A carrier for the leader at the other end of `stream`, connected by `input` and `output`.
    ///
    /// # Errors
    /// When the name is taken, or a descriptor cannot be set up.
    pub fn new(stream: OwnedFd, input: OwnedFd, output: OwnedFd, name: &str) -> anyhow::Result<Self> {
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let door = socket::socket(AddressFamily::Unix, SockType::Stream, flags, None)
            .context("cannot make a unix socket")?;
        socket::bind(door.as_raw_fd(), &address(name)?).context("the name of this line is taken")?;
        socket::listen(&door, Backlog::new(2)?).context("cannot listen")?;
        let mut carrier = Self {
            leader: Peer::new(stream)?,
            leads: true,
            line: Line::new(Some(std::process::id())),
            link: None,
            door,
            alone_since: None,
        };
        carrier.connect(Link::new(input, output)?);
        Ok(carrier)
    }

    /// Carries until the leader has said all, the control plane ended, or no client came back in time.
    ///
    /// # Errors
    /// When `poll` itself fails.
    pub fn carry(mut self) -> anyhow::Result<()> {
        while self.goes_on(clock::monotonic()) {
            self.wait()?;
        }
        let until = clock::monotonic() + LAST_WORDS;
        let Some(mut link) = self.link else { return Ok(()) };
        while !link.waiting.is_empty() && link.ended.is_none() {
            let left = until.since(clock::monotonic()).0.div_ceil(1_000_000);
            let ready = poll(&mut [PollFd::new(link.output.as_fd(), PollFlags::POLLOUT)], milliseconds(left));
            if left == 0 || ready == Ok(0) || link.flush() == State::Cut {
                break;
            }
        }
        Ok(())
    }

    fn goes_on(&self, now: Nanos) -> bool {
        let ended = self.link.as_ref().and_then(|link| link.ended);
        let over = |since: Option<Nanos>, time| since.is_some_and(|since| now.since(since) >= time);
        self.leads && !over(ended, SETTLE) && !over(self.alone_since, PATIENCE)
    }

    fn wait(&mut self) -> anyhow::Result<()> {
        let now = clock::monotonic();
        let settling = self.link.as_ref().and_then(|link| link.ended);
        let due = [settling.map(|since| since + SETTLE), self.alone_since.map(|since| since + PATIENCE)];
        let timeout = due
            .into_iter()
            .flatten()
            .min()
            .map_or(PollTimeout::NONE, |due| milliseconds(due.since(now).0.div_ceil(1_000_000)));
        let wanted = |yes: bool, events: PollFlags| if yes { events } else { PollFlags::empty() };
        let of_leader = wanted(!self.line.full(), PollFlags::POLLIN)
            | wanted(self.leader.waiting_bytes() > 0, PollFlags::POLLOUT);
        let mut polled =
            vec![PollFd::new(self.door.as_fd(), PollFlags::POLLIN), PollFd::new(self.leader.fd(), of_leader)];
        if let Some(link) = &self.link {
            // Even when nothing waits, an output tells that it broke.
            polled.push(PollFd::new(
                link.output.as_fd(),
                wanted(!link.waiting.is_empty() && link.ended.is_none(), PollFlags::POLLOUT),
            ));
            if link.ended.is_none() && self.leader.waiting_bytes() < MOST_WAITING_BYTES {
                polled.push(PollFd::new(link.input.as_fd(), PollFlags::POLLIN));
            }
        }
        match poll(&mut polled, timeout) {
            Ok(_) => {}
            Err(Errno::EINTR) => return Ok(()),
            Err(error) => return Err(error).context("cannot poll"),
        }
        let events: Vec<PollFlags> =
            polled.iter().map(|fd| fd.revents().unwrap_or(PollFlags::empty())).collect();
        let broken = PollFlags::POLLERR | PollFlags::POLLHUP;
        if events.get(3).is_some_and(|events| !events.is_empty()) && self.read() == State::Cut {
            self.lose();
        }
        if events.get(2).is_some_and(|events| events.intersects(broken)) {
            self.lose();
        }
        if !events[1].is_empty() {
            self.leader.flush();
            if events[1].intersects(PollFlags::POLLIN | broken) {
                self.leads = self.leader.fill();
            }
            self.hear_leader();
        }
        if !events[0].is_empty() {
            self.admit();
        }
        self.write();
        Ok(())
    }

    fn hear_leader(&mut self) {
        while let Some(frame) = self.leader.next_frame() {
            // Its body came in a frame, so it fits into one.
            let _ = self.line.send(frame.channel, frame.kind, &frame.body);
        }
    }

    /// Reads what the control plane sent, and passes on what is new of it.
    fn read(&mut self) -> State {
        let Some(link) = &mut self.link else { return State::Whole };
        let mut chunk = vec![0; CHUNK_BYTES];
        match unistd::read(&link.input, &mut chunk) {
            Ok(0) => link.ended = Some(clock::monotonic()),
            Ok(n) => self.line.feed(&chunk[..n]),
            Err(Errno::EINTR | Errno::EAGAIN) => {}
            Err(_) => return State::Cut,
        }
        loop {
            match self.line.next_frame() {
                Ok(Some(frame)) => self.leader.send(frame.channel, frame.kind, &frame.body),
                Ok(None) => {
                    if self.line.joined() {
                        self.alone_since = None;
                    }
                    return State::Whole;
                }
                Err(error) => {
                    // Where errors went may be gone with the first connection.
                    let _ = writeln!(std::io::stderr(), "virtlab-agent: {error}");
                    return State::Cut;
                }
            }
        }
    }

    fn write(&mut self) {
        let out = self.line.take_out();
        let Some(link) = &mut self.link else { return };
        link.waiting.extend(out);
        if link.flush() == State::Cut {
            self.lose();
        }
    }

    fn lose(&mut self) {
        self.link = None;
        self.line.disconnect();
        self.alone_since.get_or_insert_with(clock::monotonic);
    }

    fn connect(&mut self, link: Link) {
        self.link = Some(link);
        self.line.connect();
    }

    /// Lets somebody of the same user in, in place of the connected client: that one was cut and it was not
    /// noticed here.
    fn admit(&mut self) {
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let Ok(fd) = socket::accept4(self.door.as_raw_fd(), flags) else { return };
        // SAFETY: accept just made this descriptor for us.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        let same = socket::getsockopt(&fd, sockopt::PeerCredentials)
            .is_ok_and(|credentials| credentials.uid() == unistd::getuid().as_raw());
        if let (true, Ok(output)) = (same, fd.try_clone())
            && let Ok(link) = Link::new(fd, output)
        {
            self.alone_since.get_or_insert_with(clock::monotonic);
            self.connect(link);
        }
    }
}

fn milliseconds(count: u64) -> PollTimeout {
    PollTimeout::from(u16::try_from(count).unwrap_or(u16::MAX))
}

/// Joins a new connection's standard input and output to the leader that lost its own.
///
/// # Errors
/// If no process of the same user waits under that name.
pub fn rejoin(name: &str) -> anyhow::Result<()> {
    let line = socket::socket(AddressFamily::Unix, SockType::Stream, SockFlag::SOCK_CLOEXEC, None)
        .context("cannot make a unix socket")?;
    socket::connect(line.as_raw_fd(), &address(name)?).context("no process waits under this name")?;
    // A name that was left can be taken by anybody.
    let listener = socket::getsockopt(&line, sockopt::PeerCredentials).context("cannot tell who waits")?;
    anyhow::ensure!(listener.uid() == unistd::getuid().as_raw(), "another user waits under this name");
    let (input, output) = (std::io::stdin(), std::io::stdout());
    let (input, output) = (input.as_fd(), output.as_fd());
    for fd in [input, output, line.as_fd()] {
        set_nonblocking(fd)?;
    }
    let (mut down, mut up) = (Way::default(), Way::default());
    let mut told_end = false;
    let mut chunk = vec![0; CHUNK_BYTES];
    let mut until = None;
    while !up.done() {
        if up.over {
            let left =
                until.get_or_insert_with(|| clock::monotonic() + LAST_WORDS).since(clock::monotonic()).0;
            if left == 0 {
                return Ok(()); // no reader is left for the last words
            }
        }
        let wanted = |yes: bool, events: PollFlags| if yes { events } else { PollFlags::empty() };
        let toward = wanted(!down.waiting.is_empty(), PollFlags::POLLOUT);
        let mut polled = vec![PollFd::new(output, wanted(!up.waiting.is_empty(), PollFlags::POLLOUT))];
        // A descriptor that nothing is wanted of would still report its end, again and again.
        let of_line = wanted(up.wants_more(), PollFlags::POLLIN) | toward;
        if !of_line.is_empty() {
            polled.push(PollFd::new(line.as_fd(), of_line));
        }
        if down.wants_more() {
            polled.push(PollFd::new(input, PollFlags::POLLIN));
        }
        let timeout = if up.over { milliseconds(LAST_WORDS.0 / 1_000_000) } else { PollTimeout::NONE };
        match poll(&mut polled, timeout) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(error).context("cannot poll"),
        }
        let broken = PollFlags::POLLERR | PollFlags::POLLHUP;
        if polled[0].revents().is_some_and(|events| events.intersects(broken)) {
            return Ok(()); // cut, and the other side of `line` sees both its ways end at once
        }
        if down.wants_more() {
            down.fill(input, &mut chunk);
        }
        if !down.drain(line.as_fd()) {
            return Ok(());
        }
        if down.done() && !told_end {
            told_end = true;
            let _ = socket::shutdown(line.as_raw_fd(), socket::Shutdown::Write);
        }
        if up.wants_more() {
            up.fill(line.as_fd(), &mut chunk);
        }
        if !up.drain(output) {
            return Ok(());
        }
    }
    Ok(())
}

/// One direction of bytes: what was read and not written yet.
#[derive(Debug, Default)]
struct Way {
    waiting: VecDeque<u8>,
    /// No more comes.
    over: bool,
}

impl Way {
    fn wants_more(&self) -> bool {
        !self.over && self.waiting.len() < MOST_WAITING_BYTES
    }

    /// Reads what is there; its end, or a broken stream, is over.
    fn fill(&mut self, from: BorrowedFd<'_>, chunk: &mut [u8]) {
        match unistd::read(from, chunk) {
            Ok(n) if n > 0 => self.waiting.extend(&chunk[..n]),
            Err(Errno::EINTR | Errno::EAGAIN) => {}
            Ok(_) | Err(_) => self.over = true,
        }
    }

    /// Writes what is taken now; false if no reader takes more.
    fn drain(&mut self, to: BorrowedFd<'_>) -> bool {
        while !self.waiting.is_empty() {
            match unistd::write(to, self.waiting.as_slices().0) {
                Ok(n) => drop(self.waiting.drain(..n)),
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => return true,
                Err(_) => return false,
            }
        }
        true
    }

    fn done(&self) -> bool {
        self.over && self.waiting.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::socket::socketpair;
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;
    use std::thread;
    use virtlab_wire::frame::{Decoder, Frame, Kind};

    fn pair() -> (OwnedFd, OwnedFd) {
        socketpair(AddressFamily::Unix, SockType::Stream, None, SockFlag::SOCK_CLOEXEC).unwrap()
    }

    /// A name that no other process that runs these tests binds.
    fn own(name: &str) -> String {
        format!("{name}-{}", std::process::id())
    }

    /// A carrier in a thread; the leader's end, and the first connection.
    fn carrier(name: &str) -> (UnixStream, UnixStream, thread::JoinHandle<()>) {
        let ((leader, stream), (ours, input)) = (pair(), pair());
        let output = input.try_clone().unwrap();
        let carrier = Carrier::new(stream, input, output, name).unwrap();
        (leader.into(), ours.into(), thread::spawn(move || carrier.carry().unwrap()))
    }

    /// Reads into the line until so many frames came.
    fn frames(line: &mut Line, from: &mut UnixStream, count: usize) -> Vec<Frame> {
        let mut heard = Vec::new();
        let mut chunk = [0; 4096];
        while heard.len() < count || !line.joined() {
            let n = from.read(&mut chunk).unwrap();
            assert!(n > 0, "the connection ended");
            line.feed(&chunk[..n]);
            while let Some(frame) = line.next_frame().unwrap() {
                heard.push(frame);
            }
            from.write_all(&line.take_out()).unwrap();
        }
        heard
    }

    fn encoded(body: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        Frame { channel: 2, kind: Kind::Data, body: body.to_vec() }.encode(&mut out).unwrap();
        out
    }

    #[test]
    fn a_leader_goes_on_over_a_second_connection_where_the_first_was_cut() {
        let (mut leader, mut first, thread) = carrier(&own("a-test-of-a-second-connection"));
        let mut line = Line::default();
        line.connect();
        first.write_all(&line.take_out()).unwrap();
        leader.write_all(&encoded(b"before")).unwrap();
        assert_eq!(frames(&mut line, &mut first, 1)[0].body, b"before");
        drop(first);
        leader.write_all(&encoded(b"meanwhile")).unwrap();
        line.send(2, Kind::Data, b"asked").unwrap();
        let knock = || {
            let fd =
                socket::socket(AddressFamily::Unix, SockType::Stream, SockFlag::SOCK_CLOEXEC, None).unwrap();
            socket::connect(fd.as_raw_fd(), &address(&own("a-test-of-a-second-connection")).unwrap())
                .unwrap();
            UnixStream::from(fd)
        };
        let mut second = knock();
        line.connect();
        second.write_all(&line.take_out()).unwrap();
        assert_eq!(frames(&mut line, &mut second, 1)[0].body, b"meanwhile");
        let (mut decoder, mut chunk) = (Decoder::new(), [0; 4096]);
        let asked = loop {
            let n = leader.read(&mut chunk).unwrap();
            decoder.feed(&chunk[..n]);
            if let Some(frame) = decoder.next_frame() {
                break frame;
            }
        };
        assert_eq!((asked.channel, asked.body), (2, b"asked".to_vec()));
        drop(leader);
        thread.join().unwrap();
    }

    #[test]
    fn who_only_connects_does_not_keep_a_leader() {
        let (mut leader, first, thread) = carrier(&own("a-test-of-silence"));
        drop(first);
        let mut chunk = [0; 16];
        let silent =
            socket::socket(AddressFamily::Unix, SockType::Stream, SockFlag::SOCK_CLOEXEC, None).unwrap();
        socket::connect(silent.as_raw_fd(), &address(&own("a-test-of-silence")).unwrap()).unwrap();
        thread.join().unwrap();
        assert_eq!(leader.read(&mut chunk).unwrap(), 0);
    }

    #[test]
    fn an_input_that_ends_while_the_output_holds_is_the_end() {
        let (mut leader, first, thread) = carrier(&own("a-test-of-an-end"));
        first.shutdown(std::net::Shutdown::Write).unwrap();
        thread.join().unwrap();
        assert_eq!(leader.read(&mut [0; 16]).unwrap(), 0, "the leader is told by the end of its stream");
    }

    #[test]
    fn a_way_that_ended_still_delivers_what_was_read() {
        let (from, writer) = unistd::pipe2(nix::fcntl::OFlag::O_NONBLOCK).unwrap();
        let (reader, to) = unistd::pipe2(nix::fcntl::OFlag::O_NONBLOCK).unwrap();
        let mut way = Way::default();
        let mut chunk = [0; 16];
        unistd::write(&writer, b"last words").unwrap();
        way.fill(from.as_fd(), &mut chunk);
        drop(writer);
        way.fill(from.as_fd(), &mut chunk);
        assert!(way.over && !way.done() && !way.wants_more());
        assert!(way.drain(to.as_fd()) && way.done());
        let n = unistd::read(&reader, &mut chunk).unwrap();
        assert_eq!(&chunk[..n], b"last words");
        drop(reader);
        way.waiting.extend(b"more");
        assert!(!way.drain(to.as_fd()), "its reader is gone");
    }
}
