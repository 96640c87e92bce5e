//! TCP as a pure state machine: segments and time in, segments and the next time out. It knows bytes by number only.
//!
//! ```text
//! connection   handshake, timers, what goes next         segment     what is in a header, and its length
//! sender       acknowledgements, windows, recovery       flight      segments under way, scoreboard, RACK
//! receiver     order, SACK blocks, delayed ACK, window   ranges      sets of byte ranges
//! rtt          smoothed round trip, RTO                  control     NewReno | CUBIC (cubic), HyStart (hystart)
//! ```
//! Where the RFCs leave a choice, Linux's is taken, so that a simulated flow can be compared with a measured one; each
//! file says where it differs. Sequence numbers are 64 bits and begin at 0 with the first byte of the stream: they
//! never wrap, and SYN takes none; FIN takes one. An end whose process is gone refuses by RST. Not modelled: waiting
//! after the end (an end is over once its application says so), urgent data, F-RTO and undo of spurious recoveries,
//! PAWS (nothing wraps), keep-alive.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

mod connection;
mod control;
mod cubic;
mod flight;
mod hystart;
mod options;
mod ranges;
mod receiver;
mod rtt;
mod segment;
mod sender;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

pub use connection::Connection;
pub use options::{Algorithm, Buffer, Options};
pub use segment::{Kind, SACK_BLOCKS, Segment, full_bytes};
