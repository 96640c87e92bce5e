//! Parameters of a workload, strictly: an unknown one is an error, and each error says which.

use super::pacing::Pacing;
use anyhow::{Context, bail};
use serde::Deserialize;
use serde_json::{Map, Value};

/// What a receiver does while nothing comes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Idle {
    /// Sleeps in the kernel.
    #[default]
    Sleep,
    /// Asks again and again; takes a CPU.
    Poll,
}

/// Who measures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Meter {
    /// This probe.
    #[default]
    Virtlab,
    /// `ping` of iputils.
    Ping,
    /// `iperf3`.
    Iperf3,
}

impl std::fmt::Display for Meter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Virtlab => "virtlab",
            Self::Ping => "ping",
            Self::Iperf3 => "iperf3",
        })
    }
}

/// What every workload may be given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Common {
    /// Who measures.
    #[serde(default)]
    pub meter: Meter,
    /// What receivers do while nothing comes.
    #[serde(default)]
    pub idle: Idle,
    /// How senders wait; absent: the workload's own default.
    #[serde(default)]
    pub pacing: Option<Pacing>,
    /// Bytes of samples that this role may keep; absent: shared with the other roles of the guest.
    #[serde(default)]
    pub spool_bytes: Option<u64>,
    /// Code point (RFC 2474) of its packets.
    #[serde(default)]
    pub dscp: u8,
}

const COMMON: [&str; 5] = ["meter", "idle", "pacing", "spool_bytes", "dscp"];

/// Splits the parameters into common ones and the workload's own.
///
/// # Errors
/// When a common parameter has no sensible value.
pub fn split(parameters: &Map<String, Value>) -> anyhow::Result<(Common, Map<String, Value>)> {
    let (common, own): (Map<_, _>, Map<_, _>) = parameters
        .iter()
        .filter(|(_, value)| !value.is_null())
        .map(|(name, value)| (name.clone(), value.clone()))
        .partition(|(name, _)| COMMON.contains(&name.as_str()));
    let common: Common = serde_json::from_value(Value::Object(common)).context("parameters")?;
    if common.dscp > 63 {
        bail!("parameters.dscp must be at most 63");
    }
    if common.dscp > 0 && common.meter != Meter::Virtlab {
        bail!("parameters.dscp: only virtlab's own meter writes code points; remove it or 'meter'");
    }
    Ok((common, own))
}

#[cfg(test)]
mod tests {
    use super::*;
    use virtlab_load::parameters::{TcpRr, read};

    fn object(text: &str) -> Map<String, Value> {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn common_parameters_are_told_from_the_workloads_own() {
        let (common, own) = split(&object(r#"{"idle": "poll", "count": 3, "rate_pps": null}"#)).unwrap();
        assert_eq!(common.idle, Idle::Poll);
        assert_eq!(own.len(), 1);
    }

    #[test]
    fn an_unknown_parameter_is_named() {
        let error = read::<TcpRr>(&object(r#"{"request_bytes": 3, "reqest_bytes": 4}"#)).unwrap_err();
        assert!(error.to_string().contains("reqest_bytes"), "{error}");
        assert!(split(&object(r#"{"idle": "doze"}"#)).is_err());
    }
}
