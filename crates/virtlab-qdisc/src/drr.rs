//! Deficit round robin over classes: each round a class may send `quantum` bytes, what is left is carried over.
//!
//! Source: Shreedhar and Varghese 1996; Linux `net/sched/sch_drr.c`. A class that becomes busy joins the round at its
//! end with one quantum. A head that does not fit the deficit waits for the next round, so over n rounds a busy class
//! sends within one packet of `n * quantum` bytes.

use crate::build::Declaration;
use crate::kernel::{Form, needed};
use crate::{Backlog, DropReason, Dropped, Packet, Qdisc};
use std::collections::VecDeque;
use virtlab_wire::Nanos;

/// One class: its share, and how many packets may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DrrClass {
    /// Bytes per round.
    pub quantum_bytes: u32,
    /// Packets that may wait.
    pub limit_packets: u64,
}

#[derive(Debug)]
struct Class {
    options: DrrClass,
    waiting: VecDeque<Packet>,
    deficit: u64,
}

/// Classes served in rounds; `Packet::class` is the index, beyond the last the last one takes it.
#[derive(Debug)]
pub struct Drr {
    classes: Vec<Class>,
    round: VecDeque<usize>,
    held: Backlog,
}

impl Drr {
    /// Empty classes.
    ///
    /// # Panics
    /// Without classes, or when a quantum is zero.
    #[must_use]
    pub fn new(classes: &[DrrClass]) -> Self {
        assert!(
            !classes.is_empty() && classes.iter().all(|class| class.quantum_bytes > 0),
            "every class has a quantum"
        );
        let classes = classes
            .iter()
            .map(|options| Class { options: *options, waiting: VecDeque::new(), deficit: 0 })
            .collect();
        Self { classes, round: VecDeque::new(), held: Backlog::default() }
    }
}

impl Qdisc for Drr {
    fn enqueue(&mut self, packet: Packet, _now: Nanos, drops: &mut Vec<Dropped>) {
        let at = (packet.class as usize).min(self.classes.len() - 1);
        let class = &mut self.classes[at];
        if class.waiting.len() as u64 >= class.options.limit_packets {
            drops.push(Dropped { packet, reason: DropReason::PacketLimit });
            return;
        }
        if class.waiting.is_empty() {
            class.deficit = u64::from(class.options.quantum_bytes);
            self.round.push_back(at);
        }
        class.waiting.push_back(packet);
        self.held.packets += 1;
        self.held.bytes += u64::from(packet.bytes);
    }

    fn dequeue(&mut self, _now: Nanos, _drops: &mut Vec<Dropped>) -> Option<Packet> {
        loop {
            let class = &mut self.classes[*self.round.front()?];
            let bytes = u64::from(class.waiting.front()?.bytes);
            if bytes > class.deficit {
                class.deficit += u64::from(class.options.quantum_bytes);
                self.round.rotate_left(1);
                continue;
            }
            class.deficit -= bytes;
            let packet = class.waiting.pop_front();
            if class.waiting.is_empty() {
                self.round.pop_front();
            }
            self.held.packets -= 1;
            self.held.bytes -= bytes;
            return packet;
        }
    }

    fn next_event(&self, now: Nanos) -> Option<Nanos> {
        (self.held.packets > 0).then_some(now)
    }

    fn backlog(&self) -> Backlog {
        self.held
    }
}

pub(crate) const DECLARATION: Declaration = Declaration {
    classed: Some(|tree| {
        let classes = tree.each(|class| {
            let quantum_bytes = class.reader.bytes("quantum_bytes")?.unwrap_or(1514);
            Ok(DrrClass { quantum_bytes, limit_packets: class.limit_packets })
        })?;
        Ok(Box::new(Drr::new(&classes)))
    }),
    kernel_class: Some(&[needed("quantum_bytes", 1, 0, Form::Word(1))]),
    ..Declaration::of("drr")
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Ecn;
    use crate::testing::conserves_packets;
    use proptest::prelude::*;

    fn of_class(id: u64, class: u32, bytes: u32) -> Packet {
        Packet { id, bytes, flow: 0, class, ecn: Ecn::NotCapable }
    }

    proptest! {
        #[test]
        fn busy_classes_share_in_proportion_to_their_quanta(
            quanta in prop::collection::vec(1500u32..6000, 2..5),
            sizes in prop::collection::vec(60u32..1500, 4..5),
        ) {
            let options: Vec<DrrClass> =
                quanta.iter().map(|quantum| DrrClass { quantum_bytes: *quantum, limit_packets: 100_000 }).collect();
            let mut drr = Drr::new(&options);
            let mut drops = Vec::new();
            for id in 0..4000 {
                for class in 0..quanta.len() {
                    drr.enqueue(of_class(id, class as u32, sizes[class % sizes.len()]), Nanos(0), &mut drops);
                }
            }
            let mut bytes = vec![0f64; quanta.len()];
            for _ in 0..3000 {
                let packet = drr.dequeue(Nanos(0), &mut drops).unwrap();
                bytes[packet.class as usize] += f64::from(packet.bytes);
            }
            // Rounds that a class has had, in units of its quantum, differ by at most one turn and one packet.
            let rounds: Vec<f64> = bytes.iter().zip(&quanta).map(|(bytes, quantum)| bytes / f64::from(*quantum)).collect();
            let (least, most) = rounds.iter().fold((f64::MAX, 0f64), |(low, high), r| (low.min(*r), high.max(*r)));
            prop_assert!(most - least <= 2.0 + 1500.0 / 1500.0, "{rounds:?}");
        }

        #[test]
        fn packets_leave_once_and_each_class_in_order(
            arrivals in prop::collection::vec((0u64..1000, 60u32..9000, 0u32..4), 1..200),
        ) {
            let options = [DrrClass { quantum_bytes: 1514, limit_packets: 20 }; 3];
            let packets: Vec<(u64, Packet)> = arrivals
                .iter()
                .enumerate()
                .map(|(id, &(gap, bytes, class))| (gap, of_class(id as u64, class, bytes)))
                .collect();
            let sent = conserves_packets(&mut Drr::new(&options), &packets);
            for class in 0..3 {
                let of_this: Vec<u64> = sent
                    .iter()
                    .filter(|(_, packet)| packet.class.min(2) == class)
                    .map(|(_, packet)| packet.id)
                    .collect();
                prop_assert!(of_this.is_sorted());
            }
        }
    }
}
