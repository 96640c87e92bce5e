//! What each choice of a policy does: lookup, placement, path of the copies, confirmation, cache, hand-off, detection.

mod world;

use std::collections::BTreeSet;
use virtlab_disk::Model;
use virtlab_store::{
    Ack, Attempt, Client, Detector, Form, Found, Key, Left, Lookup, Message, Node, Nonsense, Object, Outcome,
    Output, Peer, Policy, Task, To, Version, WrittenBy,
};
use virtlab_wire::Nanos;
use world::{FAST_DISK, MS, Network, S, World};

const RING: Lookup = Lookup::Ring { partitions: 262_144, zones: 6 };

fn policy(nodes: u32, copies: u32, lookup: Lookup) -> Policy {
    Policy {
        nodes,
        copies,
        write_quorum: copies / 2 + 1,
        read_quorum: copies / 2 + 1,
        lookup,
        written_by: WrittenBy::Client,
        ack: Ack::Disk,
        proxies: 0,
        question: Nanos(20 * MS),
        give_up: Nanos(S),
        recovery: Form { streams: 4, rate_byte_per_s: None, scan: None },
    }
}

fn write(content: u64) -> Task {
    Task::Write { bytes: 10_000, content }
}

const fn is_done(outcome: Outcome) -> bool {
    matches!(outcome, Outcome::Done { .. })
}

#[test]
fn a_ring_gives_every_node_as_many_copies_of_partitions_in_different_zones() {
    let policy = policy(24, 3, RING);
    let mut held = [0u32; 24];
    for partition in 0..262_144 {
        let places = policy.of_partition(partition, 262_144, 6);
        let zones: BTreeSet<u32> = places.iter().map(|one| one.0 / 4).collect();
        assert_eq!(zones.len(), 3, "partition {partition}: {places:?}");
        for place in places {
            held[place.0 as usize] += 1;
        }
    }
    let mean = 262_144 * 3 / 24;
    assert_eq!(mean, 32768);
    assert!(held.iter().all(|&one| one.abs_diff(mean) < mean / 100), "{held:?}");
}

#[test]
fn the_second_copy_of_a_partition_lies_where_87381_later_has_its_first() {
    let policy = policy(24, 3, RING);
    for partition in (0..262_144).step_by(997) {
        let first = |at: u32| policy.of_partition(at % 262_144, 262_144, 6)[0];
        let [zone, other] = [partition, partition + 87_381].map(|at| first(at).0 / 4);
        let places = policy.of_partition(partition, 262_144, 6);
        assert_eq!(places[0], first(partition));
        if zone != other {
            assert_eq!(places[1], first(partition + 87_381));
        }
    }
}

#[test]
fn an_elastic_hash_mirrors_in_groups_and_spreads_keys_over_them() {
    let policy = policy(24, 2, Lookup::ElasticHash);
    let mut held = [0u32; 24];
    for key in 0..24_000 {
        let places = policy.places(Key(key)).expect("they follow from the key");
        assert_eq!(places[0].0 + 1, places[1].0);
        assert_eq!(places[0].0 % 2, 0);
        places.iter().for_each(|one| held[one.0 as usize] += 1);
    }
    assert!(held.iter().all(|&one| one.abs_diff(2000) < 200), "{held:?}");
}

#[test]
fn a_multicast_lookup_costs_a_message_per_node_and_a_hash_none() {
    let mut messages = Vec::new();
    for lookup in [Lookup::Multicast, RING, Lookup::ElasticHash] {
        let mut world = World::new(policy(24, 3, lookup), 1, Network::FAST, FAST_DISK, 1);
        let mut counted = Vec::new();
        for task in [write(1), write(2), Task::Read, Task::Open] {
            let before = world.counts.messages;
            assert!(is_done(world.act(0, Key(7), task)));
            world.until(world.now + Nanos(10 * MS));
            counted.push(world.counts.messages - before);
        }
        messages.push(counted);
    }
    // All are asked, and all answer a write; 3 copies, 3 confirmations. Of a read, the 3 holders answer; one sends.
    assert_eq!(messages[0], [24 + 24 + 6, 24 + 24 + 6, 24 + 3 + 2, 24 + 3]);
    // Copies and confirmations alone; a read asks its 3 holders, then one of them for the content.
    assert_eq!(messages[1], [6, 6, 3 + 3 + 2, 3 + 3]);
    assert_eq!(messages[2], messages[1]);
}

