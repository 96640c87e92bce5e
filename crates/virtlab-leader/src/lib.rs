//! The leader: PID 1 of a testbed's private world.
//!
//! It applies kernel operations, keeps namespaces by descriptor, starts probes, the soft switch and commands, passes
//! their frames on, and reads everything back. One `poll` loop in one thread: `setns` moves a thread, and a child must
//! be forkable at any time. Beside it there are threads of `disk` alone, which do neither and hold no lock that a child
//! needs. When it ends, however it ends, the kernel removes the world.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

mod answer;
mod birth;
mod disk;
pub mod inside;
mod kernel;
mod machine;
mod processes;
mod program;
pub mod remote;
mod request;
mod serve;
mod streams;
mod world;

use anyhow::Context;
use program::Program;
use std::os::fd::{FromRawFd, OwnedFd};

pub use disk::{Account, MOUNTED, Mount, Mounted, OnStore, nbd};
pub use program::Build;
pub use request::refused;
pub use world::folder::FOLDER;
pub use world::shift;

/// Command-line options.
#[derive(clap::Args)]
pub struct Options {
    /// Open descriptor of the byte stream to the control plane.
    #[arg(long, default_value_t = 3)]
    control_fd: i32,
    /// CPUs that the whole world runs on (children inherit them); all when absent.
    #[arg(long, value_delimiter = ',')]
    cpus: Vec<usize>,
    /// The process that starts it, and with which the world ends; absent where it may be kept.
    #[arg(long)]
    parent: Option<i32>,
}

/// Builds the private world and serves the control stream until it ends.
///
/// # Errors
/// When this system does not let the caller have a private world, or the control stream breaks.
pub fn main(options: Options, build: Build) -> anyhow::Result<()> {
    birth::check_descriptor(options.control_fd)?;
    // SAFETY: the descriptor is open (checked above), and no other in this process uses it.
    let control = unsafe { OwnedFd::from_raw_fd(options.control_fd) };
    nix::fcntl::fcntl(&control, nix::fcntl::FcntlArg::F_SETFD(nix::fcntl::FdFlag::FD_CLOEXEC))
        .context("cannot set descriptor flags")?;
    let program = Program::own(build)?;
    processes::child::pin(&options.cpus)?;
    let born = birth::born(&control, options.parent)?;
    serve::Leader::new(control, born, program)?.serve()
}
