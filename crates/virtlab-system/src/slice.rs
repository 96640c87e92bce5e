//! How soon the fair scheduler of Linux lets a thread that wakes run.
//!
//! It runs the thread whose slice would end first, so one that asks for short slices is before its neighbours when it
//! wakes, and is asked to step aside sooner. Any user may ask (`sched_setattr(2)`, Linux 6.12 and later; an earlier
//! kernel ignores it).

use nix::errno::Errno;

/// The shortest that the kernel takes.
const SHORTEST_NS: u64 = 100_000;
/// What this thread starts has the kernel's own slices again.
const RESET_ON_FORK: u64 = 1;

/// `struct sched_attr` as of its first version.
#[repr(C)]
#[derive(Default)]
struct Attributes {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime: u64,
    deadline: u64,
    period: u64,
}

/// Asks for the shortest slices for this thread, which keeps its nice value. A thread under another policy than
/// SCHED_OTHER was given that by somebody who knows why, and stays as it is.
///
/// # Errors
/// When the kernel refuses.
pub fn shortest() -> nix::Result<()> {
    let mut attributes = current()?;
    if attributes.policy != libc::SCHED_OTHER as u32 {
        return Ok(());
    }
    attributes.flags = RESET_ON_FORK;
    attributes.runtime = SHORTEST_NS;
    // SAFETY: the structure has the size it states and lives through the call.
    Errno::result(unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) }).map(drop)
}

/// How this thread is scheduled. Before Linux 6.12 the fair scheduler's `runtime` is 0.
fn current() -> nix::Result<Attributes> {
    let mut attributes = Attributes::default();
    // SAFETY: the kernel writes at most the size that it is given, and the structure lives through the call.
    let outcome = unsafe {
        libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, size_of::<Attributes>() as u32, 0)
    };
    Errno::result(outcome).map(|_| attributes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn in_a_thread(test: fn()) {
        std::thread::spawn(test).join().unwrap();
    }

    #[test]
    fn a_thread_has_the_shortest_slices_and_its_policy_and_nice_value() {
        in_a_thread(|| {
            let before = current().unwrap();
            shortest().unwrap();
            let after = current().unwrap();
            assert_eq!((after.policy, after.nice), (before.policy, before.nice));
            assert_eq!(after.runtime, if before.runtime == 0 { 0 } else { SHORTEST_NS });
        });
    }

    #[test]
    fn a_thread_of_another_policy_stays_as_it_is() {
        in_a_thread(|| {
            let parameter = libc::sched_param { sched_priority: 0 };
            // SAFETY: the kernel reads one sched_param.
            assert_eq!(unsafe { libc::sched_setscheduler(0, libc::SCHED_BATCH, &raw const parameter) }, 0);
            shortest().unwrap();
            assert_eq!(current().unwrap().policy, libc::SCHED_BATCH as u32);
        });
    }
}
