//! Counters as read at marks.

/// A counter's value at a mark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    pub t_ns: u64,
    pub mark: String,
    pub entity: String,
    pub counter: &'static str,
    pub value: i64,
}

/// Readings in order.
#[derive(Debug, Default)]
pub struct Readings(pub Vec<Reading>);

impl Readings {
    /// Notes several counters of one entity.
    pub fn note(&mut self, t_ns: u64, mark: &str, entity: &str, counters: &[(&'static str, u64)]) {
        self.0.extend(counters.iter().map(|(counter, value)| Reading {
            t_ns,
            mark: mark.to_owned(),
            entity: entity.to_owned(),
            counter,
            value: i64::try_from(*value).unwrap_or(i64::MAX),
        }));
    }
}
