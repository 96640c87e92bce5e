//! What every role of the agent asks of Linux: clocks, frames over a descriptor, offloads of interfaces, counted work,
//! memory, and whether a thread stood still.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

pub mod clock;
pub mod memory;
pub mod offload;
pub mod slice;
pub mod standstill;
pub mod transport;
pub mod work;