#[test]
fn a_new_object_has_as_many_holders_as_copies_though_fewer_answers_would_do() {
    let policy = policy(3, 3, Lookup::Multicast);
    let mut world = World::new(policy, 1, Network::FAST, FAST_DISK, 1);
    assert!(is_done(world.act(0, Key(1), write(1))));
    assert!(world.now < Nanos(10 * MS), "all three answer at once");
    world.until(world.now + Nanos(10 * MS));
    assert!(policy.peers().all(|peer| world.node(peer).objects().count() == 1));
    // One is away: its answer is waited for, for one question.
    world.cut.insert(Peer(2));
    let began = world.now;
    assert!(is_done(world.act(0, Key(2), write(1))));
    let took = world.now.since(began);
    assert!(took > policy.question && took < policy.question + Nanos(2 * MS), "{took:?}");
    let (_, object) = world.node(Peer(0)).objects().find(|(key, _)| *key == Key(2)).expect("it is there");
    assert_eq!(object.holders.len(), 3, "the silent one ought to hold it, too");
    world.cut.clear();
    world.restart(Peer(2), Left::Nothing);
    world.until(world.now + policy.give_up + Nanos(S));
    assert_eq!(world.node(Peer(2)).objects().count(), 2, "and gets it when it heals");
}

#[test]
fn a_holder_that_answers_late_gets_its_copy_of_a_write_that_still_waits_for_others() {
    let policy = Policy { write_quorum: 3, read_quorum: 1, ..policy(3, 3, Lookup::Multicast) };
    let mut world = World::new(policy, 1, Network::FAST, FAST_DISK, 1);
    world.cut.insert(Peer(1));
    let number = world.request(0, Key(1), write(1));
    world.until(world.now + policy.question + Nanos(5 * MS));
    assert!(world.seen[number].ended.is_none());
    world.cut.clear();
    world.until(world.now + policy.give_up);
    assert!(matches!(world.seen[number].ended, Some((_, outcome)) if is_done(outcome)));
    assert_eq!(world.node(Peer(1)).objects().count(), 1);
}

#[test]
fn a_question_whose_answers_are_lost_is_asked_again_after_its_time_out() {
    let policy = policy(5, 3, Lookup::Multicast);
    let mut world = World::new(policy, 1, Network::FAST, FAST_DISK, 1);
    assert!(is_done(world.act(0, Key(1), write(1))));
    world.network.loss = 1.0;
    let began = world.now;
    let number = world.request(0, Key(1), Task::Read);
    world.until(began + policy.question - Nanos(1));
    world.network.loss = 0.0;
    world.until(began + Nanos(S));
    let (at, outcome) = world.seen[number].ended.expect("it has ended");
    assert!(is_done(outcome));
    assert!(at > began + policy.question && at < began + policy.question + Nanos(2 * MS));
}

#[test]
fn what_nobody_holds_is_missing_only_once_enough_nodes_have_said_so() {
    let policy = policy(5, 3, Lookup::Multicast);
    let mut world = World::new(policy, 1, Network::FAST, FAST_DISK, 1);
    let began = world.now;
    assert_eq!(world.act(0, Key(1), Task::Open), Outcome::Missing);
    assert!(world.now > began + policy.question, "those without the key answer the second question");
    world.cut.extend([Peer(0)]);
    assert_eq!(world.act(0, Key(1), Task::Open), Outcome::Missing);
    world.cut.extend([Peer(1)]);
    assert!(matches!(world.act(0, Key(1), Task::Open), Outcome::Failed(_)), "two away may have confirmed it");
}

#[test]
fn new_objects_go_to_the_least_loaded_nodes() {
    let slow = Model { rate_byte_per_s: Some(1_000_000), ..FAST_DISK };
    // With one copy before an answer, all nodes are heard before an object is new.
    let policy = Policy { give_up: Nanos(100 * S), write_quorum: 1, ..policy(6, 3, Lookup::Multicast) };
    let mut world = World::new(policy, 1, Network::FAST, slow, 1);
    for key in 0..2 {
        world.request(0, Key(key), Task::Write { bytes: 1_000_000, content: key });
        world.until(world.now + Nanos(5 * MS));
    }
    world.until(world.now + Nanos(10 * S));
    assert!(world.policy.peers().all(|one| world.node(one).objects().count() == 1), "three each");
}

