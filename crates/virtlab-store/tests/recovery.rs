//! How long recoveries take as they are played, beside their closed forms; and what each form does.

mod world;

use virtlab_disk::Model;
use virtlab_store::closed_form::{many_to_many_s, over_one_link_s, partitions_of_a_node, partitions_s};
use virtlab_store::{Ack, Form, Key, Left, Lookup, Outcome, Peer, Policy, Scan, Task, WrittenBy};
use virtlab_wire::Nanos;
use world::{FAST_DISK, MS, Network, S, World};

const RATE: f64 = 110e6;
const LOST: Peer = Peer(3);

fn policy(nodes: u32, copies: u32, lookup: Lookup, recovery: Form) -> Policy {
    Policy {
        nodes,
        copies,
        write_quorum: copies,
        read_quorum: 1,
        lookup,
        written_by: WrittenBy::Client,
        ack: Ack::Disk,
        proxies: 0,
        question: Nanos(S),
        give_up: Nanos(100 * S),
        recovery,
    }
}

fn streams(streams: u32) -> Form {
    Form { streams, rate_byte_per_s: None, scan: None }
}

/// A store with objects in it, on links that are free again.
fn filled(policy: Policy, network: Network, disk: Model, objects: u64, bytes: u64) -> World {
    let mut world = World::new(policy, 1, Network::FAST, disk, 1);
    for key in 0..objects {
        world.act(0, Key(key), Task::Write { bytes, content: key });
    }
    assert!(world.seen.iter().all(|one| matches!(one.ended, Some((_, Outcome::Done { .. })))));
    world.network = network;
    world
}

/// Seconds from the end of the settling time until the wiped node is whole, and the bytes that it got.
fn recovered(world: &mut World, lost: Peer) -> (f64, u64) {
    world.restart(lost, Left::Nothing);
    let begins = world.now + world.policy.give_up;
    while world.node(lost).is_recovering() {
        assert!(world.step(), "a recovery without an end");
    }
    let progress = world.node(lost).progress();
    assert_eq!(progress.made, progress.missing);
    (world.now.since(begins).0 as f64 / S as f64, progress.bytes)
}

fn near(value: f64, expected: f64, within: f64) {
    assert!((value / expected - 1.0).abs() <= within, "{value} is not {expected}");
}

#[test]
fn many_to_one_fills_the_link_of_the_wiped_node_125_gb_in_18_9_minutes() {
    let policy = policy(24, 3, Lookup::Ring { partitions: 1 << 12, zones: 6 }, streams(16));
    let mut world = filled(policy, Network::GIGABIT, FAST_DISK, 10_000, 100_000_000);
    let (seconds, bytes) = recovered(&mut world, LOST);
    near(bytes as f64, 125e9, 0.05);
    near(seconds, over_one_link_s(bytes as f64, RATE), 0.001);
    near(seconds * 125e9 / bytes as f64 / 60.0, 18.9, 0.003);
}

#[test]
fn objects_by_multicast_lie_evenly_and_recover_as_others_do() {
    let mut world =
        filled(policy(24, 3, Lookup::Multicast, streams(16)), Network::GIGABIT, FAST_DISK, 2_000, 10_000_000);
    let (seconds, bytes) = recovered(&mut world, LOST);
    near(bytes as f64, 2.5e9, 0.2);
    near(seconds, over_one_link_s(bytes as f64, RATE), 0.01);
}

#[test]
fn a_node_that_confirms_from_memory_waits_for_no_time_out_between_its_pulls() {
    let policy = policy(6, 3, Lookup::ElasticHash, streams(4));
    let policy = Policy { ack: Ack::Memory { cache_bytes: 1 << 30 }, ..policy };
    let mut world = filled(policy, Network::GIGABIT, FAST_DISK, 400, 250_000);
    let (seconds, bytes) = recovered(&mut world, LOST);
    near(seconds, over_one_link_s(bytes as f64, RATE), 0.05);
}

