//! The simulator: a world from JSON, played in slices without the interpreter's lock, samples as numpy columns.

use crate::arrays::array;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use std::sync::{Mutex, MutexGuard, PoisonError};
use virtlab_sim::{Column, Input, World, star};
use virtlab_wire::block::Column::{F64, I32, I64};

/// A world in virtual time: `play(events)` until it returns True, then `outcome()` once.
///
/// ValueError with a list of `(path, reason, cure)` when the input cannot be played.
#[pyclass(frozen)]
struct Simulation(Mutex<Option<World>>);

#[pymethods]
impl Simulation {
    #[new]
    fn new(py: Python<'_>, input: &str) -> PyResult<Self> {
        let input: Input = serde_json::from_str(input).map_err(|error| {
            let cure = "this is a mistake of virtlab";
            PyValueError::new_err((vec![("world".to_owned(), error.to_string(), cure.to_owned())],))
        })?;
        let world = py.detach(|| World::new(input)).map_err(|findings| {
            let all: Vec<_> =
                findings.into_iter().map(|finding| (finding.path, finding.reason, finding.cure)).collect();
            PyValueError::new_err((all,))
        })?;
        Ok(Self(Mutex::new(Some(world))))
    }

    /// Plays at most so many events; True when the pass is over.
    fn play(&self, py: Python<'_>, events: u64) -> PyResult<bool> {
        py.detach(|| self.world().as_mut().map(|world| world.play(events))).ok_or_else(gone)
    }

    /// Virtual time so far.
    #[getter]
    fn now_ns(&self) -> PyResult<u64> {
        self.world().as_ref().map(World::now_ns).ok_or_else(gone)
    }

    /// The delay, or time until an answer, below which a share of those lies of which no rows are kept; None without
    /// any.
    fn delay_ns(&self, ratio: f64) -> PyResult<Option<u64>> {
        self.world().as_ref().map(|world| world.delay_ns(ratio)).ok_or_else(gone)
    }

    /// A dict: `reasons`, `marks`, `windows`, `censored`, `happened`, `over_limits`, `events`, and `tables` of
    /// `(stream, schema, columns)`. Takes the world with it.
    fn outcome<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let world = self.world().take().ok_or_else(gone)?;
        let outcome = py.detach(|| world.outcome());
        let tables = PyList::empty(py);
        for table in outcome.tables {
            let columns = PyDict::new(py);
            for (name, column) in table.columns {
                match column {
                    Column::Numbers(I64(values)) => {
                        columns.set_item(name, array(py, &values, &[values.len()])?)?;
                    }
                    Column::Numbers(I32(values)) => {
                        columns.set_item(name, array(py, &values, &[values.len()])?)?;
                    }
                    Column::Numbers(F64(values)) => {
                        columns.set_item(name, array(py, &values, &[values.len()])?)?;
                    }
                    Column::Names(values) => columns.set_item(name, values)?,
                }
            }
            tables.append((table.stream, table.schema, columns))?;
        }
        let all = PyDict::new(py);
        all.set_item("reasons", outcome.reasons)?;
        all.set_item("marks", outcome.marks)?;
        all.set_item("windows", outcome.windows)?;
        all.set_item("censored", outcome.censored)?;
        all.set_item("happened", outcome.happened)?;
        all.set_item("over_limits", outcome.over_limits)?;
        all.set_item("events", outcome.events)?;
        all.set_item("tables", tables)?;
        Ok(all)
    }
}

/// The yardstick, hosts on one switch: `play(events)` until it returns True, then `figures()` once.
///
/// ValueError with a list of `(path, reason, cure)` for an impossible number of hosts.
#[pyclass(frozen)]
struct Star(Mutex<Option<World>>);

#[pymethods]
impl Star {
    #[new]
    fn new(py: Python<'_>, hosts: u32, poisson: bool, duration_ns: u64, seed: u64) -> PyResult<Self> {
        let world = py.detach(|| star::star(hosts, poisson, duration_ns, seed)).map_err(|findings| {
            let all: Vec<_> =
                findings.into_iter().map(|finding| (finding.path, finding.reason, finding.cure)).collect();
            PyValueError::new_err((all,))
        })?;
        Ok(Self(Mutex::new(Some(world))))
    }

    /// Plays at most so many events; True when it is over.
    fn play(&self, py: Python<'_>, events: u64) -> PyResult<bool> {
        let world =
            || self.0.lock().unwrap_or_else(PoisonError::into_inner).as_mut().map(|world| world.play(events));
        py.detach(world).ok_or_else(gone)
    }

    /// `packets` delivered, `undelivered`, `events`, `delay_ns` quantiles. Takes the world with it.
    fn figures<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let world = self.0.lock().unwrap_or_else(PoisonError::into_inner).take().ok_or_else(gone)?;
        let found = py.detach(|| star::figures(world));
        let delay_ns = PyDict::new(py);
        delay_ns.set_item("min", found.delay_range_ns.0)?;
        for (name, ratio) in [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99_9", 0.999)] {
            delay_ns.set_item(name, found.delays.quantile(ratio).map(|at| at.0))?;
        }
        delay_ns.set_item("max", found.delay_range_ns.1)?;
        let all = PyDict::new(py);
        all.set_item("packets", found.packets)?;
        all.set_item("undelivered", found.undelivered)?;
        all.set_item("events", found.events)?;
        all.set_item("delay_ns", delay_ns)?;
        Ok(all)
    }
}

impl Simulation {
    fn world(&self) -> MutexGuard<'_, Option<World>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn gone() -> PyErr {
    PyValueError::new_err("this world was played and its outcome taken")
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Simulation>()?;
    module.add_class::<Star>()
}
