//! A switch: its table, the lines that leave it, and what it has seen.

use super::table::Table;

/// A store-and-forward switch.
pub(crate) struct Switch {
    pub(crate) name: String,
    pub(crate) table: Table,
    /// Lines that leave it.
    pub(crate) out: Vec<usize>,
    pub(crate) counters: SwitchCounters,
}

/// What a switch has seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SwitchCounters {
    /// Frames that it sent to all its other ports.
    pub flooded_packets: u64,
    /// Frames that it did not pass on: towards where they came from, or to addresses that bridges never forward.
    pub filtered_packets: u64,
}
