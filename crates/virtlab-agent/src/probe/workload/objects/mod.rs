//! `objects`: operations on objects of a store, by threads in turns or at a rate; each answer is verified by its
//! content.
//!
//! One thread plays the client of `virtlab-store` on sockets. An operation is drawn by its share, then an object that
//! is free for it, as the simulator does. What a role knows of its objects stays in this process for other roles of the
//! same folder, and what the store holds in the end is asked when the role's samples are collected, after all traffic.
//! A store that speaks another protocol is asked by threads (`swift`).

mod blocks;
mod codec;
pub mod disk;
pub mod folder;
pub mod fuzzing;
mod lines;
mod s3;
pub mod service;
mod shelf;
mod swift;
mod teller;

use super::operations::{self, Choice, Objects, Operation, Turns, lock};
use super::{Arming, Kind, Prepared, Side, StandBy, Workload, content, parse};
use crate::probe::pacing::sleep;
use crate::probe::report::Report;
use crate::probe::run::Run;
use crate::probe::spool::available_bytes;
use anyhow::Context;
use codec::{Audited, Content, Word};
use lines::{Heard, Lines, Places};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, LazyLock, Mutex};
use virtlab_load::parameters::objects::{NAME, Objects as Parameters};
use virtlab_store::{
    Audit, Client as Machine, Deed, Folder, Given, Held, Listing, Message, Outcome, Output, Peer, Pick,
    Policy, To,
};
use virtlab_system::clock;
use virtlab_system::work::charged_ns;
use virtlab_wire::Nanos;

/// In the table of workloads.
pub const KIND: Kind = Kind::of(NAME, prepare);

/// For operations that are under way when the role is stopped.
const GRACE: Nanos = Nanos(2_000_000_000);
/// For nodes that say what they hold.
const AUDIT_PATIENCE: Nanos = Nanos(10_000_000_000);
/// After which a node that has said nothing is asked again.
const ASK_AGAIN: Nanos = Nanos(1_000_000_000);
/// So long no copy has come that is missing, and no octet was taken: none will.
const SETTLED: Nanos = Nanos(500_000_000);
const LIST_EVERY: Nanos = Nanos(50_000_000);

/// The store, as the testbed says it beside a role's parameters.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    /// Which of the store's peers this client is.
    me: u32,
    /// Addresses of its nodes, then its proxies.
    peers: Vec<IpAddr>,
    nodes: usize,
    group: Option<IpAddr>,
    /// Of the role's folder, which no other folder of the store has.
    folder: u64,
    /// Nodes that the timeline lets fail: one that is not there in the end holds nothing.
    #[serde(default)]
    away: Vec<u32>,
    parameters: Given,
}

impl Asked {
    /// What its parameters ask of a client.
    ///
    /// # Errors
    /// When they, or so many peers, cannot be.
    fn policy(&self) -> anyhow::Result<Policy> {
        let proxies = self.peers.len().checked_sub(self.nodes).context("nodes: more than its peers")?;
        let policy = self.parameters.policy(self.nodes, proxies)?;
        codec::check(self.peers.len().max(self.me as usize + 1), policy.copies)?;
        Ok(policy)
    }

    /// Where its peers are, for a client at that address.
    fn places(&self, local: IpAddr, port: u16) -> Places {
        let at = |address: IpAddr| SocketAddr::new(address, port);
        Places {
            me: Peer(self.me),
            local,
            peers: self.peers.iter().copied().map(at).collect(),
            group: self.group.map(|group| (at(group), false)),
        }
    }
}

/// Folders of this process, by store and name.
type Folders = BTreeMap<(String, String), Arc<Mutex<Folder>>>;
static FOLDERS: LazyLock<Mutex<Folders>> = LazyLock::new(Mutex::default);

/// By store and client, what nodes and proxies had said for it when they were asked last: they count on from one trial
/// to the next.
type Said = BTreeMap<(String, u32), [u64; 4]>;
static SAID: LazyLock<Mutex<Said>> = LazyLock::new(Mutex::default);

