//! Streams of a command beside its own three: an agent behind it (in a virtual machine, reached through its serial
//! port), or bytes of a monitor. Each is one end of a socket pair whose other end the command was born with.
//!
//! An agent behind a command may have children of its own, so it owns a range of channels: what the control plane sends
//! on `first + n` reaches it as a frame of channel `n`, and the other way round.

use crate::disk::Served;
use crate::streams::peer::{Peer, set_nonblocking};
use anyhow::Context;
use nix::errno::Errno;
use nix::poll::PollFlags;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socketpair};
use nix::unistd;
use serde::Deserialize;
use serde_json::Value;
use std::collections::{BTreeMap, VecDeque};
use std::ops::RangeInclusive;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use virtlab_wire::frame::{Frame, Kind};

/// Bytes of a monitor in one frame.
const CHUNK_BYTES: usize = 32 << 10;

/// A client, and one of its channels.
pub type Key = (u32, u16);

/// A descriptor that a command is born with, in their order from 3 on.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Descriptor {
    /// A tap made by `apply`.
    Tap { namespace: String, link: String },
    /// The user namespace that a network belongs to.
    Users { namespace: String },
    /// The byte stream of an agent that has channels `channel` to `channel + channels - 1`.
    Agent { channel: u16, channels: u16 },
    /// A byte stream; its bytes travel as data frames on `channel`.
    Stream { channel: u16 },
    /// A disk, over NBD, by words of its own.
    Disk { disk: Value },
    /// The stream on which the agent of another command, whose first channel that is, continues from `hand_over` on: of
    /// a virtual machine that moves.
    Heir { channel: u16 },
}

/// What flows.
#[derive(Debug)]
enum Flow {
    Frames(Peer),
    Bytes { fd: OwnedFd, waiting: VecDeque<u8> },
}

/// This side of one stream.
#[derive(Debug)]
pub struct Conduit {
    /// The channel of the command that has the other end.
    pub of: u16,
    /// How many channels it takes.
    pub channels: u16,
    flow: Flow,
    /// False once the other side is gone.
    pub open: bool,
    /// Who said so much that is no frame that it is ignored.
    pub noisy: bool,
    /// What is for it waits here.
    held: bool,
}

/// A stream that waits to become that of an agent.
#[derive(Debug)]
struct Heir {
    /// The channel of the command that has the other end.
    of: u16,
    fd: OwnedFd,
}

impl Conduit {
    /// A stream for the command of channel `of`, and the end that the command gets; none for what is no stream.
    ///
    /// # Errors
    /// When no socket pair can be made, or the range of channels is empty or ends beyond the last one.
    pub fn new(descriptor: &Descriptor, of: u16) -> anyhow::Result<Option<(u16, Self, OwnedFd)>> {
        let (channel, channels, frames) = match descriptor {
            Descriptor::Tap { .. }
            | Descriptor::Users { .. }
            | Descriptor::Disk { .. }
            | Descriptor::Heir { .. } => {
                return Ok(None);
            }
            Descriptor::Agent { channel, channels } => (*channel, *channels, true),
            Descriptor::Stream { channel } => (*channel, 1, false),
        };
        anyhow::ensure!(
            channel > 0 && channels > 0 && channel.checked_add(channels - 1).is_some(),
            "{channels} channels from {channel} on are no channels"
        );
        let (ours, theirs) = socketpair(AddressFamily::Unix, SockType::Stream, None, SockFlag::SOCK_CLOEXEC)
            .context("no socket pair")?;
        let flow = if frames {
            Flow::Frames(Peer::new(ours)?)
        } else {
            set_nonblocking(ours.as_fd())?;
            Flow::Bytes { fd: ours, waiting: VecDeque::new() }
        };
        Ok(Some((channel, Self { of, channels, flow, open: true, noisy: false, held: false }, theirs)))
    }

    /// Its channels, when it begins at `first`.
    pub fn range(&self, first: u16) -> RangeInclusive<u16> {
        first..=first + (self.channels - 1)
    }

