//! Echo times that can be computed by hand, through whole fabrics.

use virtlab_fabric::{Departure, Fabric, Frame, Layout, Mac, PortId, Queueing};
use virtlab_qdisc::Fifo;
use virtlab_wire::Nanos;

const A: Mac = Mac([2, 0, 0, 0, 0, 1]);
const B: Mac = Mac([2, 0, 0, 0, 0, 2]);

/// `h1.up` and `h2.up` with `switches` in line between them, 100 Mbit/s, a queue as long as a big datagram needs.
fn line_of(switches: usize) -> Layout {
    let mut stations = vec!["h1.up".to_owned()];
    for n in 1..=switches {
        stations.extend([format!("s{n}.p1"), format!("s{n}.p2")]);
    }
    stations.push("h2.up".into());
    let names: serde_json::Map<_, _> =
        (1..=switches).map(|n| (format!("s{n}"), serde_json::json!({"processing_ns": 0}))).collect();
    let links: serde_json::Map<_, _> = stations
        .chunks(2)
        .enumerate()
        .map(|(n, ends)| (format!("l{n}"), serde_json::json!({"ends": ends, "rate_bit_per_s": 100_000_000})))
        .collect();
    let layout = serde_json::json!({"ports": ["h1.up", "h2.up"], "switches": names, "links": links});
    serde_json::from_value(layout).unwrap()
}

fn frame(source: Mac, destination: Mac, ip_packet_bytes: u32, payload: u64) -> Frame<u64> {
    Frame {
        bytes: ip_packet_bytes + 14,
        source,
        destination,
        flow: 0,
        ecn: virtlab_qdisc::Ecn::NotCapable,
        headers: None,
        payload,
    }
}

fn fabric(layout: &Layout, closed_form: bool) -> Fabric<u64> {
    if closed_form {
        return Fabric::new(layout).unwrap();
    }
    Fabric::with_queueing(layout, |queue| {
        let (packets, bytes) = queue.limits();
        Queueing::Discipline(Box::new(Fifo::new(packets, bytes)))
    })
    .unwrap()
}

fn drain(fabric: &mut Fabric<u64>) -> Vec<Departure<u64>> {
    let mut departures = Vec::new();
    fabric.advance(Nanos(u64::MAX / 4), &mut departures);
    assert_eq!(fabric.inside(), 0);
    departures
}

/// Sends fragments of these sizes at once from h1, echoes them from h2 when the last is there; the time of it all.
fn echo(switches: usize, fragments: &[u32], closed_form: bool) -> u64 {
    let layout = line_of(switches);
    let start = 1_000_000;
    let one_way = |from: &str, source, destination, at: u64| {
        let mut fabric = fabric(&layout, closed_form);
        let port = fabric.port(from).unwrap();
        for (n, &bytes) in fragments.iter().enumerate() {
            fabric.arrive(port, frame(source, destination, bytes, n as u64), Nanos(at));
        }
        let departures = drain(&mut fabric);
        assert_eq!(departures.len(), fragments.len());
        assert!(departures.iter().map(|departure| departure.payload).eq(0..fragments.len() as u64));
        departures.last().unwrap().at.0
    };
    let there = one_way("h1.up", A, B, start);
    one_way("h2.up", B, A, there) - start
}

#[test]
fn an_echo_of_1500_bytes_takes_one_serialisation_per_line() {
    for closed_form in [true, false] {
        assert_eq!(echo(0, &[1500], closed_form), 2 * 122_080);
        assert_eq!(echo(1, &[1500], closed_form), 488_320);
        assert_eq!(echo(2, &[1500], closed_form), 732_480);
        assert_eq!(echo(3, &[1500], closed_form), 976_640);
    }
}

#[test]
fn a_ping_of_1500_payload_bytes_is_two_fragments() {
    assert_eq!(echo(1, &[1500, 48], true), 502_080);
    assert_eq!(echo(1, &[1500, 48], false), 502_080);
}

#[test]
fn a_ping_of_65000_payload_bytes_is_44_fragments_in_a_pipeline() {
    let mut fragments = vec![1500; 43];
    fragments.push(65_008 - 43 * 1480 + 20);
    assert_eq!(echo(1, &fragments, true), 11_051_840);
    assert_eq!(echo(1, &fragments, false), 11_051_840);
}

#[test]
fn a_64_byte_frame_takes_its_padded_size() {
    // 42 bytes as a packet socket sees them: padded to 64 with FCS, 8 of preamble.
    assert_eq!(echo(1, &[28], true), 4 * 5760);
}