#[test]
fn survivors_among_themselves_need_as_much_less_as_they_are_many() {
    let policy = policy(24, 3, Lookup::Ring { partitions: 1 << 12, zones: 6 }, streams(8));
    let mut world = filled(policy, Network::GIGABIT, FAST_DISK, 20_000, 1_000_000);
    let lost = world.node(LOST).objects().count() as u64;
    let began = world.now;
    world.cut.insert(LOST);
    let survivors: Vec<Peer> = policy.peers().filter(|&one| one != LOST).collect();
    for &one in &survivors {
        world.spread(one, LOST);
    }
    let missing: u64 = survivors.iter().map(|&one| world.node(one).progress().missing).sum();
    assert_eq!(missing, lost);
    let made = |world: &World| survivors.iter().map(|&one| world.node(one).progress().made).sum::<u64>();
    while made(&world) < missing {
        assert!(world.step(), "a recovery without an end");
    }
    let seconds = world.now.since(began).0 as f64 / S as f64;
    let least = many_to_many_s(lost as f64 * 1e6, 23, RATE);
    assert!(seconds >= least && seconds < 8.0 * least, "{seconds} s, at least {least} s");
    assert!(seconds < 0.5 * over_one_link_s(lost as f64 * 1e6, RATE));
}

#[test]
fn each_survivor_gets_about_as_many_of_the_copies_wherever_holders_are() {
    for lookup in [Lookup::Multicast, Lookup::Ring { partitions: 4096, zones: 6 }, Lookup::ElasticHash] {
        let policy = policy(12, 3, lookup, streams(4));
        let mut world = filled(policy, Network::FAST, FAST_DISK, 2400, 1000);
        let survivors: Vec<Peer> = policy.peers().filter(|&one| one != LOST).collect();
        let held = |world: &World| -> Vec<usize> {
            survivors.iter().map(|&one| world.node(one).objects().count()).collect()
        };
        let before = held(&world);
        for &one in &survivors {
            world.spread(one, LOST);
        }
        while survivors.iter().any(|&one| world.node(one).is_spreading()) {
            assert!(world.step(), "copies without an end");
        }
        let gained: Vec<usize> =
            held(&world).iter().zip(before).map(|(after, before)| after - before).collect();
        let getting: Vec<usize> = gained.into_iter().filter(|&gained| gained > 0).collect();
        let mean = getting.iter().sum::<usize>() as f64 / getting.len() as f64;
        assert!(getting.len() >= 9 && mean > 30.0, "{lookup:?}: {getting:?}");
        assert!(getting.iter().all(|&one| (one as f64) < 1.5 * mean), "{lookup:?}: {getting:?}");
    }
}

#[test]
fn survivors_that_hear_nothing_of_a_node_make_its_copies_among_themselves() {
    let lookup = Lookup::Ring { partitions: 1 << 12, zones: 6 };
    let mut world = filled(policy(24, 3, lookup, streams(4)), Network::FAST, FAST_DISK, 2000, 1000);
    let lost = world.node(LOST).objects().count() as u64;
    let (period, after) = (Nanos(S), Nanos(5 * S));
    world.watch(period, after);
    world.until(world.now + Nanos(60 * S));
    let survivors: Vec<Peer> = world.policy.peers().filter(|&one| one != LOST).collect();
    let suspect = |world: &World| survivors.iter().filter(|&&one| world.node(one).suspects(LOST)).count();
    assert_eq!(suspect(&world), 0);
    let cut = world.now;
    world.cut.insert(LOST);
    world.until(cut + after.since(period));
    assert_eq!(suspect(&world), 0, "it has spoken less than `after` ago");
    world.until(cut + after + Nanos(MS));
    assert_eq!(suspect(&world), 23, "all have heard it last at the same time");
    world.until(cut + after + Nanos(S));
    let made: u64 = survivors.iter().map(|&one| world.node(one).progress().made).sum();
    assert_eq!(made, lost);
    world.cut.clear();
    world.until(world.now + period + Nanos(MS));
    assert_eq!(suspect(&world), 0, "it speaks again");
}

