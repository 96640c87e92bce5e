//! ICMP echo sockets, IPv4 and IPv6: a raw socket where that is allowed, else a ping socket.
//!
//! Several roles of one guest ping at once. Each has its own identifier, and a filter in the kernel hands a raw socket
//! the replies to its own identifier only, so no role pays for another's replies. A ping socket gets its identifier
//! from the kernel and sees nothing else by itself.

use super::socket;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsRawFd, OwnedFd};

/// Bytes of the echo header.
pub const HEADER_BYTES: usize = 8;

/// A pair of ICMP sockets: one that sends and takes transmit stamps, one that receives.
#[derive(Debug)]
pub struct Sockets {
    /// Sends, never receives replies (a ping socket does both, and then this is the same socket).
    pub sender: OwnedFd,
    /// Receives replies to `identifier`.
    pub receiver: OwnedFd,
    /// Echo identifier.
    pub identifier: u16,
    /// Whether the kernel computes checksums (always for IPv6, and for ping sockets).
    pub kernel_checksum: bool,
    /// Whether replies begin with an IPv4 header.
    pub ip_header: bool,
}

/// Opens ICMP sockets from `local` to `peer`.
///
/// # Errors
/// When neither kind of socket is allowed here; the message says how to allow one.
pub fn open(local: IpAddr, peer: IpAddr, identifier: u16) -> io::Result<Sockets> {
    let local = SocketAddr::new(local, 0);
    let v6 = peer.is_ipv6();
    match raw(local, peer, identifier, v6) {
        Err(error) if error.raw_os_error() == Some(libc::EPERM) => {}
        other => return other,
    }
    ping(local, peer, v6).map_err(|error| {
        let cure = "give the guest CAP_NET_RAW, or its group a place in net.ipv4.ping_group_range, or use protocol udp";
        io::Error::new(error.kind(), format!("neither raw nor ping sockets are allowed here ({error}); {cure}"))
    })
}

fn protocol(v6: bool) -> i32 {
    if v6 { libc::IPPROTO_ICMPV6 } else { libc::IPPROTO_ICMP }
}

fn domain(v6: bool) -> i32 {
    if v6 { libc::AF_INET6 } else { libc::AF_INET }
}

fn raw(local: SocketAddr, peer: IpAddr, identifier: u16, v6: bool) -> io::Result<Sockets> {
    let sender = socket::open(domain(v6), libc::SOCK_RAW, protocol(v6))?;
    attach_filter(&sender, &[NOTHING])?;
    let receiver = socket::open(domain(v6), libc::SOCK_RAW, protocol(v6))?;
    attach_filter(&receiver, &if v6 { replies_v6(identifier) } else { replies_v4(identifier) })?;
    for fd in [&sender, &receiver] {
        socket::bind(fd, local)?;
        socket::allow_fragments(fd, v6)?;
    }
    socket::connect(&receiver, SocketAddr::new(peer, 0))?;
    prepare(&sender, &receiver, false)?;
    Ok(Sockets { sender, receiver, identifier, kernel_checksum: v6, ip_header: !v6 })
}

fn ping(local: SocketAddr, peer: IpAddr, v6: bool) -> io::Result<Sockets> {
    let receiver = socket::open(domain(v6), libc::SOCK_DGRAM, protocol(v6))?;
    socket::bind(&receiver, local)?;
    socket::allow_fragments(&receiver, v6)?;
    let identifier = socket::local_address(&receiver)?.port();
    socket::connect(&receiver, SocketAddr::new(peer, 0))?;
    let sender = receiver.try_clone()?;
    prepare(&sender, &receiver, true)?;
    Ok(Sockets { sender, receiver, identifier, kernel_checksum: true, ip_header: false })
}

fn prepare(sender: &OwnedFd, receiver: &OwnedFd, one_socket: bool) -> io::Result<()> {
    if !one_socket {
        socket::stamp_receives(receiver)?;
    }
    socket::stamp_transmits(sender, one_socket)?;
    socket::set_timeout(sender, libc::SO_SNDTIMEO, socket::SEND_TIMEOUT_US)?;
    socket::set_buffer(receiver, true, 8 << 20)?;
    Ok(())
}

