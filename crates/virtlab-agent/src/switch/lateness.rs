//! How far behind the computed departures real ones were.

use hdrhistogram::Histogram;
use serde_json::{Value, json};

/// Later than this is late: the share of such frames taints a run.
pub const LATE_NS: u64 = 200_000;

/// A distribution of delays, two significant digits, up to a minute.
pub struct Delays {
    histogram: Histogram<u64>,
    late: u64,
    sum_ns: u128,
}

impl Delays {
    /// Nothing yet.
    #[must_use]
    pub fn new() -> Self {
        let histogram = Histogram::new_with_bounds(1, 60_000_000_000, 2).expect("these bounds are valid");
        Self { histogram, late: 0, sum_ns: 0 }
    }

    /// Notes one.
    pub fn note(&mut self, delay_ns: u64) {
        self.histogram.saturating_record(delay_ns);
        self.late += u64::from(delay_ns > LATE_NS);
        self.sum_ns += u128::from(delay_ns);
    }

    /// Takes in another's.
    pub fn add(&mut self, other: &Self) {
        self.histogram.add(&other.histogram).expect("all have the same bounds");
        self.late += other.late;
        self.sum_ns += other.sum_ns;
    }

    /// Forgets all.
    pub fn reset(&mut self) {
        self.histogram.reset();
        self.late = 0;
        self.sum_ns = 0;
    }

    /// As it is reported; without any frame its values are absent.
    #[must_use]
    pub fn report(&self) -> Value {
        let count = self.histogram.len();
        if count == 0 {
            return json!({"count": 0, "over_200_us": 0});
        }
        json!({
            "count": count,
            "p50_ns": self.histogram.value_at_quantile(0.5),
            "p99_ns": self.histogram.value_at_quantile(0.99),
            "max_ns": self.histogram.max(),
            "mean_ns": (self.sum_ns / u128::from(count)) as u64,
            "over_200_us": self.late,
            "late_share": self.late as f64 / count as f64,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_late_share_counts_frames_beyond_200_us() {
        let mut delays = Delays::new();
        for delay_ns in [100, 300, 200_000, 200_001] {
            delays.note(delay_ns);
        }
        let report = delays.report();
        assert_eq!(report["late_share"], 0.25);
        assert_eq!(report["mean_ns"], 100_100);
        delays.reset();
        assert_eq!(delays.report(), json!({"count": 0, "over_200_us": 0}));
    }
}
