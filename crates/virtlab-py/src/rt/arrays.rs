//! Many task sets at once, as numpy arrays.

use crate::rt::{refused, server};
use numpy::{IntoPyArray, PyArray2, PyArrayMethods, PyReadonlyArray2, PyUntypedArrayMethods};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use virtlab_rt::{Supply, batch};

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

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(rt_response_times, module)?)?;
    module.add_function(wrap_pyfunction!(rt_response_times_float, module)?)
}
