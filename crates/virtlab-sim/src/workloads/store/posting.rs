//! What peers of a store say to each other without packets: each message is one, over the lines of its way.
//!
//! A connection of two peers is there from the start, and keeps the order of what is said over it; nothing is lost but
//! what goes to a node that fails, or comes from one. An answer from which nothing follows, as far as that is foreseen,
//! is heard as soon as it is known when it comes.

use crate::agenda::Due;
use crate::network::Network;
use crate::post::{Passage, Step, part_bytes, put_in_order};
use crate::servers::stores::{Call, Item, Letter, Pair, Reply, Transit};
use virtlab_store::{Attempt, Message};
use virtlab_wire::Nanos;

/// An answer is heard before it comes by so much at most.
pub const EARLY_NS: u64 = 1_000_000;

/// A peer says something to another.
pub fn say(store: usize, from: usize, to: usize, message: Message, network: &mut Network) {
    let pair = Pair { store, from, to };
    let own = network.servers.stores.at(store);
    let (Some(connection), Some(way)) = (own.connection([from, to]), own.way(from, to)) else { return };
    if own.is_datagram(&message) {
        let load = network.post().way(way).frames.datagram(message.bytes());
        let passage = Passage::of(load, network.now_ns);
        return send(
            Transit { pair, connection, way, passage, left_bytes: None, comes: false },
            message,
            network,
        );
    }
    let stream = network.servers.stores.mail.stream(pair, connection);
    if stream.busy {
        stream.waiting.push_back(message);
    } else {
        begin(pair, connection, way, message, network);
    }
}

/// A node answers a question to all.
#[inline]
pub fn answer(
    store: usize,
    to: usize,
    attempt: Attempt,
    Reply { peer: from, found }: Reply,
    network: &mut Network,
) {
    let Some(way) = network.servers.stores.at(store).way(from, to) else { return };
    let (passage, step) = network.post_datagram(way, found.bytes());
    let own = network.servers.stores.at(store);
    let (comes, at_ns, message) = match step {
        Step::Crosses(at_ns) => (false, at_ns, Message::Found(attempt, found)),
        Step::Comes(at_ns) => {
            let is_soon = at_ns <= network.now_ns + EARLY_NS;
            match own.hear_answer_ahead(to, from, (attempt, found), is_soon) {
                Some(message) => (true, at_ns, message),
                None => return,
            }
        }
    };
    let Some(connection) = own.connection([from, to]) else { return };
    let pair = Pair { store, from, to };
    let transit = Transit { pair, connection, way, passage, left_bytes: None, comes };
    plan(Item::Letter(Letter { transit, message }), at_ns, network);
}

/// Something happens then to what is under way.
pub fn plan(item: Item, at_ns: u64, network: &mut Network) {
    let place = network.servers.stores.mail.put(item);
    network.agenda.plan(at_ns, Due::Mail(place));
}

/// A message goes over a connection, on which none has parts that have yet to go.
pub fn begin(pair: Pair, connection: u32, way: usize, message: Message, network: &mut Network) {
    let bytes = message.bytes();
    let (passage, left_bytes) = part(way, bytes, bytes, network);
    if left_bytes > 0 {
        network.servers.stores.mail.stream(pair, connection).busy = true;
    }
    let transit = Transit { pair, connection, way, passage, left_bytes: Some(left_bytes), comes: false };
    send(transit, message, network);
}

/// Of a message of so many octets the next part of what is left is sent; what is left then.
pub fn part(way: usize, bytes: u64, left_bytes: u64, network: &mut Network) -> (Passage, u64) {
    let sent_bytes = left_bytes.min(part_bytes(bytes));
    let load = network.post().way(way).frames.stream(sent_bytes);
    (Passage::of(load, network.now_ns), left_bytes - sent_bytes)
}

fn send(mut transit: Transit, message: Message, network: &mut Network) {
    let at_ns = go(&mut transit, network);
    let Pair { store, from, to } = transit.pair;
    if transit.comes && network.servers.stores.at(store).hear_kept_ahead(Nanos(at_ns), to, from, &message) {
        return;
    }
    let message = if is_certain(&transit) {
        let is_soon = at_ns <= network.now_ns + EARLY_NS;
        network.servers.stores.at(store).hear_ahead(to, from, message, is_soon)
    } else {
        Some(message)
    };
    if let Some(message) = message {
        plan(Item::Letter(Letter { transit, message }), at_ns, network);
    }
}

/// A message, or a part of one, continues; when something of it happens next.
pub fn go(transit: &mut Transit, network: &mut Network) -> u64 {
    let now_ns = network.now_ns;
    let Transit { way, passage, left_bytes, comes, .. } = transit;
    if passage.is_new() {
        network.count_sent(*way, passage.load());
    }
    let at_ns = match network.post().go(now_ns, *way, passage) {
        Step::Crosses(at_ns) => return at_ns,
        Step::Comes(at_ns) => at_ns,
    };
    network.count_received(*way, passage.load());
    if left_bytes.is_some_and(|left_bytes| left_bytes > 0) {
        return passage.clear_ns().max(now_ns);
    }
    *comes = true;
    at_ns
}

/// Whether it is known of a datagram when it comes.
pub fn is_certain(transit: &Transit) -> bool {
    transit.comes && transit.left_bytes.is_none()
}

/// A peer says something to all nodes.
pub fn call(store: usize, from: usize, message: Message, network: &mut Network) {
    let Some(flood) = network.servers.stores.at(store).flood(from) else { return };
    let load = network.post().flood(flood).frames.datagram(message.bytes());
    network.count_called(flood, load);
    let mut arrivals = network.servers.stores.mail.list();
    let now_ns = network.now_ns;
    network.post().spread(now_ns, flood, None, load, &mut arrivals);
    put_in_order(&mut arrivals);
    if let Some(at_ns) = arrivals.last().map(|first| first.at_ns()) {
        plan(Item::Call(Call { store, from, flood, message, load, arrivals }), at_ns, network);
    }
}
