//! Sets of periods: finite unions of closed intervals of fractions. Single points are intervals too.
//!
//! A period is more than zero, so a lower end of 0 means "open at zero": (0, h].

use crate::rational::Rational;

/// `[low, high]`, or `(0, high]` where `low` is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval {
    /// Lower end.
    pub low: Rational,
    /// Upper end.
    pub high: Rational,
}

/// Disjoint intervals, ascending.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IntervalSet {
    parts: Vec<Interval>,
}

impl IntervalSet {
    /// The union of any intervals; those with `low > high` are empty.
    #[must_use]
    pub fn union(mut parts: Vec<Interval>) -> Self {
        parts.retain(|part| part.low <= part.high);
        parts.sort_unstable_by(|a, b| a.low.cmp(&b.low).then(b.high.cmp(&a.high)));
        let mut merged: Vec<Interval> = Vec::with_capacity(parts.len());
        for part in parts {
            match merged.last_mut() {
                Some(last) if part.low <= last.high => last.high = last.high.max(part.high),
                _ => merged.push(part),
            }
        }
        Self { parts: merged }
    }

    /// What lies in both.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        let (mut left, mut right) = (self.parts.iter().peekable(), other.parts.iter().peekable());
        let mut parts = Vec::new();
        while let (Some(a), Some(b)) = (left.peek(), right.peek()) {
            let (low, high) = (a.low.max(b.low), a.high.min(b.high));
            if low <= high {
                parts.push(Interval { low, high });
            }
            if a.high < b.high {
                left.next();
            } else {
                right.next();
            }
        }
        Self { parts }
    }

    /// What lies in `self` and not in `other`, closed again (shares at most end points with `other`).
    #[must_use]
    pub fn without(&self, other: &Self) -> Self {
        let mut parts = Vec::new();
        for part in &self.parts {
            let mut low = part.low;
            let mut gone = false;
            for hole in &other.parts {
                if hole.high < low || hole.low > part.high {
                    continue;
                }
                if hole.low > low {
                    parts.push(Interval { low, high: hole.low });
                }
                low = hole.high;
                gone = hole.high >= part.high;
            }
            if !gone {
                parts.push(Interval { low, high: part.high });
            }
        }
        Self::union(parts)
    }

    /// The intervals, ascending.
    #[must_use]
    pub fn parts(&self) -> &[Interval] {
        &self.parts
    }

    /// Whether nothing is in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Its largest member.
    #[must_use]
    pub fn largest(&self) -> Option<Rational> {
        self.parts.last().map(|part| part.high)
    }

    /// Its smallest member; 0 when it reaches down to zero.
    #[must_use]
    pub fn smallest(&self) -> Option<Rational> {
        self.parts.first().map(|part| part.low)
    }

    /// Whether `value` (more than zero) is in it.
    #[must_use]
    pub fn contains(&self, value: Rational) -> bool {
        self.parts.iter().any(|part| part.low <= value && value <= part.high)
    }

    /// The part without holes that one would choose from: the one from zero if there is one, else the widest.
    #[must_use]
    pub fn safe(&self) -> Option<Interval> {
        let first = *self.parts.first()?;
        if first.low == Rational::ZERO {
            return Some(first);
        }
        let width = |part: &Interval| part.high.minus(part.low).unwrap_or(Rational::ZERO);
        self.parts.iter().copied().reduce(|best, part| if width(&part) > width(&best) { part } else { best })
    }
}
