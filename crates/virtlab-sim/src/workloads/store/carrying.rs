//! What peers of a store have said without packets continues over its lines, and comes.

use super::posting::{EARLY_NS, answer, begin, go, is_certain, part, plan};
use super::settling::{hear, settle};
use crate::agenda::Due;
use crate::network::Network;
use crate::post::{Arrival, PART_BYTES, put_in_order};
use crate::servers::stores::{Item, Letter, Pair, Reply, Stores, Transit};
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
    loop {
        let Stores { mail, all } = &mut network.servers.stores;
        let Some(Item::Call(call)) = mail.at(place) else { return };
        match call.arrivals.last() {
            Some(&(at_ns, _)) if at_ns > network.now_ns => {
                network.agenda.plan(at_ns, Due::Mail(place));
                return;
            }
            Some(&(_, Arrival::Peer(peer, nic))) => {
                call.arrivals.pop();
                let (store, from, load) = (call.store, call.from, call.load);
                let reply = all[store].ask(peer, &call.message);
                let message = if reply.is_none() { Some(call.message.clone()) } else { None };
                network.count_heard(nic, load);
                if let Some(message) = message {
                    network.servers.stores.at(store).hear(Nanos(network.now_ns), peer, from, message);
                    settle(store, peer, network);
                } else if let Some(Reply::Says(attempt, found)) = reply {
                    answer(store, peer, from, (attempt, found), network);
                }
            }
            Some(&(_, Arrival::Branch(_))) => {
                let (flood, load, now_ns) = (call.flood, call.load, network.now_ns);
                let mut arrivals = std::mem::take(&mut call.arrivals);
                // Branches come before peers; they are the last there, the first of them at the end.
                let is_due =
                    |(at_ns, next): &(u64, Arrival)| *at_ns <= now_ns && matches!(next, Arrival::Branch(_));
                let end = arrivals.len();
                let begin = end - arrivals.iter().rev().take_while(|next| is_due(next)).count();
                for place in (begin..end).rev() {
                    if let (_, Arrival::Branch(branch)) = arrivals[place] {
                        network.post().spread(now_ns, flood, Some(branch), load, &mut arrivals);
                    }
                }
                arrivals.drain(begin..end);
                put_in_order(&mut arrivals);
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
