//! Messages without packets beside the fabric: over which lines they go, and what lines and vNICs have counted of them.

use crate::network::whole::Network;
use crate::post::{Branch, Flood, Frames, Line, Passage, Post, Step, Way};
use crate::transfers::Load;
use virtlab_tcp::full_bytes;
use virtlab_wire::Nanos;
use virtlab_wire::ethernet::{FCS_BYTES, HEADER_BYTES, PREAMBLE_AND_GAP_BYTES};

/// Of a segment with data and time stamps.
const TCP_HEADER_BYTES: u32 = 32;
const UDP_HEADER_BYTES: u64 = 8;
/// Frames that a vNIC which pushes back lets go at once.
const BURST_FRAMES: u64 = 10;
const SECOND_NS: u64 = 1_000_000_000;

/// Where a branch of a flood is: its line, the branch that it follows, and who hears behind it, with their vNICs.
pub struct Twig {
    pub line: usize,
    pub before: Option<usize>,
    pub hear: Vec<(usize, usize)>,
}

impl Network {
    /// What crosses lines without packets.
    #[inline]
    pub fn post(&mut self) -> &mut Post {
        &mut self.wire.post
    }

    /// The place of a direction of a link among those that messages cross; `None`: there is no such link.
    pub fn post_line(&mut self, link: &str, direction: &str) -> Option<usize> {
        let id = self.wire.fabric.line(link, direction)?;
        if let Some(place) = self.wire.post.line(id) {
            return Some(place);
        }
        let (rate_bit_per_s, delay) = self.wire.fabric.speed(id);
        let gates = (0..self.edge.nics.len()).filter(|nic| {
            let nic = &self.edge.nics[*nic];
            nic.is_shared() && nic.port.is_some_and(|at| self.wire.fabric.line_from(at) == Some(id))
        });
        let line = Line::of_link(id, link, rate_bit_per_s, delay.0, gates.collect());
        Some(self.wire.post.add_line(line))
    }

    /// Whether a vNIC has a licence, which drops packets.
    pub fn is_licensed(&self, nic: usize) -> bool {
        self.edge.nics[nic].licence.is_some()
    }

    /// A way of messages between vNICs, under addresses with heads of IP of that length.
    pub fn post_way(&mut self, mut lines: Vec<usize>, nics: [usize; 2], ip_bytes: u32) -> usize {
        let frames = self.frames_of(nics, ip_bytes);
        if let Some(rate_bit_per_s) = self.edge.nics[nics[0]].given.pushback_bit_per_s
            && lines.first().is_none_or(|first| self.is_slower(rate_bit_per_s, *first))
        {
            lines.insert(
                0,
                self.wire.post.line_of_vnic(nics[0], rate_bit_per_s, burst_ns(frames, rate_bit_per_s)),
            );
        }
        self.wire.post.add_way(Way { lines, nics, frames })
    }

    /// Whether a vNIC of that rate is slower than a line.
    fn is_slower(&self, rate_bit_per_s: u64, line: usize) -> bool {
        let of = &self.wire.post.lines[line].of;
        of.as_ref().is_some_and(|(id, _)| rate_bit_per_s < self.wire.fabric.speed(*id).0)
    }

    /// What one peer says to all goes, from a vNIC.
    pub fn post_flood(
        &mut self,
        nic: usize,
        twigs: Vec<Twig>,
        neighbours: Vec<(usize, usize)>,
        ip_bytes: u32,
    ) -> usize {
        let frames = self.frames_of([nic; 2], ip_bytes);
        let befores: Vec<Option<usize>> = twigs.iter().map(|twig| twig.before).collect();
        let after = |branch: Option<usize>| {
            befores.iter().enumerate().filter(move |(_, before)| **before == branch).map(|(place, _)| place)
        };
        let roots = after(None).collect();
        let branches = twigs.into_iter().enumerate().map(|(place, twig)| Branch {
            line: twig.line,
            next: after(Some(place)).collect(),
            hear: twig.hear,
        });
        self.wire.post.add_flood(Flood { branches: branches.collect(), roots, neighbours, nic, frames })
    }

