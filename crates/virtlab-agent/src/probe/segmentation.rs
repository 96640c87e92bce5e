//! Many datagrams in one call, cut by the kernel before the vNIC sees them (UDP generic segmentation offload in
//! software).
//!
//! A socket with `UDP_SEGMENT` takes up to 64 KiB and its kernel cuts it into datagrams. Where the interface
//! declares that it can do that itself (`tx-udp-segmentation`), the whole crosses a virtual network as one packet,
//! and a packet rate would be an illusion; where it cannot, the kernel cuts in front of the interface, and what
//! crosses are packets like any others. Where a queue discipline is in front of the interface, it would see the
//! whole, too. So a sender may do it only where there is neither.

use super::socket;
use super::telemetry::qdisc;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use virtlab_system::offload;

/// The interface's own cutting of UDP, by its name in the kernel (net/ethtool/common.c).
const FEATURE: &str = "tx-udp-segmentation";
/// Largest datagram of UDP over IPv4 or IPv6, and so the most that one call may hand over.
pub const MOST_BYTES: usize = 65_507;

/// Whether datagrams cut by the kernel leave `vnic` one by one, seen by nothing on the way as one.
pub fn is_cut_before(vnic: &str) -> bool {
    let Ok(index) = nix::net::if_::if_nametoindex(vnic) else { return false };
    let unqueued = qdisc::roots()
        .is_ok_and(|roots| roots.iter().all(|root| root.interface != index as i32 || root.kind == "noqueue"));
    let Ok(any) = socket::open(libc::AF_INET, libc::SOCK_DGRAM, 0) else { return false };
    unqueued && offload::feature(any.as_raw_fd(), vnic, FEATURE).is_ok_and(|on| on == Some(false))
}

/// Has the kernel cut what is sent into datagrams of `payload_bytes`, the last of a call possibly shorter.
///
/// # Errors
/// Where the kernel cannot (before Linux 4.18).
pub fn cut(socket: &OwnedFd, payload_bytes: usize) -> io::Result<()> {
    socket::set_option(socket, libc::SOL_UDP, libc::UDP_SEGMENT, payload_bytes as i32)
}

/// No longer.
///
/// # Errors
/// As [`cut`].
pub fn cut_no_more(socket: &OwnedFd) -> io::Result<()> {
    socket::set_option(socket, libc::SOL_UDP, libc::UDP_SEGMENT, 0i32)
}
