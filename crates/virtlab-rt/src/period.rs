//! All periods at which a fixed share of a CPU suffices, exactly.
//!
//! With B = aP, one point (t, w) and one k allow `(w/k + X)/a <= P <= (t - w - kX)/((k+1)(1-a))` (polling server:
//! `P <= (t - w - kX)/(1 + k(1-a))`). Fixed priority: a task is safe on the union over its points and k, the set on the
//! intersection over tasks. EDF: a point is met on the union over k, the set on the intersection over all points. Both
//! ends fall with k and both conditions below are concave in k, so the k with a non-empty interval, and the k whose
//! interval overlaps the next one, are runs of whole numbers: the run that overlaps is one block, the rest are the
//! islands that a bisection or a grid would miss.

use crate::edf::Points;
use crate::error::{RtError, fits};
use crate::interval::{Interval, IntervalSet};
use crate::rational::Rational;
use crate::supply::Server;
use crate::task::TaskSet;

/// Most scheduling points of one task.
pub const POINT_LIMIT: usize = 200_000;
const PIECE_LIMIT: i128 = 500_000;

/// The share `a/b`, overhead and server for which periods are searched.
#[derive(Clone, Copy, Debug)]
pub struct Question {
    /// Share of a CPU, `0 < share < 1`.
    pub share: Rational,
    /// Overhead per start, whole ticks.
    pub overhead: i128,
    /// Kind of server.
    pub server: Server,
}

/// `quadratic * k^2 + linear * k + constant >= 0`, concave.
struct Concave {
    quadratic: i128,
    linear: i128,
    constant: i128,
}

impl Concave {
    fn holds(&self, k: i128) -> Result<bool, RtError> {
        let value = self
            .quadratic
            .checked_mul(k)
            .and_then(|v| v.checked_add(self.linear))
            .and_then(|v| v.checked_mul(k))
            .and_then(|v| v.checked_add(self.constant));
        Ok(fits(value, "a condition on the number of windows")? >= 0)
    }

    /// First and last k in `1..=most` for which it holds.
    fn run(&self, most: i128) -> Result<Option<(i128, i128)>, RtError> {
        if most < 1 {
            return Ok(None);
        }
        if self.quadratic == 0 {
            if self.linear <= 0 {
                return Ok(None); // the constant is below zero, and it only falls
            }
            let first = ((-self.constant + self.linear - 1).div_euclid(self.linear)).max(1);
            return Ok((first <= most).then_some((first, most)));
        }
        let top = (self.linear.div_euclid(-2 * self.quadratic)).clamp(1, most);
        let top = if self.holds(top)? {
            top
        } else if top < most && self.holds(top + 1)? {
            top + 1
        } else {
            return Ok(None);
        };
        let (mut low, mut high) = (1, top);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.holds(middle)? { high = middle } else { low = middle + 1 }
        }
        let first = low;
        (low, high) = (top, most);
        while low < high {
            let middle = low + (high - low + 1) / 2;
            if self.holds(middle)? { low = middle } else { high = middle - 1 }
        }
        Ok(Some((first, low)))
    }
}

/// One point's intervals, by k.
struct Pieces {
    t: i128,
    w: i128,
    a: i128,
    b: i128,
    c: i128,
    g: i128,
    x: i128,
    whole: Option<(i128, i128)>,
    merged: Option<(i128, i128)>,
}

impl Pieces {
    fn new(question: &Question, t: i128, w: i128) -> Result<Self, RtError> {
        let (a, b) = (question.share.num(), question.share.den());
        let c = b - a;
        let g = if question.server == Server::Polling { b } else { c };
        let x = question.overhead;
        let most = if x == 0 { i128::MAX >> 70 } else { (t - w) / x };
        let number = |value: Option<i128>| fits(value, "the intervals of a point");
        let product = |p: i128, q: i128| number(p.checked_mul(q));
        let quadratic = -product(b, x)?;
        let whole = Concave {
            quadratic,
            linear: product(a, t - w)? - product(w, c)? - product(x, g)?,
            constant: -product(w, g)?,
        };
        let merged = Concave {
            quadratic,
            linear: product(a, t - w - x)? - product(w, c)? - product(x, g + c)?,
            constant: -product(w, g + c)?,
        };
        // Neighbours k and k+1 merge only where both exist.
        let run = whole.run(most)?;
        let joined = match run {
            Some((first, last)) => merged
                .run(most)?
                .map(|(m, n)| (m.max(first), n.min(last - i128::from(x != 0))))
                .filter(|(m, n)| m <= n),
            None => None,
        };
        Ok(Self { t, w, a, b, c, g, x, whole: run, merged: joined })
    }

    fn low(&self, k: i128) -> Result<Rational, RtError> {
        let num =
            self.x.checked_mul(k).and_then(|v| v.checked_add(self.w)).and_then(|v| v.checked_mul(self.b));
        Rational::new(
            fits(num, "the lower end of an interval")?,
            fits(self.a.checked_mul(k), "an interval's end")?,
        )
    }

