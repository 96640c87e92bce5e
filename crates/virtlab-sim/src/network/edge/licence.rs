//! A router's licence: what it sends out of a vNIC, at most.
//!
//! A token bucket of frames as Linux's HTB counts them (header without FCS): a frame goes while the bucket is not
//! overdrawn, else it waits; beyond so many that wait, frames are dropped. Frame after frame that is
//! `start = max(now, free)` and `free = max(free, start - burst) + cost`, as for a vNIC that pushes back. Segments that
//! go together cost as many frames as they will be cut into (`qdisc_pkt_len_init`), and wait as one.

use crate::input;
use virtlab_wire::ethernet::serialisation;

/// The bucket of a vNIC.
pub struct Licence {
    rate_bit_per_s: u64,
    burst_ns: i64,
    limit_packets: usize,
    /// Instant at which the bucket is just not overdrawn; may lie before the beginning.
    free_ns: i64,
    drops: u64,
}

impl Licence {
    pub fn new(given: &input::Licence) -> Self {
        let burst_ns = serialisation(given.burst_bytes, given.rate_bit_per_s).0 as i64;
        Self {
            rate_bit_per_s: given.rate_bit_per_s,
            burst_ns,
            limit_packets: given.limit_packets as usize,
            free_ns: -burst_ns,
            drops: 0,
        }
    }

    /// When a frame of so many bytes may go that is ready at an instant; `None` where too many wait: it is dropped.
    pub fn start_ns(&mut self, bytes: u32, ready_ns: u64, waiting: usize) -> Option<u64> {
        if waiting >= self.limit_packets {
            self.drops += 1;
            return None;
        }
        let start = self.free_ns.max(ready_ns as i64);
        let cost = serialisation(bytes, self.rate_bit_per_s).0 as i64;
        self.free_ns = self.free_ns.max(start - self.burst_ns) + cost;
        Some(start as u64)
    }

    /// Frames dropped.
    pub fn drops(&self) -> u64 {
        self.drops
    }
}
