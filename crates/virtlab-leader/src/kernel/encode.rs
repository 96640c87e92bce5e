//! One kernel operation as one netlink request. Layouts: linux/if_link.h, if_addr.h, neighbour.h, pkt_sched.h.

use crate::kernel::discipline::Discipline;
use crate::kernel::netlink::Request;
use anyhow::{Context, bail};
use std::net::IpAddr;

const VETH_INFO_PEER: u16 = 1;
const IFLA_BR_FORWARD_DELAY: u16 = 1;
const IFLA_BR_STP_STATE: u16 = 5;
const IFLA_BR_MCAST_SNOOPING: u16 = 23;
const NDA_DST: u16 = 1;
const NDA_LLADDR: u16 = 2;
const NTF_MASTER: u8 = 4;
const IFA_F_NODAD: u8 = 2;
const IFA_F_PERMANENT: u8 = 0x80;

/// Where a new interface stands and what it is.
#[derive(Clone, Copy, Debug)]
pub struct NewLink<'a> {
    pub index: i32,
    pub name: &'a str,
    pub mac: Option<[u8; 6]>,
    pub mtu_bytes: Option<u32>,
    pub master: Option<i32>,
    /// Descriptor of the network namespace, when it is not the socket's own.
    pub namespace_fd: Option<i32>,
}

impl NewLink<'_> {
    /// The beginning of a request that makes it; what it is comes after.
    pub fn created(&self) -> Request {
        self.put(create())
    }

    fn put(&self, request: Request) -> Request {
        let mut request = request.put(&link_header(self.index, 0, 0)).text(libc::IFLA_IFNAME, self.name);
        if let Some(mac) = self.mac {
            request = request.attribute(libc::IFLA_ADDRESS, &mac);
        }
        if let Some(mtu) = self.mtu_bytes {
            request = request.u32(libc::IFLA_MTU, mtu);
        }
        if let Some(master) = self.master {
            request = request.u32(libc::IFLA_MASTER, master as u32);
        }
        if let Some(fd) = self.namespace_fd {
            request = request.u32(libc::IFLA_NET_NS_FD, fd as u32);
        }
        request
    }
}

fn create() -> Request {
    Request::new(libc::RTM_NEWLINK, (libc::NLM_F_CREATE | libc::NLM_F_EXCL) as u16)
}

/// `struct ifinfomsg`.
pub fn link_header(index: i32, flags: u32, change: u32) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[4..8].copy_from_slice(&index.to_ne_bytes());
    bytes[8..12].copy_from_slice(&flags.to_ne_bytes());
    bytes[12..16].copy_from_slice(&change.to_ne_bytes());
    bytes
}

/// A veth pair; `first` is made in the socket's namespace. Neither end is up: a peer that is up from birth is refused.
pub fn veth(first: NewLink<'_>, second: NewLink<'_>) -> Request {
    first.put(create()).nested(libc::IFLA_LINKINFO, |info| {
        info.text(libc::IFLA_INFO_KIND, "veth")
            .nested(libc::IFLA_INFO_DATA, |data| data.nested(VETH_INFO_PEER, |peer| second.put(peer)))
    })
}

/// A bridge without spanning tree.
pub fn bridge(link: NewLink<'_>, multicast_snooping: bool) -> Request {
    link.put(create()).nested(libc::IFLA_LINKINFO, |info| {
        info.text(libc::IFLA_INFO_KIND, "bridge").nested(libc::IFLA_INFO_DATA, |data| {
            data.u32(IFLA_BR_FORWARD_DELAY, 0)
                .u32(IFLA_BR_STP_STATE, 0)
                .attribute(IFLA_BR_MCAST_SNOOPING, &[u8::from(multicast_snooping)])
        })
    })
}

/// A dummy interface.
pub fn dummy(link: NewLink<'_>) -> Request {
    link.put(create()).nested(libc::IFLA_LINKINFO, |info| info.text(libc::IFLA_INFO_KIND, "dummy"))
}

/// Changes to an interface.
#[derive(Clone, Copy, Debug, Default)]
pub struct LinkChange {
    pub up: Option<bool>,
    pub mtu_bytes: Option<u32>,
    pub mac: Option<[u8; 6]>,
    /// A bridge's index, or 0 for none.
    pub master: Option<i32>,
    /// Segments that TCP may hand over as one packet.
    pub segments_at_once: Option<u32>,
}

/// Changes an interface.
pub fn change_link(index: i32, change: LinkChange) -> Request {
    let up = libc::IFF_UP as u32;
    let (flags, mask) = change.up.map_or((0, 0), |wanted| (if wanted { up } else { 0 }, up));
    let mut request = Request::new(libc::RTM_NEWLINK, 0).put(&link_header(index, flags, mask));
    if let Some(mac) = change.mac {
        request = request.attribute(libc::IFLA_ADDRESS, &mac);
    }
    if let Some(mtu) = change.mtu_bytes {
        request = request.u32(libc::IFLA_MTU, mtu);
    }
    if let Some(master) = change.master {
        request = request.u32(libc::IFLA_MASTER, master as u32);
    }
    if let Some(segments) = change.segments_at_once {
        request = request.u32(libc::IFLA_GSO_MAX_SEGS, segments);
    }
    request
}

