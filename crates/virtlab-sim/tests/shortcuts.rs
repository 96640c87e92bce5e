//! What is done without events against the same with all of them: random small worlds are played both ways, and every
//! sample, counter and instant must be the same.
//!
//! In the plain form each frame is asked at each place what may hold it up and has its events on its host and in the
//! fabric, and each message is taken at an event of its own. In the other, datagrams that are only counted meet without
//! events, messages that are one packet take a short way into the fabric, be it that they wait on their host, and
//! answers from which nothing follows are taken later.

use proptest::prelude::*;
use serde_json::{Value, json};
use virtlab_sim::{Input, World};

const RATES: [u64; 4] = [10_000_000, 100_000_000, 1_000_000_000, 10_000_000_000];

/// A tree of hosts on switches that hang on one, each with a guest behind a virtual switch.
#[derive(Clone, Debug)]
struct Net {
    /// Of each host: its switch, its rate, and whether its guests share a queue before the wire.
    hosts: Vec<(usize, u64, bool)>,
    switches: usize,
    limit_packets: u64,
    /// At which rate vNICs let frames go, where they push back.
    pushback: Option<u64>,
}

fn mac(host: usize) -> String {
    format!("02:00:00:00:00:{:02x}", host + 1)
}

impl Net {
    fn input(&self, stores: &Value, roles: &[Value], timeline: &[Value]) -> Value {
        let all = 0..self.hosts.len();
        let ports: Vec<String> = all.clone().map(|host| format!("h{host}.up")).collect();
        let queue = json!({"kind": "fifo", "limit_packets": self.limit_packets});
        let link = |ends: [String; 2], rate: u64| json!({"ends": ends, "rate_bit_per_s": rate, "queue": {"ab": queue, "ba": queue}});
        let (mut links, mut forwarding, mut switches) =
            (serde_json::Map::new(), serde_json::Map::new(), serde_json::Map::new());
        for (host, &(switch, rate, _)) in self.hosts.iter().enumerate() {
            let ends = [format!("h{host}.up"), format!("s{switch}.p{host}")];
            links.insert(format!("h{host}"), link(ends, rate));
        }
        for switch in 0..self.switches {
            switches.insert(format!("s{switch}"), json!({"processing_ns": 0}));
            if switch > 0 {
                let ends = [format!("s0.q{switch}"), format!("s{switch}.q0")];
                links.insert(format!("up{switch}"), link(ends, 1_000_000_000));
            }
            let way = |host: usize| match self.hosts[host].0 {
                own if own == switch => format!("s{switch}.p{host}"),
                far if switch == 0 => format!("s0.q{far}"),
                _ => format!("s{switch}.q0"),
            };
            let ways: serde_json::Map<_, _> = all.clone().map(|host| (mac(host), json!(way(host)))).collect();
            forwarding.insert(format!("s{switch}"), ways.into());
        }
        let guests: Vec<Value> = all
            .clone()
            .map(|host| {
                let route = json!({"network": "10.0.0.0", "prefix_bits": 24, "vnic": host, "via": null});
                json!({"forwards": false, "addresses": [address(host)], "routes": [route]})
            })
            .collect();
        let vnics: Vec<Value> = all
            .clone()
            .map(|host| {
                let rate = self.pushback;
                json!({"name": format!("v{host}"), "guest": host, "mac": mac(host), "mtu_bytes": 1500,
                    "pushback_bit_per_s": rate, "on": {"vswitch": host}, "licence": null, "held": true})
            })
            .collect();
        let vswitches: Vec<Value> = all
            .clone()
            .map(|host| {
                let place = |to: usize| match to == host {
                    true => json!({"vnic": host}),
                    false => json!({"port": format!("h{host}.up")}),
                };
                let ways: serde_json::Map<_, _> = all.clone().map(|to| (mac(to), place(to))).collect();
                let plugs = [json!({"vnic": host}), json!({"port": format!("h{host}.up")})];
                let plugs = plugs.map(|way| json!({"way": way, "isolated": false}));
                json!({"ways": ways, "ports": plugs, "learns": false, "floods": true})
            })
            .collect();
        let shared = self.hosts.iter().enumerate().filter(|(_, (.., shared))| *shared);
        let uplinks: Vec<Value> = shared
            .map(|(host, (_, rate, _))| {
                json!({"port": format!("h{host}.up"), "rate_bit_per_s": rate, "limit_packets": 20, "mtu_bytes": 1500})
            })
            .collect();
        let neighbours: serde_json::Map<_, _> = all.map(|host| (address(host), json!(mac(host)))).collect();
        json!({
            "fabric": {"ports": ports, "switches": switches, "links": links, "forwarding": forwarding},
            "guests": guests, "vnics": vnics, "vswitches": vswitches, "uplinks": uplinks,
            "neighbours": neighbours, "roles": roles, "stores": stores, "timeline": timeline, "windows": {},
            "counters": ["vnics", "links"], "limit_ns": 20_000_000_000_u64,
        })
    }
}

