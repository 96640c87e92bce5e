//! Rows of sample blocks: a type per schema of `blocks.json`, its columns as fields in the schema's order.
//!
//! A name is a code here: its place in the block's dictionary of that column.

use crate::block::{BlockError, Column, encode};
use std::collections::BTreeMap;

/// One row of a schema.
pub trait Record: Copy + Send + Sync + 'static {
    /// Schema and version, `rtt/1`.
    const SCHEMA: &'static str;
    /// Names of the columns.
    const COLUMNS: &'static [&'static str];
    /// Bytes of one row in a block.
    const ROW_BYTES: usize;
    /// The rows as columns.
    fn columns<'a>(rows: impl Iterator<Item = &'a Self> + Clone) -> Vec<(&'static str, Column)>;

    /// The rows as a block.
    ///
    /// # Errors
    /// What [`encode`] gives.
    fn block<'a>(
        stream: &str,
        number: u64,
        rows: impl Iterator<Item = &'a Self> + Clone,
        dictionary: &BTreeMap<String, Vec<String>>,
    ) -> Result<Vec<u8>, BlockError> {
        encode(stream, Self::SCHEMA, number, &Self::columns(rows), dictionary)
    }
}

/// Defines a schema's row type.
macro_rules! record {
    ($(#[$doc:meta])* $name:ident, $schema:literal, { $($field:ident: $kind:ident),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq)]
        #[allow(missing_docs)]
        pub struct $name { $(pub $field: record!(@type $kind),)* }
        impl Record for $name {
            const SCHEMA: &'static str = $schema;
            const COLUMNS: &'static [&'static str] = &[$(stringify!($field)),*];
            const ROW_BYTES: usize = 0 $(+ size_of::<record!(@type $kind)>())*;
            fn columns<'a>(rows: impl Iterator<Item = &'a Self> + Clone) -> Vec<(&'static str, Column)> {
                vec![$((stringify!($field), Column::$kind(rows.clone().map(|row| row.$field).collect())),)*]
            }
        }
    };
    (@type I64) => { i64 };
    (@type I32) => { i32 };
    (@type F64) => { f64 };
}

include!(concat!(env!("OUT_DIR"), "/rows.rs"));

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::decode;

    #[test]
    fn a_schema_is_a_type_with_its_columns_in_order() {
        let rows = [RtJobRow { task: 1, response_ns: 7, ..RtJobRow::default() }; 3];
        assert_eq!(RtJobRow::SCHEMA, "rt_job/1");
        assert_eq!((RtJobRow::COLUMNS[0], RtJobRow::COLUMNS[7], RtJobRow::ROW_BYTES), ("task", "missed", 52));
        let columns = RtJobRow::columns(rows.iter());
        assert_eq!(columns[0], ("task", Column::I32(vec![1; 3])));
        assert_eq!(columns[5], ("response_ns", Column::I64(vec![7; 3])));
    }

    #[test]
    fn a_name_goes_as_its_code_with_the_dictionary() {
        let rows = [SeriesRow { t_ns: 5, entity: 0, metric: 1, value: 0.5 }];
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let dictionary = BTreeMap::from([
            ("entity".to_owned(), names(&["cpu"])),
            ("metric".to_owned(), names(&["steal", "cpu"])),
        ]);
        let body = SeriesRow::block("series", 0, rows.iter(), &dictionary).unwrap();
        let (header, ranges) = decode(&body).unwrap();
        assert_eq!((header.schema.as_str(), header.dictionary), ("series/1", dictionary));
        assert_eq!(&body[ranges[2].clone()], [1, 0, 0, 0]);
    }
}
