//! Queue disciplines as pure state machines: packets and model time in, packets and the next model time out.
//!
//! The soft switch runs them on real packets, the simulator in virtual time. One discipline a file.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]
