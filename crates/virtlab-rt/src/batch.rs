//! Response times of many task sets at once: one set per SIMD lane, exact.
//!
//! Doubles hold whole numbers below 2^53 exactly, and for whole R, T below 2^50 `ceil(R/T)` equals
//! `ceil((R - 1/2) * (1/T))` computed in doubles: (R - 1/2)/T lies at least 1/(2T) from any whole number, two roundings
//! move it by less than 2^-52 R/T < 1/(2T). So the kernel's answers are those of integer arithmetic, to the tick; sets
//! with larger numbers go through the 128-bit form. Iteration starts from a lower bound of the least fixed point (the
//! response time one priority up plus own demand, and the linear bound `(lead + C P/E)/(1 - U P/E)`), so it ends there.

use crate::error::RtError;
use crate::fixed;
use crate::parallel;
use crate::supply::{Server, Supply};
use crate::task::{Task, TaskSet};

/// Written where a response time exceeds the limit looked at.
pub const BEYOND: i64 = i64::MAX;
const LANES: usize = 16;
const EXACT: i64 = 1 << 48;

/// Task sets of equal size, row by row, highest priority first; ticks.
#[derive(Clone, Copy, Debug)]
pub struct Sets<'a> {
    /// Tasks per set.
    pub tasks: usize,
    /// T, shape (sets, tasks).
    pub period: &'a [i64],
    /// C, same shape.
    pub wcet: &'a [i64],
    /// D, same shape; None: D = T.
    pub deadline: Option<&'a [i64]>,
}

impl Sets<'_> {
    fn rows(&self, from: usize, to: usize) -> Self {
        let (a, b) = (from * self.tasks, to * self.tasks);
        Self {
            tasks: self.tasks,
            period: &self.period[a..b],
            wcet: &self.wcet[a..b],
            deadline: self.deadline.map(|deadline| &deadline[a..b]),
        }
    }

    /// Number of sets.
    #[must_use]
    pub fn len(&self) -> usize {
        self.period.len() / self.tasks
    }

    /// Whether there is no set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.period.is_empty()
    }

    fn check(&self) -> Result<(), RtError> {
        let count = self.period.len();
        if self.tasks == 0 || !count.is_multiple_of(self.tasks) || self.wcet.len() != count {
            return Err(RtError::Supply("periods and execution times need one shape (sets, tasks)".into()));
        }
        if self.deadline.is_some_and(|deadline| deadline.len() != count) {
            return Err(RtError::Supply("deadlines need the shape of the periods".into()));
        }
        let mut wrong = false;
        for (t, c) in self.period.iter().zip(self.wcet) {
            wrong |= *c <= 0 || *c > *t;
        }
        if let Some(deadline) = self.deadline {
            for ((t, c), d) in self.period.iter().zip(self.wcet).zip(deadline) {
                wrong |= *d < *c || *d > *t;
            }
        }
        if wrong {
            return self.name_the_wrong_one();
        }
        Ok(())
    }

    fn name_the_wrong_one(&self) -> Result<(), RtError> {
        for set in 0..self.len() {
            self.set(set).map_err(|error| RtError::Supply(format!("set {set}: {error}")))?;
        }
        Err(RtError::Supply("a task makes no sense".into()))
    }

    fn set(&self, row: usize) -> Result<TaskSet, RtError> {
        let range = row * self.tasks..(row + 1) * self.tasks;
        let tasks = range
            .map(|at| {
                let deadline = self.deadline.map_or(self.period[at], |deadline| deadline[at]);
                Task { deadline, ..Task::implicit(self.period[at], self.wcet[at]) }
            })
            .collect();
        TaskSet::new(tasks)
    }

    fn small(&self) -> bool {
        self.period.iter().all(|t| *t <= EXACT)
    }
}

/// Response times into `out` (same shape), [`BEYOND`] where above `limit_ratio` times the deadline. `threads`: 1 stays
/// on this thread, 0 uses all cores.
///
/// # Errors
/// Shapes that differ, a task that makes no sense, or overflow.
pub fn response_times(
    sets: Sets,
    supply: &Supply,
    server: Server,
    limit_ratio: f64,
    threads: usize,
    out: &mut [i64],
) -> Result<(), RtError> {
    sets.check()?;
    if out.len() != sets.period.len() {
        return Err(RtError::Supply("the output needs the shape of the periods".into()));
    }
    let limit_ratio = limit_ratio.clamp(1.0, 1e6);
    if threads == 1 {
        return rows(sets, supply, server, limit_ratio, out);
    }
    let chunk = 4096;
    let parts = out.chunks_mut(chunk * sets.tasks).enumerate();
    let one = |(number, out): (usize, &mut [i64]), (): &mut ()| {
        let from = number * chunk;
        rows(sets.rows(from, from + out.len() / sets.tasks), supply, server, limit_ratio, out)
    };
    parallel::each(threads, parts, one).map(|_| ())
}

