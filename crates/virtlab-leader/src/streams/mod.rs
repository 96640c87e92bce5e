//! Byte streams of frames: to clients, to agents behind commands, to existing hosts, and the door that lets clients in.

pub mod carrier;
pub mod conduit;
pub mod door;
pub mod peer;
