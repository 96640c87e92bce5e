//! Whatever is cut, lost, doubled and reordered, and whoever dies: what was answered stays, and no read is stale.

mod world;

use proptest::prelude::*;
use std::collections::BTreeMap;
use virtlab_load::random::Stream;
use virtlab_store::{Ack, Form, Key, Left, Listing, Lookup, Outcome, Peer, Policy, Task, Version, WrittenBy};
use virtlab_wire::Nanos;
use world::{FAST_DISK, MS, Network, S, Seen, World};

const CLIENTS: u32 = 3;
const KEYS: u64 = 4;

fn policy(lookup: Lookup, nodes: u32, copies: u32, write_quorum: u32) -> Policy {
    Policy {
        nodes,
        copies,
        write_quorum,
        read_quorum: copies - write_quorum + 1,
        lookup,
        written_by: WrittenBy::Client,
        ack: Ack::Disk,
        proxies: 0,
        question: Nanos(20 * MS),
        give_up: Nanos(400 * MS),
        recovery: Form { streams: 4, rate_byte_per_s: None, scan: None },
    }
}

fn policies() -> impl Strategy<Value = Policy> {
    let shapes = prop_oneof![
        Just((Lookup::Multicast, 5)),
        Just((Lookup::Multicast, 3)),
        Just((Lookup::Ring { partitions: 64, zones: 3 }, 6)),
        Just((Lookup::ElasticHash, 3)),
    ];
    let written = prop_oneof![
        Just((WrittenBy::Client, 0)),
        Just((WrittenBy::Proxy, 2)),
        Just((WrittenBy::Primary, 0)),
        Just((WrittenBy::Primary, 2)),
    ];
    let ack = prop_oneof![Just(Ack::Disk), Just(Ack::Memory { cache_bytes: 3000 })];
    (shapes, written, ack, 2u32..=3).prop_map(|((lookup, nodes), (written_by, proxies), ack, quorum)| {
        Policy { written_by, proxies, ack, ..policy(lookup, nodes, 3, quorum) }
    })
}

fn networks() -> impl Strategy<Value = Network> {
    (0.0..0.15f64, 0.0..0.2f64, 0u64..60).prop_map(|(loss, duplication, jitter)| Network {
        loss,
        duplication,
        jitter: Nanos(jitter * MS),
        ..Network::FAST
    })
}

/// The latest version whose write was answered before an instant, with what it says: `None`, that the object is
/// deleted.
fn answered(seen: &[Seen], key: Key, before: Nanos) -> Option<(Version, Option<u64>)> {
    seen.iter()
        .filter(|one| one.key == key)
        .filter_map(|one| match (one.task, one.ended?) {
            (Task::Write { content, .. }, (at, Outcome::Done { version, .. })) if at < before => {
                Some((version, Some(content)))
            }
            (Task::Delete, (at, Outcome::Done { version, .. })) if at < before => Some((version, None)),
            _ => None,
        })
        .max_by_key(|&(version, _)| version)
}

/// Versions that a client was told, with their content.
fn contents(seen: &[Seen]) -> BTreeMap<Version, u64> {
    seen.iter()
        .filter_map(|one| match (one.task, one.ended?.1) {
            (Task::Write { content, .. }, Outcome::Done { version, .. }) => Some((version, content)),
            _ => None,
        })
        .collect()
}

