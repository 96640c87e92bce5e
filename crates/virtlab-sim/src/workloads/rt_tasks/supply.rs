//! When a guest with a CPU budget has its processor: one of several reservations (`processors/reservations.rs`).
//!
//! The guest and its competitors share one processor. The guest's periods begin with the role, its competitors' when
//! they like. What each start costs the guest's budget is lost before its tasks run.

use crate::processors::{Reservation, Reservations};
use virtlab_load::parameters::RtTasks;
use virtlab_load::random::Stream;

/// One period of the guest's budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cycle {
    /// First and last instant at which it ran.
    pub begin_ns: u64,
    pub end_ns: u64,
    /// What reached the tasks, and what the budget paid.
    pub served_ns: u64,
    pub charged_ns: u64,
}

/// What a guest got, from the role's beginning on.
#[derive(Debug, Default)]
pub struct Supply {
    /// When its tasks had the processor.
    pub windows: Vec<[u64; 2]>,
    /// Whole periods.
    pub cycles: Vec<Cycle>,
}

/// Share of the processor that is requested, in parts per million, rounded up.
#[must_use]
pub fn asked_ppm(own: &RtTasks) -> u64 {
    let share =
        |budget: u64, period: u64| (u128::from(budget) * 1_000_000).div_ceil(u128::from(period)) as u64;
    let others: u64 = own.competitors.iter().map(|each| share(each.budget_ns, each.period_ns)).sum();
    others + share(own.budget_ns, own.period_ns)
}

/// Plays the reservations up to an instant. `seed`: of when competitors begin.
#[must_use]
pub fn supply(own: &RtTasks, seed: u64, until_ns: u64) -> Supply {
    let mut phases = Stream::new(seed, "competitors");
    let mine = Reservation { period_ns: own.period_ns, budget_ns: own.budget_ns, begin_ns: 0 };
    let others = own.competitors.iter().map(|each| Reservation {
        period_ns: each.period_ns,
        budget_ns: each.budget_ns,
        begin_ns: (each.period_ns as f64 * phases.uniform()) as u64,
    });
    let all: Vec<Reservation> = std::iter::once(mine).chain(others).collect();
    let mut found = Supply::default();
    // Of the period that is played: when it ends, what it had, and what of its start is not paid yet.
    let mut period: Option<(u64, Cycle)> = None;
    let mut lost_ns = 0;
    for ran in Reservations::new(all, until_ns).filter(|ran| ran.place == 0) {
        if let Some((_, cycle)) = period.take_if(|(end_ns, _)| *end_ns < ran.deadline_ns) {
            found.cycles.push(cycle);
        }
        let (_, cycle) = period.get_or_insert_with(|| {
            lost_ns = own.overhead_ns;
            let cycle = Cycle { begin_ns: ran.from_ns, end_ns: 0, served_ns: 0, charged_ns: 0 };
            (ran.deadline_ns, cycle)
        });
        let ran_ns = ran.to_ns - ran.from_ns;
        let cost_ns = lost_ns.min(ran_ns);
        lost_ns -= cost_ns;
        let served_ns = ran_ns - cost_ns;
        cycle.end_ns = ran.to_ns;
        cycle.served_ns += served_ns;
        cycle.charged_ns += ran_ns;
        if served_ns > 0 {
            let begin_ns = ran.from_ns + cost_ns;
            match found.windows.last_mut().filter(|window| window[1] == begin_ns) {
                Some(window) => window[1] = ran.to_ns,
                None => found.windows.push([begin_ns, ran.to_ns]),
            }
        }
    }
    found.cycles.extend(period.filter(|(end_ns, _)| *end_ns < until_ns).map(|(_, cycle)| cycle));
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use virtlab_load::parameters::rt_tasks::{Competitor, Policy, Server, Task};

    pub(crate) fn role(
        period_ns: u64,
        budget_ns: u64,
        overhead_ns: u64,
        competitors: &[(u64, u64)],
    ) -> RtTasks {
        RtTasks {
            tasks: vec![Task { name: "a".to_owned(), period_ns: 100, wcet_ns: 1, deadline_ns: 100 }],
            period_ns,
            budget_ns,
            overhead_ns,
            policy: Policy::Rm,
            server: Server::Deadline,
            competitors: competitors
                .iter()
                .map(|&(period_ns, budget_ns)| Competitor { period_ns, budget_ns })
                .collect(),
            phases: 1,
            duration_ns: 1000,
        }
    }

    #[test]
    fn a_guest_by_itself_runs_at_the_beginning_of_each_period_less_what_its_start_costs() {
        let found = supply(&role(10, 4, 1, &[]), 1, 25);
        assert_eq!(found.windows, [[1, 4], [11, 14], [21, 24]]);
        let whole = |begin_ns| Cycle { begin_ns, end_ns: begin_ns + 4, served_ns: 3, charged_ns: 4 };
        assert_eq!(found.cycles, [whole(0), whole(10)], "the third period is not over");
    }

    #[test]
    fn beside_competitors_that_fill_the_processor_every_period_still_brings_the_budget() {
        let own = role(10, 4, 0, &[(7, 2), (25, 7)]);
        assert!(asked_ppm(&own) <= 1_000_000);
        for seed in 0..50 {
            let found = supply(&own, seed, 10_000);
            assert_eq!(found.cycles.len(), 999);
            assert!(found.cycles.iter().all(|cycle| cycle.served_ns == 4 && cycle.charged_ns == 4));
            assert_eq!(own.shortfall_ns(&found.windows), 0);
        }
    }

    #[test]
    fn competitors_begin_by_their_seed() {
        let own = role(10, 4, 0, &[(3, 1)]);
        let windows = |seed| supply(&own, seed, 5000).windows;
        assert_eq!(windows(1), windows(1));
        assert_ne!(windows(1), windows(2));
    }
}
