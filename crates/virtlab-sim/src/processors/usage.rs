//! Use of processors as a series: every so often, how many an entity used on average since the sample before.

use crate::input::{Usage, Used};
use crate::samples::Table;

/// What is sampled as often as each other, and the samples.
#[derive(Debug)]
pub struct Series {
    given: Usage,
    /// Of each entity, the processor time that it had used at the sample before.
    before_ns: Vec<f64>,
    /// Entities and metrics by their places; the value.
    samples: Vec<(u64, usize, usize, f64)>,
}

impl Series {
    /// Nothing sampled yet.
    #[must_use]
    pub fn new(given: &Usage) -> Self {
        Self { given: given.clone(), before_ns: vec![0.0; given.of.len()], samples: Vec::new() }
    }

    /// Whose use is sampled.
    #[must_use]
    pub fn of(&self) -> &[Used] {
        &self.given.of
    }

    /// Takes a sample of an entity that has used so much processor time until now.
    pub fn take(&mut self, now_ns: u64, entity: usize, used_ns: f64) {
        let processors = (used_ns - self.before_ns[entity]) / self.given.every_ns.max(1) as f64;
        self.before_ns[entity] = used_ns;
        for (metric, one) in self.given.of[entity].metrics.values().enumerate() {
            self.samples.push((now_ns, entity, metric, processors / one));
        }
    }

    /// All samples; `None` without any.
    #[must_use]
    pub fn table(&self) -> Option<Table> {
        let named = |&(t_ns, entity, metric, value): &(u64, usize, usize, f64)| {
            let used = &self.given.of[entity];
            let metric = used.metrics.keys().nth(metric).cloned().unwrap_or_default();
            (t_ns, used.entity.clone(), metric, value)
        };
        Table::series("series", &self.samples.iter().map(named).collect::<Vec<_>>())
    }
}
