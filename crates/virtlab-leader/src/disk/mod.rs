//! Disks of virtual machines: each is served by a thread of the leader over a descriptor that its QEMU was born with,
//! and takes the time of its model (`virtlab_disk`).
//!
//! A request completes when the model says, or as soon after as the thread wakes. What is written is there at once: its
//! guest is told when the model has it. A second QEMU may join, in which the guest will continue. With the last
//! descriptor's other end the thread ends, and the bytes with it.
//!
//! The blocks of another disk are objects of a store: its thread is the store's client, in the network of a host. Where
//! its guest shares the machine's kernel, it is a file system that the thread has mounted.

pub mod nbd;
mod store;

use crate::world::folder::FOLDER;
use anyhow::Context;
use nbd::{Asked, Connection, EIO, ENOSPC};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::signal::SigSet;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socketpair};
use nix::sys::time::TimeSpec;
use nix::unistd;
use serde_json::{Value, json};
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use store::Store;
use virtlab_disk::{Disk, Kind, Model, Tally, Usage};
use virtlab_system::clock;
use virtlab_system::standstill::Standstills;
use virtlab_wire::Nanos;

const CHUNK_BYTES: usize = 256 << 10;
/// Beyond which no more is answered until the client has taken what was.
const MOST_WAITING_BYTES: usize = 64 << 20;
/// Requests under way beyond which no more are read: a device has fewer.
const MOST_UNDER_WAY: usize = 4096;
/// Of its thread, before the processors of guests that compute.
const NICE: i32 = -15;

/// A disk that a command is born with.
#[derive(Clone, Debug)]
struct Wanted {
    /// Its name in series and counters, and that of all disks of its host.
    name: String,
    together: String,
    model: Model,
    /// Where its bytes are; absent: in memory.
    folder: Option<PathBuf>,
    /// The disk that is copied to it.
    instead_of: Option<String>,
}

impl Wanted {
    /// From its words: read by hand, since what serde makes of them is a hundredth of this program.
    fn read(words: &Value) -> Option<Self> {
        let words = words.as_object()?;
        let model = words.get("model")?.as_object()?;
        let known = ["size_bytes", "rate_byte_per_s", "latency_ns", "write_cache_bytes"];
        if words.keys().any(|key| !["name", "together", "model", "folder", "instead_of"].contains(&&key[..]))
            || model.keys().any(|key| !known.contains(&&key[..]))
        {
            return None;
        }
        let number = |key: &str| match model.get(key) {
            None | Some(Value::Null) => Some(0),
            Some(value) => value.as_u64(),
        };
        let text = |key: &str| words.get(key)?.as_str();
        Some(Self {
            name: text("name")?.to_owned(),
            together: text("together")?.to_owned(),
            model: Model {
                size_bytes: number("size_bytes").filter(|size| *size > 0)?,
                rate_byte_per_s: Some(number("rate_byte_per_s")?).filter(|rate| *rate > 0),
                latency_ns: number("latency_ns")?,
                write_cache_bytes: number("write_cache_bytes")?,
            },
            folder: match words.get("folder") {
                None => None,
                Some(folder) => Some(folder.as_str()?.into()),
            },
            instead_of: match words.get("instead_of") {
                None => None,
                Some(name) => Some(name.as_str()?.to_owned()),
            },
        })
    }
}

/// What the thread of a disk on a store tells of it, dropped with the last connection.
#[derive(Clone, Debug)]
pub struct Account {
    /// What the disk has done.
    pub tally: Arc<Mutex<Tally>>,
    /// How often the thread stood still.
    pub standstills: Arc<Mutex<Standstills>>,
}

impl Account {
    fn new() -> Self {
        Self { tally: Arc::default(), standstills: Arc::new(Mutex::new(Standstills::from(clock::raw()))) }
    }

    /// The thread runs; until when it may sleep at most.
    #[must_use]
    pub fn runs(&self) -> Nanos {
        let mut standstills = lock(&self.standstills);
        standstills.runs(clock::raw());
        standstills.next_look()
    }
}

