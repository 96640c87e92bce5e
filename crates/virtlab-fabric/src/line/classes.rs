//! What the classes of a queue have seen.

use super::counters::ClassCounters;
use super::waits::Waits;
use virtlab_qdisc::{Ecn, Packet};
use virtlab_wire::Nanos;

/// Counters and waits by number of the class; none without classes.
pub(crate) struct Classes {
    counters: Vec<ClassCounters>,
    waits: Vec<Waits>,
}

impl Classes {
    /// So many, which have seen nothing.
    pub(crate) fn new(count: usize) -> Self {
        Self { counters: vec![ClassCounters::default(); count], waits: vec![Waits::default(); count] }
    }

    /// The counters of each, with quantiles of its waits.
    pub(crate) fn read(&self) -> impl Iterator<Item = ClassCounters> {
        self.counters.iter().zip(&self.waits).map(|(class, waits)| ClassCounters {
            residence_p50_ns: waits.quantile(0.5, class.packets).min(class.residence_max_ns),
            residence_p99_ns: waits.quantile(0.99, class.packets).min(class.residence_max_ns),
            ..*class
        })
    }

    /// Counts begin again at zero; what waits still waits.
    pub(crate) fn reset(&mut self) {
        self.waits.fill(Waits::default());
        for class in &mut self.counters {
            let ClassCounters { backlog_packets, backlog_bytes, .. } = *class;
            *class = ClassCounters { backlog_packets, backlog_bytes, ..ClassCounters::default() };
        }
    }

    /// A frame comes into its class.
    #[inline]
    pub(crate) fn queue(&mut self, packet: &Packet) {
        if let Some(class) = self.counters.get_mut(packet.class as usize) {
            class.backlog_packets += 1;
            class.backlog_bytes += u64::from(packet.bytes);
        }
    }

    /// What waits in a class may be the most so far.
    #[inline]
    pub(crate) fn note_backlog(&mut self, class: usize) {
        if let Some(class) = self.counters.get_mut(class) {
            class.backlog_max_packets = class.backlog_max_packets.max(class.backlog_packets);
            class.backlog_max_bytes = class.backlog_max_bytes.max(class.backlog_bytes);
        }
    }

    /// A frame is sent that has waited.
    #[inline]
    pub(crate) fn send(&mut self, packet: &Packet, wait: Nanos) {
        if let Some(class) = self.counters.get_mut(packet.class as usize) {
            class.packets += 1;
            class.bytes += u64::from(packet.bytes);
            class.marked_packets += u64::from(packet.ecn == Ecn::Marked);
            class.backlog_packets -= 1;
            class.backlog_bytes -= u64::from(packet.bytes);
            class.residence_ns += wait.0;
            class.residence_max_ns = class.residence_max_ns.max(wait.0);
            self.waits[packet.class as usize].note(wait);
        }
    }

    /// A frame is dropped that never came into its class.
    pub(crate) fn refuse(&mut self, packet: &Packet) {
        if let Some(class) = self.counters.get_mut(packet.class as usize) {
            class.drops += 1;
        }
    }

    /// A frame is dropped.
    pub(crate) fn drop(&mut self, packet: &Packet) {
        if let Some(class) = self.counters.get_mut(packet.class as usize) {
            class.drops += 1;
            class.backlog_packets -= 1;
            class.backlog_bytes -= u64::from(packet.bytes);
        }
    }
}
