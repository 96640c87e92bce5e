//! Guests that share processors, and whose use of them is sampled.

use super::Finding;
use crate::processors::Quota;
use serde::Deserialize;
use std::collections::BTreeMap;

/// Guests on the same processors.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pool {
    /// Its path in the Plan.
    pub name: String,
    /// How many there are.
    pub processors: f64,
    /// Of them, what the vCPUs of its guests take when idle.
    #[serde(default)]
    pub idle: f64,
    /// The share of its speed that a vCPU would lose if infinitely many were active.
    #[serde(default)]
    pub contention: f64,
    /// How long a thread of their servers spins for a lock before it sleeps.
    #[serde(default)]
    pub spin_ns: u64,
    /// What a vCPU works when a disk has done a request of its guest, before that knows.
    #[serde(default)]
    pub completion_ns: u64,
    /// How they take turns; absent: all at once, each as fast as is left for it.
    #[serde(default)]
    pub slices: Option<Slicing>,
    /// Places of its guests.
    pub guests: Vec<usize>,
    /// Places of guests that are its once they have moved, behind the others.
    #[serde(default)]
    pub arrivals: Vec<usize>,
}

/// How vCPUs take turns on processors.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Slicing {
    /// How long one may run while others wait.
    pub slice_ns: u64,
    /// What putting another one on a processor costs it.
    #[serde(default)]
    pub switch_ns: u64,
    /// How often credit is handed out; 0: none is, they have fair shares.
    #[serde(default)]
    pub credit_ns: u64,
    /// Whether guests have alike (1), or vCPUs (0).
    #[serde(default)]
    pub grouping: f64,
    /// Of each guest of the pool.
    pub shares: Vec<Sharing>,
}

/// What a guest may have of processors.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sharing {
    /// Its vCPUs.
    pub vcpus: usize,
    /// Its weight.
    #[serde(default = "usual_weight")]
    pub weight: f64,
    /// Its quota of time; absent: none.
    #[serde(default)]
    pub quota: Option<Quota>,
}

const fn usual_weight() -> f64 {
    1.0
}

impl Pool {
    /// Why it cannot be, if so.
    #[must_use]
    pub fn finding(&self) -> Option<Finding> {
        let Self { name, processors, idle, .. } = self;
        (idle >= processors).then(|| {
            let reason =
                format!("the idle vCPUs of its guests take {idle:.2} processors, and it has {processors}");
            Finding::new(name, reason, "give it more processors, or its guests fewer vCPUs")
        })
    }
}

/// How often use of processors is sampled, and whose.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Usage {
    /// How often.
    pub every_ns: u64,
    /// Whose.
    pub of: Vec<Used>,
}

/// Whose use of processors is sampled.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Used {
    /// Its name in samples.
    pub entity: String,
    /// Places of the guests that are part of it, as long as they have not moved.
    pub guests: Vec<usize>,
    /// Places of guests that are part of it once they have moved.
    #[serde(default)]
    pub arrivals: Vec<usize>,
    /// Places of guests whose nodes and proxies of stores are part of it.
    #[serde(default)]
    pub peers: Vec<usize>,
    /// Places of the pools whose idle vCPUs are part of it, and what works in them beside guests.
    pub pools: Vec<usize>,
    /// By metric, the number of processors that counts as 1.
    pub metrics: BTreeMap<String, f64>,
}
