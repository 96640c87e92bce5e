//! Requests to this machine's kernel about networks, and its answers.

pub mod bridge_port;
pub mod discipline;
pub mod encode;
pub mod filters;
pub mod links;
pub mod netlink;
pub mod queueing;
pub mod tap;
pub mod traffic;
pub mod tunnel;