#[test]
fn a_proxy_or_a_primary_spares_the_client_all_copies_but_one() {
    let mut sent = Vec::new();
    let forms =
        [(WrittenBy::Client, 0), (WrittenBy::Proxy, 1), (WrittenBy::Primary, 0), (WrittenBy::Primary, 1)];
    for (written_by, proxies) in forms {
        let policy = Policy { written_by, proxies, ..policy(6, 3, Lookup::ElasticHash) };
        let network = Network { rate_byte_per_s: Some(1_000_000), ..Network::FAST };
        let mut world = World::new(Policy { give_up: Nanos(100 * S), ..policy }, 1, network, FAST_DISK, 1);
        assert!(is_done(world.act(0, Key(1), Task::Write { bytes: 1_000_000, content: 1 })));
        world.until(world.now + Nanos(10 * S));
        let copies = world.policy.peers().map(|one| world.node(one).objects().count()).sum::<usize>();
        assert_eq!(copies, 3);
        sent.push(world.counts.bytes / 1_000_000);
    }
    // Client: 3 copies. Proxy: one to it, 3 from it. Primary: one to it, 2 from it; by way of a proxy, one more.
    assert_eq!(sent, [3, 4, 3, 4]);
}

#[test]
fn names_are_asked_of_all_nodes_and_a_page_has_those_that_are_there() {
    for (written_by, proxies) in [(WrittenBy::Client, 0), (WrittenBy::Primary, 2)] {
        for lookup in [Lookup::Multicast, RING] {
            let policy = Policy { written_by, proxies, ..policy(24, 3, lookup) };
            let mut world = World::new(policy, 1, Network::FAST, FAST_DISK, 1);
            for key in 0..1010 {
                assert!(is_done(world.act(0, Key(key), write(key + 1))));
            }
            for key in (0..6).chain([1002]) {
                assert!(is_done(world.act(0, Key(key), Task::Delete)));
            }
            world.until(world.now + Nanos(10 * MS));
            let before = world.counts.messages;
            assert!(is_done(world.act(0, Key(3), Task::List)));
            let page = world.pages.pop_last().expect("a page").1;
            let there: Vec<Key> = (6..1010).filter(|key| *key != 1002).map(Key).take(1000).collect();
            assert_eq!((page.names, page.until), (there, Key(1006)));
            world.until(world.now + Nanos(10 * MS));
            let led = if proxies > 0 { 2 } else { 0 };
            assert_eq!(world.counts.messages - before, 24 + 24 + led, "each node is asked, and answers");
            // One of two nodes that a write needs may be away; with two, what is there is not known.
            world.cut.extend([Peer(0)]);
            assert!(is_done(world.act(0, Key(0), Task::List)));
            world.cut.extend([Peer(1)]);
            assert!(matches!(world.act(0, Key(0), Task::List), Outcome::Failed(_)));
        }
    }
}

#[test]
fn a_deletion_that_is_tried_again_is_done_although_nothing_is_there_any_more() {
    let policy = policy(4, 3, Lookup::Multicast);
    let mut again = 0;
    for (one, other) in [(0, 1), (0, 2), (1, 2), (1, 3), (2, 3)] {
        for steps in 0..40 {
            let mut world = World::new(policy, 1, Network::FAST, FAST_DISK, 1);
            assert!(is_done(world.act(0, Key(1), write(1))));
            world.until(world.now + Nanos(10 * MS));
            let deletion = world.request(0, Key(1), Task::Delete);
            for _ in 0..steps {
                world.step();
            }
            world.restart(Peer(one), Left::Nothing);
            world.restart(Peer(other), Left::Flushed);
            while world.seen[deletion].ended.is_none() {
                assert!(world.step());
            }
            let outcome = world.seen[deletion].ended.unwrap().1;
            assert!(is_done(outcome), "{one} and {other} after {steps} steps: {outcome:?}");
            again += u32::from(world.seen[deletion].retries > 0);
            assert_eq!(world.act(0, Key(1), Task::Read), Outcome::Missing);
            assert_eq!(world.act(0, Key(1), Task::Delete), Outcome::Missing, "it was deleted before");
        }
    }
    assert!(again > 0, "no deletion was tried again");
}

