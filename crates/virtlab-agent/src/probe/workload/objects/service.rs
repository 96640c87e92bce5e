//! A node or a proxy of a store, as a process of its own in its guest: the machine of `virtlab-store` on sockets and
//! files.

use super::codec::{self, Audited, Content, Word};
use super::lines::{Heard, Lines, Places};
use super::shelf::{self, Shelf, Wanted};
use super::teller::Teller;
use crate::probe::watchdog;
use crate::probe::workload::tcp;
use anyhow::Context;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use virtlab_disk::Kind;
use virtlab_load::parameters::Buffers;
use virtlab_store::{
    Attempt, Given, Key, Message, Node, Object, Outcome, Output, Peer, Proxy, Task, To, Version,
};
use virtlab_system::clock;
use virtlab_wire::Nanos;

/// Command-line options.
#[derive(clap::Args)]
pub struct Options {
    /// What the store is: an object of parameters, as a Plan says them.
    #[arg(long)]
    parameters: String,
    #[arg(long)]
    port: u16,
    /// Among the nodes, then the proxies.
    #[arg(long)]
    place: usize,
    /// How many of its guests are nodes; the others are proxies.
    #[arg(long)]
    nodes: usize,
    /// Of all of its guests, in their order.
    #[arg(long = "peer", required = true)]
    peers: Vec<IpAddr>,
    /// To which questions for all nodes go.
    #[arg(long)]
    group: Option<IpAddr>,
    /// Where objects are kept; absent: in memory.
    #[arg(long)]
    folder: Option<PathBuf>,
    /// It was lost, and comes back.
    #[arg(long)]
    back: bool,
    /// With an empty disk.
    #[arg(long)]
    wiped: bool,
}

const NS_PER_MS: u64 = 1_000_000;

pub(super) enum Machine {
    Node(Box<Node>),
    Proxy(Box<Proxy>),
}

