//! When packets are wanted on their way: open-loop schedules.
//!
//! An open-loop sender's intended instants do not depend on what the network does, so a slow network cannot slow the
//! load that measures it. Intended instant k of a paced schedule is computed from k itself, never by adding rounded
//! gaps, so the rate holds exactly however long it runs.

use crate::random::Stream;
use serde::Deserialize;
use std::sync::Arc;
use virtlab_wire::Nanos;

/// Intended sending instants, as offsets from the start.
#[derive(Clone, Debug)]
pub enum Schedule {
    /// One every `interval`.
    Fixed {
        /// Between two packets.
        interval: Nanos,
    },
    /// `packet_bits` each at `rate_bit_per_s`.
    Paced {
        /// Bits that count against the rate.
        packet_bits: u64,
        /// Rate of those bits.
        rate_bit_per_s: u64,
    },
    /// `rate_pps` packets per second, evenly.
    PerSecond {
        /// Packets per second.
        rate_pps: u64,
    },
    /// Gaps drawn from an exponential distribution: a Poisson process.
    Poisson(Box<Poisson>),
    /// At given instants.
    Trace {
        /// In order.
        times: Arc<[Nanos]>,
        /// They begin again so long after they began; `None`: nothing is due after the last.
        period: Option<Nanos>,
    },
    /// No schedule: as fast as the sender can.
    Flood,
}

/// How gaps between packets come about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Arrivals {
    /// All alike.
    #[default]
    Constant,
    /// Exponentially distributed and independent, of the same mean: a Poisson process.
    Poisson,
}

/// Gaps that a Poisson process draws at once.
const DRAWN: usize = 16;

/// A Poisson process that gives an instant as often as requested, and between two packets: there it is linear,
/// so that flows of unequal shares have their places.
#[derive(Clone, Debug)]
pub struct Poisson {
    mean_ns: f64,
    stream: Stream,
    /// Gaps drawn ahead, and how many of them are used.
    gaps_ns: [f64; DRAWN],
    used: usize,
    /// The packet that was requested last, its offset, and that of the next.
    number: u64,
    here_ns: f64,
    next_ns: f64,
}

impl Poisson {
    fn new(mean_ns: f64, mut stream: Stream) -> Self {
        let mut gaps_ns = [0.0; DRAWN];
        stream.exponentials(mean_ns, &mut gaps_ns);
        Self { mean_ns, stream, gaps_ns, used: 1, number: 0, here_ns: 0.0, next_ns: gaps_ns[0] }
    }

    #[cold]
    fn draw(&mut self) {
        self.stream.exponentials(self.mean_ns, &mut self.gaps_ns);
        self.used = 0;
    }

    fn step(&mut self) {
        self.number += 1;
        self.here_ns = self.next_ns;
        if self.used == DRAWN {
            self.draw();
        }
        self.next_ns += self.gaps_ns[self.used];
        self.used += 1;
    }

    /// Offset of a packet; they are requested in order.
    #[inline]
    fn instant(&mut self, packet: u64) -> f64 {
        while self.number < packet {
            self.step();
        }
        self.here_ns
    }

    /// Offset of a place; places never go back by more than to the last packet.
    fn offset(&mut self, at: f64) -> f64 {
        while self.number < at as u64 {
            self.step();
        }
        let beyond = (at - self.number as f64).max(0.0);
        self.here_ns + beyond * (self.next_ns - self.here_ns)
    }

    /// The place of an offset.
    fn position(&mut self, elapsed_ns: f64) -> f64 {
        while self.next_ns <= elapsed_ns {
            self.step();
        }
        let gap = (self.next_ns - self.here_ns).max(f64::MIN_POSITIVE);
        self.number as f64 + ((elapsed_ns - self.here_ns) / gap).clamp(0.0, 1.0)
    }
}