    /// The descriptor to poll.
    pub fn fd(&self) -> BorrowedFd<'_> {
        match &self.flow {
            Flow::Frames(peer) => peer.fd(),
            Flow::Bytes { fd, .. } => fd.as_fd(),
        }
    }

    /// Whether something waits to be written, and may be.
    pub fn waits(&self) -> bool {
        !self.held
            && match &self.flow {
                Flow::Frames(peer) => peer.waiting_bytes() > 0,
                Flow::Bytes { waiting, .. } => !waiting.is_empty(),
            }
    }

    /// Passes a frame of the control plane on; `channel` counts from the first of the range.
    pub fn pass_down(&mut self, channel: u16, frame: &Frame) {
        match &mut self.flow {
            Flow::Frames(peer) => peer.queue(channel, frame.kind, &frame.body),
            Flow::Bytes { waiting, .. } => {
                if let (Kind::Data, Some((0, bytes))) = (frame.kind, frame.body.split_first()) {
                    waiting.extend(bytes);
                }
            }
        }
        self.flush();
    }

    /// Writes what the other side takes now.
    pub fn flush(&mut self) {
        if self.held {
            return;
        }
        match &mut self.flow {
            Flow::Frames(peer) => self.open &= peer.flush(),
            Flow::Bytes { fd, waiting } => {
                while !waiting.is_empty() {
                    let (front, _) = waiting.as_slices();
                    match unistd::write(&*fd, front) {
                        Ok(n) => drop(waiting.drain(..n)),
                        Err(Errno::EINTR) => {}
                        Err(Errno::EAGAIN) => return,
                        Err(_) => {
                            waiting.clear();
                            self.open = false;
                        }
                    }
                }
            }
        }
    }

    /// Reads what is there, as frames for the control plane whose channels count from the first of the range.
    pub fn hear(&mut self) -> Vec<Frame> {
        match &mut self.flow {
            Flow::Frames(peer) => {
                self.open &= peer.fill();
                let heard = std::iter::from_fn(|| peer.next_frame())
                    .filter(|frame| frame.channel < self.channels)
                    .collect();
                self.noisy = peer.noisy();
                self.open &= !self.noisy;
                heard
            }
            Flow::Bytes { fd, .. } => {
                let mut body = vec![0; CHUNK_BYTES + 1];
                match unistd::read(&*fd, &mut body[1..]) {
                    Ok(n) if n > 0 => {
                        body.truncate(n + 1);
                        body[0] = 1;
                        vec![Frame { channel: 0, kind: Kind::Data, body }]
                    }
                    Err(Errno::EINTR | Errno::EAGAIN) => Vec::new(),
                    Ok(_) | Err(_) => {
                        self.open = false;
                        Vec::new()
                    }
                }
            }
        }
    }
}

/// All conduits of a leader, by client and first channel.
#[derive(Debug, Default)]
pub struct Conduits {
    all: BTreeMap<Key, Conduit>,
    /// What serves a disk of a command.
    pub disks: Vec<Served>,
    /// Of an agent, by its first channel.
    heirs: BTreeMap<Key, Heir>,
}

impl Conduits {
    /// Those whose other side is there, to poll them.
    pub fn open(&self) -> impl Iterator<Item = (&Key, &Conduit)> {
        self.all.iter().filter(|(_, conduit)| conduit.open)
    }

    /// Whether a channel is one of theirs.
    pub fn hold(&self, (id, channel): Key) -> bool {
        self.all
            .iter()
            .any(|((client, first), conduit)| *client == id && conduit.range(*first).contains(&channel))
    }

    /// One more.
    ///
    /// # Errors
    /// When another one has a channel of its range.
    pub fn insert(&mut self, key: Key, conduit: Conduit) -> anyhow::Result<()> {
        for channel in conduit.range(key.1) {
            anyhow::ensure!(
                channel != conduit.of && !self.hold((key.0, channel)),
                "channel {channel} is taken"
            );
        }
        self.all.insert(key, conduit);
        Ok(())
    }

    /// Takes over those of a command that runs now.
    pub fn add(&mut self, more: Self) {
        self.all.extend(more.all);
        self.disks.retain(Served::lives);
        self.disks.extend(more.disks);
        self.heirs.extend(more.heirs);
    }

    /// The end that a command gets of the stream on which the agent at `key` will continue.
    ///
    /// # Errors
    /// When no socket pair can be made.
    pub fn heir(&mut self, key: Key, of: u16) -> anyhow::Result<OwnedFd> {
        let (ours, theirs) = socketpair(AddressFamily::Unix, SockType::Stream, None, SockFlag::SOCK_CLOEXEC)
            .context("no socket pair")?;
        self.heirs.insert(key, Heir { of, fd: ours });
        Ok(theirs)
    }

    /// Keeps what is for an agent here, or writes it again; whether something that was written was not read yet.
    ///
    /// # Errors
    /// When no agent begins at that channel.
    pub fn hold_back(&mut self, key: Key, held: bool) -> anyhow::Result<bool> {
        let conduit = self.all.get_mut(&key).context("no agent begins there")?;
        conduit.held = held;
        conduit.flush();
        unread(conduit.fd())
    }

