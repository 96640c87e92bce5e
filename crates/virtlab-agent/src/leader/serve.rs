//! The leader's loop: control streams, children, signals, series; nothing in it blocks for long.

use crate::clock;
use crate::leader::apply;
use crate::leader::birth::Born;
use crate::leader::child::{Child, Placement, Streams, Terminal};
use crate::leader::conduit::{Conduit, Conduits, Descriptor, Key};
use crate::leader::observe;
use crate::leader::peer::Peer;
use crate::leader::reach;
use crate::leader::request::Request;
use crate::leader::telemetry::Sampler;
use crate::leader::world::World;
use anyhow::{Context, anyhow, bail};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, SigmaskHow, Signal, sigprocmask};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::socket::{self, AddressFamily, Backlog, SockFlag, SockType, UnixAddr, sockopt};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::path::PathBuf;
use virtlab_wire::frame::{Frame, Kind};
use virtlab_wire::{Nanos, PROTOCOL};

/// Bytes waiting for one client beyond which its children are not read: they wait instead of filling memory.
const MOST_WAITING_BYTES: usize = 4 << 20;
/// How long the streams of an ended child are read to their end (a daemon may hold them open for ever).
const DRAIN: Nanos = Nanos(200_000_000);
/// Bytes of a command's output in one frame.
const OUTPUT_BYTES: usize = 32 << 10;

/// A kept world's door.
struct Door {
    listener: OwnedFd,
    path: PathBuf,
    idle: Nanos,
    empty_since: Nanos,
}

struct Ending {
    child: Child,
    since: Option<Nanos>,
    agent_open: bool,
    /// Started before the world was kept: part of it, whoever comes and goes (machines, routing daemons).
    of_world: bool,
}

/// The leader and everything it holds.
pub struct Leader {
    world: World,
    born: Born,
    executable: OwnedFd,
    clients: BTreeMap<u32, Peer>,
    next_client: u32,
    children: BTreeMap<Key, Ending>,
    /// Streams of commands beside their own three, by their first channel.
    conduits: Conduits,
    signals: SignalFd,
    door: Option<Door>,
    sampler: Sampler,
    sampling_client: u32,
    over: bool,
}

/// What a descriptor in the poll set belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    Lifeline,
    Signals,
    Door,
    Client(u32),
    Agent(Key),
    Conduit(Key),
    Output(Key),
    Input(Key),
    Errors(Key),
}

impl Leader {
    /// A leader of an empty world with one client.
    ///
    /// # Errors
    /// When /proc or signals are not usable.
    pub fn new(control: OwnedFd, born: Born, executable: OwnedFd) -> anyhow::Result<Self> {
        let mut mask = SigSet::empty();
        mask.add(Signal::SIGCHLD);
        sigprocmask(SigmaskHow::SIG_BLOCK, Some(&mask), None).context("cannot block SIGCHLD")?;
        // SAFETY: ignoring a signal installs no handler. A write to a closed stream shall be an error, not death.
        unsafe { nix::sys::signal::signal(Signal::SIGPIPE, nix::sys::signal::SigHandler::SigIgn) }
            .context("cannot ignore SIGPIPE")?;
        let signals = SignalFd::with_flags(&mask, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)
            .context("cannot make a signal descriptor")?;
        Ok(Self {
            world: World::new()?,
            born,
            executable,
            clients: BTreeMap::from([(0, Peer::new(control)?)]),
            next_client: 1,
            children: BTreeMap::new(),
            conduits: Conduits::default(),
            signals,
            door: None,
            sampler: Sampler::default(),
            sampling_client: 0,
            over: false,
        })
    }

    /// Serves until the world's end.
    ///
    /// # Errors
    /// When `poll` itself fails.
    pub fn serve(mut self) -> anyhow::Result<()> {
        while !self.over {
            let ready = self.wait()?;
            for (source, events) in ready {
                self.handle(source, events);
            }
            self.report_ends();
            self.sample();
            self.close_if_idle();
        }
        for peer in self.clients.values_mut() {
            peer.flush();
        }
        if let Some(door) = &self.door {
            let _ = std::fs::remove_file(&door.path);
        }
        Ok(())
    }

