//! How far each number can move before a deadline breaks: exact, in both directions.
//!
//! With supply(t) known, task h is safe while at some of its points `supply(t) >= w_h(t)`. Adding d to C_i adds
//! `n_i(t) d` (n_i jobs by t), so the largest d is `min_h max_t (supply(t) - w_h(t)) / n_i(t)`: negative where the set
//! is unsafe and C_i has to shrink. A factor on all execution times is `min_h max_t (supply(t) - b_h)/(w_h(t) - b_h)`.
//! EDF: the minimum over all points in place of the maximum.

use crate::edf::{self, Points};
use crate::error::{RtError, fits};
use crate::period::POINT_LIMIT;
use crate::rational::Rational;
use crate::supply::{Server, Supply};
use crate::task::{DEMAND_LIMIT, TaskSet, jobs};

/// What can grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grown {
    /// One task's execution time, by an absolute amount.
    Wcet(usize),
    /// All execution times, by a factor.
    AllWcet,
    /// The overhead per start, up to an absolute value.
    Overhead,
}

/// The limit of `grown` (amount, factor or value), and the task that then breaks. None: nothing makes the set safe.
///
/// # Errors
/// Too many points, or overflow.
pub fn limit(
    set: &TaskSet,
    supply: &Supply,
    server: Server,
    grown: Grown,
    by_edf: bool,
) -> Result<Option<(Rational, usize)>, RtError> {
    if by_edf { edf_limit(set, supply, server, grown) } else { fixed_limit(set, supply, server, grown) }
}

/// The largest change at one point: demand w by t, of which `count` jobs are grown and `fixed` does not scale.
fn at_point(
    supply: &Supply,
    server: Server,
    grown: Grown,
    t: i128,
    w: i128,
    count: i128,
    fixed: i128,
) -> Result<Option<Rational>, RtError> {
    match grown {
        Grown::Wcet(_) if count == 0 => Ok(None),
        Grown::Wcet(_) => Rational::new(supply.supplied_by(t) - w, count).map(Some),
        Grown::AllWcet => Rational::new((supply.supplied_by(t) - fixed).max(0), w - fixed).map(Some),
        Grown::Overhead => overhead_at_point(supply, server, t, w),
    }
}

/// Largest X at a point: `max_k min(B - w/k, (t - w - lead)/k - (P - B))`; the first rises with k, the second falls.
fn overhead_at_point(supply: &Supply, server: Server, t: i128, w: i128) -> Result<Option<Rational>, RtError> {
    let (period, budget) = (supply.period(), supply.budget());
    let lead = if server == Server::Polling { period } else { period - budget };
    let room = t - w - lead;
    let windows = |k: i128| Rational::whole(budget).minus(Rational::new(w, k)?);
    let gaps = |k: i128| Rational::new(room, k)?.minus(Rational::whole(period - budget));
    if room < 0 {
        return Ok(None);
    }
    let (mut low, mut high) = (1, fits(w.checked_add(room), "the number of windows")?.max(1));
    while low < high {
        let middle = low + (high - low) / 2;
        if windows(middle)? >= gaps(middle)? { high = middle } else { low = middle + 1 }
    }
    let mut best = windows(low)?.min(gaps(low)?);
    if low > 1 {
        best = best.max(windows(low - 1)?.min(gaps(low - 1)?));
    }
    Ok(Some(best))
}

fn fixed_limit(
    set: &TaskSet,
    supply: &Supply,
    server: Server,
    grown: Grown,
) -> Result<Option<(Rational, usize)>, RtError> {
    set.within_reach(set.len() as u128 + 2)?; // each of the tasks is asked about, and two more things
    let mut least: Option<(Rational, usize)> = None;
    for index in 0..set.len() {
        if matches!(grown, Grown::Wcet(which) if which > index) {
            if crate::fixed::window(set, index, supply, set.tasks()[index].window())?.is_none() {
                return Ok(None); // unsafe whatever the grown task does
            }
            continue;
        }
        let mut most: Option<Rational> = None;
        for t in set.points(index, POINT_LIMIT)? {
            let count = match grown {
                Grown::Wcet(which) if which == index => 1,
                Grown::Wcet(which) => jobs(&set.tasks()[which], t),
                _ => 0,
            };
            let blocking = i128::from(set.tasks()[index].blocking);
            if let Some(change) = at_point(supply, server, grown, t, set.demand(index, t), count, blocking)? {
                most = Some(most.map_or(change, |kept| kept.max(change)));
            }
        }
        let Some(most) = most else { return Ok(None) };
        if least.is_none_or(|(kept, _)| most < kept) {
            least = Some((most, index));
        }
    }
    Ok(least)
}

