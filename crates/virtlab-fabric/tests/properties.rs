//! What holds in any loop-free fabric, whatever comes in.

use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use virtlab_fabric::{
    Departure, Fabric, Frame, Layout, LinkLayout, Mac, PortId, Queueing, QueuesLayout, SwitchLayout,
};
use virtlab_qdisc::{Ecn, Fifo};
use virtlab_wire::Nanos;

const END: Nanos = Nanos(u64::MAX / 4);

/// One frame: how long after the one before, which host sends, to which host (itself: to all), captured bytes.
type Sent = (u64, usize, usize, u32);

/// A tree of switches with hosts on them: parent of each switch but the first, switch of each host, rates, delays.
#[derive(Clone, Debug)]
struct Tree {
    parents: Vec<usize>,
    hosts: Vec<usize>,
    rates: Vec<u64>,
    delays: Vec<u64>,
    limit_packets: u64,
}

fn trees() -> impl Strategy<Value = Tree> {
    (1usize..5, 2usize..6).prop_flat_map(|(switches, hosts)| {
        let rates = prop::sample::select(vec![10_000_000u64, 100_000_000, 1_000_000_000, 777_777_777]);
        (
            prop::collection::vec(0usize..16, switches - 1),
            prop::collection::vec(0..switches, hosts),
            prop::collection::vec(rates, switches - 1 + hosts),
            prop::collection::vec(0u64..50_000, switches - 1 + hosts),
            1u64..20,
        )
            .prop_map(|(parents, hosts, rates, delays, limit_packets)| Tree {
                parents,
                hosts,
                rates,
                delays,
                limit_packets,
            })
    })
}

impl Tree {
    fn layout(&self) -> Layout {
        let mut layout = Layout::default();
        let mut ends = Vec::new();
        layout.switches.insert("s0".into(), SwitchLayout::default());
        for (n, parent) in self.parents.iter().enumerate() {
            let child = n + 1;
            let processing_ns = self.delays[n] / 3;
            layout.switches.insert(format!("s{child}"), SwitchLayout { processing_ns });
            ends.push([format!("s{}.to{child}", parent % child), format!("s{child}.up")]);
        }
        for (n, switch) in self.hosts.iter().enumerate() {
            layout.ports.insert(format!("h{n}"));
            ends.push([format!("h{n}"), format!("s{switch}.h{n}")]);
        }
        for (n, ends) in ends.into_iter().enumerate() {
            let mut queue = QueuesLayout::default();
            queue.ab.limit_packets = Some(self.limit_packets);
            queue.ba.limit_packets = Some(self.limit_packets);
            let (rate_bit_per_s, propagation_ns) = (self.rates[n], self.delays[n]);
            let link = LinkLayout { ends, rate_bit_per_s, propagation_ns, cuts: false, realise: None, queue };
            layout.links.insert(format!("l{n}"), link);
        }
        layout
    }
}

fn mac(host: usize) -> Mac {
    Mac([2, 0, 0, 0, 0, host as u8])
}

/// Plays all frames; departures in a canonical order, and the fabric at its end.
fn play(mut fabric: Fabric<usize>, sent: &[Sent], hosts: usize) -> (Vec<(u64, usize, usize)>, Fabric<usize>) {
    let (mut now, mut departures) = (0, Vec::new());
    for (n, &(gap, from, to, bytes)) in sent.iter().enumerate() {
        now += gap;
        let (from, to) = (from % hosts, to % hosts);
        let destination = if from == to { Mac::BROADCAST } else { mac(to) };
        let frame = Frame {
            bytes,
            source: mac(from),
            destination,
            flow: 0,
            ecn: Ecn::NotCapable,
            headers: None,
            payload: n,
        };
        fabric.advance(Nanos(now), &mut departures);
        fabric.arrive(PortId(from), frame, Nanos(now));
    }
    drain_by_bounds(&mut fabric, Nanos(now), &mut departures);
    let mut out: Vec<_> = departures.iter().map(|one| (one.at.0, one.port.0, one.payload)).collect();
    out.sort_unstable();
    (out, fabric)
}

/// Advances from bound to bound as one who plays in real time does: nothing may leave before the bound.
fn drain_by_bounds(fabric: &mut Fabric<usize>, from: Nanos, departures: &mut Vec<Departure<usize>>) {
    let mut now = from;
    while let Some(bound) = fabric.next_departure_bound() {
        let before = departures.len();
        fabric.advance(Nanos(bound.0.saturating_sub(1)).max(now), departures);
        if bound > now {
            assert!(departures[before..].iter().all(|one| one.at <= now), "a frame left before the bound");
        }
        now = bound.max(now);
        fabric.advance(now, departures);
    }
    fabric.advance(END, departures);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn frames_reach_each_port_once_and_never_their_own(
        tree in trees(),
        sent in prop::collection::vec((0u64..200_000, 0usize..6, 0usize..6, 14u32..1600), 1..120),
    ) {
        let hosts = tree.hosts.len();
        let (departures, fabric) = play(Fabric::new(&tree.layout()).unwrap(), &sent, hosts);
        prop_assert_eq!(fabric.inside(), 0);
        prop_assert_eq!(fabric.late_arrivals(), 0);
        let mut seen = BTreeSet::new();
        for &(_, port, payload) in &departures {
            prop_assert!(port != sent[payload].1 % hosts);
            prop_assert!(seen.insert((port, payload)));
        }
        let drops: u64 = fabric.lines(END).map(|line| line.counters.drops).sum();
        if drops == 0 {
            for (n, &(_, from, to, _)) in sent.iter().enumerate() {
                let (from, to) = (from % hosts, to % hosts);
                let reached = departures.iter().filter(|one| one.2 == n).count();
                let least = if from == to { hosts - 1 } else { 1 };
                prop_assert!(reached >= least);
                prop_assert!(from == to || departures.iter().any(|one| one.2 == n && one.1 == to));
            }
        }
    }

    #[test]
    fn frames_between_two_hosts_stay_in_order(
        tree in trees(),
        sent in prop::collection::vec((0u64..200_000, 0usize..6, 0usize..6, 14u32..1600), 1..120),
    ) {
        let hosts = tree.hosts.len();
        let (departures, _) = play(Fabric::new(&tree.layout()).unwrap(), &sent, hosts);
        let mut last = BTreeMap::new();
        for &(_, port, payload) in &departures {
            if let Some(before) = last.insert((sent[payload].1 % hosts, port), payload) {
                prop_assert!(before < payload);
            }
        }
    }

    #[test]
    fn closed_form_fifos_equal_fifos_asked_frame_by_frame(
        tree in trees(),
        sent in prop::collection::vec((0u64..100_000, 0usize..6, 0usize..6, 14u32..1600), 1..120),
    ) {
        let (layout, hosts) = (tree.layout(), tree.hosts.len());
        let asked = Fabric::with_queueing(&layout, |queue| {
            let (packets, bytes) = queue.limits();
            Queueing::Discipline(Box::new(Fifo::new(packets, bytes)))
        })
        .unwrap();
        let (left, closed) = play(Fabric::new(&layout).unwrap(), &sent, hosts);
        let (right, asked) = play(asked, &sent, hosts);
        prop_assert_eq!(left, right);
        for (one, other) in closed.lines(END).zip(asked.lines(END)) {
            prop_assert_eq!(one.counters, other.counters);
        }
    }
}