    fn wait(&mut self) -> anyhow::Result<Vec<(Source, PollFlags)>> {
        let mut sources = vec![Source::Lifeline, Source::Signals];
        let mut polled = vec![
            PollFd::new(self.born.lifeline.as_fd(), PollFlags::POLLIN),
            PollFd::new(self.signals.as_fd(), PollFlags::POLLIN),
        ];
        if let Some(door) = &self.door {
            sources.push(Source::Door);
            polled.push(PollFd::new(door.listener.as_fd(), PollFlags::POLLIN));
        }
        for (id, peer) in &self.clients {
            let mut events = PollFlags::POLLIN;
            events.set(PollFlags::POLLOUT, peer.waiting_bytes() > 0);
            sources.push(Source::Client(*id));
            polled.push(PollFd::new(peer.fd(), events));
        }
        for (key, entry) in &self.children {
            let full = self.clients.get(&key.0).is_some_and(|peer| peer.waiting_bytes() > MOST_WAITING_BYTES);
            match &entry.child.streams {
                Streams::Agent(peer) if entry.agent_open => {
                    let mut events = PollFlags::empty();
                    events.set(PollFlags::POLLIN, !full);
                    events.set(PollFlags::POLLOUT, peer.waiting_bytes() > 0);
                    sources.push(Source::Agent(*key));
                    polled.push(PollFd::new(peer.fd(), events));
                }
                Streams::Agent(_) => {}
                Streams::Command { input, output, waiting, .. } => {
                    if let (Some(fd), false) = (output, full) {
                        sources.push(Source::Output(*key));
                        polled.push(PollFd::new(fd.as_fd(), PollFlags::POLLIN));
                    }
                    if let (Some(fd), false) = (input, waiting.is_empty()) {
                        sources.push(Source::Input(*key));
                        polled.push(PollFd::new(fd.as_fd(), PollFlags::POLLOUT));
                    }
                }
            }
            if let (Some(fd), false) = (&entry.child.errors, full) {
                sources.push(Source::Errors(*key));
                polled.push(PollFd::new(fd.as_fd(), PollFlags::POLLIN));
            }
        }
        for (key, conduit) in self.conduits.open() {
            let full = self.clients.get(&key.0).is_some_and(|peer| peer.waiting_bytes() > MOST_WAITING_BYTES);
            let mut events = PollFlags::empty();
            events.set(PollFlags::POLLIN, !full);
            events.set(PollFlags::POLLOUT, conduit.waits());
            sources.push(Source::Conduit(*key));
            polled.push(PollFd::new(conduit.fd(), events));
        }
        let timeout = self.timeout();
        match poll(&mut polled, timeout) {
            Ok(_) => {}
            Err(Errno::EINTR) => return Ok(Vec::new()),
            Err(error) => return Err(error).context("cannot poll"),
        }
        let events = polled.iter().map(|fd| fd.revents().unwrap_or(PollFlags::empty()));
        Ok(sources.into_iter().zip(events).filter(|(_, events)| !events.is_empty()).collect())
    }

    /// Until a series is due, an ended child has had its time, or the door has been shut long enough.
    fn timeout(&self) -> PollTimeout {
        let now = clock::monotonic();
        let ends = self.children.values().filter_map(|entry| entry.since.map(|since| since + DRAIN));
        let idle =
            self.door.as_ref().filter(|_| self.clients.is_empty()).map(|door| door.empty_since + door.idle);
        ends.chain(self.sampler.due()).chain(idle).min().map_or(PollTimeout::NONE, |due| {
            let milliseconds = due.since(now).0.div_ceil(1_000_000);
            PollTimeout::from(u16::try_from(milliseconds).unwrap_or(u16::MAX))
        })
    }

