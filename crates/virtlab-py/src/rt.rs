//! Schedulability: task sets, arrays of them, studies, hosts. Fractions cross as `(numerator, denominator)`.

use numpy::{IntoPyArray, PyArray1, PyArray2, PyArrayMethods, PyReadonlyArray2, PyUntypedArrayMethods};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use virtlab_rt::generate::{Family, Periods, Wcets};
use virtlab_rt::host::{self, HostPolicy, VmServer};
use virtlab_rt::{
    IntervalSet, Rational, RtError, Server, Supply, Task, TaskSet, batch, best, budget, edf, fixed, period,
    priority, sensitivity, study,
};

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
        let (vm, overhead) = (rational(vm)?, rational(overhead)?);
        let factor = virtlab_rt::supply::common_denominator(&[vm, overhead]).map_err(refused)?;
        let whole =
            |value: Rational| value.times(Rational::whole(factor)).map(Rational::num).map_err(refused);
        let set = self.0.scaled(factor).map_err(refused)?;
        let question =
            budget::Question { period: whole(vm)?, overhead: whole(overhead)?, server: server(polling) };
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
        let (overhead, least) = (rational(overhead)?, rational(least_period)?);
        let factor = virtlab_rt::supply::common_denominator(&[overhead, least]).map_err(refused)?;
        let whole =
            |value: Rational| value.times(Rational::whole(factor)).map(Rational::num).map_err(refused);
        let set = self.0.scaled(factor).map_err(refused)?;
        let question = best::Question {
            overhead: whole(overhead)?,
            least_period: whole(least)?,
            server: server(polling),
            edf: by_edf,
        };
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

    /// Largest growth before a deadline breaks, and of which task; `what`: wcet (of `index`, amount), all (factor),
    /// overhead (value).
    #[allow(clippy::too_many_arguments)]
    fn limit(
        &self,
        what: &str,
        index: usize,
        vm: Fraction,
        budget: Fraction,
        overhead: Fraction,
        polling: bool,
        by_edf: bool,
    ) -> PyResult<Option<(Fraction, usize)>> {
        let (factor, set, supply) = self.common(vm, budget, overhead, polling)?;
        let (grown, factor) = match what {
            "wcet" if index < self.0.len() => (sensitivity::Grown::Wcet(index), factor),
            "all" => (sensitivity::Grown::AllWcet, 1),
            "overhead" => (sensitivity::Grown::Overhead, factor),
            _ => {
                return Err(PyValueError::new_err((
                    None::<usize>,
                    format!("nothing to grow called {what} {index}"),
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

fn contiguous<'a, T: numpy::Element>(array: &'a PyReadonlyArray2<'_, T>, name: &str) -> PyResult<&'a [T]> {
    array
        .as_slice()
        .map_err(|_| PyValueError::new_err((None::<usize>, format!("{name} must be contiguous, row by row"))))
}

/// Response times of many sets; int64 arrays of shape (sets, tasks). Beyond the limit: the largest int64.
#[pyfunction]
#[allow(clippy::too_many_arguments)]
fn rt_response_times<'py>(
    py: Python<'py>,
    period: PyReadonlyArray2<'py, i64>,
    wcet: PyReadonlyArray2<'py, i64>,
    deadline: Option<PyReadonlyArray2<'py, i64>>,
    vm: i64,
    budget: i64,
    overhead: i64,
    polling: bool,
    limit_ratio: f64,
    threads: usize,
) -> PyResult<Bound<'py, PyArray2<i64>>> {
    let supply = Supply::new(vm.into(), budget.into(), overhead.into(), server(polling)).map_err(refused)?;
    let shape = [period.shape()[0], period.shape()[1]];
    if wcet.shape() != shape || deadline.as_ref().is_some_and(|deadline| deadline.shape() != shape) {
        return Err(PyValueError::new_err((None::<usize>, "arrays need one shape (sets, tasks)")));
    }
    let deadline_rows = deadline.as_ref().map(|array| contiguous(array, "deadlines")).transpose()?;
    let sets = batch::Sets {
        tasks: shape[1],
        period: contiguous(&period, "periods")?,
        wcet: contiguous(&wcet, "execution times")?,
        deadline: deadline_rows,
    };
    let mut out = vec![0i64; shape[0] * shape[1]];
    py.detach(|| batch::response_times(sets, &supply, server(polling), limit_ratio, threads, &mut out))
        .map_err(refused)?;
    out.into_pyarray(py).reshape(shape)
}

/// The same in doubles, for comparison; infinite beyond the limit.
#[pyfunction]
fn rt_response_times_float<'py>(
    py: Python<'py>,
    period: PyReadonlyArray2<'py, f64>,
    wcet: PyReadonlyArray2<'py, f64>,
    vm: f64,
    budget: f64,
    overhead: f64,
) -> PyResult<Bound<'py, PyArray2<f64>>> {
    let shape = [period.shape()[0], period.shape()[1]];
    let (periods, wcets) = (contiguous(&period, "periods")?, contiguous(&wcet, "execution times")?);
    if wcet.shape() != shape {
        return Err(PyValueError::new_err((None::<usize>, "arrays need one shape (sets, tasks)")));
    }
    let mut out = vec![0.0; shape[0] * shape[1]];
    py.detach(|| {
        batch::response_times_float(shape[1], periods, wcets, [vm, budget, overhead], 1.0, &mut out)
    });
    out.into_pyarray(py).reshape(shape)
}

/// (tasks, shortest, longest period, log-uniform, least wcet, UUniFast, ticks per time unit).
type FamilyRow = (usize, i64, i64, bool, i64, bool, i64);

fn family(row: FamilyRow) -> PyResult<Family> {
    let (tasks, low, high, log_uniform, least_wcet, uunifast, ticks) = row;
    if tasks == 0
        || low <= 0
        || high < low
        || least_wcet <= 0
        || ticks <= 0
        || high.checked_mul(ticks).is_none_or(|t| t > 1 << 44)
    {
        return Err(PyValueError::new_err((
            None::<usize>,
            "a family needs tasks >= 1 and 0 < shortest <= longest period (below 2^44 ticks)",
        )));
    }
    Ok(Family {
        tasks,
        periods: (low, high),
        spread: if log_uniform { Periods::LogUniform } else { Periods::Uniform },
        least_wcet,
        wcets: if uunifast { Wcets::UUniFastDiscard } else { Wcets::Scaled },
        ticks,
    })
}

/// P/T_1 of the largest exact period, flat array in order (utilisation, share, set); 0 where none is enough.
#[pyfunction]
fn rt_largest_ratios<'py>(
    py: Python<'py>,
    row: FamilyRow,
    utilisations: Vec<f64>,
    shares: Vec<Fraction>,
    sets: usize,
    seed: u64,
    threads: usize,
) -> PyResult<Bound<'py, PyArray1<f64>>> {
    let family = family(row)?;
    let shares = shares.into_iter().map(rational).collect::<PyResult<Vec<_>>>()?;
    if shares.iter().any(|share| *share <= Rational::ZERO || *share >= Rational::ONE) {
        return Err(PyValueError::new_err((None::<usize>, "shares must lie between 0 and 1")));
    }
    let found = py
        .detach(|| study::largest_ratios(&family, &utilisations, &shares, sets, seed, threads))
        .map_err(refused)?;
    Ok(found.into_pyarray(py))
}

