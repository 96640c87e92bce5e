//! The machine under the leader: what it is, and what it counts.

pub mod facts;
mod memory;
pub mod telemetry;
mod vcpus;
