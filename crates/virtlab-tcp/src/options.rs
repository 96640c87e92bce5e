//! What a connection is told at birth; the defaults are Linux's.

/// Congestion control.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Algorithm {
    /// RFC 5681, which Linux calls reno.
    NewReno,
    /// RFC 9438.
    #[default]
    Cubic,
}

/// A socket buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Buffer {
    /// This many bytes of payload, for good.
    Fixed(u64),
    /// Grows with the flow up to this many bytes.
    Grows(u64),
}

/// All of them.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Payload of a full segment.
    pub segment_bytes: u32,
    /// Congestion control.
    pub algorithm: Algorithm,
    /// Slow start of CUBIC may end before a loss (Ha and Rhee; on in Linux).
    pub hystart: bool,
    /// Selective acknowledgements; without them recovery is RFC 6582's.
    pub sack: bool,
    /// RFC 7323.
    pub timestamps: bool,
    /// RFC 3168; Linux does not ask for it by default.
    pub ecn: bool,
    /// No small segment while one is unacknowledged.
    pub nagle: bool,
    /// Acknowledgements may wait for 40 ms or a second segment.
    pub delayed_ack: bool,
    /// Segments leave at a rate; off, as it is without `fq`.
    pub pacing: bool,
    /// RFC 6928.
    pub initial_window_packets: u32,
    /// What can wait to be sent and acknowledged: tcp_wmem.
    pub send_buffer: Buffer,
    /// What can be under way to here. Linux keeps half of tcp_rmem's 6 MiB for headers and overhead.
    pub receive_buffer: Buffer,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            segment_bytes: 1448,
            algorithm: Algorithm::Cubic,
            hystart: true,
            sack: true,
            timestamps: true,
            ecn: false,
            nagle: true,
            delayed_ack: true,
            pacing: false,
            initial_window_packets: 10,
            send_buffer: Buffer::Grows(4 << 20),
            receive_buffer: Buffer::Grows(3 << 20),
        }
    }
}
