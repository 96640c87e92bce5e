//! What a fabric is built from, as the control plane writes it, and what makes it impossible.
//!
//! Names are those of the Plan: `switches`, `links` with two ends each, a queue in front of each direction. An end is a
//! port of the fabric (`h1.up`) or a port of a switch (`s1.p1`: any name behind the switch's own and a dot).

use crate::{Mac, Queueing};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use thiserror::Error;
use virtlab_qdisc::BuildError;

/// Highest rate that a link can have; above it a short frame takes less than a few nanoseconds.
pub const MAXIMUM_RATE_BIT_PER_S: u64 = 400_000_000_000;

/// A fabric.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Layout {
    /// Where frames come in and go out.
    pub ports: BTreeSet<String>,
    /// The boxes.
    #[serde(default)]
    pub switches: BTreeMap<String, SwitchLayout>,
    /// The cables.
    pub links: BTreeMap<String, LinkLayout>,
    /// Static forwarding entries: switch, address, port of that switch.
    #[serde(default)]
    pub forwarding: BTreeMap<String, BTreeMap<Mac, String>>,
}

/// A store-and-forward switch.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SwitchLayout {
    /// From the last bit in until the frame joins the queue of its way out.
    #[serde(default)]
    pub processing_ns: u64,
}

/// A full-duplex cable.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkLayout {
    /// Both ends.
    pub ends: [String; 2],
    /// Rate of each direction.
    pub rate_bit_per_s: u64,
    /// Time of a bit from end to end.
    #[serde(default)]
    pub propagation_ns: u64,
    /// Whether it may be cut while it is played: then its queues are asked frame by frame, and nothing behind them is
    /// told ahead.
    #[serde(default)]
    pub cuts: bool,
    /// How the Plan wishes it realised; this fabric is `soft_switch`.
    #[serde(default)]
    pub realise: Option<String>,
    /// What waits in front of each direction.
    #[serde(default)]
    pub queue: QueuesLayout,
}

/// The two queues of a link.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QueuesLayout {
    /// In front of `ends[0]` to `ends[1]`.
    #[serde(default)]
    pub ab: QueueLayout,
    /// In front of `ends[1]` to `ends[0]`.
    #[serde(default)]
    pub ba: QueueLayout,
}

/// A queue discipline; the Plan's defaults: FIFO, and without any limit given 100 packets.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QueueLayout {
    /// Which discipline; absent: `fifo`.
    #[serde(default)]
    pub kind: Option<String>,
    /// Who realises it; `auto` and `virtlab` are ours.
    #[serde(default)]
    pub by: Option<String>,
    /// Most packets that wait; the one being transmitted does not wait.
    #[serde(default)]
    pub limit_packets: Option<u64>,
    /// Most bytes that wait (Ethernet header and payload, no FCS).
    #[serde(default)]
    pub limit_bytes: Option<u64>,
    /// The discipline's own parameters.
    #[serde(default)]
    pub parameters: BTreeMap<String, virtlab_qdisc::Parameter>,
    /// Classes by name, of disciplines that have them.
    #[serde(default)]
    pub classes: BTreeMap<String, virtlab_qdisc::ClassLayout>,
    /// Which frames belong to which class; the first rule that holds decides.
    #[serde(default, rename = "match")]
    pub rules: Vec<virtlab_qdisc::Rule>,
    /// Class of frames that satisfy no rule.
    #[serde(default)]
    pub default: Option<String>,
}

impl QueueLayout {
    /// What is in front of the transmitter: a FIFO in closed form, any other discipline asked frame by frame.
    ///
    /// # Errors
    /// When the discipline is unknown or has no such parameter.
    pub fn queueing(&self) -> Result<Queueing, BuildError> {
        let kind = self.kind.as_deref().unwrap_or(virtlab_qdisc::DEFAULT.name);
        if !self.classes.is_empty() {
            if let Some(key) = self.parameters.keys().next() {
                return Err(BuildError {
                    key: key.clone(),
                    what: "is a key of each class where a queue has classes".to_owned(),
                });
            }
            let built = virtlab_qdisc::build_classes(kind, &self.classes)?;
            let leaves = virtlab_qdisc::leaves(&self.classes);
            let classifier = virtlab_qdisc::Classifier::new(&self.rules, self.default.as_deref(), &leaves)?;
            let names = self.classes.keys().cloned().collect();
            return Ok(Queueing::Classes { qdisc: built, classifier, names });
        }
        let (limit_packets, limit_bytes) = self.limits();
        let qdisc = virtlab_qdisc::build(kind, limit_packets, limit_bytes, &self.parameters)?;
        Ok(match virtlab_qdisc::declared(kind) {
            Some(declared) if declared.is_fifo => Queueing::Fifo { limit_packets, limit_bytes },
            Some(virtlab_qdisc::Declaration { bands: Some((names, classifier)), .. }) => Queueing::Classes {
                qdisc,
                classifier: classifier(),
                names: names.iter().map(|name| (*name).to_owned()).collect(),
            },
            _ => Queueing::Discipline(qdisc),
        })
    }

