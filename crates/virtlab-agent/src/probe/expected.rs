//! A server hears its peer and no other, and what strangers send taints nothing.
//!
//! A server's port is open to anybody who reaches its guest, and on existing hosts that may be anybody: a datagram of a
//! stranger would be counted or answered to a forged address.
//!
//! A UDP socket that is connected to the peer's address and to no port (`inet_dport` 0: `compute_score` of
//! net/ipv4/udp.c compares the address alone) gets datagrams of every port of the peer. The kernel refuses what
//! strangers send before it has found a socket, so nothing of it is in the counters of this one: a filter alone would
//! count each as a drop of the socket (`sk_drops`), as if the buffer had been full. Until the socket is connected, and
//! for ever where there is no way back to the peer to connect it, a filter (classic BPF,
//! Documentation/networking/filter.rst of Linux) cuts what strangers send down to nothing, which is passed over. It
//! needs no privilege and is there before the socket is bound.
//!
//! A listening TCP socket has a filter that drops. Newer kernels give one to a TCP socket for CAP_NET_ADMIN only, so
//! TCP servers look at each connection's peer besides (`workload/tcp.rs`).

use super::socket::{connect, set_option};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};

/// Loads at this offset and above are from the network header.
const NETWORK_HEADER: u32 = 0xFFF0_0000; // SKF_NET_OFF
/// Where a packet's source is in its network header.
const SOURCE_V4: u32 = 12;
const SOURCE_V6: u32 = 8;

/// How a stranger's packet is kept out.
#[derive(Clone, Copy, Debug)]
pub enum Otherwise {
    /// It is dropped, which the socket counts.
    Drop = 0,
    /// Its payload is cut off (the header stays).
    Empty = 1,
}

/// From now on the socket takes what comes from `peer` only.
///
/// # Errors
/// As setsockopt(2).
pub fn only_from(fd: &impl AsFd, peer: IpAddr, otherwise: Otherwise) -> io::Result<()> {
    let mut program = program(peer, otherwise);
    let whole = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // The kernel copies the program during the call.
    set_option(fd, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, whole)
}

/// A connection whose peer is known: its packets need not be looked at.
pub fn known(fd: &OwnedFd) {
    let _ = set_option(fd, libc::SOL_SOCKET, libc::SO_DETACH_FILTER, 0i32);
}

/// Has the kernel look for the peer's datagrams only, where it knows a way to the peer.
///
/// # Errors
/// As connect(2).
pub fn connect_to(fd: &OwnedFd, peer: IpAddr) -> io::Result<()> {
    match connect(fd, SocketAddr::new(peer, 0)) {
        Ok(()) => known(fd),
        Err(error) if matches!(error.raw_os_error(), Some(libc::ENETUNREACH | libc::EHOSTUNREACH)) => {}
        Err(error) => return Err(error),
    }
    Ok(())
}

/// Compares the source word by word.
fn program(peer: IpAddr, otherwise: Otherwise) -> Vec<libc::sock_filter> {
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
    let take = |bytes| instruction(libc::BPF_RET | libc::BPF_K, 0, bytes);
    out.extend([take(u32::MAX), take(otherwise as u32)]);
    out
}

const fn instruction(code: u32, otherwise: u8, k: u32) -> libc::sock_filter {
    libc::sock_filter { code: code as u16, jt: 0, jf: otherwise, k }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::socket::{
        Inbox, RawAddress, answer, bind, local_address, open, send, stamp_receives, udp, udp_from,
    };

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
    fn what_strangers_send_is_no_drop_of_the_socket() {
        let server = udp_from("127.0.0.1:0".parse().unwrap(), "127.0.0.2".parse().unwrap()).unwrap();
        stamp_receives(&server).unwrap();
        for source in ["127.0.0.3:0", "127.0.0.3:0", "127.0.0.2:0"] {
            from(source, &server);
        }
        let mut inbox = Inbox::new();
        let message = inbox.receive(server.as_fd(), libc::MSG_DONTWAIT).unwrap();
        assert_eq!((message.bytes, message.drops.unwrap_or(0)), (&b"127.0.0.2:0"[..], 0));
    }

    #[test]
    fn where_no_way_leads_back_a_stranger_says_nothing_and_is_no_drop() {
        let server = open(libc::AF_INET, libc::SOCK_DGRAM, 0).unwrap();
        only_from(&server, "127.0.0.2".parse().unwrap(), Otherwise::Empty).unwrap();
        bind(&server, "127.0.0.1:0".parse().unwrap()).unwrap();
        stamp_receives(&server).unwrap();
        from("127.0.0.3:0", &server);
        from("127.0.0.2:0", &server);
        let mut inbox = Inbox::new();
        let mut heard = Vec::new();
        while let Ok(message) = inbox.receive(server.as_fd(), libc::MSG_DONTWAIT) {
            assert_eq!(message.drops.unwrap_or(0), 0);
            heard.push(message.bytes.to_vec());
        }
        assert_eq!(heard, [b"".to_vec(), b"127.0.0.2:0".to_vec()]);
    }

    #[test]
    fn a_server_hears_every_port_of_its_peer_and_answers_though_one_of_them_is_gone() {
        let server = udp_from("127.0.0.1:0".parse().unwrap(), "127.0.0.2".parse().unwrap()).unwrap();
        let mut inbox = Inbox::new();
        let ask = |client: &OwnedFd| {
            let to = RawAddress::from(local_address(&server).unwrap());
            send(client.as_fd(), b"?", Some(&to)).unwrap();
        };
        let gone = {
            let client = udp("127.0.0.2:0".parse().unwrap(), false).unwrap();
            ask(&client);
            let from = inbox.receive(server.as_fd(), 0).unwrap().from().unwrap();
            assert_eq!(from, local_address(&client).unwrap());
            from
        };
        let client = udp("127.0.0.2:0".parse().unwrap(), false).unwrap();
        ask(&client);
        let from = inbox.receive(server.as_fd(), 0).unwrap().from().unwrap();
        // The kernel of the one that is gone says so at once; the next call hears of it.
        answer(server.as_fd(), b"!", Some(&gone.into())).unwrap();
        answer(server.as_fd(), b"!", Some(&from.into())).unwrap();
        assert_eq!(inbox.receive(client.as_fd(), libc::MSG_DONTWAIT).unwrap().bytes, b"!");
    }

    #[test]
    fn every_word_of_an_address_of_version_6_counts() {
        let peer: IpAddr = "fd00:1:2:3:4:5:6:7".parse().unwrap();
        let built = program(peer, Otherwise::Drop);
        assert_eq!(built.len(), 10);
        for (number, step) in built.iter().take(8).enumerate().filter(|(number, _)| number % 2 == 1) {
            assert_eq!(number + 1 + usize::from(step.jf), 9, "to the last instruction, which drops");
        }
        let Ok(server) = udp_from("[::1]:0".parse().unwrap(), "::1".parse().unwrap()) else { return };
        from("[::1]:0", &server);
        assert!(Inbox::new().receive(server.as_fd(), libc::MSG_DONTWAIT).is_ok());
    }
}
