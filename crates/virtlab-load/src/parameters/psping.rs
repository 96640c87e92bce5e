//! `psping`: the tests of Sysinternals PsPing. `ping` takes the time of an ICMP echo or of a TCP connection,
//! `latency` that of a request and its answer over TCP or UDP, one at a time; `bandwidth` keeps `outstanding`
//! requests under way.
//!
//! A request is over when the far end has it whole and its answer is back, so a bandwidth test is a latency test with a
//! larger window. `reverse` (`-r`) swaps the sizes of request and answer.

use super::{OutOfRange, Role, holdable, positive};
use crate::size::Transport;
use serde::{Deserialize, Serialize};
use virtlab_wire::Nanos;
use virtlab_wire::probe_header::COMPACT_BYTES;

/// As a Plan calls it.
pub const NAME: &str = "psping";

/// Payload of the largest IPv4 datagram.
pub const MOST_DATAGRAM_BYTES: u64 = 65_507;

/// Which of PsPing's tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Test {
    /// An echo, or a new connection each time.
    Ping,
    /// One request at a time.
    Latency,
    /// Several under way.
    Bandwidth,
}

/// What a role says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Psping {
    /// Which test.
    pub test: Test,
    /// What carries the requests.
    pub protocol: Transport,
    /// Payload of a request.
    pub request_bytes: u64,
    /// Payload of its answer.
    pub response_bytes: u64,
    /// Requests that count.
    pub count: u64,
    /// Requests before them.
    pub warmup: u64,
    /// Least time between the beginnings of two requests.
    pub interval_ns: u64,
    /// Requests under way in a bandwidth test.
    pub outstanding: u64,
    /// Whether the server sends the larger part.
    pub reverse: bool,
    /// An answer or connection later than this is lost.
    pub timeout_ns: u64,
    /// Longest time of the test.
    pub limit_ns: Option<u64>,
}

/// Why a role cannot be played.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PspingError {
    /// A parameter.
    #[error(transparent)]
    OutOfRange(#[from] OutOfRange),
    /// A test has not every protocol.
    #[error("protocol: test ping goes over icmp or tcp, tests latency and bandwidth over tcp or udp")]
    Protocol,
    /// UDP.
    #[error("a datagram carries at most {MOST_DATAGRAM_BYTES} B; write less, or protocol tcp")]
    Datagram,
}

/// What the end that asks does, whatever carries its requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestPlan {
    /// Bytes of a request and of its answer.
    pub sizes: (u64, u64),
    /// Requests with those of the warm-up, which are the first.
    pub total: u64,
    /// Requests that do not count.
    pub warmup: u64,
    /// Least time between the beginnings of two requests.
    pub interval: Nanos,
    /// Requests under way at once.
    pub window: u64,
    /// An answer or connection later than this is lost.
    pub timeout: Nanos,
    /// Longest time of the test.
    pub limit: Option<Nanos>,
}

impl Role for Psping {
    const NAME: &str = NAME;
}

impl Psping {
    /// What is requested. Over UDP, request and answer hold at least the header that says which request they are of.
    ///
    /// # Errors
    /// When no end could play it.
    pub fn plan(&self) -> Result<RequestPlan, PspingError> {
        let (test, protocol) = (self.test, self.protocol);
        let named = [
            ("count", self.count),
            ("outstanding", self.outstanding),
            ("response_bytes", self.response_bytes),
            ("timeout_ns", self.timeout_ns),
        ];
        named.into_iter().try_for_each(|(name, value)| positive(name, value))?;
        let carried = match test {
            Test::Ping => protocol != Transport::Udp,
            Test::Latency | Test::Bandwidth => protocol != Transport::Icmp,
        };
        if !carried {
            return Err(PspingError::Protocol);
        }
        if test != Test::Ping {
            positive("request_bytes", self.request_bytes)?;
        }
        holdable("request_bytes", self.request_bytes)?;
        holdable("response_bytes", self.response_bytes)?;
        let mut sizes = if self.reverse {
            (self.response_bytes, self.request_bytes)
        } else {
            (self.request_bytes, self.response_bytes)
        };
        if protocol == Transport::Udp {
            let least = COMPACT_BYTES as u64;
            sizes = (sizes.0.max(least), sizes.1.max(least));
            if sizes.0.max(sizes.1) > MOST_DATAGRAM_BYTES {
                return Err(PspingError::Datagram);
            }
        }
        Ok(RequestPlan {
            sizes,
            total: self.count + self.warmup,
            warmup: self.warmup,
            interval: Nanos(self.interval_ns),
            window: if test == Test::Bandwidth { self.outstanding } else { 1 },
            timeout: Nanos(self.timeout_ns),
            limit: self.limit_ns.map(Nanos),
        })
    }
}

