//! `apply`: a batch of operations, all or nothing.
//!
//! Requests to the same namespace that follow each other go to the kernel together. When one is refused, everything
//! that the batch had done is undone in reverse, and the answer names the operation and carries the kernel's text.

use crate::kernel::bridge_port;
use crate::kernel::encode::{self, LinkChange, NewLink};
use crate::kernel::netlink::{KernelError, Request};
use crate::kernel::tap;
use crate::kernel::traffic;
use crate::kernel::tunnel::{self, Tunnel};
use crate::world::namespaces::{Interface, World};
use crate::world::operation::{End, Operation};
use nix::fcntl::{OFlag, openat};
use nix::sys::stat::Mode;
use std::fs::File;
use std::os::unix::fs::FileExt;
use virtlab_system::offload;

/// Why a batch was undone.
#[derive(Debug)]
pub struct Failure {
    /// The operation that failed, counted from 0.
    pub index: usize,
    /// What could not be done.
    pub what: String,
    /// The kernel's words, when it was the kernel that refused.
    pub kernel: Option<String>,
}

/// How to take one operation back.
#[derive(Debug)]
enum Undo {
    Nothing,
    Request(String, Request),
    Namespace(String),
    Tap { namespace: String, name: String },
    Sysctl { namespace: String, path: String, value: String },
    Offload { namespace: String, link: String, feature: String, on: bool },
}

/// Requests that wait to be sent to one namespace, with the index of the operation behind each.
#[derive(Default)]
struct Pending {
    namespace: String,
    requests: Vec<Request>,
    origins: Vec<(usize, Undo)>,
}

/// Applies all operations, or none.
///
/// # Errors
/// The first operation that failed.
pub fn apply(world: &mut World, batch: &[Operation]) -> Result<(), Failure> {
    let remembered = world.remember();
    let mut done = Vec::new();
    let mut pending = Pending::default();
    let mut outcome = Ok(());
    for (index, operation) in batch.iter().enumerate() {
        outcome = apply_one(world, index, operation, &mut pending, &mut done);
        if outcome.is_err() {
            break;
        }
    }
    // A refusal among the requests still waiting comes before whatever failed after them.
    let flushed = flush(world, &mut pending, &mut done);
    let outcome = flushed.and(outcome);
    if outcome.is_err() {
        for undo in done.into_iter().rev() {
            take_back(world, undo);
        }
        world.recall(remembered);
    }
    let _ = world.go_home();
    outcome
}

fn failure(index: usize, error: &anyhow::Error) -> Failure {
    let kernel =
        error.downcast_ref::<nix::errno::Errno>().map(|errno| errno.desc().to_owned()).or_else(|| {
            error
                .chain()
                .find_map(|cause| cause.downcast_ref::<std::io::Error>())
                .map(std::string::ToString::to_string)
        });
    Failure { index, what: format!("{error:#}"), kernel }
}

