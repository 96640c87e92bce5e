//! Queue disciplines as pure state machines: packets and model time in, packets and the next model time out.
//!
//! The soft switch runs them on real packets, the simulator in virtual time. One discipline a file. A discipline
//! holds [`Packet`]s, small values that name a frame its owner keeps; it never sees the frame's bytes and never
//! reads a clock. Its driver gives it times that never go back, and asks in this order: `enqueue` as
//! packets come; `dequeue` whenever the transmitter behind it is free; `next_event` to learn when asking again is
//! worth while.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

mod build;
mod classes;
mod classify;
mod codel;
mod draws;
mod drr;
mod fifo;
mod fq_codel;
mod hfsc;
mod htb;
pub mod kernel;
mod netem;
mod pfifo_fast;
mod pie;
mod prio;
mod service_curve;
mod sfq;
mod tbf;
#[cfg(test)]
mod testing;

pub use build::{BuildError, DEFAULT, Declaration, Parameter, TABLE, build, declared};
pub use classes::{ClassLayout, build_classes, leaves};
pub use classify::{Classifier, Headers, Rule};
pub use codel::{Codel, CodelOptions, ControlLaw};
pub use drr::{Drr, DrrClass};
pub use fifo::Fifo;
pub use fq_codel::{FqCodel, FqCodelOptions};
pub use hfsc::{Hfsc, HfscClass, HfscError};
pub use htb::{Htb, HtbClass, HtbError};
pub use netem::{Netem, NetemOptions};
pub use pfifo_fast::{band as band_of_tos, pfifo_fast};
pub use pie::{Pie, PieOptions};
pub use prio::{DEFAULT_PRIOMAP, Prio};
pub use service_curve::Curve;
pub use sfq::{Sfq, SfqOptions};
pub use tbf::{Tbf, TbfOptions};
use virtlab_wire::Nanos;

/// What a discipline knows of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// The owner's handle of the frame.
    pub id: u64,
    /// Length that limits and rates count: Ethernet header and payload, no FCS, as the kernel's disciplines count it.
    pub bytes: u32,
    /// Equal for packets of one flow; what fair disciplines hash. See [`Qdisc::wants_flow`].
    pub flow: u64,
    /// What classful disciplines choose a class by; 0 is the default class.
    pub class: u32,
    /// Whether it can be marked instead of dropped, and whether it is. See [`Qdisc::wants_ecn`].
    pub ecn: Ecn,
}

/// Explicit congestion notification of an IP packet (RFC 3168). It is as wide as its place in a packet, which is copied
/// at every hop: what fills a gap is copied, too, and piece by piece.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u32)]
pub enum Ecn {
    /// Its ends do not speak ECN.
    #[default]
    NotCapable,
    /// It may be marked: ECT(0) or ECT(1).
    Capable,
    /// Congestion was experienced; its owner writes CE into the header.
    Marked,
}

/// Why a discipline gave a packet up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DropReason {
    /// The queue held as many packets as it may.
    PacketLimit,
    /// The queue's bytes and the packet's exceed what it may hold.
    ByteLimit,
    /// The discipline signalled congestion before its queue was full (CoDel's control law, for one).
    Congestion,
    /// The packet can never pass, for instance longer than a token bucket is deep.
    Oversize,
    /// No class takes the packet.
    Unclassified,
    /// A distant network lost it, at random.
    Lost,
    /// The link behind the queue was cut.
    LinkDown,
}

impl DropReason {
    /// Its name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::PacketLimit => "packet_limit",
            Self::ByteLimit => "byte_limit",
            Self::Congestion => "congestion",
            Self::Oversize => "oversize",
            Self::Unclassified => "unclassified",
            Self::Lost => "lost",
            Self::LinkDown => "link_down",
        }
    }
}

/// A packet that a discipline gave up; not always the one being enqueued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dropped {
    /// The packet.
    pub packet: Packet,
    /// Why.
    pub reason: DropReason,
}

/// What a discipline holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backlog {
    /// Packets.
    pub packets: u64,
    /// Their bytes, as [`Packet::bytes`] counts them.
    pub bytes: u64,
}

/// A queue discipline. `now` never goes back from call to call.
///
/// Every packet enqueued leaves exactly once: from `dequeue`, or through `drops`.
pub trait Qdisc: Send {
    /// Takes a packet in; what does not fit any more goes to `drops`.
    fn enqueue(&mut self, packet: Packet, now: Nanos, drops: &mut Vec<Dropped>);

    /// The packet to transmit now, or `None` when none may go at this time. May drop packets on the way (CoDel).
    fn dequeue(&mut self, now: Nanos, drops: &mut Vec<Dropped>) -> Option<Packet>;

    /// The earliest time, `now` or later, at which `dequeue` may hand out a packet; `None` when nothing is held.
    /// After `dequeue(now)` gave `None` it is later than `now`, so that a caller that waits for it makes progress.
    fn next_event(&self, now: Nanos) -> Option<Nanos>;

    /// What is held at present.
    fn backlog(&self) -> Backlog;

    /// Whether [`Packet::ecn`] matters, so that owners read headers only for disciplines that mark.
    fn wants_ecn(&self) -> bool {
        false
    }

    /// Whether [`Packet::flow`] matters, so that owners hash headers only for disciplines that look at it.
    fn wants_flow(&self) -> bool {
        false
    }
}
