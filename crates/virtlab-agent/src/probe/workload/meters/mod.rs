//! Other people's meters: an alternative to this probe's own, each a program that the guest has.

mod connections;
pub mod iperf3;
pub mod ping;
mod program;
