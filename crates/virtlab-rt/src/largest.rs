//! The largest period of many task sets, exact and fast: X = 0, D = T, rate-monotonic order, periodic server.
//!
//! Start at the largest period of the first task (its one point gives it in closed form) and go round the tasks: one
//! that is unsafe lowers the period to the largest it allows below; when a whole round changes nothing, that is the
//! answer, as each step only leaves out periods that some task forbids. Doubles decide wherever their error bound
//! allows, twice: with every comparison pushed against the task (safe for sure) and for it (unsafe for sure); where the
//! two differ, 128-bit integers decide. So the result is exact.

use crate::error::RtError;
use crate::fixed;
use crate::rational::Rational;
use crate::supply::{Server, Supply};
use crate::task::{Task, TaskSet};

const SHADE: f64 = 1e-10;

/// Room for one set's numbers, to be reused.
#[derive(Debug, Default)]
pub struct Workspace {
    t: Vec<f64>,
    inverse: Vec<f64>,
    c: Vec<f64>,
}

struct Share {
    a: i128,
    b: i128,
    ratio: f64,
}

#[derive(Clone, Copy)]
struct Candidate {
    value: f64,
    t: i128,
    w: i128,
    k: i128,
}

/// The largest period, or None when the share does not exceed what some task needs at any period.
///
/// # Errors
/// On overflow; `period` ascending and `0 < wcet <= period < 2^45` is the caller's duty (as [`crate::generate`] gives).
pub fn largest_period(
    period: &[i64],
    wcet: &[i64],
    share: Rational,
    room: &mut Workspace,
) -> Result<Option<Rational>, RtError> {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("fma") {
        // SAFETY: the processor has the features this copy was compiled for.
        return unsafe { wide(period, wcet, share, room) };
    }
    search(period, wcet, share, room)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn wide(
    period: &[i64],
    wcet: &[i64],
    share: Rational,
    room: &mut Workspace,
) -> Result<Option<Rational>, RtError> {
    search(period, wcet, share, room)
}

#[inline(always)]
fn search(
    period: &[i64],
    wcet: &[i64],
    share: Rational,
    room: &mut Workspace,
) -> Result<Option<Rational>, RtError> {
    let share = Share { a: share.num(), b: share.den(), ratio: share.to_f64() };
    let n = period.len();
    room.t.clear();
    room.t.extend(period.iter().map(|t| *t as f64));
    room.c.clear();
    room.c.extend(wcet.iter().map(|c| *c as f64));
    room.inverse.clear();
    room.inverse.extend(room.t.iter().map(|t| 1.0 / t));
    let used: f64 = room.c.iter().zip(&room.inverse).map(|(c, i)| c * i).sum();
    if used > share.ratio * (1.0 + 1e-9) {
        return Ok(None);
    }
    let Some(first) = of_point(&share, i128::from(period[0]), i128::from(wcet[0]), None)? else {
        return Ok(None);
    };
    let mut best = exact(&share, first)?;
    let mut at = best.to_f64();
    let mut passed = 1;
    let mut index = 1 % n;
    while passed < n {
        let safe = match decide(room, index, &share, at) {
            Some(safe) => safe,
            None => exactly_safe(period, wcet, index, &share, best)?,
        };
        if safe {
            passed += 1;
        } else {
            let Some(lower) = below(room, period, index, &share, best)? else { return Ok(None) };
            best = lower;
            at = best.to_f64();
            passed = 1;
        }
        index = (index + 1) % n;
    }
    Ok(Some(best))
}

#[inline(always)]
fn demand(room: &Workspace, index: usize, at: f64) -> f64 {
    let mut sum = 0.0;
    for (inverse, c) in room.inverse[..index].iter().zip(&room.c[..index]) {
        sum += (at * inverse).ceil() * c;
    }
    sum + room.c[index]
}

/// Some(safe) where doubles are sure.
#[inline(always)]
fn decide(room: &Workspace, index: usize, share: &Share, period: f64) -> Option<bool> {
    let end = room.t[index];
    let gap = period * (1.0 - share.ratio);
    let inverse = 1.0 / (period * share.ratio);
    // At the end of the window first: most tasks are served by then.
    let w = demand(room, index, end - 0.5);
    let served = gap + w + (w * inverse * (1.0 + SHADE)).ceil() * gap;
    if served * (1.0 + SHADE) <= end {
        return Some(true);
    }
    for shade in [1.0 + SHADE, 1.0 - SHADE] {
        let mut t = room.c[index] + 2.0 * gap;
        let safe = loop {
            let w = demand(room, index, t * shade);
            let next = (gap + w + (w * inverse * shade).ceil() * gap) * shade;
            if next > end {
                break false;
            }
            if next <= t {
                break true;
            }
            t = next;
        };
        if safe == (shade > 1.0) {
            return Some(safe);
        }
    }
    None
}

fn exactly_safe(
    period: &[i64],
    wcet: &[i64],
    index: usize,
    share: &Share,
    vm: Rational,
) -> Result<bool, RtError> {
    let tasks = period[..=index].iter().zip(&wcet[..=index]).map(|(t, c)| Task::implicit(*t, *c)).collect();
    let budget = vm.times(Rational::new(share.a, share.b)?)?;
    let (factor, supply) = Supply::rational(vm, budget, Rational::ZERO, Server::Periodic)?;
    let set = TaskSet::new(tasks)?.scaled(factor)?;
    Ok(fixed::window(&set, index, &supply, set.tasks()[index].window())?.is_some())
}

/// Largest end of an interval of (t, w), at most `cap`: `b (t - w)/((k + 1)(b - a))` for the fewest windows k that hold
/// w.
#[inline(always)]
fn of_point(share: &Share, t: i128, w: i128, cap: Option<Rational>) -> Result<Option<Candidate>, RtError> {
    let c = share.b - share.a;
    let slope = share.a * (t - w) - w * c;
    if slope <= 0 {
        return Ok(None);
    }
    let mut k = ceil(w * c, slope);
    if let Some(cap) = cap {
        let (num, den) =
            (w.checked_mul(share.b).and_then(|v| v.checked_mul(cap.den())), share.a.checked_mul(cap.num()));
        let (num, den) = num.zip(den).ok_or(RtError::Overflow("the largest period"))?;
        k = k.max(ceil(num, den));
    }
    let value = share.b as f64 * (t - w) as f64 / ((k + 1) as f64 * c as f64);
    Ok(Some(Candidate { value, t, w, k }))
}

/// `ceil(num / den)` of positive numbers: doubles where they are sure, integers else.
#[inline(always)]
fn ceil(num: i128, den: i128) -> i128 {
    let quotient = num as f64 / den as f64;
    let up = quotient.ceil();
    if quotient < 1e9 && up - quotient > 1e-6 && quotient - (up - 1.0) > 1e-6 {
        up as i128
    } else {
        (num - 1) / den + 1
    }
}

fn exact(share: &Share, candidate: Candidate) -> Result<Rational, RtError> {
    Rational::new(share.b * (candidate.t - candidate.w), (candidate.k + 1) * (share.b - share.a))
}

/// The largest period below `cap` at which task `index` is safe (`cap` itself is not).
#[inline(always)]
fn below(
    room: &Workspace,
    period: &[i64],
    index: usize,
    share: &Share,
    cap: Rational,
) -> Result<Option<Rational>, RtError> {
    let end = period[index];
    let mut best: Option<Candidate> = None;
    let mut consider = |t: i64| -> Result<(), RtError> {
        let w = demand(room, index, t as f64 - 0.5);
        // No k does better than one whole window per blackout pair.
        if w >= t as f64 * share.ratio {
            return Ok(());
        }
        let Some(found) = of_point(share, i128::from(t), w as i128, Some(cap))? else { return Ok(()) };
        let better = match best {
            None => true,
            Some(kept) if (found.value - kept.value).abs() <= kept.value * SHADE => {
                exact(share, found)? > exact(share, kept)?
            }
            Some(kept) => found.value > kept.value,
        };
        if better {
            best = Some(found);
        }
        Ok(())
    };
    consider(end)?;
    for t in &period[..index] {
        let mut at = *t;
        while at < end {
            consider(at)?;
            at += *t;
        }
    }
    best.map(|found| exact(share, found)).transpose()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::period::{Question, fixed_priority};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn it_is_the_upper_end_of_the_exact_set(
            raw in prop::collection::vec((10i64..200, 1i64..20), 1..6), a in 1i128..20, scale in prop::sample::select(vec![1i64, 1000]),
        ) {
            let mut tasks: Vec<(i64, i64)> = raw.into_iter().map(|(t, c)| (t * scale, c.min(t) * scale)).collect();
            tasks.sort_unstable();
            let period: Vec<i64> = tasks.iter().map(|task| task.0).collect();
            let wcet: Vec<i64> = tasks.iter().map(|task| task.1).collect();
            let share = Rational::new(a, 20).unwrap();
            prop_assume!(a < 20);
            let set = TaskSet::new(tasks.iter().map(|(t, c)| Task::implicit(*t, *c)).collect()).unwrap();
            let slow = fixed_priority(&set, &Question { share, overhead: 0, server: Server::Periodic }).unwrap().largest();
            let fast = largest_period(&period, &wcet, share, &mut Workspace::default()).unwrap();
            prop_assert_eq!(fast, slow);
        }
    }
}
