//! What the processes of a guest used: processors, disks, memory, and what they may use.
//!
//! A process belongs to a guest when the leader started it there, or when one that does had started it: what a
//! container runs is started by its runtime. The kernel forgets a thread's time as it ends, so each thread is
//! remembered with its own and sums only rise. A thread that begins and ends between two looks is not seen.

use nix::sched::sched_getaffinity;
use nix::unistd::Pid;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Where control groups are mounted.
const GROUPS: &str = "/sys/fs/cgroup";

/// A thread's time on a processor and in a run queue in ns, and how often it was put on one.
pub type Scheduled = [u64; 3];

/// What was used since the first look; what the kernel does not tell is absent.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Usage {
    /// Of all threads.
    pub scheduled: Scheduled,
    /// Bytes read from and written to disks.
    pub disk: Option<[u64; 2]>,
    /// Bytes of memory that the processes have resident; pages that several share count for each.
    pub resident_bytes: u64,
    /// Time for which a quota of a control group held them back, ns.
    pub throttled_ns: Option<u64>,
    /// Processors that they may use, quotas included.
    pub processors: Option<f64>,
}

/// The processes of one guest.
#[derive(Debug, Default)]
pub struct Family {
    threads: BTreeMap<i32, Scheduled>,
    sum: Scheduled,
}

impl Family {
    /// What these processes, and all that they started, have used by now.
    pub fn look(&mut self, first: &[Pid]) -> Usage {
        let mut usage = Usage { processors: first.first().and_then(|pid| allowed(*pid)), ..Usage::default() };
        let mut seen = BTreeMap::new();
        let mut groups = Vec::new();
        each_process(first, &mut |pid, threads| {
            for thread in threads {
                if let Some(times) = times(&thread.read("schedstat")) {
                    seen.insert(thread.number, times);
                }
            }
            usage.resident_bytes += resident_bytes(pid);
            if let Some(bytes) = disk_bytes(pid) {
                let sum = usage.disk.get_or_insert_default();
                *sum = [sum[0] + bytes[0], sum[1] + bytes[1]];
            }
            groups.extend(own_group(pid).filter(|group| !groups.contains(group)));
        });
        for (number, now) in &seen {
            let before = self.threads.get(number).filter(|before| before[0] <= now[0]).unwrap_or(&[0; 3]);
            for ((sum, now), before) in self.sum.iter_mut().zip(now).zip(before) {
                *sum += now.saturating_sub(*before);
            }
        }
        self.threads = seen;
        usage.scheduled = self.sum;
        for group in &groups {
            let Some(quota) = quota_of(group) else { continue };
            usage.processors = Some(usage.processors.map_or(quota, |all| all.min(quota)));
            if own_quota(group).is_none() {
                continue;
            }
            let stat = fs::read_to_string(group.join("cpu.stat")).unwrap_or_default();
            if let Some(held_ns) = throttled_ns(&stat) {
                usage.throttled_ns = Some(usage.throttled_ns.unwrap_or(0) + held_ns);
            }
        }
        usage
    }
}

/// A thread, by its number and its folder in /proc.
pub struct Thread {
    pub number: i32,
    folder: PathBuf,
}

impl Thread {
    /// What the kernel says of it; nothing of one that is gone.
    pub fn read(&self, file: &str) -> String {
        fs::read_to_string(self.folder.join(file)).unwrap_or_default()
    }
}

/// Shows each of these processes, and of all that they started, with its threads.
pub fn each_process(first: &[Pid], show: &mut dyn FnMut(i32, &[Thread])) {
    let mut family: Vec<i32> = first.iter().map(|pid| pid.as_raw()).collect();
    while let Some(pid) = family.pop() {
        let Ok(folders) = fs::read_dir(format!("/proc/{pid}/task")) else { continue };
        let mut threads = Vec::new();
        for folder in folders.flatten() {
            let number = folder.file_name().to_str().and_then(|name| name.parse().ok());
            threads.extend(number.map(|number| Thread { number, folder: folder.path() }));
        }
        for thread in &threads {
            family.extend(
                thread.read("children").split_whitespace().filter_map(|word| word.parse::<i32>().ok()),
            );
        }
        show(pid, &threads);
    }
}

/// `schedstat` of a thread.
pub fn times(schedstat: &str) -> Option<Scheduled> {
    let mut words = schedstat.split_whitespace().map(str::parse::<u64>);
    Some([words.next()?.ok()?, words.next()?.ok()?, words.next()?.ok()?])
}

/// Processors that the quota of a process's own group allows: not that of a pool above it, which others share.
pub fn quota_alone(pid: Pid) -> Option<f64> {
    own_group(pid.as_raw()).and_then(|group| own_quota(&group))
}

/// The least that a group and those above it allow.
fn quota_of(group: &Path) -> Option<f64> {
    let above = group.ancestors().take_while(|each| *each != Path::new(GROUPS));
    above.filter_map(own_quota).reduce(f64::min)
}

fn own_quota(group: &Path) -> Option<f64> {
    let read = |file: &str| fs::read_to_string(group.join(file)).ok();
    quota(read("cpu.max"), read("cpu.cfs_quota_us"), read("cpu.cfs_period_us"))
}

/// How many processors the kernel lets a process run on.
fn allowed(pid: Pid) -> Option<f64> {
    mask(pid).map(|cpus| cpus.len() as f64).filter(|count| *count > 0.0)
}

