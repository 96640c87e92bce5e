//! Samples as columns, under the names of the block schemas.

pub mod readings;

pub use virtlab_wire::rows::{
    BurstRow, CounterRow, IntervalRow, MemoryRow, OperationRow, PacketRow, Record, RequestRow, ResponseRow,
    RtJobRow, RtSupplyRow, RttRow, SentRow, SeriesRow, TransactionRow,
};

use virtlab_wire::block;

/// One column.
#[derive(Clone, Debug, PartialEq)]
pub enum Column {
    /// Numbers.
    Numbers(block::Column),
    /// Names.
    Names(Vec<String>),
}

/// Rows of one schema from one stream.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// Role, or `counters`.
    pub stream: String,
    /// Schema, as `rtt/1`.
    pub schema: &'static str,
    /// Columns in the schema's order.
    pub columns: Vec<(&'static str, Column)>,
}

/// A sample of a series: when, of which entity, which metric, the value.
pub type Sample = (u64, String, String, f64);

impl Table {
    /// Samples of series; `None` without any.
    pub fn series(stream: &str, samples: &[Sample]) -> Option<Self> {
        const { assert!(SeriesRow::COLUMNS.len() == 4, "a value below for each column") }
        let values = [
            Column::Numbers(block::Column::I64(samples.iter().map(|(t_ns, ..)| *t_ns as i64).collect())),
            Column::Names(samples.iter().map(|(_, entity, ..)| entity.clone()).collect()),
            Column::Names(samples.iter().map(|(_, _, metric, _)| metric.clone()).collect()),
            Column::Numbers(block::Column::F64(samples.iter().map(|(.., value)| *value).collect())),
        ];
        (!samples.is_empty()).then(|| Self {
            stream: stream.to_owned(),
            schema: SeriesRow::SCHEMA,
            columns: SeriesRow::COLUMNS.iter().copied().zip(values).collect(),
        })
    }

    /// Rows as a table; `None` without rows.
    pub fn of<R: Record>(stream: &str, rows: &[R]) -> Option<Self> {
        let numbers = |(name, column)| (name, Column::Numbers(column));
        (!rows.is_empty()).then(|| Self {
            stream: stream.to_owned(),
            schema: R::SCHEMA,
            columns: R::columns(rows.iter()).into_iter().map(numbers).collect(),
        })
    }
}
