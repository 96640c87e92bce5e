//! Arrivals that a soft switch recorded on real packets give the departures that it computed then, to the nanosecond:
//! for every discipline, with the classes, flows and marks that it read from the frames themselves, whether the machine
//! is asked event by event, as a simulator does, or now and then, as a process that sleeps does.

use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::PathBuf;
use virtlab_fabric::{Departure, Fabric, Frame, Layout, Mac, PortId};
use virtlab_qdisc::Ecn;
use virtlab_wire::Nanos;

#[derive(Deserialize)]
struct Recorded {
    layout: Layout,
    ports: Vec<String>,
    /// Port, time, captured bytes, source, destination, and the frame's first bytes.
    arrivals: Vec<Value>,
    /// Port, time, captured bytes, arrival, whether it was marked.
    departures: Vec<Value>,
}

struct Arrival {
    port: usize,
    at: Nanos,
    bytes: u32,
    ends: [Mac; 2],
    head: Vec<u8>,
}

fn number(value: &Value, at: usize) -> u64 {
    value[at].as_u64().unwrap_or_else(|| panic!("{value} has no number at {at}"))
}

fn arrival(value: &Value) -> Arrival {
    let mac = |at: usize| Mac::try_from(value[at].as_str().unwrap().to_owned()).unwrap();
    let text = value[5].as_str().unwrap_or_default();
    let head = (0..text.len() / 2).map(|at| u8::from_str_radix(&text[2 * at..2 * at + 2], 16).unwrap());
    Arrival {
        port: number(value, 0) as usize,
        at: Nanos(number(value, 1)),
        bytes: number(value, 2) as u32,
        ends: [mac(3), mac(4)],
        head: head.collect(),
    }
}

type Left = (usize, u64, u64, u64, bool);

fn told(departures: Vec<Departure<()>>) -> Vec<Left> {
    let one = |one: Departure<()>| (one.port.0, one.at.0, u64::from(one.bytes), one.arrived.0, one.marked);
    departures.into_iter().map(one).collect()
}

/// Plays arrivals with the machine asked at least every `patience`.
fn played(layout: &Layout, arrivals: &[Arrival], patience: u64) -> (Vec<Left>, Fabric<()>) {
    let mut fabric = Fabric::new(layout).unwrap();
    let mut departures = Vec::new();
    let mut asked = 0;
    for each in arrivals {
        let at = each.at.0;
        if at >= asked + patience {
            fabric.advance(Nanos(at - at % patience.max(1)), &mut departures);
            asked = at;
        }
        fabric.arrive(PortId(each.port), frame_of(each, ()), each.at);
    }
    fabric.advance(Nanos(u64::MAX / 4), &mut departures);
    (told(departures), fabric)
}

/// Plays arrivals as the simulator does: every departure is told as soon as it is certain.
fn foretold(layout: &Layout, arrivals: &[Arrival]) -> Vec<Left> {
    let mut fabric = Fabric::new(layout).unwrap();
    fabric.foretell();
    let (mut left, mut certain, mut departures) = (Vec::new(), Vec::new(), Vec::new());
    let mut fetch = |fabric: &mut Fabric<Nanos>| {
        fabric.foretold(&mut certain);
        for one in certain.drain(..) {
            let frame = fabric.take(&one);
            left.push((one.port.0, one.at.0, u64::from(frame.bytes), frame.payload.0, one.marked));
        }
    };
    for each in arrivals {
        while let Some(at) = fabric.next_event().filter(|at| *at <= each.at) {
            fabric.advance(at, &mut departures);
            fetch(&mut fabric);
        }
        fabric.arrive(PortId(each.port), frame_of(each, each.at), each.at);
        fetch(&mut fabric);
    }
    while let Some(at) = fabric.next_event() {
        fabric.advance(at, &mut departures);
        fetch(&mut fabric);
    }
    assert!(departures.is_empty());
    left
}

fn frame_of<P>(arrival: &Arrival, payload: P) -> Frame<P> {
    let empty = arrival.head.is_empty();
    Frame {
        bytes: arrival.bytes,
        source: arrival.ends[0],
        destination: arrival.ends[1],
        flow: if empty { 0 } else { virtlab_fabric::flow_hash(&arrival.head) },
        ecn: if empty { Ecn::NotCapable } else { virtlab_fabric::ecn(&arrival.head) },
        headers: (!empty).then(|| Box::new(virtlab_fabric::headers(&arrival.head))),
        payload,
    }
}

fn recordings() -> Vec<PathBuf> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/switch");
    let mut found: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    found.retain(|path| path.extension().is_some_and(|ending| ending == "json"));
    found.sort();
    found
}

#[test]
fn recorded_arrivals_give_the_computed_departures_to_the_nanosecond() {
    let mut kinds = BTreeSet::new();
    for path in recordings() {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let recorded: Recorded = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
        let mut arrivals: Vec<Arrival> = recorded.arrivals.iter().map(arrival).collect();
        arrivals.sort_by_key(|arrival| arrival.at);
        let wanted: Vec<Left> = recorded
            .departures
            .iter()
            .map(|one| {
                let port = number(one, 0) as usize;
                (port, number(one, 1), number(one, 2), number(one, 3), one[4].as_bool().unwrap_or(false))
            })
            .collect();
        // Of two frames that leave through two ports at one instant either may be told of first.
        let sorted = |mut all: Vec<Left>| {
            all.sort_by_key(|left| (left.1, left.0, left.3));
            all
        };
        assert_eq!(sorted(foretold(&recorded.layout, &arrivals)), sorted(wanted.clone()), "{name}, foretold");
        for patience in [1, 100_000, 400_000] {
            let (computed, fabric) = played(&recorded.layout, &arrivals, patience);
            assert_eq!(fabric.ports(), recorded.ports, "{name}");
            assert_eq!(sorted(computed), sorted(wanted.clone()), "{name}, asked every {patience} ns");
            assert_eq!(fabric.inside(), 0, "{name}");
            assert!(
                fabric.lines(Nanos(0)).any(|line| line.counters.residence_max_ns > 0),
                "{name}: the recording holds a queue"
            );
        }
        kinds.extend(
            recorded.layout.links.values().map(|link| link.queue.ab.kind.clone().unwrap_or_default()),
        );
    }
    for kind in virtlab_qdisc::TABLE.iter().filter(|each| each.is_played()).map(|each| each.name) {
        assert!(kinds.contains(kind), "no recording of {kind}");
    }
}
