//! The side of an operation that asks nodes: at a client, a proxy or a primary, one machine for all three.
//!
//! A write without a lookup puts its copies at once. All else asks first, until enough is known:
//!
//! - Where holders follow from the key: `read_quorum` holders that are whole have answered.
//! - By multicast, either `write_quorum` nodes hold the key with one list of holders, and `read_quorum` of these that
//!   are whole have answered; or so many whole nodes have answered that one of any `write_quorum` nodes is among them
//!   (`Policy::roll_call`). In a question without an answer in time, those who do not hold the key answer, too.
//!
//! A new object needs as many holders as it has copies, so its writer waits for as many answers, for one question at
//! most; then nodes that were silent are holders, too, and get their copy once they answer.
//!
//! What counts then is the latest version that was heard. Two writers that create one key by multicast at the same time
//! ask with a version each; a node that has answered the later one refuses the copies of the earlier, so at most one
//! list of holders is ever confirmed (the promise of Paxos: L. Lamport, "The Part-Time Parliament", 1998). Therefore a
//! node's confirmation counts only if it has answered this attempt's question, and has not restarted since.
//!
//! Names are asked of all nodes, whatever the lookup is (see `listing`).
//!
//! A write is done once `write_quorum` holders have confirmed it, and of these so many that are whole that one of them
//! would have refused it for anything later (`Policy::in_order`): a node that lost what it had would take anything.

use crate::alarms::Alarms;
use crate::client::heard::Heard;
use crate::message::listing::{Listing, Told};
use crate::message::nouns::{Holders, Key, Object, Peer, Version};
use crate::message::{Attempt, Failure, Found, Message, Outcome, Output, Task, To};
use crate::policy::{Lookup, Policy};
use crate::table::Table;
use std::collections::{BTreeMap, VecDeque};
use virtlab_wire::Nanos;

#[derive(Debug)]
enum Stage {
    Asking,
    /// The content of an object comes from a holder; those that were asked before it did not send it.
    Fetching {
        object: Object,
        asked: Vec<Peer>,
    },
    /// Copies of an object go to its holders; those that confirmed it, and whether they were whole.
    Writing {
        object: Object,
        kept: Vec<(Peer, bool)>,
        late: bool,
    },
    /// Nodes tell which names they hold.
    Listing(BTreeMap<Peer, Told>),
}

#[derive(Debug)]
struct Led {
    key: Key,
    task: Task,
    version: Version,
    stage: Stage,
    heard: Heard,
    /// Answers that are on their way here or have come, as far as that was foreseen, and whether one tells of an
    /// object.
    coming: usize,
    tells: bool,
    /// Whether a confirmation is on its way here that ends it.
    decided: bool,
    /// Whether nodes without the key must answer.
    all: bool,
    again: Nanos,
    end: Nanos,
    noted: Option<Nanos>,
}

impl Led {
    fn latest(&self) -> Option<&Object> {
        self.heard.objects().max_by_key(|object| object.version)
    }

    /// Whether it is a further attempt to delete what its client has deleted already, by an earlier attempt for all
    /// that is known: that had too few confirmations, so this one writes the deletion once more.
    fn began_deletion(&self, attempt: Attempt) -> bool {
        let own = |latest: &Object| latest.deleted && latest.version.writer == self.version.writer;
        attempt.number > 0 && self.latest().is_some_and(own)
    }

    /// Whether enough is known of a key.
    fn is_known(&self, policy: &Policy, places: Option<&[Peer]>) -> bool {
        let whole = |among: &[Peer]| {
            among.iter().filter(|one| self.heard.get(**one).is_some_and(|found| found.whole)).count()
        };
        if let Some(places) = places {
            return whole(places) >= policy.read_quorum as usize;
        }
        if self.heard.whole() >= policy.roll_call() {
            return true;
        }
        let Some(latest) = self.latest() else { return false };
        let agree = self.heard.iter().filter(|(peer, found)| {
            latest.holders.contains(peer)
                && found.object.as_ref().is_some_and(|object| object.holders == latest.holders)
        });
        agree.count() >= policy.write_quorum as usize && whole(&latest.holders) >= policy.read_quorum as usize
    }

    /// Whether what was asked is answered: enough is known, and a new object gets as many holders as it has copies.
    fn is_answered(&self, policy: &Policy) -> bool {
        let places = policy.places(self.key);
        self.is_known(policy, places.as_deref()) && !self.lacks_holders(policy)
    }