fn edf_limit(
    set: &TaskSet,
    supply: &Supply,
    server: Server,
    grown: Grown,
) -> Result<Option<(Rational, usize)>, RtError> {
    let mut least: Option<(Rational, i128)> = None;
    let repeats = edf::repetition(set, supply);
    if let (Some(common), Some(_)) = (edf::hyperperiod(set), repeats) {
        // The long run: one hyperperiod's work within its share of the supply.
        let used = Rational::new(edf::work(set, common), common)?;
        let share = Rational::new(supply.effective(), supply.period())?;
        let change = match grown {
            Grown::Wcet(which) => {
                share.minus(used)?.times(Rational::whole(i128::from(set.tasks()[which].period)))?
            }
            Grown::AllWcet => share.over(used)?,
            Grown::Overhead => {
                Rational::whole(supply.budget()).minus(used.times(Rational::whole(supply.period()))?)?
            }
        };
        least = Some((change, common));
    }
    let tasks = set.len() as u128;
    let most = (DEMAND_LIMIT / (tasks * (tasks + 2))).min(POINT_LIMIT as u128) as usize;
    for (number, (t, w)) in Points::new(set).enumerate() {
        if repeats.is_some_and(|end| t > end) {
            break;
        }
        if number > 0 && least.is_some_and(|(kept, _)| edf_horizon(set, supply, grown, kept) < t as f64) {
            break;
        }
        if number >= most {
            return Err(RtError::TooMany {
                what: "the EDF sensitivity",
                limit: most as u64,
                cure: "periods lie too far apart, or there are too many tasks",
            });
        }
        let within = |task: &crate::task::Task| {
            let after = t - task.window();
            if after < 0 { 0 } else { after / i128::from(task.period) + 1 }
        };
        let count = if let Grown::Wcet(which) = grown { within(&set.tasks()[which]) } else { 0 };
        let fixed = w - set.tasks().iter().map(|task| within(task) * i128::from(task.wcet)).sum::<i128>();
        let change = at_point(supply, server, grown, t, w, count, fixed)?;
        match change {
            Some(change) if least.is_none_or(|(kept, _)| change < kept) => least = Some((change, t)),
            None if grown == Grown::Overhead => return Ok(None),
            // A point without jobs of the grown task must hold by itself.
            None if supply.supplied_by(t) < w => return Ok(None),
            _ => {}
        }
    }
    Ok(least.map(|(change, t)| {
        let owner = set.tasks().iter().position(|task| {
            let after = t - task.window();
            after >= 0 && after % i128::from(task.period) == 0
        });
        (change, owner.unwrap_or(0))
    }))
}

/// The horizon once the set (or the overhead) has changed by the amount found so far.
fn edf_horizon(set: &TaskSet, supply: &Supply, grown: Grown, change: Rational) -> f64 {
    let change = change.to_f64();
    let mut used = set.utilisation_bounds().1.to_f64();
    let mut intercept = edf::intercept(set);
    let mut effective = supply.effective() as f64;
    let mut blackout = supply.blackout() as f64;
    match grown {
        Grown::Wcet(which) => {
            let task = &set.tasks()[which];
            if change <= -task.wcet as f64 {
                return 0.0; // not even an execution time of zero is enough: later points only say so more clearly
            }
            used += change / task.period as f64;
            intercept += change * (task.period + task.jitter - task.deadline) as f64 / task.period as f64;
        }
        Grown::AllWcet => {
            used *= change;
            intercept *= change.max(1.0);
        }
        Grown::Overhead => {
            effective = supply.budget() as f64 - change;
            blackout += (change - (supply.budget() - supply.effective()) as f64).max(0.0);
        }
    }
    let share = effective / supply.period() as f64;
    if share - used <= 1e-12 {
        return f64::INFINITY;
    }
    (intercept + share * blackout) / (share - used) * (1.0 + 1e-6) + 2.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixed;
    use crate::task::Task;
    use proptest::prelude::*;

    fn safe(set: &TaskSet, supply: &Supply, by_edf: bool) -> bool {
        if by_edf {
            matches!(edf::failure(set, supply), Ok(None))
        } else {
            fixed::schedulable(set, supply).unwrap()
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(120))]
        #[test]
        fn at_the_limit_the_set_is_safe_and_just_beyond_it_is_not(
            raw in prop::collection::vec((8i64..40, 1i64..4), 1..4), period in 2i128..9, budget in 1i128..9, by_edf: bool, pick in 0usize..3,
        ) {
            prop_assume!(budget <= period);
            let mut tasks: Vec<Task> = raw.iter().map(|(t, c)| Task::implicit(*t, *c)).collect();
            tasks.sort_by_key(|task| task.period);
            let set = TaskSet::new(tasks).unwrap();
            let pick = pick % set.len();
            let supply = Supply::new(period, budget, 0, Server::Periodic).unwrap();
            if let Some((change, _)) = limit(&set, &supply, Server::Periodic, Grown::Wcet(pick), by_edf).unwrap() {
                let fine = 1009;
                let factor = change.den() * fine;
                let supply = Supply::new(period * factor, budget * factor, 0, Server::Periodic).unwrap();
                let grown = |extra: i128| {
                    let mut tasks = set.scaled(factor).unwrap().tasks().to_vec();
                    tasks[pick].wcet += i64::try_from(change.num() * fine + extra).unwrap();
                    TaskSet::new(tasks)
                };
                if let Ok(at) = grown(0) { prop_assert!(safe(&at, &supply, by_edf)); }
                if let Ok(beyond) = grown(1) { prop_assert!(!safe(&beyond, &supply, by_edf)); }
            }
            if let Some((most, _)) = limit(&set, &supply, Server::Periodic, Grown::Overhead, by_edf).unwrap() {
                let fine = 1009;
                let factor = most.den() * fine;
                let set = set.scaled(factor).unwrap();
                let with = |extra: i128| Supply::new(period * factor, budget * factor, most.num() * fine + extra, Server::Periodic);
                if let Ok(at) = with(0) { prop_assert!(safe(&set, &at, by_edf)); }
                if let Ok(beyond) = with(1) { prop_assert!(!safe(&set, &beyond, by_edf)); }
            }
        }
    }
}
