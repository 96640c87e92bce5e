//! The disk of a guest that shares the machine's kernel, on a store: a file system by FUSE where the guest's folder is,
//! whose octets are blocks that the store's client (`blocks`) keeps as objects.
//!
//! One thread of the leader mounts it in a mount namespace of its own, in which what is started in the guest begins,
//! and serves it. The kernel caches what was read, and no writes: each is answered once the store has answered for its
//! blocks, and a flush once it has for all that came before. Names are answered at once (`tree`).
//!
//! The thread has files of its own: what the leader forks has no descriptor of the device, so the kernel gives the file
//! system up as soon as the leader ends, whatever its children wait for. Who is killed does not wait for the store,
//! either.

mod fuse;
mod tree;

use super::blocks::{Blocks, Words};
use anyhow::{Context, anyhow, bail};
use fuse::{Asked, Body, CHUNK_BYTES};
use nix::errno::Errno;
use nix::fcntl::{OFlag, open};
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, setns, unshare};
use nix::sys::stat::Mode;
use nix::unistd;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::mpsc::{Receiver, Sender, channel};
use tree::{By, Piece, Tree};
use virtlab_disk::{Kind, Request};
use virtlab_leader::{Account, FOLDER, MOUNTED, Mounted};
use virtlab_system::clock;
use virtlab_wire::Nanos;

const DEVICE: &str = "/dev/fuse";
/// Of requests that are read before others have their turn.
const AT_ONCE: usize = 64;
/// Requests of the disk under way, beyond which the kernel keeps those that come: each has octets in this process.
const PARTS_MOST: usize = 32;
/// How often it is looked who was killed.
const LOOK_EVERY: Nanos = Nanos(100_000_000);

/// Mounts such a disk and serves it, on a thread of its own.
///
/// # Errors
/// When its words are of no disk on a store, or the kernel gives no such file system.
pub fn serve(words: &Value, network: OwnedFd, account: Account) -> anyhow::Result<Mounted> {
    let words = Words::read(words)?;
    let (sender, told) = channel();
    let thread = std::thread::Builder::new().name("disk".to_owned());
    thread
        .spawn(move || begin(&words, network, account, &sender))
        .context("cannot start a thread for a disk")?;
    let died = || anyhow!("the thread of a disk died");
    let mounted = told.recv().map_err(|_| died())??;
    wait_for(&told).unwrap_or_else(|| Err(died()))?;
    mounted.context("its mounts are unknown")
}

/// What the thread says: first what its leader keeps, then that all is there.
type Told = anyhow::Result<Option<Mounted>>;

fn wait_for(told: &Receiver<Told>) -> Option<anyhow::Result<()>> {
    told.recv().ok().map(|told| told.map(drop))
}

fn begin(words: &Words, network: OwnedFd, account: Account, sender: &Sender<Told>) {
    let apart = apart(network);
    let goes_on = apart.is_ok();
    // It is the leader's from here on: this thread will not have its descriptors.
    let _ = sender.send(apart.map(Some));
    if !goes_on {
        return;
    }
    let made = close_inherited().and_then(|()| Serving::new(words, account));
    match made {
        Ok(serving) => {
            let _ = sender.send(Ok(None));
            let why = serving.serve();
            eprintln!("virtlab-agent: a disk on a store is served no more: {why:#}");
        }
        Err(error) => drop(sender.send(Err(error))),
    }
}

/// Goes to mounts of its own, and to the network of the guest's host; what is known of the mounts.
fn apart(network: OwnedFd) -> anyhow::Result<Mounted> {
    unshare(CloneFlags::CLONE_NEWNS).context("no mount namespace")?;
    setns(&network, CloneFlags::CLONE_NEWNET).context("a disk cannot enter its host's network")?;
    drop(network);
    let own =
        |name: &str| File::open(format!("/proc/thread-self/{name}")).with_context(|| format!("no {name}"));
    Ok(Mounted { mounts: own("ns/mnt")?.into(), table: own("mountinfo")? })
}

