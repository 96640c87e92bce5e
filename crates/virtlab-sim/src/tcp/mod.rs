//! TCP on this network: connections between the ends of a role.

mod flow;

pub use flow::{Flow, GREETING_BYTES, Wishes};