    /// Its limits: those given. Without any a FIFO in all its forms has the Plan's default of 100 packets (in
    /// bytes: as many full frames); other disciplines have their own.
    #[must_use]
    pub fn limits(&self) -> (Option<u64>, Option<u64>) {
        let declared = self.kind.as_deref().map_or(Some(virtlab_qdisc::DEFAULT), virtlab_qdisc::declared);
        match (declared, self.limit_packets, self.limit_bytes) {
            (Some(declared), None, None) => declared.port_limits,
            (_, packets, bytes) => (packets, bytes),
        }
    }
}

/// Why no fabric can be built from a layout: where, what, and the cure.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{path}: {what}; {cure}")]
pub struct LayoutError {
    /// Path in the layout.
    pub path: String,
    /// What is wrong there.
    pub what: String,
    /// What to do.
    pub cure: String,
}

impl LayoutError {
    fn new(path: impl Into<String>, what: impl Into<String>, cure: impl Into<String>) -> Self {
        Self { path: path.into(), what: what.into(), cure: cure.into() }
    }
}

/// What an end of a link is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Index of a port of the fabric, in name order.
    Port(usize),
    /// Index of a switch, in name order.
    Switch(usize),
}

impl Layout {
    /// Which end `name` is.
    pub(crate) fn end(&self, path: &str, name: &str) -> Result<End, LayoutError> {
        if let Some(index) = self.ports.iter().position(|port| port == name) {
            return Ok(End::Port(index));
        }
        self.switches
            .keys()
            .enumerate()
            .filter(|(_, switch)| {
                name.strip_prefix(switch.as_str()).is_some_and(|rest| rest.starts_with('.') && rest.len() > 1)
            })
            .max_by_key(|(_, switch)| switch.len())
            .map(|(index, _)| End::Switch(index))
            .ok_or_else(|| {
                LayoutError::new(
                    path,
                    format!("'{name}' is neither a port nor a port of a switch"),
                    "name a port, or a switch and a dot in front",
                )
            })
    }

    /// Checks everything that can be wrong.
    ///
    /// # Errors The first [`LayoutError`]: dangling or doubly used ends, loops, ports without a link, impossible
    /// rates and queues.
    pub fn check(&self) -> Result<(), LayoutError> {
        let mut used = BTreeMap::new();
        let mut groups: Vec<usize> = (0..self.switches.len()).collect();
        for (name, link) in &self.links {
            let path = format!("links.{name}");
            self.check_link(&path, link)?;
            let mut ends = Vec::with_capacity(2);
            for (index, end) in link.ends.iter().enumerate() {
                let path = format!("{path}.ends.{index}");
                ends.push(self.end(&path, end)?);
                if let Some(other) = used.insert(end.clone(), name) {
                    return Err(LayoutError::new(
                        path,
                        format!("'{end}' already is an end of link '{other}'"),
                        "give every link its own ports",
                    ));
                }
            }
            if let [End::Switch(a), End::Switch(b)] = ends[..] {
                let (a, b) = (root(&groups, a), root(&groups, b));
                if a == b {
                    return Err(LayoutError::new(
                        path,
                        "closes a loop of switches, in which a broadcast would circle for ever",
                        "remove one link of the loop",
                    ));
                }
                groups[a] = b;
            }
        }
        if let Some(port) = self.ports.iter().find(|port| !used.contains_key(*port)) {
            return Err(LayoutError::new(
                format!("ports.{port}"),
                "no link ends there",
                "remove the port or give it a link",
            ));
        }
        self.check_tables(&used)
    }

    fn check_link(&self, path: &str, link: &LinkLayout) -> Result<(), LayoutError> {
        if link.rate_bit_per_s == 0 || link.rate_bit_per_s > MAXIMUM_RATE_BIT_PER_S {
            return Err(LayoutError::new(
                format!("{path}.rate_bit_per_s"),
                format!("{} bit/s is no rate of a link", link.rate_bit_per_s),
                format!("give 1 to {MAXIMUM_RATE_BIT_PER_S}"),
            ));
        }
        if let Some(realise) = link.realise.as_deref().filter(|by| !matches!(*by, "auto" | "soft_switch")) {
            return Err(LayoutError::new(
                format!("{path}.realise"),
                format!("the soft switch cannot realise a link as '{realise}'"),
                "leave such links out of its configuration",
            ));
        }
        for (direction, queue) in [("ab", &link.queue.ab), ("ba", &link.queue.ba)] {
            check_queue(&format!("{path}.queue.{direction}"), queue)?;
        }
        Ok(())
    }