/// Gives an interface that is down another name.
pub fn rename_link(index: i32, name: &str) -> Request {
    Request::new(libc::RTM_NEWLINK, 0).put(&link_header(index, 0, 0)).text(libc::IFLA_IFNAME, name)
}

/// Removes an interface.
pub fn delete_link(index: i32) -> Request {
    Request::new(libc::RTM_DELLINK, 0).put(&link_header(index, 0, 0))
}

/// Adds or removes an interface address. No duplicate-address detection: the Plan's addresses are unique.
pub fn address(add: bool, index: i32, address: IpAddr, prefix: u8) -> Request {
    let mut header = [family(address), prefix, 0, 0, 0, 0, 0, 0];
    header[2] = if address.is_ipv6() { IFA_F_NODAD | IFA_F_PERMANENT } else { IFA_F_PERMANENT };
    header[4..8].copy_from_slice(&index.to_ne_bytes());
    let kind = if add { libc::RTM_NEWADDR } else { libc::RTM_DELADDR };
    let flags = if add { (libc::NLM_F_CREATE | libc::NLM_F_EXCL) as u16 } else { 0 };
    let octets = octets(address);
    let request = Request::new(kind, flags)
        .put(&header)
        .attribute(libc::IFA_LOCAL, &octets)
        .attribute(libc::IFA_ADDRESS, &octets);
    match address {
        IpAddr::V4(v4) if add && prefix < 31 => {
            let broadcast = u32::from(v4) | (u32::MAX >> prefix);
            request.attribute(libc::IFA_BROADCAST, &broadcast.to_be_bytes())
        }
        _ => request,
    }
}

/// Adds or removes a static route.
pub fn route(add: bool, index: i32, to: (IpAddr, u8), via: Option<IpAddr>) -> Request {
    let mut header = [0; 12];
    header[0] = family(to.0);
    header[1] = to.1;
    header[4] = libc::RT_TABLE_MAIN;
    header[5] = libc::RTPROT_STATIC;
    header[6] = if via.is_some() || to.0.is_ipv6() { libc::RT_SCOPE_UNIVERSE } else { libc::RT_SCOPE_LINK };
    header[7] = libc::RTN_UNICAST;
    let kind = if add { libc::RTM_NEWROUTE } else { libc::RTM_DELROUTE };
    let flags = if add { (libc::NLM_F_CREATE | libc::NLM_F_EXCL) as u16 } else { 0 };
    let mut request = Request::new(kind, flags).put(&header);
    if to.1 > 0 {
        request = request.attribute(libc::RTA_DST, &octets(to.0));
    }
    if let Some(via) = via {
        request = request.attribute(libc::RTA_GATEWAY, &octets(via));
    }
    request.u32(libc::RTA_OIF, index as u32)
}

/// Adds or removes a permanent neighbour entry.
pub fn neighbour(add: bool, index: i32, address: IpAddr, mac: [u8; 6]) -> Request {
    let header = neighbour_header(family(address), index, libc::NUD_PERMANENT, 0);
    neighbour_request(add).put(&header).attribute(NDA_DST, &octets(address)).attribute(NDA_LLADDR, &mac)
}

/// Adds or removes a static forwarding entry of the bridge that the interface is a port of.
pub fn forwarding(add: bool, index: i32, mac: [u8; 6]) -> Request {
    let header = neighbour_header(libc::AF_BRIDGE as u8, index, libc::NUD_NOARP, NTF_MASTER);
    neighbour_request(add).put(&header).attribute(NDA_LLADDR, &mac)
}

fn neighbour_request(add: bool) -> Request {
    if add {
        Request::new(libc::RTM_NEWNEIGH, (libc::NLM_F_CREATE | libc::NLM_F_REPLACE) as u16)
    } else {
        Request::new(libc::RTM_DELNEIGH, 0)
    }
}

fn neighbour_header(family: u8, index: i32, state: u16, flags: u8) -> [u8; 12] {
    let mut bytes = [0; 12];
    bytes[0] = family;
    bytes[4..8].copy_from_slice(&index.to_ne_bytes());
    bytes[8..10].copy_from_slice(&state.to_ne_bytes());
    bytes[10] = flags;
    bytes
}

/// `struct tcmsg`.
pub fn traffic_header(index: i32, handle: u32, parent: u32) -> [u8; 20] {
    let mut bytes = [0; 20];
    bytes[4..8].copy_from_slice(&index.to_ne_bytes());
    bytes[8..12].copy_from_slice(&handle.to_ne_bytes());
    bytes[12..16].copy_from_slice(&parent.to_ne_bytes());
    bytes
}

