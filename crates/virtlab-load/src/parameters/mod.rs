//! Parameters of workloads as a Plan holds them, for their players: the probe on sockets, the simulator in
//! virtual time. Defaults are theirs, and what no end could do is said with the parameter's name.

pub mod burst_load;
pub mod http_get;
pub mod psping;
pub mod raw_stream;
pub mod request_response;
pub mod rt_tasks;
pub mod rtt;
pub mod tcp_rr;
pub mod tcp_stream;
pub mod udp_stream;

pub use burst_load::BurstLoad;
pub use http_get::HttpGet;
pub use psping::{Psping, PspingError, Test};
pub use raw_stream::RawStream;
pub use request_response::RequestResponse;
pub use rt_tasks::RtTasks;
pub use rtt::Rtt;
pub use tcp_rr::TcpRr;
pub use tcp_stream::TcpStream;
pub use udp_stream::UdpStream;

use crate::size::{PacketSize, SizeError, Transport};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use virtlab_wire::probe_header::COMPACT_BYTES;

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

/// What carries packets without a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Carrier {
    /// ICMP or ICMPv6 echoes; the far kernel answers.
    Icmp,
    /// Datagrams; the far player answers.
    Udp,
}

impl From<Carrier> for Transport {
    fn from(carrier: Carrier) -> Self {
        match carrier {
            Carrier::Icmp => Self::Icmp,
            Carrier::Udp => Self::Udp,
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
    pub what: Cow<'static, str>,
}

impl OutOfRange {
    fn new(name: &'static str, what: impl Into<Cow<'static, str>>) -> Self {
        Self { name, what: what.into() }
    }
}

/// Above 0, for what is divided by or would never end.
fn positive(name: &'static str, value: u64) -> Result<(), OutOfRange> {
    if value == 0 { Err(OutOfRange::new(name, "must be above 0")) } else { Ok(()) }
}

/// A size that one buffer holds.
fn holdable(name: &'static str, bytes: u64) -> Result<(), OutOfRange> {
    if bytes > MOST_BYTES { Err(OutOfRange::new(name, "is at most 64 MiB")) } else { Ok(()) }
}

/// Why packets of a role have no size.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum PacketError {
    /// Impossible on this path.
    #[error(transparent)]
    Size(#[from] SizeError),
    /// Too small for the header of the player, by which it tells packets apart.
    #[error("{0} B of payload cannot hold a number and an instant; at least {COMPACT_BYTES} B")]
    NoHeader(u32),
}

/// The size of a datagram, which holds a header of its player.
fn with_header(size: PacketSize) -> Result<PacketSize, PacketError> {
    let holds = size.payload_bytes as usize >= COMPACT_BYTES;
    if holds { Ok(size) } else { Err(PacketError::NoHeader(size.payload_bytes)) }
}
