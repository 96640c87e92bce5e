//! The typed kernel operations that the control plane asks for, as they are in JSON.
//!
//! An operation says what is to be; it holds no shell text and no undo (the leader knows how to undo a failed
//! batch, and the world dies with its leader).

use crate::kernel::bridge_port::Rules;
use crate::kernel::discipline::Discipline;
use crate::kernel::traffic::Matcher;
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

/// Whom the users 0, 1, ... of a user namespace are outside: as many from `first` on.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Users {
    pub first: u32,
    pub count: u32,
}

/// One kernel operation.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case", deny_unknown_fields)]
pub enum Operation {
    /// A new network namespace, known by `name`; with `users`, it belongs to a new user namespace.
    /// What is started there has a disk in memory of `disk_bytes`.
    Namespace { name: String, users: Option<Users>, disk_bytes: Option<u64> },
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
    /// The network that the leader was born in, known by `name` from now on: of use where a whole machine is the
    /// guest's.
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
    /// Frames to `mac` (all zeros: to unknown addresses, and to all) leave VXLAN interface `link` for the host at
    /// `address`.
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
    /// A class of a discipline, with its own options.
    Class { namespace: String, link: String, parent: String, handle: String, discipline: Discipline },
    /// Packets that the kernel's own FIFOs at an interface take for their limit (`txqueuelen`).
    QueueLength { namespace: String, link: String, packets: u32 },
    /// A filter: frames of `protocol` (an EtherType, 3 for all) that it matches go to class `target`; the smallest
    /// preference is asked first.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::netlink::Request;

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
        assert_eq!(parent, "root");
        assert!(discipline.put(Request::new(0, 0)).is_ok());
    }
}
