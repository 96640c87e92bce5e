//! Series and counters of the world and of the machine under it.
//!
//! A series row is (instant, entity, metric, value); shares are over the time since the sample before.
//! `run_queue_delay` is the time that threads waited for a processor, in ns per second. Entities are `cpuN` and `cpu`,
//! `memory` (of the kernel under the leader), `NAMESPACE` (all its processes), `NAMESPACE@HOST` (of those the machine
//! of a guest that moves at that host), `NAMESPACE/INTERFACE` and the names of disks.

use crate::disk::Served;
use crate::kernel::links::{LinkState, links};
use crate::kernel::queueing::{Queueing, qdiscs};
use crate::machine::disks;
use crate::machine::memory::Memory;
use crate::machine::sharing::{Sharings, Used};
use crate::machine::usage::{self, Family};
use crate::machine::vcpus;
use crate::processes::child::Child;
use crate::request::Series;
use crate::world::namespaces::World;
use anyhow::bail;
use nix::unistd::Pid;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use virtlab_disk::Usage;
use virtlab_system::clock;
use virtlab_wire::Nanos;
use virtlab_wire::rows::{Record, SeriesRow};

/// Rows in one block, well below its largest size.
const BLOCK_ROWS: usize = 2000;
/// Bytes of blocks that are held; what comes after goes at once, as nothing may be lost.
const MOST_HELD_BYTES: usize = 64 << 20;
const TICK_NS: f64 = 1e7;

/// Sources that can be sampled.
const SOURCES: [&str; 10] = [
    "host.cpu",
    "guest.cpu",
    "guest.vcpus",
    "guest.disk",
    "host.disk",
    "memory",
    "disk",
    "softnet",
    "qdisc",
    "vnics",
];

struct Due {
    source: String,
    every: Nanos,
    next: Nanos,
}

