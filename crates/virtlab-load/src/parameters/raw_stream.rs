//! `raw_stream`: frames of exact size, numbered per flow, one way.

use super::{OutOfRange, Role, positive};
use crate::schedule::{Arrivals, Schedule};
use crate::split::Split;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use virtlab_wire::ethernet::{FCS_BYTES, HEADER_BYTES, MINIMUM_FRAME_BYTES};

/// As a Plan calls it.
pub const NAME: &str = "raw_stream";

/// Levels of 802.1p.
const PRIORITIES: u8 = 8;

/// What a role says; `Guest` is how the player names a guest that forwards.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, bound(deserialize = "Guest: Deserialize<'de>"))]
pub struct RawStream<Guest> {
    /// Ethernet header to FCS.
    pub frame_bytes: u32,
    /// Of all flows together; absent: as fast as possible.
    pub rate_pps: Option<u64>,
    /// Absent: until stopped.
    pub duration_ns: Option<u64>,
    /// Absent: as many as there are shares, else forwarders, else one.
    pub flows: Option<u16>,
    /// Shares of the rate, one per flow; absent: equal.
    pub shares: Option<Vec<f64>>,
    /// How many threads send; absent: one.
    pub threads: Option<u16>,
    /// Guests that forward; flow f goes to number f modulo their count.
    #[serde(default = "Vec::new")]
    pub via: Vec<Guest>,
    /// How gaps between frames come about.
    #[serde(default)]
    pub arrivals: Arrivals,
    /// Whether the sender keeps a row per frame, too.
    #[serde(default)]
    pub keep_sent: bool,
    /// 802.1p priority: frames carry a tag with it, and no VLAN.
    pub priority: Option<u8>,
}

impl<Guest: DeserializeOwned> Role for RawStream<Guest> {
    const NAME: &str = NAME;
}

impl<Guest> RawStream<Guest> {
    /// What does not depend on the flows, which [`Self::split`] checks.
    ///
    /// # Errors
    /// The first parameter that no end could play, through an interface of this MTU.
    pub fn check(&self, mtu_bytes: u32) -> Result<(), OutOfRange> {
        self.rate_pps.map_or(Ok(()), check_rate)?;
        let most = mtu_bytes.saturating_add(HEADER_BYTES + FCS_BYTES);
        if !(MINIMUM_FRAME_BYTES..=most).contains(&self.frame_bytes) {
            let what = format!(
                "are {MINIMUM_FRAME_BYTES} to {most}, header to checksum, at an MTU of {mtu_bytes} B"
            );
            return Err(OutOfRange::new("frame_bytes", what));
        }
        if self.priority.is_some_and(|priority| priority >= PRIORITIES) {
            return Err(OutOfRange::new("priority", "of 802.1p is 0 to 7"));
        }
        Ok(())
    }

    /// Threads that send.
    #[must_use]
    pub fn threads(&self) -> u16 {
        self.threads.unwrap_or(1)
    }

    /// The flows, and the order in which they have their turns.
    ///
    /// # Errors
    /// When flows, shares, threads and forwarders do not go together.
    pub fn split(&self) -> Result<Split, OutOfRange> {
        let implied = self.shares.as_ref().map_or(self.via.len().max(1), Vec::len);
        let flows = usize::from(self.flows.unwrap_or(u16::try_from(implied).unwrap_or(u16::MAX)));
        positive("flows", flows as u64)?;
        if !flows.is_multiple_of(self.via.len().max(1)) {
            let what = format!("are {flows} and do not divide over {} forwarders in 'via'", self.via.len());
            return Err(OutOfRange::new("flows", what));
        }
        if !(1..=flows).contains(&usize::from(self.threads())) {
            let what = format!(
                "do not fit: {} threads for {flows} flows; each thread sends at least one flow",
                self.threads()
            );
            return Err(OutOfRange::new("threads", what));
        }
        match &self.shares {
            Some(shares) if shares.len() != flows => {
                let what = format!("are {} for {flows} flows; write one per flow", shares.len());
                Err(OutOfRange::new("shares", what))
            }
            Some(shares) => Split::by_shares(shares)
                .map_err(|error| OutOfRange::new("shares", format!("are wrong: {error}"))),
            None => Split::even(flows as u16)
                .map_err(|error| OutOfRange::new("flows", format!("are wrong: {error}"))),
        }
    }

    /// When frames are due at a rate; gaps are drawn from the seed.
    #[must_use]
    pub fn paced(&self, rate_pps: u64, seed: u64) -> Schedule {
        Schedule::PerSecond { rate_pps }.with(self.arrivals, seed)
    }
}

/// Checks the rate, first and when it changes.
///
/// # Errors
/// When nothing is ever due.
pub fn check_rate(rate_pps: u64) -> Result<(), OutOfRange> {
    positive("rate_pps", rate_pps)
}

#[cfg(test)]
mod tests {
    use super::super::testing;
    use super::*;

    fn read(more: &str) -> RawStream<String> {
        testing::of(&format!(r#"{{"frame_bytes": 64{more}}}"#)).unwrap()
    }

    #[test]
    fn a_stream_is_one_flow_as_fast_as_possible_until_stopped_unless_said() {
        let own = read("");
        assert_eq!((own.rate_pps, own.duration_ns, own.threads(), own.check(1500)), (None, None, 1, Ok(())));
        assert_eq!(own.split().unwrap().flows(), 1);
    }

    #[test]
    fn flows_are_as_many_as_shares_else_forwarders() {
        let flows = |more: &str| read(more).split().unwrap().flows();
        assert_eq!(flows(r#", "via": ["a", "b", "c"]"#), 3);
        assert_eq!(flows(r#", "shares": [0.5, 0.25, 0.25]"#), 3);
        assert_eq!(flows(r#", "via": ["a", "b"], "flows": 4"#), 4);
    }

    #[test]
    fn what_no_end_could_play_is_named() {
        for (more, said) in [
            (r#", "flows": 0"#, "flows must be above 0"),
            (r#", "flows": 3, "via": ["a", "b"]"#, "flows are 3 and do not divide over 2 forwarders"),
            (r#", "threads": 2"#, "threads do not fit: 2 threads for 1 flows"),
            (r#", "flows": 2, "shares": [1.0]"#, "shares are 1 for 2 flows"),
            (r#", "shares": [0.5, 0.4]"#, "shares are wrong: the shares sum to 0.9"),
        ] {
            let error = read(more).split().unwrap_err().to_string();
            assert!(error.starts_with(said), "{error}");
        }
        for (more, mtu_bytes, name) in [
            (r#", "rate_pps": 0"#, 1500, "rate_pps"),
            (r#", "priority": 8"#, 1500, "priority"),
            ("", 40, "frame_bytes"),
        ] {
            assert_eq!(read(more).check(mtu_bytes).unwrap_err().name, name);
        }
    }
}