/// The processors that the kernel lets a thread run on.
pub fn mask(thread: Pid) -> Option<Vec<usize>> {
    let set = sched_getaffinity(thread).ok()?;
    Some((0..nix::sched::CpuSet::count()).filter(|cpu| set.is_set(*cpu).unwrap_or(false)).collect())
}

fn resident_bytes(pid: i32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/statm")).unwrap_or_default();
    let pages = text.split_whitespace().nth(1).and_then(|word| word.parse::<u64>().ok());
    pages.unwrap_or(0) * page_bytes()
}

fn page_bytes() -> u64 {
    nix::unistd::sysconf(nix::unistd::SysconfVar::PAGE_SIZE).ok().flatten().map_or(4096, |bytes| bytes as u64)
}

/// Bytes that a process, and those of its children that have ended, had read from and written to disks.
fn disk_bytes(pid: i32) -> Option<[u64; 2]> {
    let text = fs::read_to_string(format!("/proc/{pid}/io")).ok()?;
    let value = |key: &str| text.lines().find_map(|line| line.strip_prefix(key)?.trim().parse().ok());
    Some([value("read_bytes:")?, value("write_bytes:")?])
}

/// The folder of the control group with the processor time of a process, if it is not the top one.
fn own_group(pid: i32) -> Option<PathBuf> {
    let text = fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
    let (folder, path) = text.lines().find_map(group_of_line)?;
    let found = Path::new(GROUPS).join(folder).join(path);
    found.join("cpu.stat").exists().then_some(found)
}

/// `4:cpu,cpuacct:/a/b` of version 1 is folder `cpu` and path `a/b`; `0::/a/b` of version 2 has no folder.
fn group_of_line(line: &str) -> Option<(&'static str, &str)> {
    let mut parts = line.splitn(3, ':');
    let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?.strip_prefix('/')?);
    let folder = if controllers.is_empty() {
        ""
    } else if controllers.split(',').any(|each| each == "cpu") {
        "cpu"
    } else {
        return None;
    };
    // A group outside those that this process sees begins with `..`.
    (!path.is_empty() && !path.starts_with("..")).then_some((folder, path))
}

/// Processors that a quota allows, of version 2 (`max 100000`, `50000 100000`) or of version 1 (-1 for none).
fn quota(both: Option<String>, quota: Option<String>, period: Option<String>) -> Option<f64> {
    let both = match both {
        Some(both) => both,
        None => format!("{} {}", quota?.trim(), period?.trim()),
    };
    let mut words = both.split_whitespace().map(str::parse::<f64>);
    let (quota, period) = (words.next()?.ok()?, words.next()?.ok()?);
    (quota > 0.0 && period > 0.0).then_some(quota / period)
}

/// `cpu.stat`: version 1 has nanoseconds, version 2 microseconds.
fn throttled_ns(stat: &str) -> Option<u64> {
    let value = |key: &str| stat.lines().find_map(|line| line.strip_prefix(key)?.trim().parse::<u64>().ok());
    value("throttled_time ").or_else(|| value("throttled_usec ").map(|us| us * 1000))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_this_process_used_only_rises() {
        let mut family = Family::default();
        let before = family.look(&[Pid::this()]);
        let end = std::time::Instant::now() + std::time::Duration::from_millis(20);
        std::thread::spawn(move || while std::time::Instant::now() < end {}).join().unwrap();
        let after = family.look(&[Pid::this()]);
        assert!(after.scheduled.iter().zip(before.scheduled).all(|(now, then)| *now >= then));
        assert!(before.resident_bytes > 0);
        assert!(before.processors.is_some_and(|processors| processors > 0.0));
    }

    #[test]
    fn a_thread_that_ended_keeps_what_it_had_used_in_the_sum() {
        let mut family = Family { threads: BTreeMap::from([(1, [500, 50, 5])]), sum: [500, 50, 5] };
        assert_eq!(family.look(&[]).scheduled, [500, 50, 5]);
        assert!(family.threads.is_empty());
    }

    #[test]
    fn a_number_that_another_thread_has_now_counts_from_zero() {
        let mut family = Family::default();
        let this = nix::unistd::gettid().as_raw();
        family.threads.insert(this, [u64::MAX, u64::MAX, u64::MAX]);
        assert!(family.look(&[Pid::this()]).scheduled[0] < u64::MAX);
    }

    #[test]
    fn quotas_of_both_versions_are_processors() {
        let text = |value: &str| Some(value.to_owned());
        assert_eq!(quota(text("50000 100000\n"), None, None), Some(0.5));
        assert_eq!(quota(text("max 100000\n"), None, None), None);
        assert_eq!(quota(None, text("150000\n"), text("100000\n")), Some(1.5));
        assert_eq!(quota(None, text("-1\n"), text("100000\n")), None);
        assert_eq!(quota(None, None, None), None);
    }

    #[test]
    fn groups_of_both_versions_are_found_and_the_top_ones_left_out() {
        assert_eq!(group_of_line("4:cpuacct,cpu:/a/b"), Some(("cpu", "a/b")));
        assert_eq!(group_of_line("0::/a"), Some(("", "a")));
        assert_eq!(["0::/", "3:cpuset:/a", "0::/../x", "x"].map(group_of_line), [None; 4]);
    }

    #[test]
    fn time_held_back_is_in_nanoseconds() {
        assert_eq!(throttled_ns("nr_periods 7\nthrottled_time 1200\n"), Some(1200));
        assert_eq!(throttled_ns("usage_usec 9\nthrottled_usec 3\n"), Some(3000));
        assert_eq!(throttled_ns("usage_usec 9\n"), None);
    }
}
