//! What came of a migration.

use serde::Serialize;

/// A round of pre-copy: what was sent, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Round {
    /// What it sent.
    pub bytes: f64,
    /// How long that took.
    pub seconds: f64,
    /// What remained to be sent when it was over: what it left, and what was dirtied meanwhile.
    pub remaining_bytes: f64,
}

/// How it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// By its rule; or its mode has no rounds.
    Converged,
    /// By the limit of rounds.
    Forced,
    /// It has no end: each round leaves at least as much as the one before, or there are more than any hypervisor
    /// makes.
    Never,
}

/// One guest's migration. Times are seconds; where the end is `Never`, they are what had passed when that was known.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Course {
    /// When it was requested, after the first.
    pub begin_s: f64,
    /// Rounds that ran before the pause; none but for pre-copy.
    pub rounds: Vec<Round>,
    /// When its processors stop, after its own beginning.
    pub pause_at_s: f64,
    /// How long they stand still.
    pub pause_s: f64,
    /// How long no client reaches it.
    pub blackout_s: f64,
    /// From the request until its whole state is at the destination, the pause included.
    pub total_s: f64,
    /// What was sent of its memory.
    pub bytes: f64,
    /// And of its disk.
    #[serde(skip)]
    pub disk_bytes: f64,
    /// How it ended.
    pub end: End,
}

impl Course {
    pub(crate) fn new(begin_s: f64) -> Self {
        Self {
            begin_s,
            rounds: Vec::new(),
            pause_at_s: 0.0,
            pause_s: 0.0,
            blackout_s: 0.0,
            total_s: 0.0,
            bytes: 0.0,
            disk_bytes: 0.0,
            end: End::Converged,
        }
    }

    /// Of a guest whose turn never comes.
    pub(crate) fn not_begun() -> Self {
        Self { end: End::Never, ..Self::new(0.0) }
    }
}