/// Serves a disk by its words, on a thread of its own in that network.
pub type OnStore = fn(&Value, OwnedFd, OwnedFd, Account) -> anyhow::Result<()>;

/// Mounts a disk by its words as a file system, and serves it as `OnStore` does.
pub type Mount = fn(&Value, OwnedFd, Account) -> anyhow::Result<Mounted>;

/// What a file system that was mounted so is called in its table of mounts.
pub const MOUNTED: &str = "virtlab";

/// A file system that a thread has mounted.
#[derive(Debug)]
pub struct Mounted {
    /// The mount namespace in which it is.
    pub mounts: OwnedFd,
    /// What is mounted there, as the kernel tells it.
    pub table: File,
}

/// What tells of a disk.
#[derive(Clone, Debug)]
enum Medium {
    Model(Arc<Mutex<Disk>>),
    Store { tally: Arc<Mutex<Tally>>, facts: Value, table: Option<Arc<File>> },
}

impl Medium {
    fn model(&self) -> Option<&Mutex<Disk>> {
        match self {
            Self::Model(disk) => Some(disk),
            Self::Store { .. } => None,
        }
    }
}

/// A disk that is served.
#[derive(Clone, Debug)]
pub struct Served {
    pub name: String,
    pub together: String,
    /// Of a command in which the guest will continue.
    heir: Option<Heir>,
    disk: Medium,
    standstills: Arc<Mutex<Standstills>>,
    /// Clients that the thread has not seen yet.
    coming: Arc<Mutex<Vec<Client>>>,
}

/// What a disk is when its guest continues in another command.
#[derive(Clone, Debug)]
struct Heir {
    /// The channel of the command.
    of: u16,
    /// The disks among which it is then.
    together: String,
    /// The disk whose bytes it has been given, and whose counters and name it has then.
    instead_of: Option<String>,
}

/// Both ends of a connection: ours never waits.
fn connection() -> anyhow::Result<(OwnedFd, OwnedFd)> {
    let (ours, theirs) = socketpair(
        AddressFamily::Unix,
        SockType::Stream,
        None,
        SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK,
    )
    .context("no socket pair")?;
    // QEMU sets its end as it needs it.
    nix::fcntl::fcntl(&theirs, nix::fcntl::FcntlArg::F_SETFL(nix::fcntl::OFlag::empty()))
        .context("cannot set a socket's flags")?;
    Ok((ours, theirs))
}

impl Served {
    /// Begins to serve a disk for the command of that channel; the end of its connection that this gets.
    ///
    /// # Errors
    /// When its words are of no disk; when there is no room for it, no socket pair or no thread.
    pub fn begin(words: &Value, of: u16) -> anyhow::Result<(Self, OwnedFd)> {
        let wanted = Wanted::read(words).context("a descriptor of a disk has another shape")?;
        let size_bytes = wanted.model.size_bytes;
        let store = match &wanted.folder {
            None => Store::in_memory(size_bytes)?,
            // The room for a copy is taken as it comes.
            Some(folder) => Store::in_folder(folder, size_bytes, wanted.instead_of.is_none())?,
        };
        let heir = wanted.instead_of.map(|name| Heir {
            of,
            together: wanted.together.clone(),
            instead_of: Some(name),
        });
        let disk = Arc::new(Mutex::new(Disk::new(wanted.model)));
        let served = Self {
            name: wanted.name,
            together: wanted.together,
            heir,
            disk: Medium::Model(disk.clone()),
            standstills: Arc::new(Mutex::new(Standstills::from(clock::raw()))),
            coming: Arc::default(),
        };
        let theirs = served.connect()?;
        let serving = Serving {
            clients: Vec::new(),
            coming: served.coming.clone(),
            disk,
            standstills: served.standstills.clone(),
            store,
            requests: 0,
        };
        std::thread::Builder::new()
            .name("disk".to_owned())
            .spawn(move || serving.serve())
            .context("cannot start a thread for a disk")?;
        Ok((served, theirs))
    }

