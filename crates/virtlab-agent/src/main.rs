//! `virtlab-agent`: leader, probe and soft switch in one static binary.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

fn main() {}
