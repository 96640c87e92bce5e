//! The agent's clocks: CLOCK_MONOTONIC_RAW for everything that is reported, CLOCK_MONOTONIC for sleeping,
//! CLOCK_REALTIME only to convert kernel packet stamps.

use nix::time::{ClockId, clock_gettime};
use virtlab_wire::Nanos;

fn read(clock: ClockId) -> i64 {
    let time = clock_gettime(clock).expect("clocks of Linux can be read");
    time.tv_sec() * 1_000_000_000 + time.tv_nsec()
}

/// CLOCK_MONOTONIC_RAW now.
#[must_use]
pub fn raw() -> Nanos {
    Nanos(read(ClockId::CLOCK_MONOTONIC_RAW) as u64)
}

/// CLOCK_MONOTONIC now; what timers and sleeps count.
#[must_use]
pub fn monotonic() -> Nanos {
    Nanos(read(ClockId::CLOCK_MONOTONIC) as u64)
}

/// CLOCK_REALTIME now; the clock of kernel packet stamps.
#[must_use]
pub fn realtime() -> Nanos {
    Nanos(read(ClockId::CLOCK_REALTIME) as u64)
}

/// CLOCK_PROCESS_CPUTIME_ID now: the processor time of all threads of this process.
#[must_use]
pub fn computed() -> Nanos {
    Nanos(read(ClockId::CLOCK_PROCESS_CPUTIME_ID) as u64)
}

/// The three clocks at one instant, and how far apart in time the readings were.
#[derive(Clone, Copy, Debug)]
pub struct Paired {
    /// CLOCK_MONOTONIC_RAW.
    pub raw: Nanos,
    /// CLOCK_REALTIME.
    pub realtime: Nanos,
    /// Half the width of the bracketing readings.
    pub bound: Nanos,
}

/// Pairs RAW with REALTIME: the narrowest of eight brackets.
#[must_use]
pub fn pair() -> Paired {
    (0..8)
        .map(|_| {
            let before = raw();
            let realtime = realtime();
            let after = raw();
            let width = after.since(before);
            Paired { raw: Nanos(before.0 + width.0 / 2), realtime, bound: Nanos(width.0.div_ceil(2)) }
        })
        .min_by_key(|paired| paired.bound)
        .expect("eight brackets were taken")
}
