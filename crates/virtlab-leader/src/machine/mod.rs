//! The machine under the leader: what it is, and what it counts.

mod disks;
pub mod facts;
mod memory;
pub mod placement;
pub mod sharing;
pub mod telemetry;
mod usage;
mod vcpus;
