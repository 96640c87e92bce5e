//! The client of a store that keeps a disk's blocks as objects, for whatever speaks with the guest (`disk`, `folder`).
//!
//! Which operations a request needs, `virtlab_store::Volume` knows, as in the simulator; here are the octets. A write
//! is done once the store has answered for each of its blocks.

use super::Asked;
use super::codec::{Content, Word};
use super::lines::{Heard, Lines};
use anyhow::Context;
use serde_json::Value;
use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::os::fd::BorrowedFd;
use std::sync::{MutexGuard, PoisonError};
use virtlab_disk::{Kind, Request, Tally};
use virtlab_leader::Account;
use virtlab_store::{Client, Message, Operation, Outcome, Output, Peer, Task, To, Volume};
use virtlab_system::clock;
use virtlab_wire::Nanos;

/// Its words.
#[derive(Debug)]
pub struct Words {
    /// Among the disks on its store.
    number: u64,
    pub size_bytes: u64,
    block_bytes: u64,
    local: IpAddr,
    port: u16,
    store: Asked,
}

impl Words {
    /// By hand, but for what the client of a role has, too: code for that is there.
    ///
    /// # Errors
    /// When they are of no disk on a store.
    pub fn read(words: &Value) -> anyhow::Result<Self> {
        let number = |key| words.get(key).and_then(Value::as_u64);
        let own = || {
            Some((
                number("number")?,
                number("size_bytes")?,
                number("block_bytes").filter(|bytes| *bytes > 0)?,
                words.get("local")?.as_str()?.parse().ok()?,
                u16::try_from(number("port")?).ok()?,
            ))
        };
        let (number, size_bytes, block_bytes, local, port) =
            own().context("a disk on a store has other words")?;
        let store = words.get("asked").cloned().context("asked is missing")?;
        let store = serde_json::from_value(store).context("asked")?;
        let words = Self { number, size_bytes, block_bytes, local, port, store };
        words.store.policy().context("asked")?;
        Ok(words)
    }
}

/// A request under way.
struct Under {
    came: Nanos,
    request: Request,
    /// What is written, or what is read so far.
    octets: Vec<u8>,
    failed: bool,
}

/// A request that is complete.
#[derive(Debug)]
pub struct Done {
    /// As it was submitted.
    pub number: u64,
    /// What was read; `None` where a block was lost.
    pub read: Option<Vec<u8>>,
}

/// An operation of the store under way.
struct Running {
    operation: Operation,
    content: Option<Content>,
}

/// Of one disk.
pub struct Blocks {
    lines: Lines,
    client: Client,
    volume: Volume,
    block_bytes: u64,
    account: Account,
    under: BTreeMap<u64, Under>,
    running: BTreeMap<u64, Running>,
    /// By block, what it held when a part of it was to be changed.
    before: BTreeMap<u64, Content>,
    /// By block, the number of the content that is being written, and its octets: the same, however often it is tried.
    writing: BTreeMap<u64, (u64, Content)>,
    done: VecDeque<Done>,
}

