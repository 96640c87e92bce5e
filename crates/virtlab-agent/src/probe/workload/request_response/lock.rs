//! The lock of a server: whichever thread has waited longest gets it next.
//!
//! The system's locks are not fair: a thread that comes while another is being woken may have it first. Who waits here
//! has a number, and sleeps until it is called.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{Thread, current, park_timeout};
use std::time::Duration;

/// The longest sleep, so that a stop is seen.
const GLANCE: Duration = Duration::from_millis(20);

#[derive(Debug, Default)]
struct Turns {
    /// Of the next thread that comes.
    next: u64,
    /// Of the thread that has the lock, or will have it.
    called: u64,
    waiting: VecDeque<Thread>,
}

/// Who has it, and who waits.
#[derive(Debug, Default)]
pub struct Lock(Mutex<Turns>);

impl Lock {
    fn turns(&self) -> MutexGuard<'_, Turns> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the lock; false when `stopped` before.
    pub fn take(&self, stopped: impl Fn() -> bool) -> bool {
        let turn = {
            let mut turns = self.turns();
            let turn = turns.next;
            turns.next += 1;
            if turn == turns.called {
                return true;
            }
            turns.waiting.push_back(current());
            turn
        };
        while self.turns().called != turn {
            if stopped() {
                return false;
            }
            park_timeout(GLANCE);
        }
        true
    }

    /// Calls the next thread.
    pub fn give(&self) {
        let mut turns = self.turns();
        turns.called += 1;
        if let Some(thread) = turns.waiting.pop_front() {
            thread.unpark();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    #[test]
    fn one_thread_has_it_at_a_time() {
        let (lock, inside, entered) = (Lock::default(), AtomicBool::new(false), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..500 {
                        assert!(lock.take(|| false));
                        assert!(!inside.swap(true, Ordering::SeqCst), "two are inside");
                        entered.fetch_add(1, Ordering::SeqCst);
                        inside.store(false, Ordering::SeqCst);
                        lock.give();
                    }
                });
            }
        });
        assert_eq!(entered.into_inner(), 2000);
    }

    #[test]
    fn threads_have_it_in_the_order_in_which_they_came() {
        let (lock, order) = (Lock::default(), Mutex::new(Vec::new()));
        assert!(lock.take(|| false));
        std::thread::scope(|scope| {
            for place in 0..6 {
                let (lock, order) = (&lock, &order);
                scope.spawn(move || {
                    assert!(lock.take(|| false));
                    order.lock().unwrap().push(place);
                    lock.give();
                });
                while lock.turns().waiting.len() <= place {
                    std::thread::yield_now();
                }
            }
            lock.give();
        });
        assert_eq!(order.into_inner().unwrap(), [0, 1, 2, 3, 4, 5]);
    }

    #[test]
    fn a_thread_that_is_stopped_waits_no_longer() {
        let lock = Lock::default();
        assert!(lock.take(|| false));
        assert!(!lock.take(|| true));
    }
}
