//! Who goes first: rate monotonic, deadline monotonic, and Audsley's optimal assignment.

use crate::error::RtError;
use crate::fixed;
use crate::interval::IntervalSet;
use crate::period::{self, Question};
use crate::supply::Supply;
use crate::task::TaskSet;

/// Places by ascending period; equal periods keep their order.
#[must_use]
pub fn rate_monotonic(set: &TaskSet) -> Vec<usize> {
    sorted(set, |task| i128::from(task.period))
}

/// Places by ascending deadline less jitter (optimal for `D <= T` without blocking); equals keep their order.
#[must_use]
pub fn deadline_monotonic(set: &TaskSet) -> Vec<usize> {
    sorted(set, crate::task::Task::window)
}

fn sorted(set: &TaskSet, key: impl Fn(&crate::task::Task) -> i128) -> Vec<usize> {
    let mut order: Vec<usize> = (0..set.len()).collect();
    order.sort_by_key(|index| key(&set.tasks()[*index]));
    order
}

/// The set in another order.
///
/// # Errors
/// Never for a permutation.
pub fn reordered(set: &TaskSet, order: &[usize]) -> Result<TaskSet, RtError> {
    TaskSet::new(order.iter().map(|index| set.tasks()[*index]).collect())
}

/// Audsley's assignment at a given supply: an order in which all are safe (highest first), or None if none exists.
///
/// # Errors
/// On overflow.
pub fn audsley(set: &TaskSet, supply: &Supply) -> Result<Option<Vec<usize>>, RtError> {
    let mut rest = deadline_monotonic(set);
    let mut order = Vec::with_capacity(rest.len());
    while !rest.is_empty() {
        let mut placed = None;
        for (place, index) in rest.iter().enumerate().rev() {
            let mut trial: Vec<usize> = rest.iter().copied().filter(|other| other != index).collect();
            trial.push(*index);
            let trial = reordered(set, &trial)?;
            let last = trial.len() - 1;
            if fixed::window(&trial, last, supply, trial.tasks()[last].window())?.is_some() {
                placed = Some(place);
                break;
            }
        }
        let Some(place) = placed else { return Ok(None) };
        order.push(rest.remove(place));
    }
    order.reverse();
    Ok(Some(order))
}

/// The periods at which some order is safe: at each period any task that is safe in the last place may take it.
///
/// # Errors
/// As [`period::of_task`].
pub fn audsley_periods(set: &TaskSet, question: &Question) -> Result<IntervalSet, RtError> {
    place(set, &deadline_monotonic(set), question, None)
}

fn place(
    set: &TaskSet,
    rest: &[usize],
    question: &Question,
    region: Option<IntervalSet>,
) -> Result<IntervalSet, RtError> {
    let mut parts = Vec::new();
    let mut left = region;
    for index in rest.iter().rev() {
        let higher: Vec<usize> = rest.iter().copied().filter(|other| other != index).collect();
        let mut trial = higher.clone();
        trial.push(*index);
        let safe_last = period::of_task(&reordered(set, &trial)?, trial.len() - 1, question)?;
        let here = left.as_ref().map_or_else(|| safe_last.clone(), |region| region.intersection(&safe_last));
        if here.is_empty() {
            continue;
        }
        let found =
            if higher.is_empty() { here.clone() } else { place(set, &higher, question, Some(here.clone()))? };
        parts.extend_from_slice(found.parts());
        match left.as_mut() {
            Some(region) => *region = region.without(&here),
            None => {
                let all = crate::Interval {
                    low: crate::Rational::ZERO,
                    high: crate::Rational::whole(i128::from(i64::MAX)),
                };
                left = Some(IntervalSet::union(vec![all]).without(&here));
            }
        }
        if left.as_ref().is_some_and(IntervalSet::is_empty) {
            break;
        }
    }
    Ok(IntervalSet::union(parts))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rational::Rational;
    use crate::supply::Server;
    use crate::task::Task;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(80))]
        #[test]
        fn audsley_finds_an_order_exactly_when_one_of_all_orders_is_safe(
            raw in prop::collection::vec((8i64..40, 1i64..5, 0i64..4, 0i64..3), 3..4), period in 2i128..9, budget in 1i128..9,
        ) {
            prop_assume!(budget <= period);
            let tasks: Vec<Task> = raw.iter().map(|(t, c, b, j)| Task { period: *t, wcet: *c, deadline: *t, jitter: *j, blocking: *b }).collect();
            let Ok(set) = TaskSet::new(tasks) else { return Ok(()) };
            let supply = Supply::new(period, budget, 0, Server::Periodic).unwrap();
            let orders = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];
            let any = orders.iter().any(|order| fixed::schedulable(&reordered(&set, order).unwrap(), &supply).unwrap());
            let found = audsley(&set, &supply).unwrap();
            prop_assert_eq!(found.is_some(), any);
            if budget < period {
                let question = Question { share: Rational::new(budget, period).unwrap(), overhead: 0, server: Server::Periodic };
                let periods = audsley_periods(&set, &question).unwrap();
                prop_assert_eq!(periods.contains(Rational::whole(period)), any);
            }
        }
    }
}
