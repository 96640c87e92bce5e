//! Random task sets, one named stream of numbers per set: the same seed gives the same sets on any number of cores.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// How periods are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Periods {
    /// Whole time units, each equally likely.
    Uniform,
    /// Equally likely per factor: `exp(uniform(ln low, ln high))`, rounded to whole time units.
    LogUniform,
}

/// How execution times follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wcets {
    /// Uniform in `[least, T_i]`, then all scaled to the utilisation.
    Scaled,
    /// UUniFast, sets with a task above 1 discarded (Bini and Buttazzo; Davis and Burns).
    UUniFastDiscard,
}

/// A family of task sets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Family {
    /// Tasks per set.
    pub tasks: usize,
    /// Least and largest period, time units.
    pub periods: (i64, i64),
    /// Their distribution.
    pub spread: Periods,
    /// Least execution time before scaling, time units.
    pub least_wcet: i64,
    /// How execution times are drawn.
    pub wcets: Wcets,
    /// Ticks per time unit: execution times are rounded to ticks.
    pub ticks: i64,
}

/// One set before scaling: periods (ticks) ascending, and weights whose share of the sum is each task's utilisation.
#[derive(Clone, Debug, Default)]
pub struct Draw {
    /// T, ticks, ascending.
    pub period: Vec<i64>,
    weight: Vec<f64>,
    total: f64,
}

fn unit(random: &mut ChaCha8Rng) -> f64 {
    (random.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
}

fn whole(random: &mut ChaCha8Rng, low: i64, high: i64) -> i64 {
    let width = (high - low + 1) as u64;
    // The high half of a 128-bit product: uniform to 2^-64, without rejection.
    low + ((u128::from(random.next_u64()) * u128::from(width)) >> 64) as i64
}

impl Draw {
    /// Draws set `number` of a family. The draws do not depend on the utilisation, so levels of it share their sets.
    pub fn fill(&mut self, family: &Family, seed: u64, number: u64) {
        let mut random = ChaCha8Rng::seed_from_u64(seed ^ ((family.tasks as u64) << 48));
        random.set_stream(number);
        let (low, high) = family.periods;
        let mut pairs: Vec<(i64, f64)> = Vec::with_capacity(family.tasks);
        for _ in 0..family.tasks {
            let period = match family.spread {
                Periods::Uniform => whole(&mut random, low, high),
                Periods::LogUniform => {
                    let (from, to) = ((low as f64).ln(), (high as f64).ln());
                    ((from + (to - from) * unit(&mut random)).exp().round() as i64).clamp(low, high)
                }
            };
            let weight = match family.wcets {
                Wcets::Scaled => {
                    let least = family.least_wcet.min(period) as f64;
                    (least + (period as f64 - least) * unit(&mut random)) / period as f64
                }
                Wcets::UUniFastDiscard => 0.0,
            };
            pairs.push((period, weight));
        }
        if family.wcets == Wcets::UUniFastDiscard {
            // Utilisations that sum to 1; scaled to u <= 1 none exceeds 1, so nothing has to be discarded.
            let mut left = 1.0;
            for (place, pair) in pairs.iter_mut().enumerate() {
                let after = family.tasks - 1 - place;
                let next = if after == 0 { 0.0 } else { left * unit(&mut random).powf(1.0 / after as f64) };
                pair.1 = left - next;
                left = next;
            }
        }
        pairs.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
        self.period.clear();
        self.period.extend(pairs.iter().map(|pair| pair.0 * family.ticks));
        self.weight.clear();
        self.weight.extend(pairs.iter().map(|pair| pair.1));
        self.total = self.weight.iter().sum();
    }

    /// Execution times in ticks for a utilisation, at least one tick each and at most the period.
    pub fn wcets(&self, utilisation: f64, out: &mut Vec<i64>) {
        out.clear();
        let scale = utilisation / self.total;
        out.extend(
            self.period
                .iter()
                .zip(&self.weight)
                .map(|(t, weight)| ((weight * scale * *t as f64).round() as i64).clamp(1, *t)),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_depends_on_its_number_alone_and_has_the_utilisation_asked_for() {
        let family = Family {
            tasks: 20,
            periods: (1000, 10_000),
            spread: Periods::Uniform,
            least_wcet: 1000,
            wcets: Wcets::Scaled,
            ticks: 1_000_000,
        };
        for family in
            [family, Family { spread: Periods::LogUniform, wcets: Wcets::UUniFastDiscard, ..family }]
        {
            let (mut a, mut b, mut wcets) = (Draw::default(), Draw::default(), Vec::new());
            a.fill(&family, 7, 3);
            b.fill(&family, 7, 4);
            assert_ne!(a.period, b.period);
            b.fill(&family, 7, 3);
            assert_eq!(a.period, b.period);
            assert!(a.period.is_sorted() && a.period[0] >= 1_000_000_000 && a.period[19] <= 10_000_000_000);
            a.wcets(0.3, &mut wcets);
            let used: f64 = a.period.iter().zip(&wcets).map(|(t, c)| *c as f64 / *t as f64).sum();
            assert!((used - 0.3).abs() < 1e-6, "{used}");
        }
    }
}
