//! What the control plane asks of the soft switch.

use super::timing::Spin;
use serde::Deserialize;
use std::collections::BTreeMap;
use virtlab_fabric::{Layout, LinkLayout, Mac, SwitchLayout};

/// Most frames that `record` keeps, so that its reply fits one message.
pub const RECORD_MAXIMUM: usize = 4000;

/// One request; unknown ones and unknown fields are refused.
#[derive(Debug, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case", deny_unknown_fields)]
pub enum Request {
    /// Agree on the protocol.
    Hello {
        /// Major and minor version.
        protocol: (u16, u16),
    },
    /// Read the clocks.
    Clock {},
    /// Build a fabric and open its ports; replaces one that is stopped.
    Configure(Box<Configure>),
    /// Forward from now on; what arrived before is thrown away.
    Start {},
    /// Counters and lateness since `start` or `reset`.
    Stats {},
    /// Counters and lateness begin again at zero.
    Reset {},
    /// Stations move: by switch, the ports that their static entries name from now on.
    Move { forwarding: BTreeMap<String, BTreeMap<Mac, String>> },
    /// A link sends at a rate from now on, both ways.
    Rate { link: String, bit_per_s: u64 },
    /// A link is cut from now on, both ways, or carries frames again; nothing changes where it does already.
    State { link: String, up: bool },
    /// Keep the next arrivals and departures.
    Record {
        /// How many arrivals.
        frames: usize,
    },
    /// Give what was kept.
    Recorded {},
    /// Forward no more.
    Stop {},
    /// End.
    Bye {},
}

/// A fabric and how to play it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Configure {
    ports: BTreeMap<String, Port>,
    #[serde(default)]
    switches: BTreeMap<String, SwitchLayout>,
    links: BTreeMap<String, LinkLayout>,
    #[serde(default)]
    forwarding: BTreeMap<String, BTreeMap<Mac, String>>,
    /// Largest IP packet of all ports.
    pub mtu_bytes: usize,
    /// Sleep or spin.
    #[serde(default)]
    pub spin: Spin,
    /// CPU to stay on.
    #[serde(default)]
    pub cpu: Option<usize>,
    /// Priority under SCHED_FIFO.
    #[serde(default)]
    pub fifo_priority: Option<i32>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Port {
    ifname: String,
}

impl Configure {
    /// The fabric.
    pub fn layout(&self) -> Layout {
        Layout {
            ports: self.ports.keys().cloned().collect(),
            switches: self.switches.clone(),
            links: self.links.clone(),
            forwarding: self.forwarding.clone(),
        }
    }

    /// Ports and the interfaces that realise them, in the order of names.
    pub fn interfaces(&self) -> impl Iterator<Item = (&str, &str)> {
        self.ports.iter().map(|(name, port)| (name.as_str(), port.ifname.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_requests_and_fields_are_refused() {
        assert!(serde_json::from_str::<Request>(r#"{"do": "start"}"#).is_ok());
        assert!(serde_json::from_str::<Request>(r#"{"do": "start", "soon": 1}"#).is_err());
        assert!(serde_json::from_str::<Request>(r#"{"do": "fly"}"#).is_err());
        assert!(
            serde_json::from_str::<Request>(
                r#"{"do": "configure", "ports": {}, "links": {}, "mtu_bytes": 1, "colour": 1}"#
            )
            .is_err()
        );
    }

    #[test]
    fn a_link_is_taken_as_the_plan_writes_it() {
        let text = r#"{"do": "configure", "ports": {"h1.up": {"ifname": "p0"}, "h2.up": {"ifname": "p1"}}, "mtu_bytes": 1500,
            "links": {"l": {"ends": ["h1.up", "h2.up"], "rate_bit_per_s": 100000000, "propagation_ns": 0, "realise": "auto",
            "queue": {"ab": {"kind": "fifo", "limit_packets": 100, "by": "auto"}, "ba": {"limit_bytes": 9000}}}}}"#;
        let Request::Configure(configure) = serde_json::from_str(text).unwrap() else {
            panic!("another request")
        };
        assert_eq!(configure.layout().check(), Ok(()));
        assert_eq!(configure.spin, Spin::Auto);
    }
}
