//! Where the guest's kernel keeps its numbers.

use super::qdisc;
use std::fs;

/// Sources of series, and groups of counters.
pub const NAMES: [&str; 6] = ["cpu", "softnet", "vnics", "qdisc", "probe", "cgroup"];

/// A tick of /proc/stat: USER_HZ is 100 on every Linux.
pub const TICK_NS: i64 = 10_000_000;

/// Entity, counter, value.
pub type Reading = (String, &'static str, i64);

const TICKS: [&str; 8] =
    ["user_ns", "nice_ns", "system_ns", "idle_ns", "iowait_ns", "irq_ns", "softirq_ns", "steal_ns"];

/// CPU time since boot, by use, of each CPU and all together.
pub fn cpu_counters() -> Vec<Reading> {
    let text = fs::read_to_string("/proc/stat").unwrap_or_default();
    text.lines().take_while(|line| line.starts_with("cpu")).flat_map(cpu_line).collect()
}

fn cpu_line(line: &str) -> Vec<Reading> {
    let mut words = line.split_whitespace();
    let name = words.next().unwrap_or_default().to_owned();
    let ticks = words.filter_map(|word| word.parse::<i64>().ok());
    TICKS.iter().zip(ticks).map(|(counter, ticks)| (name.clone(), *counter, ticks * TICK_NS)).collect()
}

/// What the receive path processed, dropped, and left for later, by CPU.
pub fn softnet_counters() -> Vec<Reading> {
    let text = fs::read_to_string("/proc/net/softnet_stat").unwrap_or_default();
    let names = ["softnet_processed", "softnet_drops", "softnet_squeezed"];
    text.lines()
        .enumerate()
        .flat_map(|(cpu, line)| {
            let values = line.split_whitespace().filter_map(|word| i64::from_str_radix(word, 16).ok());
            names
                .iter()
                .zip(values)
                .map(move |(name, value)| (format!("cpu{cpu}"), *name, value))
                .collect::<Vec<_>>()
        })
        .collect()
}

/// Packets and bytes of each interface but loopback.
pub fn interface_counters() -> Vec<Reading> {
    // /proc/net is that of the thread group's first thread; this thread's own is the right one in every case.
    let text = fs::read_to_string("/proc/thread-self/net/dev").unwrap_or_default();
    text.lines().flat_map(interface_line).collect()
}

fn interface_line(line: &str) -> Vec<Reading> {
    const PLACES: [(&str, usize); 6] = [
        ("received_bytes", 0),
        ("received_packets", 1),
        ("rx_dropped", 3),
        ("sent_bytes", 8),
        ("sent_packets", 9),
        ("tx_dropped", 11),
    ];
    let Some((name, numbers)) = line.split_once(':').map(|(name, rest)| (name.trim(), rest)) else {
        return Vec::new();
    };
    let numbers: Vec<i64> = numbers.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    if name == "lo" || numbers.len() < 12 {
        return Vec::new();
    }
    PLACES.iter().map(|(counter, place)| (name.to_owned(), *counter, numbers[*place])).collect()
}

/// Queue disciplines at the root of each interface.
///
/// # Errors
/// When the kernel refuses the dump.
pub fn qdisc_counters() -> anyhow::Result<Vec<Reading>> {
    let mut rows = Vec::new();
    for root in qdisc::roots()?.into_iter().filter(|root| root.kind != "noqueue") {
        let Ok(name) = nix::net::if_::if_indextoname(root.interface as u32) else { continue };
        let name = name.to_string_lossy().into_owned();
        let values = [
            ("qdisc_sent_packets", root.packets),
            ("qdisc_sent_bytes", root.bytes),
            ("drops", root.drops),
            ("qdisc_backlog_packets", root.backlog_packets),
            ("qdisc_backlog_bytes", root.backlog_bytes),
        ];
        rows.extend(values.map(|(counter, value)| (name.clone(), counter, value as i64)));
    }
    Ok(rows)
}

/// Time that this process's threads ran, and waited in a run queue.
pub fn probe_counters() -> Vec<Reading> {
    let threads = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let (run, wait) = threads
        .filter_map(|thread| fs::read_to_string(thread.path().join("schedstat")).ok())
        .filter_map(|text| {
            let mut words = text.split_whitespace().map(str::parse::<i64>);
            Some((words.next()?.ok()?, words.next()?.ok()?))
        })
        .fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    vec![("probe".to_owned(), "cpu_ns", run), ("probe".to_owned(), "run_queue_delay_ns", wait)]
}

/// CPU time of the control group that this process is in, and how long its quota held it back. Nothing where the guest
/// sees no control groups.
pub fn cgroup_counters() -> Vec<Reading> {
    let text = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    text.lines().flat_map(cgroup_line).collect()
}

fn cgroup_line(line: &str) -> Vec<Reading> {
    let mut parts = line.splitn(3, ':');
    let (Some(_), Some(controllers), Some(path)) = (parts.next(), parts.next(), parts.next()) else {
        return Vec::new();
    };
    let read = |root: &str, file: &str| fs::read_to_string(format!("/sys/fs/cgroup{root}{path}/{file}")).ok();
    let row = |counter, value| ("cgroup".to_owned(), counter, value);
    let mut rows = Vec::new();
    if controllers.is_empty()
        && let Some(text) = read("", "cpu.stat").or_else(|| read("/unified", "cpu.stat"))
    {
        rows.extend(keyed(&text, "usage_usec").map(|us| row("cpu_ns", us * 1000)));
        rows.extend(keyed(&text, "throttled_usec").map(|us| row("throttled_ns", us * 1000)));
    }
    for controller in controllers.split(',') {
        match controller {
            "cpuacct" => rows.extend(
                read("/cpuacct", "cpuacct.usage")
                    .and_then(|text| text.trim().parse().ok())
                    .map(|ns| row("cpu_ns", ns)),
            ),
            "cpu" => rows.extend(
                read("/cpu", "cpu.stat")
                    .and_then(|text| keyed(&text, "throttled_time"))
                    .map(|ns| row("throttled_ns", ns)),
            ),
            _ => {}
        }
    }
    rows
}

fn keyed(text: &str, key: &str) -> Option<i64> {
    text.lines().find_map(|line| line.strip_prefix(key)?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_line_of_proc_stat_is_time_by_use() {
        let rows = cpu_line("cpu1 1 2 3 4 5 6 7 8 9 10");
        assert_eq!(rows.len(), 8);
        assert_eq!(rows[7], ("cpu1".to_owned(), "steal_ns", 8 * TICK_NS));
    }

    #[test]
    fn a_line_of_proc_net_dev_is_six_counters_and_loopback_none() {
        let rows = interface_line("  eth0: 100 2 0 3 0 0 0 0 200 4 0 5 0 0 0 0");
        assert_eq!(rows[2], ("eth0".to_owned(), "rx_dropped", 3));
        assert_eq!(rows[5], ("eth0".to_owned(), "tx_dropped", 5));
        assert!(interface_line("lo: 100 2 0 3 0 0 0 0 200 4 0 5 0 0 0 0").is_empty());
    }

    #[test]
    fn the_probe_has_run_for_some_time() {
        assert!(probe_counters()[0].2 > 0);
    }

    proptest! {
        #[test]
        fn no_line_makes_it_panic(line in ".*") {
            let _ = (cpu_line(&line), interface_line(&line));
        }
    }
}
