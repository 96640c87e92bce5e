//! What must hold for any octets from a peer of a store, which is another guest: a node, a proxy and a client take them
//! as messages, or end the line that they came on, and nothing else.

use super::codec::{self, HEAD_BYTES, Word};
use super::lines::{Heard, Known, Line, Lines, Places};
use super::service::{Machine, Serving};
use super::shelf::Shelf;
use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::net::{IpAddr, Ipv4Addr};
use virtlab_store::{
    Ack, Client, Form, Key, Lookup, Node, Output, Peer, Policy, Proxy, Scan, Task, To, WrittenBy,
};
use virtlab_system::clock;
use virtlab_wire::Nanos;

const NODES: u32 = 6;
/// After which everything is over that waits for an answer.
const GIVE_UP: Nanos = Nanos(1_000_000_000);

/// Stores that differ in how holders are found, who writes the copies, and when a copy is confirmed.
fn policy(number: u8) -> Policy {
    let ring = Lookup::Ring { partitions: 64, zones: 3 };
    let (lookup, written_by, proxies, ack) = match number % 4 {
        0 => (Lookup::Multicast, WrittenBy::Client, 0, Ack::Disk),
        1 => (ring, WrittenBy::Proxy, 1, Ack::Memory { cache_bytes: 100 }),
        2 => (Lookup::ElasticHash, WrittenBy::Primary, 1, Ack::Memory { cache_bytes: 1 << 20 }),
        _ => (Lookup::Multicast, WrittenBy::Primary, 0, Ack::Memory { cache_bytes: 0 }),
    };
    let scan = Some(Scan { cost: Nanos(1), at_once: 2 });
    let recovery = Form { streams: 2, rate_byte_per_s: Some(1000), scan };
    let (question, give_up) = (Nanos(1), GIVE_UP);
    Policy {
        nodes: NODES,
        copies: 3,
        write_quorum: 2,
        read_quorum: 2,
        lookup,
        written_by,
        ack,
        proxies,
        question,
        give_up,
        recovery,
    }
}

/// Who hears the octets.
enum End {
    Service(Box<Serving>),
    Client(Box<Client>),
}

impl End {
    /// A node that recovers, a proxy, or a client with an operation of each kind under way.
    fn new(number: u8, policy: Policy, now: Nanos) -> Self {
        let me = Peer(u32::from(number % 3) * 3); // 0: a node, 3: another, 6: the proxy
        let machine = match number % 4 {
            0 | 1 => {
                let mut node = Node::new(me, policy);
                node.watch(now, Nanos(2), Nanos(8));
                node.heal(now);
                node.wake(now + GIVE_UP); // it asks for lists, and suspects the others
                Machine::Node(Box::new(node))
            }
            2 => Machine::Proxy(Box::new(Proxy::new(policy))),
            _ => {
                let mut client = Client::new(Peer(NODES + 1), policy);
                let tasks = [Task::Open, Task::Read, Task::Write { bytes: 5, content: 8 }, Task::Delete];
                for (operation, task) in (0..).zip(tasks) {
                    client.request(now, operation, Key(operation), task);
                }
                return Self::Client(Box::new(client));
            }
        };
        let local = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let places = Places { me, local, peers: Vec::new(), group: None };
        let lines = Lines::new(places, None).expect("nothing is opened");
        let shelf = Shelf::new(None, BTreeMap::new()).expect("in memory");
        Self::Service(Box::new(Serving::new(machine, lines, shelf, None)))
    }

    fn hear(&mut self, now: Nanos, from: Peer, word: Word) {
        match self {
            Self::Service(service) => service.hear(from, word).expect("no peer ends a service"),
            Self::Client(client) => {
                if let Word::Said(message, _) = word {
                    client.handle(now, from, message);
                }
                Self::said(client);
            }
        }
    }

    fn wake(&mut self, now: Nanos) {
        match self {
            Self::Service(service) => service.wake(now).expect("time ends no service"),
            Self::Client(client) => {
                client.wake(now);
                Self::said(client);
            }
        }
    }

    /// What a client says can be said.
    fn said(client: &mut Client) {
        while let Some(output) = client.output() {
            if let Output::Send(To::Peer(_) | To::Nodes, message) = output {
                assert!(codec::encode(Peer(NODES + 1), &message).len() >= HEAD_BYTES);
            }
        }
    }
}

/// Any octets, in pieces, are messages, or end their line; the next line is heard as if nothing had been. How many
/// messages were heard.
///
/// # Panics
/// When one of them ends who heard it.
pub fn messages(bytes: &[u8]) -> usize {
    let [store, end, cut, octets @ ..] = bytes else { return 0 };
    let (mut now, mut count) = (clock::raw(), 0);
    let mut end = End::new(*end, policy(*store), now);
    let at = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let line = || Line::new(File::open("/dev/null").expect("it is there").into(), at, None);
    let (mut open, mut known, mut heard) = (line(), Known::default(), VecDeque::new());
    for piece in octets.chunks(usize::from(*cut) * 16 + 1) {
        let fits = open.take(now, piece, &mut known, &mut heard);
        while let Some(Heard { from, word, .. }) = heard.pop_front() {
            end.hear(now, from, word);
            count += 1;
            now += Nanos(1);
            end.wake(now); // what was to be asked again is
        }
        if !fits {
            open = line();
        }
    }
    end.wake(now + GIVE_UP);
    end.wake(now + GIVE_UP + GIVE_UP);
    count
}
