//! Counters as read at marks.

use std::borrow::Cow;

/// The mark at which a role's own counters are read.
pub const STOPPED: &str = "stop";

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
}
