//! A passive server in virtual time: what it forwards, and what it knows by now of what came of that.

use std::collections::VecDeque;
use virtlab_load::forwards::{Bounds, Forwards};
use virtlab_load::parameters::request_response::Ending;

/// Place of the server of a request that none has served.
pub const UNSERVED: i32 = -1;

/// Who waits for an answer: a role, and the place of its connection.
pub type Owner = (usize, usize);

/// A request that a server has done with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Served {
    pub owner: Owner,
    pub ending: Ending,
    /// Place of the server that served it, among those of its service; below 0: none has.
    pub by: i32,
}

/// A request that is forwarded: who waits for it, and its size.
#[derive(Clone, Copy, Debug)]
pub struct Forwarded {
    pub owner: Owner,
    pub bytes: u64,
}

/// One of them.
pub struct Passive {
    /// That forwards for it.
    pub role: usize,
    pub forwards: Forwards<Forwarded>,
    /// Not told yet.
    pub known: VecDeque<Served>,
}

impl Passive {
    /// Nothing came yet.
    pub const fn new(role: usize, bounds: Bounds) -> Self {
        Self { role, forwards: Forwards::new(bounds), known: VecDeque::new() }
    }
}
