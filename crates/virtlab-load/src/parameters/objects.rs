//! `objects`: operations on objects of a distributed store, by threads in turns or at a rate.

use super::{OutOfRange, Role, positive};
use crate::random::Stream;
use crate::schedule::Arrivals;
use serde::Deserialize;
use std::collections::BTreeMap;

/// As a Plan calls it.
pub const NAME: &str = "objects";

/// In which order operations take the objects that are there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Order {
    /// Each takes any of them, with equal chance.
    #[default]
    Random,
    /// Each takes the next in the order of their creation, and after the last the first; each thread begins with a
    /// share of its own.
    Sequential,
    /// Each takes the next of its thread's share, until each object that was there at the start was taken once.
    Once,
}

impl Order {
    /// # Errors
    /// `once`: what is due at a rate has no end of its own.
    pub(super) fn at_a_rate(self) -> Result<(), OutOfRange> {
        if self == Self::Once {
            return Err(OutOfRange::new("order", "is not 'once' where operations are due at a rate"));
        }
        Ok(())
    }
}

/// What a role says.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Objects {
    /// The store.
    pub service: String,
    /// For which operations begin; absent: until it is stopped.
    pub duration_ns: Option<u64>,
    /// Operations after which it ends.
    pub count: Option<u64>,
    /// Shares, which need not have any sum.
    pub operations: BTreeMap<String, f64>,
    /// Of an object that is created or overwritten.
    #[serde(default)]
    pub object_bytes: u64,
    /// In place of one size: several, with shares of any sum.
    #[serde(default)]
    pub object_sizes: Vec<(u64, f64)>,
    /// On each there is one operation at a time.
    pub threads: u32,
    /// Operations that are due; absent: each thread asks in turns.
    pub rate_per_s: Option<u64>,
    /// Of a rate.
    #[serde(default)]
    pub arrivals: Arrivals,
    /// Name of the objects; absent: the role's.
    pub folder: Option<String>,
    /// In which its operations take them.
    #[serde(default)]
    pub order: Order,
    /// Share of operations that may be not done; absent: any.
    pub error_budget_ratio: Option<f64>,
}

/// What roles of operations say alike, whatever keeps the objects.
#[derive(Clone, Copy, Debug)]
pub struct Asks<'a> {
    /// Of several sizes, with shares of any sum.
    pub sizes: &'a [(u64, f64)],
    /// The only one, where there are not several.
    pub object_bytes: u64,
    /// For which operations begin.
    pub duration_ns: Option<u64>,
    /// Operations after which it ends.
    pub count: Option<u64>,
    /// That play it.
    pub threads: u32,
    /// Operations that are due; absent: each thread asks in turns.
    pub rate_per_s: Option<u64>,
    /// Of a rate.
    pub arrivals: Arrivals,
    /// In which they take the objects that are there.
    pub order: Order,
    /// Share of operations that may be not done; absent: any.
    pub error_budget_ratio: Option<f64>,
}

impl Asks<'_> {
    /// Threads that share its objects out: what is due at a rate takes them one after another.
    #[must_use]
    pub fn sharers(&self) -> u32 {
        if self.rate_per_s.is_some() { 1 } else { self.threads }
    }

    /// Why a role has failed that was to take each object once, and has not come to so many of them.
    #[must_use]
    pub fn too_short(&self, left: u64) -> Option<String> {
        (left > 0 && self.count.is_none()).then(|| {
            format!("within its duration it did not come to {left} objects; write a longer one, or a 'count'")
        })
    }

    /// Why a role has failed of which so many operations were begun, and so many of them were done.
    #[must_use]
    pub fn over_budget(&self, begun: u64, done: u64) -> Option<String> {
        let (budget, failed) = (self.error_budget_ratio?, begun.saturating_sub(done));
        let percent = (budget * 1e8).round() / 1e6;
        (failed as f64 > budget * begun as f64).then(|| {
            format!(
                "{failed} of {begun} operations were not done, and the error budget is {percent} % of them"
            )
        })
    }
}

impl Role for Objects {
    const NAME: &str = NAME;
}

impl Objects {
    /// What it says as other roles of operations do.
    #[must_use]
    pub fn asks(&self) -> Asks<'_> {
        Asks {
            sizes: &self.object_sizes,
            object_bytes: self.object_bytes,
            duration_ns: self.duration_ns,
            count: self.count,
            threads: self.threads,
            rate_per_s: self.rate_per_s,
            arrivals: self.arrivals,
            order: self.order,
            error_budget_ratio: self.error_budget_ratio,
        }
    }

    /// # Errors
    /// The first parameter that no end could play.
    pub fn check(&self) -> Result<(), OutOfRange> {
        if let Some(rate_per_s) = self.rate_per_s {
            self.order.at_a_rate()?;
            return positive("rate_per_s", rate_per_s);
        }
        positive("threads", u64::from(self.threads))
    }
}

/// Sizes of objects, each with the sum of shares up to it. What operations are drawn does not depend on them.
#[derive(Debug)]
pub struct Sizes {
    all: Vec<(f64, u64)>,
    draws: Stream,
}

impl Sizes {
    /// Of a role.
    #[must_use]
    pub fn new(sizes: &[(u64, f64)], seed: u64) -> Self {
        let mut sum = 0.0;
        let summed = sizes.iter().map(|(bytes, share)| {
            sum += share;
            (sum, *bytes)
        });
        Self { all: summed.collect(), draws: Stream::new(seed, "sizes") }
    }

    /// That of the next object; one that is not of several is given.
    pub fn next(&mut self, only: u64) -> u64 {
        let Some((all, last)) = self.all.last().copied() else { return only };
        let drawn = self.draws.uniform() * all;
        self.all.iter().find(|(sum, _)| drawn < *sum).map_or(last, |(_, bytes)| *bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::of;
    use super::*;

    #[test]
    fn a_role_fails_by_more_errors_than_its_budget_has() {
        let own = |budget: &str| {
            let all = r#"{"service": "s", "operations": {"read": 1}, "threads": 1"#;
            of::<Objects>(&format!("{all}{budget}}}")).unwrap()
        };
        assert_eq!(own("").asks().over_budget(9, 0), None);
        let one_percent = own(r#", "error_budget_ratio": 0.01"#);
        assert_eq!(one_percent.asks().over_budget(200, 198), None);
        assert_eq!(one_percent.asks().over_budget(0, 0), None);
        let why = "3 of 200 operations were not done, and the error budget is 1 % of them";
        assert_eq!(one_percent.asks().over_budget(200, 197).as_deref(), Some(why));
        assert!(own(r#", "error_budget_ratio": 0"#).asks().over_budget(200, 199).is_some());
    }

    #[test]
    fn a_loop_has_threads_and_a_rate_is_above_0() {
        let said = |own: &str| {
            let all = format!(r#"{{"service": "s", "operations": {{"read": 1}}, "object_bytes": 9, {own}}}"#);
            of::<Objects>(&all).unwrap().check().map_err(|error| error.to_string())
        };
        assert_eq!((said(r#""threads": 1"#), said(r#""threads": 0, "rate_per_s": 5"#)), (Ok(()), Ok(())));
        assert_eq!(said(r#""threads": 0"#).unwrap_err(), "threads must be above 0");
        assert_eq!(said(r#""threads": 1, "rate_per_s": 0"#).unwrap_err(), "rate_per_s must be above 0");
        assert_eq!(said(r#""threads": 9, "order": "once""#), Ok(()));
        let once = said(r#""threads": 1, "rate_per_s": 5, "order": "once""#);
        assert_eq!(once.unwrap_err(), "order is not 'once' where operations are due at a rate");
    }
}
