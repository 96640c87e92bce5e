//! `files`: operations on files of a directory, by threads in turns or at a rate; each answer is verified by its
//! content.
//!
//! Each thread does one operation at a time by its driver, and what it does next is chosen as for objects of a store.
//! Roles with the same directory and folder share the files of this process. When the samples of the first of them are
//! collected, after all traffic, every file is read once more, and the folder is removed.

mod directory;

use super::by_threads::{self, AUDIT_PATIENCE};
use super::operations::{self, Choice, ELSEWHERE, Objects, lock};
use super::{Arming, Kind, Prepared, Side, StandBy, Workload, parse};
use crate::probe::report::Report;
use crate::probe::run::Run;
use crate::probe::spool::available_bytes;
use anyhow::{Context, bail};
use directory::{Directory, Files, Way};
use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock, Mutex, OnceLock, Weak};
use virtlab_load::parameters::files::{Files as Parameters, NAME};
use virtlab_store::Folder;
use virtlab_system::clock;
use virtlab_wire::Nanos;

/// In the table of workloads.
pub const KIND: Kind = Kind { sends: false, ..Kind::of(NAME, prepare) };

/// For finding the directory again in the end, where a mount of it was cut.
const PATIENCE: Nanos = Nanos(10_000_000_000);
/// What the guest keeps for everything else.
const LEFT_BYTES: u64 = 8 << 20;

/// Files under one name in one directory, of all roles that name them.
struct Shared {
    folder: Arc<Mutex<Folder>>,
    directory: Directory,
    /// What was there in the end, once that was looked at.
    audited: OnceLock<Result<Audited, String>>,
}

type Audited = Vec<(&'static str, u64)>;
/// By directory and folder; held by the roles.
type Places = BTreeMap<(String, String), Weak<Shared>>;
static PLACES: LazyLock<Mutex<Places>> = LazyLock::new(Mutex::default);

/// The files that a role names, which it makes a folder for if it is the first.
fn shared(own: &Parameters, name: &str) -> anyhow::Result<Arc<Shared>> {
    let mut places = lock(&PLACES);
    let place = (own.directory.clone(), name.to_owned());
    let held = places.get(&place).and_then(Weak::upgrade).filter(|held| held.audited.get().is_none());
    if let Some(held) = held {
        return Ok(held);
    }
    places.retain(|_, held| held.strong_count() > 0);
    let made = Arc::new(Shared {
        folder: Arc::new(Mutex::new(Folder::new(name, 0))),
        directory: Directory::make(&own.directory)?,
        audited: OnceLock::new(),
    });
    places.insert(place, Arc::downgrade(&made));
    Ok(made)
}

fn prepare(arming: Arming<'_>) -> anyhow::Result<Prepared> {
    if arming.side == Side::Server {
        return Ok(Prepared::fixed(StandBy));
    }
    let own: Parameters = parse(&arming.own)?;
    own.check().context("parameters")?;
    let mix = operations::mix(&own.operations)?;
    let held = own.largest_bytes().saturating_mul(u64::from(own.threads));
    let free = available_bytes().saturating_sub(LEFT_BYTES);
    if held > free {
        bail!(
            "threads hold a file each, {held} B, and the guest has {free} B of memory left; write fewer, or smaller files"
        );
    }
    let shared = shared(&own, own.folder.as_ref().unwrap_or(&arming.run.role)).context("directory")?;
    let way = Way { flushed: own.sync, direct: own.direct, cache: own.cache };
    shared.directory.check(way)?;
    let choice = Choice { mix, folder: shared.folder.clone(), seed: arming.seed };
    Ok(Prepared::fixed(Player { own, way, choice, shared }))
}

struct Player {
    own: Parameters,
    way: Way,
    choice: Choice,
    shared: Arc<Shared>,
}

impl Workload for Player {
    /// Threads that take all processors hold back the one that watches, too: then that belongs to what is measured.
    fn counts_on_us(&self) -> bool {
        let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        (self.own.threads as usize) < processors
    }

    fn objects(&self) -> Option<Arc<dyn Objects>> {
        Some(self.shared.clone())
    }

    fn run(self: Box<Self>, run: &Run) -> Report {
        let driver = || Files::new(&self.shared.directory, self.way);
        let mut report = by_threads::play(run, &self.choice, self.own.asks(), self.own.threads, &driver);
        let (shared, threads) = (self.shared.clone(), self.own.threads);
        report.last = Some(Box::new(move || shared.audit(threads)));
        report
    }
}

impl Objects for Shared {
    fn folder(&self) -> &Mutex<Folder> {
        &self.folder
    }

    fn place(&self) -> Option<String> {
        Some(self.directory.name().to_owned())
    }

    fn move_to(&self, place: &str) -> anyhow::Result<()> {
        self.directory.move_to(place)
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if self.audited.get().is_none() && !lock(&self.folder).is_away() {
            let _ = self.directory.remove();
        }
    }
}

impl Shared {
    /// What is there of the files that ought to be, which so many threads read; then all of it is removed.
    fn audit(&self, threads: u32) -> anyhow::Result<Audited> {
        let look = || self.look(threads).map_err(|error| format!("{error:#}"));
        self.audited.get_or_init(look).clone().map_err(anyhow::Error::msg)
    }

    fn look(&self, threads: u32) -> anyhow::Result<Audited> {
        let folder = lock(&self.folder);
        if folder.is_away() {
            return Ok(vec![ELSEWHERE]); // the agent that has them removes them
        }
        let directory = self.directory.opened_again(clock::raw() + PATIENCE)?;
        let audit =
            by_threads::audit(&folder, threads, AUDIT_PATIENCE, &|| Files::new(&directory, Way::default()))?;
        let mut counters: Audited = audit.of_objects().into();
        if !directory.is_in_memory() {
            let bytes = folder.there().map(|object| object.bytes).sum();
            counters.extend([("files_bytes", bytes), ("memory_bytes", available_bytes())]);
        }
        counters.push(("left_files", directory.remove()?));
        Ok(counters)
    }
}

#[cfg(test)]
mod tests;
