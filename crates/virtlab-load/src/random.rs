//! Randomness has a name: one ChaCha stream per seed and name, and our own draws from it.
//!
//! Adding an entity changes no other entity's draws, because each has its own stream. Draws are inverse-CDF transforms
//! written here, since the distributions of general libraries change between their versions and a seed must mean the
//! same schedule for ever.

use rand_chacha::ChaCha12Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// A named stream of random numbers.
#[derive(Clone, Debug)]
pub struct Stream(ChaCha12Rng);

impl Stream {
    /// The stream of `name` under `seed`: the ChaCha key is the seed and three FNV-1a hashes of the name.
    #[must_use]
    pub fn new(seed: u64, name: &str) -> Self {
        let mut key = [0; 32];
        key[..8].copy_from_slice(&seed.to_le_bytes());
        for (word, salt) in key[8..].chunks_exact_mut(8).zip(1u64..) {
            word.copy_from_slice(&fnv1a(salt, name.as_bytes()).to_le_bytes());
        }
        Self(ChaCha12Rng::from_seed(key))
    }

    /// A double in [0, 1) with 53 random bits.
    pub fn uniform(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// A whole number in [0, below), 0 when `below` is 0. Without bias (Lemire's multiply and reject).
    pub fn below(&mut self, below: u64) -> u64 {
        if below == 0 {
            return 0;
        }
        loop {
            let product = u128::from(self.0.next_u64()) * u128::from(below);
            // The threshold lies below `below`: mostly it need not be computed.
            if product as u64 >= below || product as u64 >= below.wrapping_neg() % below {
                return (product >> 64) as u64;
            }
        }
    }

    /// As many exponential draws as there are places, the numbers that [`Self::exponential`] would give one by one:
    /// their logarithms do not wait for each other.
    pub fn exponentials(&mut self, mean: f64, into: &mut [f64]) {
        for draw in into.iter_mut() {
            *draw = 1.0 - self.uniform();
        }
        for draw in into {
            *draw = mean * minus_ln(*draw);
        }
    }

    /// An exponential draw of the given mean: `-mean ln(1 - u)`. The logarithm is ours, not the system's, whose last
    /// bits differ between platforms.
    pub fn exponential(&mut self, mean: f64) -> f64 {
        mean * minus_ln(1.0 - self.uniform())
    }

    /// A normal draw of mean 0 and variance 1, by the polar method (Marsaglia and Bray 1964).
    pub fn normal(&mut self) -> f64 {
        loop {
            let (along, across) = (2.0 * self.uniform() - 1.0, 2.0 * self.uniform() - 1.0);
            let square = along * along + across * across;
            if square > 0.0 && square < 1.0 {
                return along * (2.0 * minus_ln(square) / square).sqrt();
            }
        }
    }

    /// A lognormal draw of a mean and a ratio of its standard deviation to that mean.
    pub fn lognormal(&mut self, mean: f64, variation: f64) -> f64 {
        let variance = minus_ln(1.0 / (1.0 + variation * variation));
        mean * exponential_function(variance.sqrt() * self.normal() - variance / 2.0)
    }
}

const CELL_BITS: u32 = 6;
const CELLS: usize = 1 << CELL_BITS;
const MANTISSA_BITS: u32 = 52;

/// By the first bits of a mantissa in [1, 2): the reciprocal of its cell's middle, and minus that reciprocal's
/// logarithm.
const MIDDLES: [(f64, f64); CELLS] = {
    let mut cells = [(0.0, 0.0); CELLS];
    let mut cell = 0;
    while cell < CELLS {
        let reciprocal = 1.0 / (1.0 + (cell as f64 + 0.5) / CELLS as f64);
        // -ln a = 2 artanh((1 - a) / (1 + a)), by its series; |z| <= 1/3, so 20 terms reach the last bit.
        let z = (1.0 - reciprocal) / (1.0 + reciprocal);
        let (mut sum, mut term) = (0.0, 20);
        while term > 0 {
            term -= 1;
            sum = sum * z * z + 2.0 / (2 * term + 1) as f64;
        }
        cells[cell] = (reciprocal, sum * z);
        cell += 1;
    }
    cells
};

/// `-ln x` for x in (0, 1], never negative, to 4e-16 of the larger of it and 1.
///
/// x = 2^e m, and m = (1 + r) times the middle of its cell, so ln x = e ln 2 + ln(middle) + ln(1 + r) with |r| < 1/127,
/// whose series ends behind r^7. Additions and multiplications alone, so equal on every machine.
fn minus_ln(x: f64) -> f64 {
    let bits = x.to_bits();
    let exponent = (bits >> MANTISSA_BITS) as i64 - 1023;
    let mantissa = f64::from_bits(bits & ((1 << MANTISSA_BITS) - 1) | 1023 << MANTISSA_BITS);
    let (reciprocal, middle) = MIDDLES[(bits >> (MANTISSA_BITS - CELL_BITS)) as usize & (CELLS - 1)];
    let r = mantissa * reciprocal - 1.0;
    let tail = 1.0 / 3.0 - r * (1.0 / 4.0 - r * (1.0 / 5.0 - r * (1.0 / 6.0 - r * (1.0 / 7.0))));
    let ln = exponent as f64 * core::f64::consts::LN_2 + (middle + (r - r * r * (0.5 - r * tail)));
    (-ln).max(0.0)
}

/// e^x to 2e-13 of itself, within the range of normal numbers: x = k ln 2 + r with |r| <= ln 2 / 2, and the series of
/// e^r. Additions and multiplications alone, so equal on every machine.
fn exponential_function(x: f64) -> f64 {
    let power = (x.clamp(-700.0, 700.0) / core::f64::consts::LN_2).round();
    let rest = x.clamp(-700.0, 700.0) - power * core::f64::consts::LN_2;
    let series = (1..=15).rev().fold(1.0, |sum, term| 1.0 + sum * rest / f64::from(term));
    series * f64::from_bits(((1023 + power as i64) as u64) << MANTISSA_BITS)
}

fn fnv1a(salt: u64, bytes: &[u8]) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    let salted = salt.to_le_bytes().iter().fold(0xcbf2_9ce4_8422_2325, step);
    bytes.iter().fold(salted, step)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn equal_names_draw_equal_numbers_and_other_names_others() {
        let draws = |seed, name| {
            (0..4)
                .map({
                    let mut stream = Stream::new(seed, name);
                    move |_| stream.below(1 << 40)
                })
                .collect::<Vec<_>>()
        };
        assert_eq!(draws(7, "load.0"), draws(7, "load.0"));
        assert_ne!(draws(7, "load.0"), draws(7, "load.1"));
        assert_ne!(draws(7, "load.0"), draws(8, "load.0"));
    }

