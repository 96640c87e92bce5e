//! What every discipline promises, whatever arrives: packets and bytes are conserved, flows stay in order, no time
//! passes idle where packets could go, and no shaper lets more through than its rate and burst.
//!
//! Each discipline is built by its name as a Plan builds it, so that a new one is held to all of this at once.

use proptest::prelude::*;
use std::collections::BTreeMap;
use virtlab_qdisc::{
    Backlog, ClassLayout, Dropped, Ecn, Packet, Parameter, Qdisc, TABLE, build, build_classes,
};
use virtlab_wire::Nanos;

const MBIT: u64 = 1_000_000;
const RATE_BIT_PER_S: u64 = 20 * MBIT;
const BURST_BYTES: u64 = 6000;
const LONGEST_BYTES: u64 = 1514;
/// Those that hold packets back although the transmitter is free.
const SHAPERS: [&str; 4] = ["tbf", "htb", "hfsc", "netem"];

fn parameters(given: &[(&str, u64)]) -> BTreeMap<String, Parameter> {
    given.iter().map(|(key, value)| ((*key).to_owned(), Parameter::Whole(*value))).collect()
}

/// Without classes, with few packets of room.
fn plain(kind: &str) -> Box<dyn Qdisc> {
    let given = match kind {
        "tbf" => parameters(&[("rate_bit_per_s", RATE_BIT_PER_S), ("burst_bytes", BURST_BYTES)]),
        "htb" => parameters(&[("rate_bit_per_s", RATE_BIT_PER_S), ("burst_bytes", BURST_BYTES)]),
        "hfsc" => parameters(&[("m2_bit_per_s", RATE_BIT_PER_S)]),
        "netem" => parameters(&[("delay_ns", 700_000), ("seed", 5)]),
        "sfq" => parameters(&[("perturb_ns", 3_000_000), ("divisor", 4), ("depth", 9)]),
        "codel" => parameters(&[("target_ns", 200_000), ("interval_ns", 2_000_000)]),
        "fq_codel" => parameters(&[("target_ns", 200_000), ("interval_ns", 2_000_000), ("flows", 4)]),
        _ => BTreeMap::new(),
    };
    let (packets, bytes) = match kind {
        "tbf" | "bfifo" => (None, Some(20_000)),
        _ => (Some(20), None),
    };
    build(kind, packets, bytes, &given).unwrap()
}

/// With classes 0 to 2, and 3 above them where there is a tree.
fn classed(kind: &str) -> Box<dyn Qdisc> {
    let leaf = |at: u64| match kind {
        "htb" => parameters(&[
            ("rate_bit_per_s", RATE_BIT_PER_S / 4),
            ("ceil_bit_per_s", RATE_BIT_PER_S),
            ("burst_bytes", BURST_BYTES),
            ("prio", at % 2),
        ]),
        "hfsc" => parameters(&[("ls_m2_bit_per_s", (at + 1) * MBIT), ("rt_m2_bit_per_s", MBIT)]),
        "drr" => parameters(&[("quantum_bytes", 1000 * (at + 1))]),
        _ => parameters(&[("prio", at)]),
    };
    let tree = matches!(kind, "htb" | "hfsc");
    let mut classes: BTreeMap<String, ClassLayout> = (0..3)
        .map(|at| {
            let parent = tree.then(|| "d".to_owned());
            let class = ClassLayout { parent, limit_packets: Some(10), parameters: leaf(at) };
            (["a", "b", "c"][at as usize].to_owned(), class)
        })
        .collect();
    if tree {
        let above = match kind {
            "htb" => parameters(&[("rate_bit_per_s", RATE_BIT_PER_S), ("burst_bytes", BURST_BYTES)]),
            _ => parameters(&[("ls_m2_bit_per_s", RATE_BIT_PER_S), ("ul_m2_bit_per_s", RATE_BIT_PER_S)]),
        };
        classes.insert("d".into(), ClassLayout { parent: None, limit_packets: None, parameters: above });
    }
    build_classes(kind, &classes).unwrap()
}

