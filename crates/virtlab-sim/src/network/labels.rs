//! What headers say beside addresses: what rules of classes look at, and explicit congestion notification (RFC 3168).
//!
//! Only packets of TCP roles that speak ECN may be marked. So the two bits of their IP header are kept beside the
//! network, by what names a packet among all: its role, its sender, its flow and its number.

use super::frames::{Name, Outgoing, name};
use crate::ip::{HOPS, Message};
use std::collections::{BTreeMap, BTreeSet};
use virtlab_fabric::flow_hash;
use virtlab_qdisc::{Ecn, Headers};

/// Headers of flows and roles, and the ECN bits of packets under way.
#[derive(Default)]
pub struct Labels {
    /// Headers of what sockets and kernels send, by flow.
    headers: BTreeMap<u64, Headers>,
    /// By role: TOS of its packets.
    tos: BTreeMap<usize, u8>,
    /// By role: 802.1p priority of its frames.
    priority: BTreeMap<usize, u8>,
    /// Roles whose connections negotiate ECN.
    speakers: BTreeSet<usize>,
    bits: BTreeMap<Name, Ecn>,
}

impl Labels {
    /// The flow of frames that begin like this one, whose headers are known from now on.
    pub fn flow_of(&mut self, head: &[u8]) -> u64 {
        let flow = flow_hash(head);
        self.headers.insert(flow, virtlab_fabric::headers(head));
        flow
    }

    /// Packets of a role carry this code point, both ways.
    pub fn class(&mut self, role: usize, dscp: u8) {
        self.tos.insert(role, dscp << 2);
    }

    /// Frames of a role carry a tag with this 802.1p priority, until a router makes new ones.
    pub fn prefer(&mut self, role: usize, priority: u8) {
        self.priority.insert(role, priority);
    }

    /// What rules of classes see of a frame.
    pub fn headers_of(&self, out: &Outgoing) -> Headers {
        let read = self.headers.get(&out.flow).copied().unwrap_or_default();
        let role = out.cargo.message.role as usize;
        let tos = self.tos.get(&role).copied();
        let pcp = self.priority.get(&role).copied();
        let routed = out.cargo.ip.is_some_and(|packet| packet.hops_left < HOPS);
        Headers { tos: read.tos.map(|plain| tos.unwrap_or(plain)), pcp: pcp.filter(|_| !routed), ..read }
    }

    /// A role's connections negotiate ECN.
    pub fn speak_ecn(&mut self, role: usize) {
        self.speakers.insert(role);
    }

    /// Whether they do.
    pub fn speaks_ecn(&self, role: usize) -> bool {
        self.speakers.contains(&role)
    }

    /// A message's packet may be marked.
    pub fn may_mark(&mut self, message: &Message) {
        self.bits.insert(name(message), Ecn::Capable);
    }

    /// Whether a message's packet was marked on the way, asked once.
    pub fn was_marked(&mut self, message: &Message) -> bool {
        !self.bits.is_empty() && self.bits.remove(&name(message)) == Some(Ecn::Marked)
    }

    /// The bits of a message's packet.
    pub fn ecn_of(&self, message: &Message) -> Ecn {
        if self.bits.is_empty() {
            return Ecn::NotCapable;
        }
        self.bits.get(&name(message)).copied().unwrap_or_default()
    }

    /// A discipline marked a message's packet.
    pub fn note_mark(&mut self, message: &Message) {
        if let Some(bits) = self.bits.get_mut(&name(message)) {
            *bits = Ecn::Marked;
        }
    }
}
