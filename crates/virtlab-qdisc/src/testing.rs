//! What the tests of every discipline share: packets, draining, and conservation.

use crate::{Dropped, Ecn, Packet, Qdisc};
use virtlab_wire::Nanos;

/// A packet of the only flow and class.
pub fn packet(id: u64, bytes: u32) -> Packet {
    Packet { id, bytes, flow: 0, class: 0, ecn: Ecn::NotCapable }
}

/// Serves a discipline as an infinitely fast transmitter until it holds nothing: what left, and when.
pub fn drain(qdisc: &mut dyn Qdisc, mut now: Nanos) -> Vec<(Nanos, Packet)> {
    let (mut sent, mut drops) = (Vec::new(), Vec::new());
    while let Some(next) = qdisc.next_event(now) {
        assert!(next >= now, "the next event lies in the past");
        now = next;
        match qdisc.dequeue(now, &mut drops) {
            Some(packet) => sent.push((now, packet)),
            None => assert!(
                qdisc.next_event(now).is_none_or(|later| later > now),
                "a discipline that gives nothing must name a later time"
            ),
        }
    }
    sent
}

/// Plays arrivals (gap before, bytes) with a transmitter that is always free, then drains; checks that every packet
/// leaves exactly once, sent or dropped, and that the backlog is what is inside. Returns what was sent, and when.
pub fn conserves(qdisc: &mut dyn Qdisc, arrivals: &[(u64, u32)]) -> Vec<(Nanos, Packet)> {
    let packets: Vec<(u64, Packet)> =
        arrivals.iter().enumerate().map(|(id, &(gap, bytes))| (gap, packet(id as u64, bytes))).collect();
    conserves_packets(qdisc, &packets)
}

/// As [`conserves`], for packets of any flow and class.
pub fn conserves_packets(qdisc: &mut dyn Qdisc, arrivals: &[(u64, Packet)]) -> Vec<(Nanos, Packet)> {
    let (mut now, mut sent, mut drops) = (Nanos(0), Vec::new(), Vec::<Dropped>::new());
    let mut offered = 0;
    for (gap, packet) in arrivals {
        let arrival = now + Nanos(*gap);
        while let Some(next) = qdisc.next_event(now).filter(|next| *next <= arrival) {
            now = next;
            sent.extend(qdisc.dequeue(now, &mut drops).map(|packet| (now, packet)));
        }
        now = arrival;
        qdisc.enqueue(*packet, now, &mut drops);
        offered += 1;
        assert_eq!(qdisc.backlog().packets + (sent.len() + drops.len()) as u64, offered);
    }
    while let Some(next) = qdisc.next_event(now) {
        now = next;
        sent.extend(qdisc.dequeue(now, &mut drops).map(|packet| (now, packet)));
    }
    assert_eq!(qdisc.backlog(), crate::Backlog::default());
    let mut ids: Vec<u64> = sent
        .iter()
        .map(|(_, packet)| packet.id)
        .chain(drops.iter().map(|dropped| dropped.packet.id))
        .collect();
    ids.sort_unstable();
    let mut wanted: Vec<u64> = arrivals.iter().map(|(_, packet)| packet.id).collect();
    wanted.sort_unstable();
    assert_eq!(ids, wanted, "every packet leaves exactly once");
    sent
}
