//! What crosses a boundary: control frames between agents and the control plane, columnar blocks of samples,
//! and the time an Ethernet frame occupies a link. No I/O, no clock, no operating system.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

pub mod block;
pub mod ethernet;
pub mod frame;
pub mod fuzzing;
pub mod line;
mod nanos;
pub mod parquet;
pub mod probe_header;
pub mod rows;

pub use nanos::Nanos;

/// Version of the agent protocol, `(major, minor)`. Another major is refused.
pub const PROTOCOL: (u16, u16) = (1, 0);
