//! The timeline: steps from JSON, events in, places of actions out.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::collections::BTreeMap;

/// The state of one pass, see `virtlab_timeline`. Steps are JSON, and named by their places in it; windows are pairs of
/// events by name. ValueError when the steps are not as the timeline reads them.
#[pyclass]
struct Timeline(virtlab_timeline::Timeline);

#[pymethods]
impl Timeline {
    #[new]
    fn new(steps: &str, windows: BTreeMap<String, (String, String)>, begin_ns: u64) -> PyResult<Self> {
        let steps = serde_json::from_str(steps).map_err(|error| PyValueError::new_err(error.to_string()))?;
        Ok(Self(virtlab_timeline::Timeline::new(steps, windows, begin_ns)))
    }

    /// An event happened; those that are marked now.
    fn event(&mut self, name: &str, t_ns: u64) -> Vec<String> {
        self.0.event(name, t_ns)
    }

    /// A plain wait ends at an instant.
    fn expect(&mut self, place: usize, at_ns: u64) {
        self.0.expect(place, at_ns);
    }

    /// The next plain wait that is over: place, instant.
    fn waited(&mut self, now_ns: u64) -> Option<(usize, u64)> {
        self.0.waited(now_ns)
    }

    /// The next action to begin: place, instant.
    fn due(&mut self, now_ns: u64, lead_ns: u64) -> Option<(usize, u64)> {
        self.0.due(now_ns, lead_ns)
    }

    /// The next action whose time-out has passed: place, word of the event.
    fn expired(&mut self, now_ns: u64) -> Option<(usize, &'static str)> {
        self.0.expired(now_ns)
    }

    /// The next instant at which one of these has something.
    fn next_ns(&self, lead_ns: u64) -> Option<u64> {
        self.0.next_ns(lead_ns)
    }

    /// Whether nothing is left to happen.
    fn over(&self) -> bool {
        self.0.over()
    }

    /// Windows that have both ends.
    fn windows(&self) -> BTreeMap<String, (u64, u64)> {
        self.0.windows()
    }

    /// Places of actions that began a role and are not over.
    fn running(&self) -> Vec<usize> {
        self.0.running().collect()
    }

    /// Actions of which it is unknown how long they would have taken.
    #[getter]
    fn censored(&self) -> Vec<String> {
        self.0.censored.clone()
    }

    /// Why the run has failed.
    #[getter]
    fn failures(&self) -> Vec<String> {
        self.0.failures.clone()
    }
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Timeline>()
}
