//! How a private world begins: unshare, map identities, fork PID 1.
//!
//! A user namespace can only be left for by a process of one thread, so this happens before anything else. Three
//! things end the world, and with PID 1 the kernel removes every process, namespace and link: the control stream's
//! end, the death of the process outside (a pipe that only it holds, and the kernel's signal), and the leader's own
//! death. The process outside dies with its starter, unless the world may be kept. A stopped process hears of no
//! end; it, too, is killed.

use anyhow::{Context, bail};
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nix::sys::prctl;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, fork, getgid, getppid, getuid, pipe2};
use std::fs;
use std::os::fd::{AsRawFd, OwnedFd};

/// What PID 1 of the new world is told.
#[derive(Debug)]
pub struct Born {
    /// Readable (at its end) once the process outside is gone.
    pub lifeline: OwnedFd,
    /// Whether the world lives in a user namespace of its own.
    pub rootless: bool,
    /// Whether /proc shows this world only.
    pub own_proc: bool,
}

/// Becomes PID 1 of a private world and returns there; the calling process waits for it and exits.
///
/// # Errors
/// When the kernel, or a rule of this system, refuses namespaces. The text says which, with the cure.
pub fn born(control: &OwnedFd, parent: Option<i32>) -> anyhow::Result<Born> {
    let (uid, gid) = (getuid(), getgid());
    let rootless = !uid.is_root();
    raise_descriptor_limit();
    let mut flags = CloneFlags::CLONE_NEWNS
        | CloneFlags::CLONE_NEWNET
        | CloneFlags::CLONE_NEWPID
        | CloneFlags::CLONE_NEWUTS
        | CloneFlags::CLONE_NEWIPC;
    if rootless {
        flags |= CloneFlags::CLONE_NEWUSER;
    }
    unshare(flags).map_err(|errno| anyhow::anyhow!("{}", refusal(errno)))?;
    if let Some(parent) = parent {
        // After `unshare`, whose change of credentials would undo it. The child below is tied to this process by
        // itself.
        prctl::set_pdeathsig(Signal::SIGKILL).context("cannot tie the world's life to its parent")?;
        anyhow::ensure!(getppid().as_raw() == parent, "who started this is gone");
    }
    if rootless {
        let map = |inside: &str, outside: u32| format!("{inside} {outside} 1\n");
        fs::write("/proc/self/uid_map", map("0", uid.as_raw())).context("cannot map the user")?;
        fs::write("/proc/self/setgroups", "deny").context("cannot deny setgroups")?;
        fs::write("/proc/self/gid_map", map("0", gid.as_raw())).context("cannot map the group")?;
    }
    let (lifeline, held) = pipe2(nix::fcntl::OFlag::O_CLOEXEC).context("cannot make the lifeline")?;
    // SAFETY: this process has one thread.
    match unsafe { fork() }.context("cannot fork the first process of the world")? {
        ForkResult::Parent { child } => {
            drop(lifeline);
            // The control stream belongs to the child alone: its end must be seen by the other side.
            let _ = nix::unistd::close(control.as_raw_fd());
            let code = loop {
                match waitpid(child, None) {
                    Ok(WaitStatus::Exited(_, code)) => break code,
                    Ok(WaitStatus::Signaled(_, signal, _)) => break 128 + signal as i32,
                    Ok(_) | Err(nix::errno::Errno::EINTR) => {}
                    Err(_) => break 1,
                }
            };
            drop(held);
            std::process::exit(code);
        }
        ForkResult::Child => {
            drop(held);
            prctl::set_pdeathsig(Signal::SIGKILL).context("cannot tie the world's life to its parent")?;
            mount(None::<&str>, "/", None::<&str>, MsFlags::MS_REC | MsFlags::MS_PRIVATE, None::<&str>)
                .map_err(|errno| anyhow::anyhow!("{}", refusal(errno)))?;
            let own_proc = mount(
                Some("proc"),
                "/proc",
                Some("proc"),
                MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC,
                None::<&str>,
            )
            .is_ok();
            Ok(Born { lifeline, rootless, own_proc })
        }
    }
}

/// A thousand guests need a few thousand descriptors.
pub fn raise_descriptor_limit() {
    if let Ok((_, hard)) = getrlimit(Resource::RLIMIT_NOFILE) {
        let _ = setrlimit(Resource::RLIMIT_NOFILE, hard, hard);
    }
}

/// Why this system does not let an ordinary user have a private world, and what to do.
fn refusal(errno: nix::errno::Errno) -> String {
    let says = |path: &str, value: &str| fs::read_to_string(path).is_ok_and(|text| text.trim() == value);
    let cure = if says("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1") {
        "AppArmor restricts user namespaces here; run as root, or as root: \
         sysctl kernel.apparmor_restrict_unprivileged_userns=0"
    } else if says("/proc/sys/kernel/unprivileged_userns_clone", "0") {
        "user namespaces are switched off here; run as root, or as root: sysctl kernel.unprivileged_userns_clone=1"
    } else if says("/proc/sys/user/max_user_namespaces", "0") {
        "no user namespaces are allowed here; run as root, or as root: sysctl user.max_user_namespaces=10000"
    } else {
        "run as root, or in a container that may make namespaces (CAP_SYS_ADMIN)"
    };
    format!("cannot make a private world: {}; {cure}", errno.desc())
}

/// Gives up early where the descriptor that should carry the control stream is not open.
///
/// # Errors
/// With the cure.
pub fn check_descriptor(fd: i32) -> anyhow::Result<()> {
    if nix::fcntl::fcntl(borrow(fd), nix::fcntl::FcntlArg::F_GETFD).is_err() {
        bail!("descriptor {fd} is not open; this program is started by virtlab, not by hand");
    }
    Ok(())
}

fn borrow<'a>(fd: i32) -> std::os::fd::BorrowedFd<'a> {
    // SAFETY: used for one fcntl that reports a closed descriptor as an error.
    unsafe { std::os::fd::BorrowedFd::borrow_raw(fd) }
}
