//! Series: readings taken on a grid by a thread of their own, kept until they are requested.

use super::source::{self, Reading};
use crate::probe::pacing::{Pacer, Pacing};
use anyhow::{Context, bail};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use virtlab_system::clock;
use virtlab_wire::Nanos;
use virtlab_wire::rows::{Record, SeriesRow};

/// Rows in one block, well below its largest size.
const BLOCK_ROWS: usize = 4000;
/// Rows kept at most; what comes after is counted.
const MOST_ROWS: usize = 1 << 20;

/// A series to be sampled.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wanted {
    source: String,
    every_ns: u64,
}

/// Series being sampled.
#[derive(Debug)]
pub struct Sampling {
    over: Arc<AtomicBool>,
    thread: JoinHandle<Rows>,
}

/// Names as codes, rows as numbers.
#[derive(Debug, Default)]
pub struct Rows {
    names: [Vec<String>; 2],
    rows: Vec<SeriesRow>,
    /// Rows that found no room.
    pub overflowed: u64,
}

impl Sampling {
    /// Begins to sample.
    ///
    /// # Errors
    /// When a source is unknown, a period too short, or no thread can be started.
    pub fn begin(wanted: Vec<Wanted>) -> anyhow::Result<Self> {
        for series in &wanted {
            let name = bare(&series.source);
            if !source::NAMES.contains(&name) {
                bail!(
                    "there is no series source '{}'; there are {}",
                    series.source,
                    source::NAMES.join(", ")
                );
            }
            if series.every_ns < 1_000_000 {
                bail!("series '{}' every {} ns: at least 1 ms", series.source, series.every_ns);
            }
        }
        let over = Arc::new(AtomicBool::new(false));
        let flag = over.clone();
        let thread = std::thread::Builder::new()
            .name("series".to_owned())
            .spawn(move || sample(&wanted, &flag))
            .context("cannot start a thread")?;
        Ok(Self { over, thread })
    }

    /// Ends them; all rows.
    ///
    /// # Errors
    /// When the sampling thread broke.
    pub fn end(self) -> anyhow::Result<Rows> {
        self.over.store(true, Ordering::Relaxed);
        self.thread.join().map_err(|_| anyhow::anyhow!("the sampling thread panicked"))
    }
}

fn bare(source: &str) -> &str {
    source.strip_prefix("host.").unwrap_or(source)
}

fn sample(wanted: &[Wanted], over: &AtomicBool) -> Rows {
    let pacer = Pacer::new(Pacing::Sleep);
    let mut rows = Rows::default();
    let mut before = BTreeMap::new();
    let start = clock::raw();
    let mut next: Vec<Nanos> = vec![start; wanted.len()];
    while let Some((place, due)) = next.iter().copied().enumerate().min_by_key(|(_, due)| *due) {
        if !pacer.wait_until(due, over) {
            break;
        }
        rows.read(bare(&wanted[place].source), &mut before);
        // A late sample does not shift the grid; missed ones are left out.
        let missed = clock::raw().since(due).0 / wanted[place].every_ns;
        next[place] = due + Nanos((missed + 1) * wanted[place].every_ns);
    }
    rows
}

