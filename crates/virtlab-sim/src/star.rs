//! The yardstick: hosts on one switch, each sending 1500 B IP packets at half of its 100 Mbit/s link, statistics on.
//!
//! A packet occupies a link for (1500 + 38) * 80 ns = 123.04 us, so half of a link is one every 246.08 us.
//! `constant`: host i sends to host i + 1, first at i * 246.08 us / N; no two hosts share a link, so every one-way
//! delay is exactly two serialisations, 2 * 122.08 us. `poisson`: exponential gaps of that mean, each packet to one
//! of the others at random; then every line out of the switch is an M/D/1 queue, nearly, with room for 100 packets.
//!
//! It is a world like any other: hosts, vNICs, links, a switch and its table in an [`Input`], played by the engine
//! that plays Plans. Only its role, `scatter`, is in no Plan. What makes it fast (lines in closed form, frames that
//! meet without events) holds for every world.

use crate::input::{Act, Finding, Guest, Input, On, Role, RoleEnd, Route, Vnic};
use crate::workloads::scatter;
use crate::world::World;
use core::net::{IpAddr, Ipv4Addr};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use virtlab_fabric::{Layout, LinkLayout, Mac, QueueLayout, QueuesLayout, SwitchLayout};
use virtlab_load::histogram::Histogram;

/// Between two packets of a host.
pub const GAP_NS: u64 = 246_080;
/// Delay of a packet that meets no other.
pub const DELAY_NS: u64 = 244_160;
const PACKET_BYTES: u32 = 1500;
const MOST_HOSTS: u32 = 4096;

/// What came of it.
#[derive(Debug)]
pub struct Figures {
    /// Packets sent.
    pub sent: u64,
    /// Packets delivered.
    pub packets: u64,
    /// Packets dropped by queues, and of the same kind those still under way at the end.
    pub undelivered: u64,
    /// Events played.
    pub events: u64,
    /// The least one-way delay, and the largest.
    pub delay_range_ns: (u64, u64),
    /// All one-way delays.
    pub delays: Histogram,
}

/// A star to be played.
///
/// # Errors
/// A number of hosts that cannot be.
pub fn star(hosts: u32, poisson: bool, duration_ns: u64, seed: u64) -> Result<World, Vec<Finding>> {
    if !(2..=MOST_HOSTS).contains(&hosts) {
        let reason = format!("{hosts} hosts make no star");
        return Err(vec![Finding::new("hosts", reason, format!("give 2 to {MOST_HOSTS}"))]);
    }
    let address = |host: u32| IpAddr::V4(Ipv4Addr::from(0x0a00_0001 + host));
    let mac = |host: u32| Mac([2, 0, 0, 0, (host >> 8) as u8, host as u8]);
    let queue = || QueueLayout { limit_packets: Some(100), ..QueueLayout::default() };
    let link = |host: u32| LinkLayout {
        cuts: false,
        ends: [format!("h{host:04}"), format!("s.p{host}")],
        rate_bit_per_s: 100_000_000,
        propagation_ns: 0,
        realise: None,
        queue: QueuesLayout { ab: queue(), ba: queue() },
    };
    let end = |host: u32| RoleEnd {
        vnic: host as usize,
        address: Some(address(host)),
        // Any one-to-one mixing does: streams are distinguished by their seeds.
        seed: seed.wrapping_add(u64::from(host).wrapping_mul(0x9e37_79b9_7f4a_7c15)),
    };
    let parameters = json!({
        "ip_packet_bytes": PACKET_BYTES, "gap_ns": GAP_NS, "poisson": poisson, "duration_ns": duration_ns,
        "hosts": (0..hosts).map(address).collect::<Vec<_>>(),
    });
    let role = Role {
        name: "all".to_owned(),
        workload: scatter::KIND.name.to_owned(),
        parameters: parameters.as_object().cloned().unwrap_or_default(),
        ends: [end(0), end(1)],
        kept: false,
        most: None,
    };
    let all = || 0..hosts;
    World::new(Input {
        fabric: Layout {
            ports: all().map(|host| format!("h{host:04}")).collect::<BTreeSet<_>>(),
            switches: BTreeMap::from([("s".to_owned(), SwitchLayout::default())]),
            links: all().map(|host| (format!("l{host:04}"), link(host))).collect(),
            forwarding: BTreeMap::from([(
                "s".to_owned(),
                all().map(|host| (mac(host), format!("s.p{host}"))).collect(),
            )]),
        },
        guests: all()
            .map(|host| Guest {
                processors: None,
                request_ns: 0,
                disk: None,
                forwards: false,
                addresses: vec![address(host)],
                routes: vec![Route {
                    network: IpAddr::V4(Ipv4Addr::from(0x0a00_0000)),
                    prefix_bits: 8,
                    vnic: host as usize,
                    via: None,
                }],
            })
            .collect(),
        pools: Vec::new(),
        usage: Vec::new(),
        disk_usage: Vec::new(),
        stores: Vec::new(),
        vnics: all()
            .map(|host| Vnic {
                name: format!("h{host}"),
                guest: host as usize,
                mac: mac(host),
                mtu_bytes: PACKET_BYTES,
                pushback_bit_per_s: None,
                held: false,
                licence: None,
                on: On::Port(format!("h{host:04}")),
            })
            .collect(),
        vswitches: Vec::new(),
        uplinks: Vec::new(),
        bridging: Vec::new(),
        neighbours: all().map(|host| (address(host), mac(host))).collect(),
        resolution: None,
        noise: None,
        passive: Vec::new(),
        roles: vec![role],
        timeline: star_timeline(duration_ns),
        windows: BTreeMap::new(),
        counters: vec!["vnics".to_owned(), "links".to_owned()],
        limit_ns: duration_ns.saturating_add(2_000_000_000),
        costs: None,
        by_events: false,
    })
}

