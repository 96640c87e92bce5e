//! Which of many connections something can be done on, without asking about each.

use crate::probe::parameters::Idle;
use anyhow::Context;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::time::TimeSpec;
use std::os::fd::AsFd;
use std::time::Duration;
use virtlab_wire::Nanos;

/// The longest sleep, so that a stop is seen.
const GLANCE: Nanos = Nanos(20_000_000);
/// Told at once.
const MOST: usize = 128;

/// Descriptors by numbers that the caller chose.
pub struct Readiness {
    epoll: Epoll,
    events: [EpollEvent; MOST],
}

impl Readiness {
    /// Of none yet.
    pub fn new() -> anyhow::Result<Self> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).context("cannot wait for connections")?;
        Ok(Self { epoll, events: [EpollEvent::empty(); MOST] })
    }

    /// Tells of a descriptor while something can be read, until it is closed.
    pub fn while_readable(&self, fd: impl AsFd, number: u64) -> anyhow::Result<()> {
        self.add(fd, EpollFlags::EPOLLIN, number)
    }

    /// Tells of a descriptor whenever more can be read or written than before, until it is closed.
    pub fn as_it_changes(&self, fd: impl AsFd, number: u64) -> anyhow::Result<()> {
        self.add(fd, EpollFlags::EPOLLIN | EpollFlags::EPOLLOUT | EpollFlags::EPOLLET, number)
    }

    /// Tells of it no more, also where another thread has it open.
    pub fn forget(&self, fd: impl AsFd) {
        let _ = self.epoll.delete(fd); // one that is not there is forgotten already
    }

    fn add(&self, fd: impl AsFd, flags: EpollFlags, number: u64) -> anyhow::Result<()> {
        self.epoll.add(fd, EpollEvent::new(flags, number)).context("cannot wait for a connection")
    }

    /// Sleeps until something is ready or `wait` is over (a poller does not sleep); the numbers of what is ready.
    pub fn wait(&mut self, wait: Nanos, idle: Idle) -> anyhow::Result<Vec<u64>> {
        let wait = if idle == Idle::Poll { Nanos::ZERO } else { wait.min(GLANCE) };
        if wait > Nanos::ZERO {
            // epoll's own time-outs are whole milliseconds.
            let mut whole = [PollFd::new(self.epoll.0.as_fd(), PollFlags::POLLIN)];
            match ppoll(&mut whole, Some(TimeSpec::from_duration(Duration::from_nanos(wait.0))), None) {
                Err(nix::Error::EINTR) | Ok(_) => {}
                Err(error) => return Err(error).context("cannot wait for connections"),
            }
        }
        let count = match self.epoll.wait(&mut self.events, EpollTimeout::ZERO) {
            Err(nix::Error::EINTR) => 0,
            told => told.context("cannot wait for connections")?,
        };
        Ok(self.events[..count].iter().map(EpollEvent::data).collect())
    }
}
