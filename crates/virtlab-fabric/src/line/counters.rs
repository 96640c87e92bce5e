//! What a line has seen: frames, bytes, drops by reason, waits; of the whole and of each class.

use virtlab_qdisc::{Backlog, DropReason};

/// What one class of a queue has seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassCounters {
    /// Frames that the transmitter took.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Frames dropped.
    pub drops: u64,
    /// Frames that left marked with congestion experienced.
    pub marked_packets: u64,
    /// Frames that wait.
    pub backlog_packets: u64,
    /// Their bytes.
    pub backlog_bytes: u64,
    /// Most packets that waited at once.
    pub backlog_max_packets: u64,
    /// Most bytes that waited at once.
    pub backlog_max_bytes: u64,
    /// Time for which the frames that the transmitter took had waited, added up.
    pub residence_ns: u64,
    /// The longest of these waits.
    pub residence_max_ns: u64,
    /// Half of the waits are shorter, within an eighth; read off when asked.
    pub residence_p50_ns: u64,
    /// 99 % of the waits are shorter, within an eighth; read off when asked.
    pub residence_p99_ns: u64,
}

/// What one direction of a link has seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LineCounters {
    /// Frames that its transmitter took.
    pub packets: u64,
    /// Their bytes, header and payload, no FCS.
    pub bytes: u64,
    /// Frames dropped, all reasons.
    pub drops: u64,
    /// Their bytes.
    pub dropped_bytes: u64,
    /// Frames dropped, by reason; in the order of [`LineCounters::REASONS`].
    pub drops_by_reason: [u64; 7],
    /// Most packets that waited at once.
    pub backlog_max_packets: u64,
    /// Most bytes that waited at once.
    pub backlog_max_bytes: u64,
    /// Time for which the transmitter was or is held.
    pub busy_ns: u64,
    /// Frames that left marked with congestion experienced.
    pub marked_packets: u64,
    /// Time for which the frames that the transmitter took had waited in the queue, added up.
    pub residence_ns: u64,
    /// The longest of these waits.
    pub residence_max_ns: u64,
}

impl LineCounters {
    /// The reasons behind `drops_by_reason`.
    pub const REASONS: [DropReason; 7] = [
        DropReason::PacketLimit,
        DropReason::ByteLimit,
        DropReason::Congestion,
        DropReason::Oversize,
        DropReason::Unclassified,
        DropReason::Lost,
        DropReason::LinkDown,
    ];

    /// Frames dropped for a reason.
    pub(crate) fn dropped_as(&self, why: DropReason) -> u64 {
        self.drops_by_reason[Self::place(why)]
    }

    fn place(why: DropReason) -> usize {
        Self::REASONS.iter().position(|&reason| reason == why).expect("all reasons are listed")
    }

    #[cold]
    pub(crate) fn note_drop(&mut self, bytes: u32, why: DropReason) {
        self.drops += 1;
        self.dropped_bytes += u64::from(bytes);
        self.drops_by_reason[Self::place(why)] += 1;
    }

    #[inline]
    pub(crate) fn note_held(&mut self, held: Backlog) {
        self.backlog_max_packets = self.backlog_max_packets.max(held.packets);
        self.backlog_max_bytes = self.backlog_max_bytes.max(held.bytes);
    }
}
