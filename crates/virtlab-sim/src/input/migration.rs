//! How a guest moves to another host.

use super::Way;
use serde::Deserialize;
use virtlab_fabric::Mac;
use virtlab_migration::{Guest, Order, Policy, Question};

/// All of it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Migration {
    /// Its name in samples.
    pub entity: String,
    /// Its memory, and what takes time beside it.
    pub guest: Guest,
    /// When it pauses.
    pub policy: Policy,
    /// What the copy may have.
    pub bandwidth_byte_per_s: f64,
    /// Links that the copy crosses, each with its direction; none: it shares no wire with packets.
    #[serde(default)]
    pub way: Vec<(String, String)>,
    /// Connections of TCP, each of which has a share of its own on a line.
    #[serde(default = "one_connection")]
    pub connections: u32,
    /// The place of the host to which it goes.
    pub host: usize,
    /// The place of the processors there, where guests share them.
    #[serde(default)]
    pub pool: Option<usize>,
    /// Places of its vNICs, and of the virtual switch at the destination at which each is plugged in.
    pub plugs: Vec<(usize, usize)>,
    /// Which way frames to its addresses go then.
    pub stations: Vec<Station>,
    /// What a byte costs processors that guests share: the place of their pool, and work in ns; at the source, and at
    /// the destination.
    #[serde(default)]
    pub work: Vec<(usize, f64)>,
}

const fn one_connection() -> u32 {
    1
}

impl Migration {
    /// Whether every number makes sense.
    ///
    /// # Errors
    /// The first that does not.
    pub fn check(&self) -> Result<(), String> {
        if self.connections == 0 {
            return Err("connections must be more than zero".to_owned());
        }
        let Self { guest, policy, bandwidth_byte_per_s, .. } = self;
        Question {
            guests: vec![*guest],
            bandwidth_byte_per_s: *bandwidth_byte_per_s,
            policy: *policy,
            order: Order::Together,
        }
        .check()
    }
}

/// Which way frames to an address go, by what passes them on.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Station {
    /// The address.
    pub mac: Mac,
    /// Places of virtual switches, each with the way from there.
    #[serde(default)]
    pub vswitches: Vec<(usize, Way)>,
    /// By which line, of a link and its direction, frames leave a physical switch.
    #[serde(default)]
    pub lines: Vec<(String, String)>,
    /// Places of guests that forward frames, each with the vNIC through which they leave it.
    #[serde(default)]
    pub bridges: Vec<(usize, usize)>,
}
