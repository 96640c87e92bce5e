//! What the control thread and a role's threads share: start gate, stop flag, wake-ups, tunable values.

use super::live::{self, Tally};
use super::pacing::{Pacer, Pacing};
use super::report::Report;
use super::spool::Budget;
use super::watchdog::Watchdog;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use virtlab_system::clock;
use virtlab_system::transport::Writer;
use virtlab_wire::Nanos;

/// Where a role stands.
#[derive(Clone, Debug)]
pub enum Phase {
    /// Prepared; a server answers already.
    Armed,
    /// To begin, or begun, at the instant.
    Started(Nanos),
    /// Over.
    Finished(Arc<Report>),
}

/// Shared state of one armed role.
#[derive(Debug)]
pub struct Run {
    /// The role's name.
    pub role: String,
    /// Memory for samples.
    pub budget: Arc<Budget>,
    /// Set once traffic must end.
    pub stop: AtomicBool,
    writer: Writer,
    phase: Mutex<Phase>,
    changed: Condvar,
    /// Sockets that threads may sleep in; shut down to wake them.
    sleepers: Mutex<Vec<OwnedFd>>,
    tuned: Mutex<BTreeMap<String, Value>>,
    /// What its threads have seen so far.
    tallies: Mutex<Vec<Arc<Tally>>>,
    /// Why it was stopped by no one's request.
    forsaken: Mutex<Option<String>>,
    /// Looks whether the process stands still, from the start on.
    watchdog: Mutex<Option<Watchdog>>,
    /// Raised with every tuned value.
    pub tuned_count: std::sync::atomic::AtomicU64,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Run {
    /// A role that is about to be armed.
    pub fn new(role: &str, writer: Writer, budget: Arc<Budget>) -> Arc<Self> {
        Arc::new(Self {
            role: role.to_owned(),
            budget,
            stop: AtomicBool::new(false),
            writer,
            phase: Mutex::new(Phase::Armed),
            changed: Condvar::new(),
            sleepers: Mutex::new(Vec::new()),
            tuned: Mutex::new(BTreeMap::new()),
            tallies: Mutex::new(Vec::new()),
            forsaken: Mutex::new(None),
            watchdog: Mutex::new(None),
            tuned_count: std::sync::atomic::AtomicU64::new(0),
        })
    }

    /// Where the role stands.
    pub fn phase(&self) -> Phase {
        lock(&self.phase).clone()
    }

    /// Whether traffic must end.
    #[inline]
    pub fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Opens the start gate for `at`.
    pub fn start(&self, at: Nanos) {
        *lock(&self.phase) = Phase::Started(at);
        self.changed.notify_all();
    }

    /// Looks from `at` on whether the process stands still. A guest that has no room for one more thread ends the role.
    pub fn watch(&self, at: Nanos, fifo_priority: Option<i32>) {
        match Watchdog::begin(at, fifo_priority) {
            Ok(watchdog) => *lock(&self.watchdog) = Some(watchdog),
            Err(error) => self.forsake(&format!("cannot start the thread that watches: {error}")),
        }
    }

    /// Waits for the start gate and the instant it names, then says `started`. `None` when the role is stopped before.
    pub fn wait_for_start(&self, pacer: Pacer) -> Option<Nanos> {
        let at = self.wait_for_gate(pacer)?;
        self.event("started", &json!({"t_ns": at.0}));
        Some(at)
    }

    /// The same for the further threads of a role, of which one says `started`.
    pub fn wait_for_gate(&self, pacer: Pacer) -> Option<Nanos> {
        let mut phase = lock(&self.phase);
        let at = loop {
            match *phase {
                Phase::Started(at) => break at,
                _ if self.stopped() => return None,
                _ => phase = self.changed.wait(phase).unwrap_or_else(PoisonError::into_inner),
            }
        };
        drop(phase);
        pacer.wait_until(at, &self.stop).then_some(at)
    }

    /// Sleeps until the start; from when on requests are due, or `None` when it was stopped before.
    pub fn begun(&self) -> Option<Nanos> {
        let start = self.wait_for_start(Pacer::new(Pacing::Sleep))?;
        Some(clock::raw().max(start))
    }

    /// Waits until the role is stopped.
    pub fn wait_for_stop(&self) {
        let mut phase = lock(&self.phase);
        while !self.stopped() {
            phase = self.changed.wait(phase).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Asks every thread of the role to end, and wakes those that sleep in a socket.
    pub fn request_stop(&self) {
        {
            let _phase = lock(&self.phase);
            self.stop.store(true, Ordering::Relaxed);
        }
        self.changed.notify_all();
        for socket in lock(&self.sleepers).iter() {
            // SAFETY: the descriptor is open, owned by this list.
            unsafe { libc::shutdown(socket.as_raw_fd(), libc::SHUT_RDWR) };
        }
    }

    /// The same without a request: the role then has failed.
    pub fn forsake(&self, why: &str) {
        lock(&self.forsaken).get_or_insert_with(|| why.to_owned());
        self.request_stop();
    }

    /// A tally that the calling thread alone will write.
    pub fn tally(&self) -> Arc<Tally> {
        let tally = Arc::new(Tally::default());
        lock(&self.tallies).push(tally.clone());
        tally
    }

    /// What its threads have seen so far; `None` where they keep no tally.
    pub fn seen_so_far(&self) -> Option<Value> {
        let tallies = lock(&self.tallies);
        (!tallies.is_empty()).then(|| live::sums(tallies.iter().map(|tally| &**tally)))
    }

    /// Has `socket` shut down when the role is stopped, so that a blocking receive ends.
    ///
    /// # Errors
    /// When no more descriptor can be opened.
    pub fn wakes(&self, socket: &impl AsFd) -> std::io::Result<()> {
        lock(&self.sleepers).push(socket.as_fd().try_clone_to_owned()?);
        Ok(())
    }

    /// Keeps the report and says `finished`.
    pub fn finish(&self, mut report: Report) {
        report.failure = report.failure.take().or_else(|| lock(&self.forsaken).take());
        report.standstills = lock(&self.watchdog).take().map(Watchdog::end).unwrap_or_default();
        report.close();
        let reason = match &report.failure {
            Some(_) => "failed",
            None if report.complete => "complete",
            None => "stopped",
        };
        lock(&self.sleepers).clear();
        // A listener for the end can collect, and a caller that waits for the end has its event before.
        let mut phase = lock(&self.phase);
        self.event("finished", &json!({"t_ns": clock::raw().0, "reason": reason, "failure": report.failure}));
        *phase = Phase::Finished(Arc::new(report));
        drop(phase);
        self.changed.notify_all();
    }

    /// Waits at most `patience` until the role is over.
    pub fn wait_for_finish(&self, patience: Duration) -> Option<Arc<Report>> {
        let phase = lock(&self.phase);
        let (phase, _) = self
            .changed
            .wait_timeout_while(phase, patience, |phase| !matches!(phase, Phase::Finished(_)))
            .unwrap_or_else(PoisonError::into_inner);
        match &*phase {
            Phase::Finished(report) => Some(report.clone()),
            _ => None,
        }
    }

    /// Changes a tunable value.
    pub fn tune(&self, parameter: &str, value: Value) {
        lock(&self.tuned).insert(parameter.to_owned(), value);
        self.tuned_count.fetch_add(1, Ordering::Release);
    }

    /// The value of a tunable parameter, if it was changed.
    pub fn tuned(&self, parameter: &str) -> Option<Value> {
        lock(&self.tuned).get(parameter).cloned()
    }

    /// A line for the run's log.
    pub fn warn(&self, text: &str) {
        let _ = self.writer.message(&json!({"log": "warning", "text": text}));
    }

    /// Sends an event of this role; a control stream that is gone ends the process elsewhere.
    pub fn event(&self, name: &str, details: &Value) {
        let mut message = json!({"event": name, "role": self.role});
        if let (Some(message), Some(details)) = (message.as_object_mut(), details.as_object()) {
            message.extend(details.clone());
        }
        let _ = self.writer.message(&message);
    }
}