    /// Whether a new object would have fewer holders than copies, while a question that other nodes may answer is open.
    fn lacks_holders(&self, policy: &Policy) -> bool {
        let asks = matches!((self.task, &self.stage), (Task::Write { .. }, Stage::Asking));
        asks && self.latest().is_none()
            && policy.lookup == Lookup::Multicast
            && self.heard.len() < policy.copies as usize
    }

    /// Nodes that may become holders of a new object, with their loads: those that have answered, and where they are
    /// too few, the others, which get it once they do.
    fn candidates(&self, policy: &Policy) -> impl Iterator<Item = (u32, Peer)> {
        let too_few = self.heard.len() < policy.copies as usize;
        let silent = policy.peers().filter(move |peer| too_few && self.heard.get(*peer).is_none());
        let answered = self.heard.iter().map(|(peer, found)| (found.load, peer));
        answered.chain(silent.map(|peer| (u32::MAX, peer)))
    }

    /// An answer is certain to come: whether nothing follows from it.
    fn foresees(&mut self, policy: &Policy, found: &Found) -> bool {
        self.coming += 1;
        self.tells |= found.object.is_some();
        let asks = matches!(self.stage, Stage::Asking) && policy.lookup == Lookup::Multicast;
        asks && !self.tells && self.coming < policy.roll_call()
    }

    /// What this attempt writes.
    fn object(&self, holders: Holders) -> Object {
        let (bytes, content, deleted) = match self.task {
            Task::Write { bytes, content } => (bytes, content, false),
            _ => (0, 0, true),
        };
        Object { version: self.version, bytes, content, deleted, holders }
    }
}

/// An attempt that has ended.
#[derive(Debug)]
pub struct Ended {
    /// Which.
    pub attempt: Attempt,
    /// What it was about.
    pub key: Key,
    /// How it ended.
    pub outcome: Outcome,
    /// Of a list that is done.
    pub listing: Option<Listing>,
}

/// Leads attempts, of its own machine or for others.
#[derive(Debug)]
pub struct Coordinator {
    policy: Policy,
    led: Table<Attempt, Box<Led>>,
    alarms: Alarms<Attempt>,
    outputs: VecDeque<Output>,
    ended: VecDeque<Ended>,
    /// Lists of answers without any, to be used again.
    spare: Vec<Heard>,
}

impl Coordinator {
    /// One that leads nothing yet.
    #[must_use]
    pub fn new(policy: Policy) -> Self {
        Self {
            policy,
            led: Table::default(),
            alarms: Alarms::default(),
            outputs: VecDeque::new(),
            ended: VecDeque::new(),
            spare: Vec::new(),
        }
    }

    /// An attempt begins; one that is under way already is left alone.
    pub fn lead(&mut self, now: Nanos, attempt: Attempt, key: Key, task: Task, version: Version) {
        if self.led.has(attempt) {
            return;
        }
        let mut led = Led {
            key,
            task,
            version,
            stage: Stage::Asking,
            heard: Heard::default(),
            coming: 0,
            tells: false,
            decided: false,
            all: task.is_write(),
            again: now + self.policy.question,
            end: now + self.policy.give_up,
            noted: None,
        };
        if self.policy.lookup == Lookup::Multicast {
            // Of a write nearly all of them will answer.
            let new = || if led.all { Heard::of(self.policy.nodes) } else { Heard::default() };
            led.heard = self.spare.pop().unwrap_or_else(new);
        }
        match self.policy.places(key).filter(|_| led.task.is_write()) {
            _ if matches!(task, Task::List) => {
                led.stage = Stage::Listing(BTreeMap::new());
                self.ask_names(attempt, &led);
            }
            Some(places) => {
                let object = led.object(places.into());
                led.stage = Stage::Writing { object, kept: Vec::new(), late: false };
                led.again = now + self.policy.patience();
                self.put(attempt, &led);
            }
            None => self.ask(attempt, &led),
        }
        self.go_on(attempt, Box::new(led));
    }

    /// An attempt waits for more.
    fn go_on(&mut self, attempt: Attempt, mut led: Box<Led>) {
        let at = led.again.min(led.end);
        self.alarms.set(attempt, &mut led.noted, at);
        self.led.insert(attempt, led);
    }

    fn end(&mut self, attempt: Attempt, mut led: Box<Led>, outcome: Outcome) {
        self.alarms.forget(attempt, led.noted);
        let listing = match (&led.stage, outcome) {
            (Stage::Listing(told), Outcome::Done { .. }) => Some(Listing::of(led.key, told)),
            _ => None,
        };
        self.ended.push_back(Ended { attempt, key: led.key, outcome, listing });
        if self.policy.lookup == Lookup::Multicast {
            led.heard.clear();
            self.spare.push(led.heard);
        }
    }