/// Rows being gathered: instant, entity, metric, value.
type Rows = Vec<(Nanos, String, &'static str, f64)>;

/// Samples series when they are due.
#[derive(Default)]
pub struct Sampler {
    due: Vec<Due>,
    before: BTreeMap<String, (Nanos, Vec<f64>)>,
    disks_before: Vec<(String, Nanos, Usage)>,
    families: BTreeMap<String, Family>,
    sharings: Sharings,
    number: u64,
    hold: bool,
    /// What waits for the end of the series: rows of a block that is not full yet, and blocks.
    rows: Rows,
    held: Vec<Vec<u8>>,
    held_bytes: usize,
}

impl Sampler {
    /// Begins these series and ends all others. With `hold` their rows wait for `end`.
    ///
    /// # Errors
    /// When a source is unknown or its period is zero.
    pub fn begin(
        &mut self,
        sources: &[Series],
        hold: bool,
        sharings: Sharings,
        now: Nanos,
    ) -> anyhow::Result<()> {
        for series in sources {
            if !SOURCES.contains(&series.source.as_str()) {
                bail!("there is no series source '{}'; there are {}", series.source, SOURCES.join(", "));
            }
            if series.every_ns < 1_000_000 {
                bail!("series '{}' every {} ns: at least 1 ms", series.source, series.every_ns);
            }
        }
        self.before.clear();
        self.disks_before.clear();
        self.families.clear();
        self.sharings = sharings;
        self.number = 0;
        self.hold = hold;
        self.due = sources
            .iter()
            .map(|series| Due { source: series.source.clone(), every: Nanos(series.every_ns), next: now })
            .collect();
        Ok(())
    }

    /// Ends all series; what was held of them, as encoded blocks.
    pub fn end(&mut self) -> Vec<Vec<u8>> {
        self.due.clear();
        let rows = std::mem::take(&mut self.rows);
        self.held_bytes = 0;
        let last = rows.chunks(BLOCK_ROWS).filter_map(|rows| self.block(rows)).collect::<Vec<_>>();
        std::mem::take(&mut self.held).into_iter().chain(last).collect()
    }

    /// When the next sample is due.
    pub fn due(&self) -> Option<Nanos> {
        self.due.iter().map(|due| due.next).min()
    }

    /// Takes what is due and returns it as encoded blocks.
    pub fn take_due<'a>(
        &mut self,
        now: Nanos,
        world: &mut World,
        children: impl Iterator<Item = &'a Child>,
        served: &[Served],
    ) -> Vec<Vec<u8>> {
        if self.due().is_none_or(|due| due > now) {
            return Vec::new();
        }
        let children: Vec<&Child> = children.collect();
        let mut rows = Rows::new();
        for at in 0..self.due.len() {
            if self.due[at].next > now {
                continue;
            }
            let source = self.due[at].source.clone();
            match source.as_str() {
                "host.cpu" => self.host_cpu(&mut rows),
                "guest.cpu" => self.guest_cpu(&children, &mut rows),
                "guest.vcpus" => self.guest_vcpus(&children, &mut rows),
                "guest.disk" => {
                    self.disks(&source, guests_own(served).map(|one| (&one.name[..], one)), &mut rows);
                }
                "host.disk" => {
                    self.disks(&source, served.iter().map(|one| (&one.together[..], one)), &mut rows);
                }
                "memory" => self.memory(&mut rows),
                "disk" => self.disk(&mut rows),
                "softnet" => softnet(&mut rows),
                "qdisc" => drop(qdisc(world, &mut rows)),
                _ => drop(vnics(world, &mut rows)),
            }
            let due = &mut self.due[at];
            // A late sample does not shift the grid; missed ones are left out.
            let missed = now.since(due.next).0 / due.every.0;
            due.next += Nanos((missed + 1) * due.every.0);
        }
        self.keep(rows)
    }

    /// What of these rows goes at once, as encoded blocks; the rest waits for `end`.
    fn keep(&mut self, mut rows: Rows) -> Vec<Vec<u8>> {
        if !self.hold {
            return rows.chunks(BLOCK_ROWS).filter_map(|rows| self.block(rows)).collect();
        }
        self.rows.append(&mut rows);
        let whole = self.rows.len() / BLOCK_ROWS * BLOCK_ROWS;
        let full: Rows = self.rows.drain(..whole).collect();
        let blocks: Vec<Vec<u8>> = full.chunks(BLOCK_ROWS).filter_map(|rows| self.block(rows)).collect();
        if self.held_bytes >= MOST_HELD_BYTES {
            return blocks;
        }
        self.held_bytes += blocks.iter().map(Vec::len).sum::<usize>();
        self.held.extend(blocks);
        Vec::new()
    }

    fn block(&mut self, rows: &[(Nanos, String, &'static str, f64)]) -> Option<Vec<u8>> {
        let mut entities = Names::default();
        let mut metrics = Names::default();
        let coded = |(now, entity, metric, value): &(Nanos, String, &'static str, f64)| SeriesRow {
            t_ns: now.0 as i64,
            entity: entities.code(entity),
            metric: metrics.code(metric),
            value: *value,
        };
        let coded: Vec<SeriesRow> = rows.iter().map(coded).collect();
        let dictionary =
            BTreeMap::from([("entity".to_owned(), entities.names), ("metric".to_owned(), metrics.names)]);
        let number = self.number;
        self.number += 1;
        SeriesRow::block("series", number, coded.iter(), &dictionary).ok()
    }

    /// Change of each value since the sample before, and the time since then.
    fn change(&mut self, key: &str, now: Nanos, values: Vec<f64>) -> Option<(f64, Vec<f64>)> {
        let change = self.before.get(key).map(|(then, before)| {
            let values = values.iter().zip(before).map(|(value, before)| value - before).collect();
            (now.since(*then).0 as f64, values)
        });
        self.before.insert(key.to_owned(), (now, values));
        change.filter(|(elapsed, _)| *elapsed > 0.0)
    }

    fn host_cpu(&mut self, rows: &mut Rows) {
        let now = clock::raw();
        for (cpu, ticks) in processor_ticks() {
            let Some((_, change)) = self.change(&format!("host.{cpu}"), now, ticks) else { continue };
            let total: f64 = change.iter().take(8).sum();
            if total > 0.0 {
                // user nice system idle iowait irq softirq steal
                let idle = change[3] + change[4];
                rows.push((now, cpu.clone(), "cpu", (total - idle - change[7]) / total));
                rows.push((now, cpu.clone(), "softirq", change[6] / total));
                rows.push((now, cpu, "steal", change[7] / total));
            }
        }
        let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
        if let Some(switches) = context_switches(&stat)
            && let Some((elapsed, change)) = self.change("host.switches", now, vec![switches])
        {
            rows.push((now, "cpu".to_owned(), "context_switches", change[0].max(0.0) / elapsed * 1e9));
        }
        // Not every kernel keeps it.
        let waits = fs::read_to_string("/proc/schedstat").unwrap_or_default();
        for (cpu, waited_ns) in waits.lines().filter_map(waited) {
            if let Some((elapsed, change)) = self.change(&format!("host.waits.{cpu}"), now, vec![waited_ns]) {
                rows.push((now, cpu, "run_queue_delay", change[0].max(0.0) / elapsed * 1e9));
            }
        }
    }

    fn guest_cpu(&mut self, children: &[&Child], rows: &mut Rows) {
        let mut started: BTreeMap<String, Vec<Pid>> = BTreeMap::new();
        for child in children {
            let at = child.host.iter().map(|host| format!("{}@{host}", child.namespace));
            for entity in at.chain([child.namespace.clone()]) {
                started.entry(entity).or_default().push(child.pid);
            }
        }
        self.families.retain(|entity, _| started.contains_key(entity));
        let processors = online();
        let mut together: Vec<Used> = Vec::new();
        for (entity, pids) in started {
            let usage = self.families.entry(entity.clone()).or_default().look(&pids);
            let now = clock::raw();
            let mut row = |metric, value| rows.push((now, entity.clone(), metric, value));
            row("memory_used", usage.resident_bytes as f64);
            let scheduled = usage.scheduled.map(|value| value as f64).to_vec();
            let change = self.change(&format!("guest.{entity}"), now, scheduled);
            let used = change.as_ref().map(|(elapsed, change)| change[0].max(0.0) / elapsed);
            together.push((entity.clone(), used));
            if let Some((elapsed, change)) = change {
                let used = change[0].max(0.0) / elapsed;
                row("cpu", used);
                row("host_cpu_share", used / self.sharings.of_host(&entity, processors));
                // Of a virtual machine, only its virtual processors' threads are the guest's own: `guest_vcpus`.
                if !pids.iter().any(|pid| vcpus::is_machine(*pid)) {
                    row("cpu_share", used / usage.processors.unwrap_or(processors));
                }
                row("run_queue_delay", change[1].max(0.0) / elapsed * 1e9);
                row("context_switches", change[2].max(0.0) / elapsed * 1e9);
            }
            if let Some(held_ns) = usage.throttled_ns
                && let Some((elapsed, change)) =
                    self.change(&format!("throttled.{entity}"), now, vec![held_ns as f64])
            {
                row("throttled", change[0].max(0.0) / elapsed);
            }
            if let Some(bytes) = usage.disk
                && let Some((elapsed, change)) =
                    self.change(&format!("io.{entity}"), now, bytes.map(|bytes| bytes as f64).to_vec())
            {
                row("disk_read", change[0].max(0.0) / elapsed * 1e9);
                row("disk_written", change[1].max(0.0) / elapsed * 1e9);
            }
        }
        let now = clock::raw();
        rows.extend(
            self.sharings
                .rows(&together, processors)
                .into_iter()
                .map(|(entity, metric, value)| (now, entity, metric, value)),
        );
    }

    fn disk(&mut self, rows: &mut Rows) {
        let now = clock::raw();
        for (name, disk) in disks::now() {
            let values = [&disk.reads[..], &disk.writes[..], &[disk.busy_ns]].concat();
            let values = values.into_iter().map(|value| value as f64).collect();
            let Some((elapsed, change)) = self.change(&format!("disk.{name}"), now, values) else { continue };
            let mut row = |metric, value: f64| rows.push((now, name.clone(), metric, value.max(0.0)));
            let per_s = 1e9 / elapsed;
            for (each, [operations, bytes, time]) in [
                (&change[..3], ["disk_reads", "disk_read", "disk_read_time"]),
                (&change[3..6], ["disk_writes", "disk_written", "disk_write_time"]),
            ] {
                row(operations, each[0] * per_s);
                row(bytes, each[1] * per_s);
                // Without an operation there is no time of one.
                if each[0] > 0.0 {
                    row(time, each[2] / each[0]);
                }
            }
            row("disk_busy", change[6] / elapsed);
        }
    }

    /// Disks that are served, those of one entity together.
    fn disks<'a>(
        &mut self,
        source: &str,
        served: impl Iterator<Item = (&'a str, &'a Served)>,
        rows: &mut Rows,
    ) {
        let now = clock::raw();
        let mut together: Vec<(&str, usize, Nanos, Usage, Usage)> = Vec::new();
        for (entity, one) in served {
            // By disk, since one may be another host's than at the sample before.
            let (key, usage) = (format!("{source}{}", one.name), one.usage(now));
            let Some((_, then, before)) = self.disks_before.iter_mut().find(|(known, ..)| *known == key)
            else {
                self.disks_before.push((key, now, usage));
                continue;
            };
            let place = together.iter().position(|(known, ..)| *known == entity).unwrap_or_else(|| {
                together.push((entity, 0, *then, Usage::default(), Usage::default()));
                together.len() - 1
            });
            let (_, count, _, used, used_before) = &mut together[place];
            (*count, *used, *used_before) = (*count + 1, *used + usage, *used_before + *before);
            (*then, *before) = (now, usage);
        }
        for (entity, count, then, usage, before) in together {
            for (metric, value) in usage.rates(&before, now.since(then), count) {
                rows.push((now, entity.to_owned(), metric, value));
            }
        }
    }

    fn memory(&mut self, rows: &mut Rows) {
        let (now, found) = (clock::raw(), Memory::now());
        let mut row = |metric, value| rows.push((now, "memory".to_owned(), metric, value));
        if let Some(bytes) = found.available {
            row("memory_available", bytes as f64);
        }
        let since_boot =
            [("memory_pressure", found.some_stalled_ns, 1.0), ("major_faults", found.major_faults, 1e9)];
        for (metric, value, scale) in since_boot {
            let Some(value) = value else { continue };
            if let Some((elapsed, change)) = self.change(&format!("memory.{metric}"), now, vec![value as f64])
            {
                rows.push((now, "memory".to_owned(), metric, change[0].max(0.0) * scale / elapsed));
            }
        }
    }

    fn guest_vcpus(&mut self, children: &[&Child], rows: &mut Rows) {
        for Child { namespace, pid, .. } in children {
            let (mut used, mut machine) = (0.0, 0.0);
            for (thread, scheduled) in vcpus::of(*pid) {
                let (now, entity) = (clock::raw(), format!("{namespace}/{thread}"));
                let values = scheduled.map(|value| value as f64).to_vec();
                let Some((elapsed, change)) = self.change(&format!("thread.{entity}"), now, values) else {
                    continue;
                };
                if thread != vcpus::IO {
                    (used, machine) = (used + change[0].max(0.0) / elapsed, machine + 1.0);
                }
                rows.push((now, entity.clone(), "cpu", change[0].max(0.0) / elapsed));
                rows.push((now, entity.clone(), "run_queue_delay", change[1].max(0.0) / elapsed * 1e9));
                rows.push((now, entity, "context_switches", change[2].max(0.0) / elapsed * 1e9));
            }
            if machine > 0.0 {
                let may_use = usage::quota_alone(*pid).map_or(machine, |quota| quota.min(machine));
                rows.push((clock::raw(), namespace.clone(), "cpu_share", used / may_use));
            }
        }
    }

    /// Counters now, as rows of entity, counter, value.
    ///
    /// # Errors
    /// When a group is unknown or the kernel refuses a dump.
    pub fn counters(
        &self,
        world: &mut World,
        groups: &[String],
        children: &[(String, Pid)],
        served: &[Served],
    ) -> anyhow::Result<Vec<Value>> {
        let mut rows = Vec::new();
        for group in groups {
            match group.as_str() {
                "vnics" => {
                    for_interfaces(world, |entity, link| {
                        let traffic = link.traffic;
                        for (counter, value) in [
                            ("received_packets", traffic.received_packets),
                            ("received_bytes", traffic.received_bytes),
                            ("rx_dropped", traffic.received_drops + traffic.received_errors),
                            ("sent_packets", traffic.sent_packets),
                            ("sent_bytes", traffic.sent_bytes),
                            ("tx_dropped", traffic.sent_drops + traffic.sent_errors),
                        ] {
                            rows.push(json!([entity, counter, value]));
                        }
                    })?;
                }
                "qdiscs" | "qdisc" => {
                    for_qdiscs(world, |entity, found| {
                        for (counter, value) in [
                            ("qdisc_sent_packets", found.packets),
                            ("qdisc_sent_bytes", found.bytes),
                            ("drops", found.drops),
                            ("qdisc_backlog_packets", found.backlog_packets),
                        ] {
                            rows.push(json!([entity, counter, value]));
                        }
                    })?;
                }
                "softnet" => {
                    for (cpu, processed, dropped, squeezed) in softnet_counts() {
                        rows.push(json!([cpu, "softnet_processed", processed]));
                        rows.push(json!([cpu, "softnet_drops", dropped]));
                        rows.push(json!([cpu, "softnet_squeezed", squeezed]));
                    }
                }
                "memory" => {
                    rows.extend(
                        Memory::now().counters().map(|(counter, value)| json!(["memory", counter, value])),
                    );
                }
                "disks" => {
                    let now = clock::raw();
                    for one in guests_own(served) {
                        for (counter, value) in one.counters(now) {
                            rows.push(json!([one.name, counter, value]));
                        }
                    }
                }
                "guests" => {
                    for (namespace, pid) in children {
                        for (thread, [ran, waited, _]) in vcpus::of(*pid) {
                            rows.push(json!([format!("{namespace}/{thread}"), "cpu_ns", ran]));
                            rows.push(json!([format!("{namespace}/{thread}"), "run_queue_delay_ns", waited]));
                        }
                        if !vcpus::of(*pid).is_empty() {
                            for (counter, value) in vcpus::resources(*pid) {
                                rows.push(json!([namespace, counter, value]));
                            }
                        }
                    }
                }
                "host.cpu" | "cpu" => {
                    for (cpu, ticks) in processor_ticks() {
                        let names = ["user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal"];
                        for (name, value) in names.iter().zip(&ticks) {
                            rows.push(json!([cpu, format!("{name}_ns"), (value * TICK_NS) as i64]));
                        }
                    }
                }
                other => {
                    bail!(
                        "there is no counter group '{other}'; there are vnics, qdiscs, softnet, guests, disks, memory, host.cpu"
                    )
                }
            }
        }
        Ok(rows)
    }
}

#[derive(Default)]
struct Names {
    names: Vec<String>,
}

impl Names {
    fn code(&mut self, name: &str) -> i32 {
        let at = self.names.iter().position(|known| known == name).unwrap_or_else(|| {
            self.names.push(name.to_owned());
            self.names.len() - 1
        });
        at as i32
    }
}

fn processor_ticks() -> Vec<(String, Vec<f64>)> {
    let text = fs::read_to_string("/proc/stat").unwrap_or_default();
    text.lines()
        .take_while(|line| line.starts_with("cpu"))
        .filter_map(|line| {
            let mut words = line.split_whitespace();
            let name = words.next()?.to_owned();
            let ticks: Vec<f64> = words.filter_map(|word| word.parse().ok()).collect();
            (ticks.len() >= 8).then_some((name, ticks))
        })
        .collect()
}

/// Processors that are in use.
fn online() -> f64 {
    (processor_ticks().len().max(2) - 1) as f64
}

/// Context switches since boot, in /proc/stat.
fn context_switches(stat: &str) -> Option<f64> {
    stat.lines().find_map(|line| line.strip_prefix("ctxt ")?.trim().parse().ok())
}

/// A line `cpuN` of /proc/schedstat: the eighth number is the time that tasks waited for that processor, ns.
fn waited(line: &str) -> Option<(String, f64)> {
    let mut words = line.split_whitespace();
    let name = words.next().filter(|name| name.starts_with("cpu"))?;
    Some((name.to_owned(), words.nth(7)?.parse().ok()?))
}

fn softnet_counts() -> Vec<(String, u64, u64, u64)> {
    let text = fs::read_to_string("/proc/net/softnet_stat").unwrap_or_default();
    text.lines()
        .enumerate()
        .filter_map(|(cpu, line)| {
            let mut words = line.split_whitespace().map(|word| u64::from_str_radix(word, 16));
            Some((format!("cpu{cpu}"), words.next()?.ok()?, words.next()?.ok()?, words.next()?.ok()?))
        })
        .collect()
}

/// Disks that guests have: not those to which one is being copied.
fn guests_own(served: &[Served]) -> impl Iterator<Item = &Served> {
    served.iter().filter(|one| !one.is_copy())
}

fn softnet(rows: &mut Rows) {
    let now = clock::raw();
    for (cpu, processed, dropped, squeezed) in softnet_counts() {
        rows.push((now, cpu.clone(), "softnet_processed", processed as f64));
        rows.push((now, cpu.clone(), "softnet_dropped", dropped as f64));
        rows.push((now, cpu, "softnet_squeezed", squeezed as f64));
    }
}

fn for_interfaces(world: &mut World, mut each: impl FnMut(String, &LinkState)) -> anyhow::Result<()> {
    let names: Vec<String> = world.names().map(str::to_owned).collect();
    for namespace in names {
        for link in links(&mut world.namespace(&namespace)?.netlink)? {
            if link.name != "lo" {
                each(format!("{namespace}/{}", link.name), &link);
            }
        }
    }
    Ok(())
}

fn for_qdiscs(world: &mut World, mut each: impl FnMut(String, &Queueing)) -> anyhow::Result<()> {
    let names: Vec<String> = world.names().map(str::to_owned).collect();
    for namespace in names {
        let interfaces: BTreeMap<i32, String> = world
            .namespace(&namespace)?
            .links
            .iter()
            .map(|(name, link)| (link.index, name.clone()))
            .collect();
        for found in qdiscs(&mut world.namespace(&namespace)?.netlink)? {
            // The discipline at the root counts for all below it.
            if found.kind != "noqueue"
                && found.parent == u32::MAX
                && let Some(name) = interfaces.get(&found.index)
            {
                each(format!("{namespace}/{name}"), &found);
            }
        }
    }
    Ok(())
}

fn qdisc(world: &mut World, rows: &mut Rows) -> anyhow::Result<()> {
    let now = clock::raw();
    for_qdiscs(world, |entity, found| {
        rows.push((now, entity.clone(), "backlog_packets", found.backlog_packets as f64));
        rows.push((now, entity.clone(), "backlog", found.backlog_bytes as f64));
        rows.push((now, entity, "qdisc_drops", found.drops as f64));
    })
}

fn vnics(world: &mut World, rows: &mut Rows) -> anyhow::Result<()> {
    let now = clock::raw();
    for_interfaces(world, |entity, link| {
        rows.push((now, entity.clone(), "received_bytes", link.traffic.received_bytes as f64));
        rows.push((now, entity, "sent_bytes", link.traffic.sent_bytes as f64));
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(count: u64) -> Rows {
        (0..count).map(|at| (Nanos(at), "cpu".to_owned(), "steal", 0.5)).collect()
    }

    fn sampling(hold: bool) -> Sampler {
        let mut sampler = Sampler::default();
        sampler
            .begin(
                &[Series { source: "host.cpu".into(), every_ns: 1_000_000 }],
                hold,
                Sharings::default(),
                Nanos(0),
            )
            .unwrap();
        sampler
    }

    #[test]
    fn switches_and_waits_of_the_machine_are_read() {
        assert_eq!(context_switches("cpu 1 2\nctxt 42\n"), Some(42.0));
        assert_eq!(waited("cpu3 0 0 0 0 0 0 700 90 5"), Some(("cpu3".to_owned(), 90.0)));
        assert_eq!(["domain0 1", "cpu3 1 2", "version 17"].map(waited), [None, None, None]);
    }

    #[test]
    fn rows_that_are_not_held_go_at_once() {
        let mut sampler = sampling(false);
        assert_eq!(sampler.keep(rows(BLOCK_ROWS as u64 + 1)).len(), 2);
        assert!(sampler.end().is_empty());
    }

    #[test]
    fn rows_that_are_held_come_in_whole_blocks_when_the_series_end() {
        let mut sampler = sampling(true);
        for _ in 0..5 {
            assert!(sampler.keep(rows(BLOCK_ROWS as u64 / 2)).is_empty());
        }
        assert_eq!(sampler.end().len(), 3);
        assert_eq!(sampler.due(), None);
        assert!(sampler.end().is_empty(), "each once");
    }

    #[test]
    fn rows_beyond_what_may_be_held_go_at_once_and_none_is_lost() {
        let mut sampler = sampling(true);
        assert!(sampler.keep(rows(BLOCK_ROWS as u64)).is_empty());
        sampler.held_bytes = MOST_HELD_BYTES;
        assert_eq!(sampler.keep(rows(BLOCK_ROWS as u64 + 7)).len(), 1);
        assert_eq!(sampler.end().len(), 2, "the block that was held, and the seven rows");
        assert!(sampler.keep(rows(BLOCK_ROWS as u64)).is_empty(), "there is room again");
    }
}
