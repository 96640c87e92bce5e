//! Periodic or sporadic tasks with hard deadlines.

use crate::error::RtError;
use crate::rational::Rational;

/// One task; all times in ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Task {
    /// T: least time between releases.
    pub period: i64,
    /// C: worst-case execution time.
    pub wcet: i64,
    /// D: deadline, counted from the release without jitter; `D <= T`.
    pub deadline: i64,
    /// J: how late a release can become visible.
    pub jitter: i64,
    /// b: how long tasks of lower priority can block it.
    pub blocking: i64,
}

impl Task {
    /// A task whose deadline is its period, without jitter and blocking.
    #[must_use]
    pub const fn implicit(period: i64, wcet: i64) -> Self {
        Self { period, wcet, deadline: period, jitter: 0, blocking: 0 }
    }

    /// D - J: how long a job may take from when it becomes visible.
    #[must_use]
    pub const fn window(&self) -> i128 {
        self.deadline as i128 - self.jitter as i128
    }

    fn check(&self) -> Result<(), String> {
        let Self { period, wcet, deadline, jitter, blocking } = *self;
        if period <= 0 {
            return Err(format!("period {period} must be more than zero"));
        }
        if wcet <= 0 {
            return Err(format!("execution time {wcet} must be more than zero"));
        }
        if wcet > period {
            return Err(format!("execution time {wcet} exceeds period {period}"));
        }
        if deadline <= 0 || deadline > period {
            return Err(format!("deadline {deadline} must lie above zero and not above period {period}"));
        }
        if jitter < 0 || blocking < 0 {
            return Err("jitter and blocking must not be negative".into());
        }
        if wcet.saturating_add(jitter) > deadline {
            return Err(format!("execution time {wcet} and jitter {jitter} exceed deadline {deadline}"));
        }
        Ok(())
    }
}

/// Tasks that were checked, highest priority first (EDF does not look at the order).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskSet {
    tasks: Vec<Task>,
}

impl TaskSet {
    /// Checks and keeps the tasks in the order given.
    ///
    /// # Errors
    /// The first task that makes no sense, by its place.
    pub fn new(tasks: Vec<Task>) -> Result<Self, RtError> {
        if tasks.is_empty() {
            return Err(RtError::Supply("no tasks".into()));
        }
        for (index, task) in tasks.iter().enumerate() {
            task.check().map_err(|what| RtError::Task { index, what })?;
        }
        Ok(Self { tasks })
    }

    /// All times multiplied by `factor`.
    ///
    /// # Errors
    /// When a time no longer fits.
    pub fn scaled(&self, factor: i128) -> Result<Self, RtError> {
        let scale = |value: i64| {
            i128::from(value)
                .checked_mul(factor)
                .and_then(|value| i64::try_from(value).ok())
                .ok_or(RtError::Overflow("a task's time in a common unit"))
        };
        let mut tasks = self.tasks.clone();
        for task in &mut tasks {
            task.period = scale(task.period)?;
            task.wcet = scale(task.wcet)?;
            task.deadline = scale(task.deadline)?;
            task.jitter = scale(task.jitter)?;
            task.blocking = scale(task.blocking)?;
        }
        Ok(Self { tasks })
    }

    /// The tasks, highest priority first.
    #[must_use]
    pub fn tasks(&self) -> &[Task] {
        &self.tasks
    }

    /// How many.
    #[must_use]
    pub fn len(&self) -> usize {
        self.tasks.len()
    }

    /// Never: a task set holds at least one task.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    /// Utilisation from below and above, exact to one part in 2^60 per task (the exact sum can need a denominator
    /// that fits nowhere).
    #[must_use]
    pub fn utilisation_bounds(&self) -> (Rational, Rational) {
        let low: i128 = self.tasks.iter().map(|t| (i128::from(t.wcet) << 60) / i128::from(t.period)).sum();
        let scale = 1i128 << 60;
        let bound = |value| Rational::new(value, scale).unwrap_or(Rational::ZERO);
        let exact = self.tasks.iter().all(|t| (i128::from(t.wcet) << 60) % i128::from(t.period) == 0);
        (bound(low), bound(if exact { low } else { low + self.tasks.len() as i128 }))
    }

