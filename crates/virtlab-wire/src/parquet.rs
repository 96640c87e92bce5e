//! Columns as one small Parquet file, in memory: what a simulated run keeps is a few thousand rows, and asking a
//! database to write them takes longer than playing many a run.
//!
//! One row group, one page per column, no column can be absent, no compression: whole numbers are kept as the
//! differences of neighbours, packed into as few bits as 32 of them need, and names as numbers of their places in a
//! dictionary. An instant every 20 ms so takes no room, and a delay two or three bytes.
//!
//! The format: <https://github.com/apache/parquet-format>, `parquet.thrift` and `Encodings.md`; its metadata are in
//! Thrift's compact protocol.

use std::collections::BTreeMap;

const MAGIC: &[u8; 4] = b"PAR1";
// Of parquet.thrift: physical types, the converted type of text, encodings, kinds of pages, codecs, repetition.
const INT32: u64 = 1;
const INT64: u64 = 2;
const DOUBLE: u64 = 5;
const BYTE_ARRAY: u64 = 6;
const UTF8: u64 = 0;
const PLAIN: u64 = 0;
const RLE: u64 = 3;
const DELTA_BINARY_PACKED: u64 = 5;
const RLE_DICTIONARY: u64 = 8;
const DATA_PAGE: u64 = 0;
const DICTIONARY_PAGE: u64 = 2;
const UNCOMPRESSED: u64 = 0;
const REQUIRED: u64 = 0;

/// Differences that share a least one, and those that share a width; what Parquet's own writers take.
const BLOCK: usize = 128;
const MINIBLOCK: usize = 32;

