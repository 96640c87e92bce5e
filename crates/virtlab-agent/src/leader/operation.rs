//! The typed kernel operations that the control plane asks for, as they stand in JSON.
//!
//! An operation says what is to be; it holds no shell text and no undo (the leader knows how to undo a failed batch, and
//! the world dies with its leader).

use crate::leader::bridge_port::Rules;
use crate::leader::traffic::Curve;
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
    /// A virtual machine's port: a tap, to be passed on with `exec`. Up and with a carrier while somebody has it open.
    Tap {
        namespace: String,
        name: String,
        mtu_bytes: Option<u32>,
        /// The bridge it is a port of.
        master: Option<String>,
        /// Frames carry what their receiver still has to do.
        #[serde(default)]
        offloads: bool,
    },
    /// The network that the leader was born in, known by `name` from now on: of use where a whole machine is the guest's.
    Home { name: String },
    /// The interface with this MAC, which the leader did not make, is called `name` from now on.
    Claim { namespace: String, name: String, mac: String },
    /// A VXLAN interface whose datagrams go through interface `through` of another namespace, `carrier`.
    Vxlan {
        namespace: String,
        name: String,
        mac: Option<String>,
        mtu_bytes: Option<u32>,
        carrier: String,
        through: String,
        id: u32,
        port: u16,
        local: String,
    },
    /// Frames to `mac` (all zeros: to nobody known, and to all) leave VXLAN interface `link` for the host at `address`.
    TunnelPeer { namespace: String, link: String, mac: String, address: String },
    /// Changes an interface that exists.
    Link {
        namespace: String,
        link: String,
        up: Option<bool>,
        mtu_bytes: Option<u32>,
        mac: Option<String>,
        master: Option<String>,
        /// How many segments TCP may hand over as one packet.
        segments_at_once: Option<u32>,
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
        /// Bytes that may go at once at ceil; absent: `burst_bytes`.
        cburst_bytes: Option<u32>,
        /// 0 (served first) to 7.
        #[serde(default)]
        prio: u32,
        /// Bytes in a turn among equals; absent: the burst within 1600 to 60,000.
        quantum_bytes: Option<u32>,
        /// Octets per frame beyond what the kernel counts (Ethernet header included).
        #[serde(default)]
        overhead_bytes: u16,
        /// Least octets that a frame counts for.
        #[serde(default)]
        minimum_bytes: u16,
    },
    /// A class of HFSC; a curve is its first slope in bit/s, the length of the first piece in ns, its second slope.
    HfscClass {
        namespace: String,
        link: String,
        parent: String,
        handle: String,
        real_time: Option<Curve>,
        link_share: Option<Curve>,
        upper_limit: Option<Curve>,
    },
    /// Packets that the kernel's own FIFOs at an interface take for their limit (`txqueuelen`).
    QueueLength { namespace: String, link: String, packets: u32 },
    /// A class of DRR.
    DrrClass { namespace: String, link: String, parent: String, handle: String, quantum_bytes: u32 },
    /// A filter: frames of `protocol` (an EtherType, 3 for all) that it matches go to class `target`; the smallest preference is
    /// asked first.
    Filter {
        namespace: String,
        link: String,
        parent: String,
        preference: u16,
        protocol: u16,
        target: String,
        matcher: Matcher,
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
    /// Link emulation: each frame holds the port for its time at `rate_bit_per_s` (0: for none), and arrives `delay_ns`
    /// later.
    Netem {
        rate_bit_per_s: u64,
        #[serde(default)]
        delay_ns: u64,
        limit_packets: u32,
        /// Octets per frame beyond what the kernel counts.
        #[serde(default)]
        overhead_bytes: i32,
        /// Share of frames that are lost at random.
        #[serde(default)]
        loss_ratio: f64,
    },
    /// Controlled delay; what is absent here and below is whatever the kernel's own is.
    Codel { limit_packets: Option<u32>, target_ns: Option<u64>, interval_ns: Option<u64>, ecn: Option<bool> },
    /// The same in every flow.
    FqCodel {
        limit_packets: Option<u32>,
        target_ns: Option<u64>,
        interval_ns: Option<u64>,
        ecn: Option<bool>,
        flows: Option<u32>,
        quantum_bytes: Option<u32>,
        memory_limit_bytes: Option<u32>,
        drop_batch: Option<u32>,
    },
    /// Stochastic fairness; the kernel counts `perturb_ns` in whole seconds.
    Sfq {
        limit_packets: Option<u32>,
        quantum_bytes: Option<u32>,
        perturb_ns: Option<u64>,
        flows: Option<u32>,
        depth: Option<u32>,
        divisor: Option<u32>,
    },
    /// Hierarchical fair service curves.
    Hfsc { default_class: Option<u16> },
    /// Strict priority over `bands`; frames that no filter takes go to `band`, absent: by their priority.
    Prio { bands: Option<u8>, band: Option<u8> },
    /// Deficit round robin.
    Drr,
    /// Three bands by priority, limited by the interface's `txqueuelen`.
    PfifoFast,
    /// Without options.
    Fq,
    /// Without options.
    Ingress,
}

/// How a filter looks at a frame.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Matcher {
    /// Words at offsets from the network header, all of which must agree under their masks: offset, mask, value.
    U32 { keys: Vec<[u32; 3]> },
    /// Header fields by name; `network` is the EtherType behind the tag where there is one.
    Flower {
        vlan_priority: Option<u8>,
        network: Option<u16>,
        dscp: Option<u8>,
        protocol: Option<u8>,
        source: Option<String>,
        destination: Option<String>,
    },
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
            Self::Codel { .. } => "codel",
            Self::FqCodel { .. } => "fq_codel",
            Self::Sfq { .. } => "sfq",
            Self::Hfsc { .. } => "hfsc",
            Self::Prio { .. } => "prio",
            Self::Drr => "drr",
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
