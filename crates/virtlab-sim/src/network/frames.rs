//! What is sent between guests: a frame at a vNIC, in the fabric, and as it comes to a vNIC; who sends it.

use crate::ip::addresses::Number;
use crate::ip::{Cargo, HOPS, Message};
use core::net::IpAddr;
use virtlab_fabric::{Frame, Mac, PortId};

/// Pseudo-roles, of what kernels send themselves: questions and answers about neighbours, ICMP errors of routers, and
/// what interfaces say of themselves over IPv6.
pub const NEIGHBOURS: u32 = u32::MAX;
pub const NOTICE: u32 = u32::MAX - 1;
pub const NOISE: u32 = u32::MAX - 2;

/// Next header of a fragment of IPv6.
const FRAGMENT: u8 = 44;

/// Whether a message is a question or an answer about a neighbour.
pub fn is_resolution(message: &Message) -> bool {
    message.role == NEIGHBOURS
}

/// Whether a message is a router's to a sender.
pub fn is_notice(message: &Message) -> bool {
    message.role == NOTICE
}

/// Whether a message is an interface's own.
pub fn is_noise(message: &Message) -> bool {
    message.role == NOISE
}

/// Role, sender, flow and number: what names a packet among all.
pub type Name = (u32, u8, u32, u64);

/// The name of a message's packet.
pub fn name(message: &Message) -> Name {
    (message.role, message.origin, message.flow, message.seq)
}

/// Where a frame goes to: at this network, and below IP nowhere else.
pub type Address = (Mac, Option<Number>);

/// What lies at a port of a virtual switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// A vNIC.
    Nic(usize),
    /// A port of the fabric.
    Port(PortId),
}

/// A frame at a vNIC.
#[derive(Clone, Copy, Debug)]
pub struct Outgoing {
    pub cargo: Cargo,
    pub source: Mac,
    pub destination: Mac,
    /// Header and payload, no FCS.
    pub bytes: u32,
    pub flow: u64,
    pub socket: Option<usize>,
    /// Whether its receiver only counts it.
    pub counted: bool,
    /// Whether its message is whole neither with it nor with the next one: it needs no event where its way is certain.
    pub amid: bool,
}

/// What the fabric carries of it: all else is in the frame.
#[derive(Clone, Copy, Debug)]
pub struct Carried {
    pub cargo: Cargo,
    pub counted: bool,
    /// Of a frame that meets others without an event: the vNIC that takes it.
    pub to: u32,
}

impl Outgoing {
    /// A frame that has left the fabric; where it came from is behind it.
    pub fn carried(frame: &Frame<Carried>) -> Self {
        let Carried { cargo, counted, .. } = frame.payload;
        let Frame { source, destination, bytes, flow, .. } = *frame;
        Self { cargo, source, destination, bytes, flow, socket: None, counted, amid: false }
    }
}

/// A frame that has come to a vNIC.
#[derive(Clone, Copy, Debug)]
pub struct Incoming {
    pub nic: usize,
    pub source: Mac,
    pub destination: Mac,
    pub bytes: u32,
    pub flow: u64,
    pub cargo: Cargo,
}

/// A frame as far as flows and rules of classes look at it.
pub fn head(from: IpAddr, to: IpAddr, protocol: u8, ports: [u16; 2], fragmented: bool) -> Vec<u8> {
    let mut bytes = vec![0; 12];
    match (from, to) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            let fragment = if fragmented { 0x20 } else { 0 };
            bytes.extend([8, 0, 0x45, 0, 0, 0, 0, 0, fragment, 0, HOPS, protocol, 0, 0]);
            bytes.extend(from.octets());
            bytes.extend(to.octets());
        }
        (from, to) => {
            let octets = |address| match address {
                IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
                IpAddr::V6(address) => address.octets(),
            };
            let next = if fragmented { FRAGMENT } else { protocol };
            bytes.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 0, next, HOPS]);
            bytes.extend(octets(from));
            bytes.extend(octets(to));
        }
    }
    bytes.extend(ports.iter().flat_map(|port| port.to_be_bytes()));
    bytes
}

/// Memory that Linux counts for a frame: a power of two with its header and 320 B beside it, and 256 B.
pub const fn memory_bytes(frame_bytes: u32) -> u32 {
    let block = (frame_bytes + 384).next_power_of_two();
    256 + if block < 512 { 512 } else { block }
}