const NOTHING: libc::sock_filter = filter(libc::BPF_RET | libc::BPF_K, 0, 0, 0);

const fn filter(code: u32, jt: u8, jf: u8, k: u32) -> libc::sock_filter {
    libc::sock_filter { code: code as u16, jt, jf, k }
}

/// Echo replies with the identifier, behind an IPv4 header of any length.
fn replies_v4(identifier: u16) -> Vec<libc::sock_filter> {
    use libc::{BPF_B, BPF_H, BPF_IND, BPF_JEQ, BPF_JMP, BPF_K, BPF_LD, BPF_LDX, BPF_MSH, BPF_RET};
    vec![
        filter(BPF_LDX | BPF_B | BPF_MSH, 0, 0, 0),
        filter(BPF_LD | BPF_B | BPF_IND, 0, 0, 0),
        filter(BPF_JMP | BPF_JEQ | BPF_K, 0, 3, 0),
        filter(BPF_LD | BPF_H | BPF_IND, 0, 0, 4),
        filter(BPF_JMP | BPF_JEQ | BPF_K, 0, 1, u32::from(identifier)),
        filter(BPF_RET | BPF_K, 0, 0, u32::MAX),
        NOTHING,
    ]
}

/// Echo replies with the identifier, where the ICMPv6 header comes first.
fn replies_v6(identifier: u16) -> Vec<libc::sock_filter> {
    use libc::{BPF_ABS, BPF_B, BPF_H, BPF_JEQ, BPF_JMP, BPF_K, BPF_LD, BPF_RET};
    vec![
        filter(BPF_LD | BPF_B | BPF_ABS, 0, 0, 0),
        filter(BPF_JMP | BPF_JEQ | BPF_K, 0, 3, 129),
        filter(BPF_LD | BPF_H | BPF_ABS, 0, 0, 4),
        filter(BPF_JMP | BPF_JEQ | BPF_K, 0, 1, u32::from(identifier)),
        filter(BPF_RET | BPF_K, 0, 0, u32::MAX),
        NOTHING,
    ]
}

fn attach_filter(fd: &OwnedFd, program: &[libc::sock_filter]) -> io::Result<()> {
    let program = libc::sock_fprog { len: program.len() as u16, filter: program.as_ptr().cast_mut() };
    // SAFETY: the program is alive during the call, and the kernel copies and checks it.
    let result = unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_FILTER,
            (&raw const program).cast(),
            size_of::<libc::sock_fprog>() as libc::socklen_t,
        )
    };
    socket::check(result).map(|_| ())
}

/// The Internet checksum's running sum over `bytes` (RFC 1071), which start at an even offset.
pub fn sum(bytes: &[u8]) -> u64 {
    let words = bytes.chunks_exact(4);
    let rest = words.remainder();
    let mut total: u64 =
        words.map(|word| u64::from(u32::from_be_bytes([word[0], word[1], word[2], word[3]]))).sum();
    let mut tail = [0; 4];
    tail[..rest.len()].copy_from_slice(rest);
    total += u64::from(u32::from_be_bytes(tail));
    total
}

/// The checksum of everything that went into `total`.
pub fn fold(mut total: u64) -> u16 {
    while total >> 16 != 0 {
        total = (total & 0xFFFF) + (total >> 16);
    }
    !(total as u16)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_checksum_of_rfc_1071s_example() {
        // 0001 f203 f4f5 f6f7 sum to ddf2 with end-around carry.
        assert_eq!(fold(sum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7])), !0xddf2);
    }

    proptest! {
        #[test]
        fn a_message_with_its_checksum_sums_to_nothing(mut bytes in prop::collection::vec(any::<u8>(), 8..300), cut in 4usize..8) {
            bytes[2..4].fill(0);
            let cut = cut / 4 * 4;
            let checksum = fold(sum(&bytes[..cut]) + sum(&bytes[cut..]));
            bytes[2..4].copy_from_slice(&checksum.to_be_bytes());
            prop_assert_eq!(fold(sum(&bytes)), 0);
        }
    }
}