/// Serves until it is killed.
///
/// # Errors
/// When there is no such store, the port is taken, or the disk fails.
pub fn main(options: &Options) -> anyhow::Result<()> {
    // Through a value, as a client has it beside its own parameters: both are one piece of code.
    let given: serde_json::Value = serde_json::from_str(&options.parameters).context("parameters")?;
    let given: Given = serde_json::from_value(given).context("parameters")?;
    let proxies =
        options.peers.len().checked_sub(options.nodes).context("--nodes: more than there are peers")?;
    let policy = given.policy(options.nodes, proxies)?;
    codec::check(options.peers.len(), policy.copies)?;
    let local = *options.peers.get(options.place).context("--place: there is no such peer")?;
    let me = Peer(options.place as u32);
    let is_node = options.place < options.nodes;
    let listener = tcp::listen_to_all(options.port, Buffers::default())?;
    fcntl(&listener, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
    let at = |address: IpAddr| SocketAddr::new(address, options.port);
    let places = Places {
        me,
        local,
        peers: options.peers.iter().copied().map(at).collect(),
        group: options.group.map(|group| (at(group), is_node)),
    };
    let mut kept = None;
    if let (Some(folder), true) = (&options.folder, options.back) {
        let found = shelf::left(folder, options.wiped)?;
        kept = (!options.wiped).then_some(found);
    }
    let mut newest = BTreeMap::new();
    for (key, object) in kept.iter().flatten() {
        newest.insert(*key, object.version);
    }
    let shelf = Shelf::new(options.folder.as_deref(), newest)?;
    let now = clock::raw();
    // Restarts of one node are further apart than a millisecond.
    let incarnation = (now.0 / NS_PER_MS) as u32;
    let watch = given.watch().filter(|_| is_node);
    let machine = if is_node {
        let mut node = match options.back {
            true => Node::back(me, policy, now, incarnation, kept),
            false => Node::new(me, policy),
        };
        watch.into_iter().for_each(|(beat, silence)| node.watch(now, beat, silence));
        Machine::Node(Box::new(node))
    } else {
        Machine::Proxy(Box::new(Proxy::new(policy)))
    };
    let lines = Lines::new(places, Some(listener))?;
    watchdog::tell().context("cannot start a thread")?;
    let teller = (options.back || watch.is_some()).then(|| Teller::new(options.back));
    Serving::new(machine, lines, shelf, teller).serve()
}

/// Which content: a peer may say one version of two keys.
type Named = (Key, Version);

/// Content that is not kept: on its way through here, or not taken yet.
#[derive(Default)]
struct Carried {
    contents: BTreeMap<Named, Content>,
    /// Of attempts that this machine leads, or passes on.
    led: BTreeMap<Attempt, Named>,
    /// Of attempts that have put something here, and had no answer yet.
    put: BTreeMap<Attempt, Named>,
    /// Those of attempts that have ended.
    ended: Vec<Named>,
}

impl Carried {
    /// A message comes with content.
    fn take(&mut self, message: &Message, content: Option<Content>) {
        let Some(named) = named_in(message) else { return };
        match message {
            Message::Lead(attempt, ..) => drop(self.led.insert(*attempt, named)),
            Message::Put { attempt, .. } => drop(self.put.insert(*attempt, named)),
            _ => {}
        }
        if let Some(content) = content {
            self.contents.insert(named, content);
        }
    }

    /// A message goes. If it ends an attempt, or passes it on, that attempt's content stays until all outputs of this
    /// round are done.
    fn leave(&mut self, message: &Message) {
        let ended = match message {
            Message::Led(attempt, ..) | Message::Lead(attempt, ..) => self.led.remove(attempt),
            Message::Kept { attempt, .. } | Message::Refused(attempt, _) => self.put.remove(attempt),
            _ => None,
        };
        self.ended.extend(ended);
    }

    /// What the disk is to have.
    fn written(&mut self, named: Named) -> Option<Content> {
        self.ended.push(named);
        self.contents.get(&named).cloned()
    }

    /// A content is not on its way to the disk, or not any more: those that put it are answered, or will not be.
    fn forget(&mut self, named: Named) {
        while let Some((&attempt, _)) = self.put.iter().find(|(_, one)| **one == named) {
            self.put.remove(&attempt);
        }
        self.ended.push(named);
    }

    /// All is done that was wanted.
    fn settle(&mut self) {
        for named in std::mem::take(&mut self.ended) {
            if !self.led.values().chain(self.put.values()).any(|one| *one == named) {
                self.contents.remove(&named);
            }
        }
    }
}

/// The content that goes with a message.
fn named_in(message: &Message) -> Option<Named> {
    match message {
        Message::Lead(_, key, Task::Write { .. }, version) => Some((*key, *version)),
        Message::Led(_, key, Outcome::Done { version, bytes, .. }) if *bytes > 0 => Some((*key, *version)),
        Message::Put { key, object, .. }
        | Message::Content(_, key, Some(object))
        | Message::Pulled(_, key, Some(object)) => Some((*key, object.version)),
        _ => None,
    }
}

/// A machine with what it needs to serve.
pub(super) struct Serving {
    machine: Machine,
    lines: Lines,
    shelf: Shelf,
    carried: Carried,
    /// Of a node that came back, or makes copies for others.
    teller: Option<Teller>,
}

impl Serving {
    pub(super) fn new(machine: Machine, lines: Lines, shelf: Shelf, teller: Option<Teller>) -> Self {
        Self { machine, lines, shelf, carried: Carried::default(), teller }
    }

    fn serve(mut self) -> anyhow::Result<()> {
        loop {
            let told = self.teller.as_ref().and_then(Teller::next_event);
            let until = self.next_event().into_iter().chain(told).min();
            let fd = self.shelf.fd();
            let others: Vec<_> = fd.into_iter().collect();
            self.lines.wait(until, &others)?;
            while let Some(Heard { from, word, .. }) = self.lines.heard() {
                self.hear(from, word)?;
            }
            while let Some(done) = self.shelf.done()? {
                self.complete(done.wanted, done.content)?;
            }
            if self.next_event().is_some_and(|at| at <= clock::raw()) {
                self.wake(clock::raw())?;
            }
            self.observe();
        }
    }

    /// Tells how far it is with copies.
    fn observe(&mut self) {
        if let (Machine::Node(node), Some(teller)) = (&self.machine, &mut self.teller) {
            teller.look(clock::raw(), node);
        }
    }

    /// Does what is due by an instant.
    pub(super) fn wake(&mut self, now: Nanos) -> anyhow::Result<()> {
        match &mut self.machine {
            Machine::Node(node) => node.wake(now),
            Machine::Proxy(proxy) => proxy.wake(now),
        }
        self.settle(None)
    }

    fn next_event(&self) -> Option<Nanos> {
        match &self.machine {
            Machine::Node(node) => node.next_event(),
            Machine::Proxy(proxy) => proxy.next_event(),
        }
    }

    pub(super) fn hear(&mut self, from: Peer, word: Word) -> anyhow::Result<()> {
        let (message, content) = match word {
            Word::Said(message, content) => (message, content),
            Word::Audit => {
                let found = self.audited(from);
                let me = self.lines.me();
                self.lines.send(from, codec::audited(me, &found), None);
                return Ok(());
            }
            Word::Audited(_) => return Ok(()),
        };
        self.carried.take(&message, content);
        let passing = matches!(message, Message::Content(..)).then(|| named_in(&message)).flatten();
        let is_kept = matches!(message, Message::Put { .. } | Message::Pulled(..));
        let kept = named_in(&message).filter(|_| is_kept);
        self.handle(from, message);
        self.settle(None)?;
        self.forget(kept);
        // Other attempts may still have to put it somewhere.
        self.carried.ended.extend(passing);
        self.carried.settle();
        Ok(())
    }

    fn handle(&mut self, from: Peer, message: Message) {
        let now = clock::raw();
        match &mut self.machine {
            Machine::Node(node) => node.handle(now, from, message),
            Machine::Proxy(proxy) => proxy.handle(now, from, message),
        }
    }

    fn complete(&mut self, wanted: Wanted, content: Option<Content>) -> anyhow::Result<()> {
        if let Machine::Node(node) = &mut self.machine {
            if wanted.kind == Kind::Read && content.is_none() && self.shelf.fd().is_some() {
                node.gone(clock::raw(), wanted.key, wanted.version);
            }
            node.complete(clock::raw(), wanted.id);
        }
        let named = (wanted.key, wanted.version);
        self.settle(content.map(|content| (named, content)))?;
        self.forget((wanted.kind == Kind::Flush).then_some(named));
        self.carried.settle();
        Ok(())
    }

    /// What a node did not take, or has on its disk, is carried no more.
    fn forget(&mut self, kept: Option<Named>) {
        let Machine::Node(node) = &self.machine else { return };
        if let Some(named) = kept.filter(|(key, version)| !node.awaits(*key, *version)) {
            self.carried.forget(named);
        }
    }

    /// Does what the machine wants; with content that was just read.
    fn settle(&mut self, read: Option<(Named, Content)>) -> anyhow::Result<()> {
        loop {
            let output = match &mut self.machine {
                Machine::Node(node) => node.output(),
                Machine::Proxy(proxy) => proxy.output(),
            };
            match output {
                None => break,
                Some(Output::Send(To::Peer(to), message)) if to == self.lines.me() => {
                    self.carried.take(&message, None);
                    self.carried.leave(&message);
                    self.handle(to, message);
                }
                Some(Output::Send(To::Peer(to), message)) => self.say(to, message, read.as_ref()),
                Some(Output::Send(To::Nodes, message)) => {
                    self.lines.ask_all(&message);
                    if matches!(self.machine, Machine::Node(_)) {
                        self.handle(self.lines.me(), message);
                    }
                }
                Some(Output::Disk { id, kind, key, version, .. }) => {
                    let content =
                        (kind == Kind::Write).then(|| self.carried.written((key, version))).flatten();
                    let object = match &self.machine {
                        Machine::Node(node) => node.to_be_written(id).cloned(),
                        Machine::Proxy(_) => None,
                    };
                    self.shelf.begin(Wanted { id, kind, key, version }, object, content);
                }
                Some(Output::Answer { .. }) => {}
            }
            // In memory a disk takes no time.
            if self.shelf.fd().is_none() {
                while let Some(done) = self.shelf.done()? {
                    if let Machine::Node(node) = &mut self.machine {
                        node.complete(clock::raw(), done.wanted.id);
                    }
                }
            }
        }
        self.carried.settle();
        Ok(())
    }

    /// Says something with its content; without it, where that is here no more, that it is not here.
    fn say(&mut self, to: Peer, message: Message, read: Option<&(Named, Content)>) {
        let found = named_in(&message).and_then(|named| {
            let read = read.filter(|(known, _)| *known == named).map(|(_, content)| content);
            read.or_else(|| self.carried.contents.get(&named)).or_else(|| self.shelf.held(named)).cloned()
        });
        let message = match message {
            Message::Content(attempt, key, Some(object)) if found.is_none() && object.bytes > 0 => {
                Message::Content(attempt, key, None)
            }
            Message::Pulled(round, key, Some(object)) if found.is_none() && object.bytes > 0 => {
                Message::Pulled(round, key, None)
            }
            Message::Put { object, .. } if found.is_none() && object.bytes > 0 => return,
            other => other,
        };
        self.lines.say(to, &message, found.as_ref());
        self.carried.leave(&message);
    }

    /// What it holds, each object as its content says, and what it has said for a client.
    fn audited(&self, client: Peer) -> Audited {
        let said = self.lines.said_for(client);
        let back = self.teller.as_ref().is_some_and(Teller::is_back);
        let Machine::Node(node) = &self.machine else { return Audited { said, back, objects: Vec::new() } };
        let there = node.objects().filter(|(_, object)| !object.deleted);
        // No content has the number 0.
        let content = |key, object: &Object| if self.shelf.is_good(key, object) { object.content } else { 0 };
        Audited { said, back, objects: there.map(|(key, object)| (key, content(key, object))).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::super::codec::HEAD_BYTES;
    use super::super::content;
    use super::*;
    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
    use std::io::Read;
    use std::net::{Ipv4Addr, TcpListener, TcpStream};
    use std::path::Path;
    use virtlab_store::Policy;

    /// A client, and the only node.
    const CLIENT: Peer = Peer(2);
    const NODE: Peer = Peer(0);

    fn policy() -> Policy {
        written("client", 0)
    }

    fn written(by: &str, proxies: usize) -> Policy {
        let given = serde_json::json!({
            "copies": 1, "lookup": "ring", "partitions": 8, "written_by": by, "ack": "memory", "cache_bytes": 10,
            "question_ns": 1_000_000, "timeout_ns": 1_000_000_000,
        });
        serde_json::from_value::<Given>(given).unwrap().policy(1, proxies).unwrap()
    }

    fn serving(machine: Machine, folder: Option<&Path>, peers: Vec<SocketAddr>) -> Serving {
        let local = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let me = if matches!(machine, Machine::Node(_)) { NODE } else { Peer(1) };
        let lines = Lines::new(Places { me, local, peers, group: None }, None).unwrap();
        Serving::new(machine, lines, Shelf::new(folder, BTreeMap::new()).unwrap(), None)
    }

    /// A node whose cache has room for one object, with files in a folder, or in memory.
    fn node(folder: Option<&Path>, peers: Vec<SocketAddr>) -> Serving {
        serving(Machine::Node(Box::new(Node::new(NODE, policy()))), folder, peers)
    }

    fn proxy(policy: Policy, peers: Vec<SocketAddr>) -> Serving {
        serving(Machine::Proxy(Box::new(Proxy::new(policy))), None, peers)
    }

    fn version(number: u64) -> Version {
        Version { stamp: 1, writer: CLIENT, number }
    }

    fn attempt(operation: u64) -> Attempt {
        Attempt { client: CLIENT, operation, number: 0 }
    }

    fn object(number: u64) -> Object {
        Object { version: version(number), bytes: 10, content: 7, deleted: false, holders: vec![NODE].into() }
    }

    fn content_of(key: u64) -> Content {
        Content::of(content::make(Key(key), 7, 10))
    }

    /// An attempt puts a version of a key.
    fn put(operation: u64, key: u64, number: u64) -> Word {
        let (attempt, object) = (attempt(operation), object(number));
        let message = Message::Put { attempt, key: Key(key), object, incarnation: None };
        Word::Said(message, Some(content_of(key)))
    }

    /// An attempt that writes a version of a key is to be led.
    fn lead(operation: u64, key: u64, number: u64) -> Word {
        let task = Task::Write { bytes: 10, content: 7 };
        let message = Message::Lead(attempt(operation), Key(key), task, version(number));
        Word::Said(message, Some(content_of(key)))
    }

    /// Until the disk has done so many things more.
    fn work(node: &mut Serving, mut things: usize) {
        while things > 0 {
            let fd = node.shelf.fd().unwrap();
            let ready = poll(&mut [PollFd::new(fd, PollFlags::POLLIN)], PollTimeout::from(5_000u16)).unwrap();
            assert_eq!(ready, 1, "the disk does nothing more");
            while let Some(done) = node.shelf.done().unwrap() {
                node.complete(done.wanted, done.content).unwrap();
                things -= 1;
            }
        }
    }

    /// What a node holds: keys and numbers of versions, and whether the content is what it ought to be.
    fn held(node: &Serving) -> Vec<(u64, u64, bool)> {
        let Machine::Node(kept) = &node.machine else { unreachable!("a node was made") };
        kept.objects().map(|(key, one)| (key.0, one.version.number, node.shelf.is_good(key, one))).collect()
    }

    /// Another peer's end, and its address.
    fn peer() -> (TcpListener, SocketAddr) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let at = listener.local_addr().unwrap();
        (listener, at)
    }

    /// What was said to a peer next: the key, and whether its own content came.
    fn said(service: &mut Serving, stream: &mut TcpStream) -> (&'static str, u64, bool) {
        service.lines.wait(Some(clock::raw() + Nanos(1_000_000)), &[]).unwrap();
        let mut head = [0; HEAD_BYTES];
        stream.read_exact(&mut head).unwrap();
        let mut rest = vec![0; codec::follows(&head).unwrap()];
        stream.read_exact(&mut rest).unwrap();
        let (_, Word::Said(message, content)) = codec::decode(&head, rest).unwrap() else { panic!() };
        let good = |key: Key| content.is_some_and(|content| content::is_content(key, 7, content.octets()));
        match message {
            Message::Put { key, .. } => ("put", key.0, good(key)),
            Message::Content(_, key, _) => ("content", key.0, good(key)),
            Message::Led(_, key, Outcome::Done { .. }) => ("led", key.0, true),
            Message::Lead(_, key, ..) => ("lead", key.0, good(key)),
            other => panic!("{other:?}"),
        }
    }

    fn accepted(listener: &TcpListener) -> TcpStream {
        let (stream, _) = listener.accept().unwrap();
        stream.set_read_timeout(Some(std::time::Duration::from_secs(5))).unwrap();
        stream
    }

    fn folder(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("virtlab-{name}-{}", std::process::id()))
    }

    #[test]
    fn one_version_under_two_keys_that_wait_for_room_in_the_cache_is_kept_of_each_and_read() {
        let folder = folder("two-keys");
        let (client, at) = peer();
        let mut node = node(Some(&folder), vec![at; 3]);
        for (key, number) in [(1, 1), (2, 2), (3, 2)] {
            node.hear(Peer(9), put(key, key, number)).unwrap();
        }
        work(&mut node, 6);
        assert_eq!(held(&node), [(1, 1, true), (2, 2, true), (3, 2, true)], "each key has its own content");
        assert!(node.carried.contents.is_empty(), "nothing is carried any more");
        for key in [2, 3] {
            let fetch = Message::Fetch(attempt(10 + key), Key(key), version(2));
            node.hear(CLIENT, Word::Said(fetch, None)).unwrap();
        }
        work(&mut node, 2);
        let mut client = accepted(&client);
        assert_eq!(said(&mut node, &mut client), ("content", 2, true), "from the disk");
        assert_eq!(said(&mut node, &mut client), ("content", 3, true), "from the disk");
        drop(node);
        std::fs::remove_dir_all(&folder).unwrap();
    }

    /// A node that confirms from the disk, and promised a third version of a key while it wrote the second, which is
    /// for these holders.
    fn overtaken(folder: &Path, at: SocketAddr, holders: &[Peer]) -> Serving {
        let disk = Policy { ack: virtlab_store::Ack::Disk, ..policy() };
        let machine = Machine::Node(Box::new(Node::new(NODE, disk)));
        let mut node = serving(machine, Some(folder), vec![at; 3]);
        node.hear(CLIENT, put(1, 1, 1)).unwrap();
        work(&mut node, 2);
        let object = Object { holders: holders.to_vec().into(), ..object(2) };
        let late = Message::Put { attempt: attempt(2), key: Key(1), object, incarnation: None };
        node.hear(CLIENT, Word::Said(late, Some(content_of(1)))).unwrap();
        let (key, all, version) = (Key(1), true, Some(version(3)));
        let find = Message::Find { attempt: attempt(3), key, all, version };
        node.hear(CLIENT, Word::Said(find, None)).unwrap();
        work(&mut node, 2);
        node
    }

    /// The first version is fetched; whether the node is still whole.
    fn fetched(node: &mut Serving) -> bool {
        let fetch = Message::Fetch(attempt(4), Key(1), version(1));
        node.hear(CLIENT, Word::Said(fetch, None)).unwrap();
        work(node, 1);
        let Machine::Node(kept) = &node.machine else { unreachable!("a node was made") };
        kept.is_whole() && !kept.is_recovering()
    }

    #[test]
    fn what_a_refused_write_has_left_in_the_file_is_held() {
        let folder = folder("overtaken");
        let (_client, at) = peer();
        let mut node = overtaken(&folder, at, &[NODE]);
        assert_eq!(held(&node), [(1, 2, true)], "the second version is refused, and in the file");
        assert!(fetched(&mut node));
        assert_eq!(held(&node), [(1, 2, true)]);
        drop(node);
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn what_a_refused_write_of_other_holders_has_replaced_on_the_disk_is_not_held_any_more() {
        let folder = folder("replaced");
        let (_client, at) = peer();
        let mut node = overtaken(&folder, at, &[NODE, Peer(1)]);
        assert_eq!(held(&node), [(1, 1, false)], "the second version is refused, and in the file");
        assert!(!fetched(&mut node), "it says so");
        assert_eq!(held(&node), []);
        drop(node);
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn one_version_of_two_keys_passes_through_a_proxy_with_the_content_of_each() {
        let ((node, at), (client, to)) = (peer(), peer());
        let mut proxy = proxy(policy(), vec![at, at, to]);
        for key in [1, 2] {
            proxy.hear(CLIENT, lead(key, key, 5)).unwrap();
        }
        let mut node = accepted(&node);
        proxy.wake(clock::raw() + policy().patience()).unwrap();
        for again in [false, true] {
            for key in [1, 2] {
                assert_eq!(said(&mut proxy, &mut node), ("put", key, true), "again: {again}");
            }
        }
        for key in [1, 2] {
            let kept = Message::Kept { attempt: attempt(key), version: version(5), whole: true };
            proxy.hear(NODE, Word::Said(kept, None)).unwrap();
            assert_eq!(proxy.carried.contents.len() as u64, 2 - key, "what the other needs stays");
        }
        let mut client = accepted(&client);
        assert_eq!(said(&mut proxy, &mut client), ("led", 1, true));
        assert_eq!(said(&mut proxy, &mut client), ("led", 2, true));
    }

    #[test]
    fn what_a_proxy_passes_on_to_a_primary_goes_with_its_content_and_is_carried_no_more() {
        let ((node, at), (client, to)) = (peer(), peer());
        let mut proxy = proxy(written("primary", 1), vec![at, at, to]);
        for key in [1, 2] {
            proxy.hear(CLIENT, lead(key, key, 5)).unwrap();
            assert!(proxy.carried.contents.is_empty() && proxy.carried.led.is_empty(), "key {key}");
        }
        let mut node = accepted(&node);
        assert_eq!(said(&mut proxy, &mut node), ("lead", 1, true));
        assert_eq!(said(&mut proxy, &mut node), ("lead", 2, true));
        let outcome = Outcome::Done { version: version(5), bytes: 0, content: 7 };
        proxy.hear(NODE, Word::Said(Message::Led(attempt(1), Key(1), outcome), None)).unwrap();
        let mut client = accepted(&client);
        assert_eq!(said(&mut proxy, &mut client), ("led", 1, true));
    }
}