impl Schedule {
    /// Intended offset of packet `k`. Packets of a Poisson schedule are requested in order.
    pub fn offset(&mut self, k: u64) -> Nanos {
        let product = |count: u64, unit: u64, per: u64| {
            // A division of 64 bits takes a fraction of one of 128.
            if let Some(small) = count.checked_mul(unit).and_then(|bits| bits.checked_mul(1_000_000_000)) {
                return Nanos(small / per.max(1));
            }
            let exact = u128::from(count) * u128::from(unit) * 1_000_000_000 / u128::from(per.max(1));
            Nanos(u64::try_from(exact).unwrap_or(u64::MAX))
        };
        match self {
            Self::Fixed { interval } => Nanos(k.saturating_mul(interval.0)),
            Self::Paced { packet_bits, rate_bit_per_s } => product(k, *packet_bits, *rate_bit_per_s),
            Self::PerSecond { rate_pps } => product(k, 1, *rate_pps),
            Self::Poisson(process) => Nanos(process.instant(k) as u64),
            Self::Trace { times, period } => traced(times, *period, k),
            Self::Flood => Nanos::ZERO,
        }
    }

    /// Packets of its mean rate in a time; `None` where it has no rate.
    #[must_use]
    pub fn position(&self, elapsed: Nanos) -> Option<f64> {
        let elapsed = elapsed.0 as f64;
        match self {
            Self::Fixed { interval } => Some(elapsed / interval.0.max(1) as f64),
            Self::Paced { packet_bits, rate_bit_per_s } => {
                Some(elapsed * *rate_bit_per_s as f64 / (*packet_bits.max(&1) as f64 * 1e9))
            }
            Self::PerSecond { rate_pps } => Some(elapsed * *rate_pps as f64 / 1e9),
            Self::Poisson(process) => Some(process.clone().position(elapsed)),
            Self::Trace { .. } | Self::Flood => None,
        }
    }

    /// Intended offset of a position between two packets, of a schedule with even gaps; whole ones as
    /// [`Self::offset`] has them.
    #[must_use]
    pub fn offset_at(&mut self, at: f64) -> Nanos {
        if at.fract() == 0.0 {
            return self.offset(at as u64);
        }
        let nanos = match self {
            Self::Fixed { interval } => at * interval.0 as f64,
            Self::Paced { packet_bits, rate_bit_per_s } => {
                at * *packet_bits as f64 * 1e9 / (*rate_bit_per_s).max(1) as f64
            }
            Self::PerSecond { rate_pps } => at * 1e9 / (*rate_pps).max(1) as f64,
            Self::Poisson(process) => process.offset(at),
            Self::Trace { times, period } => traced(times, *period, at as u64).0 as f64,
            Self::Flood => 0.0,
        };
        Nanos(nanos as u64)
    }

    /// A Poisson process with draws from the named stream.
    #[must_use]
    pub fn poisson(mean: Nanos, stream: Stream) -> Self {
        Self::Poisson(Box::new(Poisson::new(mean.0 as f64, stream)))
    }

    /// The same mean rate with the gaps that `arrivals` asks for; draws are those of the seed and the rate, so that the
    /// testbed and the simulator send at the same instants. A flood stays one.
    #[must_use]
    pub fn with(self, arrivals: Arrivals, seed: u64) -> Self {
        let mean_ns = match &self {
            _ if arrivals == Arrivals::Constant => return self,
            Self::Fixed { interval } if interval.0 > 0 => interval.0 as f64,
            Self::Paced { packet_bits, rate_bit_per_s } => {
                *packet_bits as f64 * 1e9 / (*rate_bit_per_s).max(1) as f64
            }
            Self::PerSecond { rate_pps } => 1e9 / (*rate_pps).max(1) as f64,
            _ => return self,
        };
        Self::Poisson(Box::new(Poisson::new(mean_ns, Stream::new(seed, &format!("arrivals.{mean_ns}")))))
    }

    /// Packets whose intended instant lies before `elapsed`, for schedules that know without asking one by one.
    #[must_use]
    pub fn due(&self, elapsed: Nanos) -> Option<u64> {
        let count = |unit: u64, per: u64| {
            let exact = u128::from(elapsed.0) * u128::from(per) / (u128::from(unit.max(1)) * 1_000_000_000);
            u64::try_from(exact).unwrap_or(u64::MAX).saturating_add(1)
        };
        match self {
            Self::Fixed { interval } => {
                Some(elapsed.0.checked_div(interval.0).unwrap_or(u64::MAX).saturating_add(1))
            }
            Self::Paced { packet_bits, rate_bit_per_s } => Some(count(*packet_bits, *rate_bit_per_s)),
            Self::PerSecond { rate_pps } => Some(count(1, *rate_pps)),
            Self::Poisson(_) | Self::Trace { .. } => None,
            Self::Flood => Some(u64::MAX),
        }
    }
}

