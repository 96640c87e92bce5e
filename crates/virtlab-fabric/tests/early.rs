//! Frames that are handed over before they come leave when they would if they were handed over as they come, and are
//! counted when they come.

use proptest::prelude::*;
use virtlab_fabric::{Fabric, Foretold, Frame, Layout, Mac};
use virtlab_qdisc::Ecn;
use virtlab_wire::Nanos;

const HOSTS: u8 = 3;

fn mac(host: u8) -> Mac {
    Mac([2, 0, 0, 0, 0, host])
}

/// Hosts at one switch that knows them, with short queues; one host is behind a discipline, and one far away.
fn star() -> Layout {
    let links: serde_json::Map<_, _> = (0..HOSTS)
        .map(|host| {
            let kind = if host == 2 { "codel" } else { "fifo" };
            let link = serde_json::json!({
                "ends": [format!("h{host}"), format!("s.p{host}")],
                "rate_bit_per_s": if host == 1 { 1_000_000_000 } else { 100_000_000 },
                "propagation_ns": u64::from(host) * 100_000,
                "queue": {"ab": {"kind": kind, "limit_packets": 4}, "ba": {"kind": "fifo", "limit_packets": 3}},
            });
            (format!("l{host}"), link)
        })
        .collect();
    let table: serde_json::Map<_, _> =
        (0..HOSTS).map(|host| (String::from(mac(host)), format!("s.p{host}").into())).collect();
    let ports: Vec<String> = (0..HOSTS).map(|host| format!("h{host}")).collect();
    let layout = serde_json::json!({
        "ports": ports, "switches": {"s": {"processing_ns": 300}}, "links": links, "forwarding": {"s": table},
    });
    serde_json::from_value(layout).unwrap()
}

/// A frame that comes at an instant: whence, whither, and how long.
#[derive(Clone, Debug)]
struct Sent {
    at: u64,
    from: u8,
    to: u8,
    bytes: u32,
}

/// When frames leave, by number, and all counters at each instant at which a frame comes. Each is handed over so much
/// before it comes, at the instant of another.
fn play(sent: &[Sent], early_ns: u64) -> (Vec<(usize, usize, u64)>, Vec<String>) {
    let mut fabric: Fabric<usize> = Fabric::new(&star()).unwrap();
    fabric.foretell();
    let (mut left, mut counters, mut given) = (Vec::new(), Vec::new(), vec![false; sent.len()]);
    let look = |fabric: &mut Fabric<usize>, left: &mut Vec<(usize, usize, u64)>| {
        let mut told: Vec<Foretold> = Vec::new();
        fabric.foretold(&mut told);
        left.extend(told.iter().map(|one| (one.port.0, fabric.take(one).payload, one.at.0)));
    };
    for now in sent.iter().map(|frame| frame.at).chain([1_000_000_000]) {
        while let Some(at) = fabric.next_event().filter(|at| at.0 <= now) {
            fabric.advance(at, &mut Vec::new());
            look(&mut fabric, &mut left);
        }
        for (number, one) in sent.iter().enumerate().filter(|(_, one)| one.at <= now + early_ns) {
            let port = fabric.port(&format!("h{}", one.from)).unwrap();
            if given[number] || (one.at > now && !fabric.takes_early(port)) {
                continue;
            }
            given[number] = true;
            let (source, destination) = (mac(one.from), mac(one.to));
            let (bytes, flow, payload) = (one.bytes, 0, number);
            let frame =
                Frame { bytes, source, destination, flow, ecn: Ecn::NotCapable, headers: None, payload };
            match one.at > now {
                true => fabric.arrive_early(port, frame, Nanos(now), Nanos(one.at)),
                false => fabric.arrive(port, frame, Nanos(now)),
            }
            look(&mut fabric, &mut left);
        }
        fabric.settle_counters(Nanos(now));
        counters.push(format!("{:?}", fabric.lines(Nanos(now)).collect::<Vec<_>>()));
    }
    left.sort_by_key(|(port, _, _)| *port);
    (left, counters)
}

proptest! {
    #[test]
    fn a_frame_that_is_handed_over_early_fares_as_one_that_is_not(
        sent in prop::collection::vec(
            (0u64..4, 0..HOSTS, 0..HOSTS, prop::sample::select(vec![60u32, 1000, 1514])), 1..150),
        early_ns in prop::sample::select(vec![1u64, 30_000, 500_000, 1_000_000_000]),
    ) {
        let mut at = 0;
        let sent: Vec<Sent> = sent.into_iter().map(|(slots, from, to, bytes)| {
            at += slots * 15_000;
            Sent { at, from, to, bytes }
        }).collect();
        prop_assert_eq!(play(&sent, 0), play(&sent, early_ns));
    }
}