    fn high(&self, k: i128) -> Result<Rational, RtError> {
        let num = self.x.checked_mul(k).and_then(|v| (self.t - self.w - v).checked_mul(self.b));
        let den = self.c.checked_mul(k).and_then(|v| v.checked_add(self.g));
        Rational::new(fits(num, "the upper end of an interval")?, fits(den, "an interval's end")?)
    }

    /// The block of overlapping intervals.
    fn block(&self) -> Result<Option<Interval>, RtError> {
        let Some((first, last)) = self.merged else { return Ok(None) };
        let low = if self.x == 0 { Rational::ZERO } else { self.low(last + 1)? };
        Ok(Some(Interval { low, high: self.high(first)? }))
    }

    /// The islands on both sides of the block that lie not wholly inside `solid` and touch `within`.
    fn islands(
        &self,
        solid: Option<Interval>,
        within: Interval,
        out: &mut Vec<Interval>,
    ) -> Result<(), RtError> {
        let Some((first, last)) = self.whole else { return Ok(()) };
        let (left_end, right_start) = match self.merged {
            Some((m, _)) if self.x == 0 => (m - 1, i128::MAX),
            Some((m, n)) => (m - 1, n + 2),
            None => (last, i128::MAX),
        };
        let mut budget = PIECE_LIMIT;
        // Large periods: k upwards from the first that does not begin above `within`.
        let mut k = first;
        while k <= left_end {
            let (low, high) = (self.low(k)?, self.high(k)?);
            if high < within.low
                || solid.is_some_and(|s| high <= s.high && low >= s.low && s.low == Rational::ZERO)
            {
                break;
            }
            if low > within.high {
                // Jump: low <= within.high needs k (a H - b X) >= b w.
                k = self.first_below(within.high)?.max(k + 1);
                continue;
            }
            out.push(Interval { low, high });
            k += 1;
            budget -= 1;
            if budget == 0 {
                return Err(TOO_MANY);
            }
        }
        // Small periods (only with an overhead): k downwards from the last.
        let mut k = last;
        while k >= right_start {
            let (low, high) = (self.low(k)?, self.high(k)?);
            if low > within.high {
                break;
            }
            if high >= within.low {
                out.push(Interval { low, high });
            }
            k -= 1;
            budget -= 1;
            if budget == 0 {
                return Err(TOO_MANY);
            }
        }
        Ok(())
    }

    fn first_below(&self, bound: Rational) -> Result<i128, RtError> {
        let slope = self
            .a
            .checked_mul(bound.num())
            .zip(self.b.checked_mul(self.x).and_then(|v| v.checked_mul(bound.den())))
            .and_then(|(p, q)| p.checked_sub(q));
        let slope = fits(slope, "the intervals of a point")?;
        if slope <= 0 {
            return Ok(i128::MAX);
        }
        let need = self.b.checked_mul(self.w).and_then(|v| v.checked_mul(bound.den()));
        Ok((fits(need, "the intervals of a point")? + slope - 1) / slope)
    }
}

const TOO_MANY: RtError = RtError::TooMany {
    what: "the set of periods",
    limit: PIECE_LIMIT as u64,
    cure: "the share lies too close to the utilisation",
};

fn check(question: &Question) -> Result<(), RtError> {
    if question.share <= Rational::ZERO || question.share >= Rational::ONE {
        return Err(RtError::Supply("the share must lie between 0 and 1".into()));
    }
    if question.overhead < 0 {
        return Err(RtError::Supply("the overhead per start must not be negative".into()));
    }
    Ok(())
}

fn union_of(question: &Question, pairs: &[(i128, i128)], within: Interval) -> Result<IntervalSet, RtError> {
    let pieces = pairs.iter().map(|(t, w)| Pieces::new(question, *t, *w)).collect::<Result<Vec<_>, _>>()?;
    let mut parts = Vec::new();
    for piece in &pieces {
        parts.extend(piece.block()?);
    }
    let solid = IntervalSet::union(parts.clone()).safe();
    for piece in &pieces {
        piece.islands(solid, within, &mut parts)?;
    }
    Ok(IntervalSet::union(parts))
}

/// Every period lies in here: none is longer than the longest window over (1 - a).
fn everything(set: &TaskSet, question: &Question) -> Result<Interval, RtError> {
    let longest = set.tasks().iter().map(|task| i128::from(task.deadline)).max().unwrap_or(1);
    let c = question.share.den() - question.share.num();
    let high = fits(longest.checked_mul(question.share.den()), "a bound of the period")?;
    Ok(Interval { low: Rational::ZERO, high: Rational::new(high, c)? })
}

/// The periods at which task `index` alone (with those of higher priority) is safe under fixed priorities.
///
/// # Errors
/// A share outside (0, 1), too many pieces, or overflow.
pub fn of_task(set: &TaskSet, index: usize, question: &Question) -> Result<IntervalSet, RtError> {
    check(question)?;
    union_of(question, &set.pairs(index, POINT_LIMIT)?, everything(set, question)?)
}

