//! The lowered Plan: names resolved to places in lists, roles with their ends, the timeline as the Plan has it.

mod disks;
mod migration;
mod pools;
mod stores;

pub use disks::{DiskUsage, GuestDisk, Thresholds};
pub use migration::{Migration, Station};
pub use pools::{Pool, Sharing, Slicing, Usage, Used};
pub use stores::{Asker, Fluid, Messages, Store};

use crate::costs::Given;
use core::net::IpAddr;
use serde::Deserialize;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use virtlab_fabric::{Layout, Mac};
use virtlab_load::forwards::Bounds;
use virtlab_load::size::IpVersion;
use virtlab_timeline::{OnTimeout, Step, Trigger};

/// Why an input cannot be played: where in the Plan, the reason, the cure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Path in the Plan.
    pub path: String,
    /// The reason.
    pub reason: String,
    /// The cure.
    pub cure: String,
}

impl Finding {
    pub(crate) fn new(path: impl Into<String>, reason: impl Into<String>, cure: impl Into<String>) -> Self {
        Self { path: path.into(), reason: reason.into(), cure: cure.into() }
    }
}

/// Everything.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// Physical switches and links.
    pub fabric: Layout,
    /// Guests.
    pub guests: Vec<Guest>,
    /// Guests that share processors.
    #[serde(default)]
    pub pools: Vec<Pool>,
    /// Whose use of processors is sampled; empty: none is.
    #[serde(default)]
    pub usage: Vec<Usage>,
    /// Whose use of disks is sampled; empty: none is.
    #[serde(default)]
    pub disk_usage: Vec<DiskUsage>,
    /// Their ports.
    pub vnics: Vec<Vnic>,
    /// Virtual switches.
    pub vswitches: Vec<Vswitch>,
    /// Physical ports in front of which all guests of a host queue.
    #[serde(default)]
    pub uplinks: Vec<Uplink>,
    /// Guests that forward frames.
    #[serde(default)]
    pub bridging: Vec<Bridging>,
    /// Who has an address.
    pub neighbours: BTreeMap<IpAddr, Mac>,
    /// Guests ask each other for hardware addresses; absent: they know them from the start.
    #[serde(default)]
    pub resolution: Option<Resolution>,
    /// Kernels say of themselves what they say over IPv6; absent: they do not.
    #[serde(default)]
    pub noise: Option<Noise>,
    /// Workloads.
    pub roles: Vec<Role>,
    /// Servers that forward to another.
    #[serde(default)]
    pub passive: Vec<Passive>,
    /// Distributed stores.
    #[serde(default)]
    pub stores: Vec<Store>,
    /// Actions.
    pub timeline: Vec<Action>,
    /// Named intervals between events.
    pub windows: BTreeMap<String, (String, String)>,
    /// Groups of counters that are read at marks.
    pub counters: Vec<String>,
    /// Longest run.
    pub limit_ns: u64,
    /// What the platform costs; absent: nothing.
    #[serde(default)]
    pub costs: Option<Given>,
    /// Every frame has its events, and every message is taken at its own: what else is done must come to the same. Only
    /// tests ask for it.
    #[serde(default)]
    pub by_events: bool,
}

/// Guests that resolve addresses.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Resolution {
    /// Of the named streams of how long an answer is believed.
    pub seed: u64,
}

/// Kernels that speak of themselves.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Noise {
    /// Seed of the named streams that draw when they speak.
    pub seed: u64,
    /// Places of virtual switches that are interfaces themselves.
    pub bridges: Vec<usize>,
}

/// A guest.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Guest {
    /// Whether it is a router.
    pub forwards: bool,
    /// Processors that what works in it shares; absent: each has one of its own.
    #[serde(default)]
    pub processors: Option<f64>,
    /// What each request costs it beyond its demand, where a server works for it.
    #[serde(default)]
    pub request_ns: u64,
    /// Its disk; absent: it has none.
    #[serde(default)]
    pub disk: Option<GuestDisk>,
    /// Its own addresses.
    pub addresses: Vec<IpAddr>,
    /// Longest prefix first.
    pub routes: Vec<Route>,
}

/// A route of a guest.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Route {
    /// The network.
    pub network: IpAddr,
    /// Bits of it that count.
    pub prefix_bits: u32,
    /// Place of the vNIC.
    pub vnic: usize,
    /// Next hop; absent: the destination itself.
    pub via: Option<IpAddr>,
}

/// A port of a guest.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Vnic {
    /// Its name in the Plan, for counters.
    pub name: String,
    /// Place of its guest.
    pub guest: usize,
    /// Its address.
    pub mac: Mac,
    /// Largest IP packet.
    pub mtu_bytes: u32,
    /// Rate at which it holds back its sender.
    pub pushback_bit_per_s: Option<u64>,
    /// What its router may send there, at most.
    #[serde(default)]
    pub licence: Option<Licence>,
    /// Whether its frames are still their sender's in the queue that guests share in front of a wire.
    #[serde(default)]
    pub held: bool,
    /// Where it is plugged in.
    pub on: On,
}