fn prepare(mut arming: Arming<'_>) -> anyhow::Result<Prepared> {
    if arming.side == Side::Server {
        return Ok(Prepared::fixed(StandBy));
    }
    let others = arming.own.remove(swift::NAME);
    let asked = arming.own.remove("store");
    let own: Parameters = parse(&arming.own)?;
    own.check().context("parameters")?;
    let mix = operations::mix(&own.operations)?;
    let name = own.folder.clone().unwrap_or_else(|| arming.run.role.clone());
    let folder = |number| {
        let known = (own.service.clone(), name.clone());
        lock(&FOLDERS)
            .entry(known)
            .or_insert_with(|| Arc::new(Mutex::new(Folder::new(&name, number))))
            .clone()
    };
    if let Some(others) = others {
        let choice = Choice { mix, folder: folder(0), seed: arming.seed };
        let asked = serde_json::from_value(others).context(swift::NAME)?;
        return Ok(Prepared::fixed(swift::Client::new(own, choice, asked, &arming)?));
    }
    let asked: Asked = serde_json::from_value(asked.context("store is missing")?).context("store")?;
    let policy = asked.policy().context("store")?;
    let folder = folder(asked.folder);
    let (port, local) = (arming.peer_port()?, arming.local.ip("local")?);
    let choice = Choice { mix, folder, seed: arming.seed };
    let before = lock(&SAID).get(&(own.service.clone(), asked.me)).copied().unwrap_or_default();
    Ok(Prepared::fixed(Client { own, choice, policy, asked, port, local, before }))
}

struct Client {
    own: Parameters,
    choice: Choice,
    policy: Policy,
    asked: Asked,
    port: u16,
    local: IpAddr,
    /// What nodes and proxies had said for it in trials before.
    before: [u64; 4],
}

impl Client {
    fn lines(&self) -> anyhow::Result<Lines> {
        Lines::new(self.asked.places(self.local, self.port), None)
    }
}

impl Workload for Client {
    fn objects(&self) -> Option<Arc<dyn Objects>> {
        Some(self.choice.folder.clone())
    }

    fn run(self: Box<Self>, run: &Run) -> Report {
        let mut report = Report::default();
        let opened = self.lines().and_then(|lines| Ok((lines, woken_by(run)?)));
        let (lines, woken) = match opened {
            Ok(opened) => opened,
            Err(error) => {
                report.failure = Some(format!("{error:#}"));
                return report;
            }
        };
        let Some(start) = run.begun() else { return report };
        if lock(&self.choice.folder).is_away() {
            report.failure = Some(operations::AWAY.into());
            return report;
        }
        let mut asking = Asking {
            machine: Machine::new(Peer(self.asked.me), self.policy),
            lines,
            turns: Turns::new(&self.choice, self.own.asks(), start, run),
            open: BTreeMap::new(),
            client: &self,
        };
        let before_ns = charged_ns();
        let over = asking.until_over(run, &woken);
        asking.turns.worked(charged_ns() - before_ns);
        match over {
            Ok(complete) => report.complete = complete,
            Err(error) => report.failure = Some(format!("{error:#}")),
        }
        let Asking { turns, mut lines, .. } = asking;
        // Copies beyond the quorum may still wait here for a node that is slower than others.
        if let Err(error) = lines.drain(SETTLED) {
            report.failure.get_or_insert(format!("{error:#}"));
        }
        turns.tell(1, &mut report);
        // Kept until then: a connection that is closed may take a copy with it that is still on its way.
        let lines = Mutex::new(lines);
        report.last = Some(Box::new(move || self.audit(&mut lock(&lines))));
        report
    }
}

/// A descriptor that becomes readable when the role is stopped.
fn woken_by(run: &Run) -> anyhow::Result<OwnedFd> {
    let (near, far) = UnixStream::pair().context("cannot make a pair of sockets")?;
    run.wakes(&far)?;
    Ok(near.into())
}

/// An operation that is under way.
struct Open {
    pick: Pick,
    intended: Nanos,
    sent: Nanos,
    /// Of those that ask in turns.
    thread: Option<u32>,
    /// Of a write: what is to be there. Of a read: what came, and which content it was said to be.
    content: Option<Content>,
    /// Of a read: when the first octets of the answer with its content came.
    first: Option<Nanos>,
}

/// The client at work.
struct Asking<'a> {
    client: &'a Client,
    machine: Machine,
    lines: Lines,
    turns: Turns<'a>,
    open: BTreeMap<u64, Open>,
}

