//! `burst_load`: L bytes every T in S streams, one way or with replies, from one end or both.

use super::{Carrier, OutOfRange, Role, positive};
use crate::burst::{Direction, OriginSide, Phase};
use serde::Deserialize;
use virtlab_wire::probe_header::COMPACT_BYTES;

/// As a Plan calls it.
pub const NAME: &str = "burst_load";

/// Streams of one role.
const STREAMS_MOST: u32 = 1024;

/// What a role says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BurstLoad {
    /// What carries the bursts.
    pub protocol: Carrier,
    /// Payload of one period, of all streams together.
    pub burst_bytes: u64,
    /// Between the beginnings of two bursts of a stream.
    pub period_ns: u64,
    /// They share the bytes.
    pub streams: u32,
    /// Whether bursts are answered.
    pub direction: Direction,
    /// Which end they come from.
    pub origin: OriginSide,
    /// How the streams' bursts stand to each other.
    pub phase: Phase,
    /// Instant of the first burst within the period.
    pub phase_ns: u64,
    /// Absent: until stopped.
    pub duration_ns: Option<u64>,
}

impl Role for BurstLoad {
    const NAME: &str = NAME;
}

impl BurstLoad {
    /// # Errors
    /// The first parameter that no end could play.
    pub fn check(&self) -> Result<(), OutOfRange> {
        positive("period_ns", self.period_ns)?;
        positive("streams", u64::from(self.streams))?;
        if self.streams > STREAMS_MOST {
            let what = format!("are at most {STREAMS_MOST}, not {}", self.streams);
            return Err(OutOfRange::new("streams", what));
        }
        if self.protocol == Carrier::Icmp && !self.replies() {
            let what = "icmp is always answered; write direction request_reply, or protocol udp";
            return Err(OutOfRange::new("protocol", what));
        }
        self.check_burst(self.burst_bytes)
    }

    /// Of the bytes of a burst, first and when they change: 0 is no load, anything else gives each stream room for a
    /// header of its player.
    ///
    /// # Errors
    /// When it is neither.
    pub fn check_burst(&self, burst_bytes: u64) -> Result<(), OutOfRange> {
        let least = COMPACT_BYTES as u64 * u64::from(self.streams);
        if burst_bytes == 0 || burst_bytes >= least {
            return Ok(());
        }
        let what = format!(
            "of {burst_bytes} B in {} streams leave less than {COMPACT_BYTES} B per datagram; at least {least} B, or 0",
            self.streams
        );
        Err(OutOfRange::new("burst_bytes", what))
    }

    /// Whether bursts are answered.
    #[must_use]
    pub fn replies(&self) -> bool {
        self.direction == Direction::RequestReply
    }

    /// Whether this end sends bursts.
    #[must_use]
    pub fn comes_from(&self, end: OriginSide) -> bool {
        self.origin == OriginSide::Both || self.origin == end
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing;
    use super::*;

    fn read(more: &str) -> BurstLoad {
        testing::of(&format!(r#"{{"burst_bytes": 1000, "period_ns": 10{more}}}"#)).unwrap()
    }

    #[test]
    fn a_burst_is_one_datagram_stream_from_the_client_without_answers_unless_said() {
        let own = read("");
        assert_eq!((own.protocol, own.streams, own.replies()), (Carrier::Udp, 1, false));
        assert_eq!((own.comes_from(OriginSide::From), own.comes_from(OriginSide::To)), (true, false));
        assert_eq!((own.duration_ns, own.check()), (None, Ok(())));
    }

    #[test]
    fn bursts_of_both_ends_come_from_each() {
        let own = read(r#", "origin": "both""#);
        assert!(own.comes_from(OriginSide::From) && own.comes_from(OriginSide::To));
    }

    #[test]
    fn what_no_end_could_play_is_named() {
        for (more, said) in [
            (r#", "streams": 0"#, "streams must be above 0"),
            (r#", "streams": 1025"#, "streams are at most 1024, not 1025"),
            (r#", "protocol": "icmp""#, "protocol icmp is always answered"),
            (r#", "streams": 56"#, "burst_bytes of 1000 B in 56 streams leave less than 18 B"),
        ] {
            let error = read(more).check().unwrap_err().to_string();
            assert!(error.starts_with(said), "{error}");
        }
        assert_eq!(read("").check_burst(0), Ok(()));
        assert_eq!(read("").check_burst(17).unwrap_err().name, "burst_bytes");
    }
}