    fn send(&mut self, to: Peer, message: Message) {
        self.outputs.push_back(Output::Send(To::Peer(to), message));
    }

    fn ask(&mut self, attempt: Attempt, led: &Led) {
        let version = led.task.is_write().then_some(led.version);
        let find = Message::Find { attempt, key: led.key, all: led.all, version };
        match self.policy.places(led.key) {
            None => self.outputs.push_back(Output::Send(To::Nodes, find)),
            Some(mut places) => {
                // The first to be asked is often heard first, and then sends the content: operations take turns.
                let turn = led.key.mixed(attempt.operation) % places.len() as u64;
                places.rotate_left(usize::try_from(turn).unwrap_or(0));
                for place in places {
                    let Message::Find { attempt, key, version, .. } = find else { continue };
                    self.send(place, Message::Find { attempt, key, all: true, version });
                }
            }
        }
    }

    /// All nodes that have not told their names yet.
    fn ask_names(&mut self, attempt: Attempt, led: &Led) {
        let Stage::Listing(told) = &led.stage else { return };
        for peer in self.policy.peers().filter(|peer| !told.contains_key(peer)) {
            self.send(peer, Message::Names(attempt, led.key));
        }
    }

    /// A node tells its names.
    fn told(&self, led: &mut Led, from: Peer, names: Told) -> Option<Outcome> {
        let Stage::Listing(told) = &mut led.stage else { return None };
        if from.0 < self.policy.nodes {
            told.insert(from, names);
        }
        let whole = told.values().filter(|one| one.whole).count();
        let none = Outcome::Done { version: Version::default(), bytes: 0, content: 0 };
        (whole >= self.policy.roll_call()).then_some(none)
    }

    /// Copies to all holders that have not confirmed and may.
    fn put(&mut self, attempt: Attempt, led: &Led) {
        let Stage::Writing { object, kept, .. } = &led.stage else { return };
        for &holder in object.holders.iter().filter(|&&one| !has(kept, one)) {
            self.put_to(attempt, led, object, holder);
        }
    }

    fn put_to(&mut self, attempt: Attempt, led: &Led, object: &Object, holder: Peer) {
        let incarnation = led.heard.get(holder).map(|found| found.incarnation);
        if incarnation.is_some() || self.policy.lookup != Lookup::Multicast {
            let object = object.clone();
            self.send(holder, Message::Put { attempt, key: led.key, object, incarnation });
        }
    }

    /// A node says something.
    pub fn handle(&mut self, now: Nanos, from: Peer, message: Message) {
        if let Message::Found(attempt, found) = message {
            if !self.hear(attempt, from, found) {
                return;
            }
            let Some(mut led) = self.led.remove(attempt) else { return };
            let outcome = self.found(now, attempt, &mut led, from);
            return self.end_or_go_on(attempt, led, outcome);
        }
        let (Message::Content(attempt, ..)
        | Message::Kept { attempt, .. }
        | Message::Told(attempt, _)
        | Message::Refused(attempt, _)) = message
        else {
            return;
        };
        let Some(mut led) = self.led.remove(attempt) else { return };
        let outcome = match message {
            // Of another key: as if nothing had been said.
            Message::Content(_, key, object) if key == led.key => {
                self.content(now, attempt, &mut led, from, object)
            }
            Message::Kept { version, whole, .. } => self.kept(&mut led, from, version, whole),
            Message::Told(_, names) => self.told(&mut led, from, names),
            Message::Refused(_, version) => Some(Outcome::Superseded(version.max(led.version))),
            _ => None,
        };
        self.end_or_go_on(attempt, led, outcome);
    }

    fn end_or_go_on(&mut self, attempt: Attempt, led: Box<Led>, outcome: Option<Outcome>) {
        match outcome {
            Some(outcome) => self.end(attempt, led, outcome),
            None => self.go_on(attempt, led),
        }
    }

    /// An answer is certain to come, behind all that were foreseen before it. True where nothing follows from it: too
    /// few have come by then, and none of an object. For a driver that foresees all answers.
    pub fn foresees(&mut self, attempt: Attempt, found: &Found) -> bool {
        self.led.get_mut(attempt).is_some_and(|led| led.foresees(&self.policy, found))
    }