fn apply_one(
    world: &mut World,
    index: usize,
    operation: &Operation,
    pending: &mut Pending,
    done: &mut Vec<Undo>,
) -> Result<(), Failure> {
    let fail = |error: anyhow::Error| failure(index, &error);
    match operation {
        Operation::Namespace { name, users, disk_bytes } => {
            flush(world, pending, done)?;
            world.create(name, *users, *disk_bytes).map_err(fail)?;
            done.push(Undo::Namespace(name.clone()));
        }
        Operation::Sysctl { namespace, path, value } => {
            flush(world, pending, done)?;
            let before = write_sysctl(world, namespace, path, value).map_err(fail)?;
            done.push(Undo::Sysctl { namespace: namespace.clone(), path: path.clone(), value: before });
        }
        Operation::Offload { namespace, link, features } => {
            flush(world, pending, done)?;
            let fd = world.namespace(namespace).map_err(fail)?.netlink.raw_fd();
            world.interface(namespace, link).map_err(fail)?;
            for (feature, on) in features {
                let before = offload::read(fd, link, feature).map_err(fail)?;
                if before == *on {
                    continue; // a port that never had it refuses to be told so
                }
                offload::set(fd, link, feature, *on).map_err(fail)?;
                done.push(Undo::Offload {
                    namespace: namespace.clone(),
                    link: link.clone(),
                    feature: feature.clone(),
                    on: before,
                });
            }
        }
        Operation::Tap { namespace, name, mtu_bytes, master, offloads } => {
            flush(world, pending, done)?;
            let change = add_tap(
                world,
                &End {
                    namespace: namespace.clone(),
                    name: name.clone(),
                    mac: None,
                    mtu_bytes: *mtu_bytes,
                    master: master.clone(),
                },
                *offloads,
            )
            .map_err(fail)?;
            done.push(Undo::Tap { namespace: namespace.clone(), name: name.clone() });
            pending.namespace.clone_from(namespace);
            pending.requests.push(change);
            pending.origins.push((index, Undo::Nothing));
        }
        Operation::Home { name } => {
            flush(world, pending, done)?;
            world.name_home(name).map_err(fail)?;
            done.push(Undo::Namespace(name.clone()));
        }
        Operation::Claim { namespace, name, mac } => {
            flush(world, pending, done)?;
            let renames = claim(world, namespace, name, mac).map_err(fail)?;
            pending.namespace.clone_from(namespace);
            for rename in renames {
                pending.requests.push(rename);
                pending.origins.push((index, Undo::Nothing));
            }
        }
        _ => {
            let (namespace, request, undo) = encode_one(world, operation).map_err(fail)?;
            if pending.namespace != namespace {
                flush(world, pending, done)?;
                pending.namespace = namespace;
            }
            pending.requests.push(request);
            pending.origins.push((index, undo));
        }
    }
    Ok(())
}

/// Sends what waits. What succeeded is recorded as done even when something else failed.
fn flush(world: &mut World, pending: &mut Pending, done: &mut Vec<Undo>) -> Result<(), Failure> {
    let mut pending = std::mem::take(pending);
    let Some(&(first, _)) = pending.origins.first() else { return Ok(()) };
    let verdicts = world
        .namespace(&pending.namespace)
        .and_then(|namespace| namespace.netlink.execute(&mut pending.requests))
        .map_err(|error| failure(first, &error))?;
    let mut outcome = Ok(());
    for (verdict, (index, undo)) in verdicts.into_iter().zip(pending.origins) {
        match verdict {
            Ok(()) => done.push(undo),
            Err(KernelError { text, .. }) if outcome.is_ok() => {
                let what = "the kernel refused the operation".to_owned();
                outcome = Err(Failure { index, what, kernel: Some(text) });
            }
            Err(_) => {}
        }
    }
    outcome
}

/// Undoing is best effort: the batch's own error matters more, and the world dies with its leader anyway.
fn take_back(world: &mut World, undo: Undo) {
    let _ = match undo {
        Undo::Nothing => Ok(()),
        Undo::Request(namespace, request) => {
            world.namespace(&namespace).and_then(|space| space.netlink.execute_one(request)).map(drop)
        }
        Undo::Namespace(name) => world.forget(&name),
        Undo::Tap { namespace, name } => {
            world.namespace(&namespace).map(|space| drop(space.taps.remove(&name)))
        }
        Undo::Sysctl { namespace, path, value } => write_sysctl(world, &namespace, &path, &value).map(drop),
        Undo::Offload { namespace, link, feature, on } => world
            .namespace(&namespace)
            .map(|space| space.netlink.raw_fd())
            .and_then(|fd| offload::set(fd, &link, &feature, on)),
    };
}

