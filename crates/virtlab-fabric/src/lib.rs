//! Physical switches and links as a pure machine: frames and model time in, frames and model time out.
//!
//! A [`Fabric`] is a loop-free graph of store-and-forward switches and full-duplex links. Frames come in at its ports
//! with the time at which the port's owner handed them over; they come out of its ports with the time at which the last
//! bit would have reached that port. Everything between is model time, so the same machine serves the soft switch,
//! where times are those of the kernel's clock, and a simulator, where they are virtual.
//!
//! ```text
//! port h1.up --line--> switch s1 --line--> switch s2 --line--> port h2.up      (and the same lines back)
//!            queue, serialisation, propagation; then the switch's processing, its table, the next line's queue
//! ```
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

mod fabric;
mod frame;
mod layout;
mod line;
mod timers;
mod train;

pub use fabric::{Departure, Fabric, Foretold, LineId, LineView, Meeting, Passage, PortId, SwitchCounters};
pub use frame::{Frame, Mac, ecn, flow_hash, headers, mark};
pub use layout::{Layout, LayoutError, LinkLayout, QueueLayout, QueuesLayout, SwitchLayout};
pub use line::{ClassCounters, LineCounters, Queueing};
pub use timers::Timers;
pub use train::Train;
