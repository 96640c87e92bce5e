//! Operations of a role by threads, each of which does one at a time by a driver of its own, in turns or at a rate.
//!
//! What is done next is chosen by `operations`. Whatever does an operation, and waits for it, is a driver: a thread has
//! one. A directory is one, by system calls; a store that is asked by requests is another.

use super::operations::{AWAY, Choice, Operation, Turns, lock};
use crate::probe::pacing::{Pacer, Pacing};
use crate::probe::report::Report;
use crate::probe::run::Run;
use anyhow::{Context, anyhow};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::Builder;
use virtlab_load::parameters::objects::Asks;
use virtlab_store::{Audit, Ending, Folder, Listing, Pick};
use virtlab_system::clock;
use virtlab_system::work::charged_ns;
use virtlab_wire::Nanos;

/// Of a thread that does operations; what it keeps is elsewhere.
const STACK_BYTES: usize = 256 << 10;
/// Of operations in turns, so many are taken at once at most, and no more than are done in this time: others can do
/// nothing with the objects that they need.
const ROUND_MOST: usize = 16;
const ROUND: Nanos = Nanos(100_000);
/// For reading what is there in the end: the testbed waits for a minute.
pub const AUDIT_PATIENCE: Nanos = Nanos(40_000_000_000);
/// Threads that read it, at most.
const READERS_MOST: u32 = 16;

/// Classes of failures, of which a driver tells some apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The store does not allow it.
    Denied,
    /// What holds the objects is not there.
    NoBucket,
    /// The store asks for fewer requests.
    Throttled,
    /// An error inside the store, or of what holds the files.
    Server,
    /// The connection could not be made, or ended without an answer.
    Broken,
}

/// How many classes there are.
const FAILURES: usize = 5;

impl Failure {
    /// Of a driver that tells all of them apart.
    pub const ALL: [Self; FAILURES] =
        [Self::Denied, Self::NoBucket, Self::Throttled, Self::Server, Self::Broken];

    /// Counts failures of the class.
    const fn counter(self) -> &'static str {
        match self {
            Self::Denied => "denied_operations",
            Self::NoBucket => "no_bucket_operations",
            Self::Throttled => "throttled_operations",
            Self::Server => "server_error_operations",
            Self::Broken => "broken_operations",
        }
    }
}

/// An operation that was done by a driver.
pub struct Performed {
    pub ending: Ending,
    /// Of one that failed: why, and its class, if it is of any.
    pub why: String,
    pub failure: Option<Failure>,
    /// When it began, and when what keeps the objects had answered: making and comparing content is outside.
    pub sent: Nanos,
    pub finished: Nanos,
    /// Of a read: when its first octets came.
    pub first: Option<Nanos>,
}

/// Does one operation at a time, on one thread, and compares the content that it reads.
pub trait Driver: Send {
    /// Of which classes failures may be.
    const CLASSES: &'static [Failure];

    /// # Errors
    /// When no further operation makes sense, as where there is no room.
    fn perform(&mut self, pick: &Pick) -> anyhow::Result<Performed>;

    /// The page of names that the last operation gave, to be compared with those that ought to be there.
    fn page(&mut self) -> Option<Listing> {
        None
    }
}

/// Plays a role from its start to its end on so many threads, which are there before it starts, so that all begin at
/// once.
pub fn play<D: Driver>(
    run: &Run,
    choice: &Choice,
    asks: Asks<'_>,
    threads: u32,
    driver: &(impl Fn() -> D + Sync),
) -> Report {
    let mut report = Report::default();
    let playing = Playing {
        run,
        choice,
        asks,
        turns: OnceLock::new(),
        over: OnceLock::new(),
        told: OnceLock::new(),
        failed: Default::default(),
    };
    std::thread::scope(|scope| {
        for number in 1..threads {
            let thread = Builder::new().name(format!("operations {number}")).stack_size(STACK_BYTES);
            let playing = &playing;
            if let Err(error) = thread.spawn_scoped(scope, move || playing.work(number, &mut driver())) {
                let _ = playing.over.set(format!("cannot start thread {number} of the role: {error}"));
                break;
            }
        }
        playing.work(0, &mut driver());
    });
    let Playing { turns, over, failed, .. } = playing;
    report.failure = over.into_inner();
    let Some(turns) = turns.into_inner() else { return report };
    let mut turns = turns.into_inner().unwrap_or_else(PoisonError::into_inner);
    report.complete = report.failure.is_none() && !run.stopped();
    if report.complete {
        turns.skip_rest();
    }
    report.add("failed_operations", turns.failed());
    for class in D::CLASSES {
        report.add(class.counter(), failed[*class as usize].load(Ordering::Relaxed));
    }
    turns.tell(threads, &mut report);
    report
}

