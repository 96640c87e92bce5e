//! What a server writes: to the device that virtlab gave its guest as a disk; without such a device to a file of its
//! own that has no name, so that the kernel removes it with the process. A disk that is a folder is where such files
//! are.
//!
//! Either is overwritten from its beginning where it would be longer than its bound: a server that writes for days
//! fills no disk. Without a request it writes, too, where it has not for a given time. Writes to a disk are whole
//! sectors that go past the page cache, unless they are buffered, in requests that the kernel passes on as they are.

use super::lock::Lock;
use crate::probe::pacing::sleep;
use anyhow::{Context, ensure};
use nix::fcntl::{OFlag, open};
use nix::sys::stat::Mode;
use nix::sys::statvfs::fstatvfs;
use std::fs::File;
use std::io::{Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use virtlab_disk::whole_sectors;
use virtlab_load::parameters::request_response::{RequestResponse as Parameters, WriteMode};
use virtlab_load::writes::{Places, pieces};
use virtlab_system::clock;
use virtlab_wire::Nanos;

/// Where guests keep files across restarts: on a disk, if they have one.
const FOLDER: &str = "/var/tmp";
/// Disks of the guest, and how virtlab's says that it is one.
const DISKS: &str = "/sys/block";
const SERIAL: &str = "virtlab-disk";
/// Of memory that goes to a disk past the page cache.
const ALIGNED_BYTES: usize = 4096;
/// The longest sleep, so that a stop is seen.
const GLANCE: Nanos = Nanos(20_000_000);

#[derive(Debug)]
struct Progress {
    places: Places,
    /// When the last write began, ended, and how long it took.
    begun: Nanos,
    ended: Nanos,
    took: Nanos,
    counts: Counts,
}

/// What was written.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    pub writes: u64,
    /// Of these, without a request.
    pub idle_writes: u64,
    pub bytes: u64,
    pub time: Nanos,
    /// For which writes waited, because the ones before them took long.
    pub throttled: Nanos,
}

/// Octets that begin where a disk can take them from.
#[derive(Debug)]
struct Octets {
    all: Vec<u8>,
    first: usize,
}

impl Octets {
    fn new(length: usize) -> Self {
        let all = vec![0x77; length + ALIGNED_BYTES];
        let first = all.as_ptr().align_offset(ALIGNED_BYTES).min(ALIGNED_BYTES);
        Self { all, first }
    }

    fn aligned(&self) -> &[u8] {
        &self.all[self.first..]
    }
}

/// The disk that virtlab gave this guest, by its name, if it did.
fn own_disk() -> Option<String> {
    let disks = std::fs::read_dir(DISKS).ok()?;
    disks.flatten().find_map(|disk| {
        let serial = std::fs::read_to_string(disk.path().join("serial")).ok()?;
        (serial.trim() == SERIAL).then(|| disk.file_name().to_string_lossy().into_owned())
    })
}

fn open_disk(name: &str, own: &Parameters) -> anyhow::Result<(File, Places)> {
    let mut flags = OFlag::O_RDWR | OFlag::O_CLOEXEC;
    flags.set(OFlag::O_DIRECT, own.write_mode != WriteMode::Buffered);
    let file: File = open(&*format!("/dev/{name}"), flags, Mode::empty())
        .with_context(|| format!("cannot open the guest's disk {name}"))?
        .into();
    let size_bytes = (&file).seek(SeekFrom::End(0)).context("cannot tell the size of the guest's disk")?;
    ensure!(whole_sectors(own.write_bytes) <= size_bytes, "a write of more than the guest's disk holds");
    Ok((file, Places::on_disk(size_bytes)))
}