fn star_timeline(duration_ns: u64) -> Vec<crate::input::Action> {
    let action = |id: String, act: Act, role: Option<usize>, for_ns: u64| crate::input::Action {
        id,
        act,
        after: None,
        role,
        guest: None,
        args: serde_json::Map::new(),
        program: None,
        operation: None,
        progress: None,
        for_ns,
        timeout_ns: None,
        on_timeout: None,
    };
    // A queue of 100 packets is empty 12.4 ms after the last packet.
    let wait = action("drain".to_owned(), Act::Wait, None, duration_ns.saturating_add(100_000_000));
    vec![action("all".to_owned(), Act::Start, Some(0), 0), wait]
}

/// Sums up a star that was played to its end.
#[must_use]
pub fn figures(world: World) -> Figures {
    let mut delays = Histogram::default();
    world.delays().for_each(|each| delays.merge(each));
    let outcome = world.outcome();
    let (mut sent, mut least) = (0, u64::MAX);
    for (counter, value) in outcome.role_counters() {
        match counter {
            "sent_packets" => sent += value,
            "delay_least_ns" => least = least.min(value),
            _ => {}
        }
    }
    Figures {
        sent,
        packets: delays.len(),
        undelivered: sent - delays.len(),
        events: outcome.events,
        delay_range_ns: (least, delays.largest().0),
        delays,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn played(hosts: u32, poisson: bool, seed: u64) -> Figures {
        let mut world = star(hosts, poisson, 200_000_000, seed).unwrap();
        assert!(world.play(u64::MAX));
        figures(world)
    }

    #[test]
    fn constant_arrivals_take_two_serialisations_each() {
        for hosts in [2, 7, 32] {
            let found = played(hosts, false, 1);
            assert_eq!(found.delay_range_ns, (DELAY_NS, DELAY_NS));
            assert_eq!(found.undelivered, 0);
            let sent: u64 = (0..u64::from(hosts))
                .map(|host| (200_000_000 - host * GAP_NS / u64::from(hosts)).div_ceil(GAP_NS))
                .sum();
            assert_eq!(found.packets, sent);
            assert!(found.events <= found.packets + u64::from(hosts) + 8, "an event for a packet");
        }
    }

    #[test]
    fn poisson_arrivals_wait_and_the_same_seed_waits_the_same() {
        let [first, again, other] = [1, 1, 2].map(|seed| played(16, true, seed));
        assert_eq!(first.delay_range_ns.0, DELAY_NS);
        assert!(first.delay_range_ns.1 > 2 * DELAY_NS);
        let key = |found: &Figures| (found.packets, found.events, found.delay_range_ns);
        assert_eq!(key(&first), key(&again));
        assert_ne!(key(&first), key(&other));
    }

    #[test]
    fn packets_without_events_at_the_switch_fare_as_those_with_them_did() {
        // Recorded when every packet had its event there.
        for (hosts, seed, packets, p50, p999, longest) in
            [(7, 3, 28_359, 327_679, 1_040_383, 1_588_945), (2, 3, 8_029, 245_759, 753_663, 875_572)]
        {
            let mut world = star(hosts, true, 1_000_000_000, seed).unwrap();
            assert!(world.play(u64::MAX));
            let found = figures(world);
            assert_eq!((found.packets, found.undelivered), (packets, 0));
            assert_eq!(found.delay_range_ns, (DELAY_NS, longest));
            assert_eq!([0.5, 0.999].map(|ratio| found.delays.quantile(ratio).unwrap().0), [p50, p999]);
        }
    }

    #[test]
    fn one_host_is_no_star() {
        assert_eq!(star(1, true, 1, 1).err().map(|found| found[0].path.clone()), Some("hosts".to_owned()));
    }
}
