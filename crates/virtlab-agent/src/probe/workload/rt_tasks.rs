//! `rt_tasks`: hard-deadline tasks inside this guest, under a CPU budget each period; it talks to nobody.
//!
//! The executive is the agent's rt role. All tasks are released together, once per episode, at several phases of the
//! guest's period, the last of them just after the budget is gone. Afterwards the supply is held against what the proof
//! assumes: in no interval less than supply(t) with E = B - X. A supply that broke taints the role.

use super::{Arming, Prepared, Side, StandBy, Workload, parse};
use crate::clock;
use crate::probe::pacing::{Pacer, Pacing};
use crate::probe::parameters::positive;
use crate::probe::report::Report;
use crate::probe::run::Run;
use crate::probe::spool::{RtJobRow, RtSupplyRow, Spool};
use crate::rt;
use anyhow::{bail, ensure};
use serde::Deserialize;

const GAP_NS: u64 = 5_000;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Task {
    name: String,
    period_ns: u64,
    wcet_ns: u64,
    deadline_ns: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Policy {
    /// The shorter period first.
    Rm,
    /// The shorter deadline first.
    Dm,
    /// As listed.
    Given,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Parameters {
    tasks: Vec<Task>,
    period_ns: u64,
    budget_ns: u64,
    #[serde(default)]
    overhead_ns: u64,
    policy: Policy,
    server: rt::By,
    #[serde(default)]
    competitors: Vec<rt::Competitor>,
    phases: u64,
    duration_ns: u64,
}

/// Prepares the guest's end; the other end of a role does nothing.
pub fn prepare(arming: Arming<'_>) -> anyhow::Result<Prepared> {
    if arming.side == Side::Server {
        return Ok(Prepared::fixed(StandBy));
    }
    let parameters: Parameters = parse(arming.own.clone())?;
    positive("period_ns", parameters.period_ns)?;
    positive("duration_ns", parameters.duration_ns)?;
    positive("phases", parameters.phases)?;
    ensure!(!parameters.tasks.is_empty(), "parameters.tasks holds no task");
    ensure!(
        parameters.overhead_ns < parameters.budget_ns && parameters.budget_ns <= parameters.period_ns,
        "parameters: the budget must be more than the overhead and at most the period"
    );
    for task in &parameters.tasks {
        if task.wcet_ns == 0 || task.wcet_ns > task.deadline_ns || task.deadline_ns > task.period_ns {
            bail!("parameters.tasks: {}: 0 < wcet <= deadline <= period does not hold", task.name);
        }
    }
    Ok(Prepared::fixed(Guest { parameters }))
}

struct Guest {
    parameters: Parameters,
}

impl Guest {
    /// Places of the tasks in the list, highest priority first; of equals, the earlier listed.
    fn order(&self) -> Vec<usize> {
        let tasks = &self.parameters.tasks;
        let mut order: Vec<usize> = (0..tasks.len()).collect();
        match self.parameters.policy {
            Policy::Rm => order.sort_by_key(|place| tasks[*place].period_ns),
            Policy::Dm => order.sort_by_key(|place| tasks[*place].deadline_ns),
            Policy::Given => {}
        }
        order
    }

    fn request(&self, order: &[usize]) -> rt::Request {
        let Parameters { tasks, period_ns, budget_ns, phases, duration_ns, .. } = &self.parameters;
        let episode_ns = 2 * tasks.iter().map(|task| task.period_ns).max().unwrap_or(0);
        let episodes = (duration_ns / (episode_ns + 3 * period_ns)).max(1);
        let even = phases.saturating_sub(1).max(1);
        let mut points: Vec<u64> = (0..even).map(|index| period_ns * index / even).collect();
        points.push(*budget_ns);
        rt::Request {
            period_ns: *period_ns,
            budget_ns: *budget_ns,
            by: self.parameters.server,
            tasks: order
                .iter()
                .map(|place| &tasks[*place])
                .map(|task| rt::Task {
                    period_ns: task.period_ns,
                    wcet_ns: task.wcet_ns,
                    deadline_ns: task.deadline_ns,
                })
                .collect(),
            episodes: (0..episodes as usize)
                .map(|index| rt::Episode { phase_ns: points[index % points.len()] })
                .collect(),
            episode_ns,
            duration_ns: 0,
            until_ns: Some(clock::monotonic().0 + duration_ns),
            competitors: self.parameters.competitors.clone(),
            gap_ns: GAP_NS,
        }
    }

    fn record(&self, run: &Run, order: &[usize], reply: &rt::Reply, report: &mut Report) {
        // Instants are reported on the raw clock, lengths as measured.
        let offset = clock::raw().0 as i64 - clock::monotonic().0 as i64;
        let instant = |at: u64| if at == 0 { -1 } else { at as i64 + offset };
        let tasks = &self.parameters.tasks;
        let mut jobs = Spool::new(&run.budget);
        let (mut missed, mut unfinished) = (0, 0);
        for [episode, place, release, finish, executed, start] in &reply.jobs {
            let task = order[*place as usize];
            let response = if *finish == 0 { -1 } else { (finish - release) as i64 };
            let miss = response < 0 || response as u64 > tasks[task].deadline_ns;
            missed += u64::from(miss);
            unfinished += u64::from(response < 0);
            jobs.push(RtJobRow {
                task: task as i32,
                episode: *episode as i32,
                release_ns: instant(*release),
                start_ns: instant(*start),
                finish_ns: instant(*finish),
                response_ns: response,
                executed_ns: *executed as i64,
                missed: i32::from(miss),
            });
        }
        let mut supply = Spool::new(&run.budget);
        // The first period was cut by its own beginning.
        for [begin, end, served, charged] in reply.cycles.iter().skip(1) {
            supply.push(RtSupplyRow {
                begin_ns: instant(*begin),
                end_ns: instant(*end),
                served_ns: *served as i64,
                charged_ns: *charged as i64,
            });
        }
        report.add("jobs", reply.jobs.len() as u64);
        report.add("missed_jobs", missed);
        report.add("unfinished_jobs", unfinished);
        report.add("served_ns", reply.served_ns);
        report.add("lost_ns", reply.lost_ns);
        report.table(jobs);
        report.table(supply);
    }
}

impl Workload for Guest {
    fn run(self: Box<Self>, run: &Run) -> Report {
        let mut report = Report::default();
        if run.wait_for_start(Pacer::new(Pacing::Sleep)).is_none() {
            return report;
        }
        let order = self.order();
        let reply = match rt::run(&self.request(&order), &run.stop) {
            Ok(reply) => reply,
            Err(refusal) => {
                report.failure = Some(format!("{}: {} ({})", refusal.call, refusal.what, refusal.name));
                return report;
            }
        };
        self.record(run, &order, &reply, &mut report);
        let Parameters { period_ns, budget_ns, overhead_ns, .. } = self.parameters;
        let longest = self.parameters.tasks.iter().map(|task| task.deadline_ns).max().unwrap_or(0);
        let short = shortfall_ns(&reply.windows, period_ns, budget_ns, overhead_ns, longest + period_ns);
        report.add("shortfall_ns", short);
        if short > 0 {
            report.taints.push(format!(
                "supply_broken: an interval brought {short} ns less than budget and overhead promise; \
                 the run says nothing of the bounds"
            ));
        }
        report.complete = !run.stopped();
        report
    }
}

/// How much the worst interval up to `horizon_ns` fell short of the supply with E = B - X each period; 0: kept. The worst
/// intervals begin with the end of a window and end with the beginning of a later one.
fn shortfall_ns(windows: &[[u64; 2]], period: u64, budget: u64, overhead: u64, horizon_ns: u64) -> u64 {
    let effective = budget - overhead;
    let gap = period - budget + overhead;
    let blackout = period - budget + gap;
    let mut worst = 0;
    for (first, [_, from]) in windows.iter().enumerate() {
        let mut got = 0;
        for [start, end] in &windows[first + 1..] {
            let length = start - from;
            if length > horizon_ns {
                break;
            }
            let after = length.saturating_sub(blackout);
            let due = after / period * effective + (after % period).min(effective);
            worst = worst.max(due.saturating_sub(got));
            got += end - start;
        }
    }
    worst
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exact(periods: u64) -> Vec<[u64; 2]> {
        (0..periods).map(|k| [10 * k, 10 * k + 4]).collect()
    }

    #[test]
    fn a_supply_as_promised_is_kept_and_one_cut_is_short_by_the_cut() {
        assert_eq!(shortfall_ns(&exact(9), 10, 4, 0, 60), 0);
        let mut cut = exact(9);
        cut[4][1] -= 1;
        assert_eq!(shortfall_ns(&cut, 10, 4, 0, 60), 1);
        assert_eq!(shortfall_ns(&cut, 10, 4, 1, 60), 0);
    }

    #[test]
    fn the_worst_allowed_placement_of_budgets_is_no_shortfall() {
        // First budget early, all later ones late: the model's worst case.
        let mut windows = vec![[0, 3]];
        windows.extend((1..30).map(|k| [6 * k + 3, 6 * k + 6]));
        assert_eq!(shortfall_ns(&windows, 6, 3, 0, 100), 0);
    }

    #[test]
    fn a_missing_period_is_a_shortfall_of_its_budget() {
        let mut windows = exact(12);
        windows.remove(6);
        assert_eq!(shortfall_ns(&windows, 10, 4, 0, 60), 4);
    }
}
