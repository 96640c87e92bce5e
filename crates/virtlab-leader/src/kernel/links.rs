//! Interfaces as the kernel has them.

use crate::kernel::bridge_port;
use crate::kernel::encode::{link_header, print_mac};
use crate::kernel::netlink::{Socket, attributes, number32, number64, text};
use serde_json::Value;

/// Interface counters, as the kernel names them from the interface's own side.
#[derive(Clone, Copy, Debug, Default)]
pub struct Traffic {
    pub received_packets: u64,
    pub sent_packets: u64,
    pub received_bytes: u64,
    pub sent_bytes: u64,
    pub received_errors: u64,
    pub sent_errors: u64,
    pub received_drops: u64,
    pub sent_drops: u64,
}

/// One interface as the kernel has it.
#[derive(Clone, Debug, Default)]
pub struct LinkState {
    pub index: i32,
    pub name: String,
    pub up: bool,
    /// Operational as of RFC 2863, which the kernel decides up to a second after the carrier is there.
    pub running: bool,
    pub carrier: bool,
    pub mtu_bytes: u32,
    pub segments_at_once: u32,
    /// What the kernel's own FIFOs take for their limit (`txqueuelen`).
    pub queue_length_packets: u32,
    pub mac: String,
    pub master: u32,
    pub kind: String,
    /// Rules of a bridge port; null for any other interface.
    pub bridge_port: Value,
    pub traffic: Traffic,
}

/// All interfaces of the namespace that a socket is in.
///
/// # Errors
/// When the kernel refuses the dump.
pub fn links(socket: &mut Socket) -> anyhow::Result<Vec<LinkState>> {
    let dump = socket.dump(libc::RTM_GETLINK, &link_header(0, 0, 0))?;
    Ok(dump.iter().map(|(_, body)| link_state(body)).collect())
}

fn link_state(body: &[u8]) -> LinkState {
    let flags = body.get(8..12).map_or(0, number32);
    let mut link = LinkState {
        index: body.get(4..8).map_or(0, number32) as i32,
        up: flags & libc::IFF_UP as u32 != 0,
        running: flags & libc::IFF_RUNNING as u32 != 0,
        carrier: flags & libc::IFF_LOWER_UP as u32 != 0,
        ..LinkState::default()
    };
    for (kind, value) in attributes(body.get(16..).unwrap_or(&[])) {
        match kind {
            libc::IFLA_IFNAME => link.name = text(value),
            libc::IFLA_MTU => link.mtu_bytes = number32(value),
            libc::IFLA_TXQLEN => link.queue_length_packets = number32(value),
            libc::IFLA_GSO_MAX_SEGS => link.segments_at_once = number32(value),
            libc::IFLA_ADDRESS => link.mac = print_mac(value),
            libc::IFLA_MASTER => link.master = number32(value),
            libc::IFLA_LINKINFO => {
                link.bridge_port = bridge_port::read(value).unwrap_or_default();
                if let Some((_, kind)) = attributes(value).find(|(kind, _)| *kind == libc::IFLA_INFO_KIND) {
                    link.kind = text(kind);
                }
            }
            libc::IFLA_STATS64 => {
                let at = |word: usize| value.get(word * 8..).map_or(0, number64);
                link.traffic = Traffic {
                    received_packets: at(0),
                    sent_packets: at(1),
                    received_bytes: at(2),
                    sent_bytes: at(3),
                    received_errors: at(4),
                    sent_errors: at(5),
                    received_drops: at(6),
                    sent_drops: at(7),
                };
            }
            _ => {}
        }
    }
    link
}