#[test]
fn another_proxy_takes_over_from_one_that_is_away() {
    for written_by in [WrittenBy::Proxy, WrittenBy::Primary] {
        let policy = Policy { written_by, proxies: 2, ..policy(6, 3, Lookup::ElasticHash) };
        let mut world = World::new(policy, 1, Network::FAST, FAST_DISK, 1);
        world.cut.insert(Peer(6));
        assert!(is_done(world.act(0, Key(1), write(1))));
        assert!(is_done(world.act(0, Key(1), Task::Read)));
        assert!(is_done(world.act(0, Key(1), Task::Delete)));
    }
}

#[test]
fn behind_proxies_a_client_speaks_with_these_alone_and_a_primary_sends_the_other_copies() {
    for lookup in [Lookup::Multicast, RING, Lookup::ElasticHash] {
        let policy = Policy { written_by: WrittenBy::Primary, proxies: 2, ..policy(24, 3, lookup) };
        let mut world = World::new(policy, 1, Network::FAST, FAST_DISK, 1);
        let mut counted = Vec::new();
        for task in [write(1), Task::Read, Task::Delete, Task::Read] {
            let before = world.counts.messages;
            let outcome = world.act(0, Key(7), task);
            assert!(is_done(outcome) || counted.len() == 3 && outcome == Outcome::Missing, "{outcome:?}");
            world.until(world.now + Nanos(10 * MS));
            counted.push(world.counts.messages - before);
        }
        // To the proxy, to the primary, and back; then what that one takes, but for what it says to itself.
        let (own, seen) = (world.client(0), |(from, to): &(Peer, Peer)| [from.0, to.0]);
        let partners = world.pairs.iter().map(seen).filter(|pair| pair.contains(&own.0)).flatten();
        assert!(partners.filter(|&one| one != own.0).all(|one| one == 24 || one == 25), "{:?}", world.pairs);
        if lookup != Lookup::Multicast {
            assert_eq!(counted, [4 + 4, 2 + 3 + 3 + 2, 4 + 4, 2 + 3 + 3], "{lookup:?}");
        }
    }
}

#[test]
fn of_as_many_attempts_as_there_are_pairs_of_a_proxy_and_a_primary_each_has_another() {
    for (proxies, copies) in [(1, 3), (2, 2), (4, 3), (4, 2), (3, 3)] {
        let written_by = WrittenBy::Primary;
        let policy = Policy { written_by, proxies, ..policy(6, copies, Lookup::ElasticHash) };
        let pair = |attempt| (policy.proxy_of(Peer(9), attempt), policy.primary_of(Key(5), attempt));
        let pairs: BTreeSet<_> = (0..proxies * copies).map(pair).collect();
        assert_eq!(pairs.len() as u32, proxies * copies);
        let primaries: BTreeSet<_> = pairs.iter().map(|(_, primary)| *primary).collect();
        assert_eq!(primaries, policy.places(Key(5)).unwrap().into_iter().collect());
    }
}

#[test]
fn where_a_primary_is_away_the_next_attempt_has_another_proxy_and_another_primary() {
    let policy = Policy { written_by: WrittenBy::Primary, proxies: 2, ..policy(6, 3, RING) };
    let mut world = World::new(policy, 1, Network::FAST, FAST_DISK, 1);
    world.cut.insert(policy.primary_of(Key(1), 0));
    assert!(is_done(world.act(0, Key(1), write(1))));
    assert!(world.now > policy.patience(), "the first attempt was in vain");
    assert_eq!(world.pairs.range((Peer(6), Peer(0))..(Peer(7), Peer(0))).count(), 1, "it asked one primary");
}

