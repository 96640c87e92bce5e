//! One virtual CPU as one thread that is always hungry, and inside it a preemptive fixed-priority executive.
//!
//! The thread looks at the clock all the time. Two looks further apart than the gap mean that it did not run
//! between them; everything else is supply, and it goes to the most urgent job. So execution times are times really
//! run, and the supply is known to the microsecond, whatever took it away: the reservation, an interrupt, a machine
//! below. Under SCHED_DEADLINE the thread ends its period itself when its budget is charged up, because the kernel
//! would notice only at its next tick.

use super::{By, Competitor, Refusal, Reply, Request, reservation};
use nix::time::{ClockId, clock_gettime};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Duration;
use virtlab_system::clock::monotonic;

const MOST_WINDOWS: usize = 2_000_000;
const MOST_JOBS: usize = 2_000_000;
/// How long after the instant of a new budget a rest ends: then the old deadline has passed for sure.
const SETTLE_NS: u64 = 20_000;
/// Left of the budget when a period is ended: what ending it costs.
const RESERVE_NS: u64 = 5_000;

fn charged() -> u64 {
    let time = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).expect("a thread can read its own CPU time");
    time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64
}

/// Plays a request on threads of this process, until it is over or `stop` is set.
pub fn run(request: &Request, stop: &AtomicBool) -> Result<Reply, Refusal> {
    // Pages that are touched for the first time inside the budget would cost it. An ordinary user's limit on locked
    // memory would make later allocations fail instead.
    if nix::unistd::geteuid().is_root() {
        // SAFETY: no pointers; failing only means later page faults.
        unsafe { libc::mlockall(libc::MCL_CURRENT | libc::MCL_FUTURE) };
    }
    let done = AtomicBool::new(false);
    let reply = std::thread::scope(|scope| {
        let (report, outcomes) = mpsc::channel();
        for competitor in &request.competitors {
            let (report, done) = (report.clone(), &done);
            scope.spawn(move || compete(*competitor, done, &report));
        }
        let mut refused = None;
        for _ in &request.competitors {
            if let Ok(Err(refusal)) = outcomes.recv() {
                refused = Some(refusal);
            }
        }
        let reply = match refused {
            Some(refusal) => Err(refusal),
            None => scope.spawn(|| guest(request, stop)).join().expect("the guest's thread ends by itself"),
        };
        done.store(true, Ordering::Relaxed);
        reply
    });
    // SAFETY: no pointers; the process may have other work to do, whose memory need not stay locked.
    unsafe { libc::munlockall() };
    reply
}

/// Uses its own reservation up, period after period.
fn compete(competitor: Competitor, done: &AtomicBool, report: &mpsc::Sender<Result<(), Refusal>>) {
    let outcome = reservation::reserve(competitor.period_ns, competitor.budget_ns);
    let refused = outcome.is_err();
    let _ = report.send(outcome);
    if refused {
        return;
    }
    let mut before = charged();
    let mut next = monotonic().0;
    while !done.load(Ordering::Relaxed) {
        if charged() - before + RESERVE_NS >= competitor.budget_ns {
            before = charged();
            let now = monotonic().0;
            next += ((now.max(next) - next) / competitor.period_ns + 1) * competitor.period_ns;
            reservation::rest(next + SETTLE_NS);
        }
    }
}

struct Job {
    task: usize,
    release_ns: u64,
    left_ns: u64,
    executed_ns: u64,
    /// When it first had the CPU; 0: not yet.
    start_ns: u64,
}

struct Guest<'a> {
    request: &'a Request,
    stop: &'a AtomicBool,
    /// When everything ends, at the latest.
    until: u64,
    reply: Reply,
    last: u64,
    window_start: u64,
    cycle_start: u64,
    cycle_served: u64,
    cycle_charged: u64,
    /// When the kernel gives the next budget: it does so every period from the reservation on.
    next_budget: u64,
    window_charged: u64,
}