    #[test]
    fn an_exponential_has_its_mean() {
        let mut stream = Stream::new(1, "mean");
        let mean = (0..100_000).map(|_| stream.exponential(5.0)).sum::<f64>() / 100_000.0;
        assert!((mean - 5.0).abs() < 0.1, "mean {mean}");
    }

    #[test]
    fn a_lognormal_has_its_mean_and_its_variation() {
        for (variation, error) in [(0.2, 0.01), (1.0, 0.02), (2.0, 0.15)] {
            let mut stream = Stream::new(1, "lognormal");
            let drawn: Vec<f64> = (0..400_000).map(|_| stream.lognormal(5.0, variation)).collect();
            let mean = drawn.iter().sum::<f64>() / 4e5;
            let square = drawn.iter().map(|each| (each - mean).powi(2)).sum::<f64>() / 4e5;
            assert!((mean / 5.0 - 1.0).abs() < error, "mean {mean}");
            assert!((square.sqrt() / mean / variation - 1.0).abs() < error, "{} of {mean}", square.sqrt());
        }
    }

    #[test]
    fn draws_at_once_are_those_one_by_one() {
        let (mut many, mut one) = (Stream::new(5, "gaps"), Stream::new(5, "gaps"));
        let mut drawn = [0.0; 37];
        many.exponentials(3.0, &mut drawn);
        assert!(drawn.iter().all(|draw| draw.to_bits() == one.exponential(3.0).to_bits()));
        assert_eq!(many.below(1 << 60), one.below(1 << 60));
    }

    #[test]
    fn the_logarithm_is_zero_at_one_and_known_at_the_ends() {
        assert_eq!(minus_ln(1.0), 0.0);
        assert!((minus_ln(0.5) - core::f64::consts::LN_2).abs() < 1e-15);
        assert!((minus_ln((2.0f64).powi(-53)) - 53.0 * core::f64::consts::LN_2).abs() < 2e-14);
    }

    #[test]
    fn an_exponential_draw_means_the_same_on_every_machine() {
        let mut stream = Stream::new(1, "mean");
        let draws: Vec<u64> = (0..3).map(|_| stream.exponential(1e9).to_bits()).collect();
        assert_eq!(draws, [4_707_106_718_014_480_928, 4_734_184_529_043_421_287, 4_743_867_112_163_860_283]);
    }

    proptest! {
        #[test]
        fn the_logarithm_is_the_systems_within_its_error(x in 1e-16f64..=1.0) {
            let truth = -x.ln();
            prop_assert!((minus_ln(x) - truth).abs() <= 4e-16 * truth.max(1.0), "{} for {truth}", minus_ln(x));
        }

        #[test]
        fn the_exponential_function_is_the_systems_within_its_error(x in -600.0f64..600.0) {
            let truth = x.exp();
            prop_assert!((exponential_function(x) / truth - 1.0).abs() <= 2e-13, "{} for {truth}", exponential_function(x));
        }

        #[test]
        fn draws_stay_in_their_range(seed: u64, below in 1u64.., n in 1usize..50) {
            let mut stream = Stream::new(seed, "range");
            for _ in 0..n {
                prop_assert!(stream.below(below) < below);
                prop_assert!((0.0..1.0).contains(&stream.uniform()));
                prop_assert!(stream.exponential(1.0) >= 0.0);
            }
        }
    }
}