/// Reads every object of a folder once more, on so many threads or `READERS_MOST`; those that are not read within
/// the time that is left for it are counted as unread.
///
/// # Errors
/// When no further read makes sense, or no thread can be started.
pub fn audit<D: Driver>(
    folder: &Folder,
    threads: u32,
    patience: Nanos,
    driver: &(impl Fn() -> D + Sync),
) -> anyhow::Result<Audit> {
    let late = clock::raw() + patience;
    let left = Mutex::new(folder.reads());
    let next = || lock(&left).next();
    let work = || -> anyhow::Result<Audit> {
        let (mut reader, mut audit) = (driver(), Audit::default());
        while clock::raw() < late
            && let Some(pick) = next()
        {
            audit.objects += 1;
            match reader.perform(&pick)?.ending {
                Ending::Done => {}
                Ending::Wrong => audit.stale += 1,
                _ => audit.lost += 1,
            }
        }
        Ok(audit)
    };
    let mut audit = std::thread::scope(|scope| -> anyhow::Result<Audit> {
        let thread = || Builder::new().name("audit".into()).stack_size(STACK_BYTES);
        let others = (1..threads.min(READERS_MOST)).map(|_| thread().spawn_scoped(scope, work));
        let others = others.collect::<Result<Vec<_>, _>>().context("a thread that reads what is there")?;
        let mut sum = work()?;
        for other in others {
            let read = other.join().map_err(|_| anyhow!("a thread that reads what is there has died"))??;
            sum.objects += read.objects;
            sum.lost += read.lost;
            sum.stale += read.stale;
        }
        Ok(sum)
    })?;
    audit.in_doubt = folder.in_doubt();
    audit.unread = lock(&left).by_ref().count() as u64;
    audit.objects += audit.unread;
    Ok(audit)
}

/// A role while its threads play.
struct Playing<'a> {
    run: &'a Run,
    choice: &'a Choice,
    asks: Asks<'a>,
    /// From the start on.
    turns: OnceLock<Mutex<Turns<'a>>>,
    /// Why no further operation makes sense.
    over: OnceLock<String>,
    /// Whether an error was told already.
    told: OnceLock<()>,
    /// Operations that failed, by class.
    failed: [AtomicU64; FAILURES],
}

impl<'a> Playing<'a> {
    /// Of the thread with that number, unless the role is stopped before its start.
    fn work(&self, thread: u32, driver: &mut impl Driver) {
        let Some(turns) = self.begun(thread) else { return };
        let before_ns = charged_ns();
        self.play(turns, thread, driver);
        lock(turns).worked(charged_ns() - before_ns);
    }

