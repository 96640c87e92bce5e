//! What roles of operations on objects share, whatever keeps the objects: what is due, what is drawn, and what came of
//! it.
//!
//! An operation is drawn by its share, then an object that is free for it, as the simulator does. How it is done, on
//! sockets or by system calls, is not known here.

use crate::probe::report::Report;
use crate::probe::run::Run;
use crate::probe::spool::Spool;
use std::collections::BTreeMap;
use std::num::NonZero;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use virtlab_load::parameters::objects::{Asks, Order as Asked, Sizes};
use virtlab_load::random::Stream;
use virtlab_load::schedule::Schedule;
use virtlab_store::{Deed, Ending, Folder, Mix, Order, Pick};
use virtlab_system::clock;
use virtlab_wire::Nanos;
use virtlab_wire::rows::OperationRow;

/// Draws in a row without an object, after which a thread ends, or an operation fails.
const DRAWS: u32 = 64;

pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Shares of operations, as a role says them.
///
/// # Errors
/// When one is unknown, or none has a share.
pub fn mix(shares: &BTreeMap<String, f64>) -> anyhow::Result<Mix> {
    let mix = Mix::of(shares.iter().map(|(name, share)| (name.as_str(), *share)));
    mix.map_err(|what| anyhow::anyhow!("parameters.operations: {what}"))
}

/// How operations are chosen.
pub struct Choice {
    pub mix: Mix,
    pub folder: Arc<Mutex<Folder>>,
    pub seed: u64,
}

/// What a role knows of its objects, which a role in another guest may take over.
pub trait Objects: Send + Sync {
    /// By name, what is known of them.
    fn folder(&self) -> &Mutex<Folder>;

    /// Where they are, if that is a place of its own, as of files.
    fn place(&self) -> Option<String> {
        None
    }

    /// They are in the place of another guest.
    ///
    /// # Errors
    /// When that place is not there.
    fn move_to(&self, _place: &str) -> anyhow::Result<()> {
        anyhow::bail!("its objects have no place of their own")
    }
}

impl Objects for Mutex<Folder> {
    fn folder(&self) -> &Mutex<Folder> {
        self
    }
}

/// Instead of what is there in the end, which the role tells that has the objects.
pub const ELSEWHERE: (&str, u64) = ("objects_elsewhere", 1);
/// Why a role cannot begin that has not got what is known of its objects.
pub const AWAY: &str = "a role in another guest has its objects";

/// What came of a role.
#[derive(Default)]
struct Ended {
    begun: u64,
    without_object: u64,
    retries: u64,
    /// At a rate: operations that were due.
    due: u64,
    by_ending: [u64; 6],
    /// Threads for which nothing could be done.
    idle: u32,
    /// Processor time of its threads.
    worked_ns: u64,
}

/// An operation that has ended.
#[derive(Clone, Copy, Debug)]
pub struct Operation {
    pub deed: Deed,
    pub ending: Ending,
    pub intended: Nanos,
    pub sent: Nanos,
    /// Of a read: when the first octet of its content came, where that is known.
    pub first: Option<Nanos>,
    pub finished: Nanos,
    pub object_bytes: u64,
    pub retries: u32,
    /// Which did it; `None`: one that was due at a rate took none.
    pub thread: Option<u32>,
}

/// An operation that is drawn, and by which number its object is chosen where order is random.
#[derive(Clone, Copy)]
struct Draw {
    deed: Deed,
    chosen: u64,
    bytes: u64,
}

/// Operations of a role while it plays.
pub struct Turns<'a> {
    choice: &'a Choice,
    asks: Asks<'a>,
    sizes: Sizes,
    draws: Stream,
    schedule: Schedule,
    start: Nanos,
    end: Option<Nanos>,
    ended: Ended,
    rows: Spool<OperationRow>,
    /// In which order objects are taken.
    order: Order,
    /// Empty, but while several are taken at once.
    drawn: Vec<Draw>,
}

