//! The leader of an existing host or guest, at the far end of an ssh connection.
//!
//! The connection's standard input and output are its control stream; what it was started from, a copy of this program,
//! is removed first. It changes nothing that it was not asked to: it stands in the machine's own network and reads. The
//! process that the connection started only carries bytes; its child leads. As root the child is the first process of its own
//! PID namespace, so that nothing it started outlives it; an ordinary user's children end with their streams.

use crate::leader::birth::{Born, raise_descriptor_limit};
use crate::leader::peer::set_nonblocking;
use crate::leader::serve;
use anyhow::Context;
use nix::errno::Errno;
use nix::mount::{MsFlags, mount};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sched::{CloneFlags, unshare};
use nix::sys::prctl;
use nix::sys::signal::{SigHandler, Signal, kill};
use nix::sys::socket::{AddressFamily, Shutdown, SockFlag, SockType, shutdown, socketpair};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{self, ForkResult, Pid, fork, geteuid, pipe2};
use std::collections::VecDeque;
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::time::Duration;

/// How long the leader has to end after its stream did.
const LAST_WORDS: Duration = Duration::from_secs(5);
const LAST_WORDS_MS: u16 = 5000;
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Bytes that may wait in one direction.
const MOST_WAITING_BYTES: usize = 1 << 20;

/// Command-line options.
#[derive(clap::Args)]
pub struct Options {
    /// A file to remove first: what this program was started from.
    #[arg(long)]
    remove: Option<PathBuf>,
}

/// Carries the control stream between standard input and output and the leader, until either ends.
///
/// # Errors
/// When no process or stream can be made.
pub fn main(options: &Options) -> anyhow::Result<()> {
    let executable: OwnedFd = File::open("/proc/self/exe").context("cannot open the own executable")?.into();
    if let Some(path) = &options.remove {
        std::fs::remove_file(path).with_context(|| format!("cannot remove {}", path.display()))?;
    }
    raise_descriptor_limit();
    // Where namespaces are refused to root (a container), its children end with their streams, as an ordinary user's do.
    let contained =
        geteuid().is_root() && unshare(CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWPID).is_ok();
    let (ours, theirs) = socketpair(AddressFamily::Unix, SockType::Stream, None, SockFlag::SOCK_CLOEXEC)
        .context("no socket pair")?;
    let (lifeline, held) = pipe2(nix::fcntl::OFlag::O_CLOEXEC).context("cannot make the lifeline")?;
    // SAFETY: this process has one thread.
    match unsafe { fork() }.context("cannot fork the leader")? {
        ForkResult::Parent { child } => {
            drop((theirs, lifeline, executable));
            let code = carry(&ours, child)?;
            drop(held);
            std::process::exit(code);
        }
        ForkResult::Child => {
            drop((ours, held));
            lead(theirs, lifeline, executable, contained)
        }
    }
}

fn lead(control: OwnedFd, lifeline: OwnedFd, executable: OwnedFd, contained: bool) -> anyhow::Result<()> {
    prctl::set_pdeathsig(Signal::SIGKILL).context("cannot tie the leader's life to the connection")?;
    unistd::setsid().context("cannot begin a session")?;
    // What a child wrote there by mistake would be bytes of the control stream, and hold the connection open.
    let null =
        std::fs::OpenOptions::new().read(true).write(true).open("/dev/null").context("no /dev/null")?;
    let null: OwnedFd = null.into();
    unistd::dup2_stdin(&null).context("cannot replace standard input")?;
    unistd::dup2_stdout(&null).context("cannot replace standard output")?;
    if contained {
        mount(None::<&str>, "/", None::<&str>, MsFlags::MS_REC | MsFlags::MS_PRIVATE, None::<&str>)
            .context("cannot make mounts private")?;
        let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
        mount(Some("proc"), "/proc", Some("proc"), flags, None::<&str>).context("cannot mount /proc")?;
    }
    let born = Born { lifeline, rootless: !geteuid().is_root(), own_proc: contained };
    let outcome = serve::Leader::new(control, born, executable)?.serve();
    // Commands of an ordinary user; the leader itself has said all it had to say.
    // SAFETY: ignoring a signal installs no handler.
    let _ = unsafe { nix::sys::signal::signal(Signal::SIGTERM, SigHandler::SigIgn) };
    let _ = kill(Pid::from_raw(0), Signal::SIGTERM);
    outcome
}

/// One direction of the stream: what was read and not written yet.
#[derive(Default)]
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

    /// Writes what is taken now; false when nobody takes any more.
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

/// Bytes both ways, neither waiting for the other, until the leader has said all; its code. No threads: a process whose
/// children are in another PID namespace cannot have any.
fn carry(stream: &OwnedFd, leader: Pid) -> anyhow::Result<i32> {
    let (input, output) = (std::io::stdin(), std::io::stdout());
    let (input, output) = (input.as_fd(), output.as_fd());
    for fd in [input, output, stream.as_fd()] {
        set_nonblocking(fd)?;
    }
    let (mut down, mut up) = (Way::default(), Way::default());
    let mut told_end = false;
    let mut chunk = vec![0; 64 << 10];
    while !up.done() {
        let wanted = |yes: bool, events: PollFlags| if yes { events } else { PollFlags::empty() };
        let toward = wanted(!down.waiting.is_empty(), PollFlags::POLLOUT);
        let mut polled =
            vec![PollFd::new(stream.as_fd(), wanted(up.wants_more(), PollFlags::POLLIN) | toward)];
        // A descriptor that nothing is wanted of would still report its end, again and again.
        if down.wants_more() {
            polled.push(PollFd::new(input, PollFlags::POLLIN));
        }
        if !up.waiting.is_empty() {
            polled.push(PollFd::new(output, PollFlags::POLLOUT));
        }
        let timeout = if told_end { PollTimeout::from(LAST_WORDS_MS) } else { PollTimeout::NONE };
        match poll(&mut polled, timeout) {
            Ok(0) => break, // it was told that nobody asks any more, and did not end
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(error).context("cannot poll"),
        }
        if down.wants_more() {
            down.fill(input, &mut chunk);
        }
        if !down.drain(stream.as_fd()) {
            down = Way { waiting: VecDeque::new(), over: true };
        }
        if down.done() && !told_end {
            told_end = true;
            let _ = shutdown(stream.as_raw_fd(), Shutdown::Write);
        }
        if up.wants_more() {
            up.fill(stream.as_fd(), &mut chunk);
        }
        if !up.drain(output) {
            break; // the connection is gone
        }
    }
    let _ = shutdown(stream.as_raw_fd(), Shutdown::Both);
    Ok(await_end(leader))
}

/// The leader's code; it is killed when it does not end by itself.
fn await_end(leader: Pid) -> i32 {
    let mut waited = Duration::ZERO;
    loop {
        match waitpid(leader, Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::Exited(_, code)) => return code,
            Ok(WaitStatus::Signaled(_, signal, _)) => return 128 + signal as i32,
            Ok(_) | Err(Errno::EINTR) => {}
            Err(_) => return 1,
        }
        if waited >= LAST_WORDS {
            let _ = kill(leader, Signal::SIGKILL);
        }
        std::thread::sleep(LOOK_EVERY);
        waited += LOOK_EVERY;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_way_that_ended_still_delivers_what_was_read() {
        let (from, writer) = pipe2(nix::fcntl::OFlag::O_NONBLOCK).unwrap();
        let (reader, to) = pipe2(nix::fcntl::OFlag::O_NONBLOCK).unwrap();
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
        assert!(!way.drain(to.as_fd()), "nobody takes it");
    }
}
