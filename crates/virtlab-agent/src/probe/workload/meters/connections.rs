//! Who is connected to a TCP port of this guest, as the kernel lists it for everybody (proc(5), /proc/net/tcp).

use std::net::IpAddr;

const ESTABLISHED: &str = "01";

/// Connections to one port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Connections {
    /// The peer has one.
    pub peer: bool,
    /// Somebody else has one.
    pub others: bool,
}

/// The connections to `port`: those of `peer`, and those of others.
pub fn at(port: u16, peer: IpAddr) -> Connections {
    let lists = ["tcp", "tcp6"].map(|name| std::fs::read_to_string(format!("/proc/thread-self/net/{name}")));
    listed(&lists.into_iter().flatten().collect::<String>(), port, peer)
}

fn listed(lists: &str, port: u16, peer: IpAddr) -> Connections {
    let names = names_of(peer);
    let mut found = Connections::default();
    for line in lists.lines() {
        let mut words = line.split_whitespace().skip(1);
        let (Some(local), Some(remote), Some(state)) = (words.next(), words.next(), words.next()) else {
            continue;
        };
        let (Some((_, here)), Some((there, _))) = (local.split_once(':'), remote.split_once(':')) else {
            continue;
        };
        if state == ESTABLISHED && u16::from_str_radix(here, 16) == Ok(port) {
            let is_peer = names.iter().any(|name| name == there);
            found.peer |= is_peer;
            found.others |= !is_peer;
        }
    }
    found
}

/// An address as the kernel prints it: words of 32 bits in this machine's order; of version 4 also as mapped to 6.
fn names_of(address: IpAddr) -> Vec<String> {
    let words = |octets: &[u8]| -> String {
        let words =
            octets.chunks_exact(4).map(|word| u32::from_ne_bytes([word[0], word[1], word[2], word[3]]));
        words.map(|word| format!("{word:08X}")).collect()
    };
    match address {
        IpAddr::V4(short) => vec![words(&short.octets()), words(&short.to_ipv6_mapped().octets())],
        IpAddr::V6(long) => vec![words(&long.octets())],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn the_kernels_list_tells_the_peer_from_others() {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = server.local_addr().unwrap().port();
        let (mine, other): (IpAddr, IpAddr) = ("127.0.0.1".parse().unwrap(), "127.0.0.9".parse().unwrap());
        assert_eq!(at(port, mine), Connections::default(), "a listener is no connection");
        let _client = std::net::TcpStream::connect(server.local_addr().unwrap()).unwrap();
        assert_eq!(at(port, mine), Connections { peer: true, others: false });
        assert_eq!(at(port, other), Connections { peer: false, others: true });
    }

    #[test]
    fn addresses_of_version_6_are_compared_whole() {
        let peer: IpAddr = "fd00::1".parse().unwrap();
        let line = |address: &str| {
            let name = &names_of(address.parse().unwrap())[0];
            format!("   1: {name}:1451 {name}:B26C 01 00000000:00000000\n")
        };
        assert_eq!(listed(&line("fd00::1"), 0x1451, peer), Connections { peer: true, others: false });
        assert_eq!(listed(&line("fd00::66"), 0x1451, peer), Connections { peer: false, others: true });
        assert_eq!(listed(&line("fd00::66"), 0x1452, peer), Connections::default(), "another port");
    }
}
