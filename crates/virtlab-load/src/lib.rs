//! Arrival schedules, bursts, payloads and meters. Pure: no clock, no operating system.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]
