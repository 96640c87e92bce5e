//! What the disks of the machine under this leader did, as its kernel counts it: whole disks that were ever used.

use std::fs;
use std::path::Path;

const SECTOR_BYTES: u64 = 512; // of /proc/diskstats, whatever the disk has

/// Since boot; times in ns, queueing included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Disk {
    /// Reads that ended, their bytes and time.
    pub reads: [u64; 3],
    /// Writes that ended, their bytes and time.
    pub writes: [u64; 3],
    /// Time in which it had a request.
    pub busy_ns: u64,
}

/// Each whole disk by its name, without its partitions.
pub fn now() -> Vec<(String, Disk)> {
    let text = fs::read_to_string("/proc/diskstats").unwrap_or_default();
    let blocks = Path::new("/sys/block");
    text.lines()
        .filter_map(line)
        .filter(|(_, disk)| disk.reads[0] + disk.writes[0] > 0)
        .filter(|(name, _)| blocks.join(name.replace('/', "!")).exists())
        .collect()
}

fn line(line: &str) -> Option<(String, Disk)> {
    let mut words = line.split_whitespace().skip(2);
    let name = words.next()?.to_owned();
    let numbers: Vec<u64> = words.map_while(|word| word.parse().ok()).collect();
    let [reads, _, read, read_ms, writes, _, written, write_ms, _, busy_ms, ..] = numbers[..] else {
        return None;
    };
    let bytes = |sectors: u64| sectors.saturating_mul(SECTOR_BYTES);
    let ns = |ms: u64| ms.saturating_mul(1_000_000);
    let disk = Disk {
        reads: [reads, bytes(read), ns(read_ms)],
        writes: [writes, bytes(written), ns(write_ms)],
        busy_ns: ns(busy_ms),
    };
    Some((name, disk))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_line_is_operations_bytes_and_times() {
        let (name, disk) = line(" 254 0 vda 10 1 16 7 20 2 32 9 0 12 16 0 0 0 0 0 0").unwrap();
        assert_eq!(name, "vda");
        assert_eq!(disk.reads, [10, 16 * 512, 7_000_000]);
        assert_eq!(disk.writes, [20, 32 * 512, 9_000_000]);
        assert_eq!(disk.busy_ns, 12_000_000);
        assert_eq!(line("254 0 vda 1 2 3"), None);
    }

    proptest! {
        #[test]
        fn no_line_makes_it_panic(text in ".*") {
            let _ = line(&text);
        }
    }
}