#[test]
fn a_crash_of_all_nodes_takes_nothing_that_was_confirmed_from_disks() {
    let mut world = World::new(policy(6, 3, Lookup::ElasticHash), 1, Network::FAST, FAST_DISK, 1);
    for key in 0..50 {
        assert!(is_done(world.act(0, Key(key), write(key))));
    }
    world.policy.peers().for_each(|one| world.restart(one, Left::Flushed));
    for key in 0..50 {
        let read = world.act(0, Key(key), Task::Read);
        assert!(matches!(read, Outcome::Done { content, .. } if content == key));
    }
}

#[test]
fn a_crash_of_all_nodes_takes_what_was_confirmed_from_memory_and_reads_fail() {
    let ack = Ack::Memory { cache_bytes: 1 << 30 };
    let slow = Model { rate_byte_per_s: Some(100_000), ..FAST_DISK };
    let mut world =
        World::new(Policy { ack, ..policy(3, 3, Lookup::ElasticHash) }, 1, Network::FAST, slow, 1);
    for key in 0..20 {
        assert!(is_done(world.act(0, Key(key), write(key))));
    }
    world.policy.peers().for_each(|one| world.restart(one, Left::Flushed));
    let left = world.node(Peer(0)).objects().count();
    assert!(left < 20, "the disk cannot have had time for all");
    assert!(matches!(world.act(0, Key(19), Task::Read), Outcome::Failed(_)), "nobody is whole");
}

#[test]
fn a_wiped_node_does_not_let_a_write_pass_that_is_older_by_its_clock_than_what_was_answered() {
    let mut world = World::new(policy(3, 3, Lookup::ElasticHash), 2, Network::FAST, FAST_DISK, 1);
    world.hurry(0, Nanos(1000 * S));
    world.cut.insert(Peer(2));
    assert!(is_done(world.act(0, Key(1), write(1))));
    world.cut = BTreeSet::from([Peer(1)]);
    world.restart(Peer(0), Left::Nothing);
    // The wiped node and the one that was away confirm it, and neither knows that there is something later.
    assert!(matches!(world.act(1, Key(1), write(2)), Outcome::Failed(_)));
    world.cut.clear();
    assert!(matches!(world.act(1, Key(1), Task::Read), Outcome::Done { content: 1, .. }));
    assert!(is_done(world.act(1, Key(1), write(3))));
    assert!(matches!(world.act(0, Key(1), Task::Read), Outcome::Done { content: 3, .. }));
}

#[test]
fn a_cache_answers_at_once_until_it_is_full_then_at_the_pace_of_the_disk() {
    let ack = Ack::Memory { cache_bytes: 100_000 };
    let slow = Model { rate_byte_per_s: Some(100_000), latency_ns: 0, ..FAST_DISK };
    let policy = Policy { ack, give_up: Nanos(10 * S), ..policy(3, 3, Lookup::ElasticHash) };
    let mut world = World::new(policy, 1, Network::FAST, slow, 1);
    let mut times = Vec::new();
    for key in 0..20 {
        let began = world.now;
        assert!(is_done(world.act(0, Key(key), write(key))));
        times.push(world.now.since(began));
    }
    assert!(times[..10].iter().all(|&one| one < Nanos(MS)), "{times:?}");
    // 10,000 B and a record of 512 B, in whole sectors.
    let turn = 10_752.0 / 100_000.0 * S as f64;
    for one in &times[12..] {
        assert!((one.0 as f64 / turn - 1.0).abs() < 0.01, "{times:?}");
    }
}

#[test]
fn a_holder_that_is_away_is_stood_in_for_and_gets_its_copy_when_it_heals() {
    let policy = policy(6, 3, Lookup::Ring { partitions: 60, zones: 3 });
    let mut world = World::new(policy, 1, Network::FAST, FAST_DISK, 1);
    let places = policy.places(Key(5)).expect("a ring");
    world.cut.insert(places[2]);
    assert!(is_done(world.act(0, Key(5), write(5))));
    world.until(world.now + Nanos(S));
    world.act(0, Key(5), write(6));
    let copies = |world: &World| policy.peers().filter(|&one| world.node(one).objects().count() > 0).count();
    assert_eq!(copies(&world), 2, "the answer did not wait for the third");
    world.cut.insert(places[1]);
    assert!(
        matches!(world.act(0, Key(5), write(7)), Outcome::Failed(_)),
        "stand-ins are no part of a quorum"
    );
    assert_eq!(copies(&world), 4, "and are there all the same");
    world.cut.clear();
    places.iter().for_each(|&one| world.heal(one));
    world.until(world.now + Nanos(5 * S));
    let latest: BTreeSet<u64> =
        places.iter().flat_map(|&one| world.node(one).objects().map(|(_, object)| object.content)).collect();
    assert_eq!(latest, BTreeSet::from([7]), "a write that failed may happen later, on all holders");
}

