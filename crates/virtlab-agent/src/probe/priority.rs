//! A role's threads above other processes: SCHED_FIFO, as long as they sleep most of the time.
//!
//! A thread that wakes for each packet waits for milliseconds where a neighbour computes, since a fair scheduler lets the
//! neighbour end its slice first. A thread under SCHED_FIFO runs at once. One that never sleeps would keep everything else
//! from its processor, so Python asks for the priority only where it knows a bound of the role's packets. In case that bound
//! was wrong, the watchdog looks after the processor time of this process and takes the priority back ([`Governor`]).

use crate::clock;
use nix::errno::Errno;
use nix::time::{ClockId, clock_gettime};
use virtlab_wire::Nanos;

/// Of so much time ...
const SPAN: Nanos = Nanos(100_000_000);
/// ... the process may use this share of one processor.
const SHARE_PERCENT: u64 = 60;

/// Gives the calling thread, and those that it starts from now on, a real-time priority.
///
/// # Errors
/// When the kernel refuses.
pub fn take(priority: i32) -> nix::Result<()> {
    schedule(0, libc::SCHED_FIFO, priority)
}

fn schedule(thread: libc::pid_t, policy: i32, priority: i32) -> nix::Result<()> {
    let parameters = libc::sched_param { sched_priority: priority };
    // SAFETY: the parameters live during the call.
    Errno::result(unsafe { libc::sched_setscheduler(thread, policy, &raw const parameters) }).map(drop)
}

/// Takes the priority of every thread of this process back.
fn give_back() {
    let threads = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    for thread in threads.filter_map(|entry| entry.file_name().to_str()?.parse().ok()) {
        // A thread that has ended meanwhile needs nothing.
        let _ = schedule(thread, libc::SCHED_OTHER, 0);
    }
}

/// Looks, again and again, whether this process still sleeps most of the time.
#[derive(Debug)]
pub struct Governor {
    since: Nanos,
    used: Nanos,
    over: bool,
}

impl Governor {
    /// From now on.
    pub fn begin() -> Self {
        Self { since: clock::raw(), used: processor_time(), over: false }
    }

    /// Takes the priority back where too much was used; true when that has just happened.
    pub fn look(&mut self) -> bool {
        let (now, used) = (clock::raw(), processor_time());
        if self.over || !self.exceeded(now, used) {
            return false;
        }
        give_back();
        self.over = true;
        true
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

    fn governor() -> Governor {
        Governor { since: Nanos::ZERO, used: Nanos::ZERO, over: false }
    }

    #[test]
    fn a_process_may_use_its_share_of_each_span() {
        let mut governor = governor();
        assert!(!governor.exceeded(Nanos(100_000_000), Nanos(60_000_000)));
        assert!(!governor.exceeded(Nanos(200_000_000), Nanos(120_000_000)));
        assert!(governor.exceeded(Nanos(300_000_000), Nanos(180_000_001)));
    }

    #[test]
    fn a_burst_of_work_within_a_span_is_no_excess() {
        let mut governor = governor();
        assert!(!governor.exceeded(Nanos(50_000_000), Nanos(50_000_000)));
        assert!(!governor.exceeded(Nanos(100_000_000), Nanos(50_000_000)));
    }

    #[test]
    fn a_process_that_keeps_computing_loses_its_priority_once() {
        let mut governor = Governor::begin();
        let mut told = 0;
        while governor.since == Nanos::ZERO || told == 0 {
            told += u32::from(governor.look());
            std::hint::black_box((0..1000_u64).sum::<u64>());
        }
        assert!(!governor.look());
    }
}