    /// Sleeps until the start, which the first thread tells.
    fn begun(&self, thread: u32) -> Option<&Mutex<Turns<'a>>> {
        let pacer = Pacer::new(Pacing::Sleep);
        let at = if thread == 0 { self.run.wait_for_start(pacer) } else { self.run.wait_for_gate(pacer) }?;
        if lock(&self.choice.folder).is_away() {
            let _ = self.over.set(AWAY.into());
        }
        let turns = || Turns::new(self.choice, self.asks, clock::raw().max(at), self.run);
        Some(self.turns.get_or_init(|| Mutex::new(turns())))
    }

    fn hold<'b>(
        &'b self,
        turns: &'b Mutex<Turns<'a>>,
    ) -> (MutexGuard<'b, Turns<'a>>, MutexGuard<'b, Folder>) {
        (lock(turns), lock(&self.choice.folder))
    }

    /// Whether no further operation begins.
    fn is_over(&self) -> bool {
        self.run.stopped() || self.over.get().is_some()
    }

    /// Operations, until there is nothing more to do.
    fn play(&self, turns: &Mutex<Turns<'a>>, thread: u32, driver: &mut impl Driver) {
        let is_open = lock(turns).is_open();
        if is_open {
            self.play_at_rate(turns, thread, driver)
        } else {
            self.play_in_turns(turns, thread, driver)
        }
    }

    /// Those that are due at a rate. Both locks are taken once for each, after the one before.
    fn play_at_rate(&self, shared: &Mutex<Turns<'a>>, thread: u32, driver: &mut impl Driver) {
        let pacer = Pacer::new(Pacing::Sleep);
        let (mut turns, mut folder) = self.hold(shared);
        let mut now = clock::raw();
        while !self.is_over() {
            let intended = turns.due();
            if turns.is_enough(now.max(intended)) {
                return;
            }
            turns.take_due();
            drop((turns, folder));
            if !pacer.wait_until(intended, &self.run.stop) {
                return;
            }
            (turns, folder) = self.hold(shared);
            // For one that a thread has waited for it is not too late, however late the thread woke.
            now = if now <= intended { intended } else { clock::raw() };
            let Some((_, pick)) = turns.begin(&mut folder, None, intended, now) else { continue };
            drop((turns, folder));
            let performed = self.perform(thread, driver, &pick);
            (turns, folder) = self.hold(shared);
            folder.close(&pick, performed.map_or(Ending::Failed, |operation| operation.ending));
            if let Some(operation) = performed {
                now = operation.finished;
                turns.count(Operation { intended, ..operation });
            }
        }
    }

    /// Each after the one before. A thread takes several at once where they are short: so threads seldom meet at the
    /// locks, and what the locks guard seldom moves from one processor to another.
    fn play_in_turns(&self, shared: &Mutex<Turns<'a>>, thread: u32, driver: &mut impl Driver) {
        let mut taken: Vec<Pick> = Vec::with_capacity(ROUND_MOST);
        let mut ended: Vec<Option<Operation>> = Vec::with_capacity(ROUND_MOST);
        let (mut most, mut now) = (1, clock::raw());
        loop {
            let (mut turns, mut folder) = self.hold(shared);
            for (pick, performed) in taken.drain(..ended.len()).zip(ended.drain(..)) {
                folder.close(&pick, performed.map_or(Ending::Failed, |operation| operation.ending));
                performed.inspect(|operation| turns.count(*operation));
            }
            taken.drain(..).for_each(|pick| turns.give_back(&mut folder, &pick));
            if self.is_over() {
                return;
            }
            turns.take(&mut folder, thread, now, most, &mut taken);
            let end = turns.end();
            drop((turns, folder));
            if taken.is_empty() {
                return;
            }
            let begun = now;
            for pick in &taken {
                if self.is_over() || end.is_some_and(|end| end <= now) {
                    break;
                }
                let performed = self.perform(thread, driver, pick);
                now = performed.map_or(now, |operation| operation.finished);
                ended.push(performed);
            }
            let each_ns = now.since(begun).0 / ended.len().max(1) as u64;
            most = (ROUND.0 / each_ns.max(1)).clamp(1, ROUND_MOST as u64) as usize;
        }
    }

    /// Does one, which is intended as it begins; `None`: no further one makes sense.
    fn perform(&self, thread: u32, driver: &mut impl Driver, pick: &Pick) -> Option<Operation> {
        let Performed { ending, why, failure, sent, finished, first } = match driver.perform(pick) {
            Ok(performed) => performed,
            Err(error) => {
                let _ = self.over.set(format!("{error:#}"));
                return None;
            }
        };
        let is_wrong =
            |page: Listing| ending == Ending::Done && !lock(&self.choice.folder).is_page(pick, &page);
        let ending = if driver.page().is_some_and(is_wrong) { Ending::Wrong } else { ending };
        if let Some(failure) = failure {
            self.failed[failure as usize].fetch_add(1, Ordering::Relaxed);
        }
        if ending == Ending::Failed && self.told.set(()).is_ok() {
            let (role, deed) = (&self.run.role, pick.deed);
            self.run.warn(&format!("role '{role}': the first operation that failed ({deed:?}): {why}"));
        }
        Some(Operation {
            deed: pick.deed,
            ending,
            intended: sent,
            sent,
            first,
            finished,
            object_bytes: pick.bytes(),
            retries: 0,
            thread: Some(thread),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::spool::Budget;
    use crate::probe::workload::operations;
    use std::collections::{BTreeMap, BTreeSet};
    use std::fs::OpenOptions;
    use std::sync::Arc;
    use virtlab_load::parameters::objects::Order;
    use virtlab_load::schedule::Arrivals;
    use virtlab_store::{Deed, Key};
    use virtlab_system::transport::Writer;

    /// Does everything at once, and has no room for more than so many operations.
    struct Told<'a> {
        all: &'a Mutex<Vec<(Deed, Key)>>,
        most: usize,
    }

    impl Driver for Told<'_> {
        const CLASSES: &'static [Failure] = &[];

        fn perform(&mut self, pick: &Pick) -> anyhow::Result<Performed> {
            let mut all = lock(self.all);
            anyhow::ensure!(all.len() < self.most, "no room");
            all.push((pick.deed, pick.key));
            let sent = clock::raw();
            let why = String::new();
            Ok(Performed {
                ending: Ending::Done,
                why,
                failure: None,
                sent,
                finished: clock::raw(),
                first: None,
            })
        }
    }

    /// A role of four threads; what it did, in order.
    fn played(
        folder: &Arc<Mutex<Folder>>,
        shares: &[(&str, f64)],
        count: u64,
        most: usize,
    ) -> (Report, Vec<(Deed, Key)>) {
        let shares: BTreeMap<String, f64> =
            shares.iter().map(|(name, share)| ((*name).to_owned(), *share)).collect();
        let choice = Choice { mix: operations::mix(&shares).unwrap(), folder: folder.clone(), seed: count };
        let asks = Asks {
            sizes: &[],
            object_bytes: 10,
            duration_ns: None,
            count: Some(count),
            threads: 4,
            rate_per_s: None,
            arrivals: Arrivals::default(),
            order: Order::default(),
            error_budget_ratio: None,
        };
        let nobody = OpenOptions::new().write(true).open("/dev/null").unwrap();
        let run = Run::new("role", Writer::new(nobody.into()), Budget::new(1 << 24));
        run.start(clock::raw());
        let all = Mutex::default();
        let report = play(&run, &choice, asks, 4, &|| Told { all: &all, most });
        (report, all.into_inner().unwrap())
    }

    #[test]
    fn threads_that_take_several_operations_do_each_once() {
        let folder = Arc::new(Mutex::new(Folder::new("a", 1)));
        for (name, deed) in [("create", Deed::Create), ("delete", Deed::Delete)] {
            let (report, all) = played(&folder, &[(name, 1.0)], 5_000, usize::MAX);
            assert!(report.complete, "{:?}", report.failure);
            assert_eq!(report.counters["done_operations"], 5_000);
            assert!(all.iter().all(|(each, _)| *each == deed));
            let keys: BTreeSet<Key> = all.iter().map(|(_, key)| *key).collect();
            assert_eq!((all.len(), keys.len()), (5_000, 5_000), "{name}");
        }
        let folder = lock(&folder);
        assert_eq!((folder.count(), folder.in_doubt()), (0, 0));
    }

    #[test]
    fn an_audit_reads_each_object_once_and_counts_what_it_had_no_time_for() {
        let folder = Arc::new(Mutex::new(Folder::new("a", 1)));
        played(&folder, &[("create", 1.0)], 3_000, usize::MAX);
        let folder = lock(&folder);
        let read = Mutex::default();
        let audited =
            |patience| audit(&folder, 4, patience, &|| Told { all: &read, most: usize::MAX }).unwrap();
        let whole = audited(AUDIT_PATIENCE);
        assert_eq!(whole, Audit { objects: 3_000, ..Audit::default() });
        let keys: BTreeSet<Key> = lock(&read).drain(..).map(|(_, key)| key).collect();
        assert_eq!(keys.len(), 3_000);
        let none = audited(Nanos(0));
        assert_eq!(none, Audit { objects: 3_000, unread: 3_000, ..Audit::default() });
        assert!(lock(&read).is_empty());
        let full = audit(&folder, 4, AUDIT_PATIENCE, &|| Told { all: &read, most: 50 }).unwrap_err();
        assert_eq!(full.to_string(), "no room");
    }

    #[test]
    fn operations_that_were_taken_and_not_begun_leave_their_objects_free() {
        let folder = Arc::new(Mutex::new(Folder::new("a", 1)));
        played(&folder, &[("create", 1.0)], 3_000, usize::MAX);
        let shares = [("read", 0.5), ("overwrite", 0.2), ("create", 0.2), ("delete", 0.1)];
        let (report, all) = played(&folder, &shares, 100_000, 2_000);
        assert_eq!(report.failure.as_deref(), Some("no room"));
        assert_eq!((report.counters["done_operations"], all.len()), (2_000, 2_000));
        let mut folder = lock(&folder);
        let all = |deed| all.iter().filter(|(each, _)| *each == deed).count() as u64;
        let there = 3_000 + all(Deed::Create) - all(Deed::Delete);
        let lost = there - folder.count();
        assert!(lost <= folder.in_doubt() && folder.in_doubt() <= 4, "one of each thread had no room");
        let free = (0..).take_while(|_| folder.pick(Deed::Delete, 0, 0).is_some()).count() as u64;
        assert_eq!(free, there - lost);
    }
}
