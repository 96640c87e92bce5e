//! Disks of guests that share the machine's kernel: a folder of a size, in memory or on a store.
//!
//! A guest that shares the machine's files, too, has a mount namespace in which its disk is where programs keep files
//! across restarts; whatever is started in its network begins there. A container's runtime mounts the same. Either ends
//! with its last process and descriptor, and the bytes with it.

use anyhow::{Context, anyhow, ensure};
use nix::fcntl::{OFlag, open};
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, setns, unshare};
use nix::sys::stat::{Mode, stat};
use nix::sys::statvfs::fstatvfs;
use std::fs::File;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};

/// Where it is.
pub const FOLDER: &str = "/var/tmp";

/// The disk of a guest.
#[derive(Debug)]
pub struct Folder {
    /// The mount namespace that has it; none where the leader was born in that.
    mounts: Option<OwnedFd>,
    root: OwnedFd,
}

impl Folder {
    /// Of this size, in whole pages.
    ///
    /// # Errors
    /// When the kernel gives no mount namespace or no such file system, or there is no such folder.
    pub fn new(size_bytes: u64) -> anyhow::Result<Self> {
        // A thread alone is moved, and ends here: the leader stays among its own mounts.
        let folder = apart(move || mounted(size_bytes))?.context("cannot make a disk in memory")?;
        let has_bytes = folder.size_bytes()?;
        ensure!(has_bytes == size_bytes, "a disk in memory has {has_bytes} B, not {size_bytes}");
        Ok(folder)
    }

    /// One that is mounted already, in that mount namespace.
    ///
    /// # Errors
    /// When the kernel does not let it be seen.
    pub fn of(mounts: OwnedFd) -> anyhow::Result<Self> {
        apart(move || {
            unshare(CloneFlags::CLONE_FS).context("no folders of its own for a thread")?;
            enter(mounts.as_raw_fd())?;
            Ok(Self { mounts: Some(mounts), root: root()? })
        })?
    }

    /// That of the guest in which the leader is, if its runtime mounted one.
    pub fn here() -> Option<Self> {
        let (own, around) = (stat(FOLDER).ok()?, stat("/var").ok()?);
        if own.st_dev == around.st_dev {
            return None;
        }
        Some(Self { mounts: None, root: root().ok()? })
    }

    /// The mount namespace in which what is started in the guest's network begins.
    pub fn mounts(&self) -> Option<RawFd> {
        self.mounts.as_ref().map(AsRawFd::as_raw_fd)
    }

    /// What it holds, as the kernel has it.
    ///
    /// # Errors
    /// When the kernel does not tell.
    pub fn size_bytes(&self) -> anyhow::Result<u64> {
        let state = fstatvfs(&self.root).context("cannot tell the size of a disk")?;
        Ok(state.blocks() * state.fragment_size())
    }
}

/// Does something on a thread that ends with it.
fn apart<T: Send + 'static>(does: impl FnOnce() -> T + Send + 'static) -> anyhow::Result<T> {
    let thread = std::thread::Builder::new().spawn(does).context("cannot start a thread for a disk")?;
    thread.join().map_err(|_| anyhow!("the thread of a disk died"))
}

fn mounted(size_bytes: u64) -> anyhow::Result<Folder> {
    unshare(CloneFlags::CLONE_NEWNS).context("no mount namespace")?;
    let options = format!("size={size_bytes},mode=1777");
    let safe = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
    mount(Some("tmpfs"), FOLDER, Some("tmpfs"), safe, Some(options.as_str()))
        .with_context(|| format!("cannot mount it at {FOLDER}"))?;
    let mounts = File::open("/proc/thread-self/ns/mnt").context("cannot open its mount namespace")?;
    Ok(Folder { mounts: Some(mounts.into()), root: root()? })
}

fn root() -> anyhow::Result<OwnedFd> {
    open(FOLDER, OFlag::O_DIRECTORY | OFlag::O_CLOEXEC, Mode::empty())
        .with_context(|| format!("cannot open {FOLDER}"))
}

/// Moves the calling process, which has one thread, to where a guest's disk is.
///
/// # Errors
/// When the kernel refuses.
pub fn enter(mounts: RawFd) -> anyhow::Result<()> {
    // SAFETY: the descriptor stays open in the books of the leader, whose child this is.
    let mounts = unsafe { BorrowedFd::borrow_raw(mounts) };
    setns(mounts, CloneFlags::CLONE_NEWNS).context("cannot enter the mount namespace of its guest")
}
