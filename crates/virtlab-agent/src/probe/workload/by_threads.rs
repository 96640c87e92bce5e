//! Operations of a role by threads, each of which does one at a time by a driver of its own, in turns or at a rate.
//!
//! What is done next is chosen by `operations`. Whatever does an operation, and waits for it, is a driver: a thread has
//! one. A directory is one, by system calls; a store that is asked by requests is another.

use super::operations::{Choice, Operation, Turns, lock};
use crate::probe::pacing::{Pacer, Pacing};
use crate::probe::report::Report;
use crate::probe::run::Run;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::Builder;
use virtlab_load::parameters::objects::Asks;
use virtlab_store::{Ending, Folder, Listing, Pick};
use virtlab_system::clock;
use virtlab_system::work::charged_ns;
use virtlab_wire::Nanos;

/// Of a thread that does operations; what it keeps is elsewhere.
const STACK_BYTES: usize = 256 << 10;

/// Classes of failures, of drivers that tell them apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The store does not allow it.
    Denied,
    /// What holds the objects is not there.
    NoBucket,
    /// The store asks for fewer requests.
    Throttled,
    /// An error inside the store.
    Server,
    /// The connection could not be made, or ended without an answer.
    Broken,
}

impl Failure {
    /// Counters, in the order of the classes.
    const COUNTERS: [&str; 5] = [
        "denied_operations",
        "no_bucket_operations",
        "throttled_operations",
        "server_error_operations",
        "broken_operations",
    ];
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
    /// Whether failures are of classes.
    const CLASSES: bool;

    /// # Errors
    /// When no further operation makes sense, as where there is no room.
    fn perform(&mut self, pick: &Pick) -> anyhow::Result<Performed>;

    /// The page of names that the last operation gave, to be compared with those that ought to be there.
    fn page(&mut self) -> Option<Listing> {
        None
    }
}

/// Plays a role from its start to its end on so many threads.
pub fn play<D: Driver>(
    run: &Run,
    choice: &Choice,
    asks: Asks<'_>,
    threads: u32,
    driver: &(impl Fn() -> D + Sync),
) -> Report {
    let mut report = Report::default();
    let Some(start) = run.begun() else { return report };
    let playing = Playing {
        run,
        turns: Mutex::new(Turns::new(choice, asks, start, run)),
        folder: &choice.folder,
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
                return;
            }
        }
        playing.work(0, &mut driver());
    });
    let Playing { turns, over, failed, .. } = playing;
    let mut turns = turns.into_inner().unwrap_or_else(PoisonError::into_inner);
    report.failure = over.into_inner();
    report.complete = report.failure.is_none() && !run.stopped();
    if report.complete {
        turns.skip_rest();
    }
    report.add("failed_operations", turns.failed());
    if D::CLASSES {
        for (name, number) in Failure::COUNTERS.into_iter().zip(failed) {
            report.add(name, number.into_inner());
        }
    }
    turns.tell(threads, &mut report);
    report
}

/// A role while its threads play.
struct Playing<'a> {
    run: &'a Run,
    turns: Mutex<Turns<'a>>,
    folder: &'a Mutex<Folder>,
    /// Why no further operation makes sense.
    over: OnceLock<String>,
    /// Whether an error was told already.
    told: OnceLock<()>,
    /// Operations that failed, by class.
    failed: [AtomicU64; Failure::COUNTERS.len()],
}

impl<'a> Playing<'a> {
    /// Of the thread with that number.
    fn work(&self, thread: u32, driver: &mut impl Driver) {
        let before_ns = charged_ns();
        self.play(thread, driver);
        lock(&self.turns).worked(charged_ns() - before_ns);
    }

    fn hold(&self) -> (MutexGuard<'_, Turns<'a>>, MutexGuard<'_, Folder>) {
        (lock(&self.turns), lock(self.folder))
    }

    /// Operations, until there is nothing more to do. Both locks are taken once for each, after the one before.
    fn play(&self, thread: u32, driver: &mut impl Driver) {
        let pacer = Pacer::new(Pacing::Sleep);
        let (mut turns, mut folder) = self.hold();
        let is_open = turns.is_open();
        let mut now = clock::raw();
        while !self.run.stopped() && self.over.get().is_none() {
            let mut intended = now;
            if is_open {
                intended = turns.due();
                if turns.is_enough(now.max(intended)) {
                    return;
                }
                turns.take_due();
                drop((turns, folder));
                if !pacer.wait_until(intended, &self.run.stop) {
                    return;
                }
                (turns, folder) = self.hold();
                // For one that a thread has waited for it is not too late, however late the thread woke.
                now = if now <= intended { intended } else { clock::raw() };
            }
            let Some((_, pick)) = turns.begin(&mut folder, intended, now) else {
                if is_open {
                    continue;
                }
                return;
            };
            drop((turns, folder));
            let performed = driver.perform(&pick);
            (turns, folder) = self.hold();
            match performed {
                Ok(Performed { ending, why, failure, sent, finished, first }) => {
                    let is_wrong = |page: Listing| ending == Ending::Done && !folder.is_page(&pick, &page);
                    let ending = if driver.page().is_some_and(is_wrong) { Ending::Wrong } else { ending };
                    folder.close(&pick, ending);
                    turns.count(Operation {
                        deed: pick.deed,
                        ending,
                        intended: if is_open { intended } else { sent },
                        sent,
                        first,
                        finished,
                        object_bytes: pick.bytes(),
                        retries: 0,
                        thread: Some(thread),
                    });
                    now = finished;
                    if let Some(failure) = failure {
                        self.failed[failure as usize].fetch_add(1, Ordering::Relaxed);
                    }
                    if ending == Ending::Failed && self.told.set(()).is_ok() {
                        let (role, deed) = (&self.run.role, pick.deed);
                        self.run.warn(&format!(
                            "role '{role}': the first operation that failed ({deed:?}): {why}"
                        ));
                    }
                }
                Err(error) => {
                    folder.close(&pick, Ending::Failed);
                    let _ = self.over.set(format!("{error:#}"));
                }
            }
        }
    }
}
