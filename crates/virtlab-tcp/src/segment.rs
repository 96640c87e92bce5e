//! A segment as far as the other end's state depends on it, and the length of its header.
//!
//! RFC 9293 (header of 20 bytes), RFC 7323 (window scale, timestamps: 12 bytes with padding), RFC 2018 (SACK: 4 bytes
//! with padding and 8 per block; beside timestamps at most 3 blocks). A SYN as Linux sends it has 20 bytes of options:
//! MSS, SACK permitted, timestamps, window scale.

/// Blocks that fit beside timestamps.
pub const SACK_BLOCKS: usize = 3;
/// Without options.
const BARE_BYTES: u32 = 20;
const SYN_OPTION_BYTES: u32 = 20;
const TIMESTAMP_BYTES: u32 = 12;

/// What a segment is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// The first.
    Syn,
    /// Its answer.
    SynAck,
    /// Data, or an acknowledgement without any.
    #[default]
    Data,
    /// Data whose last number is the end of the stream.
    Fin,
    /// There is no connection.
    Reset,
}

/// One segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Segment {
    /// What it is for.
    pub kind: Kind,
    /// Number of its first byte.
    pub seq: u64,
    /// Payload; of a FIN with its own number.
    pub bytes: u32,
    /// Next byte that its sender expects.
    pub ack: u64,
    /// Bytes beyond `ack` that its sender would take.
    pub window: u64,
    /// Whether `stamp_ns` and `echo_ns` are there.
    pub stamped: bool,
    /// When it was sent.
    pub stamp_ns: u64,
    /// The stamp that it answers; absent before any came.
    pub echo_ns: Option<u64>,
    /// Ranges that came out of order, the newest first.
    pub sack: [(u64, u64); SACK_BLOCKS],
    /// How many of them are there.
    pub blocks: u8,
    /// Congestion was experienced on the way here (RFC 3168). In a SYN: its sender speaks ECN.
    pub echo_congestion: bool,
    /// The window was reduced.
    pub window_reduced: bool,
    /// Its packet may be marked.
    pub markable: bool,
}

impl Segment {
    /// TCP header with options.
    #[must_use]
    pub fn header_bytes(&self) -> u32 {
        let options = match self.kind {
            Kind::Syn | Kind::SynAck => SYN_OPTION_BYTES,
            Kind::Reset => 0,
            Kind::Data | Kind::Fin => {
                let stamps = if self.stamped { TIMESTAMP_BYTES } else { 0 };
                stamps + if self.blocks > 0 { 4 + 8 * u32::from(self.blocks) } else { 0 }
            }
        };
        BARE_BYTES + options
    }

    /// Header and payload: what IP carries. The end of the stream has a number, and no octet.
    #[must_use]
    pub fn length_bytes(&self) -> u32 {
        self.header_bytes() + self.bytes - u32::from(self.kind == Kind::Fin)
    }

    /// Its SACK blocks.
    pub fn blocks(&self) -> &[(u64, u64)] {
        &self.sack[..usize::from(self.blocks)]
    }
}

/// Payload of a full segment: what the MTU leaves behind IP's header, TCP's and its timestamps.
#[must_use]
pub fn full_bytes(mtu_bytes: u32, ip_header_bytes: u32, stamped: bool) -> u32 {
    let headers = ip_header_bytes + BARE_BYTES + if stamped { TIMESTAMP_BYTES } else { 0 };
    mtu_bytes.saturating_sub(headers).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_as_long_as_linux_writes_them() {
        let data = Segment { stamped: true, bytes: 1448, ..Segment::default() };
        assert_eq!((data.header_bytes(), data.length_bytes()), (32, 1480));
        assert_eq!(Segment { blocks: 3, ..data }.header_bytes(), 60);
        assert_eq!(Segment { kind: Kind::Syn, ..Segment::default() }.header_bytes(), 40);
        assert_eq!(Segment { kind: Kind::Fin, bytes: 1, ..data }.length_bytes(), 32);
        assert_eq!(Segment { kind: Kind::Reset, ..Segment::default() }.length_bytes(), 20);
        assert_eq!((full_bytes(1500, 20, true), full_bytes(1500, 40, true)), (1448, 1428));
    }
}
