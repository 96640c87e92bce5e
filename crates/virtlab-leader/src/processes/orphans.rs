//! What a leader without a world of its own leaves behind when it ends: every process that it started, however far
//! down, as long as it or the process above it lives to end them; where both are killed at one moment only its
//! children end.
//!
//! The first process of a PID namespace takes all others along. An ordinary user's leader has none, and what it
//! started may have begun sessions of its own or lost its parent on purpose. So the leader is made the one that
//! orphans fall to, and the process above it for when the leader is killed (`adopt`): what was left are children or
//! below children, and is killed generation by generation until the kernel knows of none (`end_all`).

use nix::errno::Errno;
use nix::sys::prctl;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use std::time::Duration;

const LOOK_EVERY: Duration = Duration::from_millis(5);

/// From now on a process below the calling one that loses its parent becomes a child of it. A fork does not pass
/// this on.
///
/// # Errors
/// When the kernel refuses.
pub fn adopt() -> nix::Result<()> {
    prctl::set_child_subreaper(true)
}

/// Kills every descendant, for at most so long (what waits for a broken disk cannot be killed).
///
/// Whether none is left.
pub fn end_all(patience: Duration) -> bool {
    let mut waited = Duration::ZERO;
    loop {
        match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
            Err(Errno::ECHILD) => return true,
            Ok(WaitStatus::StillAlive) => {}
            Ok(_) | Err(Errno::EINTR) => continue,
            Err(_) => return false,
        }
        if waited >= patience {
            return false;
        }
        for child in children() {
            let _ = kill(child, Signal::SIGKILL);
        }
        std::thread::sleep(LOOK_EVERY);
        waited += LOOK_EVERY;
    }
}

/// Children of the calling process. Not every kernel lists them, so the parent of every process is read.
fn children() -> Vec<Pid> {
    let own = std::process::id();
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    let numbers = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    numbers
        .filter(|number| {
            std::fs::read_to_string(format!("/proc/{number}/stat"))
                .is_ok_and(|stat| parent(&stat) == Some(own))
        })
        .map(Pid::from_raw)
        .collect()
}

/// The parent in a line of /proc/PID/stat. The name before it, in parentheses, may hold anything.
fn parent(stat: &str) -> Option<u32> {
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parent_is_read_whatever_a_process_calls_itself() {
        assert_eq!(parent("12 (sh) S 7 12 12 0 -1"), Some(7));
        assert_eq!(parent("12 (a) S 3 (b) R 9 12"), Some(9));
        assert_eq!(parent("12 (sh"), None);
    }

    #[test]
    fn children_of_this_process_are_found() {
        let mut child = std::process::Command::new("sleep").arg("30").spawn().unwrap();
        let number = Pid::from_raw(i32::try_from(child.id()).unwrap());
        assert!(children().contains(&number));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!children().contains(&number));
    }
}
