//! What a distributed store is made of on the network: each peer, and the line of each two peers, is one more role.
//!
//! What one peer says to another goes over a TCP connection of the two, which begins with the first message and stays;
//! a question to all nodes is one datagram to a group that all nodes have joined, and switches flood it; the answers to
//! such a question are datagrams, too. What a peer says to itself takes no time. Disks are those of the guests; a node
//! without one keeps objects in memory, in no time. What nodes and proxies hear waits for their processor, if the store
//! says what it takes. No Plan names any of these roles.

mod carrying;
mod line;
mod posting;
mod settling;

pub use carrying::carry;
pub use settling::{keep, operate, settle};

use crate::agenda::Due;
use crate::input::{self, Act, Action, Asker, Finding, Fluid, Input, Messages, RoleEnd};
use crate::ip::Message as Packet;
use crate::network::{Network, Twig};
use crate::samples::Table;
use crate::servers::stores::{Machine, Processor, Store, Watch, Ways};
use crate::workloads::workload::{Counters, Workload};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use line::Line;
use settling::hear;
use virtlab_load::size::IpVersion;
use virtlab_store::{Book, Client, Effort, Lookup, Node, Peer as Number, Proxy};
use virtlab_wire::Nanos;

/// Of a full frame of Ethernet, with preamble and gap.
const FULL_OCTETS: u64 = 1538;
/// What a queue holds of which no limit is given.
const FIFO_PACKETS: u64 = 100;

/// Makes the stores of a world, whose roles beside those of the Plan begin at that place; the roles, in order.
pub fn parts(input: &Input, beside: usize, network: &mut Network) -> Result<Vec<Box<dyn Workload>>, Finding> {
    let asking = &input.roles[..beside - input.passive.len()];
    let mut parts: Vec<Box<dyn Workload>> = Vec::new();
    for given in &input.stores {
        let policy = given.policy()?;
        let first = beside + parts.len();
        let ends: Vec<_> = given.peers(asking).collect();
        let mut book = Book::default();
        let first_book = book.clone();
        let peers = ends.iter().enumerate().map(|(place, (end, asker))| {
            let number = Number(place as u32);
            let machine = match asker {
                Some(_) => Machine::Client(Box::new(Client::new(number, policy))),
                None if place < given.nodes.len() => {
                    let mut node = Node::new(number, policy);
                    let page = book.page().or_else(|| {
                        book = Book::default();
                        book.page()
                    });
                    page.into_iter().for_each(|page| node.write_on(page));
                    Machine::Node(Box::new(node))
                }
                None => Machine::Proxy(Box::new(Proxy::new(policy))),
            };
            let effort = match machine {
                Machine::Node(_) => given.parameters.of_node(),
                Machine::Proxy(_) => given.parameters.of_proxy(),
                Machine::Client(_) => Effort::default(),
            };
            let mut peer = machine.within(network.guest_with(end.vnic), *asker);
            peer.processor = Processor::of(effort);
            peer
        });
        let store = Store::new(&given.service, first, policy, peers.collect(), first_book);
        let place = network.servers.stores.add(store);
        for (peer, (_, asker)) in ends.iter().enumerate() {
            if let Some(Asker::Disk(guest)) = asker {
                network.servers.disks.ask_store(*guest, (place, peer));
            }
        }
        if let Some(messages) = &given.messages {
            let ways = by_messages(input, (given, messages), &ends, network)?;
            network.servers.stores.at(place).go_by(ways);
            network.servers.stores.mail.connect(place, ends.len());
            if !input.by_events {
                network.servers.stores.at(place).foresee();
                if !is_called(input, given) {
                    network.servers.stores.at(place).stay_whole();
                }
            }
        } else if policy.lookup == Lookup::Multicast {
            gather(given, &ends, place, network)?;
            if is_foreseen(input, given, &ends, network) {
                network.servers.stores.at(place).foresee();
            }
        }
        if let Some((beat, silence)) = given.parameters.watch() {
            let watch = Watch::new(given.behind.clone());
            network.servers.stores.at(place).watch = Some(watch);
            for peer in 0..given.nodes.len() {
                if let Machine::Node(node) = &mut network.servers.stores.at(place).peer(peer).machine {
                    node.watch(Nanos(0), beat, silence);
                }
                network.agenda.plan(0, Due::Tick { role: first + peer, side: 0, generation: 0 });
            }
        }
        for peer in 0..ends.len() {
            parts.push(Box::new(Peer { store: place, peer }));
        }
        if given.messages.is_some() {
            continue;
        }
        let roles = given.roles(asking);
        let lines = in_bulk(given, network)?;
        let pairs = (1..ends.len()).flat_map(|near| (0..near).map(move |far| [near, far]));
        for (number, (pair, role)) in pairs.zip(&roles[ends.len()..]).enumerate() {
            let mut line = Line::new((place, number), pair, first + ends.len() + number, role, network)?;
            if let Some((fluid, lines)) = &lines {
                let way = |from: usize, to: usize| -> Vec<usize> {
                    fluid.way(from, to).iter().filter_map(|own| lines.get(*own).copied()).collect()
                };
                line.go_in_bulk([way(pair[0], pair[1]), way(pair[1], pair[0])], role, network);
            }
            parts.push(Box::new(line));
        }
    }
    Ok(parts)
}

