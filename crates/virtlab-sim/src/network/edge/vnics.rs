//! A vNIC: its bucket, its queue, and what it has seen.
//!
//! With pushback it lets frames go as the testbed's does, by a token bucket at its rate with a burst of ten frames,
//! counted in Ethernet's octet times; sending is allowed while the bucket is not overdrawn, as in Linux's HTB. Frame
//! after frame that is `start = max(now, free)` and `free = max(free, start - burst) + cost`.

use super::licence::Licence;
use super::queue::Queue;
use crate::input::Vnic;
use std::collections::VecDeque;
use virtlab_fabric::{PortId, Train};
use virtlab_wire::Nanos;
use virtlab_wire::ethernet::{HEADER_BYTES, serialisation, wire_bytes};

/// Frames that a vNIC with pushback lets go at once after a pause; the testbed's figure.
const BURST_FRAMES: u32 = 10;
/// Fragments that have been passed on, from which on those that have come are counted without waiting for a reader.
const CROWD: usize = 64;

/// What a vNIC has seen.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Traffic {
    pub sent_packets: u64,
    pub sent_bytes: u64,
    pub received_packets: u64,
    pub received_bytes: u64,
    pub strangers: u64,
    /// Frames that a forwarding guest had no room for.
    pub overflows: u64,
    /// Frames given up before anybody said where their next hop is.
    pub unresolved: u64,
    /// Frames that came to it or would have left it while it was down.
    pub missed: u64,
    pub vanished: u64,
    /// Frames for which a queue that guests share had no room.
    pub refused: u64,
}

impl Traffic {
    /// Frames of equal length leave.
    #[inline]
    pub fn send(&mut self, packets: u32, bytes: u32) {
        self.sent_packets += u64::from(packets);
        self.sent_bytes += u64::from(packets) * u64::from(bytes);
    }

    /// Frames of equal length come.
    #[inline]
    pub fn receive(&mut self, packets: u32, bytes: u32) {
        self.received_packets += u64::from(packets);
        self.received_bytes += u64::from(packets) * u64::from(bytes);
    }
}

/// The bucket of a vNIC that holds back its sender.
pub struct Bucket {
    rate_bit_per_s: u64,
    /// Instant at which it is just not overdrawn; may lie before the beginning.
    free_ns: i64,
    burst_ns: i64,
    /// What a frame of the length met last costs, and of another length before it.
    last_costs: [(u32, i64); 2],
}

impl Bucket {
    fn new(rate_bit_per_s: u64, mtu_bytes: u32) -> Self {
        let burst = serialisation(BURST_FRAMES * wire_bytes(mtu_bytes + HEADER_BYTES), rate_bit_per_s);
        let burst_ns = burst.0 as i64;
        Self { rate_bit_per_s, free_ns: -burst_ns, burst_ns, last_costs: [(u32::MAX, 0); 2] }
    }

    /// It lets frames go at another rate from now on.
    pub fn set_rate(&mut self, rate_bit_per_s: u64) {
        (self.rate_bit_per_s, self.last_costs) = (rate_bit_per_s, [(u32::MAX, 0); 2]);
    }

    /// What a frame costs.
    #[inline]
    pub fn cost_ns(&mut self, bytes: u32) -> i64 {
        if self.last_costs[0].0 != bytes {
            self.last_costs.swap(0, 1);
            if self.last_costs[0].0 != bytes {
                let cost = serialisation(wire_bytes(bytes), self.rate_bit_per_s);
                self.last_costs[0] = (bytes, cost.0 as i64);
            }
        }
        self.last_costs[0].1
    }

    /// When what is ready at an instant may go.
    #[inline]
    pub fn start_ns(&mut self, ready_ns: u64, cost_ns: i64) -> u64 {
        let start = self.free_ns.max(ready_ns as i64);
        self.free_ns = self.free_ns.max(start - self.burst_ns) + cost_ns;
        start as u64
    }

    /// When the first of many equal frames may go, which may lie back; each further one may a cost later.
    pub fn first_ns(&self, now_ns: u64) -> i64 {
        self.free_ns.max(now_ns as i64 - self.burst_ns)
    }

    /// Frames go that cost so much in all, the first of them at `first_ns`.
    pub fn take(&mut self, first_ns: i64, cost_ns: i64) {
        self.free_ns = first_ns + cost_ns;
    }
}

