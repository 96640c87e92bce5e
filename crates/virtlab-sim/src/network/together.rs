//! Segments of TCP that go together: one long frame on the host's path (TSO, GSO), cut where the first link begins.
//!
//! A guest whose vNIC has offloads hands its kernel's path one super-segment for many segments, so that crossing a
//! vNIC, a virtual switch, or a guest that forwards is paid once for all of them. A link knows no such frames: what
//! stands before it cuts them to the MTU, all at one instant. Where there is no link on the way, they come to the
//! receiver as they were sent, which acknowledges them as one. A vNIC without offloads takes none: they are cut
//! before it, whatever sent them. What has been cut stays so: its frames come one by one, each paying for itself.
//! How many go together is Linux's (`tcp_tso_autosize`): what the flow sends in 1/1024 s at the rate at which it
//! would be paced, and on short paths as much more as 64 KiB, halved for every 512 us of the least round trip; at
//! least two segments, and no more than 64 KiB less the longest header. Source: `net/ipv4/tcp_output.c`;
//! `Documentation/networking/segmentation-offloads.rst`. Deviation: nothing waits to become longer
//! (`tcp_tso_should_defer`), and a vNIC's bucket takes such a frame for as many as it will be cut into, each with
//! what a cable adds.

use super::Network;
use super::vnics::Outgoing;
use crate::ip::{Cargo, HOPS, Message, Packet};
use std::collections::BTreeMap;
use virtlab_wire::ethernet::HEADER_BYTES;

/// The longest payload of a super-segment: 64 KiB less what Linux keeps for headers (`MAX_TCP_HEADER`, 320 B, and 1).
const MOST_BYTES: u64 = 65_536 - 321;
/// Of the rate's second, `sk_pacing_shift`; of the least round trip in us, `tcp_tso_rtt_log`.
const PACING_SHIFT: u32 = 10;
const RTT_LOG: u32 = 9;
const LEAST_SEGMENTS: u64 = 2;
/// A packet that so many later ones have overtaken does not come any more.
const OVERTAKEN: u64 = 1 << 16;

/// Role, sender, flow, number of the first.
type Name = (u32, u8, u32, u64);

/// What a super-segment is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Parts {
    count: u32,
    /// Of TCP with its header: of all but the last, and of that.
    full_bytes: u32,
    last_bytes: u32,
}

/// Super-segments under way.
#[derive(Debug, Default)]
pub(super) struct Together {
    parts: BTreeMap<Name, Parts>,
}

fn name(message: &Message) -> Name {
    (message.role, message.origin, message.flow, message.seq)
}

/// How many segments of so many bytes a flow sends together.
pub fn most_segments(segment_bytes: u32, rate_byte_per_s: Option<u64>, least_rtt_ns: Option<u64>) -> usize {
    let halvings = least_rtt_ns.map_or(u64::from(u32::MAX), |rtt_ns| (rtt_ns / 1000) >> RTT_LOG);
    let near_bytes = if halvings < 32 { (MOST_BYTES + 1) >> halvings } else { 0 };
    let bytes = rate_byte_per_s.map_or(MOST_BYTES, |rate| (rate >> PACING_SHIFT) + near_bytes);
    let segments = bytes.min(MOST_BYTES) / u64::from(segment_bytes.max(1));
    segments.max(LEAST_SEGMENTS) as usize
}

impl Network {
    /// Whether a socket's vNIC takes segments together, and pays for them.
    pub fn takes_together(&self, socket: usize) -> bool {
        self.lets_together(self.sockets[socket].nic)
    }

    /// Whether a vNIC lets segments through together.
    pub(super) fn lets_together(&self, nic: usize) -> bool {
        self.costs.as_ref().is_some_and(|costs| costs.takes_together(nic))
    }

    /// Sends segments that follow each other, all but the last of one length, as one frame; each message holds its
    /// TCP header.
    pub fn send_together(&mut self, socket: usize, messages: &[Message], header_bytes: u32) {
        let ([first, .., last], Some(to)) = (messages, self.sockets[socket].ip) else {
            for message in messages {
                self.send(socket, *message);
            }
            return;
        };
        let parts = Parts {
            count: messages.len() as u32,
            full_bytes: first.payload_bytes,
            last_bytes: last.payload_bytes,
        };
        self.together.note(name(first), parts);
        let own = &self.sockets[socket];
        let (nic, source, destination, flow) = (own.nic, own.source, own.destination, own.flows[0]);
        let body_bytes = header_bytes
            + (parts.count - 1) * (parts.full_bytes - header_bytes)
            + (parts.last_bytes - header_bytes);
        let packet = Packet {
            number: self.packets,
            to,
            hops_left: HOPS,
            tapped: false,
            body_bytes,
            whole_bytes: body_bytes,
        };
        self.packets += 1;
        let out = Outgoing {
            cargo: Cargo { message: Message { payload_bytes: body_bytes, ..*first }, ip: Some(packet) },
            source,
            destination,
            bytes: HEADER_BYTES + packet.bytes(),
            flow,
            socket: Some(socket),
            counted: false,
        };
        let ready = self.ready(nic, out.bytes, Some(socket));
        self.put_resolved(nic, out, ready);
    }

