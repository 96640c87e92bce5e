//! A folder of files by system calls, relative to descriptors and never through a link.
//!
//! The folder has a name that cannot be guessed, is made for its role alone, and can be entered by its user alone. A
//! file is called by its key, holds what describes itself, and is removed with the folder.

use crate::probe::workload::by_threads::{Driver, Failure, Performed};
use crate::probe::workload::content::{fill, is_content};
use anyhow::{Context, anyhow, bail, ensure};
use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, PosixFadviseAdvice, openat, posix_fadvise};
use nix::sys::stat::{FileStat, Mode, SFlag, fstat, fstatat, mkdirat};
use nix::sys::statfs::{TMPFS_MAGIC, fstatfs};
use nix::unistd::{UnlinkatFlags, fdatasync, fsync, geteuid, read, unlinkat, write};
use std::ffi::CStr;
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::OnceLock;
use std::thread::sleep;
use std::time::Duration;
use virtlab_load::parameters::files::{BLOCK_BYTES, Cache, Sync};
use virtlab_store::{Deed, Ending, Key, Pick};
use virtlab_system::clock;
use virtlab_wire::Nanos;

/// With what folders of ours begin, for those who find one.
const PREFIX: &str = "virtlab-files-";
/// Of memory that goes to a file past the page cache.
const ALIGNED_BYTES: usize = BLOCK_BYTES as usize;
/// For removing what is there: less than those who collect samples wait.
const REMOVAL_PATIENCE: Nanos = Nanos(40_000_000_000);
/// For a folder of another guest to be seen here.
const MOVE_PATIENCE: Nanos = Nanos(10_000_000_000);
/// Between two looks for a folder that is not found.
const LOOK_EVERY: Duration = Duration::from_millis(100);
const FOLDER: OFlag = OFlag::O_DIRECTORY.union(OFlag::O_NOFOLLOW).union(OFlag::O_CLOEXEC);
const OURS: OFlag = OFlag::O_NOFOLLOW.union(OFlag::O_CLOEXEC);

/// How files are read and written.
#[derive(Clone, Copy, Debug, Default)]
pub struct Way {
    pub flushed: Sync,
    pub direct: bool,
    pub cache: Cache,
}

/// Of a role, or of several that share it.
#[derive(Debug)]
pub struct Directory {
    path: String,
    made: Opened,
    /// That of a role in another guest, whose files are used in place of own ones.
    other: OnceLock<Opened>,
}

/// A folder that is open.
#[derive(Debug)]
struct Opened {
    above: OwnedFd,
    name: String,
    own: OwnedFd,
    is_in_memory: bool,
}

impl Directory {
    /// A new folder in the directory of that path.
    ///
    /// # Errors
    /// When there is no such directory, or nothing can be made in it, with the cure.
    pub fn make(path: &str) -> anyhow::Result<Self> {
        let above = entered(path)?;
        let mut random = [0; 8];
        File::open("/dev/urandom")
            .and_then(|mut file| file.read_exact(&mut random))
            .context("/dev/urandom")?;
        let name = format!("{PREFIX}{:016x}", u64::from_ne_bytes(random));
        mkdirat(&above, &*name, Mode::S_IRWXU).map_err(|errno| refused(path, errno))?;
        Ok(Self { path: path.to_owned(), made: Opened::of(path, above, name)?, other: OnceLock::new() })
    }

    fn folder(&self) -> &Opened {
        self.other.get().unwrap_or(&self.made)
    }

    /// What the folder is called.
    pub fn name(&self) -> &str {
        &self.folder().name
    }

    /// Whether its files are nowhere but in the page cache.
    pub fn is_in_memory(&self) -> bool {
        self.folder().is_in_memory
    }

    /// The folder of that name is used from now on, which a role in another guest has made below the same path.
    ///
    /// # Errors
    /// When it is not there within a while, or what was made for this one cannot be removed.
    pub fn move_to(&self, name: &str) -> anyhow::Result<()> {
        if name == self.name() {
            return Ok(());
        }
        ensure!(
            name.starts_with(PREFIX) && !name.contains('/'),
            "no role makes a folder with the name '{name}'"
        );
        let found = Self::looked_for(&self.path, name, clock::raw() + MOVE_PATIENCE)
            .with_context(|| format!("the files of the other guest are not in {} here", self.path))?;
        self.remove()?;
        self.other.set(found).map_err(|_| anyhow!("it has moved before"))
    }