#[test]
fn processing_and_propagation_add_to_each_hop_once() {
    let mut layout = line_of(2);
    layout.switches.get_mut("s1").unwrap().processing_ns = 1000;
    layout.switches.get_mut("s2").unwrap().processing_ns = 20_000;
    layout.links.get_mut("l1").unwrap().propagation_ns = 300_000;
    let mut fabric = fabric(&layout, true);
    let h1 = fabric.port("h1.up").unwrap();
    fabric.arrive(h1, frame(A, B, 1500, 0), Nanos(0));
    assert_eq!(drain(&mut fabric)[0].at, Nanos(3 * 122_080 + 321_000));
}

#[test]
fn a_busy_egress_makes_frames_of_two_hosts_wait_for_each_other() {
    let layout: Layout = serde_json::from_value(serde_json::json!({
        "ports": ["a", "b", "c"], "switches": {"s": {}},
        "links": {
            "la": {"ends": ["a", "s.1"], "rate_bit_per_s": 100_000_000},
            "lb": {"ends": ["b", "s.2"], "rate_bit_per_s": 100_000_000},
            "lc": {"ends": ["c", "s.3"], "rate_bit_per_s": 100_000_000},
        },
        "forwarding": {"s": {"02:00:00:00:00:02": "s.3"}},
    }))
    .unwrap();
    let mut fabric = fabric(&layout, true);
    let (a, b, c) = (fabric.port("a").unwrap(), fabric.port("b").unwrap(), fabric.port("c").unwrap());
    fabric.arrive(a, frame(A, B, 1500, 1), Nanos(0));
    fabric.arrive(b, frame(Mac([2, 0, 0, 0, 0, 3]), B, 1500, 2), Nanos(10));
    let departures = drain(&mut fabric);
    let times: Vec<(PortId, u64)> = departures.iter().map(|one| (one.port, one.at.0)).collect();
    assert_eq!(times, [(c, 2 * 122_080), (c, 122_080 + 123_040 + 122_080)]);
}

#[test]
fn an_unknown_station_is_flooded_and_a_known_one_is_not() {
    let layout: Layout = serde_json::from_value(serde_json::json!({
        "ports": ["a", "b", "c"], "switches": {"s": {}, "t": {}},
        "links": {
            "la": {"ends": ["a", "s.1"], "rate_bit_per_s": 100_000_000},
            "st": {"ends": ["s.2", "t.1"], "rate_bit_per_s": 100_000_000},
            "lb": {"ends": ["b", "t.2"], "rate_bit_per_s": 100_000_000},
            "lc": {"ends": ["c", "t.3"], "rate_bit_per_s": 100_000_000},
        },
    }))
    .unwrap();
    let mut fabric = fabric(&layout, true);
    let (a, b) = (fabric.port("a").unwrap(), fabric.port("b").unwrap());
    let mut departures = Vec::new();
    fabric.arrive(a, frame(A, B, 1500, 1), Nanos(0));
    fabric.advance(Nanos(1_000_000), &mut departures);
    assert_eq!(departures.len(), 2, "to b and c, not back to a");
    departures.clear();
    fabric.arrive(b, frame(B, A, 1500, 2), Nanos(1_000_000));
    fabric.advance(Nanos(2_000_000), &mut departures);
    assert_eq!(departures.iter().map(|one| one.port).collect::<Vec<_>>(), [a], "a was learned on the way");
    departures.clear();
    fabric.arrive(a, frame(A, Mac([1, 0x80, 0xc2, 0, 0, 0]), 100, 3), Nanos(2_000_000));
    fabric.arrive(a, frame(A, A, 100, 4), Nanos(2_000_000));
    fabric.advance(Nanos(3_000_000), &mut departures);
    assert!(departures.is_empty());
    let (_, s) = fabric.switches().find(|(name, _)| *name == "s").unwrap();
    assert_eq!((s.filtered_packets, s.flooded_packets, fabric.inside()), (2, 1, 0));
    fabric.arrive(b, frame(B, Mac::BROADCAST, 100, 5), Nanos(3_000_000));
    fabric.advance(Nanos(4_000_000), &mut departures);
    assert_eq!(departures.len(), 2);
}

#[test]
fn the_departure_bound_sleeps_through_inner_events_and_never_past_a_departure() {
    let layout = line_of(3);
    let mut fabric = fabric(&layout, true);
    let port = fabric.port("h1.up").unwrap();
    fabric.arrive(port, frame(A, B, 1500, 0), Nanos(0));
    assert_eq!(fabric.next_event(), Some(Nanos(122_080)));
    assert_eq!(fabric.next_departure_bound(), Some(Nanos(4 * 122_080)));
}
