//! A Plan's world played packet by packet in virtual time: the same world, roles and timeline that the testbed plays
//! with real packets, with the costs of a platform profile; an ideal platform has no costs.
//!
//! ```text
//! role -> socket -> IP (route, fragments) -> vNIC (pushback) -> bridge, no time -> fabric: queues, lines, switches
//! role <- reassembly <- IP (own address, or the next hop) <- vNIC <- bridge <------ fabric
//! ```
//! Every event has an instant in nanoseconds and, at equal instants, a fixed order: the fabric's first, then the
//! world's own in the order in which they were planned, then the timeline's. Randomness is in named streams of the
//! seeds that come in. So equal input gives equal output, to the last byte.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

mod agenda;
mod bulk;
mod costs;
mod input;
mod ip;
mod moves;
mod network;
mod post;
mod processors;
mod samples;
mod servers;
pub mod star;
mod tcp;
mod transfers;
mod workloads;
mod world;

pub use input::{Finding, Input};
pub use samples::{Column, Table};
pub use world::{Happened, Outcome, World};