/// Parts from the leader's descriptors. Nothing that owns one of them may be dropped on this thread from here on.
fn close_inherited() -> anyhow::Result<()> {
    const UNSHARE: libc::c_uint = 2;
    // SAFETY: the numbers above are used by this thread no more, and what has them elsewhere keeps them.
    let code = unsafe { libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, UNSHARE) };
    Errno::result(code).context("a disk's thread cannot have files of its own (Linux 5.9 and later can)")?;
    Ok(())
}

fn mounted() -> anyhow::Result<OwnedFd> {
    let flags = OFlag::O_RDWR | OFlag::O_CLOEXEC | OFlag::O_NONBLOCK;
    let device = open(DEVICE, flags, Mode::empty()).with_context(|| format!("cannot open {DEVICE}"))?;
    let mode = libc::S_IFDIR | 0o1777;
    let options = format!(
        "fd={},rootmode={mode:o},user_id=0,group_id=0,default_permissions,allow_other",
        device.as_raw_fd()
    );
    let safe = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
    mount(Some(MOUNTED), FOLDER, Some("fuse"), safe, Some(options.as_str()))
        .with_context(|| format!("cannot mount a file system by FUSE at {FOLDER}"))?;
    Ok(device)
}

/// A request of the kernel that waits for the store.
struct Call {
    thread: u32,
    /// Requests of the disk that are not complete.
    left: usize,
    failed: bool,
    /// Its answer, as far as it is known.
    body: Vec<u8>,
}

/// A flush, and the last request of the disk that it waits for.
struct Flush {
    thread: u32,
    last: u64,
    came: Nanos,
}

struct Serving {
    device: OwnedFd,
    blocks: Blocks,
    tree: Tree,
    chunk: Vec<u8>,
    requests: u64,
    calls: BTreeMap<u64, Call>,
    /// By request of the disk: for which call it is, and where in its answer what is read goes.
    parts: BTreeMap<u64, (u64, usize)>,
    flushes: BTreeMap<u64, Flush>,
    /// Calls and flushes whose process got a signal.
    interrupted: BTreeSet<u64>,
    /// When it is looked again who was killed.
    look_at: Nanos,
}

/// Whether a thread will end as soon as it no longer waits, as far as this process can see it.
fn dies(thread: u32) -> bool {
    let Ok(status) = std::fs::read_to_string(format!("/proc/{thread}/status")) else { return false };
    let pending = status.lines().find_map(|line| line.strip_prefix("SigPnd:"));
    let pending = pending.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    pending.is_some_and(|mask| mask & 1 << (libc::SIGKILL - 1) != 0)
}

impl Serving {
    fn new(words: &Words, account: Account) -> anyhow::Result<Self> {
        let blocks = Blocks::new(words, account).context("a disk cannot reach its store")?;
        Ok(Self {
            device: mounted()?,
            blocks,
            tree: Tree::new(words.size_bytes, clock::realtime()),
            chunk: vec![0; CHUNK_BYTES],
            requests: 0,
            calls: BTreeMap::new(),
            parts: BTreeMap::new(),
            flushes: BTreeMap::new(),
            interrupted: BTreeSet::new(),
            look_at: Nanos(0),
        })
    }

    /// Until there is nothing to serve: why.
    fn serve(mut self) -> anyhow::Error {
        loop {
            if let Err(error) = self.go_on() {
                return error;
            }
        }
    }

    fn go_on(&mut self) -> anyhow::Result<()> {
        let is_full = self.is_full();
        if self.blocks.wait((!is_full).then(|| self.device.as_fd()))? {
            for _ in 0..AT_ONCE {
                if self.is_full() || !self.hear()? {
                    break;
                }
            }
        }
        self.blocks.settle();
        while let Some(done) = self.blocks.take_done() {
            self.end_part(done.number, done.read.as_deref());
        }
        self.end_flushes();
        self.let_go();
        Ok(())
    }

    fn is_full(&self) -> bool {
        self.parts.len() >= PARTS_MOST
    }