    /// The agent at `key` continues on its heir's stream. What it said on the one before comes first, and what is for
    /// it goes to the new one alone. Nothing reads what was left in the old one, so it is held back before.
    ///
    /// # Errors
    /// When no stream waits for that, or the agent had not read all that was written to it.
    pub fn take_over(&mut self, key: Key) -> anyhow::Result<()> {
        let conduit = self.all.get_mut(&key).context("no agent begins there")?;
        anyhow::ensure!(conduit.held && !unread(conduit.fd())?, "it is not held back, or has not read all");
        let heir = self.heirs.remove(&key).context("it has no heir")?;
        let Flow::Frames(peer) = &mut conduit.flow else { anyhow::bail!("no agent begins there") };
        peer.succeed(heir.fd)?;
        (conduit.of, conduit.open, conduit.held) = (heir.of, true, false);
        Served::take_over(&mut self.disks, heir.of);
        conduit.flush();
        Ok(())
    }

    /// Passes a frame on. A conduit whose client left belongs to the next that connects: so are a kept world's
    /// machines.
    pub fn pass_down(&mut self, (id, channel): Key, frame: &Frame, lives: impl Fn(u32) -> bool) {
        let at = self.all.iter().find(|((client, first), conduit)| {
            conduit.range(*first).contains(&channel) && (*client == id || !lives(*client))
        });
        let Some(key) = at.map(|(key, _)| *key) else { return };
        if let Some(mut conduit) = self.all.remove(&key) {
            conduit.pass_down(channel - key.1, frame);
            self.all.insert((id, key.1), conduit);
        }
    }

    /// What came through one, as frames for its client.
    pub fn hear(&mut self, key: Key, events: PollFlags) -> Vec<Frame> {
        let Some(conduit) = self.all.get_mut(&key) else { return Vec::new() };
        if events.contains(PollFlags::POLLOUT) {
            conduit.flush();
        }
        if !events.intersects(PollFlags::POLLIN | PollFlags::POLLHUP | PollFlags::POLLERR) {
            return Vec::new();
        }
        let heard = conduit.hear().into_iter();
        heard.map(|frame| Frame { channel: key.1 + frame.channel, ..frame }).collect()
    }

    /// How many channels a conduit had that turned out to be noise, once; it is closed.
    pub fn silence(&mut self, key: Key) -> Option<u16> {
        self.all.get(&key).filter(|conduit| conduit.noisy)?;
        self.all.remove(&key).map(|conduit| conduit.channels)
    }

    /// Closes those of a command that ended; their places, and how many channels each had.
    pub fn end(&mut self, (id, of): Key, lives: impl Fn(u32) -> bool) -> Vec<(Key, u16)> {
        let mut over = Vec::new();
        self.heirs.retain(|key, heir| heir.of != of || (key.0 != id && lives(id)));
        self.all.retain(|key, conduit| {
            let its = conduit.of == of && (key.0 == id || !lives(id));
            if its {
                over.push((*key, conduit.channels));
            }
            !its
        });
        over
    }
}