    /// Begins to serve a disk whose blocks are objects of a store, which is asked in that network; the end of its
    /// connection that a command gets.
    ///
    /// # Errors
    /// When its words are of no such disk; when there is no socket pair or no thread.
    pub fn on_store(words: &Value, network: OwnedFd, serve: OnStore) -> anyhow::Result<(Self, OwnedFd)> {
        let (ours, theirs) = connection()?;
        let account = Account::new();
        let served = Self::of_store(words, &account)?;
        serve(words, ours, network, account)?;
        Ok((served, theirs))
    }

    /// Begins to serve such a disk as a file system that is mounted at [`FOLDER`]; the mount namespace in which it is.
    ///
    /// # Errors
    /// When its words are of no such disk, or the kernel gives no such file system.
    pub fn mounted(words: &Value, network: OwnedFd, mount: Mount) -> anyhow::Result<(Self, OwnedFd)> {
        let account = Account::new();
        let mut served = Self::of_store(words, &account)?;
        let Mounted { mounts, table } = mount(words, network, account)?;
        if let Medium::Store { table: place, .. } = &mut served.disk {
            *place = Some(Arc::new(table));
        }
        Ok((served, mounts))
    }

    fn of_store(words: &Value, account: &Account) -> anyhow::Result<Self> {
        let text = |key: &str| words.get(key).and_then(Value::as_str).map(str::to_owned);
        let (Some(name), Some(together)) = (text("name"), text("together")) else {
            anyhow::bail!("a descriptor of a disk on a store has another shape")
        };
        let kept = ["size_bytes", "service", "block_bytes"];
        let facts: serde_json::Map<String, Value> =
            kept.into_iter().map(|key| (key.to_owned(), words[key].clone())).collect();
        Ok(Self {
            name,
            together,
            heir: None,
            disk: Medium::Store { tally: account.tally.clone(), facts: Value::Object(facts), table: None },
            standstills: account.standstills.clone(),
            coming: Arc::default(),
        })
    }

    /// One more client, in which the guest will continue: the end of its connection.
    ///
    /// # Errors
    /// When its words are not of this disk, or there is no socket pair.
    pub fn join(&mut self, words: &Value, of: u16) -> anyhow::Result<OwnedFd> {
        let together =
            words.get("together").and_then(Value::as_str).context("a disk is joined for a host")?;
        self.heir = Some(Heir { of, together: together.to_owned(), instead_of: None });
        self.connect()
    }

    /// Whether another disk is being copied to this one, so that it is no guest's yet.
    pub fn is_copy(&self) -> bool {
        self.heir.as_ref().is_some_and(|heir| heir.instead_of.is_some())
    }

    /// A guest continues in another command, on one of these disks.
    pub fn take_over(disks: &mut Vec<Self>, of: u16) {
        let Some(place) = disks.iter().position(|one| one.heir.as_ref().is_some_and(|heir| heir.of == of))
        else {
            return;
        };
        let mut own = disks.remove(place);
        let Some(Heir { together, instead_of, .. }) = own.heir.take() else { return };
        own.together = together;
        if let Some(name) = instead_of {
            // The other one is served as long as its command lives, and no longer counted.
            if let Some(before) = disks.iter().position(|one| one.name == name) {
                let other = disks.remove(before);
                if let (Some(own), Some(other)) = (own.disk.model(), other.disk.model()) {
                    lock(own).count_on(&lock(other));
                }
            }
            own.name = name;
        }
        disks.push(own);
    }

    fn connect(&self) -> anyhow::Result<OwnedFd> {
        let disk = self.disk.model().context("a disk on a store has one client")?;
        let (ours, theirs) = connection()?;
        let model = *lock(disk).model();
        let connection = Connection::new(model.size_bytes, model.write_cache_bytes > 0);
        lock(&self.coming).push(Client { connection, waiting: Vec::new(), fd: ours });
        Ok(theirs)
    }