fn unnamed_file() -> anyhow::Result<(File, Places)> {
    std::fs::create_dir_all(FOLDER).with_context(|| format!("cannot make {FOLDER}"))?;
    let flags = OFlag::O_TMPFILE | OFlag::O_RDWR | OFlag::O_CLOEXEC;
    let file = open(FOLDER, flags, Mode::S_IRUSR | Mode::S_IWUSR)
        .with_context(|| format!("cannot make a file without a name in {FOLDER}"))?;
    let state = fstatvfs(&file).with_context(|| format!("cannot tell the size of {FOLDER}"))?;
    // A file system without a bound has no blocks.
    let size_bytes = Some(state.blocks() * state.fragment_size()).filter(|size| *size > 0);
    Ok((file.into(), Places::in_file(size_bytes.unwrap_or(u64::MAX))))
}

/// The file of a server.
#[derive(Debug)]
pub struct Writer {
    file: File,
    bytes: u64,
    octets: Octets,
    mode: WriteMode,
    idle: Nanos,
    turn: Lock,
    progress: Mutex<Progress>,
}

impl Writer {
    /// Of a role; `None` if it writes nothing.
    pub fn new(own: &Parameters) -> anyhow::Result<Option<Self>> {
        if own.write_bytes == 0 {
            return Ok(None);
        }
        let (file, places) = match own_disk() {
            Some(name) => open_disk(&name, own)?,
            None => unnamed_file()?,
        };
        Ok(Some(Self {
            file,
            bytes: own.write_bytes,
            octets: Octets::new(whole_sectors(own.write_bytes) as usize),
            mode: own.write_mode,
            idle: Nanos(own.idle_write_ns),
            turn: Lock::default(),
            progress: Mutex::new(Progress {
                places,
                begun: clock::raw(),
                ended: Nanos::ZERO,
                took: Nanos::ZERO,
                counts: Counts::default(),
            }),
        }))
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was written so far.
    pub fn counts(&self) -> Counts {
        self.progress().counts
    }

    /// Writes what a request writes; false when the role was stopped before.
    pub fn write(&self, stopped: impl Fn() -> bool) -> anyhow::Result<bool> {
        if self.mode != WriteMode::Throttled {
            self.write_now()?;
            return Ok(true);
        }
        // One at a time, each as long after the one before as that took: at most half of the time goes into writes.
        if !self.turn.take(&stopped) {
            return Ok(false);
        }
        let from = clock::raw();
        let until = {
            let progress = self.progress();
            progress.ended + progress.took
        };
        while clock::raw() < until {
            if stopped() {
                return Ok(false);
            }
            sleep(until.since(clock::raw()).min(GLANCE));
        }
        self.progress().counts.throttled += clock::raw().since(from);
        let outcome = self.write_now();
        self.turn.give();
        outcome.map(|()| true)
    }

    fn write_now(&self) -> anyhow::Result<()> {
        let begun = clock::raw();
        let (offset, on_disk) = {
            let mut progress = self.progress();
            progress.begun = begun;
            (progress.places.next(self.bytes), progress.places.are_on_disk())
        };
        if on_disk {
            for (offset, bytes) in pieces(offset, self.bytes) {
                let octets = &self.octets.aligned()[..bytes as usize];
                self.file.write_all_at(octets, offset).context("cannot write to its guest's disk")?;
            }
        } else {
            let octets = &self.octets.aligned()[..self.bytes as usize];
            self.file.write_all_at(octets, offset).context("cannot write to its file")?;
        }
        if self.mode != WriteMode::Buffered {
            self.file.sync_data().context("cannot write its file to the disk")?;
        }
        let mut progress = self.progress();
        progress.ended = clock::raw();
        progress.took = progress.ended.since(begun);
        let took = progress.took;
        progress.counts.writes += 1;
        progress.counts.bytes += self.bytes;
        progress.counts.time += took;
        Ok(())
    }

    /// Writes wherever no write began for the given time, until stopped.
    pub fn write_when_idle(&self, stopped: impl Fn() -> bool) -> anyhow::Result<()> {
        while self.idle > Nanos::ZERO && !stopped() {
            let due = self.progress().begun + self.idle;
            let now = clock::raw();
            if now < due {
                sleep(due.since(now).min(GLANCE));
            } else if self.write(&stopped)? {
                self.progress().counts.idle_writes += 1;
            }
        }
        Ok(())
    }
}
