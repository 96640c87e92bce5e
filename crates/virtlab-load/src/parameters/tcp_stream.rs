//! `tcp_stream`: bytes over one or more TCP connections as fast as they go, one way.

use super::{CongestionControl, OutOfRange, Role, holdable, positive};
use serde::{Deserialize, Serialize};

/// As a Plan calls it.
pub const NAME: &str = "tcp_stream";

/// Shortest time between two rows of a connection.
const LEAST_INTERVAL_NS: u64 = 1_000_000;

/// What a role says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TcpStream {
    /// Absent: until stopped.
    pub duration_ns: Option<u64>,
    /// Bytes of one write.
    pub message_bytes: u64,
    /// SO_SNDBUF; absent: the system's.
    pub send_buffer_bytes: Option<u64>,
    /// SO_RCVBUF; absent: the system's.
    pub receive_buffer_bytes: Option<u64>,
    /// Absent: the system's.
    pub congestion_control: Option<CongestionControl>,
    /// Connections.
    pub streams: u16,
    /// Without Nagle's algorithm.
    pub no_delay: bool,
    /// Between two rows of a connection.
    pub interval_ns: u64,
}

impl Role for TcpStream {
    const NAME: &str = NAME;
}

impl TcpStream {
    /// # Errors
    /// The first parameter that no end could play.
    pub fn check(&self) -> Result<(), OutOfRange> {
        positive("message_bytes", self.message_bytes)?;
        positive("streams", u64::from(self.streams))?;
        holdable("message_bytes", self.message_bytes)?;
        if self.interval_ns < LEAST_INTERVAL_NS {
            return Err(OutOfRange::new("interval_ns", "is at least 1 ms"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing;
    use super::*;

    fn read(text: &str) -> TcpStream {
        testing::of(text).unwrap()
    }

    #[test]
    fn an_empty_role_is_one_stream_until_stopped_with_the_systems_own_buffers() {
        let own = read("{}");
        assert_eq!((own.streams, own.message_bytes, own.interval_ns), (1, 16_384, 100_000_000));
        assert_eq!((own.duration_ns, own.send_buffer_bytes, own.congestion_control), (None, None, None));
        assert_eq!(own.check(), Ok(()));
    }

    #[test]
    fn what_no_end_could_play_is_named() {
        for (text, name) in [
            (r#"{"message_bytes": 0}"#, "message_bytes"),
            (r#"{"message_bytes": 67108865}"#, "message_bytes"),
            (r#"{"streams": 0}"#, "streams"),
            (r#"{"interval_ns": 999999}"#, "interval_ns"),
        ] {
            assert_eq!(read(text).check().unwrap_err().name, name, "{text}");
        }
        assert!(testing::of::<TcpStream>(r#"{"colour": 1}"#).is_err());
    }
}
