//! Parameters of workloads as a Plan holds them, for their players: the probe on sockets, the simulator in
//! virtual time. Defaults are theirs, and what no end could do is said with the parameter's name.

pub mod http_get;
pub mod psping;
pub mod rt_tasks;
pub mod tcp_rr;
pub mod tcp_stream;

pub use http_get::HttpGet;
pub use psping::{Psping, PspingError, Test};
pub use rt_tasks::RtTasks;
pub use tcp_rr::TcpRr;
pub use tcp_stream::TcpStream;

use serde::{Deserialize, Serialize};

/// Largest message, request or response.
pub const MOST_BYTES: u64 = 64 << 20;

/// How a connection answers congestion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CongestionControl {
    /// RFC 9438; Linux's default.
    #[default]
    Cubic,
    /// RFC 5681, which Linux calls reno.
    NewReno,
}

impl CongestionControl {
    /// Linux's name.
    #[must_use]
    pub const fn kernel_name(self) -> &'static str {
        match self {
            Self::Cubic => "cubic",
            Self::NewReno => "reno",
        }
    }
}

/// A parameter that no end could play.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name} {what}")]
pub struct OutOfRange {
    /// Of the parameter.
    pub name: &'static str,
    /// What is wrong with its value.
    pub what: &'static str,
}

/// Above 0, for what is divided by or would never end.
fn positive(name: &'static str, value: u64) -> Result<(), OutOfRange> {
    if value == 0 { Err(OutOfRange { name, what: "must be above 0" }) } else { Ok(()) }
}

/// A size that one buffer holds.
fn holdable(name: &'static str, bytes: u64) -> Result<(), OutOfRange> {
    if bytes > MOST_BYTES { Err(OutOfRange { name, what: "is at most 64 MiB" }) } else { Ok(()) }
}
