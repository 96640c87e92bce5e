//! Strict priority over bands: a band is served only while all before it are empty.
//!
//! Source: Linux `net/sched/sch_prio.c`. `Packet::class` picks the band through `priomap`, as the kernel's does with
//! the packet's priority; a class beyond the map goes to the last band.

use crate::build::Declaration;
use crate::kernel::{Form, cell, needed};
use crate::{Backlog, Dropped, Fifo, Packet, Qdisc};
use virtlab_wire::Nanos;

/// tc's default map of sixteen priorities onto three bands.
pub const DEFAULT_PRIOMAP: [usize; 16] = [1, 2, 2, 2, 1, 2, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1];

/// Bands in order of priority, each with a discipline of its own.
pub struct Prio {
    bands: Vec<Box<dyn Qdisc + Send>>,
    priomap: Vec<usize>,
}

impl Prio {
    /// `priomap[class]` is the band of a class.
    ///
    /// # Panics
    /// Without bands, or when the map names one that does not exist.
    #[must_use]
    pub fn new(bands: Vec<Box<dyn Qdisc + Send>>, priomap: Vec<usize>) -> Self {
        assert!(
            !bands.is_empty() && priomap.iter().all(|band| *band < bands.len()),
            "the map names existing bands"
        );
        Self { bands, priomap }
    }

    fn band(&self, class: u32) -> usize {
        self.priomap.get(class as usize).copied().unwrap_or(self.bands.len() - 1)
    }
}

impl Qdisc for Prio {
    fn enqueue(&mut self, packet: Packet, now: Nanos, drops: &mut Vec<Dropped>) {
        let band = self.band(packet.class);
        self.bands[band].enqueue(packet, now, drops);
    }

    fn dequeue(&mut self, now: Nanos, drops: &mut Vec<Dropped>) -> Option<Packet> {
        self.bands.iter_mut().find_map(|band| band.dequeue(now, drops))
    }

    fn next_event(&self, now: Nanos) -> Option<Nanos> {
        self.bands.iter().filter_map(|band| band.next_event(now)).min()
    }

    fn backlog(&self) -> Backlog {
        self.bands.iter().fold(Backlog::default(), |sum, band| {
            let held = band.backlog();
            Backlog { packets: sum.packets + held.packets, bytes: sum.bytes + held.bytes }
        })
    }

    fn wants_ecn(&self) -> bool {
        self.bands.iter().any(|band| band.wants_ecn())
    }

    fn wants_flow(&self) -> bool {
        self.bands.iter().any(|band| band.wants_flow())
    }
}

pub(crate) const DECLARATION: Declaration = Declaration {
    classed: Some(|tree| {
        let mut bands =
            tree.each(|class| Ok((class.reader.whole("prio")?.unwrap_or(0), class.id, class.limit_packets)))?;
        bands.sort_unstable();
        let mut map = vec![0; bands.len()];
        for (band, (_, id, _)) in bands.iter().enumerate() {
            map[*id as usize] = band;
        }
        let queue = |(_, _, limit)| Box::new(Fifo::new(Some(limit), None)) as Box<dyn Qdisc + Send>;
        Ok(Box::new(Prio::new(bands.into_iter().map(queue).collect(), map)))
    }),
    // struct tc_prio_qopt: bands, and one band for each of sixteen priorities.
    kernel: Some(&[needed("bands", 0, 0, Form::Word(1)), cell("band", 0, 4, Form::Bands)]),
    kernel_class: Some(&[]),
    trial: &[("bands", 3)],
    ..Declaration::of("prio")
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Ecn;
    use crate::Fifo;
    use crate::testing::conserves_packets;
    use proptest::prelude::*;

    fn three_bands(limit_packets: u64) -> Prio {
        let bands =
            (0..3).map(|_| Box::new(Fifo::new(Some(limit_packets), None)) as Box<dyn Qdisc + Send>).collect();
        Prio::new(bands, DEFAULT_PRIOMAP.to_vec())
    }

    fn of_class(id: u64, class: u32) -> Packet {
        Packet { id, bytes: 100, flow: 0, class, ecn: Ecn::NotCapable }
    }

    #[test]
    fn interactive_goes_before_best_effort_and_bulk_last() {
        let mut prio = three_bands(10);
        let mut drops = Vec::new();
        for (id, class) in [(0, 2), (1, 0), (2, 6)] {
            prio.enqueue(of_class(id, class), Nanos(0), &mut drops);
        }
        let order: Vec<u64> =
            (0..3).filter_map(|_| prio.dequeue(Nanos(0), &mut drops)).map(|packet| packet.id).collect();
        assert_eq!(order, [2, 1, 0]);
    }

    proptest! {
        #[test]
        fn packets_leave_once_and_a_band_never_before_a_higher_one_that_waits(
            classes in prop::collection::vec(0u32..20, 1..100),
        ) {
            let mut prio = three_bands(1000);
            let mut drops = Vec::new();
            for (id, class) in classes.iter().enumerate() {
                prio.enqueue(of_class(id as u64, *class), Nanos(0), &mut drops);
            }
            let bands: Vec<usize> = std::iter::from_fn(|| prio.dequeue(Nanos(0), &mut drops))
                .map(|packet| prio_band(packet.class))
                .collect();
            prop_assert!(bands.is_sorted());
            let arrivals: Vec<(u64, Packet)> =
                classes.iter().enumerate().map(|(id, class)| (3, of_class(id as u64, *class))).collect();
            conserves_packets(&mut three_bands(4), &arrivals);
        }
    }

    fn prio_band(class: u32) -> usize {
        DEFAULT_PRIOMAP.get(class as usize).copied().unwrap_or(2)
    }
}