impl RequestPlan {
    /// The number of request `k`, below 0 during the warm-up.
    #[must_use]
    pub const fn seq(&self, k: u64) -> i64 {
        k as i64 - self.warmup as i64
    }

    /// Bytes that the test is about: of the larger of request and answer.
    #[must_use]
    pub fn payload_bytes(&self) -> i64 {
        self.sizes.0.max(self.sizes.1) as i64
    }

    /// When it must end.
    #[must_use]
    pub fn end(&self, begun: Nanos) -> Nanos {
        self.limit.map_or(Nanos::MAX, |limit| begun + limit)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing;
    use super::*;

    fn read(test: &str, protocol: &str, more: &str) -> Psping {
        let text = format!(
            r#"{{"test": "{test}", "protocol": "{protocol}", "request_bytes": 32, "count": 10, "warmup": 0,
                "outstanding": 1{more}}}"#
        );
        testing::of(&text).unwrap()
    }

    #[test]
    fn a_latency_test_has_one_request_under_way_whatever_outstanding_says() {
        let plan = read("latency", "tcp", r#", "outstanding": 16, "warmup": 5"#).plan().unwrap();
        assert_eq!((plan.window, plan.total, plan.sizes), (1, 15, (32, 1)));
        assert_eq!((plan.seq(0), plan.seq(5)), (-5, 0));
        assert_eq!(read("bandwidth", "tcp", r#", "outstanding": 16"#).plan().unwrap().window, 16);
    }

    #[test]
    fn reverse_swaps_the_sizes_and_the_larger_is_what_the_test_is_about() {
        let plan = read("bandwidth", "tcp", r#", "reverse": true"#).plan().unwrap();
        assert_eq!((plan.sizes, plan.payload_bytes()), ((1, 32), 32));
    }

    #[test]
    fn datagrams_hold_at_least_their_header() {
        assert_eq!(read("latency", "udp", "").plan().unwrap().sizes, (32, COMPACT_BYTES as u64));
        let large = Psping { request_bytes: MOST_DATAGRAM_BYTES + 1, ..read("latency", "udp", "") };
        assert_eq!(large.plan(), Err(PspingError::Datagram));
    }

    #[test]
    fn each_test_has_its_protocols() {
        let played = |test, protocol| read(test, protocol, "").plan().is_ok();
        for (test, protocols) in
            [("ping", ["icmp", "tcp"]), ("latency", ["tcp", "udp"]), ("bandwidth", ["tcp", "udp"])]
        {
            for protocol in ["icmp", "tcp", "udp"] {
                assert_eq!(played(test, protocol), protocols.contains(&protocol), "{test} over {protocol}");
            }
        }
    }

    #[test]
    fn what_no_end_could_play_is_named() {
        let error = Psping { timeout_ns: 0, ..read("latency", "tcp", "") }.plan().unwrap_err();
        assert_eq!(error.to_string(), "timeout_ns must be above 0");
        let empty = Psping { request_bytes: 0, ..read("latency", "tcp", "") };
        assert_eq!(empty.plan().unwrap_err().to_string(), "request_bytes must be above 0");
        assert!(Psping { request_bytes: 0, ..read("ping", "icmp", "") }.plan().is_ok());
    }
}
