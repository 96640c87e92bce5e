//! `virtlab._native`: types and errors converted between Python and the Rust crates, nothing else.

use pyo3::prelude::*;

mod wire;

#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    wire::register(module)
}