/// Whether all that nodes say to clients comes through the fabric and is certain before it comes, and no node is lost.
fn is_foreseen(
    input: &Input,
    given: &input::Store,
    ends: &[(&RoleEnd, Option<Asker>)],
    network: &Network,
) -> bool {
    let nodes = &ends[..given.nodes.len()];
    let clients = || ends.iter().filter(|(_, asker)| asker.is_some());
    let apart = |client: &RoleEnd| nodes.iter().all(|(node, _)| network.is_apart(client.vnic, node.vnic));
    // The rates of lines change beside a fluid.
    input.stores.iter().all(|store| store.fluid.is_none())
        && !input.by_events
        && input.bridging.is_empty()
        && clients().all(|(client, _)| apart(client))
        && !is_called(input, given)
}

/// Whether the timeline has something done to its nodes.
fn is_called(input: &Input, given: &input::Store) -> bool {
    let of_it = |action: &Action| action.operation.as_ref().is_some_and(|one| one.service == given.service);
    input.timeline.iter().any(|action| action.act == Act::Call && of_it(action))
}

/// The lines that contents of a store cross in bulk, by their places there; `None`: they go packet by packet.
fn in_bulk<'a>(
    given: &'a input::Store,
    network: &mut Network,
) -> Result<Option<(&'a Fluid, Vec<usize>)>, Finding> {
    let Some(fluid) = &given.fluid else { return Ok(None) };
    let cannot = |reason: String| {
        let path = format!("services.{}.transfers", given.service);
        Finding::new(path, reason, "write 'transfers: packets'")
    };
    if network.has_costs() {
        let reason = "a profile says what packets cost the hosts, and a fluid has none";
        return Err(cannot(reason.to_owned()));
    }
    let place = |(link, direction): &(String, String)| {
        let place = network.bulk_line(link, direction);
        place.ok_or_else(|| cannot(format!("there is no link '{link}'")))
    };
    Ok(Some((fluid, fluid.lines.iter().map(place).collect::<Result<_, _>>()?)))
}

/// Where all goes that peers of a store say, without packets.
fn by_messages(
    input: &Input,
    (given, messages): (&input::Store, &Messages),
    ends: &[(&RoleEnd, Option<Asker>)],
    network: &mut Network,
) -> Result<Ways, Finding> {
    let cannot = |reason: String| {
        let path = format!("services.{}.transfers", given.service);
        Finding::new(path, reason, "write 'transfers: packets'")
    };
    if network.has_costs() {
        let reason =
            "a profile says what packets cost the hosts, and messages without packets have no such costs";
        return Err(cannot(reason.to_owned()));
    }
    if let Some((_, (end, _))) = ends.iter().enumerate().find(|(_, (end, _))| network.is_licensed(end.vnic)) {
        let guest = network.guest_with(end.vnic);
        return Err(cannot(format!("guest {guest} has a licence, which drops packets")));
    }
    let mut lines = Vec::new();
    for (link, direction) in &messages.ways.lines {
        let place = network.post_line(link, direction);
        let place = place.ok_or_else(|| cannot(format!("there is no link '{link}'")))?;
        if let Some(octets) = most_waiting(input, link, direction) {
            network.post().lines[place].bound(octets);
        }
        lines.push(place);
    }
    let ip_bytes = |end: &RoleEnd| match end.address {
        Some(IpAddr::V6(_)) => IpVersion::V6.header_bytes(),
        _ => IpVersion::V4.header_bytes(),
    };
    let mut ways = Ways::default();
    for (from, (near, _)) in ends.iter().enumerate() {
        let to_each = ends.iter().enumerate().map(|(to, (far, _))| {
            let own = messages.ways.way(from, to).iter().map(|line| lines[*line]).collect();
            network.post_way(own, [near.vnic, far.vnic], ip_bytes(near))
        });
        ways.between.push(to_each.collect());
    }
    for ((near, _), given) in ends.iter().zip(&messages.floods) {
        let hear = |behind: Option<usize>| {
            let nodes = given.nodes.iter().enumerate().filter(move |(_, branch)| **branch == behind);
            nodes.map(|(node, _)| (node, ends[node].0.vnic)).filter(|(_, nic)| *nic != near.vnic).collect()
        };
        let twigs = given.branches.iter().enumerate().map(|(place, (line, before))| Twig {
            line: lines[*line],
            before: *before,
            hear: hear(Some(place)),
        });
        ways.floods.push(network.post_flood(near.vnic, twigs.collect(), hear(None), ip_bytes(near)));
    }
    Ok(ways)
}