/// How many operations succeeded, or what is wrong with what clients saw.
fn judge(seen: &[Seen]) -> Result<usize, String> {
    let contents = contents(seen);
    let mut done = 0;
    for one in seen {
        let Some((at, outcome)) = one.ended else { return Err(format!("without an end: {one:?}")) };
        let before = answered(seen, one.key, one.began);
        match (one.task, outcome) {
            (Task::Read | Task::Open, Outcome::Done { version, content, .. }) => {
                done += 1;
                if before.is_some_and(|(later, _)| version < later) {
                    return Err(format!("stale: {one:?}, {before:?} was answered"));
                }
                if contents.get(&version).is_some_and(|&written| written != content) {
                    return Err(format!("another content: {one:?}"));
                }
                let writes = |other: &Seen| {
                    other.key == one.key
                        && other.began <= at
                        && matches!(other.task, Task::Write { content: written, .. } if written == content)
                };
                if !seen.iter().any(writes) {
                    return Err(format!("nobody wrote that: {one:?}"));
                }
            }
            (Task::Read | Task::Open, Outcome::Missing) => {
                done += 1;
                let deletes = |other: &Seen| {
                    other.key == one.key && other.began <= at && matches!(other.task, Task::Delete)
                };
                if let Some((_, Some(_))) = before
                    && !seen.iter().any(deletes)
                {
                    return Err(format!("lost: {one:?}, {before:?} was answered"));
                }
            }
            (Task::List, Outcome::Done { .. }) => done += 1,
            (_, Outcome::Done { version, .. }) => {
                done += 1;
                if before.is_some_and(|(later, _)| version <= later) {
                    return Err(format!("not later than what was answered: {one:?}, {before:?}"));
                }
            }
            _ => {}
        }
    }
    Ok(done)
}

/// What is wrong with a page of all names that was asked for after all else: a name of an object whose last write was
/// answered, and of which no write or deletion failed, is on it, and none of one that was deleted. A deletion that is
/// tried again finds nothing if it had happened, so one that did is as if it had failed.
fn misnamed(seen: &[Seen], page: &Listing, now: Nanos) -> Option<Key> {
    let failed = |one: &&Seen| !matches!(one.ended, Some((_, Outcome::Done { .. })));
    let is_write = |one: &&Seen| matches!(one.task, Task::Write { .. } | Task::Delete);
    (0..KEYS).map(Key).find(|key| {
        let doubted = seen.iter().filter(|one| one.key == *key).filter(is_write).any(|one| failed(&one));
        let there = answered(seen, *key, now).is_some_and(|(_, content)| content.is_some());
        !doubted && page.names.contains(key) != there
    })
}

fn task(random: &mut Stream, content: u64) -> Task {
    match random.below(11) {
        0..4 => Task::Write { bytes: random.below(2000), content },
        4..8 => Task::Read,
        8 => Task::Open,
        9 => Task::List,
        _ => Task::Delete,
    }
}

/// Nodes of which it is not known that they have all they confirmed.
fn wounded(world: &World) -> u32 {
    world.policy.peers().filter(|&one| !world.node(one).is_whole()).count() as u32
}

/// What befalls the store next. Fewer nodes than the copies before an answer are wounded at any time.
fn befall(world: &mut World, random: &mut Stream) {
    let nodes = u64::from(world.policy.nodes);
    let victim = Peer(random.below(nodes) as u32);
    let may_wound = !world.node(victim).is_whole() || wounded(world) + 1 < world.policy.write_quorum;
    match random.below(8) {
        0 | 1 => {
            world.cut.insert(victim);
        }
        2..5 => world.cut.clear(),
        5 if may_wound => world.restart(victim, Left::Nothing),
        6 if may_wound => world.restart(victim, Left::Flushed),
        7 => world.heal(victim),
        _ => {}
    }
}