fn rows(
    sets: Sets,
    supply: &Supply,
    server: Server,
    limit_ratio: f64,
    out: &mut [i64],
) -> Result<(), RtError> {
    let largest = (EXACT as f64 * 2.0 / limit_ratio.max(2.0)) as i64;
    if supply.period() < i128::from(largest) && sets.small() && sets.period.iter().all(|t| *t < largest) {
        let constants =
            Constants::new(supply.lead() as f64, supply.gap() as f64, supply.effective() as f64, limit_ratio);
        dispatch::<true, i64>(sets.tasks, sets.period, sets.wcet, sets.deadline, constants, out);
        return Ok(());
    }
    let _ = server;
    for row in 0..sets.len() {
        let set = sets.set(row)?;
        for index in 0..sets.tasks {
            let limit = (set.tasks()[index].deadline as f64 * limit_ratio) as i128;
            let found = fixed::window(&set, index, supply, limit)?;
            out[row * sets.tasks + index] = found.and_then(|r| i64::try_from(r).ok()).unwrap_or(BEYOND);
        }
    }
    Ok(())
}

/// The same in plain doubles with real-valued times, for comparison and for times that are no whole ticks; infinite
/// where beyond the limit. A value that lies on a step of demand can land on either side of it.
pub fn response_times_float(
    tasks: usize,
    period: &[f64],
    wcet: &[f64],
    supply: [f64; 3],
    limit_ratio: f64,
    out: &mut [f64],
) {
    let [vm_period, budget, overhead] = supply;
    let constants =
        Constants::new(vm_period - budget, vm_period - budget + overhead, budget - overhead, limit_ratio);
    dispatch::<false, f64>(tasks, period, wcet, None, constants, out);
}

#[derive(Clone, Copy)]
struct Constants {
    lead: f64,
    gap: f64,
    inverse: f64,
    stretch: f64,
    limit_ratio: f64,
}

impl Constants {
    fn new(lead: f64, gap: f64, effective: f64, limit_ratio: f64) -> Self {
        Self { lead, gap, inverse: 1.0 / effective, stretch: (gap + effective) / effective, limit_ratio }
    }
}

/// i64 or f64 at the edge of the kernel.
trait Number: Copy {
    fn wide(self) -> f64;
    fn narrow(value: f64, beyond: bool) -> Self;
}

impl Number for i64 {
    #[inline(always)]
    fn wide(self) -> f64 {
        self as f64
    }
    #[inline(always)]
    fn narrow(value: f64, beyond: bool) -> Self {
        if beyond { BEYOND } else { value as i64 }
    }
}

impl Number for f64 {
    #[inline(always)]
    fn wide(self) -> f64 {
        self
    }
    #[inline(always)]
    fn narrow(value: f64, beyond: bool) -> Self {
        if beyond { f64::INFINITY } else { value }
    }
}

