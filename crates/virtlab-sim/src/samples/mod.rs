//! Samples as columns, under the names of the block schemas.

pub mod readings;

pub use virtlab_wire::rows::{
    BurstRow, CounterRow, IntervalRow, PacketRow, Record, RequestRow, ResponseRow, RtJobRow, RtSupplyRow,
    RttRow, SentRow, SeriesRow, TransactionRow,
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

impl Table {
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
