//! Columnar blocks: samples on their way from an agent to a dataset.
//!
//! ```text
//! header length u32 | header JSON | zero padding to 8 | column 0 | padding to 8 | column 1 | ...
//! ```
//! The header names stream, schema, block number, row count and columns. Columns are fixed-width little-endian numbers;
//! a column of names holds codes (`i32`) into `dictionary[column]`.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use thiserror::Error;

/// Most bytes in one block, so that control messages never wait long behind bulk.
pub const MAXIMUM_BLOCK_BYTES: usize = 256 << 10;

/// Width and meaning of a column's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Dtype {
    /// Signed 64 bit.
    I64,
    /// Signed 32 bit; also dictionary codes.
    I32,
    /// IEEE 754 double.
    F64,
}

impl Dtype {
    /// Bytes of one value.
    #[must_use]
    pub const fn bytes(self) -> usize {
        match self {
            Self::I64 | Self::F64 => 8,
            Self::I32 => 4,
        }
    }
}

/// Whole numbers of samples stay below this, so that differences of two fit 64 bits, on any clock.
pub const LARGEST: i64 = 1 << 61;

/// Whether a column's bytes are numbers that can be measured: finite, whole ones within `LARGEST` of zero.
#[must_use]
pub fn measurable(dtype: Dtype, bytes: &[u8]) -> bool {
    let (words, _) = bytes.as_chunks::<8>();
    match dtype {
        // No early end: all of it is looked at, several words at a time.
        Dtype::I64 => words.iter().fold(true, |all, word| {
            let shifted = i64::from_le_bytes(*word).wrapping_add(LARGEST - 1) as u64;
            all & (shifted <= 2 * (LARGEST - 1) as u64)
        }),
        Dtype::F64 => words.iter().fold(true, |all, word| all & f64::from_le_bytes(*word).is_finite()),
        Dtype::I32 => true,
    }
}

/// Name and type of a column.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ColumnHead {
    /// Name, as the schema has it.
    pub name: String,
    /// Type.
    pub dtype: Dtype,
}

/// What a block says of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// Role or source that the samples come from.
    pub stream: String,
    /// Schema and version, `rtt/1`.
    pub schema: String,
    /// 0, 1, 2, ... within the stream and schema.
    pub number: u64,
    /// Rows.
    pub n: usize,
    /// Columns in order.
    pub columns: Vec<ColumnHead>,
    /// Names behind the codes of columns that hold names.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub dictionary: BTreeMap<String, Vec<String>>,
}

/// The values of one column.
#[derive(Clone, Debug, PartialEq)]
pub enum Column {
    /// Signed 64 bit.
    I64(Vec<i64>),
    /// Signed 32 bit.
    I32(Vec<i32>),
    /// IEEE 754 double.
    F64(Vec<f64>),
}

impl Column {
    /// Its type.
    #[must_use]
    pub const fn dtype(&self) -> Dtype {
        match self {
            Self::I64(_) => Dtype::I64,
            Self::I32(_) => Dtype::I32,
            Self::F64(_) => Dtype::F64,
        }
    }

    /// Its rows.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::I64(values) => values.len(),
            Self::I32(values) => values.len(),
            Self::F64(values) => values.len(),
        }
    }

    /// Whether it has no row.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::I64(values) => values.iter().for_each(|value| out.extend_from_slice(&value.to_le_bytes())),
            Self::I32(values) => values.iter().for_each(|value| out.extend_from_slice(&value.to_le_bytes())),
            Self::F64(values) => values.iter().for_each(|value| out.extend_from_slice(&value.to_le_bytes())),
        }
    }
}

/// Bytes that are no block, or columns that cannot form one.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum BlockError {
    /// The bytes end before the header or a column does.
    #[error("the block ends after {0} bytes, its header promises {1}")]
    Short(usize, usize),
    /// The header is not the JSON that this module writes.
    #[error("the block header is not valid: {0}")]
    Header(String),
    /// A column's length differs from the row count.
    #[error("column '{0}' has {1} rows, the block {2}")]
    Ragged(String, usize, usize),
}