/// Greatest R/T of each set at each VM period, flat array in order (period, set); infinite beyond `cap`.
#[pyfunction]
#[allow(clippy::too_many_arguments)]
fn rt_response_curve<'py>(
    py: Python<'py>,
    row: FamilyRow,
    utilisation: f64,
    share: Fraction,
    overhead: i64,
    periods: Vec<i64>,
    sets: usize,
    seed: u64,
    cap: f64,
    threads: usize,
) -> PyResult<Bound<'py, PyArray1<f64>>> {
    let (family, share) = (family(row)?, rational(share)?);
    let found = py
        .detach(|| {
            study::response_curve(&family, utilisation, share, overhead, &periods, sets, seed, cap, threads)
        })
        .map_err(refused)?;
    Ok(found.into_pyarray(py))
}

/// Per set: (T_1, C_1, intervals of periods), ticks.
#[pyfunction]
#[allow(clippy::too_many_arguments, clippy::type_complexity)]
fn rt_exact_periods(
    py: Python<'_>,
    row: FamilyRow,
    utilisation: f64,
    share: Fraction,
    overhead: i64,
    sets: usize,
    seed: u64,
    threads: usize,
) -> PyResult<Vec<(i64, i64, Vec<(f64, f64)>)>> {
    let (family, share) = (family(row)?, rational(share)?);
    let found = py
        .detach(|| study::exact_periods(&family, utilisation, share, overhead, sets, seed, threads))
        .map_err(refused)?;
    Ok(found.into_iter().map(|one| (one.first_period, one.first_wcet, one.intervals)).collect())
}

