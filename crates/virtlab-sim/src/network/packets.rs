//! Packets by number, and segments of TCP that go together: one long frame on the host's path (TSO, GSO), cut where the
//! first link begins.
//!
//! A guest whose vNIC has offloads hands its kernel's path one super-segment for many segments, so that crossing a
//! vNIC, a virtual switch, or a guest that forwards is paid once for all of them. A link knows no such frames: what
//! stands before it cuts them to the MTU, all at one instant. Where there is no link on the way, they come to the
//! receiver as they were sent, which acknowledges them as one. A vNIC without offloads takes none: they are cut before
//! it, whatever sent them. What has been cut stays so: its frames come one by one, each paying for itself. Source:
//! `Documentation/networking/segmentation-offloads.rst`. Deviation: a vNIC's bucket takes such a frame for as many as
//! it will be cut into, each with what a cable adds.

use super::frames::{Name, Outgoing, name};
use crate::ip::{Cargo, Message, Packet};
use std::collections::BTreeMap;
use virtlab_wire::ethernet::HEADER_BYTES;

/// A packet that so many later ones have overtaken does not come any more.
const OVERTAKEN: u64 = 1 << 16;

/// What a super-segment is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parts {
    pub count: u32,
    /// Of TCP with its header: of all but the last, and of that.
    pub full_bytes: u32,
    pub last_bytes: u32,
}

impl Parts {
    /// The lengths of the frames that a super-segment is cut into.
    pub fn frame_bytes(self, out: &Outgoing) -> impl Iterator<Item = u32> + use<> {
        let beside = out.bytes - out.cargo.message.payload_bytes;
        (0..self.count).map(move |place| beside + self.bytes_at(place))
    }

    /// The longest packet of a super-segment's.
    pub fn longest_bytes(self, packet: &Packet) -> u32 {
        Packet { body_bytes: self.full_bytes, whole_bytes: self.full_bytes, ..*packet }.bytes()
    }

    fn bytes_at(self, place: u32) -> u32 {
        if place + 1 == self.count { self.last_bytes } else { self.full_bytes }
    }
}

/// The numbers of packets, and what super-segments under way are made of.
#[derive(Debug, Default)]
pub struct Packets {
    numbered: u64,
    together: BTreeMap<Name, Parts>,
}

impl Packets {
    /// The number of a new packet.
    #[inline]
    pub fn number(&mut self) -> u64 {
        let number = self.numbered;
        self.numbered += 1;
        number
    }

    /// What the packet of a message is made of, where it is several segments.
    #[inline]
    pub fn parts_of(&self, message: &Message) -> Option<Parts> {
        if self.together.is_empty() {
            return None;
        }
        let parts = self.together.get(&name(message)).copied()?;
        (message.payload_bytes > parts.full_bytes).then_some(parts) // not one of its own segments, cut off before
    }

    /// The frames that a super-segment is cut into.
    pub fn cut(&mut self, out: &Outgoing, parts: Parts) -> Vec<Outgoing> {
        let Some(packet) = out.cargo.ip else { return vec![*out] };
        (0..parts.count)
            .map(|place| {
                let body_bytes = parts.bytes_at(place);
                let message = Message {
                    seq: out.cargo.message.seq + u64::from(place),
                    payload_bytes: body_bytes,
                    ..out.cargo.message
                };
                let own = Packet { number: self.number(), body_bytes, whole_bytes: body_bytes, ..packet };
                let cargo = Cargo { message, ip: Some(own) };
                Outgoing { cargo, bytes: HEADER_BYTES + own.bytes(), socket: None, ..*out }
            })
            .collect()
    }

    /// A super-segment goes, named by its first segment.
    pub fn join(&mut self, first: &Message, parts: Parts) {
        let (role, origin, flow, number) = name(first);
        let old = number.saturating_sub(OVERTAKEN);
        while let Some((&lost, _)) =
            self.together.range((role, origin, flow, 0)..(role, origin, flow, old)).next()
        {
            self.together.remove(&lost);
        }
        self.together.insert(name(first), parts);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_been_overtaken_for_long_is_forgotten() {
        let mut packets = Packets::default();
        let parts = Parts { count: 3, full_bytes: 1480, last_bytes: 100 };
        let message = |origin, seq| Message {
            role: 0,
            origin,
            reply: false,
            flow: 0,
            seq,
            sent_ns: 0,
            payload_bytes: 3060,
        };
        packets.join(&message(0, 7), parts);
        packets.join(&message(1, 7), parts);
        packets.join(&message(0, 7 + OVERTAKEN), parts);
        assert_eq!(packets.together.len(), 3);
        packets.join(&message(0, 8 + OVERTAKEN), parts);
        assert_eq!(packets.together.len(), 3, "the first is gone, that of the other side is not");
    }
}
