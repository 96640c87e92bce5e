//! The leader's loop: control streams, children, signals, series; nothing in it blocks for long.

use crate::birth::Born;
use crate::machine::telemetry::Sampler;
use crate::processes::child::{Child, Streams};
use crate::program::Program;
use crate::streams::conduit::{Conduits, Key};
use crate::streams::door::Door;
use crate::streams::peer::Peer;
use crate::world::namespaces::World;
use anyhow::Context;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, SigmaskHow, Signal, sigprocmask};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{self, Pid};
use serde_json::json;
use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use virtlab_system::clock;
use virtlab_wire::Nanos;
use virtlab_wire::frame::{Frame, Kind};

/// Bytes waiting for one client beyond which its children are not read: they wait instead of filling memory.
const MOST_WAITING_BYTES: usize = 4 << 20;
/// Of those, beyond which no output of a command is read: what a command writes without end must not be in front of
/// the answers of agents.
const MOST_OUTPUT_BYTES: usize = 128 << 10;
const NOISE: &str = "it sent more than belongs to any frame";
/// How long the streams of an ended child are read to their end (a daemon may hold them open for ever).
const DRAIN: Nanos = Nanos(200_000_000);
/// The same where it is the client that does not take them.
const LONGEST_DRAIN: Nanos = Nanos(5_000_000_000);
/// Bytes of a command's output in one frame.
const OUTPUT_BYTES: usize = 32 << 10;

/// A child, and how far it has ended.
pub(super) struct Ending {
    pub(super) child: Child,
    pub(super) since: Option<Nanos>,
    /// Since when somebody's signal keeps it stopped.
    pub(super) stopped: Option<Nanos>,
    pub(super) agent_open: bool,
    /// Started before the world was kept: part of it, whichever clients come and go (machines, routing daemons).
    pub(super) of_world: bool,
}

