//! The leader of an existing host or guest, at the far end of an ssh connection.
//!
//! The connection's standard input and output are its control stream; what it was started from, a copy of this program,
//! is removed first. It changes nothing that it was not asked to: it stands in the machine's own network and reads. The
//! process that the connection started only carries bytes; its child leads. As root the child is the first process of its own
//! PID namespace, so that nothing it started outlives it; an ordinary user's children end with their streams.

use crate::leader::birth::{Born, raise_descriptor_limit};
use crate::leader::serve;
use anyhow::Context;
use nix::errno::Errno;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nix::sys::prctl;
use nix::sys::signal::{SigHandler, Signal, kill};
use nix::sys::socket::{AddressFamily, Shutdown, SockFlag, SockType, shutdown, socketpair};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{self, ForkResult, Pid, fork, geteuid, pipe2};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;
use std::time::Duration;

/// How long the leader has to end after its stream did.
const LAST_WORDS: Duration = Duration::from_secs(5);
const LOOK_EVERY: Duration = Duration::from_millis(20);

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
            let code = carry(ours, child)?;
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

/// Bytes both ways, each by a thread of its own: neither waits for the other. The leader's code, or 1.
fn carry(stream: OwnedFd, leader: Pid) -> anyhow::Result<i32> {
    let down = net_stream(stream.try_clone().context("cannot duplicate a descriptor")?);
    let mut up = net_stream(stream);
    std::thread::spawn(move || {
        let mut down = down;
        copy(&mut std::io::stdin().lock(), &mut down);
        let _ = shutdown(down.as_raw_fd(), Shutdown::Write);
        let mut waited = Duration::ZERO;
        while waited < LAST_WORDS {
            std::thread::sleep(LOOK_EVERY);
            waited += LOOK_EVERY;
        }
        let _ = kill(leader, Signal::SIGKILL);
    });
    copy(&mut up, &mut std::io::stdout().lock());
    // Nobody listens any more: the leader is told so, whatever standard input does.
    let _ = shutdown(up.as_raw_fd(), Shutdown::Both);
    let mut waited = Duration::ZERO;
    loop {
        match waitpid(leader, Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::Exited(_, code)) => return Ok(code),
            Ok(WaitStatus::Signaled(_, signal, _)) => return Ok(128 + signal as i32),
            Ok(_) | Err(Errno::EINTR) => {}
            Err(_) => return Ok(1),
        }
        std::thread::sleep(LOOK_EVERY);
        waited += LOOK_EVERY;
        if waited >= LAST_WORDS {
            let _ = kill(leader, Signal::SIGKILL);
        }
    }
}

fn net_stream(fd: OwnedFd) -> std::os::unix::net::UnixStream {
    fd.into()
}

fn copy(from: &mut impl Read, to: &mut impl Write) {
    let mut chunk = vec![0; 64 << 10];
    loop {
        match from.read(&mut chunk) {
            Ok(0) => return,
            Ok(n) => {
                if to.write_all(&chunk[..n]).and_then(|()| to.flush()).is_err() {
                    return;
                }
            }
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
}