/// A store under load and under faults, healed at the end, then audited: every key is read.
fn play(policy: Policy, network: Network, seed: u64, operations: u64) -> World {
    let mut world = World::new(policy, CLIENTS, network, FAST_DISK, seed);
    world.skew(Nanos(seed % 300 * MS));
    let mut random = Stream::new(seed, "faults");
    for number in 0..operations {
        let key = Key(random.below(KEYS));
        let task = task(&mut random, number + 1);
        world.request(random.below(u64::from(CLIENTS)) as u32, key, task);
        let gap = random.below(60 * MS);
        world.until(world.now + Nanos(gap));
        if random.below(3) == 0 {
            befall(&mut world, &mut random);
        }
    }
    world.cut.clear();
    world.network = Network::FAST;
    world.until(world.now + Nanos(20 * S));
    world.act(0, Key(0), Task::List);
    for key in 0..KEYS {
        world.act(0, Key(key), Task::Read);
    }
    world
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    #[test]
    fn no_answered_write_is_lost_and_no_read_is_stale_while_fewer_nodes_are_wounded_than_confirm(
        policy in policies(), network in networks(), seed in any::<u64>(),
    ) {
        let world = play(policy, network, seed, 60);
        prop_assert!(policy.is_strict());
        judge(&world.seen).map_err(TestCaseError::fail)?;
        prop_assert_eq!(wounded(&world), 0, "every node has healed");
        let asked = world.seen.len() - KEYS as usize - 1;
        let page = world.pages.get(&asked).expect("all nodes are there");
        prop_assert_eq!(misnamed(&world.seen[..asked], page, world.now), None);
        let audit = &world.seen[asked..];
        prop_assert!(audit.iter().all(|one| !matches!(one.ended, Some((_, Outcome::Failed(_))) | None)));
    }

    #[test]
    fn with_two_of_three_nodes_away_an_operation_fails_or_is_right(
        lookup in prop_oneof![Just(Lookup::Multicast), Just(Lookup::ElasticHash),
                              Just(Lookup::Ring { partitions: 12, zones: 3 })],
        network in networks(), seed in any::<u64>(), quorum in 2u32..=3,
    ) {
        let mut world = World::new(policy(lookup, 3, 3, quorum), CLIENTS, network, FAST_DISK, seed);
        let mut random = Stream::new(seed, "away");
        for number in 0..60 {
            if number % 10 == 0 {
                let there = Peer(random.below(3) as u32);
                world.cut = if number % 20 == 0 {
                    world.policy.peers().filter(|&one| one != there).collect()
                } else {
                    Default::default()
                };
            }
            let task = task(&mut random, number + 1);
            world.request(random.below(u64::from(CLIENTS)) as u32, Key(random.below(KEYS)), task);
            world.until(world.now + Nanos(random.below(100 * MS)));
        }
        world.until(world.now + Nanos(2 * S));
        judge(&world.seen).map_err(TestCaseError::fail)?;
    }

    #[test]
    fn of_clients_that_create_one_object_at_once_by_multicast_none_hides_what_another_was_answered(
        network in networks(), seed in any::<u64>(), nodes in 4u32..12, quorum in 2u32..=3, keys in 1u64..8,
    ) {
        let mut world = World::new(policy(Lookup::Multicast, nodes, 3, quorum), CLIENTS, network, FAST_DISK, seed);
        world.skew(Nanos(seed % 300 * MS));
        let mut random = Stream::new(seed, "creators");
        for number in 0..keys * 6 {
            let victim = Peer(random.below(u64::from(nodes)) as u32);
            if random.below(10) == 0 && wounded(&world) + 1 < quorum {
                world.restart(victim, Left::Nothing);
            }
            let task = Task::Write { bytes: 100, content: number + 1 };
            world.request((number % u64::from(CLIENTS)) as u32, Key(number / 6), task);
            world.until(world.now + Nanos(random.below(network.jitter.0 + 100_000)));
        }
        world.until(world.now + Nanos(2 * S));
        for _ in 0..4 {
            for key in 0..keys {
                world.request(random.below(u64::from(CLIENTS)) as u32, Key(key), Task::Read);
            }
            world.until(world.now + Nanos(2 * S));
        }
        judge(&world.seen).map_err(TestCaseError::fail)?;
    }

    #[test]
    fn the_same_seed_plays_the_same(policy in policies(), network in networks(), seed in any::<u64>()) {
        let [one, other] = [(); 2].map(|()| play(policy, network, seed, 10));
        prop_assert_eq!(format!("{:?}", one.seen), format!("{:?}", other.seen));
        prop_assert_eq!(one.counts.events, other.counts.events);
    }
}

#[test]
fn under_faults_most_operations_still_succeed() {
    let network = Network { loss: 0.02, ..Network::FAST };
    let (mut done, mut all) = (0, 0);
    for seed in 0..40 {
        let world = play(policy(Lookup::Multicast, 5, 3, 2), network, seed, 60);
        done += judge(&world.seen).expect("right");
        all += world.seen.len();
    }
    assert!(done * 2 > all, "{done} of {all}");
}