#[test]
fn survivors_at_a_rate_take_as_long_as_the_one_with_most_copies_to_make() {
    let lookup = Lookup::Ring { partitions: 1 << 12, zones: 6 };
    let rate = Form { rate_byte_per_s: Some(1_000_000), ..streams(4) };
    let mut world = filled(policy(24, 3, lookup, rate), Network::FAST, FAST_DISK, 2000, 100_000);
    let survivors: Vec<Peer> = world.policy.peers().filter(|&one| one != LOST).collect();
    let began = world.now;
    world.cut.insert(LOST);
    survivors.iter().for_each(|&one| world.spread(one, LOST));
    let of_each = |world: &World| survivors.iter().map(|&one| world.node(one).progress()).collect::<Vec<_>>();
    let most = of_each(&world).iter().map(|one| one.missing).max().unwrap();
    while of_each(&world).iter().any(|one| one.made < one.missing) {
        assert!(world.step(), "a recovery without an end");
    }
    // The last copy waits for all before it, each of a tenth of a second.
    near(world.now.since(began).0 as f64 / S as f64, (most - 1) as f64 * 0.1, 0.02);
}

#[test]
fn what_is_written_while_a_node_is_silent_gets_its_copies_at_the_same_rate() {
    const OBJECTS: u64 = 200;
    let ring = Lookup::Ring { partitions: 1 << 10, zones: 7 };
    let form = Form { rate_byte_per_s: Some(1_000_000), ..streams(4) };
    let policy = Policy { write_quorum: 2, read_quorum: 2, give_up: Nanos(S), ..policy(7, 3, ring, form) };
    let mut world = filled(policy, Network::FAST, FAST_DISK, 0, 0);
    world.watch(Nanos(10 * MS), Nanos(50 * MS));
    world.cut.insert(LOST);
    world.until(world.now + Nanos(100 * MS));
    let of_lost =
        (0..OBJECTS).filter(|&key| policy.places(Key(key)).expect("a ring").contains(&LOST)).count() as u64;
    let survivors: Vec<Peer> = policy.peers().filter(|&one| one != LOST).collect();
    let of_each = |world: &World| survivors.iter().map(|&one| world.node(one).progress()).collect::<Vec<_>>();
    for round in 1..=2 {
        let (began, before) = (world.now, of_each(&world));
        for key in 0..OBJECTS {
            let written = world.act(0, Key(key), Task::Write { bytes: 100_000, content: round * 1000 + key });
            assert!(matches!(written, Outcome::Done { .. }), "two of three are enough");
        }
        world.until(world.now + Nanos(MS));
        let all = of_each(&world);
        assert_eq!(all.iter().map(|one| one.missing).sum::<u64>(), round * of_lost);
        assert!(survivors.iter().any(|&one| world.node(one).is_spreading()), "it takes its time");
        while of_each(&world).iter().any(|one| one.made < one.missing) {
            assert!(world.step(), "copies without an end");
        }
        let most = all.iter().zip(&before).map(|(after, before)| after.missing - before.missing).max();
        near(world.now.since(began).0 as f64 / S as f64, (most.unwrap() - 1) as f64 * 0.1, 0.05);
        // The second time, who has the first version gets the second.
        let held: Vec<_> = survivors.iter().flat_map(|&one| world.node(one).objects()).collect();
        assert!(held.iter().all(|(key, object)| object.content == round * 1000 + key.0));
        assert_eq!(held.len() as u64, 3 * OBJECTS);
    }
    assert!(survivors.iter().all(|&one| !world.node(one).is_spreading()));
    assert_eq!(of_each(&world).iter().map(|one| one.bytes).sum::<u64>(), 2 * of_lost * 100_000);
}

