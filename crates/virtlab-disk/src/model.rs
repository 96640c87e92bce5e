//! What a disk is, and what it is asked.

use serde::Deserialize;
use virtlab_wire::Nanos;

/// Requests begin and end at multiples of it.
pub const SECTOR_BYTES: u64 = 512;

const NS_PER_S: u128 = 1_000_000_000;

/// What a disk is, as a Plan has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub struct Model {
    /// Of the whole disk.
    pub size_bytes: u64,
    /// Which the medium takes or gives; absent: as fast as it is asked.
    #[serde(default)]
    pub rate_byte_per_s: Option<u64>,
    /// From a request's end at the medium until it is done.
    #[serde(default)]
    pub latency_ns: u64,
    /// Of the write cache; 0: it has no cache.
    #[serde(default)]
    pub write_cache_bytes: u64,
}

impl Model {
    /// How long the medium is held by so many bytes.
    #[must_use]
    pub fn holds(&self, bytes: u64) -> Nanos {
        let Some(rate) = self.rate_byte_per_s else { return Nanos::ZERO };
        let ns = (u128::from(bytes) * NS_PER_S).div_ceil(u128::from(rate.max(1)));
        Nanos(u64::try_from(ns).unwrap_or(u64::MAX))
    }
}

/// What a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Bytes of the disk.
    Read,
    /// That the disk keeps bytes.
    Write,
    /// That everything written is kept.
    Flush,
}

/// A request. A flush has neither place nor length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// What for.
    pub kind: Kind,
    /// Where it begins.
    pub offset: u64,
    /// Its length.
    pub bytes: u64,
}

impl Request {
    /// A flush.
    #[must_use]
    pub const fn flush() -> Self {
        Self { kind: Kind::Flush, offset: 0, bytes: 0 }
    }

    /// Why a disk of that size does not take it, if so.
    ///
    /// # Errors
    /// When it is empty, ends beyond the disk, or is not of whole sectors.
    pub fn check(&self, size_bytes: u64) -> Result<(), Refused> {
        if self.kind == Kind::Flush {
            return Ok(());
        }
        if self.offset.checked_add(self.bytes).is_none_or(|end| end > size_bytes) {
            return Err(Refused::Beyond);
        }
        if self.bytes == 0
            || !self.offset.is_multiple_of(SECTOR_BYTES)
            || !self.bytes.is_multiple_of(SECTOR_BYTES)
        {
            return Err(Refused::Sectors);
        }
        Ok(())
    }
}

/// Why a disk does not take a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// It ends behind the end of the disk.
    #[error("ends beyond the disk")]
    Beyond,
    /// It is empty, or does not begin and end at sectors.
    #[error("is not of whole sectors of 512 B")]
    Sectors,
}

/// So many bytes in whole sectors: not less.
#[must_use]
pub const fn whole_sectors(bytes: u64) -> u64 {
    bytes.div_ceil(SECTOR_BYTES).saturating_mul(SECTOR_BYTES)
}
