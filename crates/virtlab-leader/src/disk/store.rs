//! What a disk holds: memory, or a file without a name, so that the kernel removes either with the leader.

use anyhow::Context;
use nix::fcntl::{FallocateFlags, OFlag, fallocate, open};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::stat::Mode;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// The bytes of a disk.
#[derive(Debug)]
pub struct Store(File);

impl Store {
    /// In memory, which it takes as it is written to.
    ///
    /// # Errors
    /// When the kernel has none.
    pub fn in_memory(size_bytes: u64) -> anyhow::Result<Self> {
        let file: File =
            memfd_create(c"virtlab-disk", MFdFlags::MFD_CLOEXEC).context("no memory for a disk")?.into();
        file.set_len(size_bytes).context("no memory for a disk of its size")?;
        Ok(Self(file))
    }

    /// In a file of a folder; `whole`: it has all of its room from the beginning.
    ///
    /// # Errors
    /// When the folder takes no such file, or has no room for it.
    pub fn in_folder(folder: &Path, size_bytes: u64, whole: bool) -> anyhow::Result<Self> {
        let flags = OFlag::O_TMPFILE | OFlag::O_RDWR | OFlag::O_CLOEXEC;
        let at = || format!("cannot make a disk in {}", folder.display());
        let file = File::from(open(folder, flags, Mode::S_IRUSR | Mode::S_IWUSR).with_context(at)?);
        if whole {
            fallocate(&file, FallocateFlags::empty(), 0, i64::try_from(size_bytes).with_context(at)?)
                .with_context(at)?;
        } else {
            file.set_len(size_bytes).with_context(at)?;
        }
        Ok(Self(file))
    }

    /// Bytes from a place on.
    pub fn read(&self, offset: u64, bytes: u64) -> std::io::Result<Vec<u8>> {
        let mut octets = vec![0; bytes as usize];
        self.0.read_exact_at(&mut octets, offset)?;
        Ok(octets)
    }

    /// Overwrites bytes from a place on.
    pub fn write(&self, offset: u64, octets: &[u8]) -> std::io::Result<()> {
        self.0.write_all_at(octets, offset)
    }
}