#[test]
fn versions_that_come_while_a_copy_waits_are_one_copy_and_none_where_no_node_is_left() {
    for (nodes, made) in [(4, 3), (3, 0)] {
        let form = Form { rate_byte_per_s: Some(1000), ..streams(1) };
        let policy = policy(nodes, 3, Lookup::Ring { partitions: 64, zones: nodes }, form);
        let policy = Policy { write_quorum: 2, read_quorum: 2, give_up: Nanos(S), ..policy };
        let mut world = filled(policy, Network::FAST, FAST_DISK, 0, 0);
        let lost = policy.places(Key(1)).expect("a ring")[1];
        world.watch(Nanos(10 * MS), Nanos(50 * MS));
        world.cut.insert(lost);
        world.until(world.now + Nanos(100 * MS));
        for content in 1..=5 {
            world.act(0, Key(1), Task::Write { bytes: 1000, content });
        }
        world.until(world.now + Nanos(10 * S));
        let left = || policy.peers().filter(|&one| one != lost);
        let held = left().filter(|&one| world.node(one).objects().any(|(_, object)| object.content == 5));
        assert_eq!(held.count(), 3.min(nodes as usize - 1));
        let all: u64 = left().map(|one| world.node(one).progress().made).sum();
        assert!(all <= made && (made == 0 || all > 0), "{all}: the first, and the last of those that waited");
        assert_eq!(left().any(|one| world.node(one).is_spreading()), made == 0);
        // It was silent and has lost nothing: it asks for what it has missed, and nobody makes more.
        world.cut.clear();
        world.heal(lost);
        world.until(world.now + Nanos(3 * S));
        assert!(world.node(lost).objects().any(|(_, object)| object.content == 5));
        for one in policy.peers() {
            let progress = world.node(one).progress();
            assert_eq!((progress.missing, world.node(one).is_spreading()), (progress.made, false));
        }
    }
}

#[test]
fn survivors_make_the_copies_of_two_nodes_and_take_over_what_a_third_had_begun() {
    let ring = Lookup::Ring { partitions: 1 << 10, zones: 7 };
    let policy = Policy { give_up: Nanos(S), ..policy(7, 3, ring, streams(1)) };
    let mut world = filled(policy, Network::GIGABIT, FAST_DISK, 300, 1_000_000);
    world.watch(Nanos(10 * MS), Nanos(50 * MS));
    world.until(world.now + Nanos(20 * MS));
    world.cut.extend([Peer(1), Peer(4)]);
    world.until(world.now + Nanos(300 * MS));
    assert!(world.node(Peer(2)).is_spreading() && world.node(Peer(2)).progress().made > 0);
    world.cut.insert(Peer(2));
    world.until(world.now + Nanos(60 * S));
    let left: Vec<Peer> = policy.peers().filter(|one| !world.cut.contains(one)).collect();
    let mut copies = std::collections::BTreeMap::new();
    for (key, object) in left.iter().flat_map(|&one| world.node(one).objects()) {
        let (count, held) = copies.entry(key).or_insert((0, false));
        *count += 1;
        *held |= object.holders.iter().any(|one| left.contains(one));
    }
    let of_holders: Vec<u32> = copies.values().filter(|(_, held)| *held).map(|&(count, _)| count).collect();
    assert!(of_holders.len() > 250, "few objects had all three holders among the lost");
    assert!(of_holders.iter().all(|&count| count == 3), "{of_holders:?}");
    for one in left {
        let progress = world.node(one).progress();
        assert_eq!((progress.made, world.node(one).is_spreading()), (progress.missing, false));
    }
}