    fn handle(&mut self, source: Source, events: PollFlags) {
        match source {
            Source::Lifeline => self.over = true,
            Source::Signals => self.reap(),
            Source::Door => self.open_door(),
            Source::Client(id) => self.hear_client(id, events),
            Source::Agent(key) => self.hear_agent(key, events),
            Source::Conduit(key) => self.hear_conduit(key, events),
            Source::Output(key) => self.hear_output(key),
            Source::Input(key) => {
                if let Some(entry) = self.children.get_mut(&key) {
                    entry.child.flush_input();
                }
            }
            Source::Errors(key) => self.hear_errors(key),
        }
    }

    fn hear_client(&mut self, id: u32, events: PollFlags) {
        let Some(peer) = self.clients.get_mut(&id) else { return };
        let mut open = true;
        if events.contains(PollFlags::POLLOUT) {
            open &= peer.flush();
        }
        if events.intersects(PollFlags::POLLIN | PollFlags::POLLHUP | PollFlags::POLLERR) {
            open &= peer.fill();
        }
        while let Some(frame) = self.clients.get_mut(&id).and_then(Peer::next_frame) {
            if frame.channel == 0 {
                self.request(id, &frame);
            } else {
                self.pass_down((id, frame.channel), frame);
            }
        }
        if !open {
            self.lose_client(id);
        }
    }

    /// An attached world ends with its stream; of a kept world only what the client had started as commands.
    fn lose_client(&mut self, id: u32) {
        self.clients.remove(&id);
        if self.door.is_none() {
            self.over = true;
            return;
        }
        for (key, entry) in &self.children {
            if key.0 == id && !entry.of_world && matches!(entry.child.streams, Streams::Command { .. }) {
                let _ = entry.child.signal(libc::SIGHUP);
                let _ = entry.child.signal(libc::SIGKILL);
            }
        }
        if let Some(door) = &mut self.door {
            door.empty_since = clock::monotonic();
        }
    }

    fn pass_down(&mut self, key: Key, frame: Frame) {
        let Some(entry) = self.children.get_mut(&key) else {
            return self.conduits.pass_down(key, &frame, |client| self.clients.contains_key(&client));
        };
        match &mut entry.child.streams {
            Streams::Agent(peer) => peer.send(0, frame.kind, &frame.body),
            Streams::Command { .. } if frame.kind == Kind::Data => {
                if let Some((0, bytes)) = frame.body.split_first() {
                    entry.child.give_input(bytes);
                }
            }
            Streams::Command { .. } => {}
        }
    }

    fn hear_agent(&mut self, key: Key, events: PollFlags) {
        let Some(entry) = self.children.get_mut(&key) else { return };
        let Streams::Agent(peer) = &mut entry.child.streams else { return };
        if events.contains(PollFlags::POLLOUT) {
            peer.flush();
        }
        if events.intersects(PollFlags::POLLIN | PollFlags::POLLHUP | PollFlags::POLLERR) {
            entry.agent_open = peer.fill();
        }
        while let Some(frame) = peer.next_frame() {
            if let Some(client) = self.clients.get_mut(&key.0) {
                client.send(key.1, frame.kind, &frame.body);
            }
        }
    }

    fn hear_conduit(&mut self, key: Key, events: PollFlags) {
        for frame in self.conduits.hear(key, events) {
            if let Some(client) = self.clients.get_mut(&key.0) {
                client.send(frame.channel, frame.kind, &frame.body);
            }
        }
    }

    fn hear_output(&mut self, key: Key) {
        let Some(entry) = self.children.get_mut(&key) else { return };
        let Streams::Command { output, .. } = &mut entry.child.streams else { return };
        if let Some(bytes) = read_some(output) {
            self.data(key, 1, &bytes);
        }
    }

    fn hear_errors(&mut self, key: Key) {
        let Some(entry) = self.children.get_mut(&key) else { return };
        if let Some(bytes) = read_some(&mut entry.child.errors) {
            entry.child.remember_errors(&bytes);
            if matches!(entry.child.streams, Streams::Command { .. }) {
                self.data(key, 2, &bytes);
            }
        }
    }

    fn data(&mut self, key: Key, stream: u8, bytes: &[u8]) {
        if let Some(client) = self.clients.get_mut(&key.0) {
            let mut body = Vec::with_capacity(bytes.len() + 1);
            body.push(stream);
            body.extend_from_slice(bytes);
            client.send(key.1, Kind::Data, &body);
        }
    }

