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
const BEAT: Nanos = Nanos(20 * MS);
const SILENCE: Nanos = Nanos(80 * MS);

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

/// Stores with more nodes than copies, in which two copies are enough.
fn roomy() -> impl Strategy<Value = Policy> {
    let wide = |policy: Policy| match policy.lookup {
        Lookup::Multicast => Policy { nodes: 5, write_quorum: 2, read_quorum: 2, ..policy },
        _ => Policy { nodes: 6, write_quorum: 2, read_quorum: 2, ..policy },
    };
    policies().prop_map(wide)
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
/// answered, and of which no write or deletion failed, is on it, and none of one that was deleted. A deletion that
/// found nothing is as if it had failed: another client's, which failed, may have been there before.
fn misnamed(seen: &[Seen], page: &Listing, now: Nanos) -> Option<Key> {
    let failed = |one: &&Seen| !matches!(one.ended, Some((_, Outcome::Done { .. })));
    let is_write = |one: &&Seen| one.task.is_write();
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

/// A store under load and under faults, healed at the end, then audited: every key is read. `watch`: its nodes make
/// copies for those that are silent.
fn play(policy: Policy, network: Network, seed: u64, operations: u64, watch: bool) -> World {
    let mut world = World::new(policy, CLIENTS, network, FAST_DISK, seed);
    if watch {
        world.watch(BEAT, SILENCE);
    }
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

/// What was answered is right, and every key is read and every name found in the end.
fn audit(world: &World) -> Result<(), TestCaseError> {
    prop_assert!(world.policy.is_strict());
    judge(&world.seen).map_err(TestCaseError::fail)?;
    prop_assert_eq!(wounded(world), 0, "every node has healed");
    let asked = world.seen.len() - KEYS as usize - 1;
    let page = world.pages.get(&asked).expect("all nodes are there");
    prop_assert_eq!(misnamed(&world.seen[..asked], page, world.now), None);
    let audit = &world.seen[asked..];
    prop_assert!(audit.iter().all(|one| !matches!(one.ended, Some((_, Outcome::Failed(_))) | None)));
    Ok(())
}

/// Nodes with that content of a key.
fn holding(world: &World, key: Key, content: u64) -> Vec<Peer> {
    let holds = |one: &Peer| {
        let mut objects = world.node(*one).objects();
        objects.any(|(known, object)| known == key && !object.deleted && object.content == content)
    };
    world.policy.peers().filter(holds).collect()
}

/// Of the nodes that are left: copies that they had to make for silent ones, and those that they have made.
fn spread(world: &World) -> (u64, u64) {
    let left = world.policy.peers().filter(|one| !world.cut.contains(one));
    let progress = left.map(|one| world.node(one).progress());
    progress.fold((0, 0), |(missing, made), one| (missing + one.missing, made + one.made))
}

/// Writes all keys, each with a content of its own from one on.
fn write_all(world: &mut World, keys: u64, first: u64) -> Result<(), TestCaseError> {
    for key in 0..keys {
        let outcome = world.act(0, Key(key), Task::Write { bytes: 100, content: first + key });
        prop_assert!(matches!(outcome, Outcome::Done { .. }), "{outcome:?}");
    }
    world.until(world.now + Nanos(2 * S));
    Ok(())
}

/// What of a key is the latest that any node holds.
fn latest(world: &World, key: Key) -> u64 {
    let all =
        world.policy.peers().flat_map(|one| world.node(one).objects().filter(|(known, _)| *known == key));
    all.max_by_key(|(_, object)| object.version).map_or(0, |(_, object)| object.content)
}

/// Writes each key three times, while copies of what was written before are under way: they are of the last.
fn overwrite_under_way(world: &mut World, keys: u64, random: &mut Stream) -> Result<(), TestCaseError> {
    for key in 0..keys {
        for round in 2..5 {
            world.request(0, Key(key), Task::Write { bytes: 100, content: 1000 * round + key });
            world.until(world.now + Nanos(random.below(MS)));
        }
    }
    world.until(world.now + Nanos(2 * S));
    for key in (0..keys).map(Key) {
        let holding = holding(world, key, latest(world, key));
        prop_assert_eq!(holding.len(), world.policy.copies as usize, "{:?} of {:?}", holding, key);
    }
    let (missing, made) = spread(world);
    prop_assert_eq!(missing, made);
    Ok(())
}

/// While a node is silent, clients write and delete in a bad network, in which another one is silent at times. Then all
/// is written once more, in a good one: each object has all of its copies, though the node is still away, and each copy
/// for it was counted once. In the end the node is back, by `left` with what it had; how many copies were made for it
/// in place of others.
fn write_while_silent(policy: Policy, network: Network, seed: u64, left: Left) -> Result<u64, TestCaseError> {
    const MANY: u64 = 16;
    let mut random = Stream::new(seed, "silent");
    let mut world = World::new(policy, CLIENTS, Network::FAST, FAST_DISK, seed);
    world.watch(BEAT, SILENCE);
    write_all(&mut world, MANY, 1)?;
    let [away, other] = [0, 1].map(|_| Peer(random.below(u64::from(policy.nodes)) as u32));
    world.cut.insert(away);
    world.until(world.now + Nanos(random.below(S)));
    world.network = network;
    for number in 0..30 {
        let key = Key(random.below(MANY));
        world.request(random.below(u64::from(CLIENTS)) as u32, key, task(&mut random, 100 + number));
        world.until(world.now + Nanos(random.below(40 * MS)));
        match random.below(8) {
            0 => drop(world.cut.insert(other)),
            1..4 => world.cut.retain(|one| *one == away),
            _ => {}
        }
    }
    world.network = Network::FAST;
    world.cut.retain(|one| *one == away);
    world.until(world.now + Nanos(2 * S));
    judge(&world.seen).map_err(TestCaseError::fail)?;
    let (missing, made) = spread(&world);
    prop_assert_eq!(missing, made, "what was written meanwhile has its copies");
    write_all(&mut world, MANY, 1000)?;
    let mut without = 0;
    for key in 0..MANY {
        let holding = holding(&world, Key(key), 1000 + key);
        prop_assert_eq!(holding.len(), policy.copies as usize, "{:?} of {}", holding, key);
        let mut objects = world.node(holding[0]).objects();
        let object = objects.find(|(known, _)| *known == Key(key)).map(|(_, object)| object.holders.clone());
        without += u64::from(object.is_some_and(|holders| holders.contains(&away)));
    }
    prop_assert_eq!(spread(&world), (missing + without, made + without));
    overwrite_under_way(&mut world, MANY, &mut random)?;
    // It comes back, and asks for what it has missed.
    world.cut.clear();
    match left {
        Left::All => world.heal(away),
        left => world.restart(away, left),
    }
    world.until(world.now + Nanos(3 * S));
    for key in 0..MANY {
        let latest = latest(&world, Key(key));
        let holding = holding(&world, Key(key), latest);
        prop_assert!(holding.len() >= policy.copies as usize, "{:?} of {}", holding, key);
        let read = world.act(1, Key(key), Task::Read);
        prop_assert!(matches!(read, Outcome::Done { content, .. } if content == latest), "{:?}", read);
    }
    judge(&world.seen).map_err(TestCaseError::fail)?;
    prop_assert!(policy.peers().all(|one| world.node(one).is_whole() && !world.node(one).is_spreading()));
    prop_assert!(policy.peers().all(|one| world.node(one).suspected().count() == 0));
    Ok(without)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn no_answered_write_is_lost_and_no_read_is_stale_while_nodes_make_copies_for_silent_ones(
        policy in policies(), network in networks(), seed in any::<u64>(),
    ) {
        audit(&play(policy, network, seed, 60, true))?;
    }

    #[test]
    fn what_is_written_while_a_node_is_silent_has_all_of_its_copies(
        policy in roomy(), network in networks(), seed in any::<u64>(),
        left in prop_oneof![Just(Left::All), Just(Left::Flushed), Just(Left::Nothing)],
    ) {
        write_while_silent(policy, network, seed, left)?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    #[test]
    fn no_answered_write_is_lost_and_no_read_is_stale_while_fewer_nodes_are_wounded_than_confirm(
        policy in policies(), network in networks(), seed in any::<u64>(),
    ) {
        audit(&play(policy, network, seed, 60, false))?;
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
        let [one, other] = [(); 2].map(|()| play(policy, network, seed, 10, false));
        prop_assert_eq!(format!("{:?}", one.seen), format!("{:?}", other.seen));
        prop_assert_eq!(one.counts.events, other.counts.events);
    }
}

#[test]
fn under_faults_most_operations_still_succeed() {
    let network = Network { loss: 0.02, ..Network::FAST };
    let (mut done, mut all) = (0, 0);
    for seed in 0..40 {
        let world = play(policy(Lookup::Multicast, 5, 3, 2), network, seed, 60, false);
        done += judge(&world.seen).expect("right");
        all += world.seen.len();
    }
    assert!(done * 2 > all, "{done} of {all}");
}

#[test]
fn copies_of_what_is_written_while_a_node_is_silent_are_reached() {
    let network = Network { loss: 0.05, ..Network::FAST };
    for (lookup, nodes) in
        [(Lookup::Multicast, 5), (Lookup::Ring { partitions: 64, zones: 3 }, 6), (Lookup::ElasticHash, 6)]
    {
        let made: u64 = (0..10)
            .map(|seed| {
                write_while_silent(policy(lookup, nodes, 3, 2), network, seed, Left::All).expect("right")
            })
            .sum();
        assert!(made > 20, "{lookup:?}: {made}");
    }
    let played = (0..20).map(|seed| play(policy(Lookup::Multicast, 5, 3, 2), network, seed, 60, true));
    let stand_ins: u64 = played.map(|world| world.counts.stand_ins).sum();
    assert!(stand_ins > 100, "{stand_ins}");
}
