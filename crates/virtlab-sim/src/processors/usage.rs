//! Use of processors as a series: every so often, how many an entity used on average since the sample before.

use crate::input::{Usage, Used};
use crate::samples::{Column, Record, SeriesRow, Table};
use virtlab_wire::block;

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
        const { assert!(SeriesRow::COLUMNS.len() == 4, "a value below for each column") }
        let entity = |place: &usize| self.given.of[*place].entity.clone();
        let metric = |place: &usize, metric: &usize| {
            self.given.of[*place].metrics.keys().nth(*metric).cloned().unwrap_or_default()
        };
        let rows = || self.samples.iter();
        let values = [
            Column::Numbers(block::Column::I64(rows().map(|(t_ns, ..)| *t_ns as i64).collect())),
            Column::Names(rows().map(|(_, one, ..)| entity(one)).collect()),
            Column::Names(rows().map(|(_, one, which, _)| metric(one, which)).collect()),
            Column::Numbers(block::Column::F64(rows().map(|(.., value)| *value).collect())),
        ];
        (!self.samples.is_empty()).then(|| Table {
            stream: "series".to_owned(),
            schema: SeriesRow::SCHEMA,
            columns: SeriesRow::COLUMNS.iter().copied().zip(values).collect(),
        })
    }
}