    /// Reads a request and begins it; whether there may be another.
    fn hear(&mut self) -> anyhow::Result<bool> {
        let count = match unistd::read(&self.device, &mut self.chunk) {
            Ok(count) => count,
            Err(Errno::EAGAIN) => return Ok(false),
            // The second: who asked had gone before this was read.
            Err(Errno::EINTR | Errno::ENOENT) => return Ok(true),
            Err(Errno::ENODEV) => bail!("it was unmounted"),
            Err(error) => return Err(error).context("the kernel gave it up"),
        };
        let Some(request) = fuse::request(&self.chunk[..count]) else {
            bail!("the kernel asks in another way than was agreed on")
        };
        if let Some(answer) = self.begin(&request) {
            self.answer(request.unique, answer.as_ref().map(|body| &body.0[..]).map_err(|error| *error));
        }
        Ok(true)
    }

    fn answer(&self, unique: u64, body: Result<&[u8], Errno>) {
        match unistd::write(&self.device, &fuse::answer(unique, body)) {
            // Who asked is gone, or all of the file system.
            Ok(_) | Err(Errno::ENOENT | Errno::ENODEV) => {}
            Err(error) => {
                eprintln!("virtlab-agent: a disk on a store: the kernel does not take an answer: {error}");
            }
        }
    }

    /// The answer, where it is known at once and there is one.
    fn begin(&mut self, request: &fuse::Request) -> Option<Result<Body, Errno>> {
        let (id, by) =
            (request.node, By { user: request.user, group: request.group, now: clock::realtime() });
        let tree = &mut self.tree;
        let nothing = |()| Body::default();
        Some(match &request.asked {
            Asked::Begin { flags, ahead_bytes } => Ok(Body::begin(*flags, *ahead_bytes)),
            Asked::Lookup(name) => tree.lookup(id, name).map(|look| Body::entry(&look)),
            Asked::Forget(all) => {
                all.iter().for_each(|(id, times)| tree.forget(*id, *times));
                return None;
            }
            Asked::Look => tree.look(id).map(|look| Body::look(&look)),
            Asked::Change(change) => tree.change(id, *change, by.now).map(|look| Body::look(&look)),
            Asked::ReadLink => tree.leads_to(id).map(|to| Body(to.to_vec())),
            Asked::Link { of, name } => tree.link(*of, id, name, by.now).map(|look| Body::entry(&look)),
            Asked::Make { name, made, opens } => match tree.make(id, name, made.clone(), by) {
                Ok(look) if *opens => tree.open(look.node).map(|()| Body::entry(&look).open()),
                made => made.map(|look| Body::entry(&look)),
            },
            Asked::MakeUnnamed { mode } => tree
                .make_unnamed(id, *mode, by)
                .and_then(|look| tree.open(look.node).map(|()| Body::entry(&look).open())),
            Asked::Unlink { name, folder } => tree.unlink(id, name, *folder, by.now).map(nothing),
            Asked::Rename { name, to, new, replaces } => {
                tree.rename((id, name), (*to, new), *replaces, by.now).map(nothing)
            }
            Asked::Open { folder: true } => Ok(Body::default().open()),
            Asked::Open { folder: false } => tree.open(id).map(|()| Body::default().open()),
            Asked::CloseFolder => Ok(Body::default()),
            Asked::Close => {
                tree.close(id);
                Ok(Body::default())
            }
            Asked::List { after, bytes } => {
                let mut body = Body::default();
                tree.list(id, *after, |entry| body.listed(*bytes as usize, entry)).map(|()| body)
            }
            Asked::Read { offset, bytes } => match tree.read(id, *offset, u64::from(*bytes)) {
                Ok((length, pieces)) => return self.read(request, length, pieces),
                Err(error) => Err(error),
            },
            Asked::Write { offset, octets } => match tree.write(id, *offset, octets, by.now) {
                Ok((length, pieces)) => return self.write(request, length, pieces),
                Err(error) => Err(error),
            },
            Asked::Flush => {
                let came = clock::raw();
                self.blocks.tally().begin(came, Kind::Flush);
                self.flushes
                    .insert(request.unique, Flush { thread: request.thread, last: self.requests, came });
                return None;
            }
            Asked::Reserve { offset, bytes, grows } => {
                tree.reserve(id, (*offset, *bytes), *grows, by.now).map(nothing)
            }
            Asked::State => Ok(Body::state(tree.state())),
            Asked::Interrupt(unique) => {
                self.interrupted.insert(*unique);
                return None;
            }
            Asked::End => Ok(Body::default()),
            Asked::Impossible(error) => Err(Errno::from_raw(*error)),
        })
    }

