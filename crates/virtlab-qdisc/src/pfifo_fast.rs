//! `pfifo_fast`: three bands in strict priority, chosen by the type of service; each band a FIFO of its own.
//!
//! Source: Linux `net/sched/sch_generic.c` (bands, and the fixed map of sixteen priorities onto them) and
//! `net/ipv4/route.c` (`ip_tos2prio`, which gives an IPv4 packet its priority from four bits of its TOS octet). The
//! limit is that of one band, as the kernel gives each band the interface's whole `txqueuelen`. Packets that are no
//! IPv4 have priority 0. The kernel has these priorities only for packets of its own IP stack; here every frame is
//! looked at.

use crate::build::Declaration;
use crate::fifo::{PORT_PACKETS, QUEUE_PACKETS};
use crate::prio::DEFAULT_PRIOMAP;
use crate::{Classifier, Fifo, Headers, Prio, Qdisc};

/// Names of the bands, the first is served first.
pub const BANDS: [&str; 3] = ["band0", "band1", "band2"];

/// Priority of each value of the four TOS bits: best effort 0, bulk 2, interactive bulk 4, interactive 6.
const PRIORITY_OF_TOS: [usize; 16] = [0, 0, 0, 0, 2, 2, 2, 2, 6, 6, 6, 6, 4, 4, 4, 4];

/// The band of a packet by its TOS octet; `None` for what is no IPv4.
#[must_use]
pub fn band(tos: Option<u8>) -> usize {
    DEFAULT_PRIOMAP[tos.map_or(0, |tos| PRIORITY_OF_TOS[usize::from(tos >> 1 & 15)])]
}

/// The band of a frame.
pub(crate) fn band_of(headers: &Headers) -> usize {
    band(headers.tos.filter(|_| headers.source.is_some_and(|source| source.is_ipv4())))
}

/// Empty bands of `limit_packets` each; the class of a packet is its band.
#[must_use]
pub fn pfifo_fast(limit_packets: u64) -> Prio {
    let bands = BANDS.iter().map(|_| Box::new(Fifo::new(Some(limit_packets), None)) as Box<dyn Qdisc + Send>);
    Prio::new(bands.collect(), vec![0, 1, 2])
}

pub(crate) const DECLARATION: Declaration = Declaration {
    port_limits: (Some(PORT_PACKETS), None),
    plain: Some(|given| Ok(Box::new(pfifo_fast(given.limit_packets.unwrap_or(QUEUE_PACKETS))))),
    bands: Some((&BANDS, Classifier::bands)),
    ..Declaration::of("pfifo_fast")
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::conserves_packets;
    use crate::{DropReason, Ecn, Packet};
    use proptest::prelude::*;
    use virtlab_wire::Nanos;

    fn in_band(id: u64, band: u32) -> Packet {
        Packet { id, bytes: 100, flow: 0, class: band, ecn: Ecn::NotCapable }
    }

    #[test]
    fn the_map_is_that_of_the_manual_page() {
        // tc-prio(8) and tc-pfifo_fast(8): TOS 0x0 to 0x1e in steps of two, and the band of each.
        let published = [1, 1, 1, 1, 2, 2, 2, 2, 0, 0, 0, 0, 1, 1, 1, 1];
        let bands: Vec<usize> = (0u8..16).map(|bits| band(Some(bits << 1))).collect();
        assert_eq!(bands, published);
    }

    #[test]
    fn low_delay_goes_first_and_expedited_forwarding_does_not() {
        assert_eq!(band(Some(0x10)), 0);
        assert_eq!(band(Some(0x08)), 2);
        assert_eq!(band(Some(46 << 2)), 1, "EF's four TOS bits read as interactive bulk");
        assert_eq!(band(None), 1);
    }

    #[test]
    fn every_band_has_the_whole_limit() {
        let (mut made, mut drops) = (pfifo_fast(2), Vec::new());
        for id in 0..9 {
            made.enqueue(in_band(id, id as u32 % 3), Nanos(0), &mut drops);
        }
        assert_eq!(made.backlog().packets, 6);
        assert_eq!(drops.iter().map(|dropped| dropped.packet.id).collect::<Vec<_>>(), [6, 7, 8]);
        assert!(drops.iter().all(|dropped| dropped.reason == DropReason::PacketLimit));
    }

    proptest! {
        #[test]
        fn bands_go_in_order_and_each_first_in_first_out(
            arrivals in prop::collection::vec((0u64..2, 0u32..3), 1..200), limit in 1u64..20,
        ) {
            let packets: Vec<(u64, Packet)> = arrivals
                .iter().enumerate().map(|(id, &(gap, band))| (gap, in_band(id as u64, band))).collect();
            let sent = conserves_packets(&mut pfifo_fast(limit), &packets);
            for band in 0..3 {
                let ids: Vec<u64> =
                    sent.iter().filter(|(_, packet)| packet.class == band).map(|(_, packet)| packet.id).collect();
                prop_assert!(ids.is_sorted());
            }
        }
    }
}