/// The periods at which the whole set is safe under fixed priorities.
///
/// # Errors
/// As [`of_task`].
pub fn fixed_priority(set: &TaskSet, question: &Question) -> Result<IntervalSet, RtError> {
    check(question)?;
    set.within_reach(1)?;
    let mut within = everything(set, question)?;
    let mut found = IntervalSet::union(vec![within]);
    for index in 0..set.len() {
        found = found.intersection(&union_of(question, &set.pairs(index, POINT_LIMIT)?, within)?);
        match (found.smallest(), found.largest()) {
            (Some(low), Some(high)) => within = Interval { low, high },
            _ => break,
        }
    }
    Ok(found)
}

/// The periods at which the whole set is safe under EDF.
///
/// Points are taken in order until none later can matter for any period still in the set: beyond
/// `(sum U_i (T_i + J_i - D_i) + b + e s)/(e - U)` demand stays below the linear bound `e (t - s)` of supply, with
/// `e = a - X/P` the effective share and s the longest blackout.
///
/// # Errors
/// As [`of_task`].
pub fn earliest_deadline(set: &TaskSet, question: &Question) -> Result<IntervalSet, RtError> {
    check(question)?;
    let mut found = IntervalSet::union(vec![everything(set, question)?]);
    for (number, (t, w)) in Points::new(set).enumerate() {
        let (Some(low), Some(high)) = (found.smallest(), found.largest()) else { break };
        if number > 0 && horizon(set, question, low, high) < t as f64 {
            break;
        }
        if number >= POINT_LIMIT {
            return Err(RtError::TooMany {
                what: "the EDF demand points",
                limit: POINT_LIMIT as u64,
                cure: "the share lies too close to the utilisation, or periods too far apart",
            });
        }
        found = found.intersection(&union_of(question, &[(t, w)], Interval { low, high })?);
    }
    Ok(found)
}

/// Beyond it no EDF point fails for any period in `[low, high]`; rounded up generously, so only ever too late.
fn horizon(set: &TaskSet, question: &Question, low: Rational, high: Rational) -> f64 {
    let share = question.share.to_f64();
    let (x, high) = (question.overhead as f64, high.to_f64());
    let least = if question.overhead == 0 { share } else { share - x / low.to_f64().max(f64::MIN_POSITIVE) };
    let used = set.utilisation_bounds().1.to_f64();
    if least - used <= 1e-12 {
        return f64::INFINITY;
    }
    let lead = if question.server == Server::Polling { high } else { high * (1.0 - share) };
    let blackout = lead + high * (1.0 - share) + x;
    // (c + e s)/(e - U) falls with e: the least e of the range is the worst.
    (crate::edf::intercept(set) + least * blackout) / (least - used) * (1.0 + 1e-6) + 2.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::task::Task;

    fn ratio(num: i128, den: i128) -> Rational {
        Rational::new(num, den).unwrap()
    }

    fn example() -> TaskSet {
        TaskSet::new(vec![Task::implicit(16, 2), Task::implicit(24, 1), Task::implicit(36, 4)]).unwrap()
    }

    fn at(share: Rational) -> Question {
        Question { share, overhead: 0, server: Server::Periodic }
    }

    #[test]
    fn the_three_task_example_has_two_holes_and_an_isolated_point() {
        let set = fixed_priority(&example(), &at(ratio(2, 5))).unwrap();
        let ends: Vec<_> = set.parts().iter().map(|p| (p.low, p.high)).collect();
        assert_eq!(
            ends,
            [
                (Rational::ZERO, ratio(22, 3)),
                (ratio(15, 2), ratio(8, 1)),
                (ratio(25, 3), ratio(55, 6)),
                (ratio(10, 1), ratio(10, 1))
            ]
        );
        assert!(set.contains(ratio(10, 1)) && !set.contains(ratio(19, 2)));
        assert_eq!(set.safe().unwrap().high, ratio(22, 3));
    }

    #[test]
    fn the_largest_periods_of_the_example_are_the_published_ones() {
        let largest = |n: usize, share| {
            let set = TaskSet::new(example().tasks()[..n].to_vec()).unwrap();
            fixed_priority(&set, &at(share)).unwrap().largest().unwrap()
        };
        assert_eq!(largest(1, ratio(2, 5)), ratio(35, 3));
        assert_eq!(largest(2, ratio(2, 5)), ratio(65, 6));
        assert_eq!(largest(3, ratio(2, 5)), ratio(10, 1));
        assert_eq!(largest(3, ratio(1, 2)), ratio(14, 1));
    }

    #[test]
    fn a_share_equal_to_the_utilisation_allows_no_period() {
        let set = TaskSet::new(vec![Task::implicit(16, 4)]).unwrap();
        assert!(fixed_priority(&set, &at(ratio(1, 4))).unwrap().is_empty());
        assert!(
            earliest_deadline(&set, &at(ratio(1, 4))).is_err()
                || earliest_deadline(&set, &at(ratio(1, 4))).unwrap().is_empty()
        );
    }
}
