//! Frames whose way is certain as they come in leave exactly as when every hop is an event, and are counted when they
//! come.

use proptest::prelude::*;
use std::collections::BTreeMap;
use virtlab_fabric::{
    Fabric, Frame, Layout, LineCounters, LinkLayout, Mac, PortId, QueueLayout, QueuesLayout, SwitchLayout,
    Train,
};
use virtlab_qdisc::Ecn;
use virtlab_wire::Nanos;

const A: Mac = Mac([2, 0, 0, 0, 0, 1]);
const B: Mac = Mac([2, 0, 0, 0, 0, 2]);
const STRANGER: Mac = Mac([2, 0, 0, 0, 0, 3]);

/// a - s1 - s2 - b, the line between the switches at its own rate.
fn layout(inner_rate: u64, limit: u64) -> Layout {
    let queue = || QueueLayout { limit_packets: Some(limit), ..QueueLayout::default() };
    let link = |ends: [&str; 2], rate_bit_per_s| LinkLayout {
        cuts: false,
        ends: ends.map(str::to_owned),
        rate_bit_per_s,
        propagation_ns: 70,
        realise: None,
        queue: QueuesLayout { ab: queue(), ba: queue() },
    };
    let ways = |to_a: &str, to_b: &str| BTreeMap::from([(A, to_a.to_owned()), (B, to_b.to_owned())]);
    Layout {
        ports: ["a", "b"].map(str::to_owned).into(),
        switches: ["s1", "s2"].map(|name| (name.to_owned(), SwitchLayout { processing_ns: 300 })).into(),
        links: BTreeMap::from([
            ("l1".to_owned(), link(["a", "s1.p1"], 100_000_000)),
            ("l2".to_owned(), link(["s1.p2", "s2.p1"], inner_rate)),
            ("l3".to_owned(), link(["s2.p2", "b"], 100_000_000)),
        ]),
        forwarding: BTreeMap::from([
            ("s1".to_owned(), ways("s1.p1", "s1.p2")),
            ("s2".to_owned(), ways("s2.p1", "s2.p2")),
        ]),
    }
}

fn frame(bytes: u32, source: Mac) -> Frame<usize> {
    Frame { bytes, source, destination: B, flow: 0, ecn: Ecn::NotCapable, headers: None, payload: 0 }
}

fn counters(fabric: &Fabric<usize>, now: Nanos) -> Vec<(LineCounters, u64)> {
    fabric.lines(now).map(|line| (line.counters.clone(), line.backlog.packets)).collect()
}

proptest! {
    #[test]
    fn a_certain_way_is_what_events_make_of_it(
        gaps in prop::collection::vec((0u64..200_000, 46u32..1515), 1..80),
        inner_rate in prop::sample::select(vec![50_000_000u64, 100_000_000, 1_000_000_000]),
        limit in 1u64..20,
        read_at in 0u64..8_000_000,
    ) {
        let layout = layout(inner_rate, limit);
        let mut certain: Fabric<usize> = Fabric::new(&layout).unwrap();
        certain.foretell();
        let [a, b] = ["a", "b"].map(|name| certain.port(name).unwrap());
        let passage = certain.passage(a, A, B).unwrap();
        prop_assert_eq!(passage.port, b);
        let mut played: Fabric<usize> = Fabric::new(&layout).unwrap();
        let (mut at, mut foretold, mut departures, mut read) = (0, Vec::new(), Vec::new(), false);
        for (gap, bytes) in gaps {
            at += gap;
            if at > read_at && !read {
                read = true;
                played.advance(Nanos(read_at), &mut departures);
                certain.settle_counters(Nanos(read_at));
                prop_assert_eq!(counters(&certain, Nanos(read_at)), counters(&played, Nanos(read_at)));
            }
            foretold.extend(certain.pass(&passage, bytes, Nanos(at)));
            played.advance(Nanos(at), &mut departures);
            played.arrive(a, frame(bytes, A), Nanos(at));
        }
        let end = Nanos(1 << 40);
        played.advance(end, &mut departures);
        certain.settle_counters(end);
        prop_assert_eq!(foretold, departures.iter().map(|each| each.at).collect::<Vec<_>>());
        prop_assert_eq!(counters(&certain, end), counters(&played, end));
    }
}

proptest! {
    #[test]
    fn a_train_is_so_many_frames(
        // Steps of full-length frames, of others, and none: of such a train all come at once.
        trains in prop::collection::vec(
            (0u64..400_000, prop::sample::select(vec![0u64, 40_000, 123_040, 130_000]),
                prop::sample::select(vec![100u32, 1000, 1514]), 1u32..30),
            1..12,
        ),
        inner_rate in prop::sample::select(vec![50_000_000u64, 100_000_000, 1_000_000_000]),
        limit in prop::sample::select(vec![1u64, 5, 15, 100]),
        read_at in 0u64..8_000_000,
    ) {
        let layout = layout(inner_rate, limit);
        let [mut together, mut apart]: [Fabric<usize>; 2] = [(), ()].map(|()| {
            let mut fabric = Fabric::new(&layout).unwrap();
            fabric.foretell();
            fabric
        });
        let passage = together.passage(PortId(0), A, B).unwrap();
        let (mut at, mut left, mut read) = (0, Vec::new(), false);
        for (gap, step, bytes, count) in trains {
            let train = Train { at: Nanos(at + gap), step: Nanos(step), count };
            at = train.last().0;
            together.pass_train(&passage, bytes, train, &mut left);
            let told: Vec<Nanos> =
                left.iter().flat_map(|train| (0..train.count).map(|number| train.nth(number))).collect();
            let each: Vec<Nanos> =
                (0..count).filter_map(|number| apart.pass(&passage, bytes, train.nth(number))).collect();
            prop_assert_eq!(told, each);
            if at > read_at && !read {
                read = true;
                for fabric in [&mut together, &mut apart] {
                    fabric.settle_counters(Nanos(at));
                }
                prop_assert_eq!(counters(&together, Nanos(at)), counters(&apart, Nanos(at)));
            }
        }
        for now in [Nanos(at), Nanos(at + 500_000), Nanos(1 << 40)] {
            for fabric in [&mut together, &mut apart] {
                fabric.settle_counters(now);
            }
            prop_assert_eq!(counters(&together, now), counters(&apart, now));
        }
    }
}

#[test]
fn addresses_that_a_switch_does_not_know_have_no_certain_way_and_are_noticed() {
    let mut fabric: Fabric<usize> = Fabric::new(&layout(100_000_000, 9)).unwrap();
    assert_eq!(fabric.passage(PortId(0), A, B), None, "a fabric that does not foretell");
    fabric.foretell();
    assert_eq!(fabric.passage(PortId(0), A, STRANGER), None);
    fabric.arrive(PortId(0), frame(100, A), Nanos(0));
    assert_eq!((fabric.strays(), fabric.next_event(), fabric.has_foretold()), (false, None, true));
    fabric.arrive(PortId(0), frame(100, STRANGER), Nanos(10));
    assert!(fabric.strays() && fabric.next_event().is_some());
}