    /// The folder of that name, which is looked for until then.
    fn looked_for(path: &str, name: &str, until: Nanos) -> anyhow::Result<Opened> {
        loop {
            let found = entered(path).and_then(|above| Opened::of(path, above, name.to_owned()));
            if found.is_ok() || clock::raw() > until {
                return found;
            }
            sleep(LOOK_EVERY);
        }
    }

    /// The same folder, opened again. A file system of the network may have given up what was opened before one of its
    /// servers was replaced, and does not find the folder for a moment after that: so it is looked for until then.
    ///
    /// # Errors
    /// When it is not there any more, or another is in its place.
    pub fn opened_again(&self, until: Nanos) -> anyhow::Result<Self> {
        let made = Self::looked_for(&self.path, self.name(), until)?;
        Ok(Self { path: self.path.clone(), made, other: OnceLock::new() })
    }

    /// Whether files can be opened in that way.
    ///
    /// # Errors
    /// When its file system takes nothing past the page cache, or is itself no more than that.
    pub fn check(&self, way: Way) -> anyhow::Result<()> {
        if way.cache == Cache::Drop && self.is_in_memory() {
            bail!("files of {} are in memory alone, and cannot leave it; remove 'cache: drop'", self.path);
        }
        if !way.direct {
            return Ok(());
        }
        let flags = OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_WRONLY | OFlag::O_DIRECT | OURS;
        let made = openat(&self.folder().own, c"direct", flags, Mode::S_IRUSR | Mode::S_IWUSR);
        let _ = unlinkat(&self.folder().own, c"direct", UnlinkatFlags::NoRemoveDir);
        match made {
            Ok(_) => Ok(()),
            Err(Errno::EINVAL) => bail!("the file system of {} has no O_DIRECT; remove 'direct'", self.path),
            Err(errno) => Err(refused(&self.path, errno)),
        }
    }

    /// Removes the files and the folder; how many it had no time for.
    ///
    /// # Errors
    /// When something cannot be removed.
    pub fn remove(&self) -> anyhow::Result<u64> {
        let late = clock::raw() + REMOVAL_PATIENCE;
        let Opened { above, name: folder, own, .. } = self.folder();
        let left = || format!("cannot remove {}/{folder}; remove it yourself", self.path);
        let mut kept = 0;
        let mut all = Dir::openat(own, c".", OFlag::O_RDONLY | FOLDER, Mode::empty()).with_context(left)?;
        for entry in all.iter() {
            let entry = entry.with_context(left)?;
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            if clock::raw() > late {
                kept += 1;
                continue;
            }
            match unlinkat(own, name, UnlinkatFlags::NoRemoveDir) {
                Ok(()) | Err(Errno::ENOENT) => {}
                Err(errno) => return Err(errno).with_context(left),
            }
        }
        if kept == 0 {
            unlinkat(above, &**folder, UnlinkatFlags::RemoveDir).with_context(left)?;
        }
        Ok(kept)
    }
}

impl Opened {
    /// The folder of that name in the directory that is open, which a process of the same user made.
    fn of(path: &str, above: OwnedFd, name: String) -> anyhow::Result<Self> {
        let own = openat(&above, &*name, OFlag::O_RDONLY | FOLDER, Mode::empty())
            .with_context(|| format!("cannot open the folder that was made in {path}"))?;
        let found = fstat(&own).context("cannot look at the folder that was made")?;
        ensure!(
            found.st_uid == geteuid().as_raw(),
            "somebody else replaced the folder in {path}; write another"
        );
        let is_in_memory = fstatfs(&own).is_ok_and(|found| found.filesystem_type() == TMPFS_MAGIC);
        Ok(Self { above, name, own, is_in_memory })
    }
}

/// The directory of a path, open for what is made in it.
fn entered(path: &str) -> anyhow::Result<OwnedFd> {
    let at = openat(walk(path)?, c".", OFlag::O_RDONLY | FOLDER, Mode::empty());
    at.map_err(|errno| refused(path, errno))
}

/// Opens a path folder by folder, none of which may be a link.
fn walk(path: &str) -> anyhow::Result<OwnedFd> {
    let enter = OFlag::O_PATH | FOLDER;
    let mut at: OwnedFd = File::open("/").context("/")?.into();
    for name in path.split('/').filter(|name| !name.is_empty()) {
        at = openat(&at, name, enter, Mode::empty()).map_err(|errno| match errno {
            Errno::ENOENT => anyhow!("there is no {path} in this guest; mount it before, or write another"),
            Errno::ENOTDIR | Errno::ELOOP => {
                anyhow!("{path}: '{name}' is a link, or no folder; write the path to which it leads")
            }
            errno => refused(path, errno),
        })?;
    }
    Ok(at)
}

