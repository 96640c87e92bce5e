//! Messages of a store as octets: a head of 64, what the head says follows, and content. Lengths are those of
//! `Message::bytes`, except of lists of objects; no client's operation sends those. Numbers are little-endian.
//!
//! What comes from a peer is hostile: whatever is no message, or has another length than its head says, ends its
//! connection.

use std::sync::Arc;
use virtlab_store::{
    Attempt, Failure, Found, Holders, Key, Listing, Message, Name, Object, Outcome, Peer, Task, Told, Version,
};

/// Of each message.
pub const HEAD_BYTES: usize = 64;
/// Of an object without its content.
const RECORD_BYTES: usize = 48;
/// Of an object in a list: its key, too.
const LISTED_BYTES: usize = 8 + RECORD_BYTES;
/// Of a name that a node tells.
const NAME_BYTES: usize = 32;
/// Of a name on a page.
const KEY_BYTES: usize = 8;
/// What follows a head, at most: an object of 1 GiB, and its record.
const MOST_BYTES: u64 = (1 << 30) + RECORD_BYTES as u64;
/// Holders of an object, at most.
const HOLDERS_MOST: usize = 13;
/// Nodes, proxies and clients, at most.
pub const PEERS_MOST: usize = 256;

/// Content of an object: part of what came in one piece.
#[derive(Clone, Debug)]
pub struct Content {
    octets: Arc<Vec<u8>>,
    from: usize,
}

impl Content {
    /// All of these octets.
    pub fn of(octets: Vec<u8>) -> Self {
        Self { octets: Arc::new(octets), from: 0 }
    }

    /// What stands behind an object's record.
    pub fn after_record(octets: Vec<u8>) -> Self {
        Self { from: RECORD_BYTES.min(octets.len()), octets: Arc::new(octets) }
    }

    /// The octets.
    pub fn octets(&self) -> &[u8] {
        &self.octets[self.from..]
    }
}

/// What one peer says to another.
#[derive(Debug)]
pub enum Word {
    /// Of the store's machines, with the content of its object.
    Said(Message, Option<Content>),
    /// What do you hold, and what have you said for that client?
    Audit,
    /// This.
    Audited(Audited),
}

/// What a node or proxy answers to an audit.
#[derive(Debug)]
pub struct Audited {
    /// Messages for the client who asks, their octets; those of them that sought holders, and their octets.
    pub said: [u64; 4],
    /// Whether it is a node that was lost, and has counted only since it came back.
    pub back: bool,
    /// Objects that are there: keys, and what stands for their content, verified.
    pub objects: Vec<(Key, u64)>,
}

/// Writes numbers into a head.
struct Head {
    octets: Vec<u8>,
}

impl Head {
    fn new(kind: u8, from: Peer) -> Self {
        let mut octets = Vec::with_capacity(HEAD_BYTES + RECORD_BYTES);
        octets.extend([kind, small(from)]);
        octets.extend([0; 8]);
        Self { octets }
    }

    fn byte(mut self, value: impl Into<u8>) -> Self {
        self.octets.push(value.into());
        self
    }

    fn word(mut self, value: u64) -> Self {
        self.octets.extend(value.to_le_bytes());
        self
    }

    fn half(mut self, value: u32) -> Self {
        self.octets.extend(value.to_le_bytes());
        self
    }

    fn version(self, version: Version) -> Self {
        self.word(version.stamp).byte(small(version.writer)).word(version.number)
    }

    fn attempt(self, attempt: Attempt) -> Self {
        self.byte(small(attempt.client)).word(attempt.operation).half(attempt.number)
    }

    /// The whole head, before so many octets.
    fn before(mut self, bytes: u64) -> Vec<u8> {
        self.octets[2..10].copy_from_slice(&bytes.to_le_bytes());
        debug_assert!(self.octets.len() <= HEAD_BYTES, "a head is longer than it may be");
        self.octets.resize(HEAD_BYTES, 0);
        self.octets
    }

    /// The whole head, and an object's record behind it.
    fn with(self, object: Option<&Object>, content: bool) -> Vec<u8> {
        let Some(object) = object else { return self.before(0) };
        let mut octets = self.before(RECORD_BYTES as u64 + if content { object.bytes } else { 0 });
        record(object, &mut octets);
        octets
    }

    /// The whole head, and objects with their keys behind it.
    fn with_list(self, objects: &[(Key, Object)]) -> Vec<u8> {
        let mut octets = self.before((objects.len() * LISTED_BYTES) as u64);
        for (key, object) in objects {
            octets.extend(key.0.to_le_bytes());
            record(object, &mut octets);
        }
        octets
    }

