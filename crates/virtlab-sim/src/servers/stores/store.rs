//! One store: what its peers say and want.

use super::mail::Reply;
use super::peer::{Answer, Machine, Peer, Said, SaidFor};
use crate::input::Asker;
use std::collections::{BTreeMap, VecDeque};
use virtlab_disk::{Kind, Request, SECTOR_BYTES};
use virtlab_store::{
    Attempt, Audit, Book, Folder, Found, Held, Key, Left, Lookup, Loss, Message, Node, Output,
    Peer as Number, Policy, Progress, Standing, Task, To,
};
use virtlab_wire::Nanos;

/// A datagram that so many later ones have overtaken does not come any more.
const OVERTAKEN: u64 = 1 << 16;

/// What a peer wants of the world.
#[derive(Clone, Debug)]
pub enum Want {
    /// That a role of the network hears of an answer: that of the Plan which asks, or of a disk its own.
    Role(usize),
    /// That something is carried between two peers: their line.
    Line(usize),
    /// A question to all nodes: its number, and its bytes.
    All(u64, u64),
    /// That something is said to another peer, or to all nodes, without packets.
    Say(usize, Message),
    Call(Message),
    /// Something of its disk, by that number.
    Disk(u64, Kind, u64),
}

/// Datagrams under way, the first of them by its number.
#[derive(Default)]
struct Thrown {
    first: u64,
    messages: VecDeque<Option<Message>>,
}

impl Thrown {
    fn put(&mut self, message: Message) -> u64 {
        self.messages.push_back(Some(message));
        while self.messages.front().is_some_and(Option::is_none) || self.messages.len() as u64 > OVERTAKEN {
            self.messages.pop_front();
            self.first += 1;
        }
        self.first + self.messages.len() as u64 - 1
    }

    fn at(&mut self, number: u64) -> Option<&mut Option<Message>> {
        let place = number.checked_sub(self.first)?;
        self.messages.get_mut(usize::try_from(place).ok()?)
    }
}

/// Questions to all nodes, and answers to them: the first stay for all who hear them, the others are soon gone.
#[derive(Default)]
struct Datagrams {
    asked: Thrown,
    thrown: Thrown,
}

/// Where what peers say goes, without packets.
#[derive(Debug, Default)]
pub struct Ways {
    /// By the peer that says something and the one that hears it; by the peer that says something to all.
    pub between: Vec<Vec<usize>>,
    pub floods: Vec<usize>,
}

/// How its peers hear.
struct Hearing {
    /// Whether all that comes to a client over the network is foreseen, and no node is ever lost; of one whose peers
    /// say nothing in packets, a node may be.
    foreseen: bool,
    /// Whether no node is ever lost, though.
    stays_whole: bool,
    /// Whether hearing takes no node any time.
    at_once: bool,
    /// In which its nodes write what they promise; a node of a later book is asked by itself.
    book: Book,
}

/// A store.
pub struct Store {
    pub(super) service: String,
    /// The role of the network that its first peer is.
    first: usize,
    policy: Policy,
    peers: Vec<Peer>,
    /// By guest: the node or proxy in it.
    in_guests: Vec<Option<usize>>,
    /// By line: which end says what.
    outbox: Vec<VecDeque<(usize, Message)>>,
    /// Questions to all nodes, and answers to them.
    datagrams: Datagrams,
    folders: Vec<Folder>,
    loss: Option<Loss>,
    /// Where all goes that peers say; none: in packets.
    ways: Option<Ways>,
    hearing: Hearing,
    /// Absent where no node notices that another is silent.
    pub watch: Option<Watch>,
}

/// Nodes tell each other that they are there, and make copies for one that does not.
#[derive(Debug)]
pub struct Watch {
    /// Links, each with the nodes that nothing reaches once it is cut.
    behind: Vec<(String, Vec<usize>)>,
    /// Nodes that are cut off, each with how far it was with copies before.
    cut: BTreeMap<usize, Progress>,
}

impl Watch {
    /// Of nodes behind links that may be cut.
    pub fn new(behind: Vec<(String, Vec<usize>)>) -> Self {
        Self { behind, cut: BTreeMap::new() }
    }
}

