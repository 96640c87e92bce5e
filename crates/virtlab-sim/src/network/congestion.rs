//! Explicit congestion notification on the way (RFC 3168): which packets may be marked, and which were.
//!
//! Only packets of TCP roles that speak it may be, so the two bits of their IP header are kept beside the network, by what
//! names a packet among all: its role, its sender, its flow and its number.

use super::Network;
use super::vnics::Outgoing;
use crate::ip::Message;
use std::collections::{BTreeMap, BTreeSet};
use virtlab_qdisc::Ecn;

type Name = (u32, u8, u32, u64);

fn name(message: &Message) -> Name {
    (message.role, message.origin, message.flow, message.seq)
}

/// The bits of packets under way.
#[derive(Debug, Default)]
pub(super) struct Congestion {
    speakers: BTreeSet<usize>,
    bits: BTreeMap<Name, Ecn>,
}

impl Network {
    /// A role's connections negotiate ECN.
    pub fn speak_ecn(&mut self, role: usize) {
        self.congestion.speakers.insert(role);
    }

    /// Whether they do.
    #[must_use]
    pub fn speaks_ecn(&self, role: usize) -> bool {
        self.congestion.speakers.contains(&role)
    }

    /// This message's packet may be marked.
    pub fn may_mark(&mut self, message: &Message) {
        if self.fabric.wants_ecn() {
            self.congestion.bits.insert(name(message), Ecn::Capable);
        }
    }

    /// Whether a message's packet was marked on the way, asked once.
    pub fn was_marked(&mut self, message: &Message) -> bool {
        !self.congestion.bits.is_empty() && self.congestion.bits.remove(&name(message)) == Some(Ecn::Marked)
    }

    pub(super) fn ecn_of(&self, out: &Outgoing) -> Ecn {
        if self.congestion.bits.is_empty() {
            return Ecn::NotCapable;
        }
        self.congestion.bits.get(&name(&out.cargo.message)).copied().unwrap_or_default()
    }

    /// A discipline marked a message's packet.
    pub(super) fn note_mark(&mut self, message: &Message) {
        if let Some(bits) = self.congestion.bits.get_mut(&name(message)) {
            *bits = Ecn::Marked;
        }
    }
}