    fn frames_of(&self, nics: [usize; 2], ip_bytes: u32) -> Frames {
        let mtu_bytes = self.mtu_bytes(nics[0]).min(self.mtu_bytes(nics[1]));
        let fragment_bytes = u64::from(mtu_bytes.saturating_sub(ip_bytes)).max(8);
        Frames {
            segment_bytes: full_bytes(mtu_bytes, ip_bytes, true).into(),
            segment_heads_bytes: (HEADER_BYTES + ip_bytes + TCP_HEADER_BYTES).into(),
            fragment_bytes,
            fragment_heads_bytes: (HEADER_BYTES + ip_bytes).into(),
            datagram_heads_bytes: UDP_HEADER_BYTES,
        }
    }

    /// A datagram leaves its vNIC, and crosses lines as far as it comes to them by now, or soon.
    #[inline]
    pub fn post_datagram(&mut self, way: usize, bytes: u64) -> (Passage, Step) {
        let Self { wire, edge, now_ns, .. } = self;
        let Way { nics: [from, to], frames, .. } = *wire.post.way(way);
        let load = frames.datagram(bytes);
        edge.nics[from].traffic.sent_packets += load.frames;
        edge.nics[from].traffic.sent_bytes += load.bytes;
        let (passage, step) = wire.post.go_alone(*now_ns, way, load);
        if matches!(step, Step::Comes(_)) {
            edge.nics[to].traffic.received_packets += load.frames;
            edge.nics[to].traffic.received_bytes += load.bytes;
        }
        (passage, step)
    }

    /// A message, or a part of one, leaves its vNIC.
    pub fn count_sent(&mut self, way: usize, load: Load) {
        let traffic = &mut self.edge.nics[self.wire.post.way(way).nics[0]].traffic;
        traffic.sent_packets += load.frames;
        traffic.sent_bytes += load.bytes;
    }

    /// It comes to the other one.
    pub fn count_received(&mut self, way: usize, load: Load) {
        self.count_heard(self.wire.post.way(way).nics[1], load);
    }

    /// The same of what was said to all.
    pub fn count_called(&mut self, flood: usize, load: Load) {
        let traffic = &mut self.edge.nics[self.wire.post.flood(flood).nic].traffic;
        traffic.sent_packets += load.frames;
        traffic.sent_bytes += load.bytes;
    }

    /// Something comes to a vNIC.
    pub fn count_heard(&mut self, nic: usize, load: Load) {
        let traffic = &mut self.edge.nics[nic].traffic;
        traffic.received_packets += load.frames;
        traffic.received_bytes += load.bytes;
    }

    /// Directions of links before which more messages have waited than their queue holds, and frames of those that came
    /// then.
    pub fn over_limits(&self) -> Vec<(String, u64)> {
        let frames = |id| {
            let of_it = |line: &&Line| line.of.as_ref().is_some_and(|(own, _)| *own == id);
            self.wire.post.lines.iter().filter(of_it).map(|line| line.limit.over).sum::<u64>()
        };
        let lines = self.wire.fabric.lines(Nanos(self.now_ns));
        let named = lines.filter_map(|line| {
            let id = self.wire.fabric.line(line.link, line.direction)?;
            Some((format!("{}.{}", line.link, line.direction), frames(id)))
        });
        named.filter(|(_, frames)| *frames > 0).collect()
    }

    /// Adds what messages have brought to what links count. Before these are read.
    pub(super) fn count_post(&mut self) {
        let now_ns = self.now_ns;
        for (line, load, busy_ns) in self.wire.post.tell(now_ns) {
            if let Some((id, _)) = line.of {
                self.wire.fabric.count_beside(id, load.frames, load.bytes, Nanos(busy_ns));
            }
            for gate in &line.gates {
                let traffic = &mut self.edge.nics[*gate].traffic;
                traffic.sent_packets += load.frames;
                traffic.sent_bytes += load.bytes;
            }
        }
    }
}

fn burst_ns(frames: Frames, rate_bit_per_s: u64) -> u64 {
    let of_each =
        u64::from(FCS_BYTES + PREAMBLE_AND_GAP_BYTES) + frames.segment_heads_bytes + frames.segment_bytes;
    BURST_FRAMES * of_each * 8 * SECOND_NS / rate_bit_per_s.max(1)
}