    /// Most that task `index` and those of higher priority ask for within `t > 0` of its release, its own job once:
    /// `b_i + C_i + sum_{j<i} ceil((t + J_j)/T_j) C_j`.
    #[must_use]
    pub fn demand(&self, index: usize, t: i128) -> i128 {
        let own = &self.tasks[index];
        let mut sum = i128::from(own.wcet) + i128::from(own.blocking);
        for task in &self.tasks[..index] {
            sum += jobs(task, t) * i128::from(task.wcet);
        }
        sum
    }

    /// Scheduling points of task `index`: where demand steps (`m T_j - J_j`), and the end of its window. Ascending.
    ///
    /// # Errors
    /// When there are more than `limit`.
    pub fn points(&self, index: usize, limit: usize) -> Result<Vec<i128>, RtError> {
        let end = self.tasks[index].window();
        let mut points = vec![end];
        for task in &self.tasks[..index] {
            let (period, jitter) = (i128::from(task.period), i128::from(task.jitter));
            let first = (jitter + period) / period;
            let last = (end + jitter) / period;
            if last - first >= limit as i128 || points.len() > limit {
                return Err(RtError::TooMany {
                    what: "the scheduling points of a task",
                    limit: limit as u64,
                    cure: "periods lie too far apart",
                });
            }
            points.extend((first..=last).map(|m| m * period - jitter).filter(|t| *t > 0 && *t < end));
        }
        points.sort_unstable();
        points.dedup();
        Ok(points)
    }

    /// Whether the demand at all scheduling points can be looked at so often.
    ///
    /// # Errors
    /// When jobs of more than [`DEMAND_LIMIT`] tasks would have to be added up for it, which takes some seconds.
    pub fn within_reach(&self, times: u128) -> Result<(), RtError> {
        let mut tasks_seen = 0u128;
        for (index, own) in self.tasks.iter().enumerate() {
            let jobs = |task: &Task| jobs(task, own.window().max(1)).unsigned_abs();
            let points = 1 + self.tasks[..index].iter().map(jobs).sum::<u128>();
            tasks_seen =
                tasks_seen.saturating_add(points.saturating_mul(times.saturating_mul(index as u128)));
            if tasks_seen > DEMAND_LIMIT {
                return Err(RtError::TooMany {
                    what: "the demand at the scheduling points of all tasks",
                    limit: DEMAND_LIMIT as u64,
                    cure: "take fewer tasks, or periods that lie closer together",
                });
            }
        }
        Ok(())
    }

    /// Scheduling points with their demand, those left out that another beats (later and no more demand).
    ///
    /// # Errors
    /// As [`Self::points`].
    pub fn pairs(&self, index: usize, limit: usize) -> Result<Vec<(i128, i128)>, RtError> {
        let mut pairs: Vec<(i128, i128)> = Vec::new();
        for t in self.points(index, limit)? {
            let w = self.demand(index, t);
            if w > t {
                continue;
            }
            while pairs.last().is_some_and(|last| last.1 >= w) {
                pairs.pop();
            }
            pairs.push((t, w));
        }
        Ok(pairs)
    }
}

/// Tasks whose jobs are added up for one question, over all points at which it looks.
pub const DEMAND_LIMIT: u128 = 400_000_000;

/// Jobs of `task` released within `t > 0`, the first as late as its jitter allows: `ceil((t + J)/T)`.
#[must_use]
pub fn jobs(task: &Task, t: i128) -> i128 {
    let (period, jitter) = (i128::from(task.period), i128::from(task.jitter));
    (t + jitter + period - 1).div_euclid(period)
}
