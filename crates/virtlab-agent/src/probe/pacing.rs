//! Waiting for an instant: sleep, then spin.
//!
//! A sleep ends late by tens of microseconds, more in a virtual machine. So a precise wait sleeps until `instant -
//! budget` and spins the rest, where the budget is this machine's own sleep overshoot, measured once per process. A
//! load that needs its mean rate and not each instant sleeps only, and leaves the CPU to others.

use serde::Deserialize;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use virtlab_system::clock;
use virtlab_wire::Nanos;

/// A sleep is cut into pieces of this length, so that a stop is seen soon.
const LONGEST_SLEEP: Nanos = Nanos(40_000_000);
/// What a few system calls take.
const SMALL_WORK: Nanos = Nanos(30_000);
const LEAST_BUDGET: Nanos = Nanos(20_000);
const MOST_BUDGET: Nanos = Nanos(150_000);

/// How a sender waits for its intended instants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Pacing {
    /// Sleep, then spin for the sleep overshoot of this machine.
    Spin,
    /// Sleep only.
    Sleep,
}

/// Waits on CLOCK_MONOTONIC_RAW.
#[derive(Clone, Copy, Debug)]
pub struct Pacer {
    budget: Nanos,
}

impl Pacer {
    /// A pacer; the first precise one of a process measures the machine's sleep overshoot (about 10 ms).
    pub fn new(pacing: Pacing) -> Self {
        static OVERSHOOT: OnceLock<Nanos> = OnceLock::new();
        match pacing {
            Pacing::Spin => Self { budget: *OVERSHOOT.get_or_init(sleep_overshoot) },
            Pacing::Sleep => Self { budget: Nanos::ZERO },
        }
    }

    /// Sleeps until there is just time left for small work before `instant`; false when `stop` came first.
    pub fn wait_near(&self, instant: Nanos, stop: &AtomicBool) -> bool {
        self.wait_until(instant.since(self.budget + SMALL_WORK), stop)
    }

    /// Returns at `instant` or as soon after as it can; false when `stop` came first.
    pub fn wait_until(&self, instant: Nanos, stop: &AtomicBool) -> bool {
        loop {
            let now = clock::raw();
            if stop.load(Ordering::Relaxed) {
                return false;
            }
            if now >= instant {
                return true;
            }
            let left = instant.since(now);
            if left > self.budget {
                sleep(left.since(self.budget).min(LONGEST_SLEEP));
            } else {
                std::hint::spin_loop();
            }
        }
    }
}

/// Sleeps about `duration`; may end early by a signal.
pub fn sleep(duration: Nanos) {
    let request = libc::timespec {
        tv_sec: (duration.0 / 1_000_000_000) as libc::time_t,
        tv_nsec: (duration.0 % 1_000_000_000) as libc::c_long,
    };
    // SAFETY: the request is a valid timespec and no remainder is requested.
    unsafe { libc::clock_nanosleep(libc::CLOCK_MONOTONIC, 0, &raw const request, std::ptr::null_mut()) };
}

/// How late sleeps of 300 us end here: the largest but one of 24, within bounds.
fn sleep_overshoot() -> Nanos {
    const SLEEP: Nanos = Nanos(300_000);
    let mut overshoots: Vec<Nanos> = (0..24)
        .map(|_| {
            let before = clock::raw();
            sleep(SLEEP);
            clock::raw().since(before).since(SLEEP)
        })
        .collect();
    overshoots.sort_unstable();
    overshoots[22].clamp(LEAST_BUDGET, MOST_BUDGET)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_never_ends_early_unless_stopped() {
        let stop = AtomicBool::new(false);
        for pacing in [Pacing::Spin, Pacing::Sleep] {
            let instant = clock::raw() + Nanos(500_000);
            assert!(Pacer::new(pacing).wait_until(instant, &stop));
            assert!(clock::raw() >= instant);
        }
        stop.store(true, Ordering::Relaxed);
        assert!(!Pacer::new(Pacing::Spin).wait_until(clock::raw() + Nanos(60_000_000_000), &stop));
    }
}
