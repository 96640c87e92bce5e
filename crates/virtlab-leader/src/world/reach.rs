//! `ping`: one answered echo per pair of addresses, all pairs at once, repeated until a deadline.
//!
//! Raw ICMP sockets, one per namespace and family, opened inside the namespaces; where the leader is of an ordinary
//! user, the kernel's ping sockets, which choose identifiers themselves. Identifier and sequence number both number the
//! pairs, so every pair knows its own answer. "Up" means that the last guest answered.

use crate::world::namespaces::World;
use anyhow::{Context, bail};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{SockType, getsockopt, sockopt};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use virtlab_system::clock;
use virtlab_wire::Nanos;

/// How long an unanswered echo waits before it is repeated, and echoes that are on their way at the same time: more
/// would only fill the queues of the world that is being checked.
const REPEAT: Nanos = Nanos(200_000_000);
const AT_ONCE: usize = 64;
const HEADERS_V4: usize = 28;
const HEADERS_V6: usize = 48;

/// Who asks whom.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pair {
    pub namespace: String,
    /// Source address; the kernel chooses when absent.
    pub from: Option<IpAddr>,
    pub to: IpAddr,
    /// Size of the IP packet; a packet of the path's MTU shows that the MTU holds.
    pub ip_packet_bytes: usize,
}

struct Probe<'a> {
    pair: &'a Pair,
    socket: usize,
    sent: Option<Nanos>,
    answer: Option<Nanos>,
}

/// Time until each pair's echo was answered; None where it never was.
///
/// # Errors
/// When a namespace is unknown or a socket cannot be made.
pub fn ping(world: &mut World, pairs: &[Pair], deadline: Nanos) -> anyhow::Result<Vec<Option<Nanos>>> {
    if pairs.len() > usize::from(u16::MAX) {
        bail!("{} pairs are more than echo identifiers; ask in parts", pairs.len());
    }
    let mut sockets: Vec<OwnedFd> = Vec::new();
    let mut index: BTreeMap<(&str, Option<IpAddr>, bool), usize> = BTreeMap::new();
    let mut probes = Vec::with_capacity(pairs.len());
    for pair in pairs {
        let key = (pair.namespace.as_str(), pair.from, pair.to.is_ipv6());
        let socket = match index.get(&key) {
            Some(&at) => at,
            None => {
                world.stand_in(&pair.namespace)?;
                sockets.push(open(pair.to.is_ipv6(), pair.from)?);
                index.insert(key, sockets.len() - 1);
                sockets.len() - 1
            }
        };
        probes.push(Probe { pair, socket, sent: None, answer: None });
    }
    world.go_home()?;
    let end = clock::monotonic() + deadline;
    let mut first_open = 0;
    loop {
        let now = clock::monotonic();
        while first_open < probes.len() && probes[first_open].answer.is_some() {
            first_open += 1;
        }
        if first_open == probes.len() || now >= end {
            break;
        }
        // Up to so many unanswered echoes are out; the rest wait until these are answered or the time is up.
        let open = probes[first_open..].iter_mut().enumerate().filter(|(_, probe)| probe.answer.is_none());
        for (offset, probe) in open.take(AT_ONCE) {
            if probe.sent.is_none_or(|sent| now.since(sent) >= REPEAT) {
                probe.sent = Some(now);
                send(&sockets[probe.socket], probe.pair, (first_open + offset) as u16);
            }
        }
        let mut waiting: Vec<usize> = probes[first_open..]
            .iter()
            .filter(|probe| probe.answer.is_none())
            .take(AT_ONCE)
            .map(|probe| probe.socket)
            .collect();
        waiting.sort_unstable();
        waiting.dedup();
        let mut polled: Vec<PollFd<'_>> =
            waiting.iter().map(|&at| PollFd::new(sockets[at].as_fd(), PollFlags::POLLIN)).collect();
        let timeout = (end.since(now).0 / 1_000_000).clamp(1, 50) as u16;
        match poll(&mut polled, PollTimeout::from(timeout)) {
            Ok(0) | Err(Errno::EINTR) => continue,
            Ok(_) => {}
            Err(error) => return Err(error).context("cannot wait for echoes"),
        }
        let readable: Vec<usize> = waiting
            .iter()
            .zip(&polled)
            .filter(|(_, fd)| fd.revents().is_some_and(|events| !events.is_empty()))
            .map(|(&at, _)| at)
            .collect();
        let now = clock::monotonic();
        for at in readable {
            while let Some(identifier) = receive(&sockets[at]) {
                if let Some(probe) = probes.get_mut(usize::from(identifier))
                    && probe.socket == at
                    && probe.answer.is_none()
                    && let Some(sent) = probe.sent
                {
                    probe.answer = Some(now.since(sent));
                }
            }
        }
    }
    Ok(probes.into_iter().map(|probe| probe.answer).collect())
}

