//! The period and budget of least share, exactly.
//!
//! At a given budget every point (t, w) wants the fewest windows that hold it, `k = ceil(w/(B - X))`, and then allows
//! `P <= B + (t - w - kX)/(k + 1)` (polling: `(t - w - kX + kB)/(k + 1)`). The longest period is the least over
//! conditions of the greatest over alternatives, a step function in B whose steps lie at `B = w/k + X`; between steps
//! the share B/P rises with B. So only those B are tried, by branch and bound: in `[B1, B2]` no share is below
//! `B1 / P(B2)`.

use crate::budget;
use crate::edf::{self, Points};
use crate::error::RtError;
use crate::period::POINT_LIMIT;
use crate::rational::Rational;
use crate::supply::{Server, Supply};
use crate::task::TaskSet;

/// What is given when the best pair is sought; whole ticks.
#[derive(Clone, Copy, Debug)]
pub struct Question {
    /// X, zero only together with a least period.
    pub overhead: i128,
    /// Periods below are not wanted; 0 allows all.
    pub least_period: i128,
    /// Kind of server.
    pub server: Server,
    /// EDF, or fixed priorities in the set's order.
    pub edf: bool,
}

/// A period and a budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    /// P.
    pub period: Rational,
    /// B.
    pub budget: Rational,
}

impl Pair {
    /// B / P.
    ///
    /// # Errors
    /// On overflow.
    pub fn share(&self) -> Result<Rational, RtError> {
        self.budget.over(self.period)
    }
}

/// Conditions that must all hold, each by one of its alternatives (t, w).
struct Search<'a> {
    groups: &'a [Vec<(i128, i128)>],
    demands: Vec<i128>,
    /// How many conditions there are, each (t, w) one.
    conditions: u64,
    question: &'a Question,
    best: Option<(Rational, Pair)>,
    /// Conditions of which it may still ask, of all searches of one question together.
    left: &'a mut u64,
}

/// Conditions looked at for one question: some seconds.
const EFFORT: u64 = 50_000_000;
/// As how many of them a look at few counts.
const LEAST_EFFORT: u64 = 125;
const TOO_MANY: RtError = RtError::TooMany {
    what: "the pair of least share",
    limit: EFFORT,
    cure: "give a larger overhead, a least period, or fewer tasks",
};

impl Search<'_> {
    /// Longest period with effective budget `e`, or None. Grows with `e`; it can be below the budget itself (then no
    /// such server exists), which only an attempt asks about.
    fn period(&mut self, e: Rational) -> Result<Option<Rational>, RtError> {
        *self.left = self.left.checked_sub(self.conditions.max(LEAST_EFFORT)).ok_or(TOO_MANY)?;
        let x = self.question.overhead;
        let budget = e.plus(Rational::whole(x))?;
        let mut least: Option<Rational> = None;
        for group in self.groups {
            let mut most: Option<Rational> = None;
            for (t, w) in group {
                let k = (w * e.den() + e.num() - 1) / e.num();
                let room = t - w - k.checked_mul(x).ok_or(RtError::Overflow("an overhead"))?;
                if room < 0 {
                    continue;
                }
                let period = if self.question.server == Server::Polling {
                    let sum = budget.times(Rational::whole(k))?.plus(Rational::whole(room))?;
                    sum.over(Rational::whole(k + 1))?
                } else {
                    budget.plus(Rational::new(room, k + 1)?)?
                };
                if most.is_none_or(|kept| period > kept) {
                    most = Some(period);
                }
            }
            let Some(most) = most else { return Ok(None) };
            least = Some(least.map_or(most, |kept| kept.min(most)));
        }
        Ok(least.filter(|period| *period >= Rational::whole(self.question.least_period)))
    }

    fn consider(&mut self, pair: Pair) -> Result<(), RtError> {
        let share = pair.share()?;
        if self.best.is_none_or(|(kept, old)| share < kept || (share == kept && pair.period > old.period)) {
            self.best = Some((share, pair));
        }
        Ok(())
    }

    fn attempt(&mut self, e: Rational) -> Result<(), RtError> {
        let budget = e.plus(Rational::whole(self.question.overhead))?;
        if let Some(period) = self.period(e)?.filter(|period| *period >= budget) {
            self.consider(Pair { period, budget })?;
        }
        Ok(())
    }

    /// All effective budgets w/k in `(low, high]`.
    fn branch(&mut self, low: Rational, high: Rational) -> Result<(), RtError> {
        let Some(longest) = self.period(high)? else { return Ok(()) };
        if let Some((best, _)) = self.best {
            let bound = low.plus(Rational::whole(self.question.overhead))?.over(longest)?;
            if bound >= best {
                return Ok(());
            }
        }
        let count = |e: Rational| -> i128 {
            self.demands.iter().map(|w| (w * e.den() - 1).div_euclid(e.num())).sum()
        };
        // k with w/high <= k < w/low.
        if count(low) - count(high) <= 8 + self.demands.len() as i128 {
            let mut tries = Vec::new();
            for w in &self.demands {
                let first = (w * high.den() + high.num() - 1) / high.num();
                let last = (w * low.den() - 1).div_euclid(low.num());
                for k in first.max(1)..=last {
                    tries.push(Rational::new(*w, k)?);
                }
            }
            // Many demands can share one value of w/k.
            tries.sort_unstable();
            tries.dedup();
            if tries.len() <= 8 {
                for e in tries {
                    self.attempt(e)?;
                }
                return Ok(());
            }
        }
        let middle = low.plus(high)?.over(Rational::whole(2))?;
        // A coarser middle keeps fractions small.
        let middle = match middle.floor() {
            whole if Rational::whole(whole) > low && Rational::whole(whole) < high => Rational::whole(whole),
            _ => middle,
        };
        self.branch(low, middle)?;
        self.branch(middle, high)
    }
}