/// Encodes one block. `columns` pairs each name with its values.
///
/// # Errors
/// [`BlockError::Ragged`] when the columns differ in length.
pub fn encode(
    stream: &str,
    schema: &str,
    number: u64,
    columns: &[(&str, Column)],
    dictionary: &BTreeMap<String, Vec<String>>,
) -> Result<Vec<u8>, BlockError> {
    let n = columns.first().map_or(0, |(_, column)| column.len());
    if let Some((name, column)) = columns.iter().find(|(_, column)| column.len() != n) {
        return Err(BlockError::Ragged((*name).to_owned(), column.len(), n));
    }
    let header = Header {
        stream: stream.to_owned(),
        schema: schema.to_owned(),
        number,
        n,
        columns: columns
            .iter()
            .map(|(name, column)| ColumnHead { name: (*name).to_owned(), dtype: column.dtype() })
            .collect(),
        dictionary: dictionary.clone(),
    };
    let head = serde_json::to_vec(&header).map_err(|error| BlockError::Header(error.to_string()))?;
    let mut out = Vec::with_capacity(16 + head.len() + columns.len() * (n + 1) * 8);
    out.extend_from_slice(&(head.len() as u32).to_le_bytes());
    out.extend_from_slice(&head);
    for (_, column) in columns {
        out.resize(out.len().next_multiple_of(8), 0);
        column.write(&mut out);
    }
    Ok(out)
}

/// Reads the header, and where each column's bytes are in `body`.
///
/// # Errors
/// [`BlockError`] when the bytes are no block.
pub fn decode(body: &[u8]) -> Result<(Header, Vec<std::ops::Range<usize>>), BlockError> {
    let length: [u8; 4] =
        body.get(..4).and_then(|head| head.try_into().ok()).ok_or(BlockError::Short(body.len(), 4))?;
    let end = 4usize.saturating_add(u32::from_le_bytes(length) as usize);
    let head = body.get(4..end).ok_or(BlockError::Short(body.len(), end))?;
    let header: Header =
        serde_json::from_slice(head).map_err(|error| BlockError::Header(error.to_string()))?;
    let mut at = end;
    let mut ranges = Vec::with_capacity(header.columns.len());
    for column in &header.columns {
        at = at.next_multiple_of(8);
        let past = header
            .n
            .checked_mul(column.dtype.bytes())
            .and_then(|bytes| at.checked_add(bytes))
            .ok_or(BlockError::Short(body.len(), usize::MAX))?;
        if past > body.len() {
            return Err(BlockError::Short(body.len(), past));
        }
        ranges.push(at..past);
        at = past;
    }
    Ok((header, ranges))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn columns_come_back_where_the_header_says() {
        let columns = [
            ("seq", Column::I64(vec![1, 2, 3])),
            ("code", Column::I32(vec![7, 8, 9])),
            ("value", Column::F64(vec![0.5; 3])),
        ];
        let body = encode("probe", "rtt/1", 4, &columns, &BTreeMap::new()).unwrap();
        let (header, ranges) = decode(&body).unwrap();
        assert_eq!(
            (header.stream.as_str(), header.schema.as_str(), header.number, header.n),
            ("probe", "rtt/1", 4, 3)
        );
        assert_eq!(&body[ranges[1].clone()], [7, 0, 0, 0, 8, 0, 0, 0, 9, 0, 0, 0]);
        assert!(ranges.iter().all(|range| range.start % 8 == 0));
    }

    #[test]
    fn ragged_columns_are_refused() {
        let columns = [("a", Column::I64(vec![1])), ("b", Column::I64(vec![]))];
        assert_eq!(
            encode("s", "x/1", 0, &columns, &BTreeMap::new()),
            Err(BlockError::Ragged("b".into(), 0, 1))
        );
    }

    proptest! {
        #[test]
        fn whole_numbers_are_measurable_within_2_to_the_61(value in any::<i64>(), edge in -2..=2i64) {
            for value in [value, LARGEST + edge, -LARGEST + edge] {
                let expected = i128::from(value).abs() < 1 << 61;
                prop_assert_eq!(measurable(Dtype::I64, &[[0; 8], value.to_le_bytes()].concat()), expected);
            }
        }

        #[test]
        fn numbers_are_measurable_where_they_are_finite(value in any::<f64>()) {
            prop_assert_eq!(measurable(Dtype::F64, &[value.to_le_bytes(), [0; 8]].concat()), value.is_finite());
            prop_assert!(!measurable(Dtype::F64, &f64::NAN.to_le_bytes()));
        }

        #[test]
        fn no_bytes_make_decode_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = decode(&bytes);
        }
    }
}