impl Blocks {
    /// Of a disk, on the thread that will serve it, in the network of its host.
    ///
    /// # Errors
    /// When its store cannot be reached from there.
    pub fn new(words: &Words, account: Account) -> anyhow::Result<Self> {
        // SAFETY: the call sets how late this thread may be woken, and touches no memory.
        unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1) };
        let mut lines = Lines::new(words.store.places(words.local, words.port), None)?;
        lines.leave_signals()?; // the leader's own thread hears of children
        Ok(Self {
            lines,
            client: Client::new(Peer(words.store.me), words.store.policy()?),
            volume: Volume::new(words.number, words.size_bytes, words.block_bytes),
            block_bytes: words.block_bytes,
            account,
            under: BTreeMap::new(),
            running: BTreeMap::new(),
            before: BTreeMap::new(),
            writing: BTreeMap::new(),
            done: VecDeque::new(),
        })
    }

    /// What the disk has done.
    pub fn tally(&self) -> MutexGuard<'_, Tally> {
        self.account.tally.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A request within the disk, by a number that no other under way has, with what is written.
    pub fn submit(&mut self, number: u64, request: Request, written: Vec<u8>) {
        let came = clock::raw();
        let octets = if request.kind == Kind::Read { vec![0; request.bytes as usize] } else { written };
        self.tally().begin(came, request.kind);
        self.under.insert(number, Under { came, request, octets, failed: false });
        self.volume.submit(number, request);
    }

    /// A request that is complete; to be asked until there is no other.
    pub fn take_done(&mut self) -> Option<Done> {
        self.done.pop_front()
    }

    /// Waits until something comes or is due, and takes it; whether something came at the other descriptor, if there is
    /// one.
    ///
    /// # Errors
    /// As poll(2).
    pub fn wait(&mut self, other: Option<BorrowedFd<'_>>) -> anyhow::Result<bool> {
        let look = self.account.runs();
        let until = self.client.next_event().map_or(look, |at| at.min(look));
        let ready = self.lines.wait(Some(until), other.as_slice())?;
        let _ = self.account.runs();
        while let Some(Heard { from, word, .. }) = self.lines.heard() {
            if let Word::Said(message, content) = word {
                if let (Message::Content(attempt, ..) | Message::Led(attempt, ..), Some(content)) =
                    (&message, content)
                    && let Some(running) = self.running.get_mut(&attempt.operation)
                    && running.operation.task == Task::Read
                {
                    running.content = Some(content);
                }
                self.client.handle(clock::raw(), from, message);
            }
        }
        if self.client.next_event().is_some_and(|at| at <= clock::raw()) {
            self.client.wake(clock::raw());
        }
        Ok(ready.first() == Some(&true))
    }

    /// Does what the disk and the client want, until neither wants more.
    pub fn settle(&mut self) {
        loop {
            let mut idle = true;
            while let Some(operation) = self.volume.operation() {
                idle = false;
                self.begin(operation);
            }
            while let Some(output) = self.client.output() {
                idle = false;
                match output {
                    Output::Send(To::Peer(to), message) => {
                        let content = match &message {
                            Message::Put { attempt, .. } | Message::Lead(attempt, ..) => {
                                self.running.get(&attempt.operation).and_then(|one| one.content.clone())
                            }
                            _ => None,
                        };
                        self.lines.say(to, &message, content.as_ref());
                    }
                    Output::Send(To::Nodes, message) => self.lines.ask_all(&message),
                    Output::Answer { operation, outcome, .. } => self.end(operation, outcome),
                    Output::Disk { .. } => {}
                }
            }
            while let Some(number) = self.volume.take_done() {
                idle = false;
                let Some(Under { came, request, octets, failed }) = self.under.remove(&number) else {
                    continue;
                };
                self.tally().end(clock::raw(), came, request);
                let read = if request.kind == Kind::Read { octets } else { Vec::new() };
                self.done.push_back(Done { number, read: (!failed).then_some(read) });
            }
            if idle {
                return;
            }
        }
    }

    fn begin(&mut self, operation: Operation) {
        let Operation { number, key, task, block, request } = operation;
        let content = match task {
            Task::Write { content, .. } => {
                if self.writing.get(&block).is_none_or(|(named, _)| *named != content) {
                    let octets = self.changed(block, request);
                    self.writing.insert(block, (content, octets));
                }
                self.writing.get(&block).map(|(_, octets)| octets.clone())
            }
            _ => None,
        };
        self.running.insert(number, Running { operation, content });
        self.client.request(clock::raw(), number, key, task);
    }

    /// What a block holds once the part of a request is written to it.
    fn changed(&mut self, block: u64, request: u64) -> Content {
        let length = self.volume.bytes_of(block) as usize;
        let mut octets = vec![0; length];
        if let Some(before) = self.before.remove(&block) {
            let held = before.octets();
            octets[..held.len().min(length)].copy_from_slice(&held[..held.len().min(length)]);
        }
        if let Some(under) = self.under.get(&request) {
            let (inside, outside) = common(block * self.block_bytes, length, &under.request);
            octets[inside].copy_from_slice(&under.octets[outside]);
        }
        Content::of(octets)
    }

    /// An operation of the store has ended.
    fn end(&mut self, number: u64, outcome: Outcome) {
        let Some(Running { operation: Operation { task, block, request, .. }, content }) =
            self.running.remove(&number)
        else {
            return;
        };
        let mut outcome = outcome;
        match (task, &mut outcome) {
            (Task::Read, Outcome::Done { bytes, content: named, .. }) => {
                let length = self.volume.bytes_of(block);
                match content.filter(|content| content.octets().len() as u64 == length && *bytes == length) {
                    Some(content) => self.take(block, request, content),
                    None => *named = 0, // which no content has
                }
            }
            (Task::Write { .. }, Outcome::Done { .. }) => drop(self.writing.remove(&block)),
            _ => {}
        }
        let lost = self.volume.answered(number, outcome);
        let counted = (self.volume.retries, self.volume.lost);
        let mut tally = self.tally();
        (tally.retries, tally.lost) = counted;
        drop(tally);
        if let Some(under) = lost.and_then(|lost| self.under.get_mut(&lost)) {
            under.failed = true;
        }
    }

    /// A block was read: for a request that reads, or to be written with something new.
    fn take(&mut self, block: u64, request: u64, content: Content) {
        match self.under.get_mut(&request) {
            Some(under) if under.request.kind == Kind::Read => {
                let octets = content.octets();
                let (inside, outside) = common(block * self.block_bytes, octets.len(), &under.request);
                under.octets[outside].copy_from_slice(&octets[inside]);
            }
            _ => drop(self.before.insert(block, content)),
        }
    }
}