/// The leader and everything it holds.
pub struct Leader {
    pub(super) world: World,
    pub(super) born: Born,
    pub(super) program: Program,
    pub(super) clients: BTreeMap<u32, Peer>,
    next_client: u32,
    pub(super) children: BTreeMap<Key, Ending>,
    /// Streams of commands beside their own three, by their first channel.
    pub(super) conduits: Conduits,
    signals: SignalFd,
    pub(super) door: Option<Door>,
    pub(super) sampler: Sampler,
    pub(super) sampling_client: u32,
    pub(super) over: bool,
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
    pub fn new(control: OwnedFd, born: Born, program: Program) -> anyhow::Result<Self> {
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
            program,
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
            polled.push(PollFd::new(door.fd(), PollFlags::POLLIN));
        }
        for (id, peer) in &self.clients {
            let mut events = PollFlags::POLLIN;
            events.set(PollFlags::POLLOUT, peer.waiting_bytes() > 0);
            sources.push(Source::Client(*id));
            polled.push(PollFd::new(peer.fd(), events));
        }
        for (key, entry) in &self.children {
            let full = self.waiting_bytes(key.0) > MOST_WAITING_BYTES;
            let crowded = self.waiting_bytes(key.0) > MOST_OUTPUT_BYTES;
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
                    if let (Some(fd), false) = (output, crowded) {
                        sources.push(Source::Output(*key));
                        polled.push(PollFd::new(fd.as_fd(), PollFlags::POLLIN));
                    }
                    if let (Some(fd), false) = (input, waiting.is_empty()) {
                        sources.push(Source::Input(*key));
                        polled.push(PollFd::new(fd.as_fd(), PollFlags::POLLOUT));
                    }
                }
            }
            if let (Some(fd), false) = (&entry.child.errors, crowded) {
                sources.push(Source::Errors(*key));
                polled.push(PollFd::new(fd.as_fd(), PollFlags::POLLIN));
            }
        }
        for (key, conduit) in self.conduits.open() {
            let full = self.waiting_bytes(key.0) > MOST_WAITING_BYTES;
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

    /// What a client has not taken yet.
    fn waiting_bytes(&self, client: u32) -> usize {
        self.clients.get(&client).map_or(0, Peer::waiting_bytes)
    }

    /// How long the streams of an ended child of a client are read on.
    fn drain(&self, client: u32) -> Nanos {
        if self.waiting_bytes(client) > MOST_OUTPUT_BYTES { LONGEST_DRAIN } else { DRAIN }
    }

    /// Until a series is due, an ended child has had its time, or the door has been shut long enough.
    fn timeout(&self) -> PollTimeout {
        let now = clock::monotonic();
        let ends = self
            .children
            .iter()
            .filter_map(|(key, entry)| entry.since.map(|since| since + self.drain(key.0)));
        let idle = self.door.as_ref().filter(|_| self.clients.is_empty()).map(Door::due);
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
            door.left();
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
        if peer.noisy() {
            entry.agent_open = false;
            entry.child.remember_errors(NOISE.as_bytes());
            let _ = entry.child.signal(libc::SIGKILL);
        }
    }

    pub(super) fn hear_conduit(&mut self, key: Key, events: PollFlags) {
        for frame in self.conduits.hear(key, events) {
            if let Some(client) = self.clients.get_mut(&key.0) {
                client.send(frame.channel, frame.kind, &frame.body);
            }
        }
        if let Some(channels) = self.conduits.silence(key) {
            self.tell_end(key, channels, (None, None), NOISE);
        }
    }

    /// Tells the client that what had so many channels ended, by code or signal, with the end of its errors.
    fn tell_end(
        &mut self,
        (client, first): Key,
        channels: u16,
        (code, signal): (Option<i32>, Option<i32>),
        tail: &str,
    ) {
        if let Some(client) = self.clients.get_mut(&client) {
            client.message(&json!({
                "event": "exited", "channel": first, "channels": channels, "code": code, "signal": signal,
                "tail": tail,
            }));
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
            let flags = WaitPidFlag::WNOHANG | WaitPidFlag::WUNTRACED | WaitPidFlag::WCONTINUED;
            let (pid, code, signal) = match waitpid(None, Some(flags)) {
                Ok(WaitStatus::Exited(pid, code)) => (pid, Some(code), None),
                Ok(WaitStatus::Signaled(pid, signal, _)) => (pid, None, Some(signal as i32)),
                Ok(WaitStatus::StillAlive) | Err(_) => return,
                Ok(WaitStatus::Stopped(pid, _)) => {
                    self.note_stop(pid);
                    continue;
                }
                Ok(WaitStatus::Continued(pid)) => {
                    self.report_stop(pid);
                    continue;
                }
                Ok(_) => continue,
            };
            if let Some(entry) = self.children.values_mut().find(|entry| entry.child.pid == pid) {
                entry.child.ended = Some((code, signal));
                entry.since = Some(clock::monotonic());
            }
        }
    }

    /// Tells the starter of a child at once that it stands still: it may do so until no client asks any more.
    fn note_stop(&mut self, pid: Pid) {
        let Some((key, entry)) = self.children.iter_mut().find(|(_, entry)| entry.child.pid == pid) else {
            return;
        };
        let (key, since) = (*key, *entry.stopped.get_or_insert_with(clock::raw));
        if let Some(client) = self.clients.get_mut(&key.0) {
            client.message(&json!({"event": "stopped", "channel": key.1, "t_ns": since.0}));
        }
    }

    /// Tells its starter how long a child stood still; not if it ran again before it was seen to be stopped.
    fn report_stop(&mut self, pid: Pid) {
        let Some((key, entry)) = self.children.iter_mut().find(|(_, entry)| entry.child.pid == pid) else {
            return;
        };
        let (key, Some(since)) = (*key, entry.stopped.take()) else { return };
        if let Some(client) = self.clients.get_mut(&key.0) {
            let for_ns = clock::raw().since(since).0;
            client.message(
                &json!({"event": "stood_still", "channel": key.1, "t_ns": since.0, "for_ns": for_ns}),
            );
        }
    }

    fn report_ends(&mut self) {
        let now = clock::monotonic();
        let over: Vec<Key> = self
            .children
            .iter()
            .filter(|(key, entry)| {
                let agent_done = !matches!(entry.child.streams, Streams::Agent(_)) || !entry.agent_open;
                entry.since.is_some_and(|since| {
                    (entry.child.drained() && agent_done) || now.since(since) >= self.drain(key.0)
                })
            })
            .map(|(key, _)| *key)
            .collect();
        for key in over {
            let Some(entry) = self.children.remove(&key) else { continue };
            let (code, signal) = entry.child.ended.unwrap_or((None, None));
            let tail = entry.child.tail();
            if let Some(client) = self.clients.get_mut(&key.0) {
                client.message(&json!({
                    "event": "exited", "channel": key.1, "code": code, "signal": signal, "tail": tail,
                }));
            }
            // What was reached through it comes after it: a reader of both knows the cause by then.
            let passed_on = self.conduits.end(key, |client| self.clients.contains_key(&client));
            for (place, channels) in passed_on {
                self.tell_end(place, channels, (code, signal), &tail);
            }
        }
    }

    fn sample(&mut self) {
        let children = self.children.values().map(|entry| &entry.child);
        let blocks =
            self.sampler.take_due(clock::monotonic(), &mut self.world, children, &self.conduits.disks);
        self.send_samples(&blocks);
    }

    pub(super) fn send_samples(&mut self, blocks: &[Vec<u8>]) {
        if let Some(client) = self.clients.get_mut(&self.sampling_client) {
            for block in blocks {
                client.send(0, Kind::Block, block);
            }
        }
    }

    fn close_if_idle(&mut self) {
        if let Some(door) = &self.door {
            self.over |= self.clients.is_empty() && clock::monotonic() >= door.due();
        }
    }

    /// Lets a client in when it is of the same user.
    fn open_door(&mut self) {
        let admitted = self.door.as_ref().and_then(Door::admit);
        if let Some(Ok(peer)) = admitted.map(Peer::new) {
            self.clients.insert(self.next_client, peer);
            self.next_client += 1;
        }
    }
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
