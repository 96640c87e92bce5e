//! Whether this process stood still: a thread that sleeps for a moment, again and again, and looks how long it was
//! away.
//!
//! A process that is stopped, frozen or kept from every CPU answers nothing and says nothing, and one that only answers
//! has no schedule to be late against. So a thread beside the traffic takes the time every 5 ms. Whatever length of
//! time its thread did not run for lies between two of those instants: nothing as long as [`STALL`] passes unseen,
//! whether packets came meanwhile or not. A service, which no one arms and collects, says so on its output. What held
//! up the answering thread alone is seen by [`super::waits`].

use super::pacing::sleep;
use super::{priority, threads};
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use virtlab_system::clock;
use virtlab_wire::Nanos;

/// A process or thread that did not run for so long has changed what is measured, however many samples there are.
pub const STALL: Nanos = Nanos(20_000_000);
const PERIOD: Nanos = Nanos(5_000_000);

/// What was seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stalls {
    /// How many times it stood still for [`STALL`] or longer.
    pub count: u64,
    /// The longest of them.
    pub longest: Nanos,
}

#[derive(Debug)]
struct State {
    last: Nanos,
    stalls: Stalls,
}

impl State {
    /// It ran at `now`.
    fn beat(&mut self, now: Nanos) {
        let away = now.since(self.last);
        if away >= STALL {
            self.stalls.count += 1;
            self.stalls.longest = self.stalls.longest.max(away);
        }
        self.last = self.last.max(now);
    }
}

/// Watches until it is ended or dropped.
#[derive(Debug)]
pub struct Watchdog {
    state: Arc<Mutex<State>>,
    over: Arc<AtomicBool>,
}

impl Watchdog {
    /// Watches from `at` on. Where the traffic has a real-time priority, it has the same: another process that computes
    /// holds up neither.
    ///
    /// # Errors
    /// When no thread can be started.
    pub fn begin(at: Nanos, fifo_priority: Option<i32>) -> std::io::Result<Self> {
        let watchdog = Self {
            state: Arc::new(Mutex::new(State { last: at, stalls: Stalls::default() })),
            over: Arc::new(AtomicBool::new(false)),
        };
        let (state, over) = (watchdog.state.clone(), watchdog.over.clone());
        let watch = move || {
            let _ = fifo_priority.map(priority::take); // where the traffic has it, so has this
            while !over.load(Ordering::Relaxed) {
                sleep(PERIOD);
                state.lock().unwrap_or_else(PoisonError::into_inner).beat(clock::raw());
            }
        };
        threads::start("watchdog", Box::new(watch))?;
        Ok(watchdog)
    }

    /// What was seen until now, the time since the last look included.
    pub fn end(self) -> Stalls {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.beat(clock::raw());
        state.stalls
    }
}

/// What a process that serves for itself says on its output, before how long it stood still.
const TOLD: &str = "stood still, ns: ";
/// Between looks of such a process: there may be many beside each other.
const TOLD_PERIOD: Nanos = Nanos(10_000_000);

/// Says on standard output how long this process stood still, each time that it runs again.
///
/// # Errors
/// When no thread can be started.
pub fn tell() -> std::io::Result<()> {
    let watch = || {
        let mut looked = (clock::raw(), clock::computed());
        loop {
            sleep(TOLD_PERIOD);
            let now = (clock::raw(), clock::computed());
            let away = now.0.since(looked.0);
            if stood_still(away, now.1.since(looked.1)) {
                // What hears it may be gone.
                let _ = writeln!(std::io::stdout(), "{TOLD}{}", away.0);
            }
            looked = now;
        }
    };
    threads::start("watchdog", Box::new(watch)).map(drop)
}

/// Whether a process was kept from running, and did not keep its own watching thread waiting by what it `computed`.
fn stood_still(away: Nanos, computed: Nanos) -> bool {
    away >= STALL && computed.0 < away.0 / 2
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn no_standstill_of_20_ms_passes_unseen(
            begins in 0u64..200_000_000, lasts in STALL.0..500_000_000, jitter in 0u64..300_000,
        ) {
            let mut state = State { last: Nanos::ZERO, stalls: Stalls::default() };
            let mut now = 0;
            while now < 300_000_000 {
                now += PERIOD.0 + jitter;
                if (begins..begins + lasts).contains(&now) {
                    now = begins + lasts;
                }
                state.beat(Nanos(now));
            }
            prop_assert_eq!(state.stalls.count, 1);
            prop_assert!(state.stalls.longest.0 >= lasts);
        }
    }

    #[test]
    fn a_process_whose_own_work_kept_what_watches_waiting_did_not_stand_still() {
        let ms = |time: u64| Nanos(time * 1_000_000);
        assert!(stood_still(ms(20), ms(0)) && stood_still(ms(500), ms(249)));
        assert!(!stood_still(ms(19), ms(0)), "too short");
        assert!(
            !stood_still(ms(40), ms(20)) && !stood_still(ms(40), ms(80)),
            "it computed, on two processors too"
        );
    }

    #[test]
    fn a_process_that_runs_and_what_was_before_the_start_are_no_stall() {
        let mut state = State { last: Nanos(100_000_000), stalls: Stalls::default() };
        for now in [1_000_000, 90_000_000, 104_000_000, 110_000_000, 123_000_000] {
            state.beat(Nanos(now));
        }
        assert_eq!(state.stalls, Stalls::default());
    }

    #[test]
    fn the_time_since_the_last_look_counts_too() {
        let watchdog = Watchdog::begin(clock::raw(), None).unwrap();
        let held = watchdog.state.clone();
        let guard = held.lock().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(25));
        drop(guard);
        assert!(watchdog.end().longest >= STALL);
    }
}
