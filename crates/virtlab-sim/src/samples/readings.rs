//! Counters as read at marks.

use crate::samples::{Column, CounterRow, Record, Table};
use std::borrow::Cow;
use virtlab_wire::block;

/// The mark at which a role's own counters are read.
pub const STOPPED: &str = "stop";

/// The mark of a run's end.
pub const ENDED: &str = "end";

/// A counter's value at a mark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    pub t_ns: u64,
    pub mark: String,
    pub entity: String,
    pub counter: Cow<'static, str>,
    pub value: i64,
}

/// Readings in order.
#[derive(Debug, Default)]
pub struct Readings(pub Vec<Reading>);

impl Readings {
    /// Notes several counters of one entity.
    pub fn note(&mut self, t_ns: u64, mark: &str, entity: &str, counters: &[(&'static str, u64)]) {
        for (counter, value) in counters {
            self.note_one(t_ns, mark, entity, Cow::Borrowed(counter), *value);
        }
    }

    /// Notes one counter.
    pub fn note_one(&mut self, t_ns: u64, mark: &str, entity: &str, counter: Cow<'static, str>, value: u64) {
        let value = i64::try_from(value).unwrap_or(i64::MAX);
        self.0.push(Reading { t_ns, mark: mark.to_owned(), entity: entity.to_owned(), counter, value });
    }

    /// All as one table; `None` without any.
    pub fn table(&self) -> Option<Table> {
        const { assert!(CounterRow::COLUMNS.len() == 5, "a value below for each column") }
        let numbers = |number: fn(&Reading) -> i64| {
            Column::Numbers(block::Column::I64(self.0.iter().map(number).collect()))
        };
        let names = |name: fn(&Reading) -> String| Column::Names(self.0.iter().map(name).collect());
        let values = [
            numbers(|row| row.t_ns as i64),
            names(|row| row.mark.clone()),
            names(|row| row.entity.clone()),
            names(|row| row.counter.clone().into_owned()),
            numbers(|row| row.value),
        ];
        (!self.0.is_empty()).then(|| Table {
            stream: "counters".to_owned(),
            schema: CounterRow::SCHEMA,
            columns: CounterRow::COLUMNS.iter().copied().zip(values).collect(),
        })
    }
}