fn everything() -> Vec<(String, Box<dyn Qdisc>)> {
    let alone = TABLE.iter().filter(|each| each.stands_alone());
    let plain = alone.map(|each| (each.name.to_owned(), plain(each.name)));
    let classful = TABLE.iter().filter(|each| each.has_classes());
    plain.chain(classful.map(|each| (format!("{} with classes", each.name), classed(each.name)))).collect()
}

/// Gap before it, bytes, flow (also its class), whether it can be marked.
fn arrivals() -> impl Strategy<Value = Vec<(u64, u32, u64, bool)>> {
    prop::collection::vec((0u64..2_000_000, 60u32..1515, 0u64..3, any::<bool>()), 1..120)
}

/// What left, and when, through a transmitter of `link_bit_per_s`.
struct Play {
    sent: Vec<(Nanos, Packet)>,
    idle: Vec<Nanos>,
}

/// Plays arrivals; checks conservation after every step, and that next events lie ahead.
fn play(name: &str, qdisc: &mut dyn Qdisc, arrivals: &[(u64, u32, u64, bool)], link_bit_per_s: u64) -> Play {
    let (mut now, mut free) = (Nanos(0), Nanos(0));
    let (mut sent, mut idle, mut drops) = (Vec::new(), Vec::new(), Vec::<Dropped>::new());
    let mut offered = Backlog::default();
    let bytes =
        |packets: &mut dyn Iterator<Item = &Packet>| packets.map(|one| u64::from(one.bytes)).sum::<u64>();
    let mut serve = |qdisc: &mut dyn Qdisc,
                     until: Nanos,
                     from: Nanos,
                     drops: &mut Vec<Dropped>,
                     sent: &mut Vec<(Nanos, Packet)>| {
        let mut now = from;
        while let Some(next) = qdisc.next_event(now.max(free)).filter(|next| (*next).max(free) <= until) {
            let at = next.max(free).max(now);
            now = at;
            let held = qdisc.backlog().packets;
            match qdisc.dequeue(at, drops) {
                Some(packet) => {
                    free = at + virtlab_wire::ethernet::serialisation(packet.bytes, link_bit_per_s);
                    sent.push((at, packet));
                }
                None => {
                    if held > 0 && qdisc.backlog().packets > 0 {
                        idle.push(at);
                    }
                    let later = qdisc.next_event(at);
                    assert!(
                        later.is_none_or(|later| later > at),
                        "{name}: would be asked at {at:?} for ever"
                    );
                }
            }
        }
    };
    for (id, (gap, length, flow, markable)) in arrivals.iter().enumerate() {
        let arrival = now + Nanos(*gap);
        serve(qdisc, arrival, now, &mut drops, &mut sent);
        now = arrival;
        let ecn = if *markable { Ecn::Capable } else { Ecn::NotCapable };
        let packet = Packet { id: id as u64, bytes: *length, flow: *flow, class: *flow as u32, ecn };
        offered.packets += 1;
        offered.bytes += u64::from(*length);
        qdisc.enqueue(packet, now, &mut drops);
        let held = qdisc.backlog();
        assert_eq!(held.packets + (sent.len() + drops.len()) as u64, offered.packets, "{name}: packets");
        let gone = bytes(&mut sent.iter().map(|(_, packet)| packet))
            + bytes(&mut drops.iter().map(|dropped| &dropped.packet));
        assert_eq!(held.bytes + gone, offered.bytes, "{name}: bytes");
    }
    serve(qdisc, Nanos(u64::MAX / 4), now, &mut drops, &mut sent);
    assert_eq!(qdisc.backlog(), Backlog::default(), "{name}: something stayed inside");
    let mut ids: Vec<u64> =
        sent.iter().map(|(_, one)| one.id).chain(drops.iter().map(|one| one.packet.id)).collect();
    ids.sort_unstable();
    assert!(ids.iter().copied().eq(0..arrivals.len() as u64), "{name}: a packet left twice or never");
    Play { sent, idle }
}

