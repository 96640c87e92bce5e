//! Series and counters of the guest, as its own kernel tells them.
//!
//! A series row is (instant, entity, metric, value); a counter row is (entity, counter, value). Entities are `cpu` and
//! `cpuN`, interface names, `probe` (this process) and `cgroup` (the control group it is in). Names are those of the
//! leader's own series, so that a guest with a kernel of its own and a namespace read alike. Rows stay here until the
//! series end: sending them meanwhile would disturb what is measured.

pub mod qdisc;
mod series;
mod source;

pub use series::{Sampling, Wanted};

use anyhow::bail;
use serde_json::{Value, json};

/// Counters now, as rows of entity, counter, value.
///
/// # Errors
/// When a group is unknown or the kernel refuses it.
pub fn counters(groups: &[String]) -> anyhow::Result<Vec<Value>> {
    let mut rows = Vec::new();
    for group in groups {
        let readings = match group.as_str() {
            "vnics" => source::interface_counters(),
            "qdisc" | "qdiscs" => source::qdisc_counters()?,
            "softnet" => source::softnet_counters(),
            "cpu" | "host.cpu" => source::cpu_counters(),
            "probe" => source::probe_counters(),
            "cgroup" => source::cgroup_counters(),
            other => bail!("there is no counter group '{other}'; there are {}", source::NAMES.join(", ")),
        };
        rows.extend(readings.into_iter().map(|(entity, counter, value)| json!([entity, counter, value])));
    }
    Ok(rows)
}
