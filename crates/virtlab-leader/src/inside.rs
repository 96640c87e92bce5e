//! The leader of a whole guest: the same requests, in a world that is the guest itself.
//!
//! In a virtual machine it is the first process, started by the initial file system once drivers are loaded, and
//! its control stream is a port of the virtual serial device, `/dev/vportNpM`. Such a port opens once, and reads as
//! ended while no client is connected outside: so the leader waits for that first. In a container it is the first
//! process too, and is born with the stream. When the stream ends, the leader ends, and with its first process the
//! kernel ends the guest.

use crate::birth::{Born, check_descriptor, raise_descriptor_limit};
use crate::program::{Build, Program};
use crate::serve;
use anyhow::{Context, bail, ensure};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::fs::OpenOptions;
use std::os::fd::{AsFd, FromRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use virtlab_system::memory;

const PATIENCE: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// Of a filter of system calls: struct sock_filter, and how many the kernel takes (BPF_MAXINSNS).
const INSTRUCTION_BYTES: usize = 8;
const INSTRUCTIONS_MAX: usize = 4096;

/// Command-line options.
#[derive(clap::Args)]
pub struct Options {
    /// The serial port to the control plane.
    #[arg(long, required_unless_present = "control_fd")]
    port: Option<PathBuf>,
    /// The open descriptor of the stream to the control plane.
    #[arg(long, conflicts_with = "port")]
    control_fd: Option<i32>,
    /// A filter of system calls for this process and all that it starts: instructions as seccomp(2) takes them.
    #[arg(long)]
    filter: Option<PathBuf>,
}

/// Serves the guest's stream until it ends.
///
/// # Errors
/// When the port cannot be opened, or no client connects to it within a minute; when the descriptor is not open; when
/// the kernel does not take the filter.
pub fn main(options: &Options, build: Build) -> anyhow::Result<()> {
    if let Some(path) = &options.filter {
        filter_calls(path).with_context(|| format!("{}: a filter of system calls", path.display()))?;
        memory::give_back();
    }
    raise_descriptor_limit();
    let control = match (&options.port, options.control_fd) {
        (Some(port), _) => opened(port)?,
        (None, Some(fd)) => inherited(fd)?,
        (None, None) => bail!("neither a port nor a descriptor is named"),
    };
    let program = Program::own(build)?;
    // No process outside this machine can be watched: the pipe never ends.
    let (lifeline, held) =
        nix::unistd::pipe2(nix::fcntl::OFlag::O_CLOEXEC).context("cannot make the lifeline")?;
    let outcome =
        serve::Leader::new(control, Born { lifeline, rootless: false, own_proc: true }, program)?.serve();
    drop(held);
    outcome
}

/// Has the kernel filter the system calls of this process, which has one thread yet, and of all its descendants.
fn filter_calls(path: &Path) -> anyhow::Result<()> {
    let octets = std::fs::read(path)?;
    let (instructions, rest) = octets.as_chunks::<INSTRUCTION_BYTES>();
    ensure!(
        rest.is_empty() && (1..=INSTRUCTIONS_MAX).contains(&instructions.len()),
        "{} B are no filter",
        octets.len()
    );
    let mut instructions: Vec<libc::sock_filter> = instructions
        .iter()
        .map(|&[code_0, code_1, jt, jf, k_0, k_1, k_2, k_3]| libc::sock_filter {
            code: u16::from_ne_bytes([code_0, code_1]),
            jt,
            jf,
            k: u32::from_ne_bytes([k_0, k_1, k_2, k_3]),
        })
        .collect();
    let program = libc::sock_fprog { len: instructions.len() as u16, filter: instructions.as_mut_ptr() };
    nix::sys::prctl::set_no_new_privs().context("no_new_privs")?;
    // SAFETY: the kernel reads the program and its instructions during the call alone, and both outlive it.
    let taken =
        unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, 0, &raw const program) };
    nix::errno::Errno::result(taken).context("seccomp")?;
    Ok(())
}

fn opened(port: &Path) -> anyhow::Result<OwnedFd> {
    let control: OwnedFd = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC)
        .open(port)
        .with_context(|| format!("cannot open {}", port.display()))?
        .into();
    wait_for_peer(&control)?;
    Ok(control)
}

fn inherited(fd: i32) -> anyhow::Result<OwnedFd> {
    check_descriptor(fd)?;
    // SAFETY: the descriptor is open (checked above), and no other in this process uses it.
    let control = unsafe { OwnedFd::from_raw_fd(fd) };
    nix::fcntl::fcntl(&control, nix::fcntl::FcntlArg::F_SETFD(nix::fcntl::FdFlag::FD_CLOEXEC))
        .context("cannot set descriptor flags")?;
    Ok(control)
}

fn wait_for_peer(port: &OwnedFd) -> anyhow::Result<()> {
    let mut waited = Duration::ZERO;
    loop {
        let mut polled = [PollFd::new(port.as_fd(), PollFlags::POLLOUT)];
        poll(&mut polled, PollTimeout::ZERO).context("cannot poll the port")?;
        if !polled[0].revents().is_some_and(|events| events.contains(PollFlags::POLLHUP)) {
            return Ok(());
        }
        if waited > PATIENCE {
            bail!("no process has connected to the port");
        }
        std::thread::sleep(LOOK_EVERY);
        waited += LOOK_EVERY;
    }
}