impl Asking<'_> {
    /// Whether all was done that was to be.
    fn until_over(&mut self, run: &Run, woken: &OwnedFd) -> anyhow::Result<bool> {
        let own = &self.client.own;
        let mut last = None;
        if own.rate_per_s.is_none() {
            (0..own.threads).for_each(|thread| self.begin(clock::raw(), Some(thread)));
            self.settle(true);
        }
        loop {
            let now = clock::raw();
            if run.stopped() && last.is_none() {
                last = Some(now + GRACE);
            }
            let over = last.is_some() || self.turns.is_enough(now);
            if over && self.open.is_empty() || last.is_some_and(|last| last <= now) {
                return Ok(last.is_none());
            }
            let mut until = self.machine.next_event().into_iter().chain(last).min();
            if !over && own.rate_per_s.is_some() {
                let mut due = self.turns.due();
                // What falls due meanwhile waits until answers were heard: else an overloaded client would hear none.
                while due <= now && !self.turns.is_enough(due) {
                    self.turns.take_due();
                    self.begin(due, None);
                    self.settle(true);
                    due = self.turns.due();
                }
                until = until.into_iter().chain([due]).min();
            }
            // A role that is stopped stays woken.
            let others = [woken.as_fd()];
            self.lines.wait(until, if last.is_none() { &others } else { &[] })?;
            while let Some(Heard { from, word, began }) = self.lines.heard() {
                if let Word::Said(message, content) = word {
                    self.hear(from, message, content, began);
                    self.settle(last.is_none());
                }
            }
            if self.machine.next_event().is_some_and(|at| at <= clock::raw()) {
                self.machine.wake(clock::raw());
                self.settle(last.is_none());
            }
        }
    }

    /// An operation that is due begins, unless it is too late; `settle` sends what it wants.
    fn begin(&mut self, intended: Nanos, thread: Option<u32>) {
        let begun = self.turns.begin(&mut lock(&self.client.choice.folder), thread, intended, clock::raw());
        let Some((number, pick)) = begun else { return };
        let content = matches!(pick.deed, Deed::Create | Deed::Overwrite)
            .then(|| Content::of(content::make(pick.key, pick.content(), pick.bytes())));
        let sent = clock::raw();
        self.machine.request(sent, number, pick.key, pick.task);
        self.open.insert(number, Open { pick, intended, sent, thread, content, first: None });
    }

    /// What a peer said, whose first octets came at that instant.
    fn hear(&mut self, from: Peer, message: Message, content: Option<Content>, began: Nanos) {
        if let (Message::Content(attempt, ..) | Message::Led(attempt, ..), Some(content)) =
            (&message, content)
            && let Some(open) = self.open.get_mut(&attempt.operation)
            && open.pick.deed == Deed::Read
        {
            (open.content, open.first) = (Some(content), Some(began));
        }
        self.machine.handle(clock::raw(), from, message);
    }

    /// Does what the machine wants; threads begin what comes next, if they may.
    fn settle(&mut self, goes_on: bool) {
        while let Some(output) = self.machine.output() {
            match output {
                Output::Send(To::Peer(to), message) => {
                    let content = match &message {
                        Message::Put { attempt, .. } | Message::Lead(attempt, ..) => {
                            self.open.get(&attempt.operation).and_then(|open| open.content.clone())
                        }
                        _ => None,
                    };
                    self.lines.say(to, &message, content.as_ref());
                }
                Output::Send(To::Nodes, message) => self.lines.ask_all(&message),
                Output::Answer { operation, outcome, retries, listing } => {
                    let thread = self.end(operation, outcome, retries, listing.as_ref());
                    if goes_on && thread.is_some() {
                        self.begin(clock::raw(), thread);
                    }
                }
                Output::Disk { .. } => {}
            }
        }
    }

    /// An operation was answered; the thread that may begin another.
    fn end(
        &mut self,
        operation: u64,
        outcome: Outcome,
        retries: u32,
        listing: Option<&Listing>,
    ) -> Option<u32> {
        let finished = clock::raw();
        let Open { pick, intended, sent, thread, content, first } = self.open.remove(&operation)?;
        let outcome = verified(&pick, outcome, content.as_ref());
        let ending = lock(&self.client.choice.folder).end(&pick, outcome, listing);
        let (deed, object_bytes) = (pick.deed, pick.bytes());
        self.turns.count(Operation {
            deed,
            ending,
            intended,
            sent,
            first,
            finished,
            object_bytes,
            retries,
            thread,
        });
        thread
    }
}

/// How an operation ended, by the octets that came, whatever was said of them.
fn verified(pick: &Pick, outcome: Outcome, came: Option<&Content>) -> Outcome {
    match outcome {
        Outcome::Done { version, bytes, content } if pick.deed == Deed::Read => {
            let octets = came.map_or(&[][..], Content::octets);
            let good = octets.len() as u64 == bytes && content::is_content(pick.key, pick.content(), octets);
            // No content has the number 0.
            Outcome::Done { version, bytes, content: if good { content } else { 0 } }
        }
        other => other,
    }
}

/// What was said for a client. A node that was lost has taken with it what it had counted, so a sum would be too small.
fn told(said: [u64; 4], lost: bool) -> impl Iterator<Item = (&'static str, u64)> {
    let names = ["messages", "message_bytes", "lookup_messages", "lookup_bytes"];
    (!lost).then_some(said).into_iter().flat_map(move |said| names.into_iter().zip(said))
}

