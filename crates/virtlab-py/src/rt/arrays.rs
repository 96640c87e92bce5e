//! Many task sets at once, as numpy arrays.

use crate::arrays::{array, table};
use crate::rt::{refused, server};
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use virtlab_rt::{Supply, batch};

fn unlike() -> PyErr {
    PyValueError::new_err((None::<usize>, "arrays need one shape (sets, tasks)"))
}

/// Response times of many sets; int64 arrays of shape (sets, tasks). Beyond the limit: the largest int64.
#[pyfunction]
#[allow(clippy::too_many_arguments)]
fn rt_response_times<'py>(
    py: Python<'py>,
    period: PyBuffer<i64>,
    wcet: PyBuffer<i64>,
    deadline: Option<PyBuffer<i64>>,
    vm: i64,
    budget: i64,
    overhead: i64,
    polling: bool,
    limit_ratio: f64,
    threads: usize,
) -> PyResult<Bound<'py, PyAny>> {
    let supply = Supply::new(vm.into(), budget.into(), overhead.into(), server(polling)).map_err(refused)?;
    let (period, shape) = table(py, &period, "periods")?;
    let (wcet, of_wcet) = table(py, &wcet, "execution times")?;
    let deadline = deadline.map(|given| table(py, &given, "deadlines")).transpose()?;
    if of_wcet != shape || deadline.as_ref().is_some_and(|(_, of_deadline)| *of_deadline != shape) {
        return Err(unlike());
    }
    let deadline = deadline.as_ref().map(|(rows, _)| rows.as_slice());
    let sets = batch::Sets { tasks: shape[1], period: &period, wcet: &wcet, deadline };
    let mut out = vec![0i64; shape[0] * shape[1]];
    py.detach(|| batch::response_times(sets, &supply, server(polling), limit_ratio, threads, &mut out))
        .map_err(refused)?;
    array(py, &out, &shape)
}

/// The same in doubles, for comparison; infinite beyond the limit.
#[pyfunction]
fn rt_response_times_float<'py>(
    py: Python<'py>,
    period: PyBuffer<f64>,
    wcet: PyBuffer<f64>,
    vm: f64,
    budget: f64,
    overhead: f64,
) -> PyResult<Bound<'py, PyAny>> {
    let (periods, shape) = table(py, &period, "periods")?;
    let (wcets, of_wcet) = table(py, &wcet, "execution times")?;
    if of_wcet != shape {
        return Err(unlike());
    }
    let mut out = vec![0.0; shape[0] * shape[1]];
    py.detach(|| {
        batch::response_times_float(shape[1], &periods, &wcets, [vm, budget, overhead], 1.0, &mut out)
    });
    array(py, &out, &shape)
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(rt_response_times, module)?)?;
    module.add_function(wrap_pyfunction!(rt_response_times_float, module)?)
}
