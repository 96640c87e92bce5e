//! Two-piece service curves, and the running minimum of their shifted copies.
//!
//! Source: Stoica, Zhang, Ng 1997; Linux `net/sched/sch_hfsc.c` (`rtsc_min`, `rtsc_x2y`, `rtsc_y2x`). Work is counted
//! in bit/s times ns, so that `rate * time` is exact in integers; a byte is 8 * 10^9 of it.

/// Work in bit/s times ns.
pub(crate) type Work = u128;

/// Work of one byte.
pub(crate) const WORK_PER_BYTE: Work = 8_000_000_000;

/// A service curve: slope `m1` for a time `d`, then `m2`. Concave (`m1 > m2`) buys a short delay, convex the reverse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Curve {
    /// First slope in bit/s.
    pub m1_bit_per_s: u64,
    /// How long it lasts.
    pub d_ns: u64,
    /// Slope from then on.
    pub m2_bit_per_s: u64,
}

impl Curve {
    /// One slope.
    #[must_use]
    pub const fn straight(rate_bit_per_s: u64) -> Self {
        Self { m1_bit_per_s: rate_bit_per_s, d_ns: 0, m2_bit_per_s: rate_bit_per_s }
    }

    /// Whether its second slope is at least the first.
    #[must_use]
    pub const fn is_convex(&self) -> bool {
        self.m1_bit_per_s <= self.m2_bit_per_s
    }

    fn first_work(&self) -> Work {
        Work::from(self.m1_bit_per_s) * Work::from(self.d_ns)
    }
}

/// A curve that begins at a time `x` with work `y`: the minimum over the beginnings of all backlogged periods so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Runtime {
    x: u64,
    y: Work,
    m1: u64,
    dx: u64,
    dy: Work,
    m2: u64,
}

impl Runtime {
    /// The curve from the origin; flat zero without one.
    pub(crate) fn of(curve: Option<Curve>) -> Self {
        curve.map_or_else(Self::default, |curve| Self {
            x: 0,
            y: 0,
            m1: curve.m1_bit_per_s,
            dx: curve.d_ns,
            dy: curve.first_work(),
            m2: curve.m2_bit_per_s,
        })
    }

    /// Drops the first piece; an eligible curve of a convex class is its second slope alone.
    pub(crate) fn flatten(&mut self) {
        self.dx = 0;
        self.dy = 0;
    }

    /// Work served by time `x`.
    fn work_at(&self, x: u64) -> Work {
        if x <= self.x {
            self.y
        } else if x <= self.x + self.dx {
            self.y + Work::from(self.m1) * Work::from(x - self.x)
        } else {
            self.y + self.dy + Work::from(self.m2) * Work::from(x - self.x - self.dx)
        }
    }

    /// The first time at which `y` has been served; the end of time when it never is.
    pub(crate) fn time_of(&self, y: Work) -> u64 {
        let divide = |work: Work, slope: u64| {
            if work == 0 {
                0
            } else if slope == 0 {
                u64::MAX
            } else {
                u64::try_from(work.div_ceil(Work::from(slope))).unwrap_or(u64::MAX)
            }
        };
        if y < self.y {
            self.x
        } else if y <= self.y + self.dy {
            if self.dy == 0 {
                self.x.saturating_add(self.dx)
            } else {
                self.x.saturating_add(divide(y - self.y, self.m1))
            }
        } else {
            self.x.saturating_add(self.dx).saturating_add(divide(y - self.y - self.dy, self.m2))
        }
    }

    /// Becomes the minimum of itself and `curve` begun at time `x` with work `y`, from `x` on.
    pub(crate) fn lower(&mut self, curve: &Curve, x: u64, y: Work) {
        let here = self.work_at(x);
        if curve.is_convex() {
            if here >= y {
                self.x = x;
                self.y = y;
            }
            return;
        }
        if here <= y {
            return; // itself is below
        }
        let first_work = curve.first_work();
        if self.work_at(x + curve.d_ns) >= y + first_work {
            *self = Self { x, y, dx: curve.d_ns, dy: first_work, ..*self }; // the new one is below throughout
            return;
        }
        // They cross: the new first slope until it meets the old second one.
        let slopes = Work::from(curve.m1_bit_per_s - curve.m2_bit_per_s);
        let mut dx = u64::try_from((here - y) / slopes).unwrap_or(u64::MAX);
        if self.x + self.dx > x {
            dx = dx.saturating_add(self.x + self.dx - x);
        }
        *self = Self { x, y, dx, dy: Work::from(curve.m1_bit_per_s) * Work::from(dx), ..*self };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn curves() -> impl Strategy<Value = Curve> {
        (1u64..1000, 0u64..1000, 1u64..1000).prop_map(|(m1_bit_per_s, d_ns, m2_bit_per_s)| Curve {
            m1_bit_per_s,
            d_ns,
            m2_bit_per_s,
        })
    }

    proptest! {
        #[test]
        fn time_and_work_are_inverse(curve in curves(), work in 1u128..1_000_000) {
            let runtime = Runtime::of(Some(curve));
            let time = runtime.time_of(work);
            prop_assert!(runtime.work_at(time) >= work);
            prop_assert!(time == 0 || runtime.work_at(time - 1) < work);
        }

        #[test]
        fn a_lowered_curve_is_never_above_either(
            curve in curves(), x in 0u64..2000, served in 0u128..100, ahead in 0u64..3000,
        ) {
            let old = Runtime::of(Some(curve));
            let y = old.work_at(x) * served / 100;
            let mut new = old;
            new.lower(&curve, x, y);
            let begun = Runtime { x, y, ..Runtime::of(Some(curve)) };
            let least = old.work_at(x + ahead).min(begun.work_at(x + ahead));
            // Rounding the crossing down costs at most one step of the steeper slope.
            let slack = Work::from(curve.m1_bit_per_s.max(curve.m2_bit_per_s));
            prop_assert!(new.work_at(x + ahead) <= least + slack);
        }
    }
}
