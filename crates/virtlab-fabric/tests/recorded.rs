//! Arrivals that a soft switch recorded on real packets give the departures that it computed then, to the nanosecond.

use serde::Deserialize;
use virtlab_fabric::{Fabric, Frame, Layout, Mac, PortId};
use virtlab_qdisc::Ecn;
use virtlab_wire::Nanos;

#[derive(Deserialize)]
struct Recorded {
    layout: Layout,
    ports: Vec<String>,
    /// Port, time, captured bytes, source, destination.
    arrivals: Vec<(usize, u64, u32, Mac, Mac)>,
    /// Port, time, captured bytes, arrival.
    departures: Vec<(usize, u64, u32, u64)>,
}

#[test]
fn recorded_arrivals_give_the_computed_departures_to_the_nanosecond() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/switch/recorded.json");
    let mut recorded: Recorded = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let mut fabric = Fabric::new(&recorded.layout).unwrap();
    assert_eq!(fabric.ports(), recorded.ports);
    recorded.arrivals.sort_by_key(|arrival| arrival.1);
    let mut departures = Vec::new();
    for (port, at, bytes, source, destination) in recorded.arrivals {
        fabric.advance(Nanos(at), &mut departures);
        let frame =
            Frame { bytes, source, destination, flow: 0, ecn: Ecn::NotCapable, headers: None, payload: () };
        fabric.arrive(PortId(port), frame, Nanos(at));
    }
    fabric.advance(Nanos(u64::MAX / 4), &mut departures);
    let computed: Vec<(usize, u64, u32, u64)> =
        departures.iter().map(|one| (one.port.0, one.at.0, one.bytes, one.arrived.0)).collect();
    assert_eq!(computed, recorded.departures);
    assert_eq!((fabric.inside(), fabric.late_arrivals()), (0, 0));
    assert!(fabric.lines(Nanos(0)).any(|line| line.counters.drops > 0), "the recording holds a full queue");
}
