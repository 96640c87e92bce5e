//! Where the values under `/proc/sys` of each namespace are found, in constant time.
//!
//! The kernel keeps one cached entry `net` per namespace under one name of one directory, all in one chain of the
//! name cache, and a look-up walks the chain: with N namespaces N^2 / 2 comparisons. But every mount of procfs has
//! a cache of its own (proc(5), since Linux 5.8). So a detached mount serves a bounded number of namespaces, and
//! the next one replaces it. Where procfs may not be mounted (a container that masks parts of it), the world's own
//! `/proc` serves.

use anyhow::Context;
use nix::errno::Errno;
use nix::fcntl::{OFlag, openat};
use nix::sys::stat::Mode;
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// Namespaces that one mount serves: a mount takes about as long as walking this many entries a few times.
const NAMESPACES_PER_MOUNT: usize = 64;
const FSCONFIG_CMD_CREATE: libc::c_uint = 6;

/// A directory below `/proc/sys`, and the mount that new ones are looked up in.
#[derive(Debug, Default)]
pub struct Values {
    mount: Option<OwnedFd>,
    served: usize,
    /// Directory of the last value set, with the namespace and path that it is of.
    last: Option<(String, String, OwnedFd)>,
    /// `net` of the namespace that was served last.
    net: Option<(String, OwnedFd)>,
}

impl Values {
    /// A directory below `/proc/sys`, `net/ipv4`, as the namespace sees it that the caller is in.
    ///
    /// # Errors
    /// When there is no such directory.
    pub fn directory(&mut self, namespace: &str, path: &str) -> anyhow::Result<BorrowedFd<'_>> {
        if self.last.as_ref().is_none_or(|(of, at, _)| of != namespace || at != path) {
            if self.net.as_ref().is_none_or(|(of, _)| of != namespace) {
                self.net = Some((namespace.to_owned(), self.open_net()?));
            }
            let (_, net) = self.net.as_ref().context("a directory that was just opened")?;
            let below = path.strip_prefix("net/").context("only values under net/ belong to a namespace")?;
            self.last = Some((namespace.to_owned(), path.to_owned(), open_below(net, below)?));
        }
        let (_, _, fd) = self.last.as_ref().context("a directory that was just opened")?;
        Ok(fd.as_fd())
    }

    /// Forgets directories of a namespace that is let go of: an open one would keep it alive.
    pub fn forget(&mut self) {
        self.last = None;
        self.net = None;
    }

    fn open_net(&mut self) -> anyhow::Result<OwnedFd> {
        if self.served.is_multiple_of(NAMESPACES_PER_MOUNT) {
            self.mount = None;
            if self.served > 0 {
                self.mount = detached_procfs().ok();
            }
        }
        self.served += 1;
        match &self.mount {
            Some(mount) => open_below(mount, "sys/net"),
            None => Ok(File::open("/proc/sys/net").context("cannot open /proc/sys/net")?.into()),
        }
    }
}

fn open_below(directory: &OwnedFd, path: &str) -> anyhow::Result<OwnedFd> {
    let flags = OFlag::O_CLOEXEC | OFlag::O_RDONLY | OFlag::O_DIRECTORY;
    openat(directory, path, flags, Mode::empty()).with_context(|| format!("cannot open {path} below /proc"))
}

/// Mounts procfs nowhere: it lives as long as the descriptor.
fn detached_procfs() -> nix::Result<OwnedFd> {
    let owned = |code: libc::c_long| {
        // SAFETY: a call that succeeded just made this descriptor for us.
        Errno::result(code).map(|fd| unsafe { OwnedFd::from_raw_fd(fd as i32) })
    };
    // SAFETY: fsopen(2) reads a string that ends with NUL.
    let context = owned(unsafe { libc::syscall(libc::SYS_fsopen, c"proc".as_ptr(), libc::FSOPEN_CLOEXEC) })?;
    let none = std::ptr::null::<libc::c_char>();
    // SAFETY: fsconfig(2) with FSCONFIG_CMD_CREATE takes no key and no value.
    Errno::result(unsafe {
        libc::syscall(libc::SYS_fsconfig, context.as_raw_fd(), FSCONFIG_CMD_CREATE, none, none, 0)
    })?;
    let attributes = libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV | libc::MOUNT_ATTR_NOEXEC;
    // SAFETY: fsmount(2) takes numbers.
    owned(unsafe {
        libc::syscall(
            libc::SYS_fsmount,
            context.as_raw_fd(),
            libc::FSMOUNT_CLOEXEC,
            attributes as libc::c_uint,
        )
    })
}
