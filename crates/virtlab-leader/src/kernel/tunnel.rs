//! VXLAN: Ethernet frames in UDP datagrams (RFC 7348) over a network that is there already.
//!
//! Layout: linux/if_link.h. The interface is born in one namespace while its datagrams go through another, whose
//! netlink socket the request is sent by. It learns nothing: who is where is known beforehand, so each far end has
//! its entries.

use crate::kernel::encode::{NewLink, octets};
use crate::kernel::netlink::Request;
use std::net::IpAddr;

const VXLAN_ID: u16 = 1;
const VXLAN_LINK: u16 = 3;
const VXLAN_LOCAL: u16 = 4;
const VXLAN_LEARNING: u16 = 7;
const VXLAN_PORT: u16 = 15;
const VXLAN_LOCAL6: u16 = 17;
const NDA_DST: u16 = 1;
const NDA_LLADDR: u16 = 2;
const NTF_SELF: u8 = 2;
const STATE: u16 = libc::NUD_NOARP | libc::NUD_PERMANENT;

/// What a VXLAN's datagrams are.
#[derive(Clone, Copy, Debug)]
pub struct Tunnel {
    pub id: u32,
    pub port: u16,
    pub local: IpAddr,
    /// Index of the interface that carries them.
    pub through: i32,
}

/// A new VXLAN interface.
pub fn vxlan(link: NewLink<'_>, tunnel: Tunnel) -> Request {
    let local = if tunnel.local.is_ipv6() { VXLAN_LOCAL6 } else { VXLAN_LOCAL };
    link.created().nested(libc::IFLA_LINKINFO, |info| {
        info.text(libc::IFLA_INFO_KIND, "vxlan").nested(libc::IFLA_INFO_DATA, |data| {
            data.u32(VXLAN_ID, tunnel.id)
                .u32(VXLAN_LINK, tunnel.through as u32)
                .attribute(local, &octets(tunnel.local))
                .attribute(VXLAN_LEARNING, &[0])
                .attribute(VXLAN_PORT, &tunnel.port.to_be_bytes())
        })
    })
}

/// Frames to `mac` (all zeros: to unknown addresses, and to all) go to the host at `address`.
pub fn peer(index: i32, mac: [u8; 6], address: IpAddr) -> Request {
    let flags = libc::NLM_F_CREATE | if mac == [0; 6] { libc::NLM_F_APPEND } else { libc::NLM_F_REPLACE };
    let mut header = [0; 12];
    header[0] = libc::AF_BRIDGE as u8;
    header[4..8].copy_from_slice(&index.to_ne_bytes());
    header[8..10].copy_from_slice(&STATE.to_ne_bytes());
    header[10] = NTF_SELF;
    Request::new(libc::RTM_NEWNEIGH, flags as u16)
        .put(&header)
        .attribute(NDA_DST, &octets(address))
        .attribute(NDA_LLADDR, &mac)
}
