//! Ports of the fabric: what lies behind each, and frames that leave the fabric there.

use crate::ip::Message;
use crate::ip::addresses::Number;
use crate::network::frames::Address;
use std::collections::VecDeque;
use virtlab_fabric::{Foretold, Mac};

/// Frames in a landing, from which on those that have come are counted without waiting for a reader.
const CROWD: usize = 16;

/// What a frame that leaves the fabric is to the node at its port.
#[derive(Clone, Copy, Debug)]
pub enum Meaning {
    /// It continues through a bridge or a guest; an event represents it.
    Onward(Foretold),
    /// A fragment of a message that is not whole with it.
    Part,
    /// A message is whole with it and is only counted.
    Counted(Message),
    /// A message is whole with it; an event stands for it.
    Whole(Message),
    /// A message is whole with it from which nothing follows.
    Quiet(Message),
}

/// A frame that leaves the fabric at `at_ns`.
#[derive(Clone, Copy, Debug)]
pub struct Landing {
    pub at_ns: u64,
    pub nic: u32,
    pub bytes: u32,
    pub meaning: Meaning,
}

/// What is next for frames in a queue on their way to a port.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// The queue that guests share in front of it.
    Shared,
    /// The port.
    Wire,
}

/// A port of the fabric. What every frame touches comes first: it lies in one line of the processor's cache.
#[derive(Default)]
#[repr(C, align(64))]
pub struct Port {
    pub landings: VecDeque<Landing>,
    /// Events at which something lands, behind the one that is in the agenda: their instants and numbers.
    later: VecDeque<(u64, u64)>,
    /// Whether one is in the agenda.
    planned: bool,
    /// The addresses met last that are its guest's own, and the vNIC: of one station, and of a group.
    met: [Option<(Address, u32)>; 2],
    /// Whether there may be feeders, by what is next.
    fed: [bool; 2],
    /// vNICs in whose queues frames wait for what is next on their way to it, by that.
    feeders: [Vec<usize>; 2],
    /// The vNIC or the virtual switch behind it.
    pub nic: Option<usize>,
    pub bridge: Option<usize>,
}

impl Port {
    /// Whether there may be vNICs in whose queues frames wait for that.
    #[inline]
    pub fn is_fed(&self, stage: Stage) -> bool {
        self.fed[stage as usize]
    }

    /// The vNIC whose guest's own these addresses are, where they are those met last. The first is compared where it
    /// lies, since a copy of six octets is slow to read.
    #[inline]
    pub fn met(&self, destination: &Mac, to: Option<Number>) -> Option<u32> {
        let ((met, met_to), nic) = self.met[usize::from(destination.is_group())].as_ref()?;
        (met == destination && *met_to == to).then_some(*nic)
    }

    /// A vNIC's guest takes what comes to these addresses, or none does.
    pub fn meet(&mut self, address: Address, nic: Option<u32>) {
        self.met[usize::from(address.0.is_group())] = nic.map(|nic| (address, nic));
    }

    /// Something lands with an event of that number. True where that is the first: it belongs in the agenda.
    #[inline]
    pub fn plan(&mut self, at_ns: u64, number: u64) -> bool {
        if self.planned {
            self.later.push_back((at_ns, number));
        }
        !std::mem::replace(&mut self.planned, true)
    }

    /// The event in the agenda has come: the next one's instant and number.
    #[inline]
    pub fn next_planned(&mut self) -> Option<(u64, u64)> {
        let next = self.later.pop_front();
        self.planned = next.is_some();
        next
    }

    /// vNICs in whose queues frames wait for that.
    #[inline]
    pub fn feeders(&self, stage: Stage) -> &[usize] {
        &self.feeders[stage as usize]
    }

    /// Frames in the queue of a vNIC wait for that.
    #[inline]
    pub fn feed(&mut self, stage: Stage, nic: usize) {
        let feeders = &mut self.feeders[stage as usize];
        if !feeders.contains(&nic) {
            feeders.push(nic);
            self.fed[stage as usize] = true;
        }
    }

    /// Forgets feeders in whose queues nothing waits any more.
    #[inline]
    pub fn retain(&mut self, stage: Stage, waits: impl Fn(usize) -> bool) {
        let feeders = &mut self.feeders[stage as usize];
        feeders.retain(|nic| waits(*nic));
        self.fed[stage as usize] = !feeders.is_empty();
    }
}

/// All ports.
pub struct Ports {
    pub all: Vec<Port>,
    /// Those whose landings have grown beyond a crowd.
    crowded: Vec<usize>,
    /// Those at which something lands that has no event and must be taken in time, and when the last of it does.
    quiet: Vec<(usize, u64)>,
}

impl Ports {
    pub fn new(count: usize) -> Self {
        Self {
            all: std::iter::repeat_with(Port::default).take(count).collect(),
            crowded: Vec::new(),
            quiet: Vec::new(),
        }
    }

    /// A frame will land at a port.
    #[inline]
    pub fn land(&mut self, port: usize, landing: Landing) {
        self.all[port].landings.push_back(landing);
    }

    /// Notes a port at which so many have landed by now, of those without an event, that somebody should count them.
    #[inline]
    pub fn note_crowd(&mut self, port: usize, now_ns: u64) {
        let landings = &self.all[port].landings;
        if landings.len() >= CROWD && landings[0].at_ns <= now_ns {
            self.crowded.push(port);
        }
    }

    /// At a port so many frames wait to be gathered that somebody should.
    #[inline]
    pub fn crowd(&mut self, port: usize) {
        self.crowded.push(port);
    }

    /// What lands last at a port has no event, and must be taken in time.
    #[inline]
    pub fn note_quiet(&mut self, port: usize, at_ns: u64) {
        match self.quiet.iter_mut().find(|(each, _)| *each == port) {
            Some((_, last_ns)) => *last_ns = at_ns,
            None => self.quiet.push((port, at_ns)),
        }
    }

    /// Whether there may be such ports.
    #[inline]
    pub fn has_quiet(&self) -> bool {
        !self.quiet.is_empty()
    }

    /// A port of these at which something has landed by now.
    #[inline]
    pub fn next_quiet(&mut self, now_ns: u64) -> Option<usize> {
        let all = &self.all;
        let first_ns = |port: usize| all[port].landings.front().map(|first| first.at_ns);
        self.quiet.retain(|(port, last_ns)| first_ns(*port).is_some_and(|at_ns| at_ns <= *last_ns));
        let landed = |(port, _): &&(usize, u64)| first_ns(*port).is_some_and(|at_ns| at_ns <= now_ns);
        self.quiet.iter().find(landed).map(|(port, _)| *port)
    }

    /// When the last of it lands.
    pub fn last_quiet_ns(&self) -> Option<u64> {
        self.quiet.iter().map(|(_, last_ns)| *last_ns).max()
    }

    /// A port at which too many wait.
    #[inline]
    pub fn next_crowded(&mut self) -> Option<usize> {
        self.crowded.pop()
    }
}
