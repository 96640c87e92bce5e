//! Schedulability of one task set. Fractions cross as `(numerator, denominator)`.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use virtlab_rt::{
    IntervalSet, Rational, RtError, Server, Supply, Task, TaskSet, best, budget, edf, fixed, period,
    priority, sensitivity,
};

mod arrays;
mod hosts;
mod studies;

type Fraction = (i128, i128);
type Interval = (Fraction, Fraction);
/// Response time, deadline, safe, witness (t, w, k).
type Verdict = (Option<Fraction>, i128, bool, Option<(Fraction, Fraction, i128)>);

/// ValueError with `(place of the task or None, text)`.
fn refused(error: RtError) -> PyErr {
    match error {
        RtError::Task { index, what } => PyValueError::new_err((Some(index), what)),
        other => PyValueError::new_err((None::<usize>, other.to_string())),
    }
}

fn rational(value: Fraction) -> PyResult<Rational> {
    Rational::new(value.0, value.1).map_err(refused)
}

fn over(value: i128, factor: i128) -> PyResult<Fraction> {
    let reduced = Rational::new(value, factor).map_err(refused)?;
    Ok((reduced.num(), reduced.den()))
}

fn fraction(value: Rational, factor: i128) -> PyResult<Fraction> {
    let reduced = value.over(Rational::whole(factor)).map_err(refused)?;
    Ok((reduced.num(), reduced.den()))
}

fn intervals(set: &IntervalSet, factor: i128) -> PyResult<Vec<Interval>> {
    set.parts().iter().map(|part| Ok((fraction(part.low, factor)?, fraction(part.high, factor)?))).collect()
}

const fn server(polling: bool) -> Server {
    if polling { Server::Polling } else { Server::Periodic }
}

/// Checked tasks, highest priority first; times in whole ticks.
#[pyclass(frozen)]
struct RtTaskSet(TaskSet);

impl RtTaskSet {
    fn common(
        &self,
        vm: Fraction,
        budget: Fraction,
        overhead: Fraction,
        polling: bool,
    ) -> PyResult<(i128, TaskSet, Supply)> {
        let (factor, supply) =
            Supply::rational(rational(vm)?, rational(budget)?, rational(overhead)?, server(polling))
                .map_err(refused)?;
        Ok((factor, self.0.scaled(factor).map_err(refused)?, supply))
    }

    /// A factor that makes both values whole, and the set and both values times it.
    fn scaled(&self, [first, second]: [Fraction; 2]) -> PyResult<(i128, TaskSet, [i128; 2])> {
        let (first, second) = (rational(first)?, rational(second)?);
        let factor = virtlab_rt::supply::common_denominator(&[first, second]).map_err(refused)?;
        let whole =
            |value: Rational| value.times(Rational::whole(factor)).map(Rational::num).map_err(refused);
        Ok((factor, self.0.scaled(factor).map_err(refused)?, [whole(first)?, whole(second)?]))
    }

    fn question(
        &self,
        share: Fraction,
        overhead: Fraction,
        polling: bool,
    ) -> PyResult<(i128, TaskSet, period::Question)> {
        let (share, overhead) = (rational(share)?, rational(overhead)?);
        let factor = overhead.den();
        let set = self.0.scaled(factor).map_err(refused)?;
        Ok((factor, set, period::Question { share, overhead: overhead.num(), server: server(polling) }))
    }
}

#[pymethods]
impl RtTaskSet {
    /// From rows (period, wcet, deadline, jitter, blocking).
    #[new]
    fn new(tasks: Vec<(i64, i64, i64, i64, i64)>) -> PyResult<Self> {
        let tasks = tasks
            .into_iter()
            .map(|(period, wcet, deadline, jitter, blocking)| Task {
                period,
                wcet,
                deadline,
                jitter,
                blocking,
            })
            .collect();
        TaskSet::new(tasks).map(Self).map_err(refused)
    }