/// A source's counters as read the time before.
type Before = BTreeMap<(String, &'static str), (i64, i64)>;

impl Rows {
    fn read(&mut self, source: &str, before: &mut Before) {
        let now = clock::raw().0 as i64;
        match source {
            "cpu" => self.cpu(now, &source::cpu_counters(), before),
            "softnet" => self.as_they_are(now, &source::softnet_counters()),
            "vnics" => self.as_they_are(now, &source::interface_counters()),
            "qdisc" => self.as_they_are(now, &source::qdisc_counters().unwrap_or_default()),
            "probe" => self.shares(now, &source::probe_counters(), before),
            _ => self.shares(now, &source::cgroup_counters(), before),
        }
    }

    fn push(&mut self, now: i64, entity: &str, metric: &str, value: f64) {
        if self.rows.len() == MOST_ROWS {
            self.overflowed += 1;
            return;
        }
        let codes = [entity, metric].map(str::to_owned);
        let mut code = [0; 2];
        for ((code, names), name) in code.iter_mut().zip(&mut self.names).zip(codes) {
            let place = names.iter().position(|known| *known == name).unwrap_or_else(|| {
                names.push(name);
                names.len() - 1
            });
            *code = place as i32;
        }
        self.rows.push(SeriesRow { t_ns: now, entity: code[0], metric: code[1], value });
    }

    fn as_they_are(&mut self, now: i64, readings: &[Reading]) {
        for (entity, counter, value) in readings {
            let metric = match *counter {
                "drops" => "qdisc_drops",
                "softnet_drops" => "softnet_dropped",
                "qdisc_backlog_packets" => "backlog_packets",
                "qdisc_backlog_bytes" => "backlog",
                other => other,
            };
            self.push(now, entity, metric, *value as f64);
        }
    }

    /// Time used per time passed, since the reading before.
    fn shares(&mut self, now: i64, readings: &[Reading], before: &mut Before) {
        for (entity, counter, value) in readings {
            let Some((then, old)) = before.insert((entity.clone(), counter), (now, *value)) else { continue };
            let share = (value - old).max(0) as f64 / (now - then).max(1) as f64;
            match *counter {
                "cpu_ns" => self.push(now, entity, "cpu", share),
                "run_queue_delay_ns" => self.push(now, entity, "run_queue_delay", share * 1e9),
                _ => self.push(now, entity, "throttled", share),
            }
        }
    }

    /// Shares of each CPU's time: busy, in soft interrupts, stolen.
    fn cpu(&mut self, now: i64, readings: &[Reading], before: &mut Before) {
        for cpu in readings.chunk_by(|a, b| a.0 == b.0) {
            let change: Vec<f64> = cpu
                .iter()
                .filter_map(|(entity, counter, value)| {
                    let old = before.insert((entity.clone(), counter), (now, *value))?.1;
                    Some((value - old).max(0) as f64)
                })
                .collect();
            let total: f64 = change.iter().sum();
            // user nice system idle iowait irq softirq steal
            if let [.., idle, waiting, _, softirq, steal] = change[..]
                && total > 0.0
            {
                self.push(now, &cpu[0].0, "cpu", (total - idle - waiting - steal) / total);
                self.push(now, &cpu[0].0, "softirq", softirq / total);
                self.push(now, &cpu[0].0, "steal", steal / total);
            }
        }
    }

    /// Rows kept.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Hands over the rows as blocks of stream `series`.
    ///
    /// # Errors
    /// Whatever `send` gives.
    pub fn blocks(&self, send: &mut dyn FnMut(&[u8]) -> anyhow::Result<()>) -> anyhow::Result<()> {
        let [entity, metric] = self.names.clone();
        let dictionary = BTreeMap::from([("entity".to_owned(), entity), ("metric".to_owned(), metric)]);
        for (number, rows) in self.rows.chunks(BLOCK_ROWS).enumerate() {
            send(&SeriesRow::block("series", number as u64, rows.iter(), &dictionary)?)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cpu(values: [i64; 8]) -> Vec<Reading> {
        let names =
            ["user_ns", "nice_ns", "system_ns", "idle_ns", "iowait_ns", "irq_ns", "softirq_ns", "steal_ns"];
        names.iter().zip(values).map(|(name, value)| ("cpu0".to_owned(), *name, value)).collect()
    }

    #[test]
    fn shares_of_a_cpu_are_over_the_time_between_two_readings() {
        let (mut rows, mut before) = (Rows::default(), Before::new());
        rows.cpu(0, &cpu([0; 8]), &mut before);
        assert_eq!(rows.len(), 0);
        rows.cpu(100, &cpu([30, 0, 10, 40, 0, 0, 10, 10]), &mut before);
        let values: Vec<f64> = rows.rows.iter().map(|row| row.value).collect();
        assert_eq!((values, rows.names[1].join(" ")), (vec![0.5, 0.1, 0.1], "cpu softirq steal".to_owned()));
    }

    #[test]
    fn an_unknown_source_is_refused_with_those_there_are() {
        let wanted = Wanted { source: "weather".to_owned(), every_ns: 1_000_000_000 };
        assert!(Sampling::begin(vec![wanted]).unwrap_err().to_string().contains("there are cpu, softnet"));
    }
}
