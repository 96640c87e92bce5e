//! Reading back: what the kernel has, for comparison with what was asked.

use crate::kernel::discipline::Discipline;
use crate::kernel::encode::{self, print_address, print_mac};
use crate::kernel::filters;
use crate::kernel::links::links;
use crate::kernel::netlink::{KernelError, Socket, attributes, half, number32};
use crate::kernel::queueing::{Queueing, classes, qdiscs};
use crate::kernel::traffic::{self, Matcher};
use crate::world::folder::Folder;
use crate::world::namespaces::World;
use anyhow::Context;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use virtlab_qdisc::{TABLE, declared};
use virtlab_system::offload;

/// Who set a route, as zebra says it for OSPF (rtnetlink.h has it, libc has not).
const RTPROT_OSPF: u8 = 188;

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
    let links = links(&mut world.namespace(namespace)?.netlink)?;
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
    for discipline in qdiscs(&mut world.namespace(namespace)?.netlink)? {
        if discipline.kind == "noqueue" {
            continue;
        }
        let (index, handle) = (discipline.index, discipline.handle);
        disciplines.entry(index).or_default().push(discipline.json());
        if declared(&discipline.kind).is_some_and(|declared| declared.kernel_class.is_some()) {
            let own = |class: &Queueing| class.handle >> 16 == handle >> 16 && class.kind == discipline.kind;
            let socket = &mut world.namespace(namespace)?.netlink;
            for class in classes(socket, index)?.into_iter().filter(own) {
                disciplines.entry(index).or_default().push(class.json());
            }
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
    let disk_bytes = world.namespace(namespace)?.disk.as_ref().map(Folder::size_bytes).transpose()?;
    Ok(json!({
        "disk_bytes": disk_bytes,
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
    world.create(TRIAL, None, None)?;
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