    fn __len__(&self) -> usize {
        self.0.len()
    }

    /// Response times in ticks at whole-tick P, B, X; None beyond the deadline.
    #[pyo3(signature = (period, budget, overhead = 0, polling = false))]
    fn response_times(
        &self,
        period: i64,
        budget: i64,
        overhead: i64,
        polling: bool,
    ) -> PyResult<Vec<Option<i64>>> {
        let supply =
            Supply::new(period.into(), budget.into(), overhead.into(), server(polling)).map_err(refused)?;
        let mut found = Vec::with_capacity(self.0.len());
        for (index, task) in self.0.tasks().iter().enumerate() {
            let window = fixed::window(&self.0, index, &supply, task.window()).map_err(refused)?;
            found.push(window.map(|t| t as i64 + task.jitter));
        }
        Ok(found)
    }

    /// One verdict per task, and the place of the critical one.
    fn analyze(
        &self,
        vm: Fraction,
        budget: Fraction,
        overhead: Fraction,
        polling: bool,
        by_edf: bool,
    ) -> PyResult<(Vec<Verdict>, usize)> {
        let (factor, set, supply) = self.common(vm, budget, overhead, polling)?;
        let found = if by_edf { edf::responses(&set, &supply) } else { fixed::responses(&set, &supply) }
            .map_err(refused)?;
        let rows = found
            .iter()
            .zip(self.0.tasks())
            .map(|(response, task)| {
                let witness = match response.witness {
                    Some(proof) => Some((over(proof.t, factor)?, over(proof.w, factor)?, proof.k)),
                    None => None,
                };
                let wcrt = response.wcrt.map(|wcrt| over(wcrt, factor)).transpose()?;
                Ok((wcrt, i128::from(task.deadline), response.safe, witness))
            })
            .collect::<PyResult<Vec<_>>>()?;
        Ok((rows, fixed::critical(&found)))
    }

    /// Intervals of periods at which a share is enough. `policy`: fixed, edf, audsley.
    fn periods(
        &self,
        py: Python<'_>,
        share: Fraction,
        overhead: Fraction,
        polling: bool,
        policy: &str,
    ) -> PyResult<Vec<Interval>> {
        let (factor, set, question) = self.question(share, overhead, polling)?;
        let found = py.detach(|| match policy {
            "edf" => period::earliest_deadline(&set, &question),
            "audsley" => priority::audsley_periods(&set, &question),
            _ => period::fixed_priority(&set, &question),
        });
        intervals(&found.map_err(refused)?, factor)
    }

    /// Intervals of periods at which one task is safe under fixed priorities.
    fn periods_of_task(
        &self,
        index: usize,
        share: Fraction,
        overhead: Fraction,
        polling: bool,
    ) -> PyResult<Vec<Interval>> {
        if index >= self.0.len() {
            return Err(PyValueError::new_err((None::<usize>, format!("no task {index}"))));
        }
        let (factor, set, question) = self.question(share, overhead, polling)?;
        intervals(&period::of_task(&set, index, &question).map_err(refused)?, factor)
    }

    /// Least budget and the place of the task that needs it, or None.
    fn budget(
        &self,
        vm: Fraction,
        overhead: Fraction,
        polling: bool,
        by_edf: bool,
    ) -> PyResult<Option<(Fraction, usize)>> {
        let (factor, set, [period, overhead]) = self.scaled([vm, overhead])?;
        let question = budget::Question { period, overhead, server: server(polling) };
        let found = if by_edf {
            budget::earliest_deadline(&set, &question)
        } else {
            budget::fixed_priority(&set, &question)
        };
        found.map_err(refused)?.map(|(least, index)| Ok((fraction(least, factor)?, index))).transpose()
    }