    /// How many segments a message is.
    pub fn segments_in(&self, message: &Message) -> u64 {
        self.parts_of(message).map_or(1, |parts| u64::from(parts.count))
    }

    #[inline]
    pub(super) fn parts_of(&self, message: &Message) -> Option<Parts> {
        if self.together.parts.is_empty() {
            return None;
        }
        let parts = self.together.parts.get(&name(message)).copied()?;
        (message.payload_bytes > parts.full_bytes).then_some(parts) // not one of its own segments, cut off before
    }

    /// The frames that a super-segment is cut into.
    pub(super) fn cut(&mut self, out: &Outgoing, parts: Parts) -> Vec<Outgoing> {
        let Some(packet) = out.cargo.ip else { return vec![*out] };
        (0..parts.count)
            .map(|place| {
                let body_bytes = if place + 1 == parts.count { parts.last_bytes } else { parts.full_bytes };
                let message = Message {
                    seq: out.cargo.message.seq + u64::from(place),
                    payload_bytes: body_bytes,
                    ..out.cargo.message
                };
                let own = Packet { number: self.packets, body_bytes, whole_bytes: body_bytes, ..packet };
                self.packets += 1;
                let cargo = Cargo { message, ip: Some(own) };
                Outgoing { cargo, bytes: HEADER_BYTES + own.bytes(), socket: None, ..*out }
            })
            .collect()
    }

    /// The lengths of those frames.
    pub(super) fn cut_bytes(&self, out: &Outgoing, parts: Parts) -> impl Iterator<Item = u32> + use<> {
        let beside = out.bytes - out.cargo.message.payload_bytes;
        (0..parts.count).map(move |place| {
            beside + if place + 1 == parts.count { parts.last_bytes } else { parts.full_bytes }
        })
    }

    /// The longest packet of a super-segment's.
    pub(super) fn longest_bytes(&self, packet: &Packet, parts: Parts) -> u32 {
        Packet { body_bytes: parts.full_bytes, whole_bytes: parts.full_bytes, ..*packet }.bytes()
    }
}

impl Together {
    fn note(&mut self, of: Name, parts: Parts) {
        let (role, origin, flow, number) = of;
        let old = number.saturating_sub(OVERTAKEN);
        while let Some((&lost, _)) =
            self.parts.range((role, origin, flow, 0)..(role, origin, flow, old)).next()
        {
            self.parts.remove(&lost);
        }
        self.parts.insert(of, parts);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn a_flow_sends_together_what_goes_in_a_millisecond_and_on_short_paths_all() {
        assert_eq!(most_segments(1448, None, None), 45, "65,160 bytes: the well-known length");
        assert_eq!(most_segments(1448, Some(12_500_000), Some(40 * MS)), 8, "12.2 KB of 100 Mbit/s");
        assert_eq!(most_segments(1448, Some(125_000), Some(40 * MS)), 2, "never fewer");
        assert_eq!(most_segments(1448, Some(125_000), Some(MS / 10)), 45);
        assert_eq!(most_segments(1448, Some(125_000), Some(MS)), 22, "halved once beyond 512 us");
        assert_eq!(most_segments(1448, Some(125_000), Some(2 * MS)), 5, "three times");
    }

    #[test]
    fn what_has_been_overtaken_for_long_is_forgotten() {
        let mut together = Together::default();
        let parts = Parts { count: 3, full_bytes: 1480, last_bytes: 100 };
        together.note((0, 0, 0, 7), parts);
        together.note((0, 1, 0, 7), parts);
        together.note((0, 0, 0, 7 + OVERTAKEN), parts);
        assert_eq!(together.parts.len(), 3);
        together.note((0, 0, 0, 8 + OVERTAKEN), parts);
        assert_eq!(together.parts.len(), 3, "the first is gone, that of the other side is not");
    }
}
