//! The door of a kept world: a private socket that lets in clients of the same user.

use anyhow::Context;
use nix::sys::socket::{self, AddressFamily, Backlog, SockFlag, SockType, UnixAddr, sockopt};
use nix::unistd;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use virtlab_system::clock;
use virtlab_wire::Nanos;

/// Where clients of a kept world come in; the world ends after a time without clients.
pub struct Door {
    listener: OwnedFd,
    path: PathBuf,
    idle: Nanos,
    empty_since: Nanos,
}

impl Door {
    /// A socket at `path` that only its owner can reach.
    ///
    /// # Errors
    /// When the path is too long, or taken, or cannot be written.
    pub fn new(path: &Path, idle: Nanos) -> anyhow::Result<Self> {
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let listener = socket::socket(AddressFamily::Unix, SockType::Stream, flags, None)
            .context("cannot make a unix socket")?;
        let address = UnixAddr::new(path).context("the socket's path is too long")?;
        let mask = nix::sys::stat::umask(nix::sys::stat::Mode::from_bits_truncate(0o177));
        let bound = socket::bind(listener.as_raw_fd(), &address);
        nix::sys::stat::umask(mask);
        bound.with_context(|| format!("cannot listen at {}", path.display()))?;
        let door = Self { listener, path: path.to_path_buf(), idle, empty_since: clock::monotonic() };
        socket::listen(&door.listener, Backlog::new(8)?).context("cannot listen")?;
        Ok(door)
    }

    /// For `poll`.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }

    /// The next client, if it is of the same user.
    pub fn admit(&self) -> Option<OwnedFd> {
        let fd = socket::accept4(self.listener.as_raw_fd(), SockFlag::SOCK_CLOEXEC).ok()?;
        // SAFETY: accept just made this descriptor for us.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        let same = socket::getsockopt(&fd, sockopt::PeerCredentials)
            .is_ok_and(|credentials| credentials.uid() == unistd::getuid().as_raw());
        same.then_some(fd)
    }

    /// Somebody left.
    pub fn left(&mut self) {
        self.empty_since = clock::monotonic();
    }

    /// When an empty world ends.
    pub fn due(&self) -> Nanos {
        self.empty_since + self.idle
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}