    /// (period, budget) of least share, or None.
    fn best(
        &self,
        py: Python<'_>,
        overhead: Fraction,
        least_period: Fraction,
        polling: bool,
        by_edf: bool,
    ) -> PyResult<Option<(Fraction, Fraction)>> {
        let (factor, set, [overhead, least_period]) = self.scaled([overhead, least_period])?;
        let question = best::Question { overhead, least_period, server: server(polling), edf: by_edf };
        let found = py.detach(|| best::least_share(&set, &question)).map_err(refused)?;
        found.map(|pair| Ok((fraction(pair.period, factor)?, fraction(pair.budget, factor)?))).transpose()
    }

    /// Whether all deadlines hold.
    fn schedulable(
        &self,
        vm: Fraction,
        budget: Fraction,
        overhead: Fraction,
        polling: bool,
        by_edf: bool,
    ) -> PyResult<bool> {
        let (_, set, supply) = self.common(vm, budget, overhead, polling)?;
        if by_edf {
            return Ok(edf::failure(&set, &supply).map_err(refused)?.is_none());
        }
        fixed::schedulable(&set, &supply).map_err(refused)
    }

    /// An order (places, highest first) in which all are safe at this supply, or None.
    fn audsley(
        &self,
        vm: Fraction,
        budget: Fraction,
        overhead: Fraction,
        polling: bool,
    ) -> PyResult<Option<Vec<usize>>> {
        let (_, set, supply) = self.common(vm, budget, overhead, polling)?;
        priority::audsley(&set, &supply).map_err(refused)
    }

    /// Places by period.
    fn rate_monotonic(&self) -> Vec<usize> {
        priority::rate_monotonic(&self.0)
    }

    /// Places by deadline less jitter.
    fn deadline_monotonic(&self) -> Vec<usize> {
        priority::deadline_monotonic(&self.0)
    }

    /// The set in another order.
    fn reordered(&self, order: Vec<usize>) -> PyResult<Self> {
        if order.iter().any(|place| *place >= self.0.len()) {
            return Err(PyValueError::new_err((None::<usize>, "no such place")));
        }
        priority::reordered(&self.0, &order).map(Self).map_err(refused)
    }

    /// Largest growth before a deadline breaks, and of which task; `quantity`: wcet (of `index`, amount), all (factor),
    /// overhead (value).
    #[allow(clippy::too_many_arguments)]
    fn limit(
        &self,
        quantity: &str,
        index: usize,
        vm: Fraction,
        budget: Fraction,
        overhead: Fraction,
        polling: bool,
        by_edf: bool,
    ) -> PyResult<Option<(Fraction, usize)>> {
        let (factor, set, supply) = self.common(vm, budget, overhead, polling)?;
        let (grown, factor) = match quantity {
            "wcet" if index < self.0.len() => (sensitivity::Grown::Wcet(index), factor),
            "all" => (sensitivity::Grown::AllWcet, 1),
            "overhead" => (sensitivity::Grown::Overhead, factor),
            _ => {
                return Err(PyValueError::new_err((
                    None::<usize>,
                    format!("nothing to grow called {quantity} {index}"),
                )));
            }
        };
        let found = sensitivity::limit(&set, &supply, server(polling), grown, by_edf).map_err(refused)?;
        found.map(|(value, index)| Ok((fraction(value, factor)?, index))).transpose()
    }
}

/// Longest wait for `demand`, and the least supply within `length`; whole ticks.
#[pyfunction]
#[pyo3(signature = (demand, length, period, budget, overhead = 0, polling = false))]
fn rt_supply(
    demand: i64,
    length: i64,
    period: i64,
    budget: i64,
    overhead: i64,
    polling: bool,
) -> PyResult<(i128, i128)> {
    let supply =
        Supply::new(period.into(), budget.into(), overhead.into(), server(polling)).map_err(refused)?;
    Ok((supply.time_to_supply(demand.into()).map_err(refused)?, supply.supplied_by(length.into())))
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<RtTaskSet>()?;
    module.add_function(wrap_pyfunction!(rt_supply, module)?)?;
    arrays::register(module)?;
    studies::register(module)?;
    hosts::register(module)
}