fn search(
    groups: &[Vec<(i128, i128)>],
    question: &Question,
    boundary: Option<Pair>,
    left: &mut u64,
) -> Result<Option<Pair>, RtError> {
    let mut demands: Vec<i128> = groups.iter().flatten().map(|(_, w)| *w).collect();
    demands.sort_unstable();
    demands.dedup();
    let Some(high) = demands.last().copied() else { return Ok(None) };
    // Least effective budget worth a look: each condition needs k < (t - w)/X windows, and a share of at least w/t.
    let mut low: Option<Rational> = None;
    for group in groups {
        let mut least: Option<Rational> = None;
        for (t, w) in group.iter().filter(|(t, w)| t > w) {
            let by_overhead = Rational::new(w * question.overhead, t - w)?;
            let by_share =
                Rational::new(w * question.least_period, *t)?.minus(Rational::whole(question.overhead))?;
            let bound = by_overhead.max(by_share);
            least = Some(least.map_or(bound, |kept| kept.min(bound)));
        }
        let Some(least) = least else { return Ok(boundary) };
        low = Some(low.map_or(least, |kept| kept.max(least)));
    }
    // A shade lower, as the search leaves its lower end out.
    let low = low.unwrap_or(Rational::ZERO).times(Rational::new(999, 1000)?)?;
    let low = if low <= Rational::ZERO {
        Rational::new(1, 1000)?
    } else {
        Rational::new((low.to_f64() * 1000.0) as i128, 1000)?.max(Rational::new(1, 1000)?)
    };
    let high = Rational::whole(high);
    let conditions = groups.iter().map(|group| group.len() as u64).sum();
    let mut search = Search { groups, demands, conditions, question, best: None, left };
    if let Some(pair) = boundary {
        search.consider(pair)?;
    }
    if low < high {
        // A good first answer prunes most of the rest.
        let steps = 48;
        let (from, to) = (low.to_f64().ln(), high.to_f64().ln());
        for step in 0..=steps {
            let e = (from + (to - from) * f64::from(step) / f64::from(steps)).exp();
            search.attempt(Rational::new((e * 1000.0) as i128 + 1, 1000)?)?;
        }
        // Snap the sampled answer to the step below it, where the exact optimum lies.
        if let Some((_, pair)) = search.best {
            let e = pair.budget.minus(Rational::whole(question.overhead))?;
            let snapped: Vec<Rational> = search
                .demands
                .iter()
                .map(|w| Rational::new(*w, ((w * e.den()).div_euclid(e.num())).max(1)))
                .chain(
                    search.demands.iter().map(|w| Rational::new(*w, (w * e.den() + e.num() - 1) / e.num())),
                )
                .collect::<Result<_, _>>()?;
            for e in snapped {
                search.attempt(e)?;
            }
        }
        search.branch(low, high)?;
    }
    Ok(search.best.map(|(_, pair)| pair))
}

