//! Burst load: L bytes every T, shared by S streams.
//!
//! Stream i sends its share (L divided by S, the first L mod S streams one byte more) as one datagram while it
//! fits, else as several of equal size. Its bursts stand at `phase_i + k T`:
//! - `fixed`: all streams together at the given phase;
//! - `spread`: stream i a further i T / S later;
//! - `random`: each stream at an instant drawn once, uniform over the period, from its own named random stream.

use crate::random::Stream;
use serde::{Deserialize, Serialize};
use virtlab_wire::Nanos;

/// Largest payload of one burst datagram, which IP cuts into fragments: an IPv4 packet less its headers of 20 and 8
/// bytes.
pub const MAXIMUM_DATAGRAM_BYTES: u64 = 65_507;

/// How the streams' bursts stand to each other and to the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// All at once.
    #[default]
    Fixed,
    /// Evenly over the period.
    Spread,
    /// Each at a random instant of the period.
    Random,
}

/// Whether bursts are answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// There are no answers.
    #[default]
    OneWay,
    /// Each datagram comes back.
    RequestReply,
}

/// Which end bursts come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OriginSide {
    /// The role's `from`.
    #[default]
    From,
    /// The role's `to`.
    To,
    /// Each of them.
    Both,
}

/// Phase of each stream within the period.
#[must_use]
pub fn phases(phase: Phase, base: Nanos, period: Nanos, streams: u32, seed: u64, name: &str) -> Vec<Nanos> {
    (0..streams)
        .map(|stream| match phase {
            Phase::Fixed => base,
            Phase::Spread => {
                base + Nanos((u128::from(period.0) * u128::from(stream) / u128::from(streams.max(1))) as u64)
            }
            Phase::Random => {
                base + Nanos(Stream::new(seed, &format!("{name}.phase.{stream}")).below(period.0))
            }
        })
        .collect()
}

/// Payload bytes per period of one stream.
#[must_use]
pub fn share(burst_bytes: u64, streams: u32, stream: u32) -> u64 {
    let streams = u64::from(streams.max(1));
    burst_bytes / streams + u64::from(u64::from(stream) < burst_bytes % streams)
}

/// Datagrams that carry one stream's share: as few as possible, of equal size (to one byte).
#[must_use]
pub fn datagrams(share_bytes: u64, most_bytes: u64) -> Vec<u32> {
    let count = share_bytes.div_ceil(most_bytes.max(1));
    (0..count).map(|index| (share_bytes / count + u64::from(index < share_bytes % count)) as u32).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PERIOD: Nanos = Nanos(10_000_000);

    #[test]
    fn spread_streams_divide_the_period() {
        let phases = phases(Phase::Spread, Nanos(5), PERIOD, 2, 0, "load");
        assert_eq!(phases, [Nanos(5), Nanos(5_000_005)]);
    }

    #[test]
    fn random_phases_follow_seed_and_name_and_not_the_number_of_streams() {
        let draw = |streams, seed| phases(Phase::Random, Nanos::ZERO, PERIOD, streams, seed, "load");
        assert_eq!(draw(2, 1), draw(3, 1)[..2]);
        assert_ne!(draw(2, 1), draw(2, 2));
    }

    #[test]
    fn a_share_above_one_datagram_is_cut_in_equal_parts() {
        assert_eq!(datagrams(85_000, MAXIMUM_DATAGRAM_BYTES), [42_500, 42_500]);
        assert_eq!(datagrams(65_000, MAXIMUM_DATAGRAM_BYTES), [65_000]);
        assert!(datagrams(0, MAXIMUM_DATAGRAM_BYTES).is_empty());
    }

    proptest! {
        #[test]
        fn no_byte_of_a_burst_is_lost(burst_bytes in 0u64..10_000_000, streams in 1u32..20) {
            let sum: u64 = (0..streams)
                .flat_map(|stream| datagrams(share(burst_bytes, streams, stream), MAXIMUM_DATAGRAM_BYTES))
                .map(u64::from)
                .sum();
            prop_assert_eq!(sum, burst_bytes);
        }

        #[test]
        fn random_phases_lie_in_the_period(seed: u64, streams in 1u32..20) {
            prop_assert!(phases(Phase::Random, Nanos::ZERO, PERIOD, streams, seed, "x").iter().all(|phase| *phase < PERIOD));
        }
    }
}
