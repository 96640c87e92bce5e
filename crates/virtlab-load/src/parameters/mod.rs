//! Parameters of workloads as a Plan holds them, for their players: the probe on sockets, the simulator in
//! virtual time. What no end could do is said with the parameter's name. What a Plan may leave out is in
//! `defaults.json` of the catalogue, which completes files by it; [`read`] completes Plans by it.

pub mod burst_load;
pub mod dirty;
pub mod files;
pub mod http_get;
pub mod objects;
pub mod psping;
pub mod raw_stream;
pub mod request_response;
pub mod rt_tasks;
pub mod rtt;
pub mod tcp_rr;
pub mod tcp_stream;
pub mod udp_stream;

pub use burst_load::BurstLoad;
pub use dirty::Dirty;
pub use files::Files;
pub use http_get::HttpGet;
pub use objects::Objects;
pub use psping::{Psping, PspingError, Test};
pub use raw_stream::RawStream;
pub use request_response::RequestResponse;
pub use rt_tasks::RtTasks;
pub use rtt::Rtt;
pub use tcp_rr::TcpRr;
pub use tcp_stream::TcpStream;
pub use udp_stream::UdpStream;

use crate::size::{PacketSize, SizeError, Transport};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::sync::LazyLock;
use virtlab_wire::probe_header::COMPACT_BYTES;

/// Largest message, request or response.
pub const MOST_BYTES: u64 = 64 << 20;

/// By workload and name.
static DEFAULTS: LazyLock<Map<String, Value>> = LazyLock::new(|| {
    serde_json::from_str(include_str!("../../../../python/virtlab/catalogue/workloads/defaults.json"))
        .expect("defaults.json holds parameters by workload")
});

/// The parameters of a workload.
pub trait Role: DeserializeOwned {
    /// As a Plan calls it.
    const NAME: &'static str;
}

/// The parameters of a Plan's role, strictly.
///
/// # Errors
/// When one is unknown, missing or of the wrong kind; the message names it.
pub fn read<T: Role>(given: &Map<String, Value>) -> serde_json::Result<T> {
    let mut all = DEFAULTS.get(T::NAME).and_then(Value::as_object).cloned().unwrap_or_default();
    all.extend(given.clone());
    serde_json::from_value(Value::Object(all))
}

/// Connections of one role.
const CONNECTIONS_MOST: u16 = 1024;

fn connections(count: u16) -> Result<(), OutOfRange> {
    positive("connections", u64::from(count))?;
    if count > CONNECTIONS_MOST {
        return Err(OutOfRange::new("connections", "are at most 1024"));
    }
    Ok(())
}

/// Of a GET, as HTTP's first line can hold it.
fn request_target(path: &str) -> Result<(), OutOfRange> {
    let plain = path.bytes().all(|byte| byte.is_ascii_graphic());
    if !path.starts_with('/') || !plain || path.len() > 1024 {
        return Err(OutOfRange::new("path", "begins with '/' and has at most 1024 visible ASCII characters"));
    }
    Ok(())
}

/// What a role says of its TCP sockets; absent: the system's.
#[derive(Clone, Copy, Debug, Default)]
pub struct Buffers {
    /// SO_SNDBUF.
    pub send_bytes: Option<u64>,
    /// SO_RCVBUF.
    pub receive_bytes: Option<u64>,
    /// TCP_CONGESTION.
    pub congestion_control: Option<CongestionControl>,
}

macro_rules! with_buffers {
    ($($role:ty),*) => {$(
        impl $role {
            /// What it says of its sockets.
            #[must_use]
            pub const fn buffers(&self) -> Buffers {
                Buffers {
                    send_bytes: self.send_buffer_bytes,
                    receive_bytes: self.receive_buffer_bytes,
                    congestion_control: self.congestion_control,
                }
            }
        }
    )*};
}

with_buffers!(HttpGet, RequestResponse, TcpRr, TcpStream);

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
    /// The parameter's name.
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

#[cfg(test)]
pub(crate) mod testing {
    use super::{Role, read};

    /// From JSON, as of a Plan.
    pub fn of<T: Role>(text: &str) -> serde_json::Result<T> {
        read(&serde_json::from_str(text)?)
    }
}

#[cfg(test)]
mod tests {
    use super::testing::of;
    use super::*;

    #[test]
    fn what_is_given_comes_before_what_is_usual() {
        let own: TcpRr = of(r#"{"request_bytes": 7}"#).unwrap();
        assert_eq!((own.request_bytes, own.response_bytes), (7, 1));
    }

    #[test]
    fn every_workload_in_the_file_of_defaults_has_parameters() {
        let known = [
            burst_load::NAME,
            http_get::NAME,
            psping::NAME,
            request_response::NAME,
            rt_tasks::NAME,
            rtt::NAME,
            tcp_rr::NAME,
            tcp_stream::NAME,
        ];
        assert!(DEFAULTS.keys().eq(&known), "{:?}", *DEFAULTS);
    }
}
