//! How long it takes a processor to find the nodes of a name, in nanoseconds: by ring and by elastic hash from the name
//! itself, and by multicast the least loaded of all nodes that answered, as for a new object:
//! `cargo run --profile shipped -p virtlab-store --example placement -- NODES NAMES`.
#![expect(clippy::disallowed_methods, reason = "the crate asks no clock; what measures it does")]

use std::hint::black_box;
use std::time::Instant;
use virtlab_store::{Ack, Form, Key, Lookup, Peer, Policy, WrittenBy};
use virtlab_wire::Nanos;

const SECOND: Nanos = Nanos(1_000_000_000);

/// A store of 3 copies.
fn store(nodes: u32, lookup: Lookup) -> Policy {
    Policy {
        nodes,
        copies: 3,
        write_quorum: 2,
        read_quorum: 2,
        lookup,
        written_by: WrittenBy::Client,
        ack: Ack::Memory { cache_bytes: 0 },
        proxies: 0,
        question: SECOND,
        give_up: SECOND,
        recovery: Form { streams: 4, rate_byte_per_s: None, scan: None },
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let nodes: u32 = arguments.next().map_or(Ok(24), |one| one.parse())?;
    let names: u64 = arguments.next().map_or(Ok(10_000_000), |one| one.parse())?;
    for (name, lookup) in [
        ("ring", Lookup::Ring { partitions: 1 << 18, zones: 6 }),
        ("elastic_hash", Lookup::ElasticHash),
        ("multicast", Lookup::Multicast),
    ] {
        let policy = store(nodes, lookup);
        policy.check()?;
        let begun = Instant::now();
        for key in (0..names).map(Key) {
            let key = black_box(key);
            match policy.places(key) {
                Some(places) => drop(black_box(places)),
                None => drop(black_box(policy.least_loaded(key, (0..nodes).map(|node| (0, Peer(node)))))),
            }
        }
        println!("{name} {:.1}", begun.elapsed().as_secs_f64() * 1e9 / names as f64);
    }
    Ok(())
}
