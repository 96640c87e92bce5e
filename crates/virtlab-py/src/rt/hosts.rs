//! Many guests on the cores of one host.

use crate::rt::refused;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use virtlab_rt::host::{self, HostPolicy, VmServer};

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
    module.add_function(wrap_pyfunction!(rt_pack, module)?)?;
    module.add_function(wrap_pyfunction!(rt_starts, module)?)
}
