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

/// Command-line options.
#[derive(clap::Args)]
pub struct Options {}

/// What to run. Times in ns.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Request {
    /// The guest's period P.
    period_ns: u64,
    /// Its budget B.
    budget_ns: u64,
    /// `deadline`: SCHED_DEADLINE; `quota`: the caller put this process into a cgroup with the quota.
    by: By,
    /// Tasks, highest priority first.
    #[serde(default)]
    tasks: Vec<Task>,
    /// Releases of all tasks together, each at a phase of the guest's period.
    #[serde(default)]
    episodes: Vec<Episode>,
    /// How long an episode releases jobs.
    #[serde(default)]
    episode_ns: u64,
    /// Without episodes: how long to measure the bare supply.
    #[serde(default)]
    duration_ns: u64,
    /// Other reservations that fill the machine.
    #[serde(default)]
    competitors: Vec<Competitor>,
    /// A time between two looks at the clock that counts as not having run.
    #[serde(default = "default_gap_ns")]
    gap_ns: u64,
}

const fn default_gap_ns() -> u64 {
    5_000
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
enum By {
    Deadline,
    Quota,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Task {
    period_ns: u64,
    wcet_ns: u64,
    deadline_ns: u64,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Episode {
    phase_ns: u64,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Competitor {
    period_ns: u64,
    budget_ns: u64,
}

/// What happened; instants on CLOCK_MONOTONIC.
#[derive(Debug, Serialize)]
struct Reply {
    /// When the first period began.
    origin_ns: u64,
    /// When the guest had the CPU: start, end.
    windows: Vec<[u64; 2]>,
    /// Per period: first instant, last instant, time that reached the tasks, CPU time charged.
    cycles: Vec<[u64; 4]>,
    /// Per job: episode, task, release, finish (0: unfinished), time executed.
    jobs: Vec<[u64; 5]>,
    /// CPU time charged while the guest saw none: interrupts, starts, and what a machine below took.
    lost_ns: u64,
    /// How long the guest ran, in all.
    served_ns: u64,
    /// The longest single time charged but not seen.
    longest_loss_ns: u64,
}

#[derive(Debug, Serialize)]
struct Refusal {
    call: &'static str,
    errno: i32,
    name: String,
    what: String,
}

/// Runs one request.
pub fn main(_options: Options) -> anyhow::Result<()> {
    let mut text = String::new();
    std::io::stdin().take(16 << 20).read_to_string(&mut text).context("cannot read the request")?;
    let request: Request = serde_json::from_str(&text).context("the request is not understood")?;
    match guest::run(&request) {
        Ok(reply) => println!("{}", serde_json::json!({ "ok": reply })),
        Err(refusal) => println!("{}", serde_json::json!({ "refused": refusal })),
    }
    Ok(())
}