impl<'a> Turns<'a> {
    /// From an instant on.
    pub fn new(choice: &'a Choice, asks: Asks<'a>, start: Nanos, run: &Run) -> Self {
        let rate = Schedule::PerSecond { rate_pps: asks.rate_per_s.unwrap_or(1) };
        Self {
            choice,
            asks,
            sizes: Sizes::new(asks.sizes, choice.seed),
            draws: Stream::new(choice.seed, "operations"),
            schedule: rate.with(asks.arrivals, choice.seed),
            start,
            end: asks.duration_ns.map(|duration| start + Nanos(duration)),
            ended: Ended::default(),
            rows: Spool::new(&run.budget),
            order: match asks.order {
                Asked::Random => Order::random(),
                Asked::Sequential => Order::sequential(asks.sharers()),
                Asked::Once => Order::once(asks.sharers()),
            },
            drawn: Vec::new(),
        }
    }

    /// Whether operations are due at a rate, whatever has ended.
    pub fn is_open(&self) -> bool {
        self.asks.rate_per_s.is_some()
    }

    /// Of a rate: when the next operation is due.
    pub fn due(&mut self) -> Nanos {
        self.start + self.schedule.offset(self.ended.due)
    }

    /// Somebody cares for the one that is due next.
    pub fn take_due(&mut self) {
        self.ended.due += 1;
    }

    /// Whether none begins from then on.
    pub fn is_enough(&self, now: Nanos) -> bool {
        self.end.is_some_and(|end| end <= now)
            || self.asks.count.is_some_and(|count| self.ended.begun >= count)
            || (!self.is_open() && self.ended.idle >= self.asks.threads)
    }

    fn draw(&mut self) -> Draw {
        let bytes = self.sizes.next(self.asks.object_bytes);
        let deed = self.choice.mix.draw(self.draws.uniform());
        Draw { deed, chosen: self.draws.below(u64::MAX), bytes }
    }

    /// The object of a draw, for a thread; `None`: none is free for it.
    fn find(&mut self, folder: &mut Folder, draw: Draw, thread: u32) -> Option<Pick> {
        let Draw { deed, chosen, bytes } = draw;
        let found = folder.pick_by(&mut self.order, thread, (deed, chosen), bytes);
        self.ended.without_object += u64::from(found.is_none() && !self.order.is_done(thread));
        found
    }

    /// What to do next; of the last draw, where no object was free for any.
    fn pick(&mut self, folder: &mut Folder, thread: u32) -> Result<Pick, Deed> {
        let mut draw = self.draw();
        for draws in 1.. {
            if let Some(pick) = self.find(folder, draw, thread) {
                return Ok(pick);
            }
            if draws == DRAWS || self.order.is_done(thread) {
                break;
            }
            draw.deed = self.choice.mix.draw(self.draws.uniform());
            draw.chosen = self.draws.below(u64::MAX);
        }
        Err(draw.deed)
    }

    /// What a thread of those that ask in turns does next: up to so many operations, but few of those that are left,
    /// and with few of the objects, so that there are some for each thread. None: there is nothing more for it to do.
    pub fn take(&mut self, folder: &mut Folder, thread: u32, now: Nanos, most: usize, taken: &mut Vec<Pick>) {
        let Some((_, first)) = self.begin(folder, Some(thread), now, now) else { return };
        taken.push(first);
        let left = self.asks.count.map_or(u64::MAX, |count| count - self.ended.begun);
        let fair = left.min(folder.count()) / (4 * u64::from(self.asks.threads));
        let mut drawn = std::mem::take(&mut self.drawn);
        drawn.extend((1..fair.min(most as u64)).map(|_| self.draw()));
        if self.order.is_random() {
            folder.fetch(drawn.iter().map(|draw| (draw.deed, draw.chosen)));
        }
        taken.extend(drawn.drain(..).filter_map(|draw| self.find(folder, draw, thread)));
        self.ended.begun += taken.len() as u64 - 1;
        self.drawn = drawn;
    }