#[test]
fn a_wiped_node_gets_its_copies_from_stand_ins_where_holders_lost_theirs() {
    let form = Form { rate_byte_per_s: Some(10_000), ..streams(4) };
    let policy = Policy { give_up: Nanos(S), ..policy(6, 2, Lookup::ElasticHash, form) };
    let mut world = filled(policy, Network::FAST, FAST_DISK, 100, 1000);
    let lost = world.node(Peer(0)).objects().count();
    world.spread(Peer(1), Peer(0));
    world.until(world.now + Nanos(60 * S));
    world.restart(Peer(0), Left::Nothing);
    world.until(world.now + policy.give_up + Nanos(S));
    let pulled = world.node(Peer(0)).objects().count();
    assert!(pulled > 0 && pulled < lost);
    // Its mirror loses everything, too; what is left of both is what stands in for the first.
    world.restart(Peer(1), Left::Nothing);
    world.until(world.now + Nanos(30 * S));
    for peer in [Peer(0), Peer(1)] {
        assert!(world.node(peer).is_whole());
        assert_eq!(world.node(peer).objects().count(), lost);
    }
}

#[test]
fn one_stream_takes_a_turn_for_each_object() {
    let network = Network { delay: Nanos(5 * MS), ..Network::GIGABIT };
    let disk = Model { latency_ns: 8 * MS, ..FAST_DISK };
    let mut world = filled(policy(4, 2, Lookup::ElasticHash, streams(1)), network, disk, 1000, 100_000);
    let (seconds, bytes) = recovered(&mut world, LOST);
    // Ask and send, over the delay twice; read, then write and flush; each byte over a link.
    let turn = 2.0 * 0.005 + 2.0 * 0.008 + 100_000.0 / RATE;
    near(seconds, bytes as f64 / 100_000.0 * turn, 0.01);
    let mut several = filled(policy(4, 2, Lookup::ElasticHash, streams(8)), network, disk, 1000, 100_000);
    near(seconds / recovered(&mut several, LOST).0, 8.0, 0.05);
}

#[test]
fn one_stream_of_1_25_mb_per_s_recovers_83_gb_in_18_5_hours() {
    let form = Form { rate_byte_per_s: Some(1_250_000), ..streams(1) };
    let mut world =
        filled(policy(24, 2, Lookup::ElasticHash, form), Network::GIGABIT, FAST_DISK, 10_000, 100_000_000);
    let (seconds, bytes) = recovered(&mut world, LOST);
    near(bytes as f64, 83e9, 0.07);
    near(seconds, over_one_link_s(bytes as f64, 1.25e6), 0.01);
    near(seconds * 83e9 / bytes as f64 / 3600.0, 18.5, 0.01);
}

#[test]
fn a_scan_costs_its_partitions_whatever_is_in_them() {
    let lookup = Lookup::Ring { partitions: 262_144, zones: 6 };
    let form = Form { scan: Some(Scan { cost: Nanos(1_040 * MS), at_once: 1 }), ..streams(4) };
    for (objects, bytes) in [(0, 0), (500, 1_000_000)] {
        let mut world = filled(policy(24, 3, lookup, form), Network::GIGABIT, FAST_DISK, objects, bytes);
        let (seconds, _) = recovered(&mut world, LOST);
        near(seconds, partitions_s(partitions_of_a_node(262_144, 3, 24), 1.04, 1), 0.0001);
        near(seconds / 3600.0, 9.5, 0.01);
    }
}

#[test]
fn partitions_scanned_at_the_same_time_cost_as_much_less() {
    let lookup = Lookup::Ring { partitions: 2400, zones: 6 };
    let form = Form { scan: Some(Scan { cost: Nanos(S), at_once: 7 }), ..streams(4) };
    let mut world = filled(policy(24, 3, lookup, form), Network::FAST, FAST_DISK, 100, 1000);
    let (seconds, _) = recovered(&mut world, LOST);
    near(seconds, partitions_s(300, 1.0, 7), 0.001);
}

