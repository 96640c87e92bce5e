//! What a server writes: to a file of its own that has no name, so that the kernel removes it with the process.
//!
//! The file is overwritten from its beginning where it would be longer than its bound: a server that writes for days fills
//! no disk. Without a request it writes, too, where it has not for a given time.

use super::lock::Lock;
use crate::clock;
use crate::probe::pacing::sleep;
use anyhow::Context;
use nix::fcntl::{OFlag, open};
use nix::sys::stat::Mode;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use virtlab_load::parameters::request_response::{RequestResponse as Parameters, WriteMode};
use virtlab_wire::Nanos;

/// Where guests keep files across restarts: on a disk, if they have one.
const FOLDER: &str = "/var/tmp";
/// Of the file; one write of more is a file of its length.
const MOST_BYTES: u64 = 64 << 20;
/// The longest sleep, so that a stop is seen.
const GLANCE: Nanos = Nanos(20_000_000);

#[derive(Debug, Default)]
struct Progress {
    offset: u64,
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

/// The file of a server.
#[derive(Debug)]
pub struct Writer {
    file: File,
    octets: Vec<u8>,
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
        std::fs::create_dir_all(FOLDER).with_context(|| format!("cannot make {FOLDER}"))?;
        let flags = OFlag::O_TMPFILE | OFlag::O_RDWR | OFlag::O_CLOEXEC;
        let file = open(FOLDER, flags, Mode::S_IRUSR | Mode::S_IWUSR)
            .with_context(|| format!("cannot make a file without a name in {FOLDER}"))?;
        Ok(Some(Self {
            file: file.into(),
            octets: vec![0x77; own.write_bytes as usize],
            mode: own.write_mode,
            idle: Nanos(own.idle_write_ns),
            turn: Lock::default(),
            progress: Mutex::new(Progress { begun: clock::raw(), ..Progress::default() }),
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
        let length = self.octets.len() as u64;
        let begun = clock::raw();
        let offset = {
            let mut progress = self.progress();
            if progress.offset + length > MOST_BYTES {
                progress.offset = 0;
            }
            progress.begun = begun;
            progress.offset += length;
            progress.offset - length
        };
        self.file.write_all_at(&self.octets, offset).context("cannot write to its file")?;
        if self.mode != WriteMode::Buffered {
            self.file.sync_data().context("cannot write its file to the disk")?;
        }
        let mut progress = self.progress();
        progress.ended = clock::raw();
        progress.took = progress.ended.since(begun);
        let took = progress.took;
        progress.counts.writes += 1;
        progress.counts.bytes += length;
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
