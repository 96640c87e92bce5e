//! Time as whole nanoseconds on whichever clock the caller names.

use std::ops::{Add, AddAssign, Sub};

/// An instant or a length of time in nanoseconds. Never a wall clock: its holder says which clock it is on.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
#[serde(transparent)]
pub struct Nanos(pub u64);

impl Nanos {
    /// The origin of a clock, and the empty length.
    pub const ZERO: Self = Self(0);
    /// Later than anything that happens.
    pub const MAX: Self = Self(u64::MAX);

    /// `self - other`, or zero where `other` is later.
    #[must_use]
    pub const fn since(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl Add for Nanos {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Nanos {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for Nanos {
    type Output = Self;
    /// Panics in debug builds when `other` is later; use [`Nanos::since`] where that can happen.
    fn sub(self, other: Self) -> Self {
        Self(self.0 - other.0)
    }
}
