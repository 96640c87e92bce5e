//! 24 nodes and 256 clients at full speed in virtual time, beside what their links carry.

mod world;

use virtlab_store::{Ack, Form, Left, Lookup, Peer, Policy, Task, WrittenBy};
use virtlab_wire::Nanos;
use world::{Closed, FAST_DISK, Network, S, World};

const RATE: f64 = 110e6;
const NODES: u32 = 24;
const RING: Lookup = Lookup::Ring { partitions: 262_144, zones: 6 };
const WRITE: Task = Task::Write { bytes: 1_000_000, content: 1 };

fn policy(lookup: Lookup, copies: u32) -> Policy {
    Policy {
        nodes: NODES,
        copies,
        write_quorum: copies,
        read_quorum: 1,
        lookup,
        written_by: WrittenBy::Client,
        ack: Ack::Memory { cache_bytes: 1 << 40 },
        proxies: 0,
        question: Nanos(10 * S),
        give_up: Nanos(1000 * S),
        recovery: Form { streams: 8, rate_byte_per_s: None, scan: None },
    }
}

/// Payload in byte/s, of operations on objects of 1 MB by so many clients.
fn throughput(world: &mut World, clients: u32, operations: u64, task: Task) -> f64 {
    let began = world.now;
    let done = Closed { clients, operations, keys: operations }.play(world, |_| task);
    assert_eq!(done, operations);
    done as f64 * 1e6 / (world.now.since(began).0 as f64 / S as f64)
}

#[test]
fn many_clients_write_and_read_what_the_links_of_the_nodes_carry() {
    for (lookup, copies) in [(Lookup::Multicast, 3), (RING, 3), (Lookup::ElasticHash, 2)] {
        let mut world = World::new(policy(lookup, copies), 256, Network::GIGABIT, FAST_DISK, 1);
        let write = throughput(&mut world, 256, 6000, WRITE);
        let read = throughput(&mut world, 256, 6000, Task::Read);
        let carried = RATE * f64::from(NODES);
        let (written, sent) = (write / (carried / f64::from(copies)), read / carried);
        assert!(
            written <= 1.0 && written > 0.8,
            "{lookup:?}: {written} written, {sent} read of what the links carry"
        );
        assert!(
            sent <= 1.0 && sent > 0.8,
            "{lookup:?}: {written} written, {sent} read of what the links carry"
        );
    }
}

#[test]
fn one_client_writes_at_its_own_link_divided_by_the_copies_or_all_of_it_by_a_proxy() {
    let mut own = World::new(policy(RING, 3), 1, Network::GIGABIT, FAST_DISK, 1);
    let by_client = throughput(&mut own, 1, 100, WRITE);
    let policy = Policy { written_by: WrittenBy::Proxy, proxies: 4, ..policy(RING, 3) };
    let mut led = World::new(policy, 1, Network::GIGABIT, FAST_DISK, 1);
    let by_proxy = throughput(&mut led, 1, 100, WRITE);
    assert!((by_client / (RATE / 3.0) - 1.0).abs() < 0.02, "{by_client}");
    // The proxy has the whole object before it sends the first copy: 1 of 4 turns of a link, instead of 1 of 3.
    assert!((by_proxy / (RATE / 4.0) - 1.0).abs() < 0.02, "{by_proxy}");
}

#[test]
fn more_clients_gain_until_the_links_are_full() {
    let mut before = 0.0;
    for clients in [2, 8, 32, 128] {
        let mut world = World::new(policy(RING, 3), clients, Network::GIGABIT, FAST_DISK, 1);
        let now = throughput(&mut world, clients, 2000, WRITE);
        assert!(now > 1.1 * before, "{clients} clients: {now} after {before}");
        before = now;
    }
}

#[test]
fn clients_wait_longer_while_a_node_recovers_at_full_speed() {
    let times = Policy { question: Nanos(S), give_up: Nanos(4 * S), ..policy(RING, 3) };
    let policy = Policy { write_quorum: 2, read_quorum: 2, ..times };
    let mut world = World::new(policy, 64, Network::GIGABIT, FAST_DISK, 1);
    throughput(&mut world, 64, 4000, WRITE);
    let quiet = throughput(&mut world, 64, 4000, Task::Read);
    world.restart(Peer(3), Left::Nothing);
    world.until(world.now + policy.give_up);
    let began = world.now;
    let busy = throughput(&mut world, 64, 4000, Task::Read);
    assert!(busy < quiet, "{busy} of {quiet}");
    while world.node(Peer(3)).is_recovering() {
        assert!(world.step(), "a recovery without an end");
    }
    let seconds = world.now.since(began).0 as f64 / S as f64;
    let alone = world.node(Peer(3)).progress().bytes as f64 / RATE;
    assert!(seconds > alone, "{seconds} s, alone {alone} s");
}