/// Task sets of a family: (T, C) as int64 arrays of shape (sets, tasks), periods ascending, ticks.
#[pyfunction]
#[allow(clippy::type_complexity)]
fn rt_generate<'py>(
    py: Python<'py>,
    row: FamilyRow,
    utilisation: f64,
    sets: usize,
    seed: u64,
) -> PyResult<(Bound<'py, PyArray2<i64>>, Bound<'py, PyArray2<i64>>)> {
    let family = family(row)?;
    let (mut periods, mut wcets) = (Vec::new(), Vec::new());
    let (mut draw, mut one) = (virtlab_rt::generate::Draw::default(), Vec::new());
    for number in 0..sets {
        draw.fill(&family, seed, number as u64);
        draw.wcets(utilisation, &mut one);
        periods.extend_from_slice(&draw.period);
        wcets.extend_from_slice(&one);
    }
    let shape = [sets, family.tasks];
    Ok((periods.into_pyarray(py).reshape(shape)?, wcets.into_pyarray(py).reshape(shape)?))
}

/// (period, budget, deferrable, group).
type ServerRow = (i64, i64, bool, usize);

fn host_side(
    rows: Vec<ServerRow>,
    by_edf: bool,
    preemptive: bool,
    switch_cost: i64,
) -> PyResult<(Vec<VmServer>, HostPolicy)> {
    let servers = rows
        .into_iter()
        .enumerate()
        .map(|(index, (period, budget, deferrable, group))| {
            if period <= 0 || budget <= 0 || budget > period {
                return Err(PyValueError::new_err((Some(index), "needs 0 < budget <= period")));
            }
            Ok(VmServer { period, budget, deferrable, group })
        })
        .collect::<PyResult<Vec<_>>>()?;
    if switch_cost < 0 {
        return Err(PyValueError::new_err((None::<usize>, "the switch cost must not be negative")));
    }
    Ok((servers, HostPolicy { edf: by_edf, preemptive, switch_cost }))
}

/// A core for each server, or None when `cores` are too few.
#[pyfunction]
fn rt_pack(
    rows: Vec<ServerRow>,
    by_edf: bool,
    preemptive: bool,
    switch_cost: i64,
    cores: usize,
    exact: bool,
) -> PyResult<Option<Vec<usize>>> {
    let (servers, policy) = host_side(rows, by_edf, preemptive, switch_cost)?;
    host::pack(&servers, &policy, cores, exact).map_err(refused)
}

/// Most starts of each server within one of its periods, all on one core.
#[pyfunction]
fn rt_starts(rows: Vec<ServerRow>, by_edf: bool, preemptive: bool) -> PyResult<Vec<i128>> {
    let (servers, policy) = host_side(rows, by_edf, preemptive, 0)?;
    Ok((0..servers.len()).map(|index| host::starts(&servers, index, &policy)).collect())
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<RtTaskSet>()?;
    module.add_function(wrap_pyfunction!(rt_supply, module)?)?;
    module.add_function(wrap_pyfunction!(rt_response_times, module)?)?;
    module.add_function(wrap_pyfunction!(rt_response_times_float, module)?)?;
    module.add_function(wrap_pyfunction!(rt_largest_ratios, module)?)?;
    module.add_function(wrap_pyfunction!(rt_response_curve, module)?)?;
    module.add_function(wrap_pyfunction!(rt_exact_periods, module)?)?;
    module.add_function(wrap_pyfunction!(rt_generate, module)?)?;
    module.add_function(wrap_pyfunction!(rt_pack, module)?)?;
    module.add_function(wrap_pyfunction!(rt_starts, module)?)
}