/// Octets that wait at most in front of a direction of a link, if all frames there are full.
fn most_waiting(input: &Input, link: &str, direction: &str) -> Option<u64> {
    let queues = &input.fabric.links.get(link)?.queue;
    let own = if direction == "ab" { &queues.ab } else { &queues.ba };
    let packets = own.limit_packets.map(|packets| packets.saturating_mul(FULL_OCTETS));
    packets.into_iter().chain(own.limit_bytes).min().or(Some(FIFO_PACKETS * FULL_OCTETS))
}

/// All nodes join a group, and all peers may ask it.
fn gather(
    given: &input::Store,
    ends: &[(&RoleEnd, Option<Asker>)],
    place: usize,
    network: &mut Network,
) -> Result<(), Finding> {
    let number = place as u16 + 1;
    let group = match ends[0].0.address {
        Some(IpAddr::V6(_)) => IpAddr::V6(Ipv6Addr::new(0xff05, 0, 0, 0, 0, 0, 0, number)),
        _ => IpAddr::V4(Ipv4Addr::new(239, 192, number.to_be_bytes()[0], number.to_be_bytes()[1])),
    };
    let nodes = given.nodes.len();
    for (peer, (end, _)) in ends.iter().enumerate() {
        let apart = |(node, _): &(&RoleEnd, Option<Asker>)| {
            node.address.is_some_and(|to| !network.is_beside(end.vnic, to))
        };
        if ends[..nodes].iter().any(apart) {
            let reason =
                "a router stands between a guest of it and one of its nodes, and forwards no multicast";
            let cure = "put all on one network, or write 'lookup: ring'";
            return Err(Finding::new(format!("services.{}.lookup", given.service), reason, cure));
        }
        let socket = end.address.map(|from| network.group_socket(end.vnic, from, group));
        network.servers.stores.at(place).peer(peer).group = socket;
        if peer < nodes {
            network.join_group(network.guest_with(end.vnic), group);
        }
    }
    Ok(())
}

/// A peer by itself.
struct Peer {
    store: usize,
    peer: usize,
}

impl Workload for Peer {
    fn start(&mut self, _network: &mut Network) {}

    fn tick(&mut self, _side: usize, _generation: u32, network: &mut Network) {
        network.servers.stores.at(self.store).wake(Nanos(network.now_ns), self.peer);
        settle(self.store, self.peer, network);
    }

    fn stored(&mut self, id: u64, network: &mut Network) {
        network.servers.stores.at(self.store).complete(Nanos(network.now_ns), self.peer, id);
        settle(self.store, self.peer, network);
    }

    /// The client of a disk has answers.
    fn called(&mut self, network: &mut Network) {
        let now_ns = network.now_ns;
        let servers = &mut network.servers;
        let store = servers.stores.at(self.store);
        let guest = store.peer(self.peer).guest;
        while let Some((operation, outcome, ..)) = store.answer(self.peer) {
            servers.disks.answered(guest, operation, outcome);
        }
        if let Some(at_ns) = servers.disks.plan(guest, now_ns) {
            network.agenda.plan(at_ns, Due::Disk(guest));
        }
    }

    /// A node hears what this asked all of them; its guest is in the packet.
    fn take(&mut self, packet: Packet, network: &mut Network) {
        let store = network.servers.stores.at(self.store);
        let (node, message) = (store.in_guest(packet.flow as usize), store.overheard(packet.seq));
        if let (Some(node), Some(message)) = (node, message) {
            hear(self.store, node, self.peer, message, network);
        }
    }

    fn stop(&mut self, _network: &mut Network) {}

    fn finished(&self) -> bool {
        true
    }

    fn report(&self, _stream: &str) -> (Vec<Table>, Counters) {
        Default::default()
    }
}
