//! What is asked: which guests move, how, over what bandwidth.

use serde::{Deserialize, Serialize};

/// How a guest moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// It runs while its memory is copied, in rounds.
    PreCopy,
    /// It runs at the destination at once, and its memory follows.
    PostCopy,
    /// It is suspended, its memory is copied, and it resumes.
    Hot,
    /// It is shut down here and started there.
    Cold,
}

/// When pre-copy pauses the guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rule {
    /// After a whole round, if what was dirtied during it is at most R L.
    Textbook,
    /// QEMU's: a round is left as soon as less than R L remains of it; then the bitmap of dirty pages is read again,
    /// and the guest pauses if what remains together with what it says is less than R L. What was left belongs to the
    /// pause.
    Qemu,
}

/// Several guests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// One after another, each with the whole bandwidth.
    InTurn,
    /// All from the same instant; those that send share the bandwidth equally.
    Together,
}

/// Times that no model of memory knows, measured apart; all in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Fixed {
    /// From the request to the first byte.
    pub setup_s: f64,
    /// Of the pause: the state of processors and devices, beside memory.
    pub device_state_s: f64,
    /// After the guest runs again: until its clients reach it.
    pub reconvergence_s: f64,
    /// Cold migration: from the request until the guest is off.
    pub shutdown_s: f64,
    /// Cold migration: from its start until it serves.
    pub boot_s: f64,
}

/// A guest that moves.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Guest {
    /// V: bytes of its memory that are not zero.
    pub memory_bytes: f64,
    /// D: how fast it dirties memory that was clean.
    #[serde(default)]
    pub dirty_byte_per_s: f64,
    /// W: how much it writes to at all; absent: all of its memory.
    #[serde(default)]
    pub working_set_bytes: Option<f64>,
    /// Of its disk, what is copied before its memory.
    #[serde(default)]
    pub disk_bytes: f64,
    /// What is added.
    #[serde(default)]
    pub fixed: Fixed,
}

impl Guest {
    /// U(t): different bytes that it dirties in a time.
    #[must_use]
    pub fn dirtied(&self, seconds: f64) -> f64 {
        (self.dirty_byte_per_s * seconds).min(self.writable_bytes())
    }

    /// W, which is never more than V.
    #[must_use]
    pub fn writable_bytes(&self) -> f64 {
        self.working_set_bytes.unwrap_or(self.memory_bytes).min(self.memory_bytes)
    }
}

/// How the guests move.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Policy {
    /// How.
    pub mode: Mode,
    /// When pre-copy stops.
    pub rule: Rule,
    /// L: the longest pause that pre-copy aims at, without what is fixed.
    pub downtime_limit_s: f64,
    /// Of the rule `qemu`: how often what remains is compared; QEMU sends so much and then looks (`BUFFER_DELAY`).
    pub window_s: f64,
    /// After so many rounds the guest pauses, whatever is left.
    #[serde(default)]
    pub rounds_limit: Option<u32>,
    /// Whether the guest is slowed while it dirties more than half of what is sent.
    #[serde(default)]
    pub auto_converge: bool,
}

/// The whole of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Question {
    /// Those that move.
    pub guests: Vec<Guest>,
    /// R: what all of them have together.
    pub bandwidth_byte_per_s: f64,
    /// How.
    pub policy: Policy,
    /// One after another, or together.
    pub order: Order,
}

impl Question {
    /// Whether every number makes sense.
    ///
    /// # Errors
    /// The first that does not.
    pub fn check(&self) -> Result<(), String> {
        let more = |name: &str, value: f64| {
            if value.is_finite() && value > 0.0 {
                Ok(())
            } else {
                Err(format!("{name} must be more than zero"))
            }
        };
        let some = |name: &str, value: f64| {
            if value.is_finite() && value >= 0.0 {
                Ok(())
            } else {
                Err(format!("{name} must be zero or more"))
            }
        };
        if self.guests.is_empty() {
            return Err("there is no guest".to_owned());
        }
        more("bandwidth_byte_per_s", self.bandwidth_byte_per_s)?;
        some("downtime_limit_s", self.policy.downtime_limit_s)?;
        more("window_s", self.policy.window_s)?;
        if self.policy.rounds_limit == Some(0) {
            return Err("rounds_limit must be more than zero".to_owned());
        }
        for guest in &self.guests {
            more("memory_bytes", guest.memory_bytes)?;
            some("disk_bytes", guest.disk_bytes)?;
            some("dirty_byte_per_s", guest.dirty_byte_per_s)?;
            some("working_set_bytes", guest.working_set_bytes.unwrap_or(0.0))?;
            let fixed = &guest.fixed;
            for (name, value) in [
                ("setup_s", fixed.setup_s),
                ("device_state_s", fixed.device_state_s),
                ("reconvergence_s", fixed.reconvergence_s),
                ("shutdown_s", fixed.shutdown_s),
                ("boot_s", fixed.boot_s),
            ] {
                some(name, value)?;
            }
        }
        Ok(())
    }
}
