//! Exact fractions over i128: reduced, positive denominator, every operation checked.
//!
//! Comparison never overflows: where cross products do not fit, whole parts are compared and the remainders inverted
//! (Euclid's continued fraction), which ends because denominators shrink.

use crate::error::{RtError, fits};
use std::cmp::Ordering;
use std::fmt;

/// A fraction `num / den`, reduced, `den > 0`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rational {
    num: i128,
    den: i128,
}

/// Greatest common divisor of two magnitudes (0 with 0 gives 0).
#[must_use]
pub fn gcd(a: i128, b: i128) -> i128 {
    let (mut a, mut b) = (a.unsigned_abs(), b.unsigned_abs());
    while b != 0 {
        if let (Ok(x), Ok(y)) = (u64::try_from(a), u64::try_from(b)) {
            let (mut x, mut y) = (x, y);
            while y != 0 {
                (x, y) = (y, x % y);
            }
            return i128::from(x);
        }
        (a, b) = (b, a % b);
    }
    i128::try_from(a).unwrap_or(i128::MAX)
}

impl Rational {
    /// 0.
    pub const ZERO: Self = Self { num: 0, den: 1 };
    /// 1.
    pub const ONE: Self = Self { num: 1, den: 1 };

    /// `num / den`, reduced.
    ///
    /// # Errors
    /// When `den` is zero, or the sign cannot be moved to the numerator.
    pub fn new(num: i128, den: i128) -> Result<Self, RtError> {
        if den == 0 {
            return Err(RtError::Supply("a fraction with denominator zero".into()));
        }
        let divisor = gcd(num, den);
        let (num, den) = (num / divisor, den / divisor);
        if den < 0 {
            return Ok(Self {
                num: fits(num.checked_neg(), "a fraction")?,
                den: fits(den.checked_neg(), "a fraction")?,
            });
        }
        Ok(Self { num, den })
    }

    /// A whole number.
    #[must_use]
    pub const fn whole(value: i128) -> Self {
        Self { num: value, den: 1 }
    }

    /// Numerator, carrying the sign.
    #[must_use]
    pub const fn num(self) -> i128 {
        self.num
    }

    /// Denominator, positive.
    #[must_use]
    pub const fn den(self) -> i128 {
        self.den
    }

    /// The nearest double.
    #[must_use]
    pub fn to_f64(self) -> f64 {
        self.num as f64 / self.den as f64
    }

    /// Largest whole number not above.
    #[must_use]
    pub const fn floor(self) -> i128 {
        self.num.div_euclid(self.den)
    }

    /// Smallest whole number not below.
    #[must_use]
    pub const fn ceil(self) -> i128 {
        let floor = self.floor();
        if floor * self.den == self.num { floor } else { floor + 1 }
    }

    /// `self + other`.
    ///
    /// # Errors
    /// On overflow, as for all arithmetic here.
    pub fn plus(self, other: Self) -> Result<Self, RtError> {
        let divisor = gcd(self.den, other.den);
        let (left, right) = (other.den / divisor, self.den / divisor);
        let num =
            self.num.checked_mul(left).zip(other.num.checked_mul(right)).and_then(|(a, b)| a.checked_add(b));
        Self::new(fits(num, "a sum of fractions")?, fits(self.den.checked_mul(left), "a sum of fractions")?)
    }

    /// `self - other`.
    ///
    /// # Errors
    /// On overflow.
    pub fn minus(self, other: Self) -> Result<Self, RtError> {
        self.plus(Self { num: fits(other.num.checked_neg(), "a difference of fractions")?, den: other.den })
    }

    /// `self * other`.
    ///
    /// # Errors
    /// On overflow.
    pub fn times(self, other: Self) -> Result<Self, RtError> {
        let (a, b) = (gcd(self.num, other.den).max(1), gcd(other.num, self.den).max(1));
        let num = (self.num / a).checked_mul(other.num / b);
        let den = (self.den / b).checked_mul(other.den / a);
        Self::new(fits(num, "a product of fractions")?, fits(den, "a product of fractions")?)
    }

    /// `self / other`.
    ///
    /// # Errors
    /// On overflow, or when `other` is zero.
    pub fn over(self, other: Self) -> Result<Self, RtError> {
        self.times(Self::new(other.den, other.num)?)
    }
}

impl Ord for Rational {
    fn cmp(&self, other: &Self) -> Ordering {
        if self.den == other.den {
            return self.num.cmp(&other.num);
        }
        if let Some((left, right)) = self.num.checked_mul(other.den).zip(other.num.checked_mul(self.den)) {
            return left.cmp(&right);
        }
        let (mut a, mut b) = (*self, *other);
        let mut flipped = false;
        loop {
            let (whole_a, whole_b) = (a.floor(), b.floor());
            let (rest_a, rest_b) = (a.num.rem_euclid(a.den), b.num.rem_euclid(b.den));
            let order = match whole_a.cmp(&whole_b) {
                Ordering::Equal => match (rest_a, rest_b) {
                    (0, 0) => Ordering::Equal,
                    (0, _) => Ordering::Less,
                    (_, 0) => Ordering::Greater,
                    _ => {
                        // Equal whole parts: compare the inverses of the rests, the other way round.
                        a = Self { num: a.den, den: rest_a };
                        b = Self { num: b.den, den: rest_b };
                        flipped = !flipped;
                        continue;
                    }
                },
                unequal => unequal,
            };
            return if flipped { order.reverse() } else { order };
        }
    }
}

impl PartialOrd for Rational {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for Rational {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.den == 1 { write!(f, "{}", self.num) } else { write!(f, "{}/{}", self.num, self.den) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn comparison_survives_cross_products_that_do_not_fit() {
        let big = i128::MAX - 1;
        let a = Rational::new(big, big - 1).unwrap();
        let b = Rational::new(big - 2, big - 3).unwrap();
        assert_eq!(a.cmp(&b), Ordering::Less, "1 + 1/(m-1) lies below 1 + 1/(m-3)");
        assert!(a.plus(b).is_err(), "an overflow is an error");
    }

    proptest! {
        #[test]
        fn the_slow_comparison_agrees_with_cross_products(a in -9_000i128..9_000, b in 1i128..900, c in -9_000i128..9_000, d in 1i128..900) {
            let scale = 1i128 << 55;
            let (x, y) = (Rational::new(a, b).unwrap(), Rational::new(c, d).unwrap());
            prop_assert_eq!(x.cmp(&y), (a * d).cmp(&(c * b)));
            // The same order, with numbers whose cross products overflow.
            let far_x = Rational { num: a * scale * scale / 4 + 1, den: b * scale + 1 };
            let far_y = Rational { num: c * scale * scale / 4 + 1, den: d * scale + 1 };
            if a * d != c * b {
                prop_assert_eq!(far_x.cmp(&far_y), (a * d).cmp(&(c * b)));
            }
        }

        #[test]
        fn sums_and_products_are_fractions_of_integers(a in -999i128..999, b in 1i128..99, c in -999i128..999, d in 1i128..99) {
            let (x, y) = (Rational::new(a, b).unwrap(), Rational::new(c, d).unwrap());
            prop_assert_eq!(x.plus(y).unwrap(), Rational::new(a * d + c * b, b * d).unwrap());
            prop_assert_eq!(x.times(y).unwrap(), Rational::new(a * c, b * d).unwrap());
            prop_assert_eq!(x.floor(), a.div_euclid(b));
            prop_assert_eq!(x.ceil(), -((-a).div_euclid(b)));
        }
    }
}