impl Store {
    /// The one of a service, of such peers, which are roles of the network from the first on.
    pub fn new(service: &str, first: usize, policy: Policy, peers: Vec<Peer>, book: Book) -> Self {
        let lines = peers.len() * (peers.len() - 1) / 2;
        let outbox = vec![VecDeque::new(); lines];
        let guests = peers.iter().map(|peer| peer.guest + 1).max().unwrap_or(0);
        let mut in_guests = vec![None; guests];
        for (place, peer) in peers.iter().enumerate().filter(|(_, peer)| peer.asker.is_none()) {
            in_guests[peer.guest].get_or_insert(place);
        }
        let hears_at_once =
            |peer: &Peer| !matches!(peer.machine, Machine::Node(_)) || peer.processor.is_free();
        Self {
            hearing: Hearing {
                foreseen: false,
                stays_whole: false,
                at_once: peers.iter().all(hears_at_once),
                book,
            },
            service: service.to_owned(),
            first,
            policy,
            peers,
            in_guests,
            outbox,
            datagrams: Datagrams::default(),
            folders: Vec::new(),
            loss: None,
            ways: None,
            watch: None,
        }
    }

    /// The role of the network that a peer is.
    pub fn role_of(&self, peer: usize) -> usize {
        self.first + peer
    }

    /// The role of the network that the line of two peers is.
    pub fn role_of_line(&self, line: usize) -> usize {
        self.first + self.peers.len() + line
    }

    /// Whether a role of the network is a line of its.
    pub fn has_line(&self, role: usize) -> bool {
        (self.role_of_line(0)..self.role_of_line(self.outbox.len())).contains(&role)
    }

    /// All that comes to a client is foreseen from now on, and no node will be lost.
    pub fn foresee(&mut self) {
        self.hearing.foreseen = true;
    }

    /// No node is lost from now on.
    pub fn stay_whole(&mut self) {
        self.hearing.stays_whole = true;
    }

    /// Of a datagram that is certain to come: whether nothing follows from it.
    pub fn is_quiet(&mut self, number: u64) -> bool {
        if !self.hearing.foreseen {
            return false;
        }
        let Some(Some(Message::Found(attempt, found))) = self.datagrams.thrown.at(number) else {
            return false;
        };
        match self.peers.get_mut(attempt.client.0 as usize) {
            Some(Peer { machine: Machine::Client(client), .. }) => client.foresees(*attempt, found),
            _ => false,
        }
    }

    /// A datagram is certain to come to a peer from another: it is heard now if nothing follows from it and it comes
    /// soon, else given back.
    pub fn hear_ahead(
        &mut self,
        peer: usize,
        from: usize,
        message: Message,
        is_soon: bool,
    ) -> Option<Message> {
        match message {
            Message::Found(attempt, found) => self.hear_answer_ahead(peer, from, (attempt, found), is_soon),
            message => Some(message),
        }
    }

    /// A confirmation of a copy is certain to come to a peer unless a node is lost, at an instant: true where nothing
    /// follows from it, and it needs not be brought.
    pub fn hear_kept_ahead(&mut self, at: Nanos, peer: usize, from: usize, message: &Message) -> bool {
        match (message, &mut self.peers[peer].machine) {
            (Message::Kept { attempt, version, whole }, Machine::Client(client)) if self.hearing.foreseen => {
                if self.hearing.stays_whole {
                    client.hear_kept_ahead(at, *attempt, Number(from as u32), *version, *whole)
                } else {
                    client.has_ended(*attempt)
                }
            }
            _ => false,
        }
    }

    /// The same of an answer to a question.
    #[inline]
    pub fn hear_answer_ahead(
        &mut self,
        peer: usize,
        from: usize,
        (attempt, found): (Attempt, Found),
        is_soon: bool,
    ) -> Option<Message> {
        let found = match &mut self.peers[peer].machine {
            Machine::Client(client) if self.hearing.foreseen => {
                client.hear_ahead(attempt, Number(from as u32), found, is_soon)?
            }
            _ => found,
        };
        Some(Message::Found(attempt, found))
    }

