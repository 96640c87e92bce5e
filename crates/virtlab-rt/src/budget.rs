//! The least budget at a given period: `max_i min_{t,k} max(w/k + X, P - (t - w - kX)/(k + 1))`.
//!
//! More budget never hurts, so each point (t, w) has one least budget, and it lies where the falling term (windows long
//! enough) crosses the rising one (gaps short enough). For a polling server the second is `P - (t - w - P - kX)/k`.

use crate::edf::{self, Points};
use crate::error::{RtError, fits};
use crate::period::POINT_LIMIT;
use crate::rational::Rational;
use crate::supply::{Server, Supply};
use crate::task::TaskSet;

/// What is given when a budget is sought; whole ticks.
#[derive(Clone, Copy, Debug)]
pub struct Question {
    /// P.
    pub period: i128,
    /// X.
    pub overhead: i128,
    /// Kind of server.
    pub server: Server,
}

/// Least budget at which demand w is served within t; None when not even a whole CPU is enough.
///
/// # Errors
/// On overflow.
pub fn of_point(t: i128, w: i128, question: &Question) -> Result<Option<Rational>, RtError> {
    let Question { period, overhead: x, server } = *question;
    let (room, extra) = if server == Server::Polling { (t - w - period, 0) } else { (t - w, 1) };
    if room < x {
        return Ok(None);
    }
    let windows = |k: i128| Rational::new(fits(x.checked_mul(k), "a budget")? + w, k);
    let gaps = |k: i128| Rational::whole(period).minus(Rational::new(room - x * k, k + extra)?);
    let most = if x == 0 { i128::from(i64::MAX) } else { room / x };
    // First k whose gap term reaches the window term: doubling, then halving.
    let crosses = |k: i128| -> Result<bool, RtError> { Ok(gaps(k)? >= windows(k)?) };
    let mut high = 1;
    while high < most && !crosses(high)? {
        high = (high * 2).min(most);
    }
    let mut low = high / 2 + 1;
    let mut top = high;
    while low < top {
        let middle = low + (top - low) / 2;
        if crosses(middle)? { top = middle } else { low = middle + 1 }
    }
    let mut least = windows(top)?.max(gaps(top)?);
    if top > 1 {
        least = least.min(windows(top - 1)?.max(gaps(top - 1)?));
    }
    Ok((least <= Rational::whole(period)).then_some(least))
}

/// Least budget under fixed priorities, and the first task that needs it; None when a whole CPU is not enough.
///
/// # Errors
/// Too many points, or overflow.
pub fn fixed_priority(set: &TaskSet, question: &Question) -> Result<Option<(Rational, usize)>, RtError> {
    set.within_reach(1)?;
    let mut most: Option<(Rational, usize)> = None;
    for index in 0..set.len() {
        let mut least: Option<Rational> = None;
        for (t, w) in set.pairs(index, POINT_LIMIT)? {
            if let Some(budget) = of_point(t, w, question)? {
                least = Some(least.map_or(budget, |kept| kept.min(budget)));
            }
        }
        let Some(least) = least else { return Ok(None) };
        if most.is_none_or(|(kept, _)| least > kept) {
            most = Some((least, index));
        }
    }
    Ok(most)
}

/// Least budget under EDF, and the first task with a deadline at the point that needs it.
///
/// # Errors
/// As [`fixed_priority`].
pub fn earliest_deadline(set: &TaskSet, question: &Question) -> Result<Option<(Rational, usize)>, RtError> {
    let mut most: Option<(Rational, i128)> = None;
    for (number, (t, w)) in Points::new(set).enumerate() {
        if let Some((budget, _)) = most {
            let (factor, supply) = Supply::rational(
                Rational::whole(question.period),
                budget,
                Rational::whole(question.overhead),
                question.server,
            )?;
            if edf::horizon(&set.scaled(factor)?, &supply) / (factor as f64) < t as f64 {
                break;
            }
        }
        if number >= POINT_LIMIT {
            return Err(RtError::TooMany {
                what: "the EDF budget",
                limit: POINT_LIMIT as u64,
                cure: "periods lie too far apart",
            });
        }
        let Some(budget) = of_point(t, w, question)? else { return Ok(None) };
        if most.is_none_or(|(kept, _)| budget > kept) {
            most = Some((budget, t));
        }
    }
    Ok(most.map(|(budget, t)| {
        let owner = set.tasks().iter().position(|task| {
            let after = t - task.window();
            after >= 0 && after % i128::from(task.period) == 0
        });
        (budget, owner.unwrap_or(0))
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixed;
    use crate::task::Task;
    use proptest::prelude::*;

    #[test]
    fn the_worked_example_needs_a_little_less_than_three_in_six() {
        let set = TaskSet::new(vec![Task::implicit(8, 1), Task::implicit(15, 3)]).unwrap();
        let (least, critical) =
            fixed_priority(&set, &Question { period: 6, overhead: 0, server: Server::Periodic })
                .unwrap()
                .unwrap();
        assert_eq!((least, critical), (Rational::new(8, 3).unwrap(), 1));
    }

    proptest! {
        #[test]
        fn the_least_budget_is_safe_and_anything_below_is_not(
            tasks in prop::collection::vec((4i64..60, 1i64..6), 1..4), period in 2i128..20, overhead in 0i128..3, polling: bool,
        ) {
            let mut tasks: Vec<Task> = tasks.into_iter().map(|(t, c)| Task::implicit(t, c.min(t))).collect();
            tasks.sort_by_key(|task| task.period);
            let set = TaskSet::new(tasks).unwrap();
            let server = if polling { Server::Polling } else { Server::Periodic };
            let question = Question { period, overhead, server };
            let answer = fixed_priority(&set, &question).unwrap();
            let safe = |budget: Rational| {
                let Ok((factor, supply)) = Supply::rational(Rational::whole(period), budget, Rational::whole(overhead), server)
                else { return false };
                fixed::schedulable(&set.scaled(factor).unwrap(), &supply).unwrap()
            };
            match answer {
                Some((least, _)) => {
                    prop_assert!(safe(least));
                    prop_assert!(!safe(least.minus(Rational::new(1, 1_000_003).unwrap()).unwrap()));
                }
                None => prop_assert!(!safe(Rational::whole(period))),
            }
        }
    }
}