/// Values of a column.
#[derive(Clone, Debug)]
pub enum Column<'a> {
    /// Whole numbers of 64 bits.
    I64(&'a [i64]),
    /// Whole numbers of 32 bits.
    I32(&'a [i32]),
    /// Doubles.
    F64(&'a [f64]),
    /// Texts.
    Name(Vec<&'a str>),
}

impl Column<'_> {
    /// How many there are.
    #[must_use]
    pub fn rows(&self) -> usize {
        match self {
            Self::I64(values) => values.len(),
            Self::I32(values) => values.len(),
            Self::F64(values) => values.len(),
            Self::Name(values) => values.len(),
        }
    }

    fn physical(&self) -> u64 {
        match self {
            Self::I64(_) => INT64,
            Self::I32(_) => INT32,
            Self::F64(_) => DOUBLE,
            Self::Name(_) => BYTE_ARRAY,
        }
    }
}

/// The file's bytes.
///
/// # Panics
/// When columns differ in length.
#[must_use]
pub fn encode(columns: &[(&str, Column<'_>)]) -> Vec<u8> {
    let rows = columns.first().map_or(0, |(_, column)| column.rows());
    let mut file = MAGIC.to_vec();
    let mut chunks = Vec::new();
    for (name, column) in columns {
        assert_eq!(column.rows(), rows, "columns of a file are equally long");
        let begin = file.len();
        let dictionary = if let Column::Name(texts) = column { Some(Dictionary::new(texts)) } else { None };
        let (encoding, body) = match (column, &dictionary) {
            (_, Some(dictionary)) => {
                let about = Fields::new().number(1, dictionary.texts).number(2, PLAIN).end();
                file.extend(page(DICTIONARY_PAGE, &dictionary.plain, 7, &about));
                (RLE_DICTIONARY, dictionary.places.clone())
            }
            (Column::I64(values), _) => (DELTA_BINARY_PACKED, deltas(values, i64::wrapping_sub)),
            (Column::I32(values), _) => {
                let wide: Vec<i64> = values.iter().map(|value| i64::from(*value)).collect();
                let less = |one: i64, other: i64| i64::from((one as i32).wrapping_sub(other as i32));
                (DELTA_BINARY_PACKED, deltas(&wide, less))
            }
            (Column::F64(values), _) => {
                (PLAIN, values.iter().flat_map(|value| value.to_le_bytes()).collect())
            }
            (Column::Name(_), None) => unreachable!("names have a dictionary"),
        };
        let data_at = file.len();
        let about =
            Fields::new().number(1, rows as u64).number(2, encoding).number(3, RLE).number(4, RLE).end();
        file.extend(page(DATA_PAGE, &body, 5, &about));
        let mut used = vec![number(encoding)];
        if dictionary.is_some() {
            used.push(number(PLAIN));
        }
        let size = (file.len() - begin) as u64;
        let mut meta = Fields::new()
            .number(1, column.physical())
            .list(2, I32, &used)
            .list(3, BINARY, &[text(name)])
            .number(4, UNCOMPRESSED)
            .wide(5, rows as u64)
            .wide(6, size)
            .wide(7, size)
            .wide(9, data_at as u64);
        if dictionary.is_some() {
            meta = meta.wide(11, begin as u64);
        }
        chunks.push(Fields::new().wide(2, begin as u64).inner(3, &meta.end()).end());
    }
    let size = (file.len() - MAGIC.len()) as u64;
    let mut elements =
        vec![Fields::new().field(4, BINARY, &text("schema")).number(5, columns.len() as u64).end()];
    for (name, column) in columns {
        let mut element =
            Fields::new().number(1, column.physical()).number(3, REQUIRED).field(4, BINARY, &text(name));
        if matches!(column, Column::Name(_)) {
            element = element.number(6, UTF8);
        }
        elements.push(element.end());
    }
    let group = Fields::new().list(1, STRUCT, &chunks).wide(2, size).wide(3, rows as u64).end();
    let footer = Fields::new()
        .number(1, 1)
        .list(2, STRUCT, &elements)
        .wide(3, rows as u64)
        .list(4, STRUCT, &[group])
        .field(6, BINARY, &text("virtlab"))
        .end();
    file.extend(&footer);
    file.extend((footer.len() as u32).to_le_bytes());
    file.extend(MAGIC);
    file
}

fn page(kind: u64, body: &[u8], about_field: u8, about: &[u8]) -> Vec<u8> {
    let size = body.len() as u64;
    let head = Fields::new().number(1, kind).number(2, size).number(3, size).inner(about_field, about);
    let mut page = head.end();
    page.extend(body);
    page
}

/// `DELTA_BINARY_PACKED`: the first value, then blocks of differences, each with its least one and widths of its four
/// miniblocks.
fn deltas(values: &[i64], less: impl Fn(i64, i64) -> i64) -> Vec<u8> {
    let mut out = Vec::new();
    for head in [BLOCK, BLOCK / MINIBLOCK, values.len()] {
        varint(head as u64, &mut out);
    }
    varint(zigzag(values.first().copied().unwrap_or(0)), &mut out);
    let differences: Vec<i64> = values.windows(2).map(|pair| less(pair[1], pair[0])).collect();
    for block in differences.chunks(BLOCK) {
        let least = block.iter().copied().min().unwrap_or(0);
        varint(zigzag(least), &mut out);
        let above = |difference: &i64| difference.wrapping_sub(least) as u64;
        let widths_at = out.len();
        out.extend([0; BLOCK / MINIBLOCK]);
        for (place, miniblock) in block.chunks(MINIBLOCK).enumerate() {
            let bits = miniblock.iter().map(above).fold(0, |all, one| all | one);
            let width = 64 - bits.leading_zeros();
            out[widths_at + place] = width as u8;
            pack(miniblock.iter().map(above), MINIBLOCK, width, &mut out);
        }
    }
    out
}

/// Numbers of `width` bits, lowest bit first, filled up with zeros to `count` of them; `count * width` is whole bytes.
fn pack(values: impl Iterator<Item = u64>, count: usize, width: u32, out: &mut Vec<u8>) {
    let end = out.len() + count * width as usize / 8;
    let (mut held, mut bits) = (0u128, 0);
    for value in values {
        held |= u128::from(value) << bits;
        bits += width;
        if bits >= 64 {
            out.extend((held as u64).to_le_bytes());
            held >>= 64;
            bits -= 64;
        }
    }
    let rest = (held as u64).to_le_bytes();
    out.extend(&rest[..bits.div_ceil(8) as usize]);
    out.resize(end, 0);
}

/// Texts in the order in which they were met first, and where each row's stands.
struct Dictionary {
    texts: u64,
    plain: Vec<u8>,
    places: Vec<u8>,
}

impl Dictionary {
    fn new(texts: &[&str]) -> Self {
        let mut known: BTreeMap<&str, u64> = BTreeMap::new();
        let mut plain = Vec::new();
        let mut rows = Vec::with_capacity(texts.len());
        let mut before = None;
        for &text in texts {
            // Rows of one entity stand together.
            if let (Some((same, place)), false) = (before, rows.is_empty())
                && same == text
            {
                rows.push(place);
                continue;
            }
            let next = known.len() as u64;
            let place = *known.entry(text).or_insert_with(|| {
                plain.extend((text.len() as u32).to_le_bytes());
                plain.extend(text.as_bytes());
                next
            });
            rows.push(place);
            before = Some((text, place));
        }
        // One run of bit-packed places, in groups of eight.
        let width = (64 - (known.len() as u64).saturating_sub(1).leading_zeros()).max(1);
        let groups = rows.len().div_ceil(8);
        let mut places = vec![width as u8];
        varint((groups as u64) << 1 | 1, &mut places);
        pack(rows.into_iter(), 8 * groups, width, &mut places);
        Self { texts: known.len() as u64, plain, places }
    }
}

// Types of Thrift's compact protocol.
const I32: u8 = 5;
const I64: u8 = 6;
const BINARY: u8 = 8;
const LIST: u8 = 9;
const STRUCT: u8 = 12;

/// A struct of Thrift's compact protocol: each field behind the distance to the one before it and its type.
#[derive(Default)]
struct Fields {
    bytes: Vec<u8>,
    last: u8,
}

impl Fields {
    fn new() -> Self {
        Self::default()
    }

    fn field(mut self, id: u8, kind: u8, value: &[u8]) -> Self {
        self.bytes.push((id - self.last) << 4 | kind);
        self.bytes.extend(value);
        self.last = id;
        self
    }

    fn number(self, id: u8, value: u64) -> Self {
        self.field(id, I32, &number(value))
    }

    fn wide(self, id: u8, value: u64) -> Self {
        self.field(id, I64, &number(value))
    }

    fn inner(self, id: u8, value: &[u8]) -> Self {
        self.field(id, STRUCT, value)
    }

    fn list(self, id: u8, kind: u8, items: &[Vec<u8>]) -> Self {
        let mut value = Vec::new();
        if items.len() < 15 {
            value.push((items.len() as u8) << 4 | kind);
        } else {
            value.push(0xf0 | kind);
            varint(items.len() as u64, &mut value);
        }
        items.iter().for_each(|item| value.extend(item));
        self.field(id, LIST, &value)
    }

    fn end(mut self) -> Vec<u8> {
        self.bytes.push(0);
        self.bytes
    }
}

fn number(value: u64) -> Vec<u8> {
    let mut out = Vec::new();
    varint(value << 1, &mut out); // zigzag of what is never negative
    out
}

fn text(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    varint(text.len() as u64, &mut out);
    out.extend(text.as_bytes());
    out
}

const fn zigzag(value: i64) -> u64 {
    (value << 1 ^ value >> 63) as u64
}

fn varint(mut value: u64, out: &mut Vec<u8>) {
    while value > 0x7f {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read_varint(bytes: &mut &[u8]) -> u64 {
        let (mut value, mut shift) = (0, 0);
        loop {
            let byte = bytes[0];
            *bytes = &bytes[1..];
            value |= u64::from(byte & 0x7f) << shift;
            shift += 7;
            if byte < 0x80 {
                return value;
            }
        }
    }

    fn unpack(bytes: &mut &[u8], count: usize, width: usize) -> Vec<u64> {
        let bit = |at: usize| u64::from(bytes[at / 8] >> (at % 8) & 1);
        let found =
            (0..count).map(|n| (0..width).map(|at| bit(n * width + at) << at).sum()).collect::<Vec<u64>>();
        *bytes = &bytes[count * width / 8..];
        found
    }

    /// As `Encodings.md` says, value by value.
    fn read_deltas(mut bytes: &[u8]) -> Vec<i64> {
        let bytes = &mut bytes;
        let unzigzag = |value: u64| (value >> 1) as i64 ^ -((value & 1) as i64);
        assert_eq!([read_varint(bytes), read_varint(bytes)], [128, 4]);
        let count = read_varint(bytes) as usize;
        let mut values = vec![unzigzag(read_varint(bytes))];
        while values.len() < count {
            let least = unzigzag(read_varint(bytes));
            let widths = bytes[..4].to_vec();
            *bytes = &bytes[4..];
            for width in widths {
                if values.len() < count {
                    for above in unpack(bytes, 32, usize::from(width)) {
                        values.push(values.last().unwrap().wrapping_add(least).wrapping_add(above as i64));
                    }
                }
            }
        }
        values.truncate(count);
        assert!(bytes.is_empty());
        values
    }

    #[test]
    fn numbers_of_the_specification_are_packed_as_it_says() {
        // Encodings.md: 1, 2, 3, 4, 5 have the header 128, 4, 5, 1 (zigzag 2), a least difference of 1 and no bits.
        assert_eq!(deltas(&[1, 2, 3, 4, 5], i64::wrapping_sub), [128, 1, 4, 5, 2, 2, 0, 0, 0, 0]);
        let mut out = Vec::new();
        pack(0..8, 8, 3, &mut out); // its example of bit packing
        assert_eq!(out, [0b1000_1000, 0b1100_0110, 0b1111_1010]);
    }

    #[test]
    fn a_column_of_equal_gaps_takes_no_room() {
        let values: Vec<i64> = (0..1000).map(|n| 7 + n * 20_300_000).collect();
        assert!(deltas(&values, i64::wrapping_sub).len() < 100);
    }

    proptest! {
        #[test]
        fn what_is_packed_is_read_again(
            values in prop::collection::vec(prop_oneof![any::<i64>(), -5i64..5, Just(i64::MIN), Just(i64::MAX)], 1..400),
        ) {
            prop_assert_eq!(read_deltas(&deltas(&values, i64::wrapping_sub)), values);
        }

        #[test]
        fn places_in_a_dictionary_are_those_of_the_texts(
            texts in prop::collection::vec(prop::sample::select(vec!["", "a", "b", "links.l1.ab", "µ"]), 1..100),
        ) {
            let found = Dictionary::new(&texts);
            let mut plain = &found.plain[..];
            let mut known = Vec::new();
            while !plain.is_empty() {
                let size = u32::from_le_bytes(plain[..4].try_into().unwrap()) as usize;
                known.push(std::str::from_utf8(&plain[4..4 + size]).unwrap());
                plain = &plain[4 + size..];
            }
            let mut places = &found.places[1..];
            let groups = read_varint(&mut places) as usize >> 1;
            let rows = unpack(&mut places, 8 * groups, usize::from(found.places[0]));
            let read: Vec<&str> = rows[..texts.len()].iter().map(|place| known[*place as usize]).collect();
            prop_assert_eq!(read, texts);
            prop_assert_eq!(found.texts as usize, known.len());
        }
    }
}
