//! Disks of guests, and whose use is sampled.

use serde::Deserialize;
use virtlab_disk::Model;

/// The disk of a guest.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GuestDisk {
    /// Its name in counters; absent: nothing of it is counted.
    pub name: Option<String>,
    /// What it is.
    pub model: Model,
    /// How much of what is written to it its guest's kernel holds; absent: nothing is buffered.
    #[serde(default)]
    pub buffers: Option<Thresholds>,
}

/// How much a kernel holds of what is to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Thresholds {
    /// With more, it begins to write.
    pub background_bytes: u64,
    /// Halfway from there to this, writers wait.
    pub limit_bytes: u64,
}

/// How often use of disks is sampled, and whose.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DiskUsage {
    /// How often.
    pub every_ns: u64,
    /// Whose.
    pub of: Vec<OfDisks>,
}

/// Whose use of disks is sampled.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OfDisks {
    /// Its name in samples.
    pub entity: String,
    /// The place of the host; absent: these are a guest's disks, wherever it is.
    #[serde(default)]
    pub host: Option<usize>,
    /// Places of the guests whose disks are part of it, as long as they have not moved.
    pub guests: Vec<usize>,
    /// Places of guests whose disks are part of it once they have moved.
    #[serde(default)]
    pub arrivals: Vec<usize>,
}