/// A stream of datagrams: from which host to which, their bytes, how many a second, and whether at random.
type Stream = (usize, usize, u64, u64, bool);

impl Net {
    fn streams(&self, streams: &[Stream], seed: u64) -> Value {
        let many = self.hosts.len();
        let role = |(number, &(from, to, bytes, rate, poisson)): (usize, &Stream)| {
            let (from, to) =
                (from % many, if from % many == to % many { (to + 1) % many } else { to % many });
            json!({
                "name": format!("s{number}"), "workload": "udp_stream", "kept": true,
                "parameters": {"rate_bit_per_s": 8 * (56 + bytes) * rate, "duration_ns": 10_000_000, "payload_bytes": 28 + bytes,
                    "arrivals": if poisson { "poisson" } else { "constant" }},
                "ends": [end(from, seed.wrapping_add(number as u64)), end(to, seed)],
            })
        };
        let roles: Vec<Value> = streams.iter().enumerate().map(role).collect();
        let timeline: Vec<Value> = (0..roles.len()).map(|role| run(role, role)).collect();
        self.input(&json!([]), &roles, &timeline)
    }
}

fn address(host: usize) -> String {
    format!("10.0.0.{}", host + 1)
}

fn end(host: usize, seed: u64) -> Value {
    json!({"vnic": host, "address": address(host), "seed": seed})
}

fn run(id: usize, role: usize) -> Value {
    json!({"id": format!("run{id}"), "after": null, "timeout_ns": null, "on_timeout": null, "do": "run", "args": {},
        "for_ns": 0, "role": role, "guest": null})
}

/// Everything that a run says, and how many events it took.
fn played(mut input: Value, by_events: bool) -> (String, u64) {
    input["by_events"] = by_events.into();
    let input: Input = serde_json::from_value(input).expect("an input");
    let mut world = World::new(input).expect("a world");
    world.play(u64::MAX);
    let mut outcome = world.outcome();
    let events = std::mem::take(&mut outcome.events);
    (format!("{outcome:?}"), events)
}

fn net(least: usize, most: usize) -> impl Strategy<Value = Net> {
    let pushback = prop::sample::select(vec![None, None, Some(10_000_000), Some(10_000_000_000)]);
    (1usize..4, pushback, prop::sample::select(vec![3, 20, 1000])).prop_flat_map(
        move |(switches, pushback, limit_packets)| {
            let host = (0..switches, prop::sample::select(&RATES[..]), any::<bool>());
            prop::collection::vec(host, least..most).prop_map(move |hosts| Net {
                hosts,
                switches,
                limit_packets,
                pushback,
            })
        },
    )
}

/// Bytes behind 28 of payload: any, or such that frames of a queue at 10 Mbit/s, which lets 10 of 1538 octets go at
/// once, leave at even instants, and at the end of a run of 10 ms.
fn bytes() -> impl Strategy<Value = u64> {
    let ends = |octets: &u64| (12_304 + 10_000) * 10 % (8 * octets) == 0;
    let even: Vec<u64> = (95u64..1600).filter(|octets| octets % 20 == 0).collect();
    let ending: Vec<u64> = (95u64..1600).filter(ends).collect();
    let octets = prop_oneof![prop::sample::select(even), prop::sample::select(ending)];
    prop_oneof![1u64..1600, octets.prop_map(|octets| octets - 94)]
}

#[derive(Clone, Debug)]
struct Played {
    store: Value,
    operations: Value,
    bytes: u64,
    threads: u64,
    seed: u64,
    clients: usize,
}

fn store() -> impl Strategy<Value = Played> {
    let mixes = [
        json!({"create": 1.0}),
        json!({"create": 0.5, "read": 0.3, "overwrite": 0.2}),
        json!({"create": 0.6, "stat": 0.2, "delete": 0.2}),
    ];
    let form = (
        1u64..4,
        prop::sample::select(vec!["memory", "disk"]),
        prop::sample::select(vec!["client", "client", "primary"]),
        prop::sample::select(vec![300_000u64, 3_000_000, 50_000_000]),
        prop::sample::select(vec![0u64, 3_000]),
    );
    let load = (prop::sample::select(mixes.to_vec()), prop::sample::select(vec![0, 1_000, 9_000, 40_000]));
    (form, load, 1u64..9, any::<u64>(), 1usize..3).prop_map(
        |((copies, ack, by, question_ns, node_ns), (operations, bytes), threads, seed, clients)| {
            let store = json!({"copies": copies, "lookup": "multicast", "written_by": by, "ack": ack,
                "cache_bytes": 30_000, "question_ns": question_ns, "timeout_ns": 8 * question_ns, "node_ns": node_ns});
            Played { store, operations, bytes, threads, seed, clients }
        },
    )
}

