//! `virtlab._native`: types and errors converted between Python and the Rust crates, nothing else.

use pyo3::prelude::*;

mod arrays;
mod migration;
mod rt;
mod sim;
mod timeline;
mod wire;

#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    migration::register(module)?;
    rt::register(module)?;
    sim::register(module)?;
    timeline::register(module)?;
    wire::register(module)
}