/// No interval that begins and ends with a departure holds more than `burst + rate t`.
fn within(name: &str, sent: &[(Nanos, Packet)], rate_bit_per_s: u64, burst_bytes: u64) {
    for (first, (begin, _)) in sent.iter().enumerate() {
        let mut total = 0;
        for (end, packet) in &sent[first..] {
            total += u64::from(packet.bytes);
            let allowed = burst_bytes
                + (u128::from(end.since(*begin).0) * u128::from(rate_bit_per_s) / 8_000_000_000) as u64;
            assert!(total <= allowed + 1, "{name}: {total} B in {} ns", end.since(*begin).0);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn every_discipline_conserves_packets_and_bytes_and_keeps_flows_in_order(
        arrivals in arrivals(), link in prop::sample::select(vec![10 * MBIT, 100 * MBIT, 10_000 * MBIT]),
    ) {
        for (name, mut qdisc) in everything() {
            let Play { sent, .. } = play(&name, qdisc.as_mut(), &arrivals, link);
            for flow in 0..3 {
                let ids: Vec<u64> =
                    sent.iter().filter(|(_, one)| one.flow == flow).map(|(_, one)| one.id).collect();
                prop_assert!(ids.is_sorted(), "{name}: flow {flow} left as {ids:?}");
            }
        }
    }

    #[test]
    fn a_discipline_that_does_not_shape_never_leaves_a_free_transmitter_waiting(arrivals in arrivals()) {
        for (name, mut qdisc) in everything() {
            let kind = name.split(' ').next().unwrap_or_default();
            if !SHAPERS.contains(&kind) {
                let Play { idle, .. } = play(&name, qdisc.as_mut(), &arrivals, 10 * MBIT);
                prop_assert!(idle.is_empty(), "{name} held packets back at {idle:?}");
            }
        }
    }

    #[test]
    fn no_shaper_lets_through_more_than_its_rate_and_burst(arrivals in arrivals()) {
        // HTB sends while its bucket is not in debt, so one packet goes beyond the burst; TBF waits for all tokens.
        let sent = |mut qdisc: Box<dyn Qdisc>, name: &str| play(name, qdisc.as_mut(), &arrivals, 10_000 * MBIT).sent;
        within("tbf", &sent(plain("tbf"), "tbf"), RATE_BIT_PER_S, BURST_BYTES);
        within("htb", &sent(plain("htb"), "htb"), RATE_BIT_PER_S, BURST_BYTES + LONGEST_BYTES);
        let classes = sent(classed("htb"), "htb with classes");
        for class in 0..3 {
            let own: Vec<(Nanos, Packet)> = classes.iter().filter(|(_, one)| one.class == class).copied().collect();
            within("htb's class at its ceil", &own, RATE_BIT_PER_S, BURST_BYTES + LONGEST_BYTES);
        }
        within("hfsc at its upper limit", &sent(classed("hfsc"), "hfsc with classes"), RATE_BIT_PER_S + 3 * MBIT,
            3 * LONGEST_BYTES);
    }

    #[test]
    fn a_shaper_that_always_has_packets_reaches_its_rate(length in 200u32..1500) {
        for (name, mut qdisc) in [("tbf", plain("tbf")), ("htb", plain("htb")), ("htb with classes", classed("htb")),
            ("hfsc with classes", classed("hfsc"))] {
            let arrivals: Vec<(u64, u32, u64, bool)> = (0..4000).map(|at| (40_000, length, at % 3, false)).collect();
            let Play { sent, .. } = play(name, qdisc.as_mut(), &arrivals, 1_000 * MBIT);
            let offered = u64::from(length) * 8 * 25_000;
            let (begin, end) = (sent[0].0, Nanos(160_000_000));
            let bits: u64 = sent.iter().filter(|(at, _)| *at <= end).map(|(_, one)| u64::from(one.bytes) * 8).sum();
            let rate = bits as f64 * 1e9 / end.since(begin).0 as f64;
            prop_assert!(rate >= RATE_BIT_PER_S.min(offered) as f64 * 0.97, "{name}: {rate} bit/s");
        }
    }
}