    fn check_tables(&self, used: &BTreeMap<String, &String>) -> Result<(), LayoutError> {
        for (switch, entries) in &self.forwarding {
            let index = self.switches.keys().position(|name| name == switch);
            let Some(index) = index else {
                return Err(LayoutError::new(
                    format!("forwarding.{switch}"),
                    "there is no such switch",
                    "name a switch",
                ));
            };
            for (mac, port) in entries {
                let path = format!("forwarding.{switch}.{mac}");
                if mac.is_group() {
                    return Err(LayoutError::new(
                        path,
                        "is a group address",
                        "give the address of one station",
                    ));
                }
                if self.end(&path, port)? != End::Switch(index) || !used.contains_key(port) {
                    return Err(LayoutError::new(
                        path,
                        format!("'{port}' is not a port of switch '{switch}' with a link"),
                        "name the end of one of its links",
                    ));
                }
            }
        }
        Ok(())
    }
}

fn check_queue(path: &str, queue: &QueueLayout) -> Result<(), LayoutError> {
    if let Some(by) = queue.by.as_deref().filter(|by| !matches!(*by, "auto" | "virtlab")) {
        return Err(LayoutError::new(
            format!("{path}.by"),
            format!("a queue of the soft switch cannot be realised by '{by}'"),
            "write auto or virtlab",
        ));
    }
    queue.queueing().map(drop).map_err(|error| {
        let of_queue = ["kind", "limit_packets", "limit_bytes"].contains(&error.key.as_str());
        let at = format!("{path}.{}{}", if of_queue { "" } else { "parameters." }, error.key);
        LayoutError::new(at, error.what, "see the parameters of queue disciplines by their tc names")
    })
}

fn root(groups: &[usize], mut at: usize) -> usize {
    while groups[at] != at {
        at = groups[at];
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(a: &str, b: &str) -> LinkLayout {
        LinkLayout {
            cuts: false,
            ends: [a.into(), b.into()],
            rate_bit_per_s: 100_000_000,
            propagation_ns: 0,
            realise: None,
            queue: QueuesLayout::default(),
        }
    }

    fn layout(ports: &[&str], switches: &[&str], links: &[(&str, &str, &str)]) -> Layout {
        Layout {
            ports: ports.iter().map(|name| (*name).to_owned()).collect(),
            switches: switches.iter().map(|name| ((*name).to_owned(), SwitchLayout::default())).collect(),
            links: links.iter().map(|(name, a, b)| ((*name).to_owned(), link(a, b))).collect(),
            forwarding: BTreeMap::new(),
        }
    }

    #[test]
    fn a_loop_is_refused_where_it_closes() {
        let looped = layout(
            &[],
            &["s1", "s2", "s3"],
            &[("a", "s1.1", "s2.1"), ("b", "s2.2", "s3.1"), ("c", "s3.2", "s1.2")],
        );
        assert_eq!(looped.check().unwrap_err().path, "links.c");
        let itself = layout(&[], &["s1"], &[("a", "s1.1", "s1.2")]);
        assert_eq!(itself.check().unwrap_err().path, "links.a");
    }

    #[test]
    fn an_end_serves_one_link_only() {
        let doubled = layout(&["h1", "h2"], &["s1"], &[("a", "h1", "s1.1"), ("b", "h2", "s1.1")]);
        assert!(doubled.check().unwrap_err().what.contains("already is an end of link 'a'"));
    }

    #[test]
    fn dangling_ends_and_lonely_ports_are_refused() {
        assert_eq!(layout(&["h1"], &[], &[("a", "h1", "s1.1")]).check().unwrap_err().path, "links.a.ends.1");
        assert_eq!(layout(&["h1"], &[], &[]).check().unwrap_err().path, "ports.h1");
    }

    #[test]
    fn the_longest_switch_name_owns_a_port() {
        let nested = layout(&[], &["rack", "rack.s1"], &[]);
        assert_eq!(nested.end("", "rack.s1.p1"), Ok(End::Switch(1)));
        assert_eq!(nested.end("", "rack.p1"), Ok(End::Switch(0)));
    }

    #[test]
    fn a_static_entry_names_a_port_of_its_own_switch() {
        let mut tables = layout(&["h1", "h2"], &["s1"], &[("a", "h1", "s1.1"), ("b", "s1.2", "h2")]);
        let mac = Mac([2, 0, 0, 0, 0, 1]);
        tables.forwarding.insert("s1".into(), BTreeMap::from([(mac, "s1.1".into())]));
        assert_eq!(tables.check(), Ok(()));
        tables.forwarding.insert("s1".into(), BTreeMap::from([(mac, "h2".into())]));
        assert!(tables.check().is_err());
    }

    #[test]
    fn disciplines_and_owners_that_are_not_ours_are_refused() {
        let mut other = layout(&["h1", "h2"], &[], &[("a", "h1", "h2")]);
        other.links.get_mut("a").unwrap().queue.ba.kind = Some("red".into());
        assert_eq!(other.check().unwrap_err().path, "links.a.queue.ba.kind");
    }
}
