//! What peers of a store have said without packets continues over its lines, and comes.

use super::posting::{EARLY_NS, begin, go, is_certain, part, plan};
use super::settling::{hear, settle};
use crate::agenda::Due;
use crate::network::Network;
use crate::post::{Arrival, PART_BYTES};
use crate::servers::stores::{Item, Letter, Pair, Stores, Transit};
use virtlab_wire::Nanos;

/// Something that is under way continues, or has come.
pub fn carry(place: usize, network: &mut Network) {
    match network.servers.stores.mail.at(place) {
        Some(Item::Letter(letter)) => {
            let transit = letter.transit;
            carry_letter(place, transit, network);
        }
        Some(Item::Call(_)) => carry_call(place, network),
        None => {}
    }
}

fn carry_letter(place: usize, mut transit: Transit, network: &mut Network) {
    let Pair { store, from, to } = transit.pair;
    if network.servers.stores.at(store).connection([from, to]) != Some(transit.connection) {
        network.servers.stores.mail.take(place);
        return;
    }
    if transit.comes {
        if let Some(Item::Letter(letter)) = network.servers.stores.mail.take(place) {
            hear(store, to, from, letter.message, network);
        }
        return;
    }
    let mut last = false;
    if let Some(left_bytes) = transit.left_bytes
        && transit.passage.is_over(network.post().way(transit.way))
    {
        let (passage, left_bytes) = part(transit.way, left_bytes, network);
        (transit.passage, transit.left_bytes) = (passage, Some(left_bytes));
        last = left_bytes == 0;
    }
    let at_ns = go(&mut transit, network);
    let is_soon = at_ns <= network.now_ns + EARLY_NS;
    let Stores { mail, all } = &mut network.servers.stores;
    if is_certain(&transit)
        && let Some(Item::Letter(letter)) = mail.take(place)
    {
        let Some(message) = all[store].hear_ahead(to, from, letter.message, is_soon) else { return };
        return plan(Item::Letter(Letter { transit, message }), at_ns, network);
    }
    if let Some(Item::Letter(letter)) = mail.at(place) {
        letter.transit = transit;
    }
    network.agenda.plan(at_ns, Due::Mail(place));
    if last {
        go_behind(transit, network);
    }
}

/// The last part of a message has gone: what has waited for that goes.
fn go_behind(Transit { pair, connection, way, .. }: Transit, network: &mut Network) {
    loop {
        let stream = network.servers.stores.mail.stream(pair, connection);
        let next = stream.waiting.pop_front();
        stream.busy = next.is_some();
        let Some(message) = next else { return };
        let long = message.bytes() > PART_BYTES;
        begin(pair, connection, way, message, network);
        if long {
            return;
        }
    }
}

/// Lets happen what has by now to something that was said to all.
fn carry_call(place: usize, network: &mut Network) {
    while let Some(Item::Call(call)) = network.servers.stores.mail.at(place) {
        match call.arrivals.last() {
            Some(&(at_ns, _)) if at_ns > network.now_ns => {
                network.agenda.plan(at_ns, Due::Mail(place));
                return;
            }
            Some(&(_, Arrival::Peer(peer, nic))) => {
                call.arrivals.pop();
                let (store, from, load, message) = (call.store, call.from, call.load, call.message.clone());
                network.count_heard(nic, load);
                network.servers.stores.at(store).hear(Nanos(network.now_ns), peer, from, message);
                settle(store, peer, network);
            }
            Some(&(_, Arrival::Branch(branch))) => {
                call.arrivals.pop();
                let (flood, load, now_ns) = (call.flood, call.load, network.now_ns);
                let mut arrivals = std::mem::take(&mut call.arrivals);
                network.post().spread(now_ns, flood, Some(branch), load, &mut arrivals);
                arrivals.sort_unstable_by(|one, other| other.cmp(one));
                if let Some(Item::Call(call)) = network.servers.stores.mail.at(place) {
                    call.arrivals = arrivals;
                }
            }
            None => {
                if let Some(Item::Call(call)) = network.servers.stores.mail.take(place) {
                    network.servers.stores.mail.give_list(call.arrivals);
                }
                return;
            }
        }
    }
}
