//! `virtlab._native`: types and errors converted between Python and the Rust crates, nothing else.

use pyo3::prelude::*;

mod arrays;
mod migration;
mod rt;
mod sim;
mod timeline;
mod wire;

/// Panics, as a broken invariant does: a test sees by it how a command ends then. Nothing else calls it.
#[pyfunction]
fn _panic_for_tests() {
    panic!("a test wanted it");
}

#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    migration::register(module)?;
    rt::register(module)?;
    sim::register(module)?;
    timeline::register(module)?;
    wire::register(module)?;
    module.add_function(wrap_pyfunction!(_panic_for_tests, module)?)
}