    /// Nodes hear a question to all at one instant, and nothing follows but their answers: these, and to which attempt.
    /// `None`: that is not so, and each hears the question as anything else.
    pub fn ask(
        &mut self,
        nodes: impl Iterator<Item = usize>,
        question: &Message,
        replies: &mut Vec<Reply>,
    ) -> Option<Attempt> {
        let Message::Find { attempt, key, all, version } = *question else { return None };
        // While none was lost, all are there; nodes that watch note who asks.
        if !self.hearing.at_once || self.watch.is_some() || self.loss.is_some() {
            return None;
        }
        let (mut book, mut said) = (self.hearing.book.open(), Said::default());
        for peer in nodes {
            let Machine::Node(node) = &mut self.peers[peer].machine else { continue };
            if let Some(found) = node.found(&mut book, key, all, version) {
                said.add(found.bytes());
                replies.push(Reply { peer, found });
            }
        }
        if let Some(client) = self.peers.get_mut(attempt.client.0 as usize) {
            client.said.all.add_all(said);
            client.said.lookup.add_all(said);
        }
        Some(attempt)
    }

    /// All that peers say goes without packets from now on. No two of them have a line.
    pub fn go_by(&mut self, ways: Ways) {
        self.ways = Some(ways);
        self.outbox.clear();
    }

    /// Whether nothing that peers say goes in packets.
    pub fn has_ways(&self) -> bool {
        self.ways.is_some()
    }

    /// The way from a peer to another, if there is one without packets.
    pub fn way(&self, from: usize, to: usize) -> Option<usize> {
        self.ways.as_ref()?.between.get(from)?.get(to).copied()
    }

    /// Where what a peer says to all goes, if it goes without packets.
    pub fn flood(&self, from: usize) -> Option<usize> {
        self.ways.as_ref()?.floods.get(from).copied()
    }

    /// The roles of the network that a peer's lines are.
    pub fn lines_of(&self, peer: usize) -> Vec<usize> {
        let others = (0..self.peers.len()).filter(|other| *other != peer);
        others.map(|other| self.role_of_line(line_of(peer, other))).collect()
    }

    /// The place among the peers of a role's client.
    pub fn client_of(&self, role: usize) -> Option<usize> {
        self.peers.iter().position(|peer| peer.asker == Some(Asker::Role(role)))
    }

    /// The node or proxy in a guest.
    pub fn in_guest(&self, guest: usize) -> Option<usize> {
        self.in_guests.get(guest).copied().flatten()
    }

    /// A peer.
    pub fn peer(&mut self, peer: usize) -> &mut Peer {
        &mut self.peers[peer]
    }

    /// The place of the folder of that name, which a client works in from now on.
    pub fn enter(&mut self, peer: usize, name: &str) -> usize {
        let known = self.folders.iter().position(|folder| folder.name == name);
        let place = known.unwrap_or_else(|| {
            self.folders.push(Folder::new(name, self.folders.len() as u64));
            self.folders.len() - 1
        });
        self.peers[peer].folder = Some(place);
        place
    }

    /// A folder that a client has entered.
    pub fn folder(&mut self, place: usize) -> &mut Folder {
        &mut self.folders[place]
    }

    /// A client begins an operation, by a number that no other of its has had.
    pub fn begin(&mut self, now: Nanos, peer: usize, operation: u64, key: Key, task: Task) {
        if let Machine::Client(client) = &mut self.peers[peer].machine {
            client.request(now, operation, key, task);
        }
    }

    /// An operation of a client that has ended.
    pub fn answer(&mut self, peer: usize) -> Option<Answer> {
        self.peers[peer].answers.pop_front()
    }

    /// A peer hears what another says.
    pub fn hear(&mut self, now: Nanos, peer: usize, from: usize, message: Message) {
        if !self.peers[peer].down {
            self.peers[peer].hear(now, from, message);
        }
    }

    /// Processor time that its nodes and proxies in a guest have used until now.
    pub fn used_ns(&self, guest: usize, now: Nanos) -> u64 {
        self.peers.iter().filter(|peer| peer.guest == guest).map(|peer| peer.processor.used_ns(now)).sum()
    }

