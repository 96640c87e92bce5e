//! The leader of a whole virtual machine: the same requests, in a world that is the machine itself.
//!
//! It is the machine's first process, started by the initial file system once drivers are loaded, and its control stream
//! is a port of the virtual serial device, `/dev/vportNpM`. Such a port opens once, and reads as ended while nobody is
//! connected outside: so the leader waits for that first. When the stream ends, the leader ends, and the kernel, which
//! cannot be without a first process, stops the machine.

use crate::leader::birth::{Born, raise_descriptor_limit};
use crate::leader::serve;
use anyhow::{Context, bail};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::fs::OpenOptions;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Command-line options.
#[derive(clap::Args)]
pub struct Options {
    /// The serial port to the control plane.
    #[arg(long)]
    port: PathBuf,
}

/// Serves the machine's port until it ends.
///
/// # Errors
/// When the port cannot be opened, or nobody is connected to it within a minute.
pub fn main(options: &Options) -> anyhow::Result<()> {
    raise_descriptor_limit();
    let control: OwnedFd = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC)
        .open(&options.port)
        .with_context(|| format!("cannot open {}", options.port.display()))?
        .into();
    wait_for_peer(&control)?;
    let executable: OwnedFd =
        std::fs::File::open("/proc/self/exe").context("cannot open the own executable")?.into();
    // Nobody outside this machine can be watched: the pipe never ends.
    let (lifeline, held) =
        nix::unistd::pipe2(nix::fcntl::OFlag::O_CLOEXEC).context("cannot make the lifeline")?;
    let outcome =
        serve::Leader::new(control, Born { lifeline, rootless: false, own_proc: true }, executable)?.serve();
    drop(held);
    outcome
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
            bail!("nobody is connected to the port");
        }
        std::thread::sleep(LOOK_EVERY);
        waited += LOOK_EVERY;
    }
}