/// The pair of least share; of equal shares the longest period. None when no pair is enough.
///
/// # Errors
/// No overhead and no least period (the least share is then approached, not reached), too much effort, overflow.
pub fn least_share(set: &TaskSet, question: &Question) -> Result<Option<Pair>, RtError> {
    if question.overhead == 0 && question.least_period == 0 {
        return Err(RtError::Supply(
            "without overhead an ever shorter period needs ever less: give an overhead or a least period"
                .into(),
        ));
    }
    let boundary = at_least_period(set, question)?;
    let mut left = EFFORT;
    if !question.edf {
        set.within_reach(1)?;
        let groups = (0..set.len()).map(|i| set.pairs(i, POINT_LIMIT)).collect::<Result<Vec<_>, _>>()?;
        if groups.iter().any(Vec::is_empty) {
            return Ok(None);
        }
        return search(&groups, question, boundary, &mut left);
    }
    // EDF has endless conditions: answer for the first ones, and take in those that the answer breaks.
    let mut groups: Vec<Vec<(i128, i128)>> =
        Points::new(set).take(4 * set.len() + 16).map(|pair| vec![pair]).collect();
    for _ in 0..10_000 {
        let Some(pair) = search(&groups, question, boundary, &mut left)? else { return Ok(None) };
        let (factor, supply) =
            Supply::rational(pair.period, pair.budget, Rational::whole(question.overhead), question.server)?;
        match edf::failure(&set.scaled(factor)?, &supply)? {
            None => return Ok(Some(pair)),
            Some(witness) => groups.push(vec![(witness.t / factor, witness.w / factor)]),
        }
    }
    Err(RtError::TooMany { what: "the pair of least share", limit: 10_000, cure: "give a larger overhead" })
}

/// The least budget at the least period itself: the optimum may lie at that limit.
fn at_least_period(set: &TaskSet, question: &Question) -> Result<Option<Pair>, RtError> {
    if question.least_period == 0 {
        return Ok(None);
    }
    let asked = budget::Question {
        period: question.least_period,
        overhead: question.overhead,
        server: question.server,
    };
    let found = if question.edf {
        budget::earliest_deadline(set, &asked)?
    } else {
        budget::fixed_priority(set, &asked)?
    };
    Ok(found.map(|(budget, _)| Pair { period: Rational::whole(question.least_period), budget }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixed;
    use crate::task::Task;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(60))]
        #[test]
        fn no_pair_on_a_fine_grid_beats_the_least_share(
            tasks in prop::collection::vec((6i64..40, 1i64..4), 1..4), overhead in 1i128..3, edf: bool, polling: bool,
        ) {
            let mut tasks: Vec<Task> = tasks.into_iter().map(|(t, c)| Task::implicit(t, c.min(t))).collect();
            tasks.sort_by_key(|task| task.period);
            let set = TaskSet::new(tasks).unwrap();
            let server = if polling { Server::Polling } else { Server::Periodic };
            let best = least_share(&set, &Question { overhead, least_period: 0, server, edf }).unwrap();
            let grid = 6;
            let fine = set.scaled(grid).unwrap();
            for period in 1..=30 * grid {
                let supply = |budget| Supply::new(period, budget, overhead * grid, server);
                for budget in 1..=period {
                    let Ok(supply) = supply(budget) else { continue };
                    if best.is_some_and(|b| Rational::new(budget, period).unwrap() >= b.share().unwrap()) { break }
                    let safe = if edf { matches!(edf::failure(&fine, &supply), Ok(None)) } else { fixed::schedulable(&fine, &supply).unwrap() };
                    prop_assert!(!safe, "P {period}/{grid} B {budget}/{grid} is safe and better than {best:?}");
                }
            }
            if let Some(pair) = best {
                let (factor, supply) = Supply::rational(pair.period, pair.budget, Rational::whole(overhead), server).unwrap();
                let set = set.scaled(factor).unwrap();
                let safe = if edf { edf::failure(&set, &supply).unwrap().is_none() } else { fixed::schedulable(&set, &supply).unwrap() };
                prop_assert!(safe);
            }
        }
    }
}