    /// The disk of a node has done something.
    pub fn complete(&mut self, now: Nanos, peer: usize, id: u64) {
        let own = &mut self.peers[peer];
        if let Machine::Node(node) = &mut own.machine
            && !own.down
        {
            node.complete(now, id);
        }
    }

    /// A node fails: it is as a machine that is off.
    pub fn fail(&mut self, now: Nanos, peer: usize) {
        self.lose(now, peer);
        self.peers[peer].down = true;
    }

    /// A node comes back with what it had flushed to its disk, if it has failed; in any case it asks for what it lacks.
    pub fn heal(&mut self, now: Nanos, peer: usize, disk: bool) {
        let own = &mut self.peers[peer];
        if let Machine::Node(node) = &mut own.machine {
            if std::mem::take(&mut own.down) {
                node.restart(now, if disk { Left::Flushed } else { Left::Nothing });
            } else {
                node.heal(now);
            }
        }
    }

    /// A node comes back with an empty disk.
    pub fn wipe(&mut self, now: Nanos, peer: usize) {
        self.lose(now, peer);
        let own = &mut self.peers[peer];
        own.down = false;
        if let Machine::Node(node) = &mut own.machine {
            node.restart(now, Left::Nothing);
        }
    }

    /// A link is cut, or whole again. Of nodes that watch each other, those behind it are lost until then; what a node
    /// says of copies while it is alone counts for nothing.
    pub fn change_link(&mut self, now: Nanos, link: &str, up: bool) {
        let Some(watch) = &self.watch else { return };
        let behind = watch.behind.iter().filter(|(own, _)| own == link).flat_map(|(_, nodes)| nodes.clone());
        for peer in behind.collect::<Vec<_>>() {
            let Some(Machine::Node(node)) = self.peers.get(peer).map(|peer| &peer.machine) else { continue };
            let progress = node.progress();
            if !up && !self.is_cut(peer) {
                self.note_loss(now, peer);
            }
            let Some(watch) = &mut self.watch else { continue };
            if up {
                watch.cut.remove(&peer);
            } else {
                watch.cut.entry(peer).or_insert(progress);
            }
        }
    }

    fn is_cut(&self, peer: usize) -> bool {
        self.watch.as_ref().is_some_and(|watch| watch.cut.contains_key(&peer))
    }

    fn note_loss(&mut self, now: Nanos, peer: usize) {
        if self.loss.is_none() {
            let nodes = self.peers.iter().filter_map(|peer| match &peer.machine {
                Machine::Node(node) => Some(node.progress().settled()),
                _ => None,
            });
            self.loss = Some(Loss::new(now.0, nodes.fold(Progress::default(), Progress::and)));
        }
        self.loss.iter_mut().for_each(|loss| loss.goes_on(peer));
    }

    fn lose(&mut self, now: Nanos, peer: usize) {
        self.note_loss(now, peer);
        let own = &mut self.peers[peer];
        own.restarts += 1;
        own.planned_ns = None;
        own.processor.forget(now);
        for other in (0..self.peers.len()).filter(|other| *other != peer) {
            self.outbox.get_mut(line_of(peer, other)).into_iter().for_each(VecDeque::clear);
        }
    }

    /// Which connection of two peers is theirs now, counted from their first; `None`: one of them is off.
    pub fn connection(&self, peers: [usize; 2]) -> Option<u32> {
        let [near, far] = peers.map(|peer| &self.peers[peer]);
        (!near.down && !far.down).then_some(near.restarts + far.restarts)
    }

