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
        let threshold = below.wrapping_neg() % below;
        loop {
            let product = u128::from(self.0.next_u64()) * u128::from(below);
            if product as u64 >= threshold {
                return (product >> 64) as u64;
            }
        }
    }

    /// An exponential draw of the given mean: `-mean ln(1 - u)`.
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (-self.uniform()).ln_1p()
    }
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

    proptest! {
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