    /// One of them is not begun.
    pub fn give_back(&mut self, folder: &mut Folder, pick: &Pick) {
        folder.release(pick);
        self.order.release();
        self.ended.begun -= 1;
    }

    /// When no further operation begins, if that is an instant.
    pub fn end(&self) -> Option<Nanos> {
        self.end
    }

    /// An operation that is due begins now on an object of the role's folder, with its number; `None`: it is too late,
    /// or there is no object for it. Of those that ask in turns a thread begins it.
    pub fn begin(
        &mut self,
        folder: &mut Folder,
        thread: Option<u32>,
        intended: Nanos,
        now: Nanos,
    ) -> Option<(u64, Pick)> {
        if self.is_enough(now.max(intended)) {
            return None;
        }
        match self.pick(folder, thread.unwrap_or(0)) {
            Ok(pick) => {
                self.ended.begun += 1;
                Some((self.ended.begun - 1, pick))
            }
            Err(deed) if self.is_open() => {
                self.skip(deed, intended);
                None
            }
            Err(_) => {
                self.ended.idle += 1;
                None
            }
        }
    }

    fn skip(&mut self, deed: Deed, intended: Nanos) {
        self.ended.begun += 1;
        let now = clock::raw();
        self.count(Operation {
            deed,
            ending: Ending::Skipped,
            intended,
            sent: now,
            first: None,
            finished: now,
            object_bytes: 0,
            retries: 0,
            thread: None,
        });
    }

    /// Of a rate: what was due before the end, and for which no thread was free.
    pub fn skip_rest(&mut self) {
        while self.is_open() {
            let due = self.due();
            if self.is_enough(due) || clock::raw() < due {
                return;
            }
            self.take_due();
            let deed = self.choice.mix.draw(self.draws.uniform());
            self.skip(deed, due);
        }
    }

    /// An operation has ended.
    pub fn count(&mut self, ended: Operation) {
        self.ended.by_ending[ended.ending as usize] += 1;
        self.ended.retries += u64::from(ended.retries);
        self.rows.push(OperationRow {
            operation: ended.deed as i32,
            outcome: ended.ending as i32,
            intended_ns: ended.intended.0 as i64,
            sent_ns: ended.sent.0 as i64,
            finished_ns: ended.finished.0 as i64,
            object_bytes: ended.object_bytes as i64,
            retries: ended.retries as i32,
            thread: ended.thread.map_or(-1, |thread| thread as i32),
            first_byte_ns: ended.first.map_or(-1, |at| at.0 as i64),
        });
    }

    /// Operations to which what keeps the objects gave an error.
    pub fn failed(&self) -> u64 {
        self.ended.by_ending[Ending::Failed as usize]
    }

    /// A thread of the role has worked for so long.
    pub fn worked(&mut self, processor_ns: u64) {
        self.ended.worked_ns += processor_ns;
    }

    /// Into the report of a role, which now ends, of so many threads that do its operations.
    pub fn tell(self, threads: u32, report: &mut Report) {
        let Ended { begun, without_object, retries, by_ending, worked_ns, .. } = self.ended;
        let processors = std::thread::available_parallelism().map_or(1, NonZero::get) as u64;
        let usable_ns = (clock::raw() - self.start).0 * u64::from(threads).min(processors);
        let [done, timed_out, missing, wrong, skipped, _] = by_ending;
        for (name, value) in [
            ("operations", begun),
            ("done_operations", done),
            ("timed_out_operations", timed_out),
            ("missing_operations", missing),
            ("wrong_operations", wrong),
            ("skipped_operations", skipped),
            ("operation_retries", retries),
            ("without_object", without_object),
            ("client_worked_ns", worked_ns),
            ("client_usable_ns", usable_ns),
        ] {
            report.add(name, value);
        }
        let too_short = if report.complete { self.asks.too_short(self.order.left()) } else { None };
        let own = || self.asks.over_budget(begun, done).or(too_short);
        report.failure = report.failure.take().or_else(own);
        report.table(self.rows);
    }
}