    /// Looks how far nodes are with copies that were lost, if any were, after something has happened to a peer.
    pub fn observe(&mut self, now: Nanos, peer: usize) {
        let watches = self.watch.is_some();
        // The state of no other is looked at.
        let concerns = |loss: &&mut Loss| !loss.is_over() && (watches || loss.nodes.contains(&peer));
        let Some(loss) = self.loss.as_mut().filter(concerns) else { return };
        let mut all = Standing { known: false, whole: true, ..Standing::default() };
        // Nodes that do not watch suspect none, and make no copies for others: of those it is enough to look at the
        // lost.
        let watching = if watches { 0..self.policy.nodes as usize } else { 0..0 };
        let looked_at = watching.chain(loss.nodes.iter().copied().filter(|_| !watches));
        let before_cut = |node: &usize| self.watch.as_ref().and_then(|watch| watch.cut.get(node));
        let is_away = |node: &usize| self.peers[*node].down || before_cut(node).is_some();
        let down = || loss.nodes.iter().filter(|node| is_away(node));
        let (mut suspected, mut spreading) = (watches, false);
        for place in looked_at {
            let peer = &self.peers[place];
            let Machine::Node(node) = &peer.machine else { break };
            if peer.down {
                all.progress = all.progress.and(node.progress().settled());
                continue;
            }
            if let Some(before) = before_cut(&place) {
                all.progress = all.progress.and(*before);
                continue;
            }
            all.progress = all.progress.and(node.progress());
            suspected &= down().all(|&one| node.suspects(Number(one as u32)));
            spreading |= node.is_spreading();
            if loss.nodes.contains(&place) {
                all.known |= node.knows();
                all.whole &= !node.is_recovering();
            }
        }
        if down().next().is_some() {
            all.known |= suspected;
            all.whole &= suspected && !spreading;
        }
        all.whole &= all.known;
        loss.observe(now.0, all);
    }

    /// Whether nothing that was lost has yet to be made again.
    pub fn is_recovered(&self) -> bool {
        self.loss.as_ref().is_none_or(Loss::is_over)
    }

    /// What is said next along a line: by which end, and what.
    pub fn said(&mut self, line: usize) -> Option<(usize, Message)> {
        self.outbox[line].pop_front()
    }

    /// Whether a message goes in a datagram: answers to questions that all nodes were asked.
    pub fn is_datagram(&self, message: &Message) -> bool {
        self.policy.lookup == Lookup::Multicast && matches!(message, Message::Found(..))
    }

    /// A message goes in a datagram: its number.
    pub fn throw(&mut self, message: Message) -> u64 {
        self.datagrams.thrown.put(message)
    }

    /// What came in a datagram to one peer.
    pub fn caught(&mut self, number: u64) -> Option<Message> {
        self.datagrams.thrown.at(number).and_then(Option::take)
    }

    /// What came in a datagram to several.
    pub fn overheard(&mut self, number: u64) -> Option<Message> {
        self.datagrams.asked.at(number)?.clone()
    }

    /// What a peer wants next; what it says to itself it hears at once.
    pub fn want(&mut self, now: Nanos, peer: usize) -> Option<Want> {
        if self.peers[peer].down {
            return None;
        }
        while let Some(output) = self.peers[peer].machine.output() {
            match output {
                Output::Send(To::Peer(to), message) if to.0 as usize == peer => {
                    self.peers[peer].machine.handle(now, to, message);
                }
                Output::Send(To::Peer(to), message) => {
                    self.count(&message);
                    self.peers[peer].processor.says(now, message.bytes());
                    let to = to.0 as usize;
                    if self.ways.is_some() {
                        return Some(Want::Say(to, message));
                    }
                    let line = line_of(peer, to);
                    self.outbox[line].push_back((usize::from(peer < to), message));
                    if self.outbox[line].len() == 1 {
                        return Some(Want::Line(line));
                    }
                }
                Output::Send(To::Nodes, message) => {
                    self.count(&message);
                    let bytes = message.bytes();
                    self.peers[peer].processor.says(now, bytes);
                    if matches!(self.peers[peer].machine, Machine::Node(_)) {
                        self.peers[peer].machine.handle(now, Number(peer as u32), message.clone());
                    }
                    if self.ways.is_some() {
                        return Some(Want::Call(message));
                    }
                    let number = self.datagrams.asked.put(message);
                    return Some(Want::All(number, bytes));
                }
                Output::Disk { id, kind, bytes, .. } => return Some(Want::Disk(id, kind, bytes)),
                Output::Answer { operation, outcome, retries, listing } => {
                    let own = &mut self.peers[peer];
                    own.answers.push_back((operation, outcome, retries, listing));
                    if own.answers.len() == 1 {
                        match own.asker {
                            Some(Asker::Role(role)) => return Some(Want::Role(role)),
                            Some(Asker::Disk(_)) => return Some(Want::Role(self.role_of(peer))),
                            None => {}
                        }
                    }
                }
            }
        }
        None
    }

