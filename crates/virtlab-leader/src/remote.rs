//! The leader of an existing host or guest, at the far end of an ssh connection.
//!
//! The connection's standard input and output are its control stream; what it was started from, a copy of this
//! program, is removed first. It changes nothing that it was not asked to: it is in the machine's own network and
//! reads. The process that the connection started only carries frames (`carrier.rs`), and continues over another
//! connection when its own is cut; its child leads. As root the child is the first process of its own PID
//! namespace, so that nothing it started outlives it; an ordinary user's leader ends all that it started, or else
//! the process above it does (`orphans.rs`).

use crate::birth::{Born, raise_descriptor_limit};
use crate::processes::orphans;
use crate::program::{Build, Program};
use crate::serve;
use crate::streams::carrier::{self, Carrier};
use anyhow::Context;
use nix::errno::Errno;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nix::sys::prctl;
use nix::sys::signal::{SigHandler, Signal, kill};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socketpair};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{self, ForkResult, Pid, fork, geteuid, pipe2};
use std::os::fd::{AsFd, OwnedFd};
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
    /// The name under which another connection finds this leader.
    #[arg(long)]
    name: String,
}

/// Command-line options of a connection that comes after one that was cut.
#[derive(clap::Args)]
pub struct RejoinOptions {
    /// The leader's name.
    #[arg(long)]
    name: String,
}

/// Joins this connection to a leader that lost its own.
///
/// # Errors
/// If no process waits under that name.
pub fn rejoin(options: &RejoinOptions) -> anyhow::Result<()> {
    carrier::rejoin(&options.name)
}

/// Carries the control stream between connections and the leader, until the leader or the control plane ends.
///
/// # Errors
/// When no process or stream can be made.
pub fn main(options: &Options, build: Build) -> anyhow::Result<()> {
    let program = Program::own(build)?;
    if let Some(path) = &options.remove {
        std::fs::remove_file(path).with_context(|| format!("cannot remove {}", path.display()))?;
    }
    raise_descriptor_limit();
    // Where namespaces are refused to root (a container), what it leaves is ended as an ordinary user's is.
    let contained =
        geteuid().is_root() && unshare(CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWPID).is_ok();
    let (ours, theirs) = socketpair(AddressFamily::Unix, SockType::Stream, None, SockFlag::SOCK_CLOEXEC)
        .context("no socket pair")?;
    let (lifeline, held) = pipe2(nix::fcntl::OFlag::O_CLOEXEC).context("cannot make the lifeline")?;
    orphans::adopt().context("cannot be the one whom orphans fall to")?;
    // SAFETY: this process has one thread.
    match unsafe { fork() }.context("cannot fork the leader")? {
        ForkResult::Parent { child } => {
            drop((theirs, lifeline, program));
            // A session that is cut may say so by this signal.
            // SAFETY: ignoring a signal installs no handler.
            let _ = unsafe { nix::sys::signal::signal(Signal::SIGHUP, SigHandler::SigIgn) };
            let outcome = connections()
                .and_then(|(input, output)| Carrier::new(ours, input, output, &options.name))
                .and_then(Carrier::carry);
            // The carrier's end of the leader's stream is closed by now, so the leader ends.
            let code = await_end(child);
            orphans::end_all(LAST_WORDS);
            drop(held);
            outcome.map(|()| std::process::exit(code))
        }
        ForkResult::Child => {
            drop((ours, held));
            lead(theirs, lifeline, program, contained)
        }
    }
}

/// The first connection: standard input and output, which nothing else holds from then on.
fn connections() -> anyhow::Result<(OwnedFd, OwnedFd)> {
    let input = std::io::stdin().as_fd().try_clone_to_owned().context("no standard input")?;
    let output = std::io::stdout().as_fd().try_clone_to_owned().context("no standard output")?;
    let null = null()?;
    unistd::dup2_stdin(&null).context("cannot replace standard input")?;
    unistd::dup2_stdout(&null).context("cannot replace standard output")?;
    Ok((input, output))
}

fn null() -> anyhow::Result<OwnedFd> {
    let file =
        std::fs::OpenOptions::new().read(true).write(true).open("/dev/null").context("no /dev/null")?;
    Ok(file.into())
}

fn lead(control: OwnedFd, lifeline: OwnedFd, program: Program, contained: bool) -> anyhow::Result<()> {
    if contained {
        prctl::set_pdeathsig(Signal::SIGKILL).context("cannot tie the leader's life to the connection")?;
    } else {
        // It has to live on to end what it started; the lifeline tells it when the process above it is gone.
        orphans::adopt().context("cannot be the one whom orphans fall to")?;
    }
    unistd::setsid().context("cannot begin a session")?;
    // What a child wrote there by mistake would be bytes of the control stream, and hold the connection open.
    let null = null()?;
    unistd::dup2_stdin(&null).context("cannot replace standard input")?;
    unistd::dup2_stdout(&null).context("cannot replace standard output")?;
    if contained {
        mount(None::<&str>, "/", None::<&str>, MsFlags::MS_REC | MsFlags::MS_PRIVATE, None::<&str>)
            .context("cannot make mounts private")?;
        let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
        mount(Some("proc"), "/proc", Some("proc"), flags, None::<&str>).context("cannot mount /proc")?;
    }
    let born = Born { lifeline, rootless: !geteuid().is_root(), own_proc: contained };
    let outcome = serve::Leader::new(control, born, program)?.serve();
    if !contained {
        orphans::end_all(LAST_WORDS / 2);
    }
    outcome
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
