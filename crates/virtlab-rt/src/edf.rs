//! Earliest deadline first inside a virtual CPU.
//!
//! Demand with deadline within t: `dbf(t) = sum_i (floor((t + J_i - D_i)/T_i) + 1) C_i` over tasks with
//! `t >= D_i - J_i`, plus the longest blocking of a task whose deadline lies within t. Safe iff `f_inv(dbf(t)) <= t` at
//! every step of dbf up to the horizon.

use crate::error::RtError;
use crate::fixed::{FOLLOWED, Response, Witness};
use crate::rational::Rational;
use crate::supply::Supply;
use crate::task::{Task, TaskSet, jobs};

/// Most demand points looked at.
pub const POINT_LIMIT: usize = 5_000_000;

/// Jobs of a task whose release (without jitter, at the earliest -J) and deadline both lie within t.
fn within(task: &Task, t: i128) -> i128 {
    let after = t - task.window();
    if after < 0 { 0 } else { after / i128::from(task.period) + 1 }
}

/// dbf(t), blocking included.
#[must_use]
pub fn demand(set: &TaskSet, t: i128) -> i128 {
    let mut blocking = 0;
    let mut sum = 0;
    for task in set.tasks() {
        let count = within(task, t);
        if count > 0 {
            blocking = blocking.max(i128::from(task.blocking));
            sum += count * i128::from(task.wcet);
        }
    }
    sum + blocking
}

/// The steps of dbf, ascending, with their demand; endless.
#[derive(Debug)]
pub struct Points<'a> {
    set: &'a TaskSet,
    next: Vec<i128>,
}

impl<'a> Points<'a> {
    /// From the first deadline on.
    #[must_use]
    pub fn new(set: &'a TaskSet) -> Self {
        Self { set, next: set.tasks().iter().map(Task::window).collect() }
    }
}

impl Iterator for Points<'_> {
    type Item = (i128, i128);

    fn next(&mut self) -> Option<(i128, i128)> {
        let t = *self.next.iter().min()?;
        for (at, task) in self.next.iter_mut().zip(self.set.tasks()) {
            if *at == t {
                *at += i128::from(task.period);
            }
        }
        Some((t, demand(self.set, t)))
    }
}

/// c of `dbf(t) <= U t + c`: `sum U_i max(0, T_i + J_i - D_i) + max b_i`.
#[must_use]
pub fn intercept(set: &TaskSet) -> f64 {
    let blocking = set.tasks().iter().map(|task| task.blocking).max().unwrap_or(0) as f64;
    set.tasks()
        .iter()
        .map(|task| {
            (task.period + task.jitter - task.deadline) as f64 * task.wcet as f64 / task.period as f64
        })
        .sum::<f64>()
        + blocking
}

/// Least common multiple of the periods, where it is below 2^60.
#[must_use]
pub fn hyperperiod(set: &TaskSet) -> Option<i128> {
    set.tasks().iter().try_fold(1i128, |common, task| {
        let period = i128::from(task.period);
        let multiple = common / crate::rational::gcd(common, period) * period;
        (multiple < 1 << 60).then_some(multiple)
    })
}

/// Where everything repeats: one common multiple of the tasks' and the supply's periods past the longest deadline.
/// Points beyond it add nothing if utilisation is at most the effective share.
#[must_use]
pub fn repetition(set: &TaskSet, supply: &Supply) -> Option<i128> {
    let common = hyperperiod(set)?;
    let multiple = common / crate::rational::gcd(common, supply.period());
    let all = multiple.checked_mul(supply.period()).filter(|all| *all < 1 << 60)?;
    Some(all + set.tasks().iter().map(|task| i128::from(task.deadline)).max().unwrap_or(0))
}

/// Work of one hyperperiod.
#[must_use]
pub fn work(set: &TaskSet, common: i128) -> i128 {
    set.tasks().iter().map(|task| common / i128::from(task.period) * i128::from(task.wcet)).sum()
}

/// Beyond it no demand point fails; infinite when utilisation reaches the effective share. Rounded up.
#[must_use]
pub fn horizon(set: &TaskSet, supply: &Supply) -> f64 {
    let share = supply.effective() as f64 / supply.period() as f64;
    let used = set.utilisation_bounds().1.to_f64();
    if share - used <= 1e-12 {
        let repeats = repetition(set, supply).zip(hyperperiod(set)).filter(|(_, common)| {
            let (used, given) = (
                Rational::new(work(set, *common), *common),
                Rational::new(supply.effective(), supply.period()),
            );
            matches!((used, given), (Ok(used), Ok(given)) if used <= given)
        });
        return repeats.map_or(f64::INFINITY, |(end, _)| end as f64 * (1.0 + 1e-6));
    }
    (intercept(set) + share * supply.blackout() as f64) / (share - used) * (1.0 + 1e-6) + 2.0
}

/// The first point that fails, or None when the set is safe. Demand of a full share or more always fails somewhere, so
/// a utilisation that reaches the effective share is looked at only until that point.
///
/// # Errors
/// When there are too many points to look at, or on overflow.
pub fn failure(set: &TaskSet, supply: &Supply) -> Result<Option<Witness>, RtError> {
    let end = horizon(set, supply);
    for (number, (t, w)) in Points::new(set).enumerate() {
        if t as f64 > end {
            return Ok(None);
        }
        if number >= POINT_LIMIT {
            break;
        }
        if supply.time_to_supply(w)? > t {
            return Ok(Some(Witness { t, w, k: (w - 1) / supply.effective() + 1 }));
        }
    }
    Err(RtError::TooMany {
        what: "the EDF test",
        limit: POINT_LIMIT as u64,
        cure: "the effective share lies too close to the utilisation, or periods too far apart",
    })
}