    /// When to wake a peer, where nothing is planned before.
    pub fn plan(&mut self, now: Nanos, peer: usize) -> Option<u64> {
        let own = &mut self.peers[peer];
        let at_ns = if own.down { None } else { own.next_ns() }?;
        if own.planned_ns.is_some_and(|planned_ns| planned_ns <= at_ns) {
            return None;
        }
        own.planned_ns = Some(at_ns.max(now.0));
        own.planned_ns
    }

    /// A planned instant of a peer has come.
    pub fn wake(&mut self, now: Nanos, peer: usize) {
        let own = &mut self.peers[peer];
        own.planned_ns = own.planned_ns.filter(|planned_ns| *planned_ns > now.0);
        if !own.down {
            own.wake(now);
        }
    }

    /// What a node asks of a disk of that size: objects lie one behind the other, around and around.
    pub fn request(&mut self, peer: usize, kind: Kind, bytes: u64, size_bytes: u64) -> Request {
        let own = &mut self.peers[peer];
        let bytes = bytes.min(size_bytes / SECTOR_BYTES * SECTOR_BYTES);
        match kind {
            Kind::Flush => Request::flush(),
            Kind::Read => Request { kind, offset: 0, bytes },
            Kind::Write => {
                let offset = if own.disk_offset + bytes <= size_bytes { own.disk_offset } else { 0 };
                own.disk_offset = offset + bytes;
                Request { kind, offset, bytes }
            }
        }
    }

    /// Counters of a client: what was said for it, and what is left of what its folder holds.
    pub fn counters(&self, peer: usize) -> Vec<(&'static str, u64)> {
        let Peer { said: SaidFor { lookup, all }, folder, .. } = &self.peers[peer];
        let mut counters = vec![
            ("lookup_messages", lookup.messages),
            ("lookup_bytes", lookup.bytes),
            ("messages", all.messages),
            ("message_bytes", all.bytes),
        ];
        counters.extend(self.loss.iter().flat_map(Loss::counters));
        if let Some(folder) = folder {
            let nodes = self.peers.iter().zip(0..).filter_map(|(peer, number)| match &peer.machine {
                Machine::Node(node) if !peer.down => Some((Number(number), &**node)),
                _ => None,
            });
            let held = held_by(nodes);
            counters.extend(Audit::of(&self.folders[*folder], &held, self.policy.copies).counters());
        }
        counters
    }

    /// Counts a message for the client of its operation.
    fn count(&mut self, message: &Message) {
        let Some(attempt) = message.attempt() else { return };
        let bytes = message.bytes();
        if let Some(client) = self.peers.get_mut(attempt.client.0 as usize) {
            client.said.all.add(bytes);
            if message.seeks() {
                client.said.lookup.add(bytes);
            }
        }
    }
}

fn held_by<'a>(nodes: impl Iterator<Item = (Number, &'a Node)>) -> Held {
    let mut held = Held::new();
    for (number, node) in nodes {
        for (key, object) in node.objects().filter(|(_, object)| !object.deleted) {
            held.entry(key).or_default().push((number, object.content));
        }
    }
    held
}

/// The line of two peers.
const fn line_of(one: usize, other: usize) -> usize {
    let (near, far) = if one > other { (one, other) } else { (other, one) };
    near * (near - 1) / 2 + far
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_pair_of_peers_has_a_line_of_its_own_in_their_order() {
        let pairs = (1..60).flat_map(|near| (0..near).map(move |far| (near, far)));
        for (line, (near, far)) in pairs.enumerate() {
            assert_eq!((line_of(near, far), line_of(far, near)), (line, line));
        }
    }
}