    /// Whether its client is there.
    pub fn lives(&self) -> bool {
        match &self.disk {
            Medium::Model(disk) => Arc::strong_count(disk) > 1,
            Medium::Store { tally, .. } => Arc::strong_count(tally) > 1,
        }
    }

    /// What it has done until an instant of the raw clock.
    pub fn usage(&self, now: Nanos) -> Usage {
        match &self.disk {
            Medium::Model(disk) => lock(disk).usage(now),
            Medium::Store { tally, .. } => lock(tally).usage(now),
        }
    }

    /// The same as counters by their names.
    pub fn counters(&self, now: Nanos) -> Vec<(&'static str, u64)> {
        let mut found = self.usage(now).counters().to_vec();
        if let Medium::Store { tally, .. } = &self.disk {
            let tally = lock(tally);
            found.extend([("disk_retries", tally.retries), ("disk_lost_blocks", tally.lost)]);
        }
        found
    }

    /// What it is, as it is served, and how often its thread stood still since that was asked last.
    pub fn facts(&self) -> Value {
        let mut facts = match &self.disk {
            Medium::Model(disk) => {
                let model = *lock(disk).model();
                json!({
                    "size_bytes": model.size_bytes, "rate_byte_per_s": model.rate_byte_per_s,
                    "latency_ns": model.latency_ns, "write_cache_bytes": model.write_cache_bytes,
                })
            }
            Medium::Store { facts, table, .. } => {
                let mut facts = facts.clone();
                if let Some(table) = table {
                    facts["mounted"] = json!(self.lives() && is_mounted(table));
                }
                facts
            }
        };
        let mut standstills = lock(&self.standstills);
        let Standstills { count, longest, .. } = *standstills;
        standstills.forget();
        facts["name"] = json!(self.name);
        facts["standstills"] = json!(count);
        facts["standstill_max_ns"] = json!(longest);
        facts
    }
}

/// Whether what a guest finds in its folder is the file system that was mounted there for it.
fn is_mounted(table: &File) -> bool {
    let mut text = Vec::new();
    let mut chunk = [0; 4096];
    loop {
        match table.read_at(&mut chunk, text.len() as u64) {
            Ok(0) => return at_folder(&String::from_utf8_lossy(&text)),
            Ok(count) => text.extend_from_slice(&chunk[..count]),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(_) => return false,
        }
    }
}