impl Guest<'_> {
    /// Looks at the clock; how long the guest has surely run since the last look.
    fn look(&mut self) -> (u64, u64) {
        let now = monotonic().0;
        let since = now - self.last;
        let ran = if since > self.request.gap_ns {
            let spent = charged();
            let window = self.last - self.window_start;
            if self.reply.windows.len() < MOST_WINDOWS {
                self.reply.windows.push([self.window_start, self.last]);
            }
            // Charged since the window began, less what it saw itself.
            let loss = (spent - self.window_charged).saturating_sub(window);
            self.reply.lost_ns += loss;
            self.reply.longest_loss_ns = self.reply.longest_loss_ns.max(loss);
            self.window_charged = spent;
            self.window_start = now;
            if now >= self.next_budget {
                self.new_period(now, spent);
            }
            0
        } else {
            since
        };
        self.last = now;
        self.cycle_served += ran;
        self.reply.served_ns += ran;
        (now, ran)
    }

    /// The kernel gave a new budget, by itself or after a rest: what is charged from here on is charged to it.
    fn new_period(&mut self, now: u64, spent: u64) {
        self.close_cycle(spent);
        self.cycle_start = now;
        self.next_budget += ((now - self.next_budget) / self.request.period_ns + 1) * self.request.period_ns;
    }

    /// Ends the period when the budget is charged up. Looks at the charge only where it can be near.
    fn end_of_budget(&mut self) {
        // No more can be charged than time has passed, but for the way into the period.
        let passed = self.last - self.cycle_start + 50_000 + RESERVE_NS;
        if self.request.by != By::Deadline || passed < self.request.budget_ns {
            return;
        }
        let spent = charged();
        if spent - self.cycle_charged + RESERVE_NS < self.request.budget_ns {
            return;
        }
        reservation::rest(self.next_budget + SETTLE_NS);
        // However short the rest was, it is a new period: a gap.
        let (now, after) = (monotonic().0, charged());
        if self.reply.windows.len() < MOST_WINDOWS {
            self.reply.windows.push([self.window_start, self.last]);
        }
        let loss = (after - self.window_charged).saturating_sub(self.last - self.window_start);
        self.reply.lost_ns += loss;
        self.reply.longest_loss_ns = self.reply.longest_loss_ns.max(loss);
        self.window_charged = after;
        self.window_start = now;
        // What was charged up to the rest belongs to the old budget, the way back to the new one.
        self.new_period(now.max(self.next_budget), spent);
        self.cycle_start = now;
        self.last = now;
    }

    fn close_cycle(&mut self, spent: u64) {
        if self.reply.cycles.len() < MOST_WINDOWS {
            self.reply.cycles.push([
                self.cycle_start,
                self.last,
                self.cycle_served,
                spent - self.cycle_charged,
            ]);
        }
        self.cycle_served = 0;
        self.cycle_charged = spent;
    }

    fn play(&mut self) {
        let period = self.request.period_ns;
        if self.request.episodes.is_empty() {
            let end = self.last + self.request.duration_ns;
            while self.look().0 < end && !self.stop.load(Ordering::Relaxed) {
                self.end_of_budget();
            }
            return;
        }
        for (number, episode) in self.request.episodes.iter().enumerate() {
            // The phase counts from the beginning of a period as last seen.
            let base = if self.request.by == By::Deadline { self.cycle_start } else { self.reply.origin_ns };
            let ahead = (self.last - base) / period + 2;
            if self.over() {
                return;
            }
            self.episode(number as u64, base + ahead * period + episode.phase_ns);
        }
    }

    fn over(&self) -> bool {
        self.last > self.until || self.stop.load(Ordering::Relaxed)
    }

    fn episode(&mut self, number: u64, start: u64) {
        let tasks = &self.request.tasks;
        let end = start + self.request.episode_ns;
        // An overrunning guest is given up after ten episodes' time.
        let give_up = end + 10 * self.request.episode_ns;
        let mut next: Vec<u64> = vec![start; tasks.len()];
        let mut ready: Vec<Job> = Vec::with_capacity(64);
        loop {
            let (now, ran) = self.look();
            if let Some(job) = ready.first_mut() {
                if job.start_ns == 0 && ran > 0 {
                    job.start_ns = now - ran;
                }
                job.executed_ns += ran;
                job.left_ns = job.left_ns.saturating_sub(ran);
                if job.left_ns == 0 {
                    let job = ready.remove(0);
                    self.record(number, &job, now);
                }
            }
            let mut coming = false;
            for (task, at) in next.iter_mut().enumerate() {
                // Only jobs whose deadline lies in the episode.
                if *at + tasks[task].deadline_ns > end {
                    continue;
                }
                coming = true;
                if *at <= now {
                    let job = Job {
                        task,
                        release_ns: *at,
                        left_ns: tasks[task].wcet_ns,
                        executed_ns: 0,
                        start_ns: 0,
                    };
                    let place = ready.iter().position(|other| other.task > task).unwrap_or(ready.len());
                    ready.insert(place, job);
                    *at += tasks[task].period_ns;
                }
            }
            if !coming && ready.is_empty() || now > give_up || self.over() {
                break;
            }
            self.end_of_budget();
        }
        // A job that still had time when the end came says nothing.
        let now = self.last;
        for job in ready.iter().filter(|job| job.release_ns + tasks[job.task].deadline_ns <= now) {
            self.record(number, job, 0);
        }
    }

    fn record(&mut self, episode: u64, job: &Job, finish: u64) {
        if self.reply.jobs.len() < MOST_JOBS {
            let row = [episode, job.task as u64, job.release_ns, finish, job.executed_ns, job.start_ns];
            self.reply.jobs.push(row);
        }
    }
}

fn guest(request: &Request, stop: &AtomicBool) -> Result<Reply, Refusal> {
    let reply = Reply {
        origin_ns: 0,
        windows: Vec::with_capacity(1 << 16),
        cycles: Vec::with_capacity(1 << 14),
        jobs: Vec::with_capacity(1 << 14),
        lost_ns: 0,
        served_ns: 0,
        longest_loss_ns: 0,
    };
    let before = monotonic().0;
    if request.by == By::Deadline {
        reservation::reserve(request.period_ns, request.budget_ns)?;
    } else {
        // Let the group's first period begin before the phase counts.
        std::thread::sleep(Duration::from_nanos(request.period_ns.min(100_000_000)));
    }
    let (now, spent) = (monotonic().0, charged());
    let mut guest = Guest {
        request,
        stop,
        until: request.until_ns.unwrap_or(u64::MAX),
        reply,
        last: now,
        window_start: now,
        cycle_start: now,
        cycle_served: 0,
        cycle_charged: spent,
        next_budget: before + request.period_ns,
        window_charged: spent,
    };
    guest.reply.origin_ns = now;
    guest.play();
    let (start, last) = (guest.window_start, guest.last);
    guest.reply.windows.push([start, last]);
    Ok(guest.reply)
}
