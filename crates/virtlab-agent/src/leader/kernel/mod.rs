//! Requests to this machine's kernel about networks, and its answers.

pub mod bridge_port;
pub mod encode;
pub mod filters;
pub mod netlink;
pub mod tap;
pub mod traffic;
pub mod tunnel;
