//! A disk as a pure state machine: requests and model time in, the instants at which they complete out.
//!
//! A disk is a *medium* behind an optional *write cache*, with a queue in front that has no bound.
//!
//! - The medium takes one request at a time, in the order in which they came. A request of `n` bytes holds it for
//!   `n / rate`, rounded up to whole nanoseconds; without a rate, for no time. What it has taken is done `latency`
//!   later: the latency is a pipeline delay, so it lengthens every request and slows none behind it.
//! - A read is complete when the medium has done it.
//! - A write without a cache, or of more than the whole cache, is complete when the medium has done it.
//! - Any other write is complete as soon as the cache has room for it, in the order of such writes: at once, if there
//!   is room. It goes to the medium in its turn, as the request that it is, and its room is free again once the medium
//!   has taken it. Long bursts therefore run at the rate, as soon as the cache is full.
//! - A flush is complete when the medium has done everything that writes before it have put into the cache; at once, if
//!   there is nothing of the kind. It takes no time of the medium.
//!
//! Deviations from real disks: reads of what the cache holds take the medium all the same; positions do not matter, so
//! nothing is reordered or merged; reads and writes have one rate and one latency.
//!
//! Its driver gives it times that never go back: `submit` as requests come, `next_event` to learn when to ask again,
//! `complete` until it has nothing more for that instant.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

mod disk;
mod model;
mod usage;

pub use disk::{Completion, Disk};
pub use model::{Kind, Model, Refused, Request, SECTOR_BYTES, whole_sectors};
pub use usage::{Tally, Usage, Used};
