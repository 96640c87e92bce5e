//! The least CPU time a virtual machine surely gets, and the longest wait for an amount of it.
//!
//! Worst case: the budget of one period came first thing, that of the next comes last. So nothing for `2(P-B) + X`,
//! then windows of length E = B - X, one per period (Shin and Lee's periodic resource model, with X lost at each
//! start). A deferrable server and a constant-bandwidth server supply alike. A polling server drops its budget when it
//! finds no work, so a job that comes just after waits `2P - B + X`.

use crate::error::{RtError, fits};
use crate::rational::Rational;

/// How the server treats budget while its machine idles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Server {
    /// Uses it up, or keeps it (deferrable, CBS): worst wait `2(P-B) + X`.
    #[default]
    Periodic,
    /// Drops it: worst wait `2P - B + X`.
    Polling,
}

/// Period, budget and overhead in whole ticks, checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Supply {
    period: i128,
    budget: i128,
    overhead: i128,
    server: Server,
}

const LARGEST: i128 = 1 << 100;

impl Supply {
    /// Checks `0 <= X < B <= P`.
    ///
    /// # Errors
    /// Which of these does not hold.
    pub fn new(period: i128, budget: i128, overhead: i128, server: Server) -> Result<Self, RtError> {
        let wrong = |what: String| Err(RtError::Supply(what));
        if period <= 0 || period > LARGEST {
            return wrong("the VM's period must be more than zero (and below 2^100 ticks)".into());
        }
        if overhead < 0 {
            return wrong("the overhead per start must not be negative".into());
        }
        if budget > period {
            return wrong("the budget exceeds the period".into());
        }
        if budget <= overhead {
            return wrong("the overhead per start uses the budget up: no time reaches the tasks".into());
        }
        Ok(Self { period, budget, overhead, server })
    }

    /// Supply with rational parameters in a finer tick: the factor that makes all whole, and the supply in it.
    ///
    /// # Errors
    /// As [`Self::new`], or when no common unit fits.
    pub fn rational(
        period: Rational,
        budget: Rational,
        overhead: Rational,
        server: Server,
    ) -> Result<(i128, Self), RtError> {
        let factor = common_denominator(&[period, budget, overhead])?;
        let whole = |value: Rational| {
            fits(value.num().checked_mul(factor / value.den()), "a supply in a common unit")
        };
        Ok((factor, Self::new(whole(period)?, whole(budget)?, whole(overhead)?, server)?))
    }

    /// P.
    #[must_use]
    pub const fn period(&self) -> i128 {
        self.period
    }

    /// B.
    #[must_use]
    pub const fn budget(&self) -> i128 {
        self.budget
    }

    /// E = B - X, what reaches the tasks each period.
    #[must_use]
    pub const fn effective(&self) -> i128 {
        self.budget - self.overhead
    }

    /// Time without supply between two windows: `P - B + X`.
    #[must_use]
    pub const fn gap(&self) -> i128 {
        self.period - self.budget + self.overhead
    }

    /// What comes before the first gap: `P - B`, or P for a polling server.
    #[must_use]
    pub const fn lead(&self) -> i128 {
        match self.server {
            Server::Periodic => self.period - self.budget,
            Server::Polling => self.period,
        }
    }

    /// Longest time without any supply: `2(P-B) + X`, or `2P - B + X` for a polling server.
    #[must_use]
    pub const fn blackout(&self) -> i128 {
        self.lead() + self.gap()
    }

    /// Least t within which demand w is surely served: `lead + w + ceil(w/E)(P - B + X)`; 0 for no demand.
    ///
    /// # Errors
    /// On overflow.
    pub fn time_to_supply(&self, demand: i128) -> Result<i128, RtError> {
        if demand <= 0 {
            return Ok(0);
        }
        let windows = (demand - 1) / self.effective() + 1;
        fits(
            windows.checked_mul(self.gap()).and_then(|t| t.checked_add(self.lead() + demand)),
            "the time to supply a demand",
        )
    }

    /// Least supply within any interval of length t.
    #[must_use]
    pub fn supplied_by(&self, t: i128) -> i128 {
        let after = t - self.blackout();
        if after <= 0 {
            return 0;
        }
        let (whole, rest) = (after / self.period, after % self.period);
        whole * self.effective() + rest.min(self.effective())
    }
}

/// Least common denominator.
///
/// # Errors
/// When it does not fit.
pub fn common_denominator(values: &[Rational]) -> Result<i128, RtError> {
    values.iter().try_fold(1i128, |common, value| {
        let divisor = crate::rational::gcd(common, value.den());
        fits(common.checked_mul(value.den() / divisor), "a common unit")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_exact_multiple_of_the_budget_is_served_at_the_end_of_its_window() {
        let supply = Supply::new(6, 3, 0, Server::Periodic).unwrap();
        let times: Vec<i128> = [1, 3, 4, 5, 6].iter().map(|w| supply.time_to_supply(*w).unwrap()).collect();
        assert_eq!(times, [7, 9, 13, 14, 15], "floor(w/B) in place of the ceiling would say 12 for w = 3");
    }

    #[test]
    fn a_budget_that_the_overhead_eats_is_refused() {
        assert!(Supply::new(10, 2, 2, Server::Periodic).is_err());
        assert!(Supply::new(10, 11, 0, Server::Periodic).is_err());
        assert!(Supply::new(0, 0, 0, Server::Periodic).is_err());
    }

    proptest! {
        #[test]
        fn time_to_supply_is_the_least_time_with_that_supply(
            period in 1i128..40, budget in 1i128..40, overhead in 0i128..10, demand in 1i128..200, polling: bool,
        ) {
            prop_assume!(budget <= period && overhead < budget);
            let server = if polling { Server::Polling } else { Server::Periodic };
            let supply = Supply::new(period, budget, overhead, server).unwrap();
            let t = supply.time_to_supply(demand).unwrap();
            prop_assert!(supply.supplied_by(t) >= demand);
            prop_assert!(supply.supplied_by(t - 1) < demand);
        }
    }
}
