//! `tcp_rr`: one request, one response, one at a time, over one TCP connection.

use super::{CongestionControl, OutOfRange, Role, holdable, positive};
use serde::{Deserialize, Serialize};

/// As a Plan calls it.
pub const NAME: &str = "tcp_rr";

/// What a role says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TcpRr {
    /// Absent: until stopped.
    pub duration_ns: Option<u64>,
    /// Bytes of a request.
    pub request_bytes: u64,
    /// Bytes of its response.
    pub response_bytes: u64,
    /// SO_SNDBUF; absent: the system's.
    pub send_buffer_bytes: Option<u64>,
    /// SO_RCVBUF; absent: the system's.
    pub receive_buffer_bytes: Option<u64>,
    /// Absent: the system's.
    pub congestion_control: Option<CongestionControl>,
}

impl Role for TcpRr {
    const NAME: &str = NAME;
}

impl TcpRr {
    /// # Errors
    /// The first parameter that no end could play.
    pub fn check(&self) -> Result<(), OutOfRange> {
        for (name, bytes) in [("request_bytes", self.request_bytes), ("response_bytes", self.response_bytes)]
        {
            positive(name, bytes)?;
            holdable(name, bytes)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing;
    use super::*;

    #[test]
    fn a_request_and_its_response_are_a_byte_each_unless_said() {
        let own: TcpRr = testing::of("{}").unwrap();
        assert_eq!((own.request_bytes, own.response_bytes, own.check()), (1, 1, Ok(())));
    }

    #[test]
    fn what_no_end_could_play_is_named() {
        let own: TcpRr = testing::of(r#"{"response_bytes": 0}"#).unwrap();
        assert_eq!(own.check().unwrap_err().to_string(), "response_bytes must be above 0");
    }
}
