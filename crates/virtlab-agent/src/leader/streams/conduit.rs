//! Streams of a command beside its own three: an agent behind it (in a virtual machine, reached through its serial
//! port), or bytes of a monitor. Each is one end of a socket pair whose other end the command was born with.
//!
//! An agent behind a command may have children of its own, so it owns a range of channels: what the control plane sends
//! on `first + n` reaches it as a frame of channel `n`, and the other way round.

use crate::leader::disk::Served;
use crate::leader::streams::peer::{Peer, set_nonblocking};
use anyhow::Context;
use nix::errno::Errno;
use nix::poll::PollFlags;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socketpair};
use nix::unistd;
use serde::Deserialize;
use serde_json::Value;
use std::collections::{BTreeMap, VecDeque};
use std::ops::RangeInclusive;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
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
}

impl Conduit {
    /// A stream for the command of channel `of`, and the end that the command gets; none for what is no stream.
    ///
    /// # Errors
    /// When no socket pair can be made, or the range of channels is empty or ends beyond the last one.
    pub fn new(descriptor: &Descriptor, of: u16) -> anyhow::Result<Option<(u16, Self, OwnedFd)>> {
        let (channel, channels, frames) = match descriptor {
            Descriptor::Tap { .. } | Descriptor::Users { .. } | Descriptor::Disk { .. } => return Ok(None),
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
        Ok(Some((channel, Self { of, channels, flow, open: true, noisy: false }, theirs)))
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

    /// Whether something waits to be written.
    pub fn waits(&self) -> bool {
        match &self.flow {
            Flow::Frames(peer) => peer.waiting_bytes() > 0,
            Flow::Bytes { waiting, .. } => !waiting.is_empty(),
        }
    }

    /// Passes a frame of the control plane on; `channel` counts from the first of the range.
    pub fn pass_down(&mut self, channel: u16, frame: &Frame) {
        match &mut self.flow {
            Flow::Frames(peer) => peer.send(channel, frame.kind, &frame.body),
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
