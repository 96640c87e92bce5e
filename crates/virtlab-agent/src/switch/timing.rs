//! Waiting for the next departure: sleep until shortly before it, then spin.
//!
//! A sleep ends late by what the kernel and its hypervisor need to wake a process. The switch measures that at its
//! start, takes the 99th percentile as its budget, sleeps only to `next - budget`, and learns from every sleep
//! (`budget.rs`).

use anyhow::{Context, bail};
use nix::errno::Errno;
use nix::sched::{CpuSet, sched_setaffinity};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use nix::unistd::Pid;
use serde::Deserialize;
use std::os::fd::BorrowedFd;
use virtlab_wire::Nanos;

use virtlab_system::clock;

const OVERSHOOT_SAMPLES: usize = 256;
const TIMER_TOKEN: u64 = u64::MAX;

/// How the time before a departure is passed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Spin {
    /// Sleep, then spin for the budget.
    #[default]
    Auto,
    /// Never sleep while forwarding: takes a whole core, for 64-byte echoes and 1 Gbit/s.
    Always,
    /// Never spin: departures are late by the overshoot of sleeping.
    Never,
}

/// Sleeps that descriptors can end.
pub struct Sleeper {
    epoll: Epoll,
    timer: TimerFd,
    armed: Option<Nanos>,
    /// Sleeps so far.
    pub sleeps: u64,
}

impl Sleeper {
    /// With its timer; timer slack of this thread becomes 1 ns.
    ///
    /// # Errors
    /// When the kernel gives no descriptors.
    pub fn new() -> anyhow::Result<Self> {
        nix::sys::prctl::set_timerslack(1).context("cannot set the timer slack")?;
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        let timer =
            TimerFd::new(ClockId::CLOCK_MONOTONIC, TimerFlags::TFD_CLOEXEC | TimerFlags::TFD_NONBLOCK)?;
        use std::os::fd::AsFd;
        epoll.add(timer.as_fd(), EpollEvent::new(EpollFlags::EPOLLIN | EpollFlags::EPOLLET, TIMER_TOKEN))?;
        Ok(Self { epoll, timer, armed: None, sleeps: 0 })
    }

    /// Also wakes when `fd` can be read; `token` names it.
    ///
    /// # Errors
    /// When the descriptor cannot be watched.
    pub fn watch(&self, fd: BorrowedFd<'_>, token: u64) -> anyhow::Result<()> {
        Ok(self.epoll.add(fd, EpollEvent::new(EpollFlags::EPOLLIN, token))?)
    }

    /// Sleeps until `until` (CLOCK_MONOTONIC; `None`: no end) or a watched descriptor can be read. True when the one
    /// named by `token` can.
    ///
    /// # Errors
    /// When the kernel refuses to wait.
    pub fn sleep(&mut self, until: Option<Nanos>, token: u64) -> anyhow::Result<bool> {
        if self.armed != until {
            match until {
                Some(at) => self.timer.set(
                    Expiration::OneShot(TimeSpec::new(
                        (at.0 / 1_000_000_000) as i64,
                        (at.0 % 1_000_000_000) as i64,
                    )),
                    TimerSetTimeFlags::TFD_TIMER_ABSTIME,
                )?,
                None => self.timer.unset()?,
            }
            self.armed = until;
        }
        self.sleeps += 1;
        self.wait(EpollTimeout::NONE, token)
    }

    /// How long ago the instant of the last sleep was, where its timer ended it; `None` where something else did.
    pub fn overslept(&self, until: Option<Nanos>) -> Option<Nanos> {
        until.filter(|_| self.armed.is_none()).map(|until| clock::monotonic().since(until))
    }

    /// Whether the descriptor named by `token` can be read now.
    ///
    /// # Errors
    /// When the kernel refuses to look.
    pub fn glance(&mut self, token: u64) -> anyhow::Result<bool> {
        self.wait(EpollTimeout::ZERO, token)
    }

    fn wait(&mut self, timeout: EpollTimeout, token: u64) -> anyhow::Result<bool> {
        let mut events = [EpollEvent::empty(); 16];
        match self.epoll.wait(&mut events, timeout) {
            Ok(count) => {
                let events = &events[..count];
                if events.iter().any(|event| event.data() == TIMER_TOKEN) {
                    self.armed = None;
                }
                Ok(events.iter().any(|event| event.data() == token))
            }
            Err(Errno::EINTR) => Ok(false),
            Err(error) => Err(error).context("cannot wait"),
        }
    }

    /// How late sleeps end on this machine, now: p50 and p99 of some hundred short ones.
    ///
    /// # Errors
    /// As [`Self::sleep`].
    pub fn overshoot(&mut self) -> anyhow::Result<(Nanos, Nanos)> {
        let mut late = Vec::with_capacity(OVERSHOOT_SAMPLES);
        for n in 0..OVERSHOOT_SAMPLES as u64 {
            let until = clock::monotonic() + Nanos(150_000 + n % 16 * 10_000);
            loop {
                self.sleep(Some(until), TIMER_TOKEN)?;
                let now = clock::monotonic();
                if now >= until {
                    late.push(now.since(until));
                    break;
                }
            }
        }
        late.sort_unstable();
        Ok((late[OVERSHOOT_SAMPLES / 2], late[(OVERSHOOT_SAMPLES * 99).div_ceil(100) - 1]))
    }
}

/// Keeps this thread on one CPU.
///
/// # Errors
/// When there is no such CPU, or it is not allowed.
pub fn pin(cpu: usize) -> anyhow::Result<()> {
    let mut set = CpuSet::new();
    set.set(cpu).with_context(|| format!("there is no CPU {cpu}"))?;
    sched_setaffinity(Pid::from_raw(0), &set)
        .with_context(|| format!("cannot run on CPU {cpu}; choose one that is online"))
}

/// Whether this thread stands under SCHED_FIFO or SCHED_RR already.
pub fn is_real_time() -> bool {
    // SAFETY: a plain system call without memory.
    let policy = unsafe { libc::sched_getscheduler(0) } & !libc::SCHED_RESET_ON_FORK;
    matches!(policy, libc::SCHED_FIFO | libc::SCHED_RR)
}

/// Puts this thread under SCHED_FIFO. A child would not inherit it.
///
/// # Errors
/// Without the privilege, or for a priority that does not exist.
pub fn real_time(priority: i32) -> anyhow::Result<()> {
    let parameter = libc::sched_param { sched_priority: priority };
    // SAFETY: the kernel reads one sched_param.
    let result = unsafe {
        libc::sched_setscheduler(0, libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, &raw const parameter)
    };
    if result == 0 {
        return Ok(());
    }
    match Errno::last() {
        Errno::EPERM => bail!("SCHED_FIFO is not allowed here; leave fifo_priority out, or run as root"),
        error => Err(error)
            .with_context(|| format!("SCHED_FIFO with priority {priority} was refused; give 1 to 99")),
    }
}