    /// The whole head, and names behind it.
    fn with_names(self, names: &[Name]) -> Vec<u8> {
        let mut octets = self.before((names.len() * NAME_BYTES) as u64);
        for Name { key, version, deleted } in names {
            let end = octets.len() + NAME_BYTES;
            octets.extend(key.0.to_le_bytes());
            octets.extend(version.stamp.to_le_bytes());
            octets.push(small(version.writer));
            octets.extend(version.number.to_le_bytes());
            octets.push(u8::from(*deleted));
            octets.resize(end, 0);
        }
        octets
    }
}

/// # Errors
/// When no message has room for so many peers, clients included, or copies.
pub fn check(peers: usize, copies: u32) -> anyhow::Result<()> {
    anyhow::ensure!(peers <= PEERS_MOST, "a store has at most {PEERS_MOST} peers and clients");
    anyhow::ensure!(copies as usize <= HOLDERS_MOST, "an object has at most {HOLDERS_MOST} copies");
    Ok(())
}

fn small(peer: Peer) -> u8 {
    u8::try_from(peer.0).expect("peers were checked")
}

/// The record of an object.
pub fn record(object: &Object, octets: &mut Vec<u8>) {
    let Object { version, bytes, content, deleted, holders } = object;
    let end = octets.len() + RECORD_BYTES;
    octets.extend(version.stamp.to_le_bytes());
    octets.push(small(version.writer));
    octets.extend(version.number.to_le_bytes());
    octets.extend(bytes.to_le_bytes());
    octets.extend(content.to_le_bytes());
    octets.extend([u8::from(*deleted), holders.len().min(HOLDERS_MOST) as u8]);
    octets.extend(holders.iter().take(HOLDERS_MOST).map(|&peer| small(peer)));
    octets.resize(end, 0);
}

/// A message of a peer without the content of its object.
pub fn encode(from: Peer, message: &Message) -> Vec<u8> {
    let head = |kind| Head::new(kind, from);
    match message {
        Message::Lead(attempt, key, task, version) => {
            let (kind, bytes, content) = match *task {
                Task::Open => (0u8, 0, 0),
                Task::Read => (1, 0, 0),
                Task::Write { bytes, content } => (2, bytes, content),
                Task::Delete => (3, 0, 0),
                Task::List => (4, 0, 0),
            };
            head(1).attempt(*attempt).word(key.0).byte(kind).word(content).version(*version).before(bytes)
        }
        Message::Led(attempt, key, outcome) => {
            let head = head(2).attempt(*attempt).word(key.0);
            match *outcome {
                Outcome::Done { version, bytes, content } => {
                    head.byte(0).version(version).word(content).before(bytes)
                }
                Outcome::Missing => head.byte(1).before(0),
                Outcome::Superseded(version) => head.byte(2).version(version).before(0),
                Outcome::Failed(Failure::TimedOut) => head.byte(3).before(0),
            }
        }
        Message::Find { attempt, key, all, version } => {
            let head = head(3).attempt(*attempt).word(key.0).byte(*all);
            match version {
                Some(version) => head.byte(1).version(*version).before(0),
                None => head.byte(0).before(0),
            }
        }
        Message::Found(attempt, Found { object, whole, load, incarnation }) => {
            let head = head(4).attempt(*attempt).byte(*whole).half(*load).half(*incarnation);
            head.with(object.as_ref(), false)
        }
        Message::Fetch(attempt, key, version) => {
            head(5).attempt(*attempt).word(key.0).version(*version).before(0)
        }
        Message::Content(attempt, key, object) => {
            head(6).attempt(*attempt).word(key.0).with(object.as_ref(), true)
        }
        Message::Put { attempt, key, object, incarnation } => {
            let head = head(7).attempt(*attempt).word(key.0);
            let known = head.byte(incarnation.is_some()).half(incarnation.unwrap_or(0));
            known.with(Some(object), true)
        }
        Message::Kept { attempt, version, whole } => {
            head(8).attempt(*attempt).version(*version).byte(*whole).before(0)
        }
        Message::Refused(attempt, version) => head(9).attempt(*attempt).version(*version).before(0),
        Message::List(round, behind) => {
            let head = head(10).word(*round).byte(behind.is_some());
            head.word(behind.map_or(0, |key| key.0)).before(0)
        }
        Message::Listed { round, objects, more, whole } => {
            head(11).word(*round).byte(*more).byte(*whole).with_list(objects)
        }
        Message::Pull(round, key, version) => head(12).word(*round).word(key.0).version(*version).before(0),
        Message::Pulled(round, key, object) => head(13).word(*round).word(key.0).with(object.as_ref(), true),
        Message::Beat => head(14).before(0),
        Message::Names(attempt, first) => head(15).attempt(*attempt).word(first.0).before(0),
        Message::Told(attempt, Told { names, more, whole }) => {
            let head = head(16).attempt(*attempt).byte(*more).byte(*whole);
            head.with_names(names)
        }
        Message::Compare { round, names } => head(18).word(*round).with_names(names),
        Message::Compared { round, last, later, whole } => {
            head(19).word(*round).word(last.0).byte(*whole).with_list(later)
        }
        Message::Page(attempt, Listing { names, until }) => {
            let head = head(17).attempt(*attempt).word(until.0);
            let mut octets = head.before((names.len() * KEY_BYTES) as u64);
            octets.extend(names.iter().flat_map(|key| key.0.to_le_bytes()));
            octets
        }
    }
}

