//! Arrival schedules, bursts, payload sizes and meters. Pure: time and randomness are passed in, so the agent runs them
//! on sockets and the simulator in virtual time.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

pub mod burst;
pub mod entering;
pub mod forwards;
pub mod histogram;
pub mod meters;
pub mod pages;
pub mod parameters;
pub mod random;
pub mod requests;
pub mod schedule;
pub mod size;
pub mod split;
pub mod station;
pub mod writes;

pub use histogram::Histogram;
pub use size::{PacketSize, SizeRequest, Transport};
pub use split::Split;
