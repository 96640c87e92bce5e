//! Why samples of a role should not be trusted.

use serde::Serialize;

/// What is wrong with them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A thread that sends, answers or takes packets was kept from running.
    Starved,
    /// The receiver's own socket had no room.
    SocketDrops,
    /// The receiver's own ring had no room.
    RingDrops,
    /// Samples found no memory.
    SpoolOverflow,
    /// The clock that stamps packets was set.
    ClockStep,
    /// Real-time tasks had less time than was promised to them.
    SupplyBroken,
    /// The traffic ended before its time.
    Failed,
}

/// One reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Taint {
    /// Of which kind.
    pub kind: Kind,
    /// In words, without the kind.
    pub text: String,
}
