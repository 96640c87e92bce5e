//! `rt_tasks`: hard-deadline tasks in a guest with a CPU budget each period, and whether the supply kept its promise.
//!
//! All tasks are released together, once per episode, at several points of the guest's period, the last of them
//! just after the budget is gone. What the proof assumes of the supply is that no interval brings less than
//! supply(t) with E = B - X.

use super::{OutOfRange, Role, positive};
use serde::Deserialize;

/// As a Plan calls it.
pub const NAME: &str = "rt_tasks";

/// One task.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Task {
    /// In the report.
    pub name: String,
    /// Between two releases.
    pub period_ns: u64,
    /// Processor time of a job.
    pub wcet_ns: u64,
    /// After the release, at most the period.
    pub deadline_ns: u64,
}

/// Priorities inside the guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Policy {
    /// The shorter period first.
    Rm,
    /// The shorter deadline first.
    Dm,
    /// As listed.
    Given,
}

/// What gives the budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Server {
    /// A reservation: budget and period, the earliest deadline first among several.
    Deadline,
    /// A quota of a control group.
    Quota,
}

/// Another reservation, which uses its budget up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Competitor {
    /// Its period.
    pub period_ns: u64,
    /// Its budget.
    pub budget_ns: u64,
}

/// A role's own parameters.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RtTasks {
    /// Played.
    pub tasks: Vec<Task>,
    /// Period of the guest's budget.
    pub period_ns: u64,
    /// Processor time of the guest each period.
    pub budget_ns: u64,
    /// The part of the budget that is lost at each start.
    pub overhead_ns: u64,
    /// Inside the guest.
    pub policy: Policy,
    /// Outside it.
    pub server: Server,
    /// Beside the guest.
    pub competitors: Vec<Competitor>,
    /// Points of the guest's period at which all tasks are released.
    pub phases: u64,
    /// How long it continues.
    pub duration_ns: u64,
}

impl Role for RtTasks {
    const NAME: &str = NAME;
}

impl RtTasks {
    /// What cannot be played.
    ///
    /// # Errors
    /// The first such parameter.
    pub fn check(&self) -> Result<(), OutOfRange> {
        positive("period_ns", self.period_ns)?;
        positive("duration_ns", self.duration_ns)?;
        positive("phases", self.phases)?;
        let refuse = |name, what: &'static str| Err(OutOfRange::new(name, what));
        if self.tasks.is_empty() {
            return refuse("tasks", "holds no task");
        }
        if self.overhead_ns >= self.budget_ns || self.budget_ns > self.period_ns {
            return refuse("budget_ns", "must be more than the overhead and at most the period");
        }
        let possible = |task: &Task| {
            0 < task.wcet_ns && task.wcet_ns <= task.deadline_ns && task.deadline_ns <= task.period_ns
        };
        if !self.tasks.iter().all(possible) {
            return refuse("tasks", "holds one without 0 < wcet <= deadline <= period");
        }
        if self.competitors.iter().any(|each| each.budget_ns > each.period_ns || each.budget_ns == 0) {
            return refuse("competitors", "holds one without 0 < budget <= period");
        }
        Ok(())
    }

    /// Places of the tasks in the list, highest priority first; of equals, the earlier listed.
    #[must_use]
    pub fn order(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.tasks.len()).collect();
        match self.policy {
            Policy::Rm => order.sort_by_key(|place| self.tasks[*place].period_ns),
            Policy::Dm => order.sort_by_key(|place| self.tasks[*place].deadline_ns),
            Policy::Given => {}
        }
        order
    }

    /// How long an episode releases jobs: two of the longest period.
    #[must_use]
    pub fn episode_ns(&self) -> u64 {
        2 * self.tasks.iter().map(|task| task.period_ns).max().unwrap_or(0)
    }

    /// At which point of the guest's period each episode begins.
    #[must_use]
    pub fn episodes(&self) -> Vec<u64> {
        let count = (self.duration_ns / (self.episode_ns() + 3 * self.period_ns)).max(1);
        let even = self.phases.saturating_sub(1).max(1);
        let mut points: Vec<u64> = (0..even).map(|index| self.period_ns * index / even).collect();
        points.push(self.budget_ns);
        (0..count as usize).map(|index| points[index % points.len()]).collect()
    }

    /// How much the worst interval of a supply fell short of what is promised; 0: kept. `windows`: when the tasks
    /// had the processor, in order.
    #[must_use]
    pub fn shortfall_ns(&self, windows: &[[u64; 2]]) -> u64 {
        let longest = self.tasks.iter().map(|task| task.deadline_ns).max().unwrap_or(0);
        shortfall_ns(windows, self.period_ns, self.budget_ns, self.overhead_ns, longest + self.period_ns)
    }
}

/// How much the worst interval up to `horizon_ns` fell short of the supply with E = B - X each period; 0: kept. The
/// worst intervals begin with the end of a window and end with the beginning of a later one.
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

    #[test]
    fn episodes_begin_at_even_points_of_the_period_and_when_the_budget_is_gone() {
        let task = Task { name: "a".to_owned(), period_ns: 20, wcet_ns: 1, deadline_ns: 20 };
        let role = RtTasks {
            tasks: vec![task],
            period_ns: 12,
            budget_ns: 5,
            overhead_ns: 0,
            policy: Policy::Rm,
            server: Server::Deadline,
            competitors: Vec::new(),
            phases: 4,
            duration_ns: 6 * (40 + 36),
        };
        assert_eq!(role.episodes(), [0, 4, 8, 5, 0, 4]);
    }
}
