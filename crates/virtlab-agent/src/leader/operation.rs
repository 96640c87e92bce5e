//! The typed kernel operations that the control plane asks for, as they stand in JSON.
//!
//! An operation says what is to be; it holds no shell text and no undo (the leader knows how to undo a failed batch, and
//! the world dies with its leader).

use crate::leader::bridge_port::Rules;
use serde::Deserialize;
use std::collections::BTreeMap;

/// One end of a veth pair.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct End {
    pub namespace: String,
    pub name: String,
    pub mac: Option<String>,
    pub mtu_bytes: Option<u32>,
    /// The bridge it is a port of.
    pub master: Option<String>,
}

/// One kernel operation.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case", deny_unknown_fields)]
pub enum Operation {
    /// A new network namespace, known by `name`.
    Namespace { name: String },
    /// A cable of two virtual Ethernet ports, both down.
    Veth { ends: [End; 2] },
    /// A Linux bridge without spanning tree.
    Bridge {
        namespace: String,
        name: String,
        mac: Option<String>,
        mtu_bytes: Option<u32>,
        /// Whether it listens to IGMP and MLD instead of flooding multicast.
        #[serde(default)]
        multicast_snooping: bool,
    },
    /// An interface that swallows what it is given.
    Dummy { namespace: String, name: String, mac: Option<String>, mtu_bytes: Option<u32> },
    /// Changes an interface that exists.
    Link {
        namespace: String,
        link: String,
        up: Option<bool>,
        mtu_bytes: Option<u32>,
        mac: Option<String>,
        master: Option<String>,
    },
    /// An interface address with its prefix length.
    Address { namespace: String, link: String, address: String },
    /// A static route; `via` absent means that the network is on the link.
    Route { namespace: String, link: String, to: String, via: Option<String> },
    /// A permanent neighbour entry.
    Neighbour { namespace: String, link: String, address: String, mac: String },
    /// A static forwarding entry of the bridge that `link` is a port of.
    Forwarding { namespace: String, link: String, mac: String },
    /// What a bridge does at its port `link`.
    BridgePort { namespace: String, link: String, rules: Rules },
    /// A queue discipline at an interface.
    Qdisc {
        namespace: String,
        link: String,
        /// `root` or a class, `1:1`.
        #[serde(default = "root")]
        parent: String,
        /// `1:`; the kernel chooses when absent.
        handle: Option<String>,
        discipline: Discipline,
    },
    /// A class of HTB.
    Class {
        namespace: String,
        link: String,
        parent: String,
        handle: String,
        rate_bit_per_s: u64,
        ceil_bit_per_s: u64,
        burst_bytes: u32,
        /// Octets per frame beyond what the kernel counts (Ethernet header included).
        #[serde(default)]
        overhead_bytes: u16,
        /// Least octets that a frame counts for.
        #[serde(default)]
        minimum_bytes: u16,
    },
    /// A value under `/proc/sys` of the namespace, `net/ipv4/ip_forward`.
    Sysctl { namespace: String, path: String, value: String },
    /// Offloads of an interface: `rx`, `tx`, `sg`, `tso`, `gso`, `gro`.
    Offload { namespace: String, link: String, features: BTreeMap<String, bool> },
}

fn root() -> String {
    "root".to_owned()
}

/// Queue disciplines with the options that this agent can encode.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Discipline {
    /// Hierarchical token bucket; unclassified frames go to class `default_class` of its handle.
    Htb {
        default_class: u32,
        /// Packets that may wait outside any class.
        #[serde(default = "thousand")]
        direct_limit_packets: u32,
    },
    /// Token bucket.
    Tbf {
        rate_bit_per_s: u64,
        burst_bytes: u32,
        limit_bytes: u32,
        #[serde(default)]
        overhead_bytes: u16,
        #[serde(default)]
        minimum_bytes: u16,
    },
    /// First in, first out, limited in packets.
    Pfifo { limit_packets: u32 },
    /// First in, first out, limited in bytes.
    Bfifo { limit_bytes: u32 },
    /// Link emulation: each frame holds the port for its time at `rate_bit_per_s`, and arrives `delay_ns` later.
    Netem {
        rate_bit_per_s: u64,
        #[serde(default)]
        delay_ns: u64,
        limit_packets: u32,
        /// Octets per frame beyond what the kernel counts.
        #[serde(default)]
        overhead_bytes: i32,
    },
    /// Without options: whatever the kernel's own are.
    Codel,
    /// As above.
    FqCodel,
    /// As above.
    Sfq,
    /// As above.
    Hfsc,
    /// As above.
    Prio,
    /// As above.
    PfifoFast,
    /// As above.
    Fq,
    /// As above.
    Ingress,
}

fn thousand() -> u32 {
    1000
}

impl Discipline {
    /// The kernel's name of the discipline.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Htb { .. } => "htb",
            Self::Tbf { .. } => "tbf",
            Self::Pfifo { .. } => "pfifo",
            Self::Bfifo { .. } => "bfifo",
            Self::Netem { .. } => "netem",
            Self::Codel => "codel",
            Self::FqCodel => "fq_codel",
            Self::Sfq => "sfq",
            Self::Hfsc => "hfsc",
            Self::Prio => "prio",
            Self::PfifoFast => "pfifo_fast",
            Self::Fq => "fq",
            Self::Ingress => "ingress",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_field_of_an_operation_is_an_error() {
        let text = r#"{"op": "namespace", "name": "x", "colour": "red"}"#;
        assert!(serde_json::from_str::<Operation>(text).unwrap_err().to_string().contains("colour"));
    }

    #[test]
    fn a_qdisc_carries_its_own_options() {
        let text = r#"{"op": "qdisc", "namespace": "a", "link": "eth0", "handle": "1:",
            "discipline": {"kind": "htb", "default_class": 1}}"#;
        let Operation::Qdisc { discipline, parent, .. } = serde_json::from_str(text).unwrap() else {
            panic!()
        };
        assert_eq!((discipline.kind(), parent.as_str()), ("htb", "root"));
    }
}
