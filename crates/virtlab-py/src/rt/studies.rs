//! Families of random task sets, and what studies ask of them.

use crate::arrays::array;
use crate::rt::{Fraction, rational, refused};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use virtlab_rt::generate::{Draw, Family, Periods, Wcets};
use virtlab_rt::{Rational, study};

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
) -> PyResult<Bound<'py, PyAny>> {
    let family = family(row)?;
    let shares = shares.into_iter().map(rational).collect::<PyResult<Vec<_>>>()?;
    if shares.iter().any(|share| *share <= Rational::ZERO || *share >= Rational::ONE) {
        return Err(PyValueError::new_err((None::<usize>, "shares must lie between 0 and 1")));
    }
    let found = py
        .detach(|| study::largest_ratios(&family, &utilisations, &shares, sets, seed, threads))
        .map_err(refused)?;
    array(py, &found, &[found.len()])
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
) -> PyResult<Bound<'py, PyAny>> {
    let (family, share) = (family(row)?, rational(share)?);
    let found = py
        .detach(|| {
            study::response_curve(&family, utilisation, share, overhead, &periods, sets, seed, cap, threads)
        })
        .map_err(refused)?;
    array(py, &found, &[found.len()])
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
) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
    let family = family(row)?;
    let (mut periods, mut wcets) = (Vec::new(), Vec::new());
    let (mut draw, mut one) = (Draw::default(), Vec::new());
    for number in 0..sets {
        draw.fill(&family, seed, number as u64);
        draw.wcets(utilisation, &mut one);
        periods.extend_from_slice(&draw.period);
        wcets.extend_from_slice(&one);
    }
    let shape = [sets, family.tasks];
    Ok((array(py, &periods, &shape)?, array(py, &wcets, &shape)?))
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(rt_largest_ratios, module)?)?;
    module.add_function(wrap_pyfunction!(rt_response_curve, module)?)?;
    module.add_function(wrap_pyfunction!(rt_exact_periods, module)?)?;
    module.add_function(wrap_pyfunction!(rt_generate, module)?)
}
