//! What peers of a store have said without packets continues over its lines, and comes.

use super::posting::{EARLY_NS, answer, begin, go, is_certain, part, plan};
use super::settling::hear;
use crate::agenda::Due;
use crate::network::Network;
use crate::post::{Arrival, Whom, part_bytes, put_in_order};
use crate::servers::stores::{Item, Letter, Pair, Stores, Transit};
use virtlab_wire::Nanos;

/// Something that is under way continues, or has come.
pub fn carry(place: usize, network: &mut Network) {
    match network.servers.stores.mail.at(place) {
        Some(Item::Letter(letter)) => {
            let (transit, bytes) = (letter.transit, letter.message.bytes());
            carry_letter(place, transit, bytes, network);
        }
        Some(Item::Call(_)) => carry_call(place, network),
        None => {}
    }
}

fn carry_letter(place: usize, mut transit: Transit, bytes: u64, network: &mut Network) {
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
        let (passage, left_bytes) = part(transit.way, bytes, left_bytes, network);
        (transit.passage, transit.left_bytes) = (passage, Some(left_bytes));
        last = left_bytes == 0;
    }
    let at_ns = go(&mut transit, network);
    let is_soon = at_ns <= network.now_ns + EARLY_NS;
    let Stores { mail, all } = &mut network.servers.stores;
    if transit.comes
        && let Some(Item::Letter(letter)) = mail.at(place)
        && all[store].hear_kept_ahead(Nanos(at_ns), to, from, &letter.message)
    {
        mail.take(place);
        if last {
            go_behind(transit, network);
        }
        return;
    }
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
        let bytes = message.bytes();
        let long = bytes > part_bytes(bytes);
        begin(pair, connection, way, message, network);
        if long {
            return;
        }
    }
}

/// Lets happen what has by now to something that was said to all.
fn carry_call(place: usize, network: &mut Network) {
    let now_ns = network.now_ns;
    loop {
        let Some(Item::Call(call)) = network.servers.stores.mail.at(place) else { return };
        match call.arrivals.last().map(|next| (next.at_ns(), next.whom())) {
            Some((at_ns, _)) if at_ns > now_ns => {
                network.agenda.plan(at_ns, Due::Mail(place));
                return;
            }
            Some((_, Whom::Peer(..))) => ask(place, network),
            Some((_, Whom::Branch(_))) => {
                let (flood, load) = (call.flood, call.load);
                let mut arrivals = std::mem::take(&mut call.arrivals);
                // Branches come before peers; they are the last there, the first of them at the end.
                let end = arrivals.len();
                let is_due =
                    |next: &&Arrival| next.at_ns() <= now_ns && matches!(next.whom(), Whom::Branch(_));
                let begin = end - arrivals.iter().rev().take_while(is_due).count();
                for place in (begin..end).rev() {
                    if let Whom::Branch(branch) = arrivals[place].whom() {
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

/// Peers hear what was said to all and has come to them by now: it has come to no branch at the same time.
fn ask(place: usize, network: &mut Network) {
    let now_ns = network.now_ns;
    let Stores { mail, all } = &mut network.servers.stores;
    let (mut replies, mut arrivals) = (std::mem::take(&mut mail.replies), Vec::new());
    let Some(Item::Call(call)) = mail.at(place) else { return };
    let (store, from, load) = (call.store, call.from, call.load);
    std::mem::swap(&mut arrivals, &mut call.arrivals);
    let hears = |next: &Arrival| match next.whom() {
        Whom::Peer(peer, nic) if next.at_ns() <= now_ns => Some((peer, nic)),
        _ => None,
    };
    let due = || arrivals.iter().rev().map_while(hears);
    let asked = all[store].ask(due().map(|(peer, _)| peer), &call.message, &mut replies);
    let message = if asked.is_none() { Some(call.message.clone()) } else { None };
    let mut many = 0;
    for (peer, nic) in due() {
        many += 1;
        network.count_heard(nic, load);
        if let Some(message) = &message {
            hear(store, peer, from, message.clone(), network);
        }
    }
    if let Some(attempt) = asked {
        replies.drain(..).for_each(|reply| answer(store, from, attempt, reply, network));
    }
    arrivals.truncate(arrivals.len() - many);
    let mail = &mut network.servers.stores.mail;
    mail.replies = replies;
    if let Some(Item::Call(call)) = mail.at(place) {
        call.arrivals = arrivals;
    }
}