/// Whether the other side of a socket pair has not read all that was written to it.
fn unread(fd: BorrowedFd<'_>) -> anyhow::Result<bool> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: TIOCOUTQ (SIOCOUTQ of a socket) writes one int, which lives during the call.
    let code = unsafe { libc::ioctl(fd.as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
    Errno::result(code).context("cannot ask what was not read")?;
    Ok(bytes > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use virtlab_wire::frame::{Decoder, encode};

    #[test]
    fn an_agent_behind_a_command_counts_its_channels_from_its_first() {
        let (first, mut conduit, theirs) =
            Conduit::new(&Descriptor::Agent { channel: 40, channels: 4 }, 7).unwrap().unwrap();
        assert_eq!((first, conduit.of), (40, 7));
        conduit.pass_down(2, &Frame { channel: 42, kind: Kind::Control, body: b"{}".to_vec() });
        let mut bytes = [0; 64];
        let n = unistd::read(&theirs, &mut bytes).unwrap();
        let mut decoder = Decoder::new();
        decoder.feed(&bytes[..n]);
        assert_eq!(decoder.next_frame().unwrap().channel, 2);
        let mut reply = Vec::new();
        for channel in [3, 4] {
            encode(channel, Kind::Control, b"{}", &mut reply).unwrap();
        }
        unistd::write(&theirs, &reply).unwrap();
        let heard: Vec<u16> = conduit.hear().iter().map(|frame| frame.channel).collect();
        assert_eq!(heard, [3], "a frame beyond the range has no receiver");
    }

    #[test]
    fn an_agent_continues_on_its_heirs_stream_and_no_byte_is_lost_or_twice() {
        let key = (0, 40);
        let mut all = Conduits::default();
        let (first, conduit, old) =
            Conduit::new(&Descriptor::Agent { channel: 40, channels: 4 }, 7).unwrap().unwrap();
        all.insert((0, first), conduit).unwrap();
        let new = all.heir(key, 9).unwrap();
        let down = |all: &mut Conduits, body: &[u8]| {
            let frame = Frame { channel: 41, kind: Kind::Control, body: body.to_vec() };
            all.pass_down((0, 41), &frame, |_| true);
        };
        down(&mut all, b"\"before\"");
        assert!(all.take_over(key).is_err(), "it is not held back");
        assert!(all.hold_back(key, true).unwrap(), "it was not read yet");
        assert!(all.take_over(key).is_err());
        let mut bytes = [0; 256];
        let read = unistd::read(&old, &mut bytes).unwrap();
        assert!(bytes[..read].ends_with(b"\"before\"") && !all.hold_back(key, true).unwrap());
        down(&mut all, b"\"after\"");
        let mut said = Vec::new();
        encode(1, Kind::Control, b"\"one frame in two streams\"", &mut said).unwrap();
        let (here, there) = said.split_at(20);
        unistd::write(&old, here).unwrap();
        all.take_over(key).unwrap();
        unistd::write(&new, there).unwrap();
        let heard = all.hear(key, PollFlags::POLLIN);
        assert_eq!((heard.len(), &heard[0].body[..]), (1, &b"\"one frame in two streams\""[..]));
        let read = unistd::read(&new, &mut bytes).unwrap();
        assert!(bytes[..read].ends_with(b"\"after\""));
        assert!(all.end((0, 7), |_| true).is_empty(), "the old command takes nothing along");
        assert_eq!(all.end((0, 9), |_| true), [(key, 4)]);
    }

    #[test]
    fn an_heir_ends_with_its_command() {
        let mut all = Conduits::default();
        let (first, conduit, _old) =
            Conduit::new(&Descriptor::Agent { channel: 40, channels: 4 }, 7).unwrap().unwrap();
        all.insert((0, first), conduit).unwrap();
        let _new = all.heir((0, 40), 9).unwrap();
        assert!(all.end((0, 9), |_| true).is_empty());
        assert!(!all.hold_back((0, 40), true).unwrap());
        assert!(all.take_over((0, 40)).unwrap_err().to_string().contains("no heir"));
    }

    #[test]
    fn noise_in_place_of_frames_closes_a_conduit_once() {
        let mut all = Conduits::default();
        let (first, conduit, theirs) =
            Conduit::new(&Descriptor::Agent { channel: 40, channels: 4 }, 7).unwrap().unwrap();
        all.insert((0, first), conduit).unwrap();
        let noise = vec![b'x'; 64 << 10];
        for _ in 0..20 {
            unistd::write(&theirs, &noise).unwrap();
            assert!(all.hear((0, 40), PollFlags::POLLIN).is_empty());
        }
        assert_eq!((all.silence((0, 40)), all.silence((0, 40))), (Some(4), None));
    }

    #[test]
    fn bytes_of_a_monitor_travel_as_data_both_ways() {
        let (_, mut conduit, theirs) = Conduit::new(&Descriptor::Stream { channel: 9 }, 7).unwrap().unwrap();
        conduit.pass_down(0, &Frame { channel: 9, kind: Kind::Data, body: b"\0ask".to_vec() });
        let mut bytes = [0; 8];
        assert_eq!(unistd::read(&theirs, &mut bytes).unwrap(), 3);
        unistd::write(&theirs, b"tell").unwrap();
        assert_eq!(conduit.hear()[0].body, b"\x01tell");
        drop(theirs);
        assert!(conduit.hear().is_empty() && !conduit.open);
    }

    #[test]
    fn a_conduit_whose_client_left_is_of_whoever_speaks_to_it() {
        let mut all = Conduits::default();
        let (first, conduit, theirs) =
            Conduit::new(&Descriptor::Agent { channel: 40, channels: 4 }, 7).unwrap().unwrap();
        all.insert((0, first), conduit).unwrap();
        let (first, twin, _) = Conduit::new(&Descriptor::Stream { channel: 43 }, 7).unwrap().unwrap();
        assert!(all.insert((0, first), twin).unwrap_err().to_string().contains("43 is taken"));
        let frame = Frame { channel: 41, kind: Kind::Control, body: b"{}".to_vec() };
        all.pass_down((1, 41), &frame, |client| client == 0);
        assert!(all.hold((0, 43)) && !all.hold((1, 43)), "its client lives");
        all.pass_down((1, 41), &frame, |_| false);
        assert!(all.hold((1, 43)));
        let mut bytes = [0; 64];
        assert!(unistd::read(&theirs, &mut bytes).unwrap() > 0);
        assert_eq!(all.end((0, 7), |_| false), [((1, 40), 4)]);
    }

    #[test]
    fn a_range_beyond_the_last_channel_is_refused() {
        assert!(Conduit::new(&Descriptor::Agent { channel: u16::MAX, channels: 2 }, 1).is_err());
        assert!(Conduit::new(&Descriptor::Stream { channel: 0 }, 1).is_err());
    }
}
