//! What peers of a store want is done: said, asked of disks, and planned.

use super::posting::{call, say};
use crate::agenda::Due;
use crate::input::Operation as Called;
use crate::ip::Message as Packet;
use crate::network::Network;
use crate::servers::stores::Want;
use virtlab_store::{Message, Operation};
use virtlab_wire::Nanos;

/// Does what a peer of a store wants, then looks when it must be woken.
pub fn settle(place: usize, peer: usize, network: &mut Network) {
    let now = Nanos(network.now_ns);
    while let Some(want) = network.servers.stores.at(place).want(now, peer) {
        match want {
            Want::Role(role) => network.agenda.plan(now.0, Due::Call(role)),
            Want::Line(line) => {
                let role = network.servers.stores.at(place).role_of_line(line);
                network.agenda.plan(now.0, Due::Call(role));
            }
            Want::Say(to, message) => say(place, peer, to, message, network),
            Want::Call(message) => call(place, peer, message, network),
            Want::All(number, bytes) => ask_all(place, peer, number, bytes, network),
            Want::Disk(id, kind, bytes) => {
                let servers = &mut network.servers;
                let store = servers.stores.at(place);
                let (guest, role) = (store.peer(peer).guest, store.role_of(peer));
                let Some(size_bytes) = servers.disks.model(guest).map(|model| model.size_bytes) else {
                    store.complete(now, peer, id);
                    continue;
                };
                let request = store.request(peer, kind, bytes, size_bytes);
                servers.disks.ask_for(guest, now.0, (role, id), request);
                if let Some(at_ns) = servers.disks.plan(guest, now.0) {
                    network.agenda.plan(at_ns, Due::Disk(guest));
                }
            }
        }
    }
    let store = network.servers.stores.at(place);
    store.observe(now, peer);
    let role = store.role_of(peer);
    if let Some(at_ns) = store.plan(now, peer) {
        network.agenda.plan(at_ns, Due::Tick { role, side: 0, generation: 0 });
    }
}

/// The disk of a guest has its store do what it needs, if it is on one.
pub fn keep(guest: usize, network: &mut Network) {
    let now = Nanos(network.now_ns);
    let Some((place, peer)) = network.servers.disks.client(guest) else { return };
    let mut asks = false;
    while let Some(Operation { number, key, task, .. }) = network.servers.disks.operation(guest) {
        network.servers.stores.at(place).begin(now, peer, number, key, task);
        asks = true;
    }
    if asks {
        settle(place, peer, network);
    }
}

fn ask_all(place: usize, peer: usize, number: u64, bytes: u64, network: &mut Network) {
    let store = network.servers.stores.at(place);
    let role = store.role_of(peer) as u32;
    let Some(socket) = store.peer(peer).group else { return };
    let packet = Packet {
        role,
        origin: 0,
        reply: false,
        flow: 0,
        seq: number,
        sent_ns: network.now_ns,
        payload_bytes: bytes as u32,
    };
    network.send_later(socket, packet);
}

/// A peer hears what another says.
pub fn hear(place: usize, peer: usize, from: usize, message: Message, network: &mut Network) {
    network.servers.stores.at(place).hear(Nanos(network.now_ns), peer, from, message);
    settle(place, peer, network);
}

/// The timeline has something done to the nodes of a store in some guests: they fail, come back, or lose all they hold.
pub fn operate(place: usize, operation: &Called, network: &mut Network) {
    let now = Nanos(network.now_ns);
    for guest in &operation.guests {
        let disk = network.servers.disks.model(*guest).is_some();
        let store = network.servers.stores.at(place);
        let Some(peer) = store.in_guest(*guest) else { continue };
        match (operation.ends, operation.starts) {
            (true, true) => store.wipe(now, peer),
            (true, false) => store.fail(now, peer),
            (false, _) => store.heal(now, peer, disk),
        }
        if operation.ends && !store.has_ways() {
            for role in store.lines_of(peer) {
                network.forget_bulk(role);
            }
        }
        settle(place, peer, network);
    }
}