impl Client {
    /// What the store holds of the folder, and what was said for this client, by all. Copies beyond the write quorum
    /// may be under way: these come to their end first, unless a node has lost some, as what comes back is measured.
    fn audit(&self, lines: &mut Lines) -> anyhow::Result<Vec<(&'static str, u64)>> {
        let late = clock::raw() + AUDIT_PATIENCE;
        let (mut missing, mut since) = (u64::MAX, clock::raw());
        loop {
            let Listed { said, lost, held } = self.listed(lines, late)?;
            let folder = lock(&self.choice.folder);
            if folder.is_away() {
                return Ok(told(said, lost).chain([operations::ELSEWHERE]).collect());
            }
            let audit = Audit::of(&folder, &held, self.policy.copies);
            let bytes = folder.there().map(|object| object.bytes).sum();
            drop(folder);
            let now = clock::raw();
            if audit.missing_copies < missing {
                (missing, since) = (audit.missing_copies, now);
            }
            if missing == 0 || lost || now.since(since) >= SETTLED || now + SETTLED > late {
                return Ok(told(said, lost).chain(audit.counters()).chain(in_memory(bytes)).collect());
            }
            sleep(LIST_EVERY);
        }
    }

    fn listed(&self, lines: &mut Lines, late: Nanos) -> anyhow::Result<Listed> {
        let me = Peer(self.asked.me);
        let mut left: Vec<Peer> = (0..self.asked.peers.len() as u32).map(Peer).collect();
        let mut listed = Listed { said: [0; 4], lost: false, held: Held::new() };
        let mut again = Nanos(0);
        while !left.is_empty() {
            let now = clock::raw();
            anyhow::ensure!(now < late, "{} peers of the store did not say what they hold", left.len());
            // A connection that broke since its peer was heard last takes one question with it.
            if now >= again {
                left.iter().for_each(|&peer| lines.send(peer, codec::audit(me), None));
                again = now + ASK_AGAIN;
            }
            lines.wait(Some(late.min(again)), &[])?;
            let asked = left.len();
            left.retain(|peer| !(self.asked.away.contains(&peer.0) && lines.is_away(*peer)));
            listed.lost |= left.len() < asked;
            while let Some(Heard { from, word, .. }) = lines.heard() {
                let Word::Audited(Audited { said, back, objects }) = word else { continue };
                let Some(place) = left.iter().position(|peer| *peer == from) else { continue };
                left.swap_remove(place);
                listed.lost |= back;
                listed.said.iter_mut().zip(said).for_each(|(sum, more)| *sum += more);
                for (key, content) in objects {
                    listed.held.entry(key).or_default().push((from, content));
                }
            }
        }
        let of_peers = listed.said;
        lock(&SAID).insert((self.own.service.clone(), self.asked.me), of_peers);
        for (said, (own, before)) in
            listed.said.iter_mut().zip(lines.said_for(me).into_iter().zip(self.before))
        {
            *said = said.saturating_sub(before) + own;
        }
        Ok(listed)
    }
}

/// How much is there, and how much of it this machine could hold in memory.
fn in_memory(bytes: u64) -> [(&'static str, u64); 2] {
    [("objects_bytes", bytes), ("memory_bytes", available_bytes())]
}

/// What all peers of a store say at its end.
struct Listed {
    /// Messages for this client, octets, and those of lookups.
    said: [u64; 4],
    /// Whether a node was lost.
    lost: bool,
    held: Held,
}

#[cfg(test)]
mod tests {
    use super::*;
    use virtlab_store::{Ending, Key, Version};

    #[test]
    fn a_read_is_right_by_its_octets_alone() {
        let mut folder = Folder::new("a", 1);
        let made = folder.pick(Deed::Create, 0, 5000).unwrap();
        let whole = content::make(made.key, made.content(), 5000);
        let done = |bytes| Outcome::Done { version: Version::default(), bytes, content: made.content() };
        folder.end(&made, done(5000), None);
        let mut read = |octets: Vec<u8>| {
            let pick = folder.pick(Deed::Read, 0, 0).unwrap();
            let came = Content::of(octets);
            let outcome = verified(&pick, done(came.octets().len() as u64), Some(&came));
            folder.end(&pick, outcome, None)
        };
        assert_eq!(read(whole.clone()), Ending::Done);
        let mut flipped = whole.clone();
        flipped[4000] ^= 1;
        assert_eq!(read(flipped), Ending::Wrong, "a flipped bit");
        assert_eq!(read(whole[..4999].to_vec()), Ending::Wrong, "truncated");
        assert_eq!(read(content::make(made.key, made.content() - 1, 5000)), Ending::Wrong, "stale");
        assert_eq!(read(content::make(Key(9), made.content(), 5000)), Ending::Wrong, "swapped");
    }
}