/// A token bucket in front of a vNIC: frames as the kernel counts them, without FCS.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Licence {
    /// At which tokens come.
    pub rate_bit_per_s: u64,
    /// Tokens that it holds.
    pub burst_bytes: u32,
    /// Frames that may wait.
    pub limit_packets: u32,
}

/// Where a vNIC is plugged in.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum On {
    /// Place of the virtual switch.
    Vswitch(usize),
    /// Name of a port of the fabric.
    Port(String),
}

/// The queue in front of a host's wire that all its guests share.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Uplink {
    /// Name of the port of the fabric.
    pub port: String,
    /// Rate of the wire.
    pub rate_bit_per_s: u64,
    /// Frames that may wait.
    pub limit_packets: u32,
    /// Largest IP packet of the guests.
    pub mtu_bytes: u32,
}

/// A virtual switch.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Vswitch {
    /// By address, which way.
    pub ways: BTreeMap<Mac, Way>,
    /// Its ports.
    pub ports: Vec<Plug>,
    /// Whether a source address moves to the port at which it is seen.
    pub learns: bool,
    /// Whether a frame to an unknown address leaves through every port.
    pub floods: bool,
}

/// A port of a virtual switch.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plug {
    /// What lies behind it.
    pub way: Way,
    /// Exchanges no frame with another isolated port.
    pub isolated: bool,
}

/// A guest that forwards frames between its two vNICs.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bridging {
    /// Its place.
    pub guest: usize,
    /// By address, through which of its vNICs.
    pub ways: BTreeMap<Mac, usize>,
    /// Whether a source address moves to the vNIC at which it is seen.
    #[serde(default)]
    pub learns: bool,
}

/// Which way a frame goes from a virtual switch.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Way {
    /// Place of a vNIC.
    Vnic(usize),
    /// Name of a port of the fabric.
    Port(String),
}

/// A workload instance.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Role {
    /// Its name.
    pub name: String,
    /// Which workload.
    pub workload: String,
    /// Its own parameters.
    pub parameters: Map<String, Value>,
    /// Client and server.
    pub ends: [RoleEnd; 2],
    /// Whether its samples are kept.
    pub kept: bool,
    /// Requests after which it ends by itself; absent: it knows no such end.
    #[serde(default)]
    pub most: Option<u64>,
}

/// One end of a role.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RoleEnd {
    /// Place of the vNIC.
    pub vnic: usize,
    /// Its address; a workload below IP needs none.
    pub address: Option<IpAddr>,
    /// Seed of its named random streams.
    pub seed: u64,
}

/// A server of a service that forwards all requests to the active one.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Passive {
    /// Their service.
    pub service: String,
    /// Of both, among its servers.
    pub places: [u16; 2],
    /// What a server of it does.
    pub parameters: Map<String, Value>,
    /// How much it forwards.
    pub bounds: Bounds,
    /// Its own, and that of the active one.
    pub ends: [RoleEnd; 2],
}

impl Passive {
    /// Its connection to the active server, as one more role of the network.
    pub fn role(&self) -> Role {
        let mut parameters = self.parameters.clone();
        parameters.insert("service".to_owned(), self.service.clone().into());
        let ends = self.ends.clone();
        Role {
            name: self.service.clone(),
            workload: String::new(),
            parameters,
            ends,
            kept: false,
            most: None,
        }
    }
}

/// What a step of the timeline does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Act {
    /// A role's traffic begins, and the run does not wait for its end.
    Start,
    /// A role's traffic, from its beginning to its own end.
    Run,
    /// A role's traffic ends.
    Stop,
    /// A parameter of a role changes, or the rate of a link.
    Set,
    /// Time passes.
    Wait,
    /// A guest is away for a time.
    Reset,
    /// A program runs in a guest.
    Exec,
    /// Servers fail, or serve again.
    Call,
    /// A guest moves to another host.
    Migrate,
}

/// What happens to the servers of a service, or what a wait is for.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Operation {
    /// Which service.
    pub service: String,
    /// Places of the guests of its servers.
    pub guests: Vec<usize>,
    /// They fail.
    #[serde(default)]
    pub ends: bool,
    /// They serve again.
    #[serde(default)]
    pub starts: bool,
    /// Of a wait: how often it looks whether all of them serve.
    #[serde(default)]
    pub every_ns: u64,
}