fn new_traffic(kind: u16, index: i32, handle: u32, parent: u32) -> Request {
    Request::new(kind, (libc::NLM_F_CREATE | libc::NLM_F_REPLACE) as u16)
        .put(&traffic_header(index, handle, parent))
}

/// Adds a queue discipline.
pub fn qdisc(index: i32, handle: u32, parent: u32, discipline: &Discipline) -> anyhow::Result<Request> {
    discipline.put(new_traffic(libc::RTM_NEWQDISC, index, handle, parent))
}

/// Removes a queue discipline.
pub fn delete_qdisc(index: i32, handle: u32, parent: u32) -> Request {
    Request::new(libc::RTM_DELQDISC, 0).put(&traffic_header(index, handle, parent))
}

/// Adds a class.
pub fn class(index: i32, handle: u32, parent: u32, discipline: &Discipline) -> anyhow::Result<Request> {
    discipline.put_class(new_traffic(libc::RTM_NEWTCLASS, index, handle, parent))
}

/// Removes a class.
pub fn delete_class(index: i32, handle: u32) -> Request {
    Request::new(libc::RTM_DELTCLASS, 0).put(&traffic_header(index, handle, 0))
}

fn family(address: IpAddr) -> u8 {
    if address.is_ipv4() { libc::AF_INET as u8 } else { libc::AF_INET6 as u8 }
}

pub fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(v4) => v4.octets().to_vec(),
        IpAddr::V6(v6) => v6.octets().to_vec(),
    }
}

/// `10.0.0.1/24` as address and prefix length.
pub fn parse_network(text: &str) -> anyhow::Result<(IpAddr, u8)> {
    let (address, prefix) = text
        .split_once('/')
        .with_context(|| format!("'{text}' has no prefix length; write e.g. 10.0.0.1/24"))?;
    let address: IpAddr = address.parse().with_context(|| format!("'{address}' is not a IP address"))?;
    let most = if address.is_ipv4() { 32 } else { 128 };
    match prefix.parse::<u8>() {
        Ok(length) if length <= most => Ok((address, length)),
        _ => bail!("'{text}': a prefix length is 0 to {most}"),
    }
}

/// `02:00:00:00:00:01` as six octets.
pub fn parse_mac(text: &str) -> anyhow::Result<[u8; 6]> {
    let mut mac = [0; 6];
    let mut parts = text.split(':');
    for octet in &mut mac {
        let part = parts.next().filter(|part| part.len() == 2);
        *octet = part
            .and_then(|part| u8::from_str_radix(part, 16).ok())
            .with_context(|| format!("'{text}' is not a MAC address"))?;
    }
    if parts.next().is_some() {
        bail!("'{text}' is not a MAC address");
    }
    Ok(mac)
}

/// `root`, `ingress`, `1:` or `1:2` as the kernel's number.
pub fn parse_handle(text: &str) -> anyhow::Result<u32> {
    match text {
        "root" => return Ok(0xffff_ffff),
        "ingress" => return Ok(0xffff_fff1),
        _ => {}
    }
    let (major, minor) =
        text.split_once(':').with_context(|| format!("'{text}' is not a handle; write e.g. 1:2"))?;
    let parse = |part: &str| if part.is_empty() { Ok(0) } else { u16::from_str_radix(part, 16) };
    let major = parse(major).with_context(|| format!("'{text}' is not a handle"))?;
    let minor = parse(minor).with_context(|| format!("'{text}' is not a handle"))?;
    Ok(u32::from(major) << 16 | u32::from(minor))
}

/// A handle as tc prints it.
pub fn print_handle(handle: u32) -> String {
    match handle {
        0xffff_ffff => "root".to_owned(),
        0xffff_fff1 => "ingress".to_owned(),
        _ if handle & 0xffff == 0 => format!("{:x}:", handle >> 16),
        _ => format!("{:x}:{:x}", handle >> 16, handle & 0xffff),
    }
}

/// A MAC as `ip` prints it.
pub fn print_mac(bytes: &[u8]) -> String {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_read_and_print_the_same() {
        for text in ["root", "1:", "1:1", "8001:", "ffff:fff2"] {
            assert_eq!(print_handle(parse_handle(text).unwrap()), text);
        }
        assert!(parse_handle("1").is_err());
    }

    #[test]
    fn addresses_need_a_prefix_that_fits() {
        assert_eq!(parse_network("10.0.0.1/24").unwrap().1, 24);
        for text in ["10.0.0.1", "10.0.0.1/33", "10.0.0/8", "fd00::1/129"] {
            assert!(parse_network(text).is_err(), "{text}");
        }
    }

    #[test]
    fn macs_have_six_octets_of_two_digits() {
        assert_eq!(parse_mac("02:00:00:00:00:0a").unwrap(), [2, 0, 0, 0, 0, 10]);
        for text in ["", "02:00", "02:00:00:00:00:0a:0b", "2:0:0:0:0:a", "02:00:00:00:00:zz"] {
            assert!(parse_mac(text).is_err(), "{text}");
        }
    }
}