/// A frame of 205 octets leaves the queue that guests share at 10 Mbit/s 10 ms after the first, which is when the run
/// ends: the 137th, one every 164 us after a burst of 12.304 ms.
#[test]
fn a_frame_that_would_leave_its_host_after_the_last_reader_is_not_on_the_wire() {
    for pushback in [None, Some(10_000_000), Some(10_000_000_000)] {
        let net = Net { hosts: vec![(0, 10_000_000, true); 4], switches: 1, limit_packets: 3, pushback };
        let input = net.streams(&[(5, 0, 111, 20_000, false)], 0);
        assert_eq!(played(input.clone(), false).0, played(input, true).0);
    }
}

/// A frame leaves its vNIC at 20 Mbit/s as the run ends, for a queue in which others wait: 1380 octets and 26 times
/// 1500 are 10 ms and a burst of 6.152 ms.
#[test]
fn a_frame_that_would_leave_its_vnic_after_the_last_reader_does_not_wait_behind_it() {
    let pushback = Some(20_000_000);
    let net = Net { hosts: vec![(0, 10_000_000, true); 3], switches: 1, limit_packets: 20, pushback };
    let input = net.streams(&[(0, 1, 1_286, 50, false), (0, 1, 1_406, 3_333, false)], 0);
    assert_eq!(played(input.clone(), false).0, played(input, true).0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn a_store_without_some_events_is_the_same_store(net in net(5, 9), played_by in store()) {
        let Played { store, operations, bytes, threads, seed, clients } = played_by;
        let nodes: Vec<Value> = (clients..net.hosts.len()).map(|host| end(host, seed % 1000)).collect();
        let stores = json!([{"service": "depot", "nodes": nodes, "parameters": store}]);
        let roles: Vec<Value> = (0..clients).map(|client| json!({
            "name": format!("load{client}"), "workload": "objects", "kept": true,
            "parameters": {"count": 40, "duration_ns": 1_000_000_000, "folder": "files", "object_bytes": bytes,
                "operations": operations, "service": "depot", "threads": threads},
            "ends": [end(client, seed.wrapping_add(client as u64)), end(clients, seed)],
        })).collect();
        let timeline: Vec<Value> = (0..clients).map(|client| run(client, client)).collect();
        let input = net.input(&stores, &roles, &timeline);
        let (plain, all) = played(input.clone(), true);
        let (short, fewer) = played(input, false);
        prop_assert!(fewer <= all, "{} events in place of {}", fewer, all);
        prop_assert_eq!(short, plain);
    }

    #[test]
    fn a_datagram_that_goes_straight_is_the_same_datagram(
        net in net(3, 7),
        streams in prop::collection::vec(
            (0usize..7, 0usize..7, bytes(), prop::sample::select(vec![2_000u64, 20_000, 200_000]), any::<bool>()),
            1..6,
        ),
        seed in any::<u64>(),
    ) {
        let input = net.streams(&streams, seed);
        let (plain, all) = played(input.clone(), true);
        let (short, fewer) = played(input, false);
        prop_assert!(fewer <= all, "{} events in place of {}", fewer, all);
        prop_assert_eq!(short, plain);
    }

    #[test]
    fn a_frame_that_waits_on_its_host_is_the_same_frame(
        net in net(3, 6),
        connections in prop::collection::vec(
            (0usize..6, 0usize..6, prop_oneof![1u64..20_001, prop::sample::select(vec![1u64, 1_448, 20_000])],
                0u64..3, 0usize..3), 1..6),
        seed in any::<u64>(),
        duration_ns in prop::sample::select(vec![10_000_000u64, 20_000_000]),
    ) {
        let many = net.hosts.len();
        let roles: Vec<Value> = connections.iter().enumerate().map(|(number, &(from, to, bytes, streams, kind))| {
            let (from, to) = (from % many, if from % many == to % many { (to + 1) % many } else { to % many });
            let (workload, parameters) = match kind {
                0 => ("tcp_stream", json!({"duration_ns": duration_ns, "message_bytes": bytes, "streams": streams + 1,
                    "interval_ns": 1_000_000})),
                1 => ("tcp_rr", json!({"duration_ns": duration_ns, "request_bytes": bytes, "response_bytes": 20_001 - bytes})),
                _ => ("burst_load", json!({"duration_ns": duration_ns, "protocol": "udp", "burst_bytes": 200 + bytes,
                    "period_ns": 200_000 * (streams + 1), "direction": "request_reply"})),
            };
            json!({"name": format!("c{number}"), "workload": workload, "kept": true, "parameters": parameters,
                "ends": [end(from, seed.wrapping_add(number as u64)), end(to, seed)]})
        }).collect();
        let timeline: Vec<Value> = (0..roles.len()).map(|role| run(role, role)).collect();
        let input = net.input(&json!([]), &roles, &timeline);
        // A socket that waits for room has its vNIC and the queue behind it looked at: that may be one look more.
        let (plain, _) = played(input.clone(), true);
        let (short, _) = played(input, false);
        prop_assert_eq!(short, plain);
    }
}