/// What a block that begins there and a request have in common: places in the block, and in the request.
fn common(begin: u64, length: usize, request: &Request) -> (std::ops::Range<usize>, std::ops::Range<usize>) {
    let from = begin.max(request.offset);
    let until = (begin + length as u64).min(request.offset + request.bytes).max(from);
    let place = |of: u64| (from - of) as usize..(until - of) as usize;
    (place(begin), place(request.offset))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_request_and_a_block_have_in_common_what_lies_in_both() {
        let request = |offset, bytes| Request { kind: Kind::Write, offset, bytes };
        assert_eq!(common(4096, 4096, &request(5120, 512)), (1024..1536, 0..512), "inside");
        assert_eq!(common(4096, 4096, &request(0, 16_384)), (0..4096, 4096..8192), "all of it");
        assert_eq!(common(4096, 4096, &request(7680, 1024)), (3584..4096, 0..512), "its end");
        assert_eq!(common(8192, 4096, &request(7680, 1024)), (0..512, 512..1024), "the next one's beginning");
    }

    #[test]
    fn words_of_another_shape_are_no_disk_on_a_store() {
        let parameters = json!({"copies": 1, "lookup": "elastic_hash", "written_by": "client", "ack": "disk",
            "question_ns": 1, "timeout_ns": 1});
        let asked =
            json!({"me": 1, "peers": ["10.0.0.1"], "nodes": 1, "folder": 0, "parameters": parameters});
        let words = json!({"number": 0, "size_bytes": 1 << 20, "block_bytes": 65536, "local": "10.0.0.2",
            "port": 7100, "asked": asked});
        assert!(Words::read(&words).is_ok());
        for (key, value) in [
            ("number", json!(-1)),
            ("block_bytes", json!(0)),
            ("local", json!("here")),
            ("port", json!(70_000)),
            ("asked", json!({})),
            ("asked", Value::Null),
        ] {
            let mut other = words.clone();
            other[key] = value;
            assert!(Words::read(&other).is_err(), "{other}");
        }
    }
}
