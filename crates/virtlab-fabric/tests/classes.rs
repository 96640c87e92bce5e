//! Classes in front of a line: frames leave by themselves, in the order of their classes, each counted where it
//! belongs.

use virtlab_fabric::{Fabric, Frame, Layout, Mac};
use virtlab_qdisc::{Ecn, Headers};
use virtlab_wire::Nanos;

const A: Mac = Mac([2, 0, 0, 0, 0, 1]);
const B: Mac = Mac([2, 0, 0, 0, 0, 2]);

fn fabric(kind: &str, classes: serde_json::Value) -> Fabric<u64> {
    let queue = serde_json::json!({
        "kind": kind, "classes": classes, "match": [{"class": "voice", "dscp": [46]}], "default": "rest",
    });
    let layout: Layout = serde_json::from_value(serde_json::json!({
        "ports": ["a", "b"],
        "links": {"l": {"ends": ["a", "b"], "rate_bit_per_s": 100_000_000, "queue": {"ab": queue}}},
    }))
    .unwrap();
    Fabric::new(&layout).unwrap()
}

fn frame(number: u64, dscp: u8) -> Frame<u64> {
    Frame {
        bytes: 1514,
        source: A,
        destination: B,
        flow: number,
        ecn: Ecn::NotCapable,
        headers: Some(Box::new(Headers { tos: Some(dscp << 2), ..Headers::default() })),
        payload: number,
    }
}

#[test]
fn frames_leave_their_classes_though_no_other_frame_comes() {
    let plain = serde_json::json!({"voice": {}, "rest": {}});
    let rated = serde_json::json!({
        "voice": {"parameters": {"rate_bit_per_s": 90_000_000}}, "rest": {"parameters": {"rate_bit_per_s": 90_000_000}},
    });
    let shared = serde_json::json!({
        "voice": {"parameters": {"ls_m2_bit_per_s": 1_000_000}}, "rest": {"parameters": {"ls_m2_bit_per_s": 1_000_000}},
    });
    for (kind, classes) in [("prio", &plain), ("drr", &plain), ("htb", &rated), ("hfsc", &shared)] {
        let mut fabric = fabric(kind, classes.clone());
        let port = fabric.port("a").unwrap();
        for number in 0..10 {
            fabric.arrive(port, frame(number, if number % 2 == 0 { 46 } else { 0 }), Nanos(0));
        }
        let mut departures = Vec::new();
        while let Some(at) = fabric.next_event() {
            fabric.advance(at, &mut departures);
        }
        assert_eq!(departures.len(), 10, "{kind}");
        assert!(departures.windows(2).all(|pair| pair[1].at.0 - pair[0].at.0 >= 123_040), "{kind}");
        let line = fabric.lines(Nanos(0)).next().unwrap();
        let counted: Vec<(u64, u64)> =
            line.classes.iter().map(|(_, class)| (class.packets, class.backlog_packets)).collect();
        assert_eq!(counted, [(5, 0), (5, 0)], "{kind}");
    }
}

#[test]
fn strict_priority_lets_one_frame_of_another_class_go_first_at_most() {
    let classes =
        serde_json::json!({"voice": {"parameters": {"prio": 1}}, "rest": {"parameters": {"prio": 2}}});
    let mut fabric = fabric("prio", classes);
    let port = fabric.port("a").unwrap();
    for number in 0..5 {
        fabric.arrive(port, frame(number, 0), Nanos(0));
    }
    fabric.arrive(port, frame(9, 46), Nanos(10));
    let mut departures = Vec::new();
    fabric.advance(Nanos(u64::MAX / 4), &mut departures);
    let order: Vec<u64> = departures.iter().map(|one| one.payload).collect();
    assert_eq!(order, [0, 9, 1, 2, 3, 4]);
}
