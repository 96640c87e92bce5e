//! Reservations of one processor: so much time in each period, the one whose period ends first runs (earliest deadline
//! first).
//!
//! Each is always hungry, gets its budget at the beginning of each of its periods and has until their end; of equals
//! the one that is named first is last. Nothing that comes later changes who runs, so a whole run of them is one loop.
//!
//! Source: C. L. Liu, J. W. Layland: Scheduling Algorithms for Multiprogramming in a Hard-Real-Time Environment, JACM
//! 20 (1973).

/// So much time in each period, from an instant on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reservation {
    pub period_ns: u64,
    pub budget_ns: u64,
    /// When its first period begins.
    pub begin_ns: u64,
}

/// Time that a reservation had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ran {
    /// Which one.
    pub place: usize,
    pub from_ns: u64,
    pub to_ns: u64,
    /// When the period ends that it was of.
    pub deadline_ns: u64,
}

#[derive(Debug)]
struct Own {
    given: Reservation,
    left_ns: u64,
    deadline_ns: u64,
    next_ns: u64,
}

/// All of a processor.
#[derive(Debug)]
pub struct Reservations {
    all: Vec<Own>,
    now_ns: u64,
    until_ns: u64,
}

impl Reservations {
    /// From 0 up to an instant.
    #[must_use]
    pub fn new(all: impl IntoIterator<Item = Reservation>, until_ns: u64) -> Self {
        let own = |given: Reservation| Own { given, left_ns: 0, deadline_ns: 0, next_ns: given.begin_ns };
        Self { all: all.into_iter().map(own).collect(), now_ns: 0, until_ns }
    }
}

impl Iterator for Reservations {
    type Item = Ran;

    fn next(&mut self) -> Option<Ran> {
        while self.now_ns < self.until_ns {
            for each in self.all.iter_mut().filter(|each| each.next_ns <= self.now_ns) {
                let Reservation { period_ns, budget_ns, .. } = each.given;
                (each.left_ns, each.deadline_ns) = (budget_ns, each.next_ns + period_ns);
                each.next_ns += period_ns;
            }
            let next_ns = self.all.iter().map(|each| each.next_ns).min();
            let next_ns = next_ns.unwrap_or(self.until_ns).min(self.until_ns);
            let hungry = (0..self.all.len()).rev().filter(|place| self.all[*place].left_ns > 0);
            let Some(place) = hungry.min_by_key(|place| self.all[*place].deadline_ns) else {
                self.now_ns = next_ns;
                continue;
            };
            let own = &mut self.all[place];
            let from_ns = self.now_ns;
            self.now_ns += own.left_ns.min(next_ns - from_ns);
            own.left_ns -= self.now_ns - from_ns;
            return Some(Ran { place, from_ns, to_ns: self.now_ns, deadline_ns: own.deadline_ns });
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn reservation(period_ns: u64, budget_ns: u64) -> Reservation {
        Reservation { period_ns, budget_ns, begin_ns: 0 }
    }

    #[test]
    fn the_one_whose_period_ends_first_runs_and_of_equals_the_first_is_last() {
        let ran: Vec<_> = Reservations::new([reservation(10, 4), reservation(5, 2)], 10)
            .map(|ran| (ran.place, ran.from_ns, ran.to_ns, ran.deadline_ns))
            .collect();
        assert_eq!(ran, [(1, 0, 2, 5), (0, 2, 5, 10), (1, 5, 7, 10), (0, 7, 8, 10)]);
    }

    /// Liu and Layland: whatever the periods, all budgets are served by their deadlines as long as they fit.
    #[test]
    fn a_processor_that_is_given_away_whole_serves_every_budget() {
        let all = [reservation(4, 1), reservation(6, 2), reservation(12, 5)];
        let until_ns = 1200;
        for (place, each) in all.iter().enumerate() {
            let mine = Reservations::new(all, until_ns).filter(|ran| ran.place == place);
            let mut had = std::collections::BTreeMap::new();
            for ran in mine {
                assert!(ran.to_ns <= ran.deadline_ns);
                *had.entry(ran.deadline_ns).or_insert(0) += ran.to_ns - ran.from_ns;
            }
            assert_eq!(had.len() as u64, until_ns / each.period_ns);
            assert!(had.values().all(|had_ns| *had_ns == each.budget_ns));
        }
    }
}
