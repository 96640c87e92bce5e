//! `http_get`: GET requests over HTTP/1.1 and their answers, on one or more connections.

use super::request_response::{Protocol, RequestResponse};
use super::{CongestionControl, OutOfRange, Role, connections, holdable, positive, request_target};
use crate::schedule::Arrivals;
use serde::Deserialize;

/// As a Plan calls it.
pub const NAME: &str = "http_get";

/// What a role says.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HttpGet {
    /// For which requests are due; absent: until stopped.
    pub duration_ns: Option<u64>,
    /// On each there is one request at a time.
    pub connections: u16,
    /// Whether a connection carries more than one request.
    pub keep_alive: bool,
    /// Target of the requests.
    pub path: String,
    /// Whose answers are as long as it makes them; absent: a server of ours.
    pub service: Option<String>,
    /// Body of the answer.
    pub response_bytes: u64,
    /// Requests due per second, whatever has been answered; absent: each follows the answer before.
    pub rate_per_s: Option<u64>,
    /// How those are spaced.
    #[serde(default)]
    pub arrivals: Arrivals,
    /// A request without a whole answer this long after it was due is given up.
    pub timeout_ns: u64,
    /// SO_SNDBUF; absent: the system's.
    pub send_buffer_bytes: Option<u64>,
    /// SO_RCVBUF; absent: the system's.
    pub receive_buffer_bytes: Option<u64>,
    /// Absent: the system's.
    pub congestion_control: Option<CongestionControl>,
}

impl Role for HttpGet {
    const NAME: &str = NAME;
}

impl HttpGet {
    /// What the client of requests is told, of which the rest is as usual.
    #[must_use]
    pub fn of_client(&self, usual: RequestResponse) -> RequestResponse {
        RequestResponse {
            duration_ns: self.duration_ns,
            rate_per_s: self.rate_per_s,
            arrivals: self.arrivals,
            protocol: Protocol::Http,
            service: self.service.clone(),
            path: Some(self.path.clone()),
            keep_alive: Some(self.keep_alive),
            connections: self.connections,
            response_bytes: self.response_bytes,
            timeout_ns: self.timeout_ns,
            ..usual
        }
    }

    /// # Errors
    /// The first parameter that no end could play.
    pub fn check(&self) -> Result<(), OutOfRange> {
        positive("timeout_ns", self.timeout_ns)?;
        positive("rate_per_s", self.rate_per_s.unwrap_or(1))?;
        holdable("response_bytes", self.response_bytes)?;
        connections(self.connections)?;
        request_target(&self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing;
    use super::*;

    fn read(text: &str) -> HttpGet {
        testing::of(text).unwrap()
    }

    #[test]
    fn one_connection_is_kept_and_asked_in_turns_unless_said() {
        let own = read("{}");
        assert_eq!((own.connections, own.keep_alive, own.rate_per_s, own.check()), (1, true, None, Ok(())));
    }

    #[test]
    fn a_path_that_would_split_the_head_is_named() {
        let own = read(r#"{"path": "/a\r\nHost: b"}"#);
        assert!(own.check().unwrap_err().to_string().starts_with("path begins with '/'"));
    }
}
