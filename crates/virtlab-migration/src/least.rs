//! What would be enough: the smallest bandwidth, downtime limit or throttle with which every guest arrives.

use crate::course::{Course, End};
use crate::question::Question;
use serde::Serialize;

const MOST_BYTE_PER_S: u64 = 10_000_000_000_000;
const MOST_LIMIT_NS: u64 = 3_600_000_000_000;
/// QEMU's own largest (`max-cpu-throttle`).
const MOST_THROTTLE_PERCENT: u64 = 99;

/// The smallest of each with everything else unchanged; none where even the largest is not enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Least {
    /// R, in whole byte/s.
    pub bandwidth_byte_per_s: Option<u64>,
    /// L, in whole ns.
    pub downtime_limit_ns: Option<u64>,
    /// By how much the guest's processors are slowed, and its dirtying with them, in whole percent.
    pub throttle_percent: Option<u64>,
}

/// Which are enough for all guests to arrive by their rule, within a time of the first request where one is given.
///
/// By halving: what is enough stays so when it grows. With QEMU's rule this holds but for its windows.
///
/// # Errors
/// What of the question makes no sense.
pub fn least(question: &Question, within_s: Option<f64>) -> Result<Least, String> {
    question.check()?;
    let enough = |changed: &Question| crate::courses(changed).is_ok_and(|found| arrived(&found, within_s));
    let bandwidth = |value: u64| enough(&Question { bandwidth_byte_per_s: value as f64, ..question.clone() });
    let limit = |value: u64| {
        let mut changed = question.clone();
        changed.policy.downtime_limit_s = value as f64 / 1e9;
        enough(&changed)
    };
    let throttle = |value: u64| {
        let mut changed = question.clone();
        for guest in &mut changed.guests {
            guest.dirty_byte_per_s *= 1.0 - value as f64 / 100.0;
        }
        enough(&changed)
    };
    Ok(Least {
        bandwidth_byte_per_s: smallest(1, MOST_BYTE_PER_S, bandwidth),
        downtime_limit_ns: smallest(0, MOST_LIMIT_NS, limit),
        throttle_percent: smallest(0, MOST_THROTTLE_PERCENT, throttle),
    })
}

fn arrived(courses: &[Course], within_s: Option<f64>) -> bool {
    courses.iter().all(|course| {
        course.end == End::Converged
            && within_s.is_none_or(|limit_s| course.begin_s + course.total_s <= limit_s)
    })
}

fn smallest(mut low: u64, mut high: u64, enough: impl Fn(u64) -> bool) -> Option<u64> {
    if !enough(high) {
        return None;
    }
    while low < high {
        let middle = low + (high - low) / 2;
        if enough(middle) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    Some(low)
}
