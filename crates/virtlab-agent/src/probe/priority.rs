//! A role's threads above other processes: SCHED_FIFO, as long as they sleep most of the time.
//!
//! A thread that wakes for each packet waits for milliseconds where a neighbour computes, since a fair scheduler lets
//! the neighbour end its slice first. A thread under SCHED_FIFO runs at once. One that never sleeps would keep
//! everything else from its processor, so Python asks for the priority only where it knows a bound of the role's
//! packets. That bound can be wrong: strangers may send to a server as soon as it is armed. So a [`Governor`] looks
//! after the processor time of this process from before a thread has the priority until the role is over, and takes it
//! back. Should the governor itself be gone, the kernel ends this process once a thread with the priority has not slept
//! for [`UNSLEPT_US`].

use super::pacing::sleep;
use super::threads;
use anyhow::{Context, bail};
use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sys::resource::{Resource, setrlimit};
use nix::sys::stat::Mode;
use nix::time::{ClockId, clock_gettime};
use nix::unistd::{Pid, gettid};
use std::os::unix::thread::JoinHandleExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use virtlab_system::clock;
use virtlab_wire::Nanos;

/// Of so much time ...
const SPAN: Nanos = Nanos(100_000_000);
/// ... the process may use this share of one processor.
const SHARE_PERCENT: u64 = 60;
const PERIOD: Nanos = Nanos(5_000_000);
/// A thread that has not slept for a second ends the process, by the kernel's SIGXCPU.
const UNSLEPT_US: u64 = 1_000_000;
/// Of traffic; the governor has the next one above.
const PRIORITIES: std::ops::RangeInclusive<i32> = 1..=98;

/// Gives the calling thread, and those that it starts from now on, a real-time priority.
///
/// # Errors
/// When the kernel refuses.
pub fn take(priority: i32) -> nix::Result<()> {
    schedule(Pid::from_raw(0), libc::SCHED_FIFO, priority)
}

fn schedule(thread: Pid, policy: i32, priority: i32) -> nix::Result<()> {
    let parameters = libc::sched_param { sched_priority: priority };
    // SAFETY: the parameters live during the call.
    Errno::result(unsafe { libc::sched_setscheduler(thread.as_raw(), policy, &raw const parameters) })
        .map(drop)
}

/// Looks whether this process still sleeps most of the time, until it is dropped.
#[derive(Debug)]
pub struct Governor {
    over: Arc<AtomicBool>,
    gave_back: Arc<AtomicBool>,
}

impl Governor {
    /// Looks from now on, one priority above the traffic's, so that a thread that never sleeps cannot keep it away.
    ///
    /// # Errors
    /// When the kernel refuses that, or the threads could not be found again: then none of them may have the priority.
    pub fn begin(traffic: i32) -> anyhow::Result<Self> {
        if !PRIORITIES.contains(&traffic) {
            bail!("{traffic} is not a valid real-time priority of traffic");
        }
        let governor = Self { over: Arc::default(), gave_back: Arc::default() };
        let (over, gave_back) = (governor.over.clone(), governor.gave_back.clone());
        let (mut all, mut usage) = (Threads::open()?, Usage::begin());
        setrlimit(Resource::RLIMIT_RTTIME, UNSLEPT_US, UNSLEPT_US)?;
        let govern = move || {
            while !over.load(Ordering::Relaxed) {
                sleep(if gave_back.load(Ordering::Relaxed) { SPAN } else { PERIOD });
                // One that a thread with the priority started meanwhile has inherited it, so once is not enough.
                if usage.exceeded(clock::raw(), processor_time()) || gave_back.load(Ordering::Relaxed) {
                    gave_back.store(true, Ordering::Relaxed);
                    all.give_back();
                }
            }
        };
        let thread = threads::start("governor", Box::new(govern))?;
        let above = libc::sched_param { sched_priority: traffic + 1 };
        // SAFETY: the thread was not joined, and the parameters live during the call.
        match unsafe {
            libc::pthread_setschedparam(thread.as_pthread_t(), libc::SCHED_FIFO, &raw const above)
        } {
            0 => Ok(governor),
            refused => Err(Errno::from_raw(refused).into()),
        }
    }