/// Whether the guest behind a vNIC hears and speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// It does both.
    Here,
    /// It is being reset: what comes is lost, and what leaves vanishes.
    Down,
    /// It stands still: what comes is lost, and what leaves waits until it runs again.
    Frozen,
    /// It has moved: what comes is lost, because it comes where the guest was.
    Unreached,
}

/// A vNIC. What every frame touches comes first: it lies in three lines of the processor's cache.
#[repr(C, align(64))]
pub struct Nic {
    /// The virtual switch or the port of the fabric where it is plugged in.
    pub bridge: Option<usize>,
    pub port: Option<PortId>,
    /// The token bucket of a vNIC that pushes back.
    pub bucket: Option<Box<Bucket>>,
    pub licence: Option<Box<Licence>>,
    /// Largest IP packet, as given.
    pub mtu_bytes: u32,
    /// Whether it is a queue that guests share, and no vNIC.
    shared: bool,
    pub presence: Presence,
    pub queue: Queue,
    pub traffic: Traffic,
    /// Fragments that come to it over certain ways, and the bytes of each.
    coming: VecDeque<(Train, u32)>,
    pub given: Vnic,
}

impl Nic {
    pub fn new(given: &Vnic, bridge: Option<usize>, port: Option<PortId>) -> Self {
        let bucket = given.pushback_bit_per_s.map(|rate| Bucket::new(rate, given.mtu_bytes));
        Self {
            bridge,
            port,
            bucket: bucket.map(Box::new),
            licence: given.licence.as_ref().map(Licence::new).map(Box::new),
            mtu_bytes: given.mtu_bytes,
            shared: false,
            presence: Presence::Here,
            queue: Queue::default(),
            traffic: Traffic::default(),
            coming: VecDeque::new(),
            given: given.clone(),
        }
    }

    /// A queue that guests share, in which so many frames may wait.
    pub fn share(&mut self, most_waiting: u32) {
        self.shared = true;
        self.queue.bound(most_waiting);
    }

    /// What it holds back goes at the rate of the line behind it, at most at its own.
    pub fn go_at(&mut self, rate_bit_per_s: u64) {
        if let Some(bucket) = &mut self.bucket {
            bucket.set_rate(rate_bit_per_s.min(self.given.pushback_bit_per_s.unwrap_or(u64::MAX)));
        }
    }

    /// Whether it is a queue that guests share, and no vNIC.
    #[inline]
    pub fn is_shared(&self) -> bool {
        self.shared
    }

    /// Whether a frame leaves it as it comes, whatever its length, and nothing waits that leaves before.
    #[inline]
    pub fn is_clear(&self) -> bool {
        self.bucket.is_none() && self.licence.is_none() && !self.shared && self.queue.is_clear()
    }

    /// Whether a frame that comes now leaves it at once: nothing waits, and its bucket is not overdrawn.
    #[inline]
    pub fn is_open(&self, now_ns: u64) -> bool {
        let lets = |bucket: &Bucket| bucket.free_ns <= now_ns as i64;
        self.queue.is_empty() && self.queue.has_place(1) && self.bucket.as_deref().is_none_or(lets)
    }

    /// When a frame leaves it that comes at an instant, behind all that came before.
    #[inline]
    pub fn start_ns(&mut self, bytes: u32, came_ns: u64) -> u64 {
        let Some(bucket) = &mut self.bucket else { return came_ns };
        let cost_ns = bucket.cost_ns(bytes);
        bucket.start_ns(came_ns, cost_ns)
    }

    /// A frame leaves it as it comes.
    #[inline]
    pub fn let_through(&mut self, bytes: u32, now_ns: u64) {
        self.start_ns(bytes, now_ns);
        self.traffic.send(1, bytes);
    }

    /// Whether a frame that comes is lost here.
    #[inline]
    pub fn misses(&mut self) -> bool {
        let misses = self.presence != Presence::Here;
        self.traffic.missed += u64::from(misses);
        misses
    }

    /// Fragments will come and are only counted.
    pub fn part_comes(&mut self, train: Train, bytes: u32, now_ns: u64) {
        self.coming.push_back((train, bytes));
        if self.coming.len() >= CROWD {
            self.count_parts(now_ns);
        }
    }

    /// Counts the fragments that have come by now.
    pub fn count_parts(&mut self, now_ns: u64) {
        while let Some((train, bytes)) = self.coming.front_mut() {
            let come = train.by(Nanos(now_ns));
            self.traffic.receive(come, *bytes);
            if come < train.count {
                *train = train.without(come);
                break;
            }
            self.coming.pop_front();
        }
    }
}