    fn read(
        &mut self,
        request: &fuse::Request,
        length: usize,
        pieces: Vec<Piece<(usize, u64)>>,
    ) -> Option<Result<Body, Errno>> {
        let body = vec![0; length];
        if pieces.is_empty() {
            return Some(Ok(Body(body)));
        }
        self.call(request, pieces.len(), body);
        for Piece { offset, octets: (at, bytes) } in pieces {
            self.submit(request.unique, at, Request { kind: Kind::Read, offset, bytes }, Vec::new());
        }
        None
    }

    fn write(
        &mut self,
        request: &fuse::Request,
        length: usize,
        pieces: Vec<Piece<Vec<u8>>>,
    ) -> Option<Result<Body, Errno>> {
        let body = Body::written(length);
        if pieces.is_empty() {
            return Some(Ok(body));
        }
        self.call(request, pieces.len(), body.0);
        for Piece { offset, octets } in pieces {
            let wanted = Request { kind: Kind::Write, offset, bytes: octets.len() as u64 };
            self.submit(request.unique, 0, wanted, octets);
        }
        None
    }

    fn call(&mut self, request: &fuse::Request, left: usize, body: Vec<u8>) {
        self.calls.insert(request.unique, Call { thread: request.thread, left, failed: false, body });
    }

    fn submit(&mut self, unique: u64, at: usize, wanted: Request, written: Vec<u8>) {
        self.requests += 1;
        self.parts.insert(self.requests, (unique, at));
        self.blocks.submit(self.requests, wanted, written);
    }

    /// A request of the disk is complete: what was read, or `None` where a block was lost.
    fn end_part(&mut self, number: u64, read: Option<&[u8]>) {
        let Some((unique, at)) = self.parts.remove(&number) else { return };
        let Some(call) = self.calls.get_mut(&unique) else { return };
        call.left -= 1;
        match read {
            Some(octets) if !octets.is_empty() => call.body[at..at + octets.len()].copy_from_slice(octets),
            Some(_) => {}
            None => call.failed = true,
        }
        if call.left == 0
            && let Some(call) = self.calls.remove(&unique)
        {
            self.interrupted.remove(&unique);
            self.answer(unique, if call.failed { Err(Errno::EIO) } else { Ok(&call.body) });
        }
    }

    fn end_flushes(&mut self) {
        let first = self.parts.keys().next().copied().unwrap_or(u64::MAX);
        while let Some((&unique, &Flush { came, .. })) =
            self.flushes.iter().find(|(_, flush)| flush.last < first)
        {
            self.flushes.remove(&unique);
            self.interrupted.remove(&unique);
            self.blocks.tally().end(clock::raw(), came, Request::flush());
            self.answer(unique, Ok(&[]));
        }
    }

    /// Answers those who are killed: what they requested of the disk continues without them.
    fn let_go(&mut self) {
        let now = clock::raw();
        if now < self.look_at {
            return;
        }
        self.look_at = now + LOOK_EVERY;
        if self.is_full() {
            // Of a signal the kernel tells as of a request, and none is read now.
            self.interrupted.extend(self.calls.keys().chain(self.flushes.keys()));
        }
        for unique in std::mem::take(&mut self.interrupted) {
            let thread = match (self.calls.get(&unique), self.flushes.get(&unique)) {
                (Some(call), _) => call.thread,
                (None, Some(flush)) => flush.thread,
                (None, None) => continue, // it was answered
            };
            if !dies(thread) {
                self.interrupted.insert(unique);
                continue;
            }
            self.calls.remove(&unique);
            if let Some(flush) = self.flushes.remove(&unique) {
                self.blocks.tally().end(now, flush.came, Request::flush());
            }
            self.answer(unique, Err(Errno::EINTR));
        }
    }
}