    /// Collects every ended process of the world; PID 1 inherits orphans.
    fn reap(&mut self) {
        while matches!(self.signals.read_signal(), Ok(Some(_))) {}
        loop {
            let (pid, code, signal) = match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
                Ok(WaitStatus::Exited(pid, code)) => (pid, Some(code), None),
                Ok(WaitStatus::Signaled(pid, signal, _)) => (pid, None, Some(signal as i32)),
                Ok(WaitStatus::StillAlive) | Err(_) => return,
                Ok(_) => continue,
            };
            if let Some(entry) = self.children.values_mut().find(|entry| entry.child.pid == pid) {
                entry.child.ended = Some((code, signal));
                entry.since = Some(clock::monotonic());
            }
        }
    }

    fn report_ends(&mut self) {
        let now = clock::monotonic();
        let over: Vec<Key> = self
            .children
            .iter()
            .filter(|(_, entry)| {
                let agent_done = !matches!(entry.child.streams, Streams::Agent(_)) || !entry.agent_open;
                entry
                    .since
                    .is_some_and(|since| (entry.child.drained() && agent_done) || now.since(since) >= DRAIN)
            })
            .map(|(key, _)| *key)
            .collect();
        for key in over {
            let Some(entry) = self.children.remove(&key) else { continue };
            let (code, signal) = entry.child.ended.unwrap_or((None, None));
            let tail = entry.child.tail();
            let passed_on = self.conduits.end(key, |client| self.clients.contains_key(&client));
            for ((client, first), channels) in passed_on {
                if let Some(client) = self.clients.get_mut(&client) {
                    client.message(&json!({
                        "event": "exited", "channel": first, "channels": channels, "code": code, "signal": signal,
                        "tail": tail,
                    }));
                }
            }
            if let Some(client) = self.clients.get_mut(&key.0) {
                client.message(&json!({
                    "event": "exited", "channel": key.1, "code": code, "signal": signal, "tail": tail,
                }));
            }
        }
    }

    fn sample(&mut self) {
        let children = self.children.values().map(|entry| (&entry.child.namespace[..], entry.child.pid));
        let blocks = self.sampler.take_due(clock::monotonic(), &mut self.world, children);
        if let Some(client) = self.clients.get_mut(&self.sampling_client) {
            for block in blocks {
                client.send(0, Kind::Block, &block);
            }
        }
    }

    fn close_if_idle(&mut self) {
        if let Some(door) = &self.door {
            let idle = clock::monotonic().since(door.empty_since) >= door.idle;
            self.over |= idle && self.clients.is_empty();
        }
    }

    /// Lets a client in when it is of the same user.
    fn open_door(&mut self) {
        let Some(door) = &self.door else { return };
        let Ok(fd) = socket::accept4(door.listener.as_raw_fd(), SockFlag::SOCK_CLOEXEC) else { return };
        // SAFETY: accept just made this descriptor for us.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        let same = socket::getsockopt(&fd, sockopt::PeerCredentials)
            .is_ok_and(|credentials| credentials.uid() == unistd::getuid().as_raw());
        if same && let Ok(peer) = Peer::new(fd) {
            self.clients.insert(self.next_client, peer);
            self.next_client += 1;
        }
    }

    fn request(&mut self, id: u32, frame: &Frame) {
        if frame.kind != Kind::Control {
            return;
        }
        let (number, outcome) = match serde_json::from_slice::<Value>(&frame.body) {
            Ok(Value::Object(mut fields)) => {
                let number = fields.remove("id").unwrap_or(Value::Null);
                let silent = fields.get("do").is_some_and(|kind| kind == "ack");
                let outcome = serde_json::from_value::<Request>(Value::Object(fields))
                    .map_err(|error| json!({"what": format!("not a request of this agent: {error}")}))
                    .and_then(|request| self.answer(id, request));
                if silent && outcome.is_ok() {
                    return;
                }
                (number, outcome)
            }
            _ => (Value::Null, Err(json!({"what": "a control frame holds one JSON object"}))),
        };
        let message = match outcome {
            Ok(ok) => json!({"re": number, "ok": ok}),
            Err(error) => json!({"re": number, "error": error}),
        };
        if let Some(client) = self.clients.get_mut(&id) {
            let text = message.to_string();
            if text.len() > virtlab_wire::frame::MAXIMUM_BODY_BYTES {
                let what =
                    format!("the answer has {} bytes, more than a frame holds; ask for less", text.len());
                client.message(&json!({"re": number, "error": {"what": what}}));
            } else {
                client.send(0, Kind::Control, text.as_bytes());
            }
        }
    }

    fn answer(&mut self, id: u32, request: Request) -> Result<Value, Value> {
        if let Request::Apply { batch } = &request {
            return match apply::apply(&mut self.world, batch) {
                Ok(()) => Ok(json!({"applied": batch.len()})),
                Err(failure) => {
                    Err(json!({"what": failure.what, "index": failure.index, "kernel": failure.kernel}))
                }
            };
        }
        let outcome = self.perform(id, request);
        let home = self.world.go_home();
        outcome.and_then(|value| home.map(|()| value)).map_err(|error| json!({"what": format!("{error:#}")}))
    }

    fn perform(&mut self, id: u32, request: Request) -> anyhow::Result<Value> {
        match request {
            Request::Hello { protocol } => self.hello(protocol),
            Request::Clock {} => Ok(clocks()),
            Request::Bye {} => {
                self.over = true;
                Ok(json!({}))
            }
            Request::Ack { .. } | Request::Apply { .. } => Ok(json!({})),
            Request::Observe { namespaces } => observe::observe(&mut self.world, &namespaces),
            Request::Ping { pairs, deadline_ns } => {
                let answers = reach::ping(&mut self.world, &pairs, Nanos(deadline_ns))?;
                Ok(json!({"answers": answers}))
            }
            Request::TryQdiscs { kinds } => observe::try_qdiscs(&mut self.world, &kinds),
            Request::Spawn { channel, role, namespace, cpus, fifo_priority, cgroups } => {
                if !["probe", "switch"].contains(&role.as_str()) {
                    bail!("'{role}' is no role of an agent in a world");
                }
                self.free(id, channel)?;
                let placement = Placement { namespace, cpus, fifo_priority, cgroups };
                let child = Child::agent(&mut self.world, &self.executable, &role, &placement)?;
                Ok(self.adopt(id, channel, child))
            }
            Request::Exec { channel, namespace, argv, environment, terminal, cpus, cgroups, descriptors } => {
                self.free(id, channel)?;
                let placement = Placement { namespace, cpus, fifo_priority: None, cgroups };
                let (conduits, theirs) = self.make_conduits((id, channel), &descriptors)?;
                let child =
                    Child::command(&mut self.world, &argv, &environment, terminal, &placement, &theirs)?;
                self.conduits.add(conduits);
                Ok(self.adopt(id, channel, child))
            }
            Request::Resize { channel, rows, columns } => {
                self.child(id, channel)?.resize(Terminal { rows, columns })?;
                Ok(json!({}))
            }
            Request::Kill { channel, signal } => {
                self.child(id, channel)?.signal(signal)?;
                Ok(json!({}))
            }
            Request::Sample { sources } => {
                self.sampling_client = id;
                self.sampler.begin(&sources, clock::monotonic())?;
                Ok(json!({}))
            }
            Request::Counters { groups } => {
                let children = self.children.values();
                let children: Vec<_> =
                    children.map(|entry| (entry.child.namespace.clone(), entry.child.pid)).collect();
                let rows = self.sampler.counters(&mut self.world, &groups, &children)?;
                Ok(json!({"t_ns": clock::raw(), "rows": rows}))
            }
            Request::Keep { socket, idle_ns } => self.keep(socket.into(), Nanos(idle_ns)),
        }
    }

    fn hello(&self, protocol: (u16, u16)) -> anyhow::Result<Value> {
        if protocol.0 != PROTOCOL.0 {
            bail!(
                "this agent speaks protocol {}.{}, not {}.{}; install virtlab and its agent of one version",
                PROTOCOL.0,
                PROTOCOL.1,
                protocol.0,
                protocol.1
            );
        }
        let boot_id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let mut capabilities =
            vec!["apply", "observe", "ping", "spawn", "exec", "descriptors", "sample", "counters", "keep"];
        if !self.born.rootless {
            capabilities.push("root");
        }
        if self.born.own_proc {
            capabilities.push("own_proc");
        }
        Ok(json!({
            "protocol": PROTOCOL, "build": env!("CARGO_PKG_VERSION"), "role": "leader",
            "capabilities": capabilities, "boot_id": boot_id.trim(), "clocks": clocks(),
        }))
    }

    /// Conduits of a command that is about to run, and the descriptors that it is born with.
    fn make_conduits(&mut self, of: Key, wanted: &[Descriptor]) -> anyhow::Result<(Conduits, Vec<OwnedFd>)> {
        let mut made = Conduits::default();
        let mut theirs = Vec::new();
        for descriptor in wanted {
            if let Descriptor::Tap { namespace, link } = descriptor {
                theirs.push(self.world.tap(namespace, link)?);
            } else if let Some((first, conduit, end)) = Conduit::new(descriptor, of.1)? {
                conduit.range(first).try_for_each(|channel| self.free(of.0, channel))?;
                made.insert((of.0, first), conduit)?;
                theirs.push(end);
            }
        }
        Ok((made, theirs))
    }

    fn free(&self, id: u32, channel: u16) -> anyhow::Result<()> {
        let taken = self.conduits.hold((id, channel)) || self.children.contains_key(&(id, channel));
        if channel == 0 || taken {
            bail!("channel {channel} is taken");
        }
        Ok(())
    }

    fn adopt(&mut self, id: u32, channel: u16, child: Child) -> Value {
        let pid = child.pid.as_raw();
        self.children.insert((id, channel), Ending { child, since: None, agent_open: true, of_world: false });
        json!({"pid": pid})
    }

    fn child(&self, id: u32, channel: u16) -> anyhow::Result<&Child> {
        let entry = self.children.get(&(id, channel));
        entry.map(|entry| &entry.child).ok_or_else(|| anyhow!("nothing runs on channel {channel}"))
    }

    /// Opens the door of a kept world: a private socket that only its owner can reach.
    fn keep(&mut self, path: PathBuf, idle: Nanos) -> anyhow::Result<Value> {
        if self.door.is_some() {
            bail!("the world is kept already");
        }
        let listener = socket::socket(
            AddressFamily::Unix,
            SockType::Stream,
            SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK,
            None,
        )
        .context("cannot make a unix socket")?;
        let address = UnixAddr::new(&path).context("the socket's path is too long")?;
        let mask = nix::sys::stat::umask(nix::sys::stat::Mode::from_bits_truncate(0o177));
        let bound = socket::bind(listener.as_raw_fd(), &address);
        nix::sys::stat::umask(mask);
        bound.with_context(|| format!("cannot listen at {}", path.display()))?;
        socket::listen(&listener, Backlog::new(8)?).context("cannot listen")?;
        self.children.values_mut().for_each(|entry| entry.of_world = true);
        self.door = Some(Door { listener, path, idle, empty_since: clock::monotonic() });
        Ok(json!({}))
    }
}

fn clocks() -> Value {
    let paired = clock::pair();
    json!({"raw_ns": paired.raw, "realtime_ns": paired.realtime, "bound_ns": paired.bound})
}

/// Reads what is there; closes the descriptor at its end. A terminal whose last process left reads EIO.
fn read_some(slot: &mut Option<OwnedFd>) -> Option<Vec<u8>> {
    let mut chunk = vec![0; OUTPUT_BYTES];
    match unistd::read(slot.as_ref()?, &mut chunk) {
        Ok(0) => *slot = None,
        Ok(n) => {
            chunk.truncate(n);
            return Some(chunk);
        }
        Err(Errno::EINTR | Errno::EAGAIN) => {}
        Err(_) => *slot = None,
    }
    None
}
