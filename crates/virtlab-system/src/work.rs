//! Counted work: what a request's demand of processor time is made of.
//!
//! A unit is one step of a chain in which each multiplication waits for the one before. All of it is in registers, so
//! that neither caches nor memory change what it takes. How many units one processor does in a second is measured once,
//! where nothing else shares the processor, and a demand is that many units, never a time read from a clock: a guest
//! that is held back by others would count the time that it did not have, and being held back would cost nothing.

use nix::time::{ClockId, clock_gettime};
use std::hint::black_box;
use std::sync::OnceLock;

/// Between two questions whether to continue: some 20 us.
const PIECE_UNITS: u64 = 10_000;
/// Of a measured span: some 300 us.
const SPAN_UNITS: u64 = 150_000;
const SPANS: usize = 60;
/// So many times as fast as the mean no span is by itself: its clock stood still.
const PLAUSIBLE: u64 = 10;

/// CPU time of the calling thread, in ns.
#[must_use]
pub fn charged_ns() -> u64 {
    let time = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).expect("a thread can read its own CPU time");
    time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64
}

/// Does so many units.
fn units(count: u64) {
    let mut chain = black_box(0x9e37_79b9_7f4a_7c15_u64);
    for _ in 0..count {
        chain = (chain ^ (chain >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    }
    black_box(chain);
}

/// Units that a processor does in a second, by the fastest of many spans: interruptions only make them longer.
#[must_use]
pub fn rate_per_s() -> u64 {
    static RATE: OnceLock<u64> = OnceLock::new();
    *RATE.get_or_init(|| {
        let span = || {
            let before = charged_ns();
            units(SPAN_UNITS);
            charged_ns() - before
        };
        let spans: Vec<u64> = (0..SPANS).map(|_| span()).collect();
        (u128::from(SPAN_UNITS) * 1_000_000_000 / u128::from(undisturbed_ns(&spans))) as u64
    })
}

/// How long one span takes that nothing disturbs: the fastest; of a clock that stands still meanwhile, as that of an
/// emulated hypervisor does, and makes up for it later, as long as all together took.
fn undisturbed_ns(spans: &[u64]) -> u64 {
    let fastest = spans.iter().copied().min().unwrap_or(0);
    let mean = spans.iter().sum::<u64>() / spans.len().max(1) as u64;
    (if fastest > mean / PLAUSIBLE { fastest } else { mean }).max(1)
}

/// The units of a time at a rate.
#[must_use]
pub fn units_of(time_ns: u64, rate_per_s: u64) -> u64 {
    (u128::from(time_ns) * u128::from(rate_per_s) / 1_000_000_000) as u64
}

/// Does so many units, asking before each piece whether to continue; false when it was not to.
pub fn work(count: u64, mut goes_on: impl FnMut() -> bool) -> bool {
    let mut left = count;
    while left > 0 {
        if !goes_on() {
            return false;
        }
        let piece = left.min(PIECE_UNITS);
        units(piece);
        left -= piece;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_takes_at_least_the_processor_time_that_it_stands_for() {
        let before = charged_ns();
        assert!(work(units_of(20_000_000, rate_per_s()), || true));
        let took = charged_ns() - before;
        assert!(took > 18_000_000, "{took} ns of 20 ms");
    }

    #[test]
    fn a_span_is_as_long_as_the_fastest_unless_its_clock_stood_still() {
        assert_eq!(undisturbed_ns(&[300, 290, 900]), 290);
        assert_eq!(undisturbed_ns(&[0, 600, 1, 599]), 300);
        assert_eq!(undisturbed_ns(&[0, 0]), 1);
    }

    #[test]
    fn work_ends_where_it_is_not_to_go_on() {
        let mut looks = 0;
        let done = work(u64::MAX, || {
            looks += 1;
            looks < 3
        });
        assert_eq!((done, looks), (false, 3));
    }
}
