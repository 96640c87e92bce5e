//! Frames that meet others without an event leave when they would with one, and are counted alike.

use proptest::prelude::*;
use virtlab_fabric::{Fabric, Foretold, Frame, Layout, Mac, PortId};
use virtlab_qdisc::Ecn;
use virtlab_wire::Nanos;

const HOSTS: u8 = 4;

fn mac(host: u8) -> Mac {
    Mac([2, 0, 0, 0, 0, host])
}

/// Hosts at one switch that knows them; lines of unlike rates, short queues, and one host behind a discipline.
fn star(asked: bool) -> Layout {
    let links: serde_json::Map<_, _> = (0..HOSTS)
        .map(|host| {
            let kind = if asked && host == 3 { "codel" } else { "fifo" };
            let link = serde_json::json!({
                "ends": [format!("h{host}"), format!("s.p{host}")],
                "rate_bit_per_s": if host == 1 { 1_000_000_000 } else { 100_000_000 },
                "propagation_ns": u64::from(host) * 100,
                "queue": {"ab": {"kind": "fifo", "limit_packets": 5}, "ba": {"kind": kind, "limit_packets": 3}},
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

/// A frame that comes at an instant: whence, whither, how long, and whether its receiver only counts it.
#[derive(Clone, Debug)]
struct Sent {
    at: u64,
    from: u8,
    to: u8,
    bytes: u32,
    counted: bool,
}

/// When frames leave, by number, and all counters at the end; and how many had no event where they met.
fn play(asked: bool, sent: &[Sent], without_events: bool) -> (Vec<(usize, usize, u64)>, String, usize) {
    let mut fabric: Fabric<usize> = Fabric::new(&star(asked)).unwrap();
    fabric.foretell();
    let (mut left, mut met) = (Vec::new(), 0);
    let look = |fabric: &mut Fabric<usize>, left: &mut Vec<(usize, usize, u64)>| {
        let mut told: Vec<Foretold> = Vec::new();
        fabric.foretold(&mut told);
        for one in told {
            let number = if one.met { fabric.met(&one).1 } else { fabric.take(&one).payload };
            left.push((one.port.0, number, one.at.0));
        }
        fabric.forget_met();
    };
    let until = |fabric: &mut Fabric<usize>, now: u64, left: &mut Vec<(usize, usize, u64)>| {
        while let Some(at) = fabric.next_event().filter(|at| at.0 <= now) {
            fabric.advance(at, &mut Vec::new());
            look(fabric, left);
        }
    };
    for (number, frame) in sent.iter().enumerate() {
        until(&mut fabric, frame.at, &mut left);
        let (port, at) = (fabric.port(&format!("h{}", frame.from)).unwrap(), Nanos(frame.at));
        let way =
            fabric.meeting(port, mac(frame.from), mac(frame.to)).filter(|_| without_events && frame.counted);
        if let Some(way) = way {
            met += 1;
            if fabric.meet(&way, frame.bytes, at, number) {
                fabric.gather(way.port, at);
                look(&mut fabric, &mut left);
            }
            continue;
        }
        let (source, destination) = (mac(frame.from), mac(frame.to));
        let bytes = frame.bytes;
        let frame = Frame {
            bytes,
            source,
            destination,
            flow: 0,
            ecn: Ecn::NotCapable,
            headers: None,
            payload: number,
        };
        fabric.arrive(port, frame, at);
        look(&mut fabric, &mut left);
    }
    let end = 1_000_000_000;
    until(&mut fabric, end, &mut left);
    for port in 0..usize::from(HOSTS) {
        fabric.gather(PortId(port), Nanos(end));
        look(&mut fabric, &mut left);
    }
    assert_eq!(fabric.last_coming(), None);
    // By port in order of time; among ports no order is promised.
    left.sort_by_key(|(port, _, _)| *port);
    let in_order = |pair: &[(usize, usize, u64)]| pair[0].0 != pair[1].0 || pair[0].2 <= pair[1].2;
    assert!(left.windows(2).all(in_order), "a port's departures never go back");
    let counters = format!("{:?}", fabric.lines(Nanos(end)).collect::<Vec<_>>());
    (left, counters, met)
}

fn sent() -> impl Strategy<Value = Vec<Sent>> {
    // Gaps of whole slots, so that frames of equal length come to the switch at one instant.
    let one = (0u64..4, 0..HOSTS, 0..HOSTS, prop::sample::select(vec![60u32, 1000, 1514]), any::<bool>());
    prop::collection::vec(one, 1..120).prop_map(|all| {
        let mut at = 0;
        all.into_iter()
            .map(|(slots, from, to, bytes, counted)| {
                at += slots * 20_000;
                Sent { at, from, to, bytes, counted }
            })
            .collect()
    })
}

proptest! {
    #[test]
    fn frames_that_meet_without_events_leave_when_they_would_with_them(sent in sent(), asked: bool) {
        let (with, without) = (play(asked, &sent, false), play(asked, &sent, true));
        prop_assert_eq!(with.2, 0);
        prop_assert_eq!(with.0, without.0);
        prop_assert_eq!(with.1, without.1);
    }
}

#[test]
fn frames_to_whom_nobody_looks_have_no_event() {
    let sent: Vec<Sent> = (0..100)
        .map(|number| Sent {
            at: number * 150_000,
            from: (number % 3) as u8 + 1,
            to: 0,
            bytes: 1514,
            counted: true,
        })
        .collect();
    let (left, _, met) = play(false, &sent, true);
    assert_eq!((left.len(), met), (100, 100));
}

#[test]
fn a_way_that_may_change_is_no_meeting() {
    let mut fabric: Fabric<()> = Fabric::new(&star(true)).unwrap();
    let port = |fabric: &Fabric<()>, host: u8| fabric.port(&format!("h{host}")).unwrap();
    let here = port(&fabric, 0);
    assert_eq!(fabric.meeting(here, mac(0), mac(1)), None, "departures are not foretold");
    fabric.foretell();
    assert_eq!(fabric.meeting(here, mac(0), mac(1)).unwrap().port, port(&fabric, 1));
    assert_eq!(fabric.meeting(here, mac(0), mac(3)), None, "a discipline is asked");
    assert_eq!(fabric.meeting(here, mac(0), mac(9)), None, "nobody is known there");
    assert_eq!(fabric.meeting(here, mac(9), mac(1)), None, "the switch learns who sends");
    assert_eq!(fabric.meeting(here, mac(0), mac(0)), None, "it would go back");
}