fn dispatch<const WHOLE: bool, N: Number>(
    tasks: usize,
    period: &[N],
    wcet: &[N],
    deadline: Option<&[N]>,
    constants: Constants,
    out: &mut [N],
) {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("fma") {
        // SAFETY: the processor has the features this copy was compiled for.
        return unsafe { wide_kernel::<WHOLE, N>(tasks, period, wcet, deadline, constants, out) };
    }
    kernel::<WHOLE, N>(tasks, period, wcet, deadline, constants, out);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn wide_kernel<const WHOLE: bool, N: Number>(
    tasks: usize,
    period: &[N],
    wcet: &[N],
    deadline: Option<&[N]>,
    constants: Constants,
    out: &mut [N],
) {
    kernel::<WHOLE, N>(tasks, period, wcet, deadline, constants, out);
}

type Lane = [f64; LANES];

#[inline(always)]
fn kernel<const WHOLE: bool, N: Number>(
    tasks: usize,
    period: &[N],
    wcet: &[N],
    deadline: Option<&[N]>,
    constants: Constants,
    out: &mut [N],
) {
    let Constants { lead, gap, inverse, stretch, limit_ratio } = constants;
    let sets = period.len() / tasks.max(1);
    let half = if WHOLE { 0.5 } else { 0.0 };
    let mut inverses: Vec<Lane> = vec![[1.0; LANES]; tasks];
    let mut demands: Vec<Lane> = vec![[0.0; LANES]; tasks];
    let mut limits: Vec<Lane> = vec![[0.0; LANES]; tasks];
    let mut from = 0;
    while from < sets {
        let lanes = LANES.min(sets - from);
        for j in 0..tasks {
            for lane in 0..LANES {
                // Lanes past the end repeat the last set.
                let at = (from + lane.min(lanes - 1)) * tasks + j;
                inverses[j][lane] = period[at].wide();
                demands[j][lane] = wcet[at].wide();
                limits[j][lane] = deadline.map_or(period[at], |deadline| deadline[at]).wide() * limit_ratio;
            }
            for inverse_t in &mut inverses[j] {
                *inverse_t = 1.0 / *inverse_t;
            }
        }
        let mut reached: Lane = [0.0; LANES]; // demand at the fixed point one priority up
        let mut used: Lane = [0.0; LANES]; // utilisation of higher priorities
        for i in 0..tasks {
            let own = &demands[i];
            let limit = &limits[i];
            let mut r: Lane = [0.0; LANES];
            for lane in 0..LANES {
                let w = reached[lane] + own[lane];
                let warm = lead + w + ((w - half) * inverse).ceil() * gap;
                let free = 1.0 - stretch * used[lane];
                let linear = (lead + stretch * own[lane]) / free;
                let linear = if WHOLE { (linear * (1.0 - 1e-9)).floor() } else { linear * (1.0 - 1e-9) };
                let warm = if WHOLE { warm } else { warm * (1.0 - 1e-12) };
                let best = if free > 1e-4 { linear.max(warm) } else { warm };
                // A bound beyond the limit is an answer already.
                r[lane] = best;
            }
            let (earlier_inverses, earlier_demands) = (&inverses[..i], &demands[..i]);
            let mut w: Lane;
            loop {
                w = *own;
                let mut at: Lane = [0.0; LANES];
                for lane in 0..LANES {
                    at[lane] = r[lane] - half;
                }
                for (inverse_t, c) in earlier_inverses.iter().zip(earlier_demands) {
                    for lane in 0..LANES {
                        w[lane] += (at[lane] * inverse_t[lane]).ceil() * c[lane];
                    }
                }
                let mut moved = false;
                for lane in 0..LANES {
                    let next = lead + w[lane] + ((w[lane] - half) * inverse).ceil() * gap;
                    let go = (next > r[lane]) & (r[lane] <= limit[lane]);
                    moved |= go;
                    r[lane] = if go { next } else { r[lane] };
                }
                if !moved {
                    break;
                }
            }
            reached = w;
            for lane in 0..LANES {
                used[lane] += own[lane] * inverses[i][lane];
            }
            for lane in 0..lanes {
                out[(from + lane) * tasks + i] = N::narrow(r[lane], r[lane] > limit[lane]);
            }
        }
        from += lanes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn lanes_agree_with_128_bit_integers(
            raw in prop::collection::vec((1i64..3_000, 1i64..400), 5 * 19), vm in 2i128..900, share in 1i128..100, overhead in 0i128..5, polling: bool,
        ) {
            let budget = (vm * share / 100).max(overhead + 1).min(vm);
            prop_assume!(overhead < budget);
            let server = if polling { Server::Polling } else { Server::Periodic };
            let supply = Supply::new(vm, budget, overhead, server).unwrap();
            let period: Vec<i64> = raw.iter().map(|(t, _)| *t).collect();
            let wcet: Vec<i64> = raw.iter().map(|(t, c)| (*c).min(*t)).collect();
            let deadline: Vec<i64> = raw.iter().map(|(t, c)| (*t - *c / 3).max((*c).min(*t))).collect();
            let sets = Sets { tasks: 5, period: &period, wcet: &wcet, deadline: Some(&deadline) };
            for ratio in [1.0, 3.0] {
                let mut out = vec![0; period.len()];
                response_times(sets, &supply, server, ratio, 1, &mut out).unwrap();
                for row in 0..19 {
                    let set = sets.set(row).unwrap();
                    for index in 0..5 {
                        let limit = (deadline[row * 5 + index] as f64 * ratio) as i128;
                        let exact = fixed::window(&set, index, &supply, limit).unwrap();
                        prop_assert_eq!(out[row * 5 + index], exact.map_or(BEYOND, |r| r as i64));
                    }
                }
            }
        }
    }

    #[test]
    fn times_too_large_for_doubles_take_the_integer_path() {
        let scale = 1i64 << 52;
        let (period, wcet) = ([8 * scale, 15 * scale], [scale, 3 * scale]);
        let supply = Supply::new(6 * i128::from(scale), 3 * i128::from(scale), 0, Server::Periodic).unwrap();
        let mut out = [0; 2];
        let sets = Sets { tasks: 2, period: &period, wcet: &wcet, deadline: None };
        response_times(sets, &supply, Server::Periodic, 1.0, 1, &mut out).unwrap();
        assert_eq!(out, [7 * scale, 14 * scale]);
    }
}
