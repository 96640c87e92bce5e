//! Response times under fixed priorities inside a virtual CPU.
//!
//! `R_i = J_i + t`, t the least fixed point of `t = f_inv(b_i + C_i + sum_{j<i} ceil((t + J_j)/T_j) C_j)`; the task is
//! safe iff `R_i <= D_i`. Only the first job after a critical instant needs a look because `R_i <= D_i <= T_i`; a value
//! beyond the deadline is the first job's, and says by how much it fails.

use crate::error::RtError;
use crate::supply::Supply;
use crate::task::TaskSet;

/// Why a task is safe: demand w by the scheduling point t is served in k windows,
/// `B >= w/k + X` and `P - B <= (t - w - kX)/(k + 1)` (for a polling server `P + k(P - B) + w + kX <= t`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Witness {
    /// The point by which it is served.
    pub t: i128,
    /// The demand.
    pub w: i128,
    /// The number of windows.
    pub k: i128,
}

/// What holds for one task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Response {
    /// Worst-case response time from the release without jitter; None: it grows beyond the limit looked at.
    pub wcrt: Option<i128>,
    /// The deadline it is held against.
    pub deadline: i128,
    /// Whether it always meets its deadline.
    pub safe: bool,
    /// The proof, for a safe task.
    pub witness: Option<Witness>,
}

/// How far beyond its deadline a response time is followed.
pub const FOLLOWED: i128 = 64;

/// Least fixed point of task `index`, given up above `limit`.
///
/// # Errors
/// On overflow.
pub fn window(set: &TaskSet, index: usize, supply: &Supply, limit: i128) -> Result<Option<i128>, RtError> {
    let mut t = supply.time_to_supply(set.demand(index, 1))?;
    while t <= limit {
        let next = supply.time_to_supply(set.demand(index, t))?;
        if next == t {
            return Ok(Some(t));
        }
        t = next;
    }
    Ok(None)
}

/// One task.
///
/// # Errors
/// On overflow.
pub fn response(set: &TaskSet, index: usize, supply: &Supply) -> Result<Response, RtError> {
    let task = &set.tasks()[index];
    let (deadline, jitter) = (i128::from(task.deadline), i128::from(task.jitter));
    let found = window(set, index, supply, deadline * FOLLOWED)?;
    let safe = found.is_some_and(|t| t <= task.window());
    let witness = found.filter(|_| safe).map(|t| {
        let w = set.demand(index, t);
        let point = set.tasks()[..index]
            .iter()
            .map(|other| crate::task::jobs(other, t) * i128::from(other.period) - i128::from(other.jitter))
            .fold(task.window(), i128::min);
        Witness { t: point, w, k: (w - 1) / supply.effective() + 1 }
    });
    Ok(Response { wcrt: found.map(|t| t + jitter), deadline, safe, witness })
}

/// All tasks, in the set's order.
///
/// # Errors
/// On overflow.
pub fn responses(set: &TaskSet, supply: &Supply) -> Result<Vec<Response>, RtError> {
    (0..set.len()).map(|index| response(set, index, supply)).collect()
}

/// Whether every task is safe.
///
/// # Errors
/// On overflow.
pub fn schedulable(set: &TaskSet, supply: &Supply) -> Result<bool, RtError> {
    for index in 0..set.len() {
        if window(set, index, supply, set.tasks()[index].window())?.is_none() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The critical task: the largest response time over deadline, the first of equals; one that is unsafe comes first.
#[must_use]
pub fn critical(responses: &[Response]) -> usize {
    let mut worst = 0;
    for (index, response) in responses.iter().enumerate().skip(1) {
        let (a, b) = (&responses[worst], response);
        let worse = match (a.wcrt, b.wcrt) {
            (None, _) => false,
            (_, None) => true,
            (Some(x), Some(y)) => y * a.deadline > x * b.deadline,
        };
        if worse {
            worst = index;
        }
    }
    worst
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::supply::Server;
    use crate::task::Task;

    #[test]
    fn the_worked_example_has_response_times_7_and_14() {
        let set = TaskSet::new(vec![Task::implicit(8, 1), Task::implicit(15, 3)]).unwrap();
        let supply = Supply::new(6, 3, 0, Server::Periodic).unwrap();
        let found: Vec<_> = responses(&set, &supply).unwrap().iter().map(|r| r.wcrt).collect();
        assert_eq!(found, [Some(7), Some(14)]);
    }

    #[test]
    fn a_response_time_at_the_deadline_is_safe_and_one_tick_later_is_not() {
        let supply = Supply::new(6, 3, 0, Server::Periodic).unwrap();
        let at = |deadline| {
            let task = Task { deadline, ..Task::implicit(15, 3) };
            let set = TaskSet::new(vec![Task::implicit(8, 1), task]).unwrap();
            response(&set, 1, &supply).unwrap()
        };
        assert!(at(14).safe);
        assert!(!at(13).safe);
        assert_eq!(at(13).wcrt, Some(14));
    }

    #[test]
    fn jitter_and_blocking_lengthen_the_wait() {
        let supply = Supply::new(6, 3, 0, Server::Periodic).unwrap();
        let jitter =
            TaskSet::new(vec![Task { jitter: 2, ..Task::implicit(8, 1) }, Task::implicit(15, 3)]).unwrap();
        assert_eq!(response(&jitter, 0, &supply).unwrap().wcrt, Some(9));
        let blocked = TaskSet::new(vec![Task { blocking: 3, ..Task::implicit(14, 1) }]).unwrap();
        assert_eq!(response(&blocked, 0, &supply).unwrap().wcrt, Some(13));
    }
}