#[test]
fn what_makes_no_store_is_refused() {
    let good = policy(6, 3, RING);
    assert_eq!(good.check(), Ok(()));
    assert_eq!(Policy { copies: 7, ..good }.check(), Err(Nonsense::Copies));
    assert_eq!(Policy { write_quorum: 4, ..good }.check(), Err(Nonsense::Quorum));
    assert_eq!(Policy { read_quorum: 0, ..good }.check(), Err(Nonsense::Quorum));
    assert_eq!(
        Policy { lookup: Lookup::Ring { partitions: 60, zones: 2 }, ..good }.check(),
        Err(Nonsense::Ring)
    );
    assert_eq!(Policy { nodes: 7, lookup: Lookup::ElasticHash, ..good }.check(), Err(Nonsense::Groups));
    let led = Policy { written_by: WrittenBy::Proxy, proxies: 0, ..good };
    assert_eq!(led.check(), Err(Nonsense::Proxies));
    assert_eq!(Policy { proxies: 1, ..good }.check(), Err(Nonsense::Idle));
    assert_eq!(Policy { written_by: WrittenBy::Primary, proxies: 1, ..good }.check(), Ok(()));
    assert_eq!(Policy { question: Nanos::ZERO, ..good }.check(), Err(Nonsense::Times));
    assert!(good.is_strict());
    assert!(!Policy { read_quorum: 1, ..good }.is_strict());
    assert!(!Policy { write_quorum: 1, read_quorum: 3, ..good }.is_strict());
}

#[test]
fn a_silent_peer_is_lost_after_its_time_and_back_once_it_speaks() {
    let mut detector = Detector::new(Nanos::ZERO, [Peer(1), Peer(2)], Nanos(S), Nanos(3 * S));
    assert_eq!(detector.next_event(), Nanos(S));
    assert_eq!(detector.wake(Nanos(S)), (true, vec![]));
    assert!(!detector.hears(Nanos(2 * S), Peer(1)));
    assert_eq!(detector.wake(Nanos(3 * S)), (true, vec![Peer(2)]));
    assert_eq!(detector.wake(Nanos(3 * S)), (false, vec![]), "told once");
    assert!(detector.is_lost(Peer(2)) && !detector.is_lost(Peer(1)));
    assert_eq!(detector.next_event(), Nanos(4 * S));
    assert!(detector.hears(Nanos(4 * S), Peer(2)));
    assert_eq!(detector.wake(Nanos(5 * S)), (true, vec![Peer(1)]));
    assert!(!detector.hears(Nanos(5 * S), Peer(9)), "a stranger");
}

