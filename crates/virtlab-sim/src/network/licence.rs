//! A router's licence: what it sends out of a vNIC, at most.
//!
//! A token bucket of frames as Linux's HTB counts them (header without FCS): a frame goes while the bucket is not overdrawn,
//! else it waits; beyond so many that wait, frames are dropped. Frame after frame that is `start = max(now, free)` and
//! `free = max(free, start - burst) + cost`, as for a vNIC that pushes back. Segments that go together cost as many frames as they
//! will be cut into (`qdisc_pkt_len_init`), and wait as one.

use super::Network;
use super::vnics::Outgoing;
use crate::input;
use virtlab_wire::ethernet::serialisation;

pub(super) struct Licence {
    rate_bit_per_s: u64,
    burst_ns: i64,
    limit_packets: usize,
    /// Instant at which the bucket is just not overdrawn; may lie before the beginning.
    free_ns: i64,
    pub(super) drops: u64,
}

impl Licence {
    pub(super) fn new(given: &input::Licence) -> Self {
        let burst_ns = serialisation(given.burst_bytes, given.rate_bit_per_s).0 as i64;
        Self {
            rate_bit_per_s: given.rate_bit_per_s,
            burst_ns,
            limit_packets: given.limit_packets as usize,
            free_ns: -burst_ns,
            drops: 0,
        }
    }
}

impl Network {
    /// Into the queue before a vNIC's licence, through it, or nowhere; the instant at which the frame leaves, if it does.
    pub(super) fn put_licensed(&mut self, nic: usize, out: Outgoing, ready_ns: u64) -> u64 {
        let parts = self.parts_of(&out.cargo.message);
        let bytes = parts.map_or(out.bytes, |parts| self.cut_bytes(&out, parts).sum());
        let port = &mut self.nics[nic];
        let Some(licence) = &mut port.licence else { return ready_ns };
        if port.queue.len() >= licence.limit_packets {
            licence.drops += 1;
            return ready_ns;
        }
        let start = licence.free_ns.max(ready_ns as i64);
        let cost = serialisation(bytes, licence.rate_bit_per_s).0 as i64;
        licence.free_ns = licence.free_ns.max(start - licence.burst_ns) + cost;
        self.depart(nic, out, start as u64)
    }
}
