//! TCP on this network: connections between the ends of a role.

mod flow;
mod offload;

pub use flow::{Flow, GREETING_BYTES, Wishes};