#[test]
fn no_version_and_no_number_of_an_attempt_ends_a_client() {
    let policy = Policy { written_by: WrittenBy::Proxy, proxies: 1, ..policy(6, 3, RING) };
    let (me, proxy) = (Peer(7), Peer(6));
    let mut client = Client::new(me, policy);
    client.request(Nanos(1), 0, Key(1), write(8));
    let last = Version { stamp: u64::MAX, writer: proxy, number: u64::MAX };
    for number in [u32::MAX, 0] {
        let attempt = Attempt { client: me, operation: 0, number };
        client.handle(Nanos(2), proxy, Message::Led(attempt, Key(1), Outcome::Superseded(last)));
    }
    client.wake(Nanos(2) + policy.question);
    let attempts: Vec<u32> = std::iter::from_fn(|| client.output())
        .map(|output| match output {
            Output::Send(_, Message::Lead(attempt, ..)) => attempt.number,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(attempts, [0, 1], "one attempt for the one that was led, none for one that never began");
}

#[test]
fn content_of_another_key_does_not_end_a_read() {
    let policy = policy(3, 3, Lookup::ElasticHash);
    let me = Peer(7);
    let mut client = Client::new(me, policy);
    let version = Version { stamp: 1, writer: me, number: 0 };
    let holders = policy.peers().collect();
    let object = Object { version, bytes: 5, content: 8, deleted: false, holders };
    let attempt = Attempt { client: me, operation: 0, number: 0 };
    client.request(Nanos(1), 0, Key(1), Task::Read);
    for peer in policy.peers() {
        let found = Found { object: Some(object.clone()), whole: true, load: 0, incarnation: 0 };
        client.handle(Nanos(2), peer, Message::Found(attempt, found));
    }
    let asked = |client: &mut Client| -> Vec<Peer> {
        let outputs = std::iter::from_fn(|| client.output());
        let fetches = outputs.filter_map(|output| match output {
            Output::Send(To::Peer(peer), Message::Fetch(..)) => Some(peer),
            Output::Answer { .. } => panic!("{output:?}"),
            _ => None,
        });
        fetches.collect()
    };
    let first = asked(&mut client);
    client.handle(Nanos(3), first[0], Message::Content(attempt, Key(2), Some(object.clone())));
    assert_eq!(asked(&mut client), [], "nothing was said of the key");
    client.wake(Nanos(3) + policy.patience());
    let second = asked(&mut client);
    assert_eq!((first.len(), second.len()), (1, 1), "one holder at a time");
    assert_ne!(first, second, "another is asked, as of one that is silent");
    let now = Nanos(4) + policy.patience();
    client.handle(now, second[0], Message::Content(attempt, Key(1), Some(object)));
    let outcome = Outcome::Done { version, bytes: 5, content: 8 };
    assert_eq!(client.output(), Some(Output::Answer { operation: 0, outcome, retries: 0, listing: None }));
}

/// What a node says and what it wants of its disk.
fn outputs(node: &mut Node) -> (Vec<Message>, Vec<u64>) {
    let (mut said, mut disk) = (Vec::new(), Vec::new());
    while let Some(output) = node.output() {
        match output {
            Output::Send(_, message) => said.push(message),
            Output::Disk { id, .. } => disk.push(id),
            Output::Answer { .. } => panic!("{output:?}"),
        }
    }
    (said, disk)
}

#[test]
fn what_is_on_the_disk_when_a_later_version_was_promised_is_kept_and_not_confirmed() {
    for (other, kept) in [(vec![Peer(0), Peer(1), Peer(2)], 2), (vec![Peer(0), Peer(1), Peer(4)], 1)] {
        let mut node = Node::new(Peer(0), policy(5, 3, Lookup::Multicast));
        let client = Peer(5);
        let version = |stamp| Version { stamp, writer: client, number: 0 };
        let attempt = |operation| Attempt { client, operation, number: 0 };
        let key = Key(1);
        let put = |node: &mut Node, stamp: u64, holders: &[Peer]| {
            let holders = holders.to_vec().into();
            let object =
                Object { version: version(stamp), bytes: 100, content: stamp, deleted: false, holders };
            let put = Message::Put { attempt: attempt(stamp), key, object, incarnation: Some(0) };
            node.handle(Nanos(stamp), client, put);
            // The disk has written it, and has to flush it.
            let (said, write) = outputs(node);
            assert!(said.is_empty());
            node.complete(Nanos(stamp), write[0]);
            outputs(node).1[0]
        };
        let flush = put(&mut node, 1, &[Peer(0), Peer(1), Peer(2)]);
        node.complete(Nanos(1), flush);
        assert!(matches!(outputs(&mut node).0[..], [Message::Kept { .. }]));
        let flush = put(&mut node, 2, &other);
        let find = Message::Find { attempt: attempt(3), key, all: true, version: Some(version(3)) };
        node.handle(Nanos(3), client, find);
        let (said, _) = outputs(&mut node);
        assert!(
            matches!(&said[..], [Message::Found(_, found)] if found.object.as_ref().unwrap().content == 1)
        );
        node.complete(Nanos(3), flush);
        assert_eq!(outputs(&mut node).0, [Message::Refused(attempt(2), version(3))]);
        let held: Vec<u64> = node.objects().map(|(_, object)| object.content).collect();
        assert_eq!((held, node.is_whole()), (vec![kept], true));
    }
}
