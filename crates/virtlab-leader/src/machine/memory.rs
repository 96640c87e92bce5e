//! How much memory the kernel under this leader has left, and what it costs to get more.
//!
//! `MemAvailable` is the kernel's own estimate of what can be had without swapping. Pressure (PSI) is time in which
//! tasks waited for memory: `some` of them, or all that could run (`full`). A kernel without PSI tells no pressure,
//! which is not the same as none. Major faults had to read their page from a disk or unpack it.

use std::fs;

/// What is read at once: instants apart, values are compared; `None` is not told by this kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// Bytes.
    pub total: Option<u64>,
    /// Bytes that can be had without swapping.
    pub available: Option<u64>,
    /// Time since boot in which some task waited for memory, ns.
    pub some_stalled_ns: Option<u64>,
    /// Time since boot in which no task could run for want of memory, ns.
    pub all_stalled_ns: Option<u64>,
    /// Since boot.
    pub major_faults: Option<u64>,
    /// Pages that tasks had to free themselves before they got one, since boot.
    pub reclaimed_pages: Option<u64>,
}

impl Memory {
    /// Now.
    pub fn now() -> Self {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        Self::parse(&read("/proc/meminfo"), &read("/proc/vmstat"), &read("/proc/pressure/memory"))
    }

    fn parse(meminfo: &str, vmstat: &str, pressure: &str) -> Self {
        let kib = |key: &str| value(meminfo, key).map(|kib| kib * 1024);
        let direct = value(vmstat, "pgsteal_direct ");
        Self {
            total: kib("MemTotal:"),
            available: kib("MemAvailable:"),
            some_stalled_ns: stalled_ns(pressure, "some "),
            all_stalled_ns: stalled_ns(pressure, "full "),
            major_faults: value(vmstat, "pgmajfault "),
            reclaimed_pages: direct,
        }
    }

    /// As counters.
    pub fn counters(&self) -> impl Iterator<Item = (&'static str, u64)> {
        [
            ("memory_total_bytes", self.total),
            ("memory_available_bytes", self.available),
            ("memory_stalled_ns", self.some_stalled_ns),
            ("memory_all_stalled_ns", self.all_stalled_ns),
            ("major_faults", self.major_faults),
            ("reclaimed_pages", self.reclaimed_pages),
        ]
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)))
    }
}

fn value(text: &str, key: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(key)?.split_whitespace().next()?.parse().ok())
}

/// `some avg10=0.00 avg60=0.00 avg300=0.00 total=12` is in microseconds.
fn stalled_ns(pressure: &str, kind: &str) -> Option<u64> {
    let line = pressure.lines().find(|line| line.starts_with(kind))?;
    line.split_once("total=")?.1.trim().parse::<u64>().ok().map(|us| us * 1000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MEMINFO: &str =
        "MemTotal:       69480 kB\nMemFree:        2120 kB\nMemAvailable:   9040 kB\nBuffers: 0 kB\n";
    const VMSTAT: &str =
        "pgfault 90\npgmajfault 7\npgsteal_kswapd 4\npgsteal_direct 30\npgsteal_direct_throttle 2\n";
    const PRESSURE: &str = "some avg10=1.50 avg60=0.00 avg300=0.00 total=2500\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=900\n";

    #[test]
    fn memory_is_read_in_bytes_and_pressure_in_nanoseconds() {
        let found = Memory::parse(MEMINFO, VMSTAT, PRESSURE);
        assert_eq!((found.total, found.available), (Some(69_480 * 1024), Some(9_040 * 1024)));
        assert_eq!((found.some_stalled_ns, found.all_stalled_ns), (Some(2_500_000), Some(900_000)));
        assert_eq!((found.major_faults, found.reclaimed_pages), (Some(7), Some(30)));
    }

    #[test]
    fn what_a_kernel_does_not_tell_is_absent_and_not_zero() {
        let found = Memory::parse(MEMINFO, VMSTAT, "");
        assert!(!found.counters().any(|(name, _)| name.starts_with("memory_stalled")));
        assert_eq!(Memory::parse("", "", ""), Memory::default());
    }

    #[test]
    fn this_kernel_has_memory() {
        assert!(Memory::now().available.is_some_and(|bytes| bytes > 0));
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in ".*") {
            let _ = Memory::parse(&text, &text, &text);
        }
    }
}