/// How what has come to a role is compared with a bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum Comparison {
    /// Below it.
    #[serde(rename = "<")]
    Below,
    /// At most it.
    #[serde(rename = "<=")]
    AtMost,
    /// It.
    #[serde(rename = "==")]
    Equal,
    /// At least it.
    #[serde(rename = ">=")]
    AtLeast,
    /// Above it.
    #[serde(rename = ">")]
    Above,
}

/// What has to have come to a role before a wait is over.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Progress {
    /// Place of the role.
    pub role: usize,
    /// How it is compared.
    pub op: Comparison,
    /// With what.
    pub value: f64,
    /// How often it looks.
    pub every_ns: u64,
}

impl Progress {
    /// Whether so much is what is waited for.
    #[must_use]
    pub fn holds(&self, come: u64) -> bool {
        let come = come as f64;
        match self.op {
            Comparison::Below => come < self.value,
            Comparison::AtMost => come <= self.value,
            Comparison::Equal => (come - self.value).abs() < f64::EPSILON,
            Comparison::AtLeast => come >= self.value,
            Comparison::Above => come > self.value,
        }
    }
}

/// A step of the timeline.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Action {
    /// Its name.
    pub id: String,
    /// What it does.
    #[serde(rename = "do")]
    pub act: Act,
    /// When it begins.
    #[serde(default)]
    pub after: Option<Trigger>,
    /// Place of the role.
    #[serde(default)]
    pub role: Option<usize>,
    /// Place of the guest.
    #[serde(default)]
    pub guest: Option<usize>,
    /// Parameters to set, a link and its rate, or how a guest moves.
    #[serde(default)]
    pub args: Map<String, Value>,
    /// What a program does, one after the other; absent: it cannot run.
    #[serde(default)]
    pub program: Option<Vec<Deed>>,
    /// Of a call, or of a wait for servers.
    #[serde(default)]
    pub operation: Option<Operation>,
    /// Of a wait for what has come to a role.
    #[serde(default)]
    pub progress: Option<Progress>,
    /// Length of a wait.
    #[serde(default)]
    pub for_ns: u64,
    /// When it is given up.
    #[serde(default)]
    pub timeout_ns: Option<u64>,
    /// What that means.
    #[serde(default)]
    pub on_timeout: Option<OnTimeout>,
}

impl Action {
    /// The link whose rate it sets, in bit/s.
    #[must_use]
    pub fn slows(&self) -> Option<(&str, u64)> {
        let value = |name: &str| self.args.get(name).filter(|_| self.act == Act::Set);
        Some((value("link")?.as_str()?, value("rate_bit_per_s")?.as_u64()?))
    }

    /// The link that it cuts (false) or gives its carriage again (true).
    #[must_use]
    pub fn cuts(&self) -> Option<(&str, bool)> {
        let value = |name: &str| self.args.get(name).filter(|_| self.act == Act::Set)?.as_str();
        Some((value("link")?, value("state")? == "up"))
    }

    /// The part of it that the timeline needs.
    #[must_use]
    pub fn step(&self) -> Step {
        Step {
            id: self.id.clone(),
            after: self.after.clone(),
            begins: matches!(self.act, Act::Start | Act::Run),
            open_ended: self.act == Act::Start,
            timeout_ns: self.timeout_ns,
            on_timeout: self.on_timeout,
        }
    }
}

/// What a program does in a simulated guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Deed {
    /// Nothing, for so many nanoseconds.
    Sleep(u64),
    /// Its guest forgets its neighbours of these versions of IP.
    ForgetNeighbours(Versions),
    /// Its guest forgets what it has learnt of paths.
    ForgetPaths(Versions),
    /// It fails.
    Fail,
}

/// Versions of IP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Versions {
    /// IPv4.
    pub ipv4: bool,
    /// IPv6.
    pub ipv6: bool,
}

impl Versions {
    /// Both.
    pub const BOTH: Self = Self { ipv4: true, ipv6: true };

    /// Whether a version is one of them.
    #[must_use]
    pub fn has(self, version: IpVersion) -> bool {
        match version {
            IpVersion::V4 => self.ipv4,
            IpVersion::V6 => self.ipv6,
        }
    }
}

/// A finding about a role's parameters.
pub fn finding(role: &Role, reason: &str) -> Finding {
    Finding::new(format!("roles.{}", role.name), reason, "mend the role's parameters")
}

/// The IP version of a role's packets; 4 below IP.
pub fn version_of(role: &Role) -> IpVersion {
    match role.ends[0].address {
        Some(address) if address.is_ipv6() => IpVersion::V6,
        _ => IpVersion::V4,
    }
}

/// A finding about a pair of ends that no route joins.
pub fn unreachable(role: &Role) -> Finding {
    Finding::new(
        format!("roles.{}.to", role.name),
        "no route leads from one end to the other",
        "give both ends addresses of one IP version and network, or routes",
    )
}
