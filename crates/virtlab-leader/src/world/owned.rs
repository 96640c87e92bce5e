//! Network namespaces that belong to a user namespace of their own, for containers of root.
//!
//! What a process may do to a network is a matter of the user namespace that has the network (`net->user_ns`). A
//! container in a user namespace has its powers over its vNICs only if both were made together. So a child makes both,
//! the leader, who has the right to, says who its users are outside, and keeps the network; the user namespace lives as
//! long.

use crate::world::operation::Users;
use anyhow::{Context, ensure};
use nix::errno::Errno;
use nix::sched::{CloneFlags, unshare};
use nix::sys::wait::waitpid;
use nix::unistd::{ForkResult, Pid, fork, pipe2, read, write};
use std::fs::{self, File};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// `NS_GET_USERNS` of linux/nsfs.h: `_IO(0xb7, 1)`.
const NS_GET_USERNS: libc::Ioctl = 0xb701;

/// Makes a user namespace with these users, and a network in it.
///
/// # Errors
/// When the kernel refuses one of them, or this process may not say who the users are.
pub fn network(users: Users) -> anyhow::Result<OwnedFd> {
    let (made, their_made) = pipe2(nix::fcntl::OFlag::O_CLOEXEC).context("no pipe")?;
    let (their_leave, leave) = pipe2(nix::fcntl::OFlag::O_CLOEXEC).context("no pipe")?;
    // SAFETY: the leader has one thread, and the child calls nothing but the kernel until it ends.
    match unsafe { fork() }.context("cannot fork")? {
        ForkResult::Child => {
            let outcome = unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNET);
            let told = [outcome.err().map_or(0, |errno| errno as i32 as u8)];
            let _ = write(&their_made, &told);
            drop(leave);
            let _ = read(&their_leave, &mut [0]); // until the other end is closed
            // SAFETY: ends this process without running anything of the leader's.
            unsafe { libc::_exit(0) }
        }
        ForkResult::Parent { child } => {
            drop((their_made, their_leave));
            let network = network_of(child, &made, users);
            drop(leave);
            let _ = waitpid(child, None);
            network
        }
    }
}

fn network_of(child: Pid, made: &OwnedFd, users: Users) -> anyhow::Result<OwnedFd> {
    let mut errno = [0];
    ensure!(read(made, &mut errno).context("cannot hear of the user namespace")? == 1, "its maker died");
    if errno[0] != 0 {
        return Err(Errno::from_raw(i32::from(errno[0]))).context("cannot make a user namespace");
    }
    let Users { first, count } = users;
    for map in ["uid_map", "gid_map"] {
        fs::write(format!("/proc/{child}/{map}"), format!("0 {first} {count}\n"))
            .with_context(|| format!("cannot map {count} users from {first} on ({map})"))?;
    }
    Ok(File::open(format!("/proc/{child}/ns/net")).context("cannot open its network namespace")?.into())
}

/// The user namespace that a network belongs to.
///
/// # Errors
/// When it is neither this user namespace nor one below it.
pub fn users_of(network: BorrowedFd<'_>) -> anyhow::Result<OwnedFd> {
    // SAFETY: the request takes no argument and gives a new descriptor.
    let fd = Errno::result(unsafe { libc::ioctl(network.as_raw_fd(), NS_GET_USERNS) })
        .context("cannot find the user namespace of a network")?;
    // SAFETY: the descriptor was just opened and no other owns it.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    nix::fcntl::fcntl(fd.as_fd(), nix::fcntl::FcntlArg::F_SETFD(nix::fcntl::FdFlag::FD_CLOEXEC))
        .context("cannot set descriptor flags")?;
    Ok(fd)
}
