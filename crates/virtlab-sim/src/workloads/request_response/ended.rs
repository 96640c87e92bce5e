//! What is kept of requests that have ended: a row of each, or, where no rows are wanted, how long answered ones took.

use crate::samples::{ResponseRow, Table};
use virtlab_load::histogram::Histogram;
use virtlab_load::parameters::request_response::Ending;
use virtlab_wire::Nanos;

/// Requests that have ended.
pub enum Ended {
    Rows(Vec<ResponseRow>),
    Times(Histogram),
}

impl Ended {
    /// None yet.
    pub fn new(with_rows: bool) -> Self {
        if with_rows { Self::Rows(Vec::new()) } else { Self::Times(Histogram::default()) }
    }

    /// One has.
    pub fn note(&mut self, row: ResponseRow) {
        match self {
            Self::Rows(rows) => rows.push(row),
            Self::Times(times) if row.error == Ending::Answered as i32 => {
                times.record(Nanos((row.finished_ns - row.intended_ns).max(0) as u64));
            }
            Self::Times(_) => {}
        }
    }

    /// The rows as a table; `None` without any.
    pub fn table(&self, stream: &str) -> Option<Table> {
        match self {
            Self::Rows(rows) => Table::of(stream, rows),
            Self::Times(_) => None,
        }
    }

    /// How long answered requests took, where no rows are wanted.
    pub const fn times(&self) -> Option<&Histogram> {
        match self {
            Self::Rows(_) => None,
            Self::Times(times) => Some(times),
        }
    }
}