/// Writes a value and returns the previous one.
fn write_sysctl(world: &mut World, namespace: &str, path: &str, value: &str) -> anyhow::Result<String> {
    use anyhow::Context;
    anyhow::ensure!(
        path.starts_with("net/") && !path.split('/').any(|part| part == ".."),
        "only values under net/ belong to a namespace, not '{path}'"
    );
    let (directory, name) = sysctl_parts(path)?;
    let directory = world.sysctl_directory(namespace, directory)?;
    let flags = OFlag::O_CLOEXEC;
    let open = openat(directory, name, flags | OFlag::O_RDWR, Mode::empty())
        .with_context(|| format!("cannot open /proc/sys/{path}"))?;
    let file = File::from(open);
    let read = || -> anyhow::Result<String> {
        let mut bytes = [0; 256];
        let length = file.read_at(&mut bytes, 0).with_context(|| format!("cannot read {path}"))?;
        Ok(String::from_utf8_lossy(&bytes[..length]).trim().to_owned())
    };
    let before = read()?;
    if before != value {
        file.write_at(value.as_bytes(), 0).with_context(|| format!("cannot write '{value}' to {path}"))?;
        let after = read()?;
        anyhow::ensure!(after == value, "{path} is '{after}' after '{value}' was written");
    }
    world.namespace(namespace)?.sysctls.insert(path.to_owned());
    Ok(before)
}

/// `net/ipv4` and what comes after it.
fn sysctl_parts(path: &str) -> anyhow::Result<(&str, &str)> {
    path.match_indices('/')
        .nth(1)
        .map(|(at, _)| (&path[..at], &path[at + 1..]))
        .ok_or_else(|| anyhow::anyhow!("'{path}' names no value below net/"))
}

