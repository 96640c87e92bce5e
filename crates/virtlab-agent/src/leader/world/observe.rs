//! Reading back: what the kernel has, for comparison with what was asked.

use crate::leader::kernel::bridge_port;
use crate::leader::kernel::encode::{self, link_header, print_handle, traffic_header};
use crate::leader::kernel::filters;
use crate::leader::kernel::netlink::{KernelError, Socket, attributes, half, number32, number64, text};
use crate::leader::kernel::traffic;
use crate::leader::world::namespaces::World;
use crate::leader::world::operation::{Discipline, Matcher};
use crate::offload;
use anyhow::Context;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::net::IpAddr;
use virtlab_qdisc::kernel::{Cell, decode};
use virtlab_qdisc::{Declaration, TABLE, declared};

/// Who set a route, as zebra says it for OSPF (rtnetlink.h has it, libc has not).
const RTPROT_OSPF: u8 = 188;

/// One queue discipline or class as read back, with its counters.
#[derive(Clone, Debug, Default)]
pub struct Queueing {
    pub index: i32,
    pub kind: String,
    pub handle: u32,
    pub parent: u32,
    pub options: Map<String, Value>,
    pub bytes: u64,
    pub packets: u64,
    pub drops: u64,
    pub overlimits: u64,
    pub backlog_packets: u64,
    pub backlog_bytes: u64,
    /// What its kind counts beside these.
    pub counted: Vec<(&'static str, u64)>,
}

impl Queueing {
    fn json(&self) -> Value {
        let mut value = self.options.clone();
        value.insert("kind".into(), json!(self.kind));
        value.insert("handle".into(), json!(print_handle(self.handle)));
        value.insert("parent".into(), json!(print_handle(self.parent)));
        value.insert("bytes".into(), json!(self.bytes));
        value.insert("packets".into(), json!(self.packets));
        value.insert("drops".into(), json!(self.drops));
        value.insert("overlimits".into(), json!(self.overlimits));
        value.insert("backlog_packets".into(), json!(self.backlog_packets));
        value.insert("backlog_bytes".into(), json!(self.backlog_bytes));
        value.extend(self.counted.iter().map(|(name, count)| ((*name).to_owned(), json!(count))));
        Value::Object(value)
    }
}

/// Interface counters, as the kernel names them from the interface's own side.
#[derive(Clone, Copy, Debug, Default)]
pub struct Traffic {
    pub received_packets: u64,
    pub sent_packets: u64,
    pub received_bytes: u64,
    pub sent_bytes: u64,
    pub received_errors: u64,
    pub sent_errors: u64,
    pub received_drops: u64,
    pub sent_drops: u64,
}

/// One interface as the kernel has it.
#[derive(Clone, Debug, Default)]
pub struct LinkState {
    pub index: i32,
    pub name: String,
    pub up: bool,
    /// Operational as of RFC 2863, which the kernel decides up to a second after the carrier is there.
    pub running: bool,
    pub carrier: bool,
    pub mtu_bytes: u32,
    pub segments_at_once: u32,
    /// What the kernel's own FIFOs take for their limit (`txqueuelen`).
    pub queue_length_packets: u32,
    pub mac: String,
    pub master: u32,
    pub kind: String,
    /// Rules of a bridge port; null for any other interface.
    pub bridge_port: Value,
    pub traffic: Traffic,
}

/// All interfaces of the namespace that a socket is in.
///
/// # Errors
/// When the kernel refuses the dump.
pub fn links(world: &mut World, namespace: &str) -> anyhow::Result<Vec<LinkState>> {
    let socket = &mut world.namespace(namespace)?.netlink;
    let dump = socket.dump(libc::RTM_GETLINK, &link_header(0, 0, 0))?;
    Ok(dump.iter().map(|(_, body)| link_state(body)).collect())
}

fn link_state(body: &[u8]) -> LinkState {
    let flags = body.get(8..12).map_or(0, number32);
    let mut link = LinkState {
        index: body.get(4..8).map_or(0, number32) as i32,
        up: flags & libc::IFF_UP as u32 != 0,
        running: flags & libc::IFF_RUNNING as u32 != 0,
        carrier: flags & libc::IFF_LOWER_UP as u32 != 0,
        ..LinkState::default()
    };
    for (kind, value) in attributes(body.get(16..).unwrap_or(&[])) {
        match kind {
            libc::IFLA_IFNAME => link.name = text(value),
            libc::IFLA_MTU => link.mtu_bytes = number32(value),
            libc::IFLA_TXQLEN => link.queue_length_packets = number32(value),
            libc::IFLA_GSO_MAX_SEGS => link.segments_at_once = number32(value),
            libc::IFLA_ADDRESS => link.mac = print_mac(value),
            libc::IFLA_MASTER => link.master = number32(value),
            libc::IFLA_LINKINFO => {
                link.bridge_port = bridge_port::read(value).unwrap_or_default();
                if let Some((_, kind)) = attributes(value).find(|(kind, _)| *kind == libc::IFLA_INFO_KIND) {
                    link.kind = text(kind);
                }
            }
            libc::IFLA_STATS64 => {
                let at = |word: usize| value.get(word * 8..).map_or(0, number64);
                link.traffic = Traffic {
                    received_packets: at(0),
                    sent_packets: at(1),
                    received_bytes: at(2),
                    sent_bytes: at(3),
                    received_errors: at(4),
                    sent_errors: at(5),
                    received_drops: at(6),
                    sent_drops: at(7),
                };
            }
            _ => {}
        }
    }
    link
}

/// All queue disciplines of a namespace.
///
/// # Errors
/// When the kernel refuses the dump.
pub fn qdiscs(world: &mut World, namespace: &str) -> anyhow::Result<Vec<Queueing>> {
    let socket = &mut world.namespace(namespace)?.netlink;
    let dump = socket.dump(libc::RTM_GETQDISC, &traffic_header(0, 0, 0))?;
    Ok(dump.iter().map(|(_, body)| queueing(body, |declared| declared.kernel)).collect())
}

fn classes(world: &mut World, namespace: &str, index: i32) -> anyhow::Result<Vec<Queueing>> {
    let socket = &mut world.namespace(namespace)?.netlink;
    let dump = socket.dump(libc::RTM_GETTCLASS, &traffic_header(index, 0, 0))?;
    Ok(dump.iter().map(|(_, body)| queueing(body, |declared| declared.kernel_class)).collect())
}

type Cells = Option<&'static [Cell]>;

/// What the kernel tells of a discipline or class. `cells`: which of a declaration's tables its options have.
fn queueing(body: &[u8], cells: fn(&Declaration) -> Cells) -> Queueing {
    let mut found = Queueing {
        index: body.get(4..8).map_or(0, number32) as i32,
        handle: body.get(8..12).map_or(0, number32),
        parent: body.get(12..16).map_or(0, number32),
        ..Queueing::default()
    };
    let mut options: &[u8] = &[];
    for (kind, value) in attributes(body.get(20..).unwrap_or(&[])) {
        match kind {
            libc::TCA_KIND => found.kind = text(value),
            libc::TCA_OPTIONS => options = value,
            libc::TCA_STATS2 => {
                for (kind, value) in attributes(value) {
                    match kind {
                        1 => {
                            found.bytes = number64(value);
                            found.packets = value.get(8..).map_or(0, number32).into();
                        }
                        3 => {
                            let at = |word: usize| u64::from(value.get(word * 4..).map_or(0, number32));
                            found.backlog_packets = at(0);
                            found.backlog_bytes = at(1);
                            found.drops = at(2);
                            found.overlimits = at(4);
                        }
                        // TCA_STATS_APP
                        4 => {
                            if let Some(known) = declared(&found.kind) {
                                found.counted = known.counted(value);
                            }
                        }
                        // TCA_STATS_PKT64: the count above has 32 bits.
                        8 => found.packets = number64(value),
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
    let settings = declared(&found.kind).and_then(cells).map(|cells| decode(cells, options));
    let told = settings.into_iter().flatten();
    found.options = told.map(|(name, setting)| (name, json!(setting))).collect();
    found
}

fn print_mac(bytes: &[u8]) -> String {
    bytes.iter().map(|octet| format!("{octet:02x}")).collect::<Vec<_>>().join(":")
}

/// An address of four or sixteen octets as text.
pub fn print_address(bytes: &[u8]) -> String {
    match bytes.len() {
        4 => IpAddr::from(<[u8; 4]>::try_from(bytes).expect("four octets")).to_string(),
        16 => IpAddr::from(<[u8; 16]>::try_from(bytes).expect("sixteen octets")).to_string(),
        _ => String::new(),
    }
}

/// Everything that the named namespaces hold.
///
/// # Errors
/// When a namespace is unknown or the kernel refuses a dump.
pub fn observe(world: &mut World, namespaces: &[String]) -> anyhow::Result<Value> {
    let mut found = Map::new();
    for namespace in namespaces {
        found.insert(namespace.clone(), observe_one(world, namespace)?);
    }
    Ok(json!({"namespaces": found}))
}

fn observe_one(world: &mut World, namespace: &str) -> anyhow::Result<Value> {
    let links = links(world, namespace)?;
    let names: BTreeMap<i32, String> = links.iter().map(|link| (link.index, link.name.clone())).collect();
    let name_of = |index: i32| names.get(&index).cloned().unwrap_or_default();
    let mut addresses: BTreeMap<i32, Vec<String>> = BTreeMap::new();
    let mut neighbours = Vec::new();
    let mut forwarding = Vec::new();
    let mut routes = Vec::new();
    let fd = {
        let socket = &mut world.namespace(namespace)?.netlink;
        for (_, body) in socket.dump(libc::RTM_GETADDR, &[0; 8])? {
            let mut own = None;
            for (kind, value) in attributes(body.get(8..).unwrap_or(&[])) {
                if kind == libc::IFA_LOCAL || (kind == libc::IFA_ADDRESS && own.is_none()) {
                    own = Some(print_address(value));
                }
            }
            let index = body.get(4..8).map_or(0, number32) as i32;
            if let Some(own) = own {
                addresses.entry(index).or_default().push(format!("{own}/{}", body[1]));
            }
        }
        for family in [0, libc::AF_BRIDGE as u8] {
            let mut header = [0; 12];
            header[0] = family;
            for (_, body) in socket.dump(libc::RTM_GETNEIGH, &header)? {
                let state = half(&body, 8);
                let (mut address, mut mac) = (String::new(), String::new());
                for (kind, value) in attributes(body.get(12..).unwrap_or(&[])) {
                    match kind {
                        1 => address = print_address(value),
                        2 => mac = print_mac(value),
                        _ => {}
                    }
                }
                let link = name_of(body.get(4..8).map_or(0, number32) as i32);
                if family == 0 && state & libc::NUD_PERMANENT != 0 {
                    neighbours.push(json!({"link": link, "address": address, "mac": mac}));
                } else if family != 0 && state & libc::NUD_NOARP != 0 {
                    forwarding.push(json!({"link": link, "mac": mac}));
                }
            }
        }
        for (_, body) in socket.dump(libc::RTM_GETROUTE, &[0; 12])? {
            // Main table, set by us or by OSPF.
            let ours = matches!(body.get(5), Some(&libc::RTPROT_STATIC | &RTPROT_OSPF));
            if body.get(4) != Some(&libc::RT_TABLE_MAIN) || !ours {
                continue;
            }
            let (mut to, mut via, mut link) = (String::new(), Value::Null, String::new());
            for (kind, value) in attributes(body.get(12..).unwrap_or(&[])) {
                match kind {
                    libc::RTA_DST => to = print_address(value),
                    libc::RTA_GATEWAY => via = json!(print_address(value)),
                    libc::RTA_OIF => link = name_of(number32(value) as i32),
                    _ => {}
                }
            }
            let any = if body[0] == libc::AF_INET as u8 { "0.0.0.0" } else { "::" };
            let to = if to.is_empty() { any.to_owned() } else { to };
            routes.push(json!({"to": format!("{to}/{}", body[1]), "via": via, "link": link}));
        }
        socket.raw_fd()
    };
    let mut disciplines: BTreeMap<i32, Vec<Value>> = BTreeMap::new();
    let mut sorting: BTreeMap<i32, Vec<Value>> = BTreeMap::new();
    for discipline in qdiscs(world, namespace)? {
        if discipline.kind == "noqueue" {
            continue;
        }
        let (index, handle) = (discipline.index, discipline.handle);
        disciplines.entry(index).or_default().push(discipline.json());
        if declared(&discipline.kind).is_some_and(|declared| declared.kernel_class.is_some()) {
            let own = |class: &Queueing| class.handle >> 16 == handle >> 16 && class.kind == discipline.kind;
            for class in classes(world, namespace, index)?.into_iter().filter(own) {
                disciplines.entry(index).or_default().push(class.json());
            }
            let socket = &mut world.namespace(namespace)?.netlink;
            sorting.entry(index).or_default().extend(filters::read(socket, index, handle)?);
        }
    }
    let mut described = Map::new();
    for link in &links {
        let offloads: Map<String, Value> = offload::names()
            .filter_map(|feature| {
                Some((feature.to_owned(), json!(offload::read(fd, &link.name, feature).ok()?)))
            })
            .collect();
        let traffic = link.traffic;
        described.insert(
            link.name.clone(),
            json!({
                "index": link.index, "up": link.up, "running": link.running, "carrier": link.carrier,
                "mtu_bytes": link.mtu_bytes,
                "segments_at_once": link.segments_at_once,
                "queue_length_packets": link.queue_length_packets,
                "mac": link.mac, "kind": link.kind,
                "master": names.get(&(link.master as i32)),
                "bridge_port": link.bridge_port,
                "addresses": addresses.remove(&link.index).unwrap_or_default(),
                "offloads": offloads,
                "coalescing": offload::coalescing(fd, &link.name).map(|[receive_us, receive_frames, send_us, send_frames]| {
                    json!({"receive_us": receive_us, "receive_frames": receive_frames,
                        "send_us": send_us, "send_frames": send_frames})
                }),
                "qdiscs": disciplines.remove(&link.index).unwrap_or_default(),
                "filters": sorting.remove(&link.index).unwrap_or_default(),
                "received_packets": traffic.received_packets, "received_bytes": traffic.received_bytes,
                "received_errors": traffic.received_errors, "received_drops": traffic.received_drops,
                "sent_packets": traffic.sent_packets, "sent_bytes": traffic.sent_bytes,
                "sent_errors": traffic.sent_errors, "sent_drops": traffic.sent_drops,
            }),
        );
    }
    Ok(json!({
        "links": described, "neighbours": neighbours, "forwarding": forwarding, "routes": routes,
        "sysctls": sysctls(world, namespace)?,
    }))
}

/// The present content of every value that was set in a namespace.
fn sysctls(world: &mut World, namespace: &str) -> anyhow::Result<BTreeMap<String, String>> {
    let paths = world.namespace(namespace)?.sysctls.clone();
    world.stand_in(namespace)?;
    let read = |path: String| {
        let value = std::fs::read_to_string(format!("/proc/sys/{path}"))?.trim().to_owned();
        Ok((path, value))
    };
    let found: std::io::Result<_> = paths.into_iter().map(read).collect();
    world.go_home()?;
    Ok(found?)
}

/// Tries queue disciplines in a namespace that is made for it and dropped.
///
/// # Errors
/// When no namespace can be made.
pub fn try_qdiscs(world: &mut World, kinds: &[String]) -> anyhow::Result<Value> {
    const TRIAL: &str = "trial:qdiscs";
    world.create(TRIAL)?;
    let mut verdicts = Map::new();
    for (number, kind) in kinds.iter().enumerate() {
        let index = number as i32 + 100;
        let name = format!("t{number}");
        let link = encode::NewLink {
            index,
            name: &name,
            mac: None,
            mtu_bytes: None,
            master: None,
            namespace_fd: None,
        };
        let socket = &mut world.namespace(TRIAL)?.netlink;
        // A bridge: not every kernel has dummy interfaces, and a world needs bridges anyway.
        let mut verdict = socket.execute_one(encode::bridge(link, false))?;
        if verdict.is_ok() {
            if let Some(matcher) = filter_of(kind) {
                verdict = try_filter(socket, index, &matcher)?;
                verdicts
                    .insert(kind.clone(), verdict.map_or_else(|error| json!(error.text), |()| Value::Null));
                continue;
            }
            let discipline = Discipline::trial(kind);
            let (handle, parent) =
                if kind == "ingress" { (0xffff_0000, 0xffff_fff1) } else { (0x1_0000, 0xffff_ffff) };
            verdict = match discipline {
                Some(discipline) => socket.execute_one(encode::qdisc(index, handle, parent, &discipline)?)?,
                None => {
                    verdicts.insert(kind.clone(), json!("this agent cannot encode it"));
                    continue;
                }
            };
        }
        verdicts.insert(kind.clone(), verdict.map_or_else(|error| json!(error.text), |()| Value::Null));
    }
    world.forget(TRIAL)?;
    Ok(json!({"kinds": verdicts}))
}

fn filter_of(kind: &str) -> Option<Matcher> {
    let (vlan_priority, network) = (Some(5), Some(0x0800));
    let (dscp, protocol, source, destination) = (None, None, None, None);
    match kind {
        "cls_u32" => Some(Matcher::U32 { keys: vec![[0, 0x00fc_0000, 0]] }),
        "cls_flower" => Some(Matcher::Flower { vlan_priority, network, dscp, protocol, source, destination }),
        _ => None,
    }
}

/// A filter needs a discipline with classes.
fn try_filter(socket: &mut Socket, index: i32, matcher: &Matcher) -> anyhow::Result<Result<(), KernelError>> {
    let sorted = TABLE.iter().find(|each| each.has_classes() && !each.trial.is_empty());
    let classful =
        sorted.and_then(|each| Discipline::trial(each.name)).context("a discipline has classes")?;
    let made = socket.execute_one(encode::qdisc(index, 0x1_0000, u32::MAX, &classful)?)?;
    if made.is_err() {
        return Ok(made);
    }
    let protocol = if matches!(matcher, Matcher::U32 { .. }) { 0x0800 } else { 0x8100 };
    socket.execute_one(traffic::filter(index, 0x1_0000, 1, protocol, 0x1_0001, matcher)?)
}
