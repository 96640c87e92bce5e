//! Studies over many random task sets, in parallel over sets; results do not depend on the number of threads.

use crate::batch;
use crate::error::RtError;
use crate::generate::{Draw, Family};
use crate::largest::{Workspace, largest_period};
use crate::parallel;
use crate::period::{self, Question};
use crate::rational::Rational;
use crate::supply::{Server, Supply};
use crate::task::{Task, TaskSet};

/// Largest exact period over the shortest task period, per utilisation, share and set (that order); 0 where no period
/// is enough. X = 0.
///
/// # Errors
/// On overflow.
pub fn largest_ratios(
    family: &Family,
    utilisations: &[f64],
    shares: &[Rational],
    sets: usize,
    seed: u64,
    threads: usize,
) -> Result<Vec<f64>, RtError> {
    let cells = utilisations.len() * shares.len();
    let one = |number: usize, room: &mut (Draw, Vec<i64>, Workspace)| -> Result<Vec<f64>, RtError> {
        let (draw, wcets, workspace) = room;
        draw.fill(family, seed, number as u64);
        let shortest = draw.period[0] as f64;
        let mut out = Vec::with_capacity(cells);
        for utilisation in utilisations {
            draw.wcets(*utilisation, wcets);
            for share in shares {
                let found = largest_period(&draw.period, wcets, *share, workspace)?;
                out.push(found.map_or(0.0, |period| period.to_f64() / shortest));
            }
        }
        Ok(out)
    };
    let rows: Vec<Vec<f64>> = parallel::each(threads, 0..sets, one)?;
    let mut out = vec![0.0; cells * sets];
    for (number, row) in rows.iter().enumerate() {
        for (cell, value) in row.iter().enumerate() {
            out[cell * sets + number] = *value;
        }
    }
    Ok(out)
}

/// Greatest R/T of each set at each VM period (ticks; order: period, set), infinite beyond `cap`. Fixed share, overhead
/// X.
///
/// # Errors
/// On overflow.
#[allow(clippy::too_many_arguments)]
pub fn response_curve(
    family: &Family,
    utilisation: f64,
    share: Rational,
    overhead: i64,
    periods: &[i64],
    sets: usize,
    seed: u64,
    cap: f64,
    threads: usize,
) -> Result<Vec<f64>, RtError> {
    let n = family.tasks;
    let (mut period, mut wcet) = (Vec::with_capacity(n * sets), Vec::with_capacity(n * sets));
    let (mut draw, mut one) = (Draw::default(), Vec::new());
    for number in 0..sets {
        draw.fill(family, seed, number as u64);
        draw.wcets(utilisation, &mut one);
        period.extend_from_slice(&draw.period);
        wcet.extend_from_slice(&one);
    }
    let curve = |vm: &i64, (): &mut ()| -> Result<Vec<f64>, RtError> {
        let budget = Rational::whole(i128::from(*vm)).times(share)?;
        // A budget of whole ticks, rounded down: never more than the share.
        let Ok(supply) = Supply::new(i128::from(*vm), budget.floor(), i128::from(overhead), Server::Periodic)
        else {
            return Ok(vec![f64::INFINITY; sets]);
        };
        let mut out = vec![0i64; period.len()];
        let given = batch::Sets { tasks: n, period: &period, wcet: &wcet, deadline: None };
        batch::response_times(given, &supply, Server::Periodic, cap, 1, &mut out)?;
        Ok(out
            .chunks(n)
            .zip(period.chunks(n))
            .map(|(row, periods)| {
                row.iter()
                    .zip(periods)
                    .map(|(r, t)| if *r == batch::BEYOND { f64::INFINITY } else { *r as f64 / *t as f64 })
                    .fold(0.0, f64::max)
            })
            .collect())
    };
    Ok(parallel::each(threads, periods.iter(), curve)?.concat())
}

/// One set's exact periods (intervals in ticks, ascending), its shortest period and that task's execution time.
#[derive(Clone, Debug)]
pub struct ExactPeriods {
    /// T_1, ticks.
    pub first_period: i64,
    /// C_1, ticks.
    pub first_wcet: i64,
    /// Intervals (low, high).
    pub intervals: Vec<(f64, f64)>,
}

/// The exact set of periods of each task set at a share with an overhead.
///
/// # Errors
/// Too many pieces, or overflow.
pub fn exact_periods(
    family: &Family,
    utilisation: f64,
    share: Rational,
    overhead: i64,
    sets: usize,
    seed: u64,
    threads: usize,
) -> Result<Vec<ExactPeriods>, RtError> {
    let one = |number: usize, (): &mut ()| -> Result<ExactPeriods, RtError> {
        let (mut draw, mut wcets) = (Draw::default(), Vec::new());
        draw.fill(family, seed, number as u64);
        draw.wcets(utilisation, &mut wcets);
        let set =
            TaskSet::new(draw.period.iter().zip(&wcets).map(|(t, c)| Task::implicit(*t, *c)).collect())?;
        let question = Question { share, overhead: i128::from(overhead), server: Server::Periodic };
        let found = period::fixed_priority(&set, &question)?;
        let intervals = found.parts().iter().map(|part| (part.low.to_f64(), part.high.to_f64())).collect();
        Ok(ExactPeriods { first_period: draw.period[0], first_wcet: wcets[0], intervals })
    };
    parallel::each(threads, 0..sets, one)
}