fn encode_one(world: &mut World, operation: &Operation) -> anyhow::Result<(String, Request, Undo)> {
    let by = |namespace: &str, request: Request, undo: Request| {
        Ok((namespace.to_owned(), request, Undo::Request(namespace.to_owned(), undo)))
    };
    match operation {
        Operation::Veth { ends: [first, second] } => {
            let near = new_interface(world, first)?;
            let far = new_interface(world, second)?;
            let far_fd = world.namespace(&second.namespace)?.raw_fd();
            let request = encode::veth(
                new_link(&first.name, &near, None),
                // The peer joins its bridge afterwards: a master is looked up in the socket's namespace.
                NewLink { master: None, ..new_link(&second.name, &far, Some(far_fd)) },
            );
            anyhow::ensure!(
                second.master.is_none(),
                "only the first end of a veth pair can be born as a bridge port"
            );
            by(&first.namespace, request, encode::delete_link(near.index))
        }
        Operation::Bridge { namespace, name, mac, mtu_bytes, multicast_snooping } => {
            let end = plain_end(namespace, name, mac.as_ref(), *mtu_bytes);
            let made = new_interface(world, &end)?;
            let request = encode::bridge(new_link(name, &made, None), *multicast_snooping);
            by(namespace, request, encode::delete_link(made.index))
        }
        Operation::Dummy { namespace, name, mac, mtu_bytes } => {
            let end = plain_end(namespace, name, mac.as_ref(), *mtu_bytes);
            let made = new_interface(world, &end)?;
            by(namespace, encode::dummy(new_link(name, &made, None)), encode::delete_link(made.index))
        }
        Operation::Vxlan { namespace, name, mac, mtu_bytes, carrier, through, id, port, local } => {
            let made = new_interface(world, &plain_end(namespace, name, mac.as_ref(), *mtu_bytes))?;
            let fd = world.namespace(namespace)?.raw_fd();
            let through = world.interface(carrier, through)?.index;
            let tunnel = Tunnel { id: *id, port: *port, local: parse_address(local)?, through };
            let request = tunnel::vxlan(new_link(name, &made, Some(fd)), tunnel);
            let undo = Undo::Request(namespace.clone(), encode::delete_link(made.index));
            Ok((carrier.clone(), request, undo))
        }
        Operation::TunnelPeer { namespace, link, mac, address } => {
            let index = world.interface(namespace, link)?.index;
            let mac = encode::parse_mac(mac)?;
            // The entry goes with its interface.
            Ok((namespace.clone(), tunnel::peer(index, mac, parse_address(address)?), Undo::Nothing))
        }
        Operation::Link { namespace, link, up, mtu_bytes, mac, master, segments_at_once } => {
            let mac = mac.as_deref().map(encode::parse_mac).transpose()?;
            let master = match master {
                Some(name) => Some(world.interface(namespace, name)?.index),
                None => None,
            };
            let known = world.interface(namespace, link)?;
            let segments_at_once = *segments_at_once;
            let change = LinkChange { up: *up, mtu_bytes: *mtu_bytes, mac, master, segments_at_once };
            let back = LinkChange {
                up: up.map(|_| known.up),
                mtu_bytes: mtu_bytes.and(known.mtu_bytes),
                mac: mac.and(known.mac),
                master: master.map(|_| known.master.unwrap_or(0)),
                segments_at_once: segments_at_once.map(|_| u32::from(u16::MAX)),
            };
            known.up = up.unwrap_or(known.up);
            known.mtu_bytes = mtu_bytes.or(known.mtu_bytes);
            known.mac = mac.or(known.mac);
            known.master = master.or(known.master);
            let index = known.index;
            by(namespace, encode::change_link(index, change), encode::change_link(index, back))
        }
        Operation::Address { namespace, link, address } => {
            let index = world.interface(namespace, link)?.index;
            let (address, prefix) = encode::parse_network(address)?;
            by(
                namespace,
                encode::address(true, index, address, prefix),
                encode::address(false, index, address, prefix),
            )
        }
        Operation::Route { namespace, link, to, via } => {
            let index = world.interface(namespace, link)?.index;
            let to = encode::parse_network(to)?;
            let via = via.as_deref().map(parse_address).transpose()?;
            by(namespace, encode::route(true, index, to, via), encode::route(false, index, to, via))
        }
        Operation::Neighbour { namespace, link, address, mac } => {
            let index = world.interface(namespace, link)?.index;
            let (address, mac) = (parse_address(address)?, encode::parse_mac(mac)?);
            by(
                namespace,
                encode::neighbour(true, index, address, mac),
                encode::neighbour(false, index, address, mac),
            )
        }
        Operation::Forwarding { namespace, link, mac } => {
            let index = world.interface(namespace, link)?.index;
            let mac = encode::parse_mac(mac)?;
            by(namespace, encode::forwarding(true, index, mac), encode::forwarding(false, index, mac))
        }
        Operation::BridgePort { namespace, link, rules } => {
            let index = world.interface(namespace, link)?.index;
            by(namespace, bridge_port::change(index, *rules), bridge_port::change(index, rules.undone()))
        }
        Operation::Qdisc { namespace, link, parent, handle, discipline } => {
            let index = world.interface(namespace, link)?.index;
            let parent = encode::parse_handle(parent)?;
            let handle = handle.as_deref().map(encode::parse_handle).transpose()?.unwrap_or(0);
            let request = encode::qdisc(index, handle, parent, discipline)?;
            by(namespace, request, encode::delete_qdisc(index, handle, parent))
        }
        Operation::Class { namespace, link, parent, handle, discipline } => {
            let index = world.interface(namespace, link)?.index;
            let (parent, handle) = (encode::parse_handle(parent)?, encode::parse_handle(handle)?);
            let made = encode::class(index, handle, parent, discipline)?;
            by(namespace, made, encode::delete_class(index, handle))
        }
        Operation::Filter { namespace, link, parent, preference, protocol, target, matcher } => {
            let index = world.interface(namespace, link)?.index;
            let (parent, class) = (encode::parse_handle(parent)?, encode::parse_handle(target)?);
            let made = traffic::filter(index, parent, *preference, *protocol, class, matcher)?;
            by(namespace, made, traffic::delete_filter(index, parent, *preference, *protocol))
        }
        Operation::QueueLength { namespace, link, packets } => {
            let index = world.interface(namespace, link)?.index;
            Ok((namespace.clone(), traffic::queue_length(index, *packets), Undo::Nothing))
        }
        Operation::Namespace { .. }
        | Operation::Sysctl { .. }
        | Operation::Offload { .. }
        | Operation::Tap { .. }
        | Operation::Home { .. }
        | Operation::Claim { .. } => {
            let request = Request::new(libc::NLMSG_NOOP as u16, 0);
            Ok((String::new(), request, Undo::Nothing))
        }
    }
}

