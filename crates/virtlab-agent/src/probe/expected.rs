//! A server hears its peer and no other: the kernel drops what comes from elsewhere before the socket has it.
//!
//! A server's port is open to anybody who reaches its guest, and on existing hosts that may be anybody: a datagram of a
//! stranger would be counted or answered to a forged address. A filter of the socket (classic BPF,
//! Documentation/networking/filter.rst of Linux) needs no privilege, costs a few instructions per packet, and is there
//! before the socket is bound. Newer kernels give one to a TCP socket for CAP_NET_ADMIN only, so TCP servers look at
//! each connection's peer besides (`workload/tcp.rs`).

use super::socket::set_option;
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, OwnedFd};

/// Loads at this offset and above are from the network header.
const NETWORK_HEADER: u32 = 0xFFF0_0000; // SKF_NET_OFF
/// Where a packet's source is in its network header.
const SOURCE_V4: u32 = 12;
const SOURCE_V6: u32 = 8;
const TAKE: libc::sock_filter = instruction(libc::BPF_RET | libc::BPF_K, 0, u32::MAX);
const DROP: libc::sock_filter = instruction(libc::BPF_RET | libc::BPF_K, 0, 0);

/// From now on the socket takes what comes from `peer` only.
///
/// # Errors
/// As setsockopt(2).
pub fn only_from(fd: &impl AsFd, peer: IpAddr) -> io::Result<()> {
    let mut program = program(peer);
    let whole = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // The kernel copies the program during the call.
    set_option(fd, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, whole)
}

/// A connection whose peer was looked at: its packets need not be, if its listener had a filter.
pub fn known(fd: &OwnedFd) {
    let _ = set_option(fd, libc::SOL_SOCKET, libc::SO_DETACH_FILTER, 0i32);
}

/// Compares the source word by word.
fn program(peer: IpAddr) -> Vec<libc::sock_filter> {
    let (at, octets) = match peer {
        IpAddr::V4(address) => (SOURCE_V4, address.octets().to_vec()),
        IpAddr::V6(address) => (SOURCE_V6, address.octets().to_vec()),
    };
    let words = octets.len() / 4;
    let mut out = Vec::new();
    for (number, word) in octets.chunks_exact(4).enumerate() {
        let value = u32::from_be_bytes([word[0], word[1], word[2], word[3]]);
        let offset = NETWORK_HEADER + at + 4 * number as u32;
        out.push(instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, offset));
        // Past the words that are left, two instructions each, and past the one that takes.
        let to_drop = 2 * (words - 1 - number) + 1;
        out.push(instruction(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, to_drop as u8, value));
    }
    out.extend([TAKE, DROP]);
    out
}

const fn instruction(code: u32, otherwise: u8, k: u32) -> libc::sock_filter {
    libc::sock_filter { code: code as u16, jt: 0, jf: otherwise, k }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::socket::{Inbox, RawAddress, local_address, send, udp, udp_from};
    use std::net::SocketAddr;

    fn from(source: &str, target: &OwnedFd) {
        let sender = udp(source.parse().unwrap(), false).unwrap();
        let to: SocketAddr = local_address(target).unwrap();
        send(sender.as_fd(), source.as_bytes(), Some(&RawAddress::from(to))).unwrap();
    }

    #[test]
    fn a_datagram_of_a_stranger_does_not_arrive_and_one_of_the_peer_does() {
        let server = udp_from("127.0.0.1:0".parse().unwrap(), "127.0.0.2".parse().unwrap()).unwrap();
        for source in ["127.0.0.3:0", "127.0.0.1:0", "127.0.1.2:0", "127.0.0.2:0"] {
            from(source, &server);
        }
        let mut inbox = Inbox::new();
        let message = inbox.receive(server.as_fd(), libc::MSG_DONTWAIT).unwrap();
        assert_eq!(message.bytes, b"127.0.0.2:0");
        assert!(inbox.receive(server.as_fd(), libc::MSG_DONTWAIT).is_err());
    }

    #[test]
    fn every_word_of_an_address_of_version_6_counts() {
        let peer: IpAddr = "fd00:1:2:3:4:5:6:7".parse().unwrap();
        let built = program(peer);
        assert_eq!(built.len(), 10);
        for (number, step) in built.iter().take(8).enumerate().filter(|(number, _)| number % 2 == 1) {
            assert_eq!(number + 1 + usize::from(step.jf), 9, "to the last instruction, which drops");
        }
        let Ok(server) = udp_from("[::1]:0".parse().unwrap(), "::1".parse().unwrap()) else { return };
        from("[::1]:0", &server);
        assert!(Inbox::new().receive(server.as_fd(), libc::MSG_DONTWAIT).is_ok());
    }
}
