//! Sockets, IP, vNICs, bridges and the fabric: how a message gets from one guest to another.
//!
//! A frame takes no time on its way to the bridge and through it: on the wire it is once, on the link. What a platform
//! costs is added by `costs`.
//!
//! Each part owns its state and knows no other: `guests`, `edge` (vNICs and virtual switches), `wire` (fabric, ports,
//! paths; it asks `edge` once what is plugged in), `platform`, `sockets` (each remembers its way), `packets` and
//! `labels`. `frames` says what they exchange. [`Network`] is made of them. `traffic` is what happens between them: its
//! files import parts alone, and call each other as methods of the network, because a frame that leaves makes room for
//! the next one.

mod edge;
mod frames;
mod guests;
mod labels;
mod packets;
mod platform;
mod sockets;
mod traffic;
mod whole;
mod wire;

pub use frames::Address;
pub use sockets::{SOCKET_BYTES, STREAM_SOCKET_BYTES};
pub use traffic::{Landed, Twig};
pub use whole::Network;