/// The last of the mounts at the folder covers the others.
fn at_folder(table: &str) -> bool {
    let mut places = table.lines().filter(|line| line.split(' ').nth(4) == Some(FOLDER));
    let kind = places.next_back().and_then(|line| line.split_once(" - "));
    kind.is_some_and(|(_, kind)| kind.starts_with(&format!("fuse {MOUNTED} ")))
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A request under way: what it is to its client, and what went wrong so far.
#[derive(Debug)]
struct Waiting {
    id: u64,
    handle: u64,
    error: Option<u32>,
}

/// Who asks something of a disk.
#[derive(Debug)]
struct Client {
    connection: Connection,
    waiting: Vec<Waiting>,
    fd: OwnedFd,
}

/// The thread's own.
struct Serving {
    clients: Vec<Client>,
    coming: Arc<Mutex<Vec<Client>>>,
    disk: Arc<Mutex<Disk>>,
    standstills: Arc<Mutex<Standstills>>,
    store: Store,
    requests: u64,
}

impl Serving {
    fn serve(mut self) {
        // SAFETY: the calls set how late this thread may be woken and, where that is allowed, that it comes before what
        // computes; they touch no memory.
        unsafe {
            libc::prctl(libc::PR_SET_TIMERSLACK, 1);
            libc::setpriority(libc::PRIO_PROCESS, 0, NICE);
        }
        while self.go_on() {}
    }

    /// One round; false at the end of the last connection.
    fn go_on(&mut self) -> bool {
        let look = {
            let mut standstills = lock(&self.standstills);
            standstills.runs(clock::raw());
            standstills.next_look()
        };
        self.clients.append(&mut lock(&self.coming));
        let next = self.complete();
        self.clients.retain_mut(Client::flush);
        if self.is_left() {
            return false;
        }
        let full = |client: &Client| client.connection.outbox.len() >= MOST_WAITING_BYTES;
        let at = next.filter(|_| !self.clients.iter().any(full)).map_or(look, |at| at.min(look));
        let timeout = Some(TimeSpec::new(0, at.since(clock::raw()).0 as i64)); // of 10 ms at most
        let mut polled: Vec<PollFd<'_>> = self.clients.iter().map(Client::polled).collect();
        match ppoll(&mut polled, timeout, None::<SigSet>) {
            Ok(0) | Err(Errno::EINTR) => return true,
            Ok(_) => {}
            Err(_) => return false,
        }
        let ready: Vec<PollFlags> =
            polled.iter().map(|one| one.revents().unwrap_or(PollFlags::empty())).collect();
        let mut clients = std::mem::take(&mut self.clients);
        for place in (0..clients.len()).rev() {
            let lives = if ready[place].contains(PollFlags::POLLIN) {
                self.hear(&mut clients[place])
            } else {
                !ready[place].intersects(PollFlags::POLLHUP | PollFlags::POLLERR)
            };
            if !lives {
                clients.remove(place);
            }
        }
        self.clients = clients;
        !self.is_left()
    }

    /// Whether no client is left, and none is coming.
    fn is_left(&self) -> bool {
        self.clients.is_empty() && lock(&self.coming).is_empty()
    }

    /// Answers what is complete by now; when the next request will be.
    fn complete(&mut self) -> Option<Nanos> {
        let disk = self.disk.clone();
        let mut disk = lock(&disk);
        while self.clients.iter().all(|client| client.connection.outbox.len() < MOST_WAITING_BYTES)
            && let Some(done) = disk.complete(clock::raw())
        {
            let (id, request) = (done.id, done.request);
            let Some((client, place)) = self.clients.iter_mut().find_map(|client| {
                client.waiting.iter().position(|one| one.id == id).map(|place| (client, place))
            }) else {
                continue;
            };
            let Waiting { handle, error, .. } = client.waiting.swap_remove(place);
            let read = match request.kind {
                Kind::Read => self.store.read(request.offset, request.bytes).map_err(|_| EIO),
                _ => error.map_or_else(|| Ok(Vec::new()), Err),
            };
            client.connection.answer(handle, read.as_deref().map_err(|error| *error));
        }
        disk.next_event()
    }

    fn hear(&mut self, client: &mut Client) -> bool {
        let mut chunk = vec![0; CHUNK_BYTES];
        match unistd::read(&client.fd, &mut chunk) {
            Ok(0) => return false,
            Ok(n) => client.connection.feed(&chunk[..n]),
            Err(Errno::EINTR | Errno::EAGAIN) => return true,
            Err(_) => return false,
        }
        loop {
            match client.connection.next_asked() {
                Ok(None) => return true,
                Ok(Some(Asked::Impossible { handle, error })) => client.connection.answer(handle, Err(error)),
                Ok(Some(Asked::Request { handle, request, written })) => {
                    let full = |error: std::io::Error| error.raw_os_error() == Some(libc::ENOSPC);
                    let error = self.store.write(request.offset, &written).err();
                    let error = error.map(|error| if full(error) { ENOSPC } else { EIO });
                    self.requests += 1;
                    match lock(&self.disk).submit(clock::raw(), self.requests, request) {
                        Ok(_) => client.waiting.push(Waiting { id: self.requests, handle, error }),
                        Err(_) => client.connection.answer(handle, Err(EIO)),
                    }
                }
                Err(_) => {
                    client.flush();
                    return false;
                }
            }
        }
    }
}

impl Client {
    /// What is waited for at its descriptor.
    fn polled(&self) -> PollFd<'_> {
        let mut events = PollFlags::empty();
        events.set(PollFlags::POLLIN, self.waiting.len() < MOST_UNDER_WAY);
        events.set(PollFlags::POLLOUT, !self.connection.outbox.is_empty());
        PollFd::new(self.fd.as_fd(), events)
    }

    /// Sends what it takes now; false when it is gone.
    fn flush(&mut self) -> bool {
        let outbox = &mut self.connection.outbox;
        let mut sent = 0;
        while sent < outbox.len() {
            match unistd::write(&self.fd, &outbox[sent..]) {
                Ok(n) => sent += n,
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => break,
                Err(_) => return false,
            }
        }
        outbox.drain(..sent);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    fn wanted(rate: Option<u64>, latency_ns: u64) -> Value {
        let model = json!({"size_bytes": 1 << 20, "rate_byte_per_s": rate, "latency_ns": latency_ns});
        json!({"name": "guests.a.disk", "together": "hosts.a.disks", "model": model})
    }

    #[test]
    fn a_folder_is_its_disk_as_long_as_nothing_covers_it() {
        let below = "22 1 0:21 / /var rw - ext4 /dev/vda rw\n";
        let own = "41 22 0:52 / /var/tmp rw,nosuid,nodev - fuse virtlab rw,user_id=0,allow_other\n";
        let above = "42 41 0:53 / /var/tmp rw - tmpfs none rw\n";
        assert!(!at_folder(below));
        assert!(at_folder(&[below, own].concat()));
        assert!(!at_folder(&[below, own, above].concat()));
        assert!(!at_folder("41 22 0:52 / /var/tmp rw - fuse virtlabs rw\n"));
    }

    #[test]
    fn words_of_another_shape_are_no_disk() {
        assert!(Served::begin(&wanted(Some(1), 2), 1).is_ok());
        for (key, value) in [
            ("name", Value::Null),
            ("model", json!({"size_bytes": -1})),
            ("model", json!({"size_bytes": 512, "rate": 1})),
            ("model", json!({})),
            ("folder", json!(7)),
            ("folder", json!("/nowhere")),
            ("more", json!(7)),
        ] {
            let mut words = wanted(Some(1), 2);
            words[key] = value;
            assert!(Served::begin(&words, 1).is_err(), "{words}");
        }
    }

    fn negotiate(stream: &mut UnixStream) {
        let mut greeting = [0; 18];
        stream.read_exact(&mut greeting).unwrap();
        stream.write_all(&3u32.to_be_bytes()).unwrap();
        stream.write_all(b"IHAVEOPT\0\0\0\x07\0\0\0\x06\0\0\0\0\0\0").unwrap();
        let mut said = [0; 20 + 12 + 20 + 14 + 20];
        stream.read_exact(&mut said).unwrap();
    }

    fn request(stream: &mut UnixStream, command: u8, offset: u64, bytes: u32, more: &[u8]) {
        let head =
            [&[0x25, 0x60, 0x95, 0x13, 0, 0, 0, command][..], &7u64.to_be_bytes(), &offset.to_be_bytes()];
        stream.write_all(&[&head.concat()[..], &bytes.to_be_bytes(), more].concat()).unwrap();
    }

    fn error(stream: &mut UnixStream) -> u32 {
        let mut head = [0; 16];
        stream.read_exact(&mut head).unwrap();
        u32::from_be_bytes(head[4..8].try_into().unwrap())
    }

    #[test]
    fn what_is_written_is_read_again_in_the_time_of_the_model() {
        let (served, theirs) = Served::begin(&wanted(Some(1_000_000), 20_000_000), 1).unwrap();
        let mut stream = UnixStream::from(theirs);
        negotiate(&mut stream);
        let begun = clock::raw();
        request(&mut stream, 1, 4096, 4096, &[5; 4096]);
        assert_eq!(error(&mut stream), 0);
        request(&mut stream, 0, 4096, 4096, &[]);
        assert_eq!(error(&mut stream), 0);
        let mut read = [0; 4096];
        stream.read_exact(&mut read).unwrap();
        assert_eq!(read, [5; 4096]);
        assert!(clock::raw().since(begun) >= Nanos(2 * 24_096_000));
        request(&mut stream, 0, 1 << 20, 512, &[]);
        assert_eq!(error(&mut stream), 22);
        let usage = served.usage(clock::raw());
        assert_eq!(
            (usage.writes.operations, usage.writes.bytes, usage.writes.time),
            (1, 4096, Nanos(24_096_000))
        );
        assert_eq!(
            (usage.reads.operations, usage.reads.bytes, usage.reads.time),
            (1, 4096, Nanos(24_096_000))
        );
    }

    #[test]
    fn the_end_of_its_client_ends_the_thread_and_with_it_the_bytes() {
        let (served, theirs) = Served::begin(&wanted(None, 0), 1).unwrap();
        assert!(served.lives());
        drop(theirs);
        let from = clock::raw();
        while served.lives() {
            assert!(clock::raw().since(from) < Nanos(5_000_000_000));
            std::thread::yield_now();
        }
    }

    #[test]
    fn who_joins_reads_what_the_other_wrote_and_goes_on_when_that_is_gone() {
        let (mut served, theirs) = Served::begin(&wanted(None, 0), 1).unwrap();
        let mut stream = UnixStream::from(theirs);
        negotiate(&mut stream);
        assert!(served.join(&json!({"join": "guests.a.disk"}), 9).is_err());
        let joined = served.join(&json!({"join": "guests.a.disk", "together": "hosts.b.disks"}), 9).unwrap();
        let mut second = UnixStream::from(joined);
        negotiate(&mut second);
        request(&mut stream, 1, 0, 512, &[7; 512]);
        assert_eq!(error(&mut stream), 0);
        let mut every = vec![served];
        Served::take_over(&mut every, 8);
        assert_eq!(every[0].together, "hosts.a.disks", "another command's");
        Served::take_over(&mut every, 9);
        assert_eq!(every[0].together, "hosts.b.disks");
        let served = every.remove(0);
        drop(stream);
        request(&mut second, 0, 0, 512, &[]);
        assert_eq!(error(&mut second), 0);
        let mut read = [0; 512];
        second.read_exact(&mut read).unwrap();
        assert_eq!(read, [7; 512]);
        assert!(served.lives());
        let usage = served.usage(clock::raw());
        assert_eq!((usage.writes.operations, usage.reads.operations), (1, 1));
    }

    #[test]
    fn a_copy_is_nobodys_disk_until_its_guest_goes_on_with_it_and_then_counts_on() {
        let (served, theirs) = Served::begin(&wanted(None, 0), 1).unwrap();
        let mut stream = UnixStream::from(theirs);
        negotiate(&mut stream);
        request(&mut stream, 1, 0, 512, &[7; 512]);
        assert_eq!(error(&mut stream), 0);
        let mut words = wanted(None, 0);
        (words["name"], words["together"]) = (json!("guests.a.disk, copied"), json!("hosts.b.disks"));
        words["instead_of"] = json!("guests.a.disk");
        let (copy, theirs) = Served::begin(&words, 9).unwrap();
        let mut second = UnixStream::from(theirs);
        negotiate(&mut second);
        for _ in 0..3 {
            request(&mut second, 1, 0, 1024, &[7; 1024]);
            assert_eq!(error(&mut second), 0);
        }
        assert!(copy.is_copy() && !served.is_copy());
        let mut every = vec![served, copy];
        Served::take_over(&mut every, 9);
        assert_eq!((every.len(), &every[0].name[..], every[0].is_copy()), (1, "guests.a.disk", false));
        request(&mut second, 1, 0, 512, &[7; 512]);
        assert_eq!(error(&mut second), 0);
        let usage = every[0].usage(clock::raw());
        assert_eq!((usage.writes.operations, usage.writes.bytes), (2, 1024));
    }
}