/// Why nothing can be made there, and what to do.
fn refused(path: &str, errno: Errno) -> anyhow::Error {
    let cure = match errno {
        Errno::ENOSPC | Errno::EDQUOT => "give it more room, or ask for fewer or smaller files",
        Errno::EROFS => "write a directory that is not mounted read-only",
        _ => "write a directory in which the guest's agent may make files",
    };
    anyhow!("{path}: {} ({errno:?}); {cure}", errno.desc())
}

/// Memory for content, that begins where a file system takes it from.
#[derive(Debug, Default)]
struct Octets {
    all: Vec<u8>,
    first: usize,
}

impl Octets {
    /// At least so many.
    fn of(&mut self, bytes: usize) -> &mut [u8] {
        if self.all.len() < self.first + bytes || self.all.is_empty() {
            self.all = vec![0; bytes + ALIGNED_BYTES];
            self.first = self.all.as_ptr().align_offset(ALIGNED_BYTES).min(ALIGNED_BYTES);
        }
        &mut self.all[self.first..]
    }
}

/// Operations of one thread.
#[derive(Debug)]
pub struct Files<'a> {
    directory: &'a Directory,
    way: Way,
    octets: Octets,
    /// When the first octets of a read came, where more came later.
    first: Option<Nanos>,
}

/// A key as a name, which ends with a zero.
pub(super) fn named(key: Key, name: &mut [u8; 17]) -> &CStr {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for (place, digit) in name.iter_mut().take(16).enumerate() {
        *digit = DIGITS[(key.0 >> (60 - 4 * place)) as usize & 15];
    }
    name[16] = 0;
    CStr::from_bytes_with_nul(name).unwrap_or_default()
}

/// Again, if a signal came.
fn again<T>(mut call: impl FnMut() -> nix::Result<T>) -> nix::Result<T> {
    loop {
        match call() {
            Err(Errno::EINTR) => {}
            other => return other,
        }
    }
}

impl<'a> Files<'a> {
    /// None yet.
    pub fn new(directory: &'a Directory, way: Way) -> Self {
        Self { directory, way, octets: Octets::default(), first: None }
    }

    fn flags(&self) -> OFlag {
        if self.way.direct { OURS | OFlag::O_DIRECT } else { OURS }
    }

    fn write(&mut self, name: &CStr, how: OFlag, bytes: usize) -> nix::Result<()> {
        let mode = Mode::S_IRUSR | Mode::S_IWUSR;
        let flags = OFlag::O_WRONLY | how | self.flags();
        let file = again(|| openat(&self.directory.folder().own, name, flags, mode))?;
        let mut left = &self.octets.of(bytes)[..bytes];
        while !left.is_empty() {
            match again(|| write(&file, left))? {
                0 => return Err(Errno::EIO),
                written => left = &left[written..],
            }
        }
        if self.way.flushed == Sync::Fsync {
            again(|| fsync(&file))?;
        }
        close(file)
    }

    /// How much there is, up to one octet more than there ought to be.
    fn read(&mut self, name: &CStr, bytes: usize) -> nix::Result<usize> {
        let file = again(|| {
            openat(&self.directory.folder().own, name, OFlag::O_RDONLY | self.flags(), Mode::empty())
        })?;
        // Whole blocks, and more than there ought to be: so a file that is too long is seen.
        let most = (bytes / ALIGNED_BYTES + 1) * ALIGNED_BYTES;
        let octets = self.octets.of(most);
        let mut found = 0;
        // A regular file gives less than was requested at its end alone.
        while found < bytes || found == 0 {
            match again(|| read(file.as_fd(), &mut octets[found..most]))? {
                0 => break,
                more => {
                    if found == 0 && more < bytes {
                        self.first = Some(clock::raw());
                    }
                    found += more;
                }
            }
        }
        close(file)?;
        Ok(found)
    }

    /// The file leaves the page cache. What was not written yet is written first: else the kernel keeps it.
    pub(super) fn drop_cached(&self, name: &CStr) -> nix::Result<()> {
        let file =
            again(|| openat(&self.directory.folder().own, name, OFlag::O_RDONLY | OURS, Mode::empty()))?;
        again(|| fdatasync(&file))?;
        posix_fadvise(&file, 0, 0, PosixFadviseAdvice::POSIX_FADV_DONTNEED)?;
        close(file)
    }

    fn state(&self, name: &CStr) -> nix::Result<FileStat> {
        again(|| fstatat(&self.directory.folder().own, name, AtFlags::AT_SYMLINK_NOFOLLOW))
    }