/// The point with the least time to spare relative to its length, and that time.
///
/// # Errors
/// As [`failure`].
pub fn tightest(set: &TaskSet, supply: &Supply) -> Result<(Witness, i128), RtError> {
    let end = horizon(set, supply);
    let mut worst: Option<(Witness, i128)> = None;
    for (number, (t, w)) in Points::new(set).enumerate() {
        if t as f64 > end && worst.is_some() {
            break;
        }
        let spare = t - supply.time_to_supply(w)?;
        let witness = Witness { t, w, k: (w - 1) / supply.effective() + 1 };
        if worst.is_none_or(|(kept, least)| (spare as f64) * (kept.t as f64) < (least as f64) * (t as f64)) {
            worst = Some((witness, spare));
        }
        if spare < 0 && end.is_infinite() {
            break;
        }
        if number >= POINT_LIMIT {
            return Err(RtError::TooMany {
                what: "the EDF test",
                limit: POINT_LIMIT as u64,
                cure: "the effective share lies too close to the utilisation, or periods too far apart",
            });
        }
    }
    worst.ok_or(RtError::Overflow("the EDF test"))
}

/// Worst-case response time of each task (Spuri's busy periods, under the least supply), whole-set safety and proof.
///
/// For a deadline d, jobs that can delay task i's job released at `x = d - D_i` are those visible in the busy period of
/// length L with deadlines up to d; `R_i = max over d of L - x`.
///
/// # Errors
/// As [`failure`].
pub fn responses(set: &TaskSet, supply: &Supply) -> Result<Vec<Response>, RtError> {
    let failed = failure(set, supply)?;
    let witness = if failed.is_none() { Some(tightest(set, supply)?.0) } else { None };
    let busy = busy_period(set, supply)?;
    let mut found = Vec::with_capacity(set.len());
    for (index, task) in set.tasks().iter().enumerate() {
        let deadline = i128::from(task.deadline);
        let wcrt = match busy {
            Some(length) => response(set, index, supply, length)?,
            None => None,
        };
        let safe = failed.is_none() || wcrt.is_some_and(|r| r <= deadline);
        found.push(Response { wcrt, deadline, safe, witness: witness.filter(|_| safe) });
    }
    Ok(found)
}

/// Longest busy period; None when it does not end within [`FOLLOWED`] times the longest deadline's thousandfold.
fn busy_period(set: &TaskSet, supply: &Supply) -> Result<Option<i128>, RtError> {
    let limit = set.tasks().iter().map(|task| i128::from(task.deadline)).max().unwrap_or(1) * FOLLOWED * 16;
    let blocking = set.tasks().iter().map(|task| i128::from(task.blocking)).max().unwrap_or(0);
    let mut length = 1;
    loop {
        let demand: i128 = set.tasks().iter().map(|task| jobs(task, length) * i128::from(task.wcet)).sum();
        let next = supply.time_to_supply(demand + blocking)?;
        if next == length {
            return Ok(Some(length));
        }
        if next > limit {
            return Ok(None);
        }
        length = next;
    }
}

fn response(set: &TaskSet, index: usize, supply: &Supply, busy: i128) -> Result<Option<i128>, RtError> {
    let own = &set.tasks()[index];
    let (deadline, jitter, period) =
        (i128::from(own.deadline), i128::from(own.jitter), i128::from(own.period));
    let mut worst = None;
    for (number, (d, _)) in Points::new(set).enumerate() {
        let x = d - deadline;
        if x >= busy {
            break;
        }
        if number >= POINT_LIMIT / 10 {
            return Err(RtError::TooMany {
                what: "the EDF response times",
                limit: POINT_LIMIT as u64 / 10,
                cure: "periods lie too far apart",
            });
        }
        if x < -jitter {
            continue;
        }
        let mine = ((x + jitter) / period + 1) * i128::from(own.wcet) + i128::from(own.blocking);
        let mut length = supply.time_to_supply(mine)?;
        loop {
            let others: i128 = set
                .tasks()
                .iter()
                .enumerate()
                .filter(|(other, _)| *other != index)
                .map(|(_, task)| within(task, d).min(jobs(task, length)) * i128::from(task.wcet))
                .sum();
            let next = supply.time_to_supply(mine + others)?;
            if next <= length {
                break;
            }
            length = next;
        }
        worst = worst.max(Some(length - x));
    }
    Ok(worst)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::supply::Server;

    #[test]
    fn the_step_before_a_failing_budget_is_safe() {
        let set = TaskSet::new(vec![Task::implicit(8, 1), Task::implicit(15, 3)]).unwrap();
        let safe =
            |budget| failure(&set, &Supply::new(6, budget, 0, Server::Periodic).unwrap()).unwrap().is_none();
        assert!(safe(3));
        assert!(!safe(2));
    }

    #[test]
    fn response_times_stay_within_deadlines_exactly_when_the_test_passes() {
        let set =
            TaskSet::new(vec![Task::implicit(8, 1), Task::implicit(15, 3), Task::implicit(20, 2)]).unwrap();
        for period in 1..12 {
            for budget in 1..=period {
                let supply = Supply::new(period, budget, 0, Server::Periodic).unwrap();
                let Ok(found) = responses(&set, &supply) else { continue };
                let all = found.iter().all(|r| r.wcrt.is_some_and(|w| w <= r.deadline));
                assert_eq!(all, failure(&set, &supply).unwrap().is_none(), "P {period} B {budget}");
            }
        }
    }
}
