//! SCHED_DEADLINE: asking the kernel for a budget each period, and understanding a refusal.

use super::Refusal;
use nix::errno::Errno;

const SCHED_DEADLINE: u32 = 6;
const RESET_ON_FORK: u64 = 1;

/// `struct sched_attr` as of its first version.
#[repr(C)]
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

/// Puts this thread under SCHED_DEADLINE with runtime `budget_ns` each `period_ns`.
pub fn reserve(period_ns: u64, budget_ns: u64) -> Result<(), Refusal> {
    let attributes = Attributes {
        size: size_of::<Attributes>() as u32,
        policy: SCHED_DEADLINE,
        // Without it a fork of this thread would be refused.
        flags: RESET_ON_FORK,
        nice: 0,
        priority: 0,
        runtime: budget_ns,
        deadline: period_ns,
        period: period_ns,
    };
    // SAFETY: the structure has the size it states and lives through the call.
    let outcome = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
    if outcome == 0 {
        return Ok(());
    }
    let errno = Errno::last();
    let what = match errno {
        Errno::EPERM if pinned() => {
            "the thread is pinned to some CPUs, and SCHED_DEADLINE needs all CPUs of its scheduling domain"
                .to_owned()
        }
        Errno::EPERM => "this user may not use SCHED_DEADLINE".to_owned(),
        Errno::EBUSY => format!(
            "admission refused: {:.1} % of a CPU more than what is left beside other reservations",
            budget_ns as f64 * 100.0 / period_ns as f64
        ),
        Errno::EINVAL => {
            "the kernel takes periods of 100 us to 4.19 s and budgets of at least 1024 ns".to_owned()
        }
        Errno::EAGAIN => "a thread under SCHED_DEADLINE may not fork".to_owned(),
        other => other.desc().to_owned(),
    };
    Err(Refusal { call: "sched_setattr", errno: errno as i32, name: format!("{errno:?}"), what })
}

/// Gives the rest of the budget up and sleeps until `until_ns` on CLOCK_MONOTONIC. (`sched_yield` would do in theory;
/// it was seen to lose the whole next budget when the kernel had just throttled the thread by itself.)
pub fn rest(until_ns: u64) {
    let until = libc::timespec {
        tv_sec: (until_ns / 1_000_000_000) as libc::time_t,
        tv_nsec: (until_ns % 1_000_000_000) as libc::c_long,
    };
    // SAFETY: the time lives through the call, and no remaining time is requested.
    unsafe {
        libc::clock_nanosleep(
            libc::CLOCK_MONOTONIC,
            libc::TIMER_ABSTIME,
            &raw const until,
            std::ptr::null_mut(),
        )
    };
}

/// Whether this thread may run on fewer CPUs than are online.
fn pinned() -> bool {
    let online = nix::unistd::sysconf(nix::unistd::SysconfVar::_NPROCESSORS_ONLN).ok().flatten().unwrap_or(1);
    let Ok(set) = nix::sched::sched_getaffinity(nix::unistd::Pid::from_raw(0)) else { return false };
    let allowed = (0..nix::sched::CpuSet::count()).filter(|cpu| set.is_set(*cpu).unwrap_or(false)).count();
    (allowed as i64) < online
}
