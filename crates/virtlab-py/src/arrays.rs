//! numpy's arrays by Python's buffer protocol: numbers are copied out of them, and into new ones.

use pyo3::buffer::{Element, PyBuffer};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// A number that arrays hold.
pub trait Number: Element {
    /// What numpy calls it.
    const DTYPE: &str;
}

impl Number for i64 {
    const DTYPE: &str = "int64";
}

impl Number for i32 {
    const DTYPE: &str = "int32";
}

impl Number for f64 {
    const DTYPE: &str = "float64";
}

/// A new array of a shape that holds these numbers, row by row.
pub fn array<'py, T: Number>(py: Python<'py>, values: &[T], shape: &[usize]) -> PyResult<Bound<'py, PyAny>> {
    let made = py.import("numpy")?.call_method1("empty", (shape, T::DTYPE))?;
    PyBuffer::get(&made)?.copy_from_slice(py, values)?;
    Ok(made)
}

/// The numbers of an array of two dimensions, row by row, and its shape.
pub fn table<T: Number>(py: Python<'_>, given: &PyBuffer<T>, name: &str) -> PyResult<(Vec<T>, [usize; 2])> {
    let shape = given.shape().try_into().map_err(|_| {
        PyValueError::new_err((None::<usize>, format!("{name} need the shape (sets, tasks)")))
    })?;
    Ok((given.to_vec(py)?, shape))
}