    /// Does it; how it ended, as far as lengths tell, and of a read how much there was.
    fn call(&mut self, pick: &Pick, name: &CStr) -> nix::Result<(Ending, usize)> {
        let bytes = pick.bytes() as usize;
        let ending = match pick.deed {
            Deed::Create => {
                self.write(name, OFlag::O_CREAT | OFlag::O_EXCL, bytes)?;
                Ending::Done
            }
            Deed::Overwrite => {
                self.write(name, OFlag::O_TRUNC, bytes)?;
                Ending::Done
            }
            Deed::Read => {
                let found = self.read(name, bytes)?;
                return Ok((if found == bytes { Ending::Done } else { Ending::Wrong }, found));
            }
            Deed::Delete => {
                again(|| unlinkat(&self.directory.folder().own, name, UnlinkatFlags::NoRemoveDir))?;
                Ending::Done
            }
            Deed::Open => {
                let how = OFlag::O_RDONLY | self.flags();
                close(again(|| openat(&self.directory.folder().own, name, how, Mode::empty()))?)?;
                Ending::Done
            }
            Deed::List => {
                let how = OFlag::O_RDONLY | FOLDER;
                let mut all = again(|| Dir::openat(&self.directory.folder().own, c".", how, Mode::empty()))?;
                let mut is_there = false;
                for entry in all.iter() {
                    is_there |= entry?.file_name() == name;
                }
                if is_there { Ending::Done } else { Ending::Missing }
            }
            Deed::Stat => {
                let state = self.state(name)?;
                let is_file = SFlag::from_bits_truncate(state.st_mode) & SFlag::S_IFMT == SFlag::S_IFREG;
                if is_file && state.st_size == bytes as i64 { Ending::Done } else { Ending::Wrong }
            }
        };
        Ok((ending, 0))
    }
}

/// With the error that a file system may give only now.
fn close(file: OwnedFd) -> nix::Result<()> {
    nix::unistd::close(file)
}

impl Driver for Files<'_> {
    const CLASSES: &'static [Failure] = &[Failure::Server, Failure::Broken];

    fn perform(&mut self, pick: &Pick) -> anyhow::Result<Performed> {
        let (mut name, bytes) = ([0; 17], pick.bytes() as usize);
        let name = named(pick.key, &mut name);
        if matches!(pick.deed, Deed::Create | Deed::Overwrite) {
            fill(pick.key, pick.content(), &mut self.octets.of(bytes)[..bytes]);
        }
        let dropped = if self.way.cache == Cache::Drop && pick.deed == Deed::Read {
            self.drop_cached(name)
        } else {
            Ok(())
        };
        self.first = None;
        let sent = clock::raw();
        let called = dropped.and_then(|()| self.call(pick, name));
        let finished = clock::raw();
        let (mut why, mut failure) = (String::new(), None);
        let ending = match called {
            Ok((Ending::Done, found)) if pick.deed == Deed::Read => {
                let octets = &self.octets.of(found)[..found];
                if is_content(pick.key, pick.content(), octets) { Ending::Done } else { Ending::Wrong }
            }
            Ok((ending, _)) => ending,
            Err(Errno::ENOENT) => Ending::Missing,
            // Somebody else's file, or a link, where ours ought to be.
            Err(Errno::EEXIST | Errno::ELOOP | Errno::EISDIR) => Ending::Wrong,
            Err(
                errno @ (Errno::ENOSPC
                | Errno::EDQUOT
                | Errno::EROFS
                | Errno::EACCES
                | Errno::EPERM
                | Errno::EMFILE
                | Errno::ENFILE),
            ) => return Err(refused(&self.directory.path, errno)),
            Err(errno) => {
                why = errno.desc().to_owned();
                failure = class(errno);
                Ending::Failed
            }
        };
        let first = (pick.deed == Deed::Read).then(|| self.first.unwrap_or(finished));
        Ok(Performed { ending, why, failure, sent, finished, first })
    }
}

/// The class of an error after which a role continues: one of a medium or server, or a server that is not reached.
pub(super) const fn class(errno: Errno) -> Option<Failure> {
    match errno {
        Errno::EIO | Errno::EREMOTEIO => Some(Failure::Server),
        Errno::ENOTCONN
        | Errno::ESTALE
        | Errno::ETIMEDOUT
        | Errno::ECONNABORTED
        | Errno::ECONNREFUSED
        | Errno::ECONNRESET
        | Errno::EHOSTDOWN
        | Errno::EHOSTUNREACH
        | Errno::ENETUNREACH
        | Errno::ESHUTDOWN => Some(Failure::Broken),
        _ => None,
    }
}