    /// As [`Coordinator::foresees`]; where nothing follows from the answer and it comes soon, it is heard now, else it
    /// is given back.
    pub fn hear_ahead(&mut self, attempt: Attempt, from: Peer, found: Found, is_soon: bool) -> Option<Found> {
        let Some(led) = self.led.get_mut(attempt) else { return Some(found) };
        if led.foresees(&self.policy, &found) && is_soon {
            led.heard.insert(from, found);
            return None;
        }
        Some(found)
    }

    /// A confirmation is certain to come at an instant, behind all that were foreseen before it. True where nothing
    /// follows from it by then, because it is not the last that is needed, or not needed any more; it is heard now
    /// then. For a driver that foresees all of them, and loses none.
    pub fn hear_kept_ahead(
        &mut self,
        at: Nanos,
        attempt: Attempt,
        from: Peer,
        version: Version,
        whole: bool,
    ) -> bool {
        let Some(led) = self.led.get_mut(attempt) else { return true };
        if led.again.min(led.end) <= at {
            return false;
        }
        if led.decided {
            return true;
        }
        let asked = self.policy.lookup != Lookup::Multicast || led.heard.get(from).is_some();
        let Stage::Writing { object, kept, .. } = &mut led.stage else { return false };
        if version == object.version && asked && object.holders.contains(&from) && !has(kept, from) {
            kept.push((from, whole));
            led.decided = is_enough(&self.policy, kept);
            if led.decided {
                kept.pop();
            }
        }
        !led.decided
    }

    /// Whether nothing follows from a confirmation, whenever it comes: its attempt has ended.
    #[must_use]
    pub fn has_ended(&self, attempt: Attempt) -> bool {
        !self.led.has(attempt)
    }

    /// A node answers a question: whether anything follows from it. Of one that is heard while copies are being made, a
    /// holder gets its copy, unless it was heard before as what it is now, or has confirmed.
    fn hear(&mut self, attempt: Attempt, from: Peer, found: Found) -> bool {
        let Some(led) = self.led.get_mut(attempt) else { return false };
        let incarnation = found.incarnation;
        let anew = led.heard.insert(from, found).is_none_or(|before| before.incarnation != incarnation);
        match &led.stage {
            Stage::Fetching { .. } | Stage::Listing(_) => false,
            Stage::Writing { object, kept, .. } => anew && object.holders.contains(&from) && !has(kept, from),
            Stage::Asking => led.is_answered(&self.policy),
        }
    }

    /// What follows from the answer of a node that was heard.
    fn found(&mut self, now: Nanos, attempt: Attempt, led: &mut Led, from: Peer) -> Option<Outcome> {
        if let Stage::Writing { object, .. } = &led.stage {
            self.put_to(attempt, led, object, from);
            return None;
        }
        led.again = now + self.policy.patience();
        self.known(now, attempt, led)
    }

    /// Enough is known: what follows from it.
    fn known(&mut self, now: Nanos, attempt: Attempt, led: &mut Led) -> Option<Outcome> {
        let latest = led.latest().cloned();
        let there = latest.as_ref().filter(|object| !object.deleted);
        match (led.task, there) {
            (Task::Delete, None) if !led.began_deletion(attempt) => Some(Outcome::Missing),
            (Task::Open | Task::Read, None) => Some(Outcome::Missing),
            (Task::Open, Some(object)) => Some(done(object, 0)),
            (Task::List, _) => None, // it looks for no holders
            (Task::Read, Some(object)) => {
                led.stage = Stage::Fetching { object: object.clone(), asked: Vec::new() };
                self.fetch(now, attempt, led);
                None
            }
            (Task::Write { .. } | Task::Delete, _) => {
                if let Some(latest) = latest.as_ref().filter(|object| object.version >= led.version) {
                    return Some(Outcome::Superseded(latest.version));
                }
                let holders = latest.map_or_else(
                    || self.policy.least_loaded(led.key, led.candidates(&self.policy)),
                    |object| object.holders,
                );
                let object = led.object(holders);
                led.stage = Stage::Writing { object, kept: Vec::new(), late: false };
                self.put(attempt, led);
                None
            }
        }
    }

    /// From the least loaded holder of that version that was not asked yet; if there is no other, all is asked again.
    fn fetch(&mut self, now: Nanos, attempt: Attempt, led: &mut Led) {
        let Stage::Fetching { object, asked } = &mut led.stage else { return };
        let holds = |found: &Found| found.object.as_ref().is_some_and(|one| one.version == object.version);
        let next = led
            .heard
            .iter()
            .filter(|(peer, found)| holds(found) && !asked.contains(peer))
            .min_by_key(|(peer, found)| (found.load, led.key.mixed(u64::from(peer.0) + attempt.operation)))
            .map(|(peer, _)| peer);
        if let Some(peer) = next {
            asked.push(peer);
            let version = object.version;
            self.send(peer, Message::Fetch(attempt, led.key, version));
        } else {
            led.heard.clear();
            led.stage = Stage::Asking;
            led.again = now + self.policy.question;
            self.ask(attempt, led);
        }
    }