/// Makes a tap and keeps it open; what is left to be changed at it.
fn add_tap(world: &mut World, end: &End, offloads: bool) -> anyhow::Result<Request> {
    let made = new_interface(world, end)?;
    world.stand_in(&end.namespace)?;
    let tap = tap::open(&end.name, made.index, offloads)?;
    world.namespace(&end.namespace)?.taps.insert(end.name.clone(), tap);
    let change = LinkChange { mtu_bytes: made.mtu_bytes, master: made.master, ..LinkChange::default() };
    Ok(encode::change_link(made.index, change))
}

/// Gives the interface with a MAC its name; an interface that has the name is renamed.
fn claim(world: &mut World, namespace: &str, name: &str, mac: &str) -> anyhow::Result<Vec<Request>> {
    let mac = encode::parse_mac(mac)?;
    world.learn(namespace)?; // it may have come since, or gone and come again as another
    let links = &mut world.namespace(namespace)?.links;
    let found =
        links.iter().find(|(_, link)| link.mac == Some(mac)).map(|(known, link)| (known.clone(), link.index));
    let Some((known, index)) = found else {
        let there: Vec<&str> = links.keys().map(String::as_str).collect();
        anyhow::bail!("no interface has the address {}; there are {}", print(mac), there.join(", "));
    };
    let mut renames = Vec::new();
    if known != name {
        if let Some(other) = links.remove(name) {
            let aside = format!("aside{}", other.index);
            renames.push(encode::rename_link(other.index, &aside));
            links.insert(aside, other);
        }
        renames.push(encode::rename_link(index, name));
        if let Some(link) = links.remove(&known) {
            links.insert(name.to_owned(), link);
        }
    }
    Ok(renames)
}

fn print(mac: [u8; 6]) -> String {
    mac.map(|octet| format!("{octet:02x}")).join(":")
}

fn plain_end(namespace: &str, name: &str, mac: Option<&String>, mtu_bytes: Option<u32>) -> End {
    End { namespace: namespace.to_owned(), name: name.to_owned(), mac: mac.cloned(), mtu_bytes, master: None }
}

/// Enters an interface that is about to be made into the books.
fn new_interface(world: &mut World, end: &End) -> anyhow::Result<Interface> {
    anyhow::ensure!(
        (1..=15).contains(&end.name.len()) && !end.name.contains(['/', ' ']),
        "'{}' is not an interface name: 1 to 15 characters without '/' and space",
        end.name
    );
    let mac = end.mac.as_deref().map(encode::parse_mac).transpose()?;
    let master = match &end.master {
        Some(name) => Some(world.interface(&end.namespace, name)?.index),
        None => None,
    };
    let namespace = world.namespace(&end.namespace)?;
    anyhow::ensure!(
        !namespace.links.contains_key(&end.name),
        "there is already an interface '{}' in namespace '{}'",
        end.name,
        end.namespace
    );
    let made = Interface { index: namespace.take_index(), up: false, mtu_bytes: end.mtu_bytes, mac, master };
    namespace.links.insert(end.name.clone(), made.clone());
    Ok(made)
}

fn new_link<'a>(name: &'a str, made: &Interface, namespace_fd: Option<i32>) -> NewLink<'a> {
    NewLink {
        index: made.index,
        name,
        mac: made.mac,
        mtu_bytes: made.mtu_bytes,
        master: made.master,
        namespace_fd,
    }
}

fn parse_address(text: &str) -> anyhow::Result<std::net::IpAddr> {
    use anyhow::Context;
    text.parse().with_context(|| format!("'{text}' is not a IP address"))
}