const AUDIT: u8 = 32;
const AUDITED: u8 = 33;

/// A client's question what all hold.
pub fn audit(from: Peer) -> Vec<u8> {
    Head::new(AUDIT, from).before(0)
}

/// The answer.
pub fn audited(from: Peer, found: &Audited) -> Vec<u8> {
    let [messages, bytes, lookups, lookup_bytes] = found.said;
    let head = Head::new(AUDITED, from).word(messages).word(bytes).word(lookups).word(lookup_bytes);
    let mut octets = head.byte(found.back).before((found.objects.len() * 16) as u64);
    for (key, content) in &found.objects {
        octets.extend(key.0.to_le_bytes());
        octets.extend(content.to_le_bytes());
    }
    octets
}

/// How much follows a head; `None`: no message is so long.
pub fn follows(head: &[u8; HEAD_BYTES]) -> Option<usize> {
    let bytes = Reader { octets: &head[2..] }.word()?;
    (bytes <= MOST_BYTES).then_some(bytes as usize)
}

/// Takes numbers from octets, `None` at their end.
struct Reader<'a> {
    octets: &'a [u8],
}

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.octets.split_first_chunk::<N>()?;
        self.octets = rest;
        Some(*first)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take::<1>().map(|[byte]| byte)
    }

    fn truth(&mut self) -> Option<bool> {
        self.byte().map(|byte| byte != 0)
    }

    fn half(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }

    fn word(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }

    fn key(&mut self) -> Option<Key> {
        self.word().map(Key)
    }

    fn peer(&mut self) -> Option<Peer> {
        self.byte().map(|byte| Peer(u32::from(byte)))
    }

    fn version(&mut self) -> Option<Version> {
        Some(Version { stamp: self.word()?, writer: self.peer()?, number: self.word()? })
    }

    fn attempt(&mut self) -> Option<Attempt> {
        Some(Attempt { client: self.peer()?, operation: self.word()?, number: self.half()? })
    }

    fn name(&mut self) -> Option<Name> {
        let name = Name { key: self.key()?, version: self.version()?, deleted: self.truth()? };
        self.take::<{ NAME_BYTES - 26 }>().map(|_| name)
    }

    fn object(&mut self) -> Option<Object> {
        let mut record = Reader { octets: self.octets.get(..RECORD_BYTES)? };
        self.octets = &self.octets[RECORD_BYTES..];
        let (version, bytes, content) = (record.version()?, record.word()?, record.word()?);
        let (deleted, holders) = (record.truth()?, record.byte()?);
        let holders = (0..holders).map(|_| record.peer()).collect::<Option<Holders>>()?;
        Some(Object { version, bytes, content, deleted, holders })
    }
}

/// The record at the beginning of octets.
pub fn read_record(octets: &[u8]) -> Option<Object> {
    Reader { octets }.object()
}

/// Objects with their keys, of all the octets.
fn read_list(octets: &[u8]) -> Option<Vec<(Key, Object)>> {
    let mut list = Reader { octets };
    let all = (0..octets.len() / LISTED_BYTES).map(|_| Some((list.key()?, list.object()?)));
    if octets.len().is_multiple_of(LISTED_BYTES) { all.collect() } else { None }
}

/// Names, of all the octets.
fn read_names(octets: &[u8]) -> Option<Vec<Name>> {
    let mut list = Reader { octets };
    let all = (0..octets.len() / NAME_BYTES).map(|_| list.name());
    if octets.len().is_multiple_of(NAME_BYTES) { all.collect() } else { None }
}

/// Of how many octets a record is.
pub const fn record_bytes() -> usize {
    RECORD_BYTES
}

