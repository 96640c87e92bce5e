//! Schedulability of task sets inside a virtual CPU, in exact integer or rational time.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]
