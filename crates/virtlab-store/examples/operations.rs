//! Plays operations of 256 clients on 24 nodes, for a profiler:
//! `cargo run --release -p virtlab-store --example operations -- multicast|ring|hash OPERATIONS BYTES`.

#[path = "../tests/world/mod.rs"]
mod world;

use std::error::Error;
use virtlab_store::{Ack, Form, Lookup, Policy, Task, WrittenBy};
use virtlab_wire::Nanos;
use world::{Closed, FAST_DISK, Network, S, World};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let lookup = match arguments.next().as_deref() {
        Some("ring") => Lookup::Ring { partitions: 1 << 18, zones: 6 },
        Some("hash") => Lookup::ElasticHash,
        _ => Lookup::Multicast,
    };
    let operations: u64 = arguments.next().map_or(Ok(100_000), |one| one.parse())?;
    let bytes: u64 = arguments.next().map_or(Ok(10_000), |one| one.parse())?;
    let policy = Policy {
        nodes: 24,
        copies: 3,
        write_quorum: 2,
        read_quorum: 2,
        lookup,
        written_by: WrittenBy::Client,
        ack: Ack::Memory { cache_bytes: 1 << 30 },
        proxies: 0,
        question: Nanos(S),
        give_up: Nanos(100 * S),
        recovery: Form { streams: 4, rate_byte_per_s: None, scan: None },
    };
    let mut world = World::new(policy, 256, Network::GIGABIT, FAST_DISK, 1);
    for (name, task) in [("write", Task::Write { bytes, content: 1 }), ("read", Task::Read)] {
        let before = (world.now, world.counts);
        let closed = Closed { clients: 256, operations, keys: operations };
        let done = closed.play(&mut world, |_| task);
        let seconds = world.now.since(before.0).0 as f64 / S as f64;
        let messages = world.counts.messages - before.1.messages;
        println!(
            "{name}: {done} done, {:.0} a second of the model, {:.1} messages each, {} events",
            done as f64 / seconds,
            messages as f64 / operations as f64,
            world.counts.events - before.1.events,
        );
    }
    Ok(())
}
