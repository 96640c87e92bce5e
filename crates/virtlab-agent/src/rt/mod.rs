//! The rt role: a one-vCPU guest emulated by a thread that owns a CPU budget, its tasks inside under fixed priorities.
//!
//! A request (JSON on standard input) names the budget and period, the tasks by priority and the episodes to play; the
//! reply (JSON on standard output) holds what happened: when the guest had the CPU, what each period brought, when each
//! job was released and finished. Nothing is judged here. No descriptor besides the three standard ones is used.

mod guest;
mod reservation;

use anyhow::Context;
use serde::{Deserialize, Serialize};
use std::io::Read;

pub use guest::run;

/// Command-line options.
#[derive(clap::Args)]
pub struct Options {}

/// What to run. Times in ns.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// The guest's period P.
    pub period_ns: u64,
    /// Its budget B.
    pub budget_ns: u64,
    /// `deadline`: SCHED_DEADLINE; `quota`: the caller put this process into a cgroup with the quota.
    pub by: By,
    /// Tasks, highest priority first.
    #[serde(default)]
    pub tasks: Vec<Task>,
    /// Releases of all tasks together, each at a phase of the guest's period.
    #[serde(default)]
    pub episodes: Vec<Episode>,
    /// How long an episode releases jobs.
    #[serde(default)]
    pub episode_ns: u64,
    /// Without episodes: how long to measure the bare supply.
    #[serde(default)]
    pub duration_ns: u64,
    /// When everything ends at the latest, on CLOCK_MONOTONIC; episodes that are under way are cut.
    #[serde(default)]
    pub until_ns: Option<u64>,
    /// Other reservations that fill the machine.
    #[serde(default)]
    pub competitors: Vec<Competitor>,
    /// A time between two looks at the clock that counts as not having run.
    #[serde(default = "default_gap_ns")]
    pub gap_ns: u64,
}

const fn default_gap_ns() -> u64 {
    5_000
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum By {
    Deadline,
    Quota,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Task {
    pub period_ns: u64,
    pub wcet_ns: u64,
    pub deadline_ns: u64,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Episode {
    pub phase_ns: u64,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Competitor {
    pub period_ns: u64,
    pub budget_ns: u64,
}

/// What happened; instants on CLOCK_MONOTONIC.
#[derive(Debug, Serialize)]
pub struct Reply {
    /// When the first period began.
    pub origin_ns: u64,
    /// When the guest had the CPU: start, end.
    pub windows: Vec<[u64; 2]>,
    /// Per period: first instant, last instant, time that reached the tasks, CPU time charged.
    pub cycles: Vec<[u64; 4]>,
    /// Per job: episode, task, release, finish (0: unfinished), time executed, when it first ran (0: never).
    pub jobs: Vec<[u64; 6]>,
    /// CPU time charged while the guest saw none: interrupts, starts, and what a machine below took.
    pub lost_ns: u64,
    /// How long the guest ran, in all.
    pub served_ns: u64,
    /// The longest single time charged but not seen.
    pub longest_loss_ns: u64,
}

#[derive(Debug, Serialize)]
pub struct Refusal {
    pub call: &'static str,
    pub errno: i32,
    pub name: String,
    pub what: String,
}

/// Runs one request.
pub fn main(_options: Options) -> anyhow::Result<()> {
    let mut text = String::new();
    std::io::stdin().take(16 << 20).read_to_string(&mut text).context("cannot read the request")?;
    let request: Request = serde_json::from_str(&text).context("the request is not understood")?;
    match guest::run(&request, &std::sync::atomic::AtomicBool::new(false)) {
        Ok(reply) => println!("{}", serde_json::json!({ "ok": reply })),
        Err(refusal) => println!("{}", serde_json::json!({ "refused": refusal })),
    }
    Ok(())
}