/// Instant k of a trace; what is never due is so at the end of time.
fn traced(times: &[Nanos], period: Option<Nanos>, k: u64) -> Nanos {
    let count = times.len() as u64;
    if k < count {
        return times[k as usize];
    }
    period
        .filter(|_| count > 0)
        .map_or(Nanos::MAX, |period| Nanos(period.0.saturating_mul(k / count)) + times[(k % count) as usize])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_hundred_mbit_of_1500_byte_packets_is_one_every_120_us() {
        let mut schedule = Schedule::Paced { packet_bits: 12_000, rate_bit_per_s: 100_000_000 };
        assert_eq!((0..3).map(|k| schedule.offset(k).0).collect::<Vec<_>>(), [0, 120_000, 240_000]);
    }

    #[test]
    fn a_rate_that_does_not_divide_keeps_its_mean_for_hours() {
        let mut schedule = Schedule::PerSecond { rate_pps: 3 };
        assert_eq!(schedule.offset(3 * 36_000), Nanos(36_000_000_000_000));
    }

    #[test]
    fn a_poisson_process_has_its_rate() {
        let mut schedule = Schedule::poisson(Nanos(1000), Stream::new(3, "arrivals"));
        let last = (0..100_000).map(|k| schedule.offset(k)).last().unwrap();
        assert!((last.0 as f64 / 1e8 - 1.0).abs() < 0.02, "{last:?}");
    }

    #[test]
    fn a_poisson_process_gives_one_instant_as_often_as_it_is_asked_and_counts_what_is_due() {
        let constant = Schedule::PerSecond { rate_pps: 1000 };
        let mut process = constant.clone().with(Arrivals::Poisson, 7);
        let first: Vec<Nanos> = (0..50).map(|k| process.offset(k)).collect();
        let mut again = constant.with(Arrivals::Poisson, 7);
        for (k, at) in first.iter().enumerate() {
            assert_eq!((again.offset_at(k as f64), again.offset(k as u64)), (*at, *at));
            let due = again.position(*at + Nanos(1)).unwrap();
            assert!((due - k as f64).abs() < 0.1, "{due} of {k}");
        }
        assert!(first.is_sorted() && first[49] > first[0]);
    }

    #[test]
    fn a_trace_ends_or_begins_again_after_its_period() {
        let times: Arc<[Nanos]> = [5, 5, 9].map(Nanos).into();
        let mut once = Schedule::Trace { times: times.clone(), period: None };
        assert_eq!(
            (0..5).map(|k| once.offset(k)).collect::<Vec<_>>()[2..],
            [Nanos(9), Nanos::MAX, Nanos::MAX]
        );
        let mut again = Schedule::Trace { times, period: Some(Nanos(20)) };
        assert_eq!((0..7).map(|k| again.offset(k).0).collect::<Vec<_>>(), [5, 5, 9, 25, 25, 29, 45]);
    }

    #[test]
    fn a_flood_and_constant_arrivals_stay_what_they_are() {
        assert!(matches!(Schedule::Flood.with(Arrivals::Poisson, 1), Schedule::Flood));
        let paced = Schedule::PerSecond { rate_pps: 5 };
        assert!(matches!(paced.with(Arrivals::Constant, 1), Schedule::PerSecond { rate_pps: 5 }));
    }

    proptest! {
        #[test]
        fn offsets_never_go_back_and_due_counts_them(rate in 1u64..10_000_000_000, bits in 512u64..524_280, k in 0u64..1_000_000) {
            let mut schedule = Schedule::Paced { packet_bits: bits, rate_bit_per_s: rate };
            let (here, next) = (schedule.offset(k), schedule.offset(k + 1));
            prop_assert!(here <= next);
            // Offsets are rounded down, so an instant counts at least the packets intended up to it, at most one less.
            let due = schedule.due(here).unwrap();
            prop_assert!(due >= k && (due <= k + 1 || next == here), "{due} due at packet {k}");
        }
    }
}
