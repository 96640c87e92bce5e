//! Sockets, IP, vNICs, bridges and the fabric: how a message gets from one guest to another.
//!
//! A frame takes no time on its way to the bridge and through it: on the wire it is once, on the link. What a platform
//! costs is added by `costs`.
//!
//! Each part owns its state and knows none of the others' but those that it names: `guests`, `edge` (vNICs and virtual
//! switches), `wire` (fabric, ports, ways), `platform`, `sockets`, `packets` and `labels`, all of which say `frames`.
//! [`Network`] is made of them, and `traffic` is what happens between them; its modules know parts, never each other.

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
pub use traffic::Landed;
pub use whole::Network;
