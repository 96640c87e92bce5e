//! A disk of a virtual machine whose blocks are objects of a store: requests come over a descriptor by the protocol of network
//! block devices, and this is the store's client, on a thread of its own in the network of the machine's host.
//!
//! Which operations a request needs, `virtlab_store::Volume` knows, as in the simulator; here are the octets. A write is
//! answered once the store has answered for each of its blocks.

use super::codec::{Content, Word};
use super::lines::{Lines, Places};
use super::{Asked, codec};
use anyhow::Context;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sched::{CloneFlags, setns};
use nix::unistd;
use serde_json::Value;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};
use virtlab_disk::{Kind, Request, Tally};
use virtlab_leader::nbd::{Asked as Wanted, Connection, EIO};
use virtlab_store::{Client, Message, Operation, Outcome, Output, Peer, Task, To, Volume};
use virtlab_system::clock;
use virtlab_wire::Nanos;

const CHUNK_BYTES: usize = 256 << 10;

/// Its words.
#[derive(Debug)]
struct Words {
    /// Among the disks on its store.
    number: u64,
    size_bytes: u64,
    block_bytes: u64,
    local: IpAddr,
    port: u16,
    store: Asked,
}

impl Words {
    /// By hand, but for what the client of a role has, too: code for that is there.
    fn read(words: &Value) -> anyhow::Result<Self> {
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
        Ok(Self { number, size_bytes, block_bytes, local, port, store })
    }
}

/// A request under way.
struct Under {
    handle: u64,
    came: Nanos,
    request: Request,
    /// What is written, or what is read so far.
    octets: Vec<u8>,
    failed: bool,
}

/// An operation of the store under way.
struct Running {
    operation: Operation,
    content: Option<Content>,
}

struct Serving {
    connection: Connection,
    fd: OwnedFd,
    lines: Lines,
    client: Client,
    volume: Volume,
    block_bytes: u64,
    tally: Arc<Mutex<Tally>>,
    requests: u64,
    under: BTreeMap<u64, Under>,
    running: BTreeMap<u64, Running>,
    /// By block, what it held when a part of it was to be changed.
    before: BTreeMap<u64, Content>,
    /// By block, the number of the content that is being written, and its octets: the same, however often it is tried.
    writing: BTreeMap<u64, (u64, Content)>,
}

/// Serves such a disk, on a thread of its own.
///
/// # Errors
/// When its words are of no disk on a store, or there is no thread.
pub fn serve(words: &Value, fd: OwnedFd, network: OwnedFd, tally: Arc<Mutex<Tally>>) -> anyhow::Result<()> {
    let words = Words::read(words)?;
    let asked = &words.store;
    let proxies = asked.peers.len().checked_sub(asked.nodes).context("asked.nodes: more than its peers")?;
    let policy = asked.parameters.policy(asked.nodes, proxies).context("asked")?;
    codec::check(asked.peers.len().max(asked.me as usize + 1), policy.copies).context("asked")?;
    let me = Peer(asked.me);
    let at = |address: IpAddr| SocketAddr::new(address, words.port);
    let places = Places {
        me,
        local: words.local,
        peers: asked.peers.iter().copied().map(at).collect(),
        group: asked.group.map(|group| (at(group), false)),
    };
    let thread = std::thread::Builder::new().name("disk".to_owned());
    thread
        .spawn(move || {
            if let Err(error) = setns(&network, CloneFlags::CLONE_NEWNET) {
                eprintln!("virtlab-agent: a disk cannot enter its host's network: {error}");
                return;
            }
            drop(network);
            // SAFETY: the call sets how late this thread may be woken, and touches no memory.
            unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1) };
            let lines = Lines::new(places, None).and_then(|mut lines| {
                lines.leave_signals()?; // the leader's own thread hears of children
                Ok(lines)
            });
            let lines = match lines {
                Ok(lines) => lines,
                Err(error) => {
                    eprintln!("virtlab-agent: a disk cannot reach its store: {error:#}");
                    return;
                }
            };
            Serving {
                connection: Connection::new(words.size_bytes, false),
                fd,
                lines,
                client: Client::new(me, policy),
                volume: Volume::new(words.number, words.size_bytes, words.block_bytes),
                block_bytes: words.block_bytes,
                tally,
                requests: 0,
                under: BTreeMap::new(),
                running: BTreeMap::new(),
                before: BTreeMap::new(),
                writing: BTreeMap::new(),
            }
            .serve();
        })
        .context("cannot start a thread for a disk")?;
    Ok(())
}

impl Serving {
    fn serve(mut self) {
        while self.flush() && self.go_on() {
            self.settle();
        }
    }

    /// Waits until something comes, and takes it; false at the end of the connection.
    fn go_on(&mut self) -> bool {
        let Ok(ready) = self.lines.wait(self.client.next_event(), &[self.fd.as_fd()]) else { return false };
        while let Some((from, word)) = self.lines.heard() {
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
        ready.first() != Some(&true) || self.hear()
    }

    /// Reads requests of the machine; false at their end.
    fn hear(&mut self) -> bool {
        let mut chunk = vec![0; CHUNK_BYTES];
        match unistd::read(&self.fd, &mut chunk) {
            Ok(0) => return false,
            Ok(count) => self.connection.feed(&chunk[..count]),
            Err(nix::errno::Errno::EINTR | nix::errno::Errno::EAGAIN) => return true,
            Err(_) => return false,
        }
        loop {
            match self.connection.next_asked() {
                Ok(None) => return true,
                Ok(Some(Wanted::Impossible { handle, error })) => self.connection.answer(handle, Err(error)),
                Ok(Some(Wanted::Request { handle, request, written })) => {
                    self.requests += 1;
                    let came = clock::raw();
                    let octets = match request.kind {
                        Kind::Read => vec![0; request.bytes as usize],
                        _ => written,
                    };
                    self.tally().begin(came, request.kind);
                    self.under.insert(self.requests, Under { handle, came, request, octets, failed: false });
                    self.volume.submit(self.requests, request);
                }
                Err(_) => {
                    self.flush();
                    return false;
                }
            }
        }
    }

    fn tally(&self) -> std::sync::MutexGuard<'_, Tally> {
        self.tally.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does what the disk and the client want, until neither wants more.
    fn settle(&mut self) {
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
            while let Some(id) = self.volume.take_done() {
                idle = false;
                let Some(Under { handle, came, request, octets, failed }) = self.under.remove(&id) else {
                    continue;
                };
                self.tally().end(clock::raw(), came, request);
                let read = if request.kind == Kind::Read { &octets[..] } else { &[] };
                self.connection.answer(handle, if failed { Err(EIO) } else { Ok(read) });
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
        if let Some(lost) = self.volume.answered(number, outcome)
            && let Some(under) = self.under.get_mut(&lost)
        {
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

    /// Sends what was answered; false at the end of the connection.
    fn flush(&mut self) -> bool {
        let outbox = &mut self.connection.outbox;
        let mut sent = 0;
        while sent < outbox.len() {
            match unistd::write(&self.fd, &outbox[sent..]) {
                Ok(count) => sent += count,
                Err(nix::errno::Errno::EINTR) => {}
                Err(nix::errno::Errno::EAGAIN) => {
                    let mut polled = [PollFd::new(self.fd.as_fd(), PollFlags::POLLOUT)];
                    let _ = poll(&mut polled, PollTimeout::NONE);
                }
                Err(_) => return false,
            }
        }
        outbox.clear();
        true
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