#[test]
fn clients_read_and_write_while_a_node_recovers() {
    let form = Form { rate_byte_per_s: Some(1_000_000), ..streams(2) };
    let policy = Policy { write_quorum: 2, read_quorum: 2, ..policy(6, 3, Lookup::ElasticHash, form) };
    let mut world = filled(policy, Network::GIGABIT, FAST_DISK, 200, 100_000);
    world.restart(LOST, Left::Nothing);
    world.until(world.now + policy.give_up + Nanos(2 * S));
    assert!(world.node(LOST).is_recovering());
    for key in 0..100 {
        let bytes = 50_000;
        assert!(matches!(
            world.act(0, Key(key), Task::Write { bytes, content: 1000 + key }),
            Outcome::Done { .. }
        ));
        let read = world.act(0, Key(key), Task::Read);
        assert!(matches!(read, Outcome::Done { content, bytes: 50_000, .. } if content == 1000 + key));
    }
    assert!(world.node(LOST).is_recovering());
}

/// A store by multicast in which two of three copies are enough.
fn roomy() -> Policy {
    let policy = policy(6, 3, Lookup::Multicast, streams(4));
    Policy { write_quorum: 2, read_quorum: 2, question: Nanos(20 * MS), give_up: Nanos(400 * MS), ..policy }
}

fn holders(world: &World, key: Key, content: u64) -> Vec<Peer> {
    let holds =
        |peer: &Peer| world.node(*peer).objects().any(|(at, one)| at == key && one.content == content);
    world.policy.peers().filter(holds).collect()
}

#[test]
fn a_copy_that_a_failed_write_left_does_not_come_back_once_it_was_replaced_elsewhere() {
    let write = |content| Task::Write { bytes: 1000, content };
    let slow = Model { latency_ns: 5 * MS, ..FAST_DISK };
    let mut others = 0;
    for key in (0..20).map(Key) {
        let chosen = {
            let mut world = World::new(roomy(), 1, Network::FAST, FAST_DISK, 1);
            world.act(0, key, write(1));
            world.until(world.now + Nanos(S));
            holders(&world, key, 1)
        };
        let [left, wiped, last] = chosen[..] else { panic!("three copies") };
        let mut world = World::new(roomy(), 2, Network::FAST, slow, 1);
        let number = world.request(0, key, write(1));
        // All nodes have answered, and copies are on their way, of which one comes.
        world.until(Nanos(120_000));
        world.cut.extend([wiped, last]);
        while world.seen[number].ended.is_none() {
            assert!(world.step());
        }
        assert!(matches!(world.seen[number].ended, Some((_, Outcome::Failed(_)))));
        assert_eq!(holders(&world, key, 1), [left]);
        world.cut = [left].into();
        // Nodes have more or less to do, so another choice is made.
        for other in (100..130).map(Key) {
            world.request(1, other, write(3));
        }
        world.until(world.now + Nanos(MS));
        assert!(matches!(world.act(0, key, write(2)), Outcome::Done { .. }));
        world.until(world.now + Nanos(S));
        world.cut.clear();
        others += u32::from(!holders(&world, key, 2).contains(&wiped));
        world.restart(wiped, Left::Nothing);
        world.until(world.now + Nanos(2 * S));
        assert!(world.node(wiped).is_whole());
        world.network.jitter = Nanos(MS);
        for _ in 0..50 {
            let read = world.act(0, key, Task::Read);
            assert!(matches!(read, Outcome::Done { content: 2, .. }), "{key:?}: {read:?}");
        }
    }
    assert!(others >= 5, "{others}: the wiped node was a holder of both nearly always");
}

#[test]
fn a_node_by_multicast_asks_for_many_doubtful_objects_in_several_questions() {
    for (loss, jitter) in [(0.0, 0), (0.2, 5 * MS)] {
        let policy = Policy { give_up: Nanos(10 * S), ..policy(4, 2, Lookup::Multicast, streams(16)) };
        let mut world = filled(policy, Network::FAST, FAST_DISK, 4_000, 100);
        // The last of four is heard when enough is known.
        let lost = Peer(1);
        let before = world.node(lost).objects().count();
        assert!(before > 1_500);
        world.network = Network { loss, jitter: Nanos(jitter), ..Network::FAST };
        let (_, bytes) = recovered(&mut world, lost);
        assert_eq!(bytes, 100 * before as u64);
        assert_eq!(world.node(lost).objects().count(), before);
    }
}