    /// Whether it took the priority of this process's threads back.
    pub fn gave_back(&self) -> bool {
        self.gave_back.load(Ordering::Relaxed)
    }
}

impl Drop for Governor {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
    }
}

/// The threads of this process. The folder is held open: a process without a free descriptor can be listed still.
struct Threads(Dir);

impl Threads {
    fn open() -> anyhow::Result<Self> {
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let mut threads =
            Self(Dir::open("/proc/self/task", flags, Mode::empty()).context("cannot list its threads")?);
        if !threads.listed().contains(&gettid()) {
            bail!("/proc is of other processes");
        }
        Ok(threads)
    }

    fn listed(&mut self) -> Vec<Pid> {
        let numbers =
            self.0.iter().flatten().filter_map(|entry| entry.file_name().to_str().ok()?.parse().ok());
        numbers.map(Pid::from_raw).collect()
    }

    /// Takes the priority of all others back.
    fn give_back(&mut self) {
        for thread in self.listed().into_iter().filter(|&thread| thread != gettid()) {
            // A thread that has ended meanwhile needs nothing.
            let _ = schedule(thread, libc::SCHED_OTHER, 0);
        }
    }
}

/// Processor time of this process, by spans.
#[derive(Debug)]
struct Usage {
    since: Nanos,
    used: Nanos,
}

impl Usage {
    fn begin() -> Self {
        Self { since: clock::raw(), used: processor_time() }
    }

    /// Whether more than its share was used in the span that ends now; no span has ended in between.
    fn exceeded(&mut self, now: Nanos, used: Nanos) -> bool {
        let span = now.since(self.since);
        if span < SPAN {
            return false;
        }
        let exceeded = used.since(self.used).0 * 100 > span.0 * SHARE_PERCENT;
        (self.since, self.used) = (now, used);
        exceeded
    }
}

fn processor_time() -> Nanos {
    clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID)
        .map(|time| Nanos(time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64))
        .unwrap_or(Nanos::ZERO)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage() -> Usage {
        Usage { since: Nanos::ZERO, used: Nanos::ZERO }
    }

    #[test]
    fn a_process_may_use_its_share_of_each_span() {
        let mut usage = usage();
        assert!(!usage.exceeded(Nanos(100_000_000), Nanos(60_000_000)));
        assert!(!usage.exceeded(Nanos(200_000_000), Nanos(120_000_000)));
        assert!(usage.exceeded(Nanos(300_000_000), Nanos(180_000_001)));
    }

    #[test]
    fn a_burst_of_work_within_a_span_is_no_excess() {
        let mut usage = usage();
        assert!(!usage.exceeded(Nanos(50_000_000), Nanos(50_000_000)));
        assert!(!usage.exceeded(Nanos(100_000_000), Nanos(50_000_000)));
    }

    #[test]
    fn a_priority_above_which_there_is_none_is_nobodys() {
        for traffic in [0, 99, i32::MAX, i32::MIN] {
            assert!(
                Governor::begin(traffic).unwrap_err().to_string().contains("not a valid real-time priority")
            );
        }
    }

    #[test]
    fn the_threads_of_this_process_are_listed_again_and_again() {
        let mut threads = Threads::open().unwrap();
        let (tell, told) = std::sync::mpsc::channel();
        let (hold, held) = std::sync::mpsc::channel::<()>();
        let other = std::thread::spawn(move || {
            tell.send(gettid()).unwrap();
            held.recv()
        });
        let number = told.recv().unwrap();
        for _ in 0..3 {
            let listed = threads.listed();
            assert!(listed.contains(&number) && listed.contains(&gettid()));
        }
        drop(hold);
        assert!(other.join().unwrap().is_err());
    }
}