/// What a head and the octets behind it say, and who; `None`: no peer says that.
pub fn decode(head: &[u8; HEAD_BYTES], rest: Vec<u8>) -> Option<(Peer, Word)> {
    let mut own = Reader { octets: head };
    let (kind, from, _) = (own.byte()?, own.peer()?, own.word()?);
    let length = rest.len();
    if kind == AUDIT {
        return (length == 0).then_some((from, Word::Audit));
    }
    if kind == AUDITED {
        let said = [own.word()?, own.word()?, own.word()?, own.word()?];
        let back = own.truth()?;
        let mut pairs = Reader { octets: &rest };
        let objects = (0..length / 16).map(|_| Some((pairs.key()?, pairs.word()?)));
        let objects = objects.collect::<Option<Vec<_>>>()?;
        return length.is_multiple_of(16).then_some((from, Word::Audited(Audited { said, back, objects })));
    }
    // The object behind the head, and whether its content follows.
    let object = |with_content: bool| -> Option<Option<Object>> {
        if rest.is_empty() {
            return Some(None);
        }
        let object = read_record(&rest)?;
        let content = length.checked_sub(RECORD_BYTES)? as u64;
        (content == if with_content { object.bytes } else { 0 }).then_some(Some(object))
    };
    let mut content_at = None;
    let message = match kind {
        1 => {
            let (attempt, key, kind, content, version) =
                (own.attempt()?, own.key()?, own.byte()?, own.word()?, own.version()?);
            let task = match kind {
                0 => Task::Open,
                1 => Task::Read,
                2 => Task::Write { bytes: length as u64, content },
                3 => Task::Delete,
                4 => Task::List,
                _ => return None,
            };
            content_at = (kind == 2).then_some(0);
            Message::Lead(attempt, key, task, version)
        }
        2 => {
            let (attempt, key) = (own.attempt()?, own.key()?);
            let outcome = match own.byte()? {
                0 => {
                    content_at = (length > 0).then_some(0);
                    let (version, content) = (own.version()?, own.word()?);
                    Outcome::Done { version, bytes: length as u64, content }
                }
                1 => Outcome::Missing,
                2 => Outcome::Superseded(own.version()?),
                3 => Outcome::Failed(Failure::TimedOut),
                _ => return None,
            };
            Message::Led(attempt, key, outcome)
        }
        3 => {
            let (attempt, key, all) = (own.attempt()?, own.key()?, own.truth()?);
            let version = if own.truth()? { Some(own.version()?) } else { None };
            Message::Find { attempt, key, all, version }
        }
        4 => {
            let (attempt, whole, load, incarnation) =
                (own.attempt()?, own.truth()?, own.half()?, own.half()?);
            Message::Found(attempt, Found { object: object(false)?, whole, load, incarnation })
        }
        5 => Message::Fetch(own.attempt()?, own.key()?, own.version()?),
        6 => {
            content_at = (length > 0).then_some(RECORD_BYTES);
            Message::Content(own.attempt()?, own.key()?, object(true)?)
        }
        7 => {
            let (attempt, key, known, incarnation) = (own.attempt()?, own.key()?, own.truth()?, own.half()?);
            content_at = Some(RECORD_BYTES);
            let incarnation = known.then_some(incarnation);
            Message::Put { attempt, key, object: object(true)??, incarnation }
        }
        8 => Message::Kept { attempt: own.attempt()?, version: own.version()?, whole: own.truth()? },
        9 => Message::Refused(own.attempt()?, own.version()?),
        10 => {
            let (round, known, key) = (own.word()?, own.truth()?, own.key()?);
            Message::List(round, known.then_some(key))
        }
        11 => {
            let (round, more, whole) = (own.word()?, own.truth()?, own.truth()?);
            Message::Listed { round, objects: read_list(&rest)?, more, whole }
        }
        12 => Message::Pull(own.word()?, own.key()?, own.version()?),
        13 => {
            content_at = (length > 0).then_some(RECORD_BYTES);
            Message::Pulled(own.word()?, own.key()?, object(true)?)
        }
        14 => Message::Beat,
        15 => Message::Names(own.attempt()?, own.key()?),
        16 => {
            let (attempt, more, whole) = (own.attempt()?, own.truth()?, own.truth()?);
            Message::Told(attempt, Told { names: read_names(&rest)?, more, whole })
        }
        17 => {
            let (attempt, until) = (own.attempt()?, own.key()?);
            let mut page = Reader { octets: &rest };
            let names = (0..length / KEY_BYTES).map(|_| page.key()).collect::<Option<Vec<_>>>()?;
            length.is_multiple_of(KEY_BYTES).then_some(Message::Page(attempt, Listing { names, until }))?
        }
        18 => Message::Compare { round: own.word()?, names: read_names(&rest)? },
        19 => {
            let (round, last, whole) = (own.word()?, own.key()?, own.truth()?);
            Message::Compared { round, last, later: read_list(&rest)?, whole }
        }
        _ => return None,
    };
    let content = content_at.map(|from| Content { octets: Arc::new(rest), from });
    Some((from, Word::Said(message, content)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn version(number: u64) -> Version {
        Version { stamp: number << 40, writer: Peer(number as u32 % 256), number }
    }

    fn object(bytes: u64) -> Object {
        let holders = (0..bytes as u32 % 4).map(Peer).collect();
        Object { version: version(bytes), bytes, content: bytes * 7, deleted: bytes == 0, holders }
    }

    fn name(number: u64) -> Name {
        Name { key: Key(number << 33), version: version(number), deleted: number == 3 }
    }

    fn all() -> Vec<Message> {
        let attempt = Attempt { client: Peer(200), operation: u64::MAX, number: 3 };
        let (key, seen) = (Key(0xfeed << 40), version(9));
        let found = |object| Found { object, whole: true, load: 4, incarnation: 2 };
        vec![
            Message::Lead(attempt, key, Task::Read, seen),
            Message::Lead(attempt, key, Task::Write { bytes: 5, content: 8 }, seen),
            Message::Led(attempt, key, Outcome::Done { version: seen, bytes: 5, content: 8 }),
            Message::Led(attempt, key, Outcome::Missing),
            Message::Led(attempt, key, Outcome::Superseded(seen)),
            Message::Led(attempt, key, Outcome::Failed(Failure::TimedOut)),
            Message::Find { attempt, key, all: true, version: Some(seen) },
            Message::Find { attempt, key, all: false, version: None },
            Message::Found(attempt, found(None)),
            Message::Found(attempt, found(Some(object(70)))),
            Message::Fetch(attempt, key, seen),
            Message::Content(attempt, key, None),
            Message::Content(attempt, key, Some(object(5))),
            Message::Put { attempt, key, object: object(0), incarnation: None },
            Message::Put { attempt, key, object: object(5), incarnation: Some(7) },
            Message::Kept { attempt, version: seen, whole: false },
            Message::Refused(attempt, seen),
            Message::List(4, Some(key)),
            Message::List(4, None),
            Message::Listed {
                round: 4,
                objects: vec![(key, object(3)), (key, object(0))],
                more: true,
                whole: true,
            },
            Message::Compare { round: 4, names: vec![name(2), name(5)] },
            Message::Compared { round: 4, last: key, later: vec![(key, object(3))], whole: false },
            Message::Pull(4, key, seen),
            Message::Pulled(4, key, Some(object(5))),
            Message::Beat,
            Message::Lead(attempt, key, Task::List, seen),
            Message::Names(attempt, key),
            Message::Told(attempt, Told { names: vec![name(3), name(4)], more: true, whole: false }),
            Message::Page(attempt, Listing { names: vec![key, Key(7)], until: key }),
        ]
    }

    #[test]
    fn what_is_said_is_heard_and_takes_as_many_octets_as_the_model_says() {
        for message in all() {
            let mut octets = encode(Peer(255), &message);
            let head: [u8; HEAD_BYTES] = octets[..HEAD_BYTES].try_into().unwrap();
            let whole = HEAD_BYTES + follows(&head).unwrap();
            octets.extend(std::iter::repeat_n(0x5a, whole - octets.len()));
            if !matches!(message, Message::Listed { .. } | Message::Compared { .. }) {
                assert_eq!(whole as u64, message.bytes(), "{message:?}");
            }
            let (from, word) = decode(&head, octets[HEAD_BYTES..].to_vec()).unwrap();
            let Word::Said(heard, content) = word else { panic!("{message:?}") };
            assert_eq!((from, &heard), (Peer(255), &message));
            assert!(content.is_none_or(|content| content.octets().iter().all(|octet| *octet == 0x5a)));
        }
    }

    proptest! {
        #[test]
        fn any_octets_are_a_message_or_refused(head in proptest::collection::vec(any::<u8>(), HEAD_BYTES), rest in proptest::collection::vec(any::<u8>(), 0..200)) {
            let head: [u8; HEAD_BYTES] = head.try_into().unwrap();
            for kind in 0..40 {
                let mut one = head;
                one[0] = kind;
                let _ = (follows(&one), decode(&one, rest.clone()));
            }
        }
    }
}