    fn content(
        &mut self,
        now: Nanos,
        attempt: Attempt,
        led: &mut Led,
        from: Peer,
        object: Option<Object>,
    ) -> Option<Outcome> {
        let Stage::Fetching { object: wanted, asked } = &led.stage else { return None };
        match object {
            Some(object) if object.version >= wanted.version => {
                Some(if object.deleted { Outcome::Missing } else { done(&object, object.bytes) })
            }
            _ => {
                if asked.last() == Some(&from) {
                    self.fetch(now, attempt, led);
                }
                None
            }
        }
    }

    fn kept(&self, led: &mut Led, from: Peer, version: Version, whole: bool) -> Option<Outcome> {
        let asked = self.policy.lookup != Lookup::Multicast || led.heard.get(from).is_some();
        let Stage::Writing { object, kept, .. } = &mut led.stage else { return None };
        if version == object.version && asked && object.holders.contains(&from) && !has(kept, from) {
            kept.push((from, whole));
        }
        is_enough(&self.policy, kept).then(|| done(object, 0))
    }

    /// When it must be woken, at the latest.
    #[must_use]
    pub fn next_event(&self) -> Option<Nanos> {
        self.alarms.next()
    }

    /// It is `now`: what waited too long is asked again, or has failed.
    pub fn wake(&mut self, now: Nanos) {
        for attempt in self.alarms.due(now) {
            let Some(mut led) = self.led.remove(attempt) else { continue };
            if led.end <= now {
                self.end(attempt, led, Outcome::Failed(Failure::TimedOut));
                continue;
            }
            led.again = now + self.policy.patience();
            let outcome = self.again(now, attempt, &mut led);
            self.end_or_go_on(attempt, led, outcome);
        }
    }

    fn again(&mut self, now: Nanos, attempt: Attempt, led: &mut Led) -> Option<Outcome> {
        if led.lacks_holders(&self.policy) && led.is_known(&self.policy, None) {
            return self.known(now, attempt, led);
        }
        match &mut led.stage {
            Stage::Asking => {
                led.all = true;
                led.again = now + self.policy.question;
                self.ask(attempt, led);
            }
            Stage::Fetching { .. } => self.fetch(now, attempt, led),
            Stage::Listing(_) => {
                led.again = now + self.policy.question;
                self.ask_names(attempt, led);
            }
            Stage::Writing { object, kept, late } => {
                let away: Vec<Peer> =
                    object.holders.iter().filter(|&&one| !has(kept, one)).copied().collect();
                let stood_in = std::mem::replace(late, true);
                let object = object.clone();
                if self.policy.lookup == Lookup::Multicast {
                    self.ask(attempt, led);
                }
                self.put(attempt, led);
                if !stood_in && matches!(self.policy.lookup, Lookup::Ring { .. }) {
                    self.hand_off(attempt, led, &object, &away);
                }
            }
        }
        None
    }

    /// Copies for holders that do not confirm, at nodes in their place. They are no part of the quorum.
    fn hand_off(&mut self, attempt: Attempt, led: &Led, object: &Object, away: &[Peer]) {
        let mut taken = Vec::new();
        for &lost in away {
            if let Some(other) = self.policy.stand_in(&object.holders, lost, &taken) {
                taken.push(other);
                let object = object.clone();
                self.send(other, Message::Put { attempt, key: led.key, object, incarnation: None });
            }
        }
    }

    /// What its driver must do next.
    pub fn output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// An attempt that has ended.
    pub fn ended(&mut self) -> Option<Ended> {
        self.ended.pop_front()
    }
}

/// Whether a write is done with these confirmations.
fn is_enough(policy: &Policy, kept: &[(Peer, bool)]) -> bool {
    let whole = kept.iter().filter(|(_, whole)| *whole).count();
    kept.len() >= policy.write_quorum as usize && whole >= policy.in_order()
}

fn has(kept: &[(Peer, bool)], peer: Peer) -> bool {
    kept.iter().any(|&(one, _)| one == peer)
}

const fn done(object: &Object, bytes: u64) -> Outcome {
    Outcome::Done { version: object.version, bytes, content: object.content }
}
