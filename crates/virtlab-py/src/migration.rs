//! Migrations by their model: questions and courses as JSON.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use serde::Serialize;
use virtlab_migration::Question;

/// The course of each guest's migration, see `virtlab_migration`. ValueError names what of the question makes no sense.
#[pyfunction]
fn migration_courses(py: Python<'_>, question: &str) -> PyResult<String> {
    let question = parsed(question)?;
    written(&py.detach(|| virtlab_migration::courses(&question)).map_err(PyValueError::new_err)?)
}

/// The smallest bandwidth, downtime limit and throttle that are enough.
#[pyfunction]
#[pyo3(signature = (question, within_s=None))]
fn migration_least(py: Python<'_>, question: &str, within_s: Option<f64>) -> PyResult<String> {
    let question = parsed(question)?;
    written(&py.detach(|| virtlab_migration::least(&question, within_s)).map_err(PyValueError::new_err)?)
}

fn parsed(question: &str) -> PyResult<Question> {
    serde_json::from_str(question).map_err(|error| PyValueError::new_err(error.to_string()))
}

fn written(answer: &impl Serialize) -> PyResult<String> {
    serde_json::to_string(answer).map_err(|error| PyValueError::new_err(error.to_string()))
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(migration_courses, module)?)?;
    module.add_function(wrap_pyfunction!(migration_least, module)?)
}