fn open(v6: bool, from: Option<IpAddr>) -> anyhow::Result<OwnedFd> {
    let (family, protocol) =
        if v6 { (libc::AF_INET6, libc::IPPROTO_ICMPV6) } else { (libc::AF_INET, libc::IPPROTO_ICMP) };
    let made = |kind: i32| {
        // SAFETY: socket takes numbers and returns a new descriptor or an error.
        Errno::result(unsafe {
            libc::socket(family, kind | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK, protocol)
        })
    };
    let (fd, raw) = match made(libc::SOCK_RAW) {
        Err(Errno::EPERM | Errno::EACCES) => (made(libc::SOCK_DGRAM), false),
        made => (made, true),
    };
    let fd = fd.context(
        "cannot make an ICMP socket; log in as root there, or as root: sysctl net.ipv4.ping_group_range='0 2147483647'",
    )?;
    // SAFETY: the descriptor is new and ours.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    // Only echo replies wake this socket: ICMP_FILTER (1) holds bits of types to drop.
    if !raw {
        // The kernel hands a ping socket its own replies alone.
    } else if v6 {
        let mut filter = [u32::MAX; 8];
        filter[129 / 32] &= !(1 << (129 % 32));
        // SAFETY: the filter is eight words that live during the call.
        let code =
            unsafe { libc::setsockopt(fd.as_raw_fd(), libc::IPPROTO_ICMPV6, 1, filter.as_ptr().cast(), 32) };
        Errno::result(code).context("cannot filter ICMPv6")?;
    } else {
        crate::kernel::netlink::set_option(fd.as_raw_fd(), libc::SOL_RAW, 1, !1)?;
    }
    if let Some(address) = from {
        // `std` converts the address; a raw socket has no port.
        with_address(address, |pointer, length| {
            // SAFETY: pointer and length describe a socket address that lives during the call.
            Errno::result(unsafe { libc::bind(fd.as_raw_fd(), pointer, length) })
        })
        .with_context(|| format!("cannot send from {address}"))?;
    }
    Ok(fd)
}

fn with_address<T>(address: IpAddr, call: impl FnOnce(*const libc::sockaddr, libc::socklen_t) -> T) -> T {
    let storage: nix::sys::socket::SockaddrStorage = match SocketAddr::new(address, 0) {
        SocketAddr::V4(v4) => SocketAddrV4::into(v4),
        SocketAddr::V6(v6) => SocketAddrV6::into(v6),
    };
    use nix::sys::socket::SockaddrLike;
    call(storage.as_ptr(), storage.len())
}

/// An echo that is lost here (a full queue, a route that is not there yet) is repeated like any other.
fn send(socket: &OwnedFd, pair: &Pair, identifier: u16) {
    let v6 = pair.to.is_ipv6();
    let headers = if v6 { HEADERS_V6 } else { HEADERS_V4 };
    let mut packet = vec![0u8; 8 + pair.ip_packet_bytes.saturating_sub(headers)];
    packet[0] = if v6 { 128 } else { 8 };
    packet[4..6].copy_from_slice(&identifier.to_be_bytes());
    packet[6..8].copy_from_slice(&identifier.to_be_bytes());
    if !v6 {
        // The kernel fills in the checksum of ICMPv6 only.
        let sum = checksum(&packet);
        packet[2..4].copy_from_slice(&sum.to_be_bytes());
    }
    with_address(pair.to, |pointer, length| {
        // SAFETY: packet and address live during the call, with the lengths passed along.
        unsafe { libc::sendto(socket.as_raw_fd(), packet.as_ptr().cast(), packet.len(), 0, pointer, length) }
    });
}

/// The number of an echo reply that lies in the socket. A raw socket also sees those of other programs.
fn receive(socket: &OwnedFd) -> Option<u16> {
    let raw = getsockopt(socket, sockopt::SockType).is_ok_and(|kind| kind == SockType::Raw);
    let mut packet = [0u8; 128];
    loop {
        // SAFETY: the buffer lives during the call, with its length passed along.
        let n = unsafe { libc::recv(socket.as_raw_fd(), packet.as_mut_ptr().cast(), packet.len(), 0) };
        let n = usize::try_from(n).ok()?;
        // IPv4 sockets see the IP header, IPv6 sockets do not.
        let at = if packet[0] >> 4 == 4 && n >= HEADERS_V4 { usize::from(packet[0] & 15) * 4 } else { 0 };
        let own = !raw || packet[at + 4..at + 6] == packet[at + 6..at + 8];
        if n >= at + 8 && matches!(packet[at], 0 | 129) && own {
            return Some(u16::from_be_bytes([packet[at + 6], packet[at + 7]]));
        }
    }
}

/// RFC 1071.
fn checksum(bytes: &[u8]) -> u16 {
    let mut sum: u32 =
        bytes.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0))).sum();
    while sum >> 16 != 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_with_its_checksum_sums_to_zero() {
        let mut packet = vec![8, 0, 0, 0, 0x12, 0x34, 0, 1, 1, 2, 3];
        let sum = checksum(&packet);
        packet[2..4].copy_from_slice(&sum.to_be_bytes());
        assert_eq!(checksum(&packet), 0);
    }
}
