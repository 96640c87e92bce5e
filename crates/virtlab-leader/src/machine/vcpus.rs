//! Virtual processors as the machine's kernel sees them: threads of a process that runs a virtual machine.
//!
//! QEMU calls them `CPU 0/TCG`, `CPU 1/KVM`, ... if names are requested (`debug-threads=on`). How long each ran and
//! waited for a processor comes from its `schedstat`; steal as the guest sees it is 0 under emulation. All other
//! threads of the process (emulated devices, its main loop) are `io`.

use crate::machine::usage::{Scheduled, times};
use nix::unistd::Pid;
use std::collections::BTreeMap;
use std::fs;

/// All threads of a virtual machine that are no virtual processor.
pub const IO: &str = "io";

/// Whether a process runs a virtual machine.
pub fn is_machine(pid: Pid) -> bool {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else { return false };
    threads.flatten().any(|thread| {
        processor(fs::read_to_string(thread.path().join("comm")).unwrap_or_default().trim()).is_some()
    })
}

/// By thread name of the Plan: `vcpu0`, `vcpu1`, ..., `io`. Empty when the process is no virtual machine.
pub fn of(pid: Pid) -> BTreeMap<String, Scheduled> {
    let mut found: BTreeMap<String, Scheduled> = BTreeMap::new();
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else { return found };
    let mut virtual_machine = false;
    for thread in threads.flatten() {
        let read = |file: &str| fs::read_to_string(thread.path().join(file)).unwrap_or_default();
        let name = processor(read("comm").trim()).map(|number| format!("vcpu{number}"));
        virtual_machine |= name.is_some();
        if let Some(scheduled) = times(&read("schedstat")) {
            let sum = found.entry(name.unwrap_or_else(|| IO.to_owned())).or_default();
            sum.iter_mut().zip(scheduled).for_each(|(sum, value)| *sum += value);
        }
    }
    if virtual_machine { found } else { BTreeMap::new() }
}

/// Memory that a process has resident, and bytes that it had read from and written to disks.
pub fn resources(pid: Pid) -> Vec<(&'static str, u64)> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let io = fs::read_to_string(format!("/proc/{pid}/io")).unwrap_or_default();
    let value = |text: &str, key: &str| {
        text.lines().find_map(|line| line.strip_prefix(key)?.split_whitespace().next()?.parse::<u64>().ok())
    };
    [
        ("resident_bytes", value(&status, "VmRSS:").map(|kib| kib * 1024)),
        ("disk_read_bytes", value(&io, "read_bytes:")),
        ("disk_written_bytes", value(&io, "write_bytes:")),
    ]
    .into_iter()
    .filter_map(|(name, value)| Some((name, value?)))
    .collect()
}

/// The number in `CPU 3/TCG`.
fn processor(name: &str) -> Option<u32> {
    name.strip_prefix("CPU ")?.split_once('/')?.0.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn qemus_threads_are_known_by_name() {
        assert_eq!(processor("CPU 12/TCG"), Some(12));
        assert_eq!([processor("CPU 0"), processor("worker"), processor("CPU x/KVM")], [None; 3]);
        assert_eq!(times("120 34 5\n"), Some([120, 34, 5]));
    }

    #[test]
    fn a_process_without_virtual_processors_is_none() {
        assert!(of(Pid::this()).is_empty());
        assert!(resources(Pid::this()).iter().any(|(name, bytes)| *name == "resident_bytes" && *bytes > 0));
    }
}
