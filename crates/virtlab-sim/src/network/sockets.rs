//! A socket: where a role's side sends to, and what it holds back while its vNIC has enough waiting.

use super::frames::{Address, memory_bytes};
use super::wire::paths::Way;
use crate::agenda::Due;
use crate::ip::addresses::Number;
use crate::ip::{self, Message};
use std::collections::VecDeque;
use virtlab_fabric::Mac;

/// Bytes of frames that a socket may have waiting in its vNIC: the system's default send buffer.
pub const SOCKET_BYTES: u64 = 212_992;
/// Buffer of a socket that streams.
pub const STREAM_SOCKET_BYTES: u64 = 1 << 20;

/// How a role's side sends. What every message touches comes first: it lies in one line of the processor's cache.
#[repr(C, align(64))]
pub struct Socket {
    pub nic: usize,
    /// Flow hash of whole packets and of fragments.
    pub flows: [u64; 2],
    pub way: Way,
    /// The far address; absent without IP.
    pub ip: Option<Number>,
    /// Length of the header before the payload.
    pub transport_bytes: u32,
    pub source: Mac,
    pub destination: Mac,
    /// Whether its process makes whole frames, which their receiver reads below IP.
    pub raw: bool,
    pub counted: bool,
    /// Where its frames wait before their way: its vNIC, or, where the way is certain, a queue that guests share there.
    pub queue: usize,
    pub room: Room,
}

impl Socket {
    /// One that sends from a vNIC to addresses.
    pub fn new(
        nic: usize,
        source: Mac,
        (destination, ip): Address,
        flows: [u64; 2],
        most_bytes: u64,
    ) -> Self {
        Self {
            nic,
            queue: nic,
            source,
            destination,
            ip,
            raw: false,
            flows,
            room: Room::new(most_bytes),
            way: Way::Unknown,
            counted: false,
            transport_bytes: ip::TRANSPORT_BYTES,
        }
    }
}

/// What a socket has waiting in its vNIC, and what waits before it.
pub struct Room {
    /// Bytes of its frames that wait there, and how many may before it is held back.
    held_bytes: u64,
    most_bytes: u64,
    /// Whether the memory of its frames counts, as Linux has it, in place of their bytes.
    by_memory: bool,
    pending: VecDeque<Message>,
    waiter: Option<Due>,
    /// Whether it waits for room in its vNIC.
    blocked: bool,
}

impl Room {
    fn new(most_bytes: u64) -> Self {
        Self {
            held_bytes: 0,
            most_bytes,
            by_memory: false,
            pending: VecDeque::new(),
            waiter: None,
            blocked: false,
        }
    }

    /// Bounds what may wait in the vNIC.
    pub fn bound(&mut self, most_bytes: u64) {
        self.most_bytes = most_bytes;
    }

    /// Whether the vNIC may be given more.
    #[inline]
    pub fn is_free(&self) -> bool {
        self.held_bytes < self.most_bytes
    }

    /// Frames wait in the vNIC.
    #[inline]
    pub fn hold(&mut self, count: u32, bytes: u32) {
        self.held_bytes += u64::from(count) * self.charge(bytes);
    }

    /// Frames wait in the vNIC no longer.
    #[inline]
    pub fn give(&mut self, count: u32, bytes: u32) {
        self.held_bytes -= u64::from(count) * self.charge(bytes);
    }

    /// What a frame of so many bytes is charged.
    #[inline]
    fn charge(&self, bytes: u32) -> u64 {
        u64::from(if self.by_memory { memory_bytes(bytes) } else { bytes })
    }

    /// From the beginning the memory of frames counts.
    pub fn count_memory(&mut self) {
        self.by_memory = true;
    }

    /// Has `due` happen as soon as there is room.
    pub fn wait(&mut self, due: Due) {
        self.waiter = Some(due);
    }

    /// What was to happen as soon as there is room.
    pub fn waiter(&mut self) -> Option<Due> {
        self.waiter.take()
    }

    /// Whether no message waits.
    pub fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// A message waits behind the others.
    pub fn push(&mut self, message: Message) {
        self.pending.push_back(message);
    }

    /// The message that has waited longest.
    pub fn pop(&mut self) -> Option<Message> {
        self.pending.pop_front()
    }

    /// Whether the socket waits for room in its vNIC.
    #[inline]
    pub fn is_blocked(&self) -> bool {
        self.blocked
    }

    /// The socket waits for room; whether it did not before.
    pub fn block(&mut self) -> bool {
        !std::mem::replace(&mut self.blocked, true)
    }

    /// Whether the socket has stopped waiting just now.
    pub fn unblock(&mut self) -> bool {
        let stopped = self.blocked && self.waiter.is_none() && self.pending.is_empty();
        self.blocked &= !stopped;
        stopped
    }
}
