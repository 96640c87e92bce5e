//! The probe role: makes and measures traffic inside one guest.
//!
//! One thread serves the control stream and does nothing that can wait long; each armed role has a thread of its own
//! that runs its workload (`workload/`) and may start more. What a role measures goes into bounded spools and is sent,
//! after the traffic, by a thread of its own, one block per frame, so a control message waits for one block at most.
//!
//! The probe lives as long as its control stream: at its end, traffic stops and the process exits.

mod batch;
pub(crate) mod control;
mod endpoint;
mod expected;
mod icmp;
mod live;
mod pacing;
mod parameters;
mod priority;
mod report;
mod run;
mod segmentation;
mod socket;
mod spool;
mod stamps;
mod taint;
mod telemetry;
mod threads;
mod waits;
mod watchdog;
mod workload;

pub(crate) use workload::NAMES as WORKLOADS;
pub(crate) use workload::http::{Framing, read_answer};
pub(crate) use workload::objects::disk::serve as serve_on_store;
pub(crate) use workload::objects::folder::serve as mount_on_store;
pub(crate) use workload::objects::fuzzing::messages;
pub(crate) use workload::objects::service::Options as StoreOptions;
pub(crate) use workload::request_response::service::Options as ServiceOptions;

use anyhow::Context;
use std::os::fd::{FromRawFd, OwnedFd};
use virtlab_system::transport::{Reader, Writer};

/// Command-line options.
#[derive(clap::Args)]
pub struct Options {
    /// Open descriptor of the byte stream to the control plane.
    #[arg(long, default_value_t = 3)]
    control_fd: i32,
}

/// Serves the control stream until it ends.
///
/// # Errors
/// When the descriptor is not open, or cannot be read.
pub fn main(options: Options) -> anyhow::Result<()> {
    // SAFETY: fcntl only inspects the number; a closed one gives an error.
    let open = unsafe { libc::fcntl(options.control_fd, libc::F_GETFD) } >= 0;
    anyhow::ensure!(open, "--control-fd {}: no such open descriptor", options.control_fd);
    // SAFETY: the descriptor is open, and it was handed to this process for this purpose alone.
    let fd = unsafe { OwnedFd::from_raw_fd(options.control_fd) };
    nix::fcntl::fcntl(&fd, nix::fcntl::FcntlArg::F_SETFD(nix::fcntl::FdFlag::FD_CLOEXEC))
        .context("cannot mark the control stream close-on-exec")?;
    prepare_process();
    let writer = Writer::new(fd.try_clone().context("cannot duplicate the control stream")?);
    control::Control::new(writer).serve(Reader::new(fd))
}

/// Serves requests as a service of a guest, until it is killed.
///
/// # Errors
/// When it cannot.
pub fn serve(options: &ServiceOptions) -> anyhow::Result<()> {
    prepare_process();
    workload::request_response::service::main(options)
}

/// Keeps objects as a node of a store, or asks its nodes as a proxy, until it is killed.
///
/// # Errors
/// When it cannot.
pub fn store(options: &StoreOptions) -> anyhow::Result<()> {
    prepare_process();
    workload::objects::service::main(options)
}

/// Sleeps end within microseconds instead of the default 50 us of slack, and many sockets can be open. Threads inherit
/// the timer slack of the thread that starts them.
fn prepare_process() {
    // SAFETY: PR_SET_TIMERSLACK takes a number and touches no memory.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1, 0, 0, 0) };
    if let Ok((_, hard)) = nix::sys::resource::getrlimit(nix::sys::resource::Resource::RLIMIT_NOFILE) {
        let _ = nix::sys::resource::setrlimit(nix::sys::resource::Resource::RLIMIT_NOFILE, hard, hard);
    }
}
