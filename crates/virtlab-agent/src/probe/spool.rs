//! Samples in bounded memory: rows of one schema, in chunks, cut into blocks at the end.
//!
//! All spools of a probe share one budget of bytes. A row that no longer fits is counted and dropped, and taints the
//! role: a sample is never lost without a word.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use virtlab_wire::block::MAXIMUM_BLOCK_BYTES;
use virtlab_wire::rows::Record;

const CHUNK_ROWS: usize = 4096;
const HEADER_ROOM_BYTES: usize = 4096;

/// What a spool can keep.
pub trait Row: Copy + Send + Sync + 'static {}
impl<T: Copy + Send + Sync + 'static> Row for T {}

/// Bytes that samples may still take.
#[derive(Debug)]
pub struct Budget(AtomicI64);

impl Budget {
    /// A budget of `bytes`.
    pub fn new(bytes: u64) -> Arc<Self> {
        Arc::new(Self(AtomicI64::new(i64::try_from(bytes).unwrap_or(i64::MAX))))
    }

    /// A quarter of the memory that the guest has free, at most 1 GiB.
    pub fn of_this_guest() -> Arc<Self> {
        Self::new(available_bytes() / 4).min_bytes(1 << 30)
    }

    fn min_bytes(self: Arc<Self>, most: i64) -> Arc<Self> {
        self.0.fetch_min(most, Ordering::Relaxed);
        self
    }

    fn take(&self, bytes: usize) -> bool {
        let bytes = bytes as i64;
        let taken = self.0.fetch_sub(bytes, Ordering::Relaxed) >= bytes;
        if !taken {
            self.0.fetch_add(bytes, Ordering::Relaxed);
        }
        taken
    }

    fn give_back(&self, bytes: usize) {
        self.0.fetch_add(bytes as i64, Ordering::Relaxed);
    }
}

/// Memory that this guest has free, or can free; 256 MiB where its kernel does not say.
pub fn available_bytes() -> u64 {
    let available = std::fs::read_to_string("/proc/meminfo").ok().and_then(|text| {
        let line = text.lines().find(|line| line.starts_with("MemAvailable:"))?;
        line.split_whitespace().nth(1)?.parse::<u64>().ok()
    });
    available.unwrap_or(256 << 10) << 10
}

/// Rows of one schema.
#[derive(Debug)]
pub struct Spool<R: Row> {
    chunks: Vec<Vec<R>>,
    rows: usize,
    /// Rows that found no room.
    pub overflowed: u64,
    budget: Arc<Budget>,
}

impl<R: Row> Spool<R> {
    /// An empty spool.
    pub fn new(budget: &Arc<Budget>) -> Self {
        Self { chunks: Vec::new(), rows: 0, overflowed: 0, budget: budget.clone() }
    }

    /// Keeps one row, or counts that it could not.
    #[inline]
    pub fn push(&mut self, row: R) {
        if self.chunks.last().is_none_or(|chunk| chunk.len() == CHUNK_ROWS) && !self.grow() {
            self.overflowed += 1;
            return;
        }
        if let Some(chunk) = self.chunks.last_mut() {
            chunk.push(row);
            self.rows += 1;
        }
    }

    fn grow(&mut self) -> bool {
        let fits = self.budget.take(CHUNK_ROWS * size_of::<R>());
        if fits {
            self.chunks.push(Vec::with_capacity(CHUNK_ROWS));
        }
        fits
    }

    /// Rows kept.
    pub fn len(&self) -> usize {
        self.rows
    }

    /// The rows in order.
    pub fn iter(&self) -> impl Iterator<Item = &R> {
        self.chunks.iter().flatten()
    }

    /// Row `index`, if kept.
    pub fn get(&self, index: usize) -> Option<&R> {
        self.chunks.get(index / CHUNK_ROWS)?.get(index % CHUNK_ROWS)
    }

    /// Row `index` to be changed, if kept.
    pub fn get_mut(&mut self, index: usize) -> Option<&mut R> {
        self.chunks.get_mut(index / CHUNK_ROWS)?.get_mut(index % CHUNK_ROWS)
    }
}

impl<R: Row> Drop for Spool<R> {
    fn drop(&mut self) {
        self.budget.give_back(self.chunks.len() * CHUNK_ROWS * size_of::<R>());
    }
}

/// A spool whose row type is forgotten.
pub trait Table: Send + Sync {
    /// Its schema.
    fn schema(&self) -> &'static str;
    /// Its rows.
    fn rows(&self) -> usize;
    /// Rows that found no room.
    fn overflowed(&self) -> u64;
    /// Hands over its blocks, numbered from `first_number`; returns the number after the last.
    ///
    /// # Errors
    /// Whatever `send` gives.
    fn blocks(
        &self,
        stream: &str,
        first_number: u64,
        send: &mut dyn FnMut(&[u8]) -> anyhow::Result<()>,
    ) -> anyhow::Result<u64>;
}

impl<R: Record> Table for Spool<R> {
    fn schema(&self) -> &'static str {
        R::SCHEMA
    }

    fn rows(&self) -> usize {
        self.rows
    }

    fn overflowed(&self) -> u64 {
        self.overflowed
    }

    fn blocks(
        &self,
        stream: &str,
        first_number: u64,
        send: &mut dyn FnMut(&[u8]) -> anyhow::Result<()>,
    ) -> anyhow::Result<u64> {
        let per_block = (MAXIMUM_BLOCK_BYTES - HEADER_ROOM_BYTES) / R::ROW_BYTES;
        let mut number = first_number;
        let mut rows = self.iter().peekable();
        while rows.peek().is_some() {
            let piece: Vec<&R> = rows.by_ref().take(per_block).collect();
            send(&R::block(stream, number, piece.iter().copied(), &BTreeMap::new())?)?;
            number += 1;
        }
        Ok(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use virtlab_wire::block;
    use virtlab_wire::rows::SentRow;

    fn row(seq: i64) -> SentRow {
        SentRow { seq, flow: 0, intended_ns: 1, sent_ns: 2, payload_bytes: 3 }
    }

    #[test]
    fn rows_come_back_in_order_in_numbered_blocks_that_fit() {
        let mut spool = Spool::new(&Budget::new(1 << 24));
        (0..20_000).for_each(|seq| spool.push(row(seq)));
        let mut seen = Vec::new();
        let after = spool
            .blocks("probe", 0, &mut |body| {
                assert!(body.len() <= MAXIMUM_BLOCK_BYTES);
                let (header, ranges) = block::decode(body)?;
                assert_eq!((header.schema.as_str(), header.number as usize), ("sent/1", seen.len()));
                seen.push(header.n);
                assert_eq!(ranges.len(), 5);
                Ok(())
            })
            .unwrap();
        assert_eq!((seen.iter().sum::<usize>(), after as usize), (20_000, seen.len()));
        assert_eq!(spool.get(19_999).unwrap().seq, 19_999);
    }

    #[test]
    fn rows_beyond_the_budget_are_counted() {
        let budget = Budget::new((CHUNK_ROWS * size_of::<SentRow>()) as u64);
        let mut spool = Spool::new(&budget);
        (0..CHUNK_ROWS as i64 + 7).for_each(|seq| spool.push(row(seq)));
        assert_eq!((spool.len(), spool.overflowed), (CHUNK_ROWS, 7));
        drop(spool);
        let mut again = Spool::new(&budget);
        again.push(row(0));
        assert_eq!((again.len(), again.overflowed), (1, 0));
    }
}
