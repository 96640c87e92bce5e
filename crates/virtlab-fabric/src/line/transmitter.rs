//! The transmitter of a line: how long it holds a frame, and until when.

use virtlab_wire::Nanos;
use virtlab_wire::ethernet::{GAP_BYTES, serialisation, wire_bytes};

/// How long a frame of so many bytes holds the transmitter, and after how long the far end has it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wire {
    bytes: u32,
    pub(crate) occupied: Nanos,
    pub(crate) whole: Nanos,
}

/// What sends one frame after the other.
pub(crate) struct Transmitter {
    rate_bit_per_s: u64,
    propagation: Nanos,
    /// The latest time seen.
    pub(crate) clock: Nanos,
    pub(crate) busy_until: Nanos,
    /// The length met last, and another before it: of a message all fragments but the last are as long as the one
    /// before.
    last: Wire,
    other: Wire,
}

impl Transmitter {
    pub(crate) fn new(rate_bit_per_s: u64, propagation: Nanos) -> Self {
        let none = wire(0, rate_bit_per_s, propagation);
        Self {
            rate_bit_per_s,
            propagation,
            clock: Nanos::ZERO,
            busy_until: Nanos::ZERO,
            last: none,
            other: none,
        }
    }

    /// The rate of frames that start now, in bit/s, and the propagation.
    pub(crate) const fn speed(&self) -> (u64, Nanos) {
        (self.rate_bit_per_s, self.propagation)
    }

    /// Frames that start from now on are sent at another rate; no length has been met at it.
    pub(crate) fn set_rate(&mut self, rate_bit_per_s: u64) {
        self.rate_bit_per_s = rate_bit_per_s;
        self.last = Wire { bytes: u32::MAX, occupied: Nanos::ZERO, whole: Nanos::ZERO };
        self.other = self.last;
    }

    /// What a frame of a length takes; it becomes the length met last.
    #[inline]
    pub(crate) fn measure(&mut self, bytes: u32) -> Wire {
        if bytes != self.last.bytes {
            core::mem::swap(&mut self.last, &mut self.other);
            if bytes != self.last.bytes {
                self.last = wire(bytes, self.rate_bit_per_s, self.propagation);
            }
        }
        self.last
    }
}

fn wire(bytes: u32, rate_bit_per_s: u64, propagation: Nanos) -> Wire {
    let octets = wire_bytes(bytes);
    Wire {
        bytes,
        occupied: serialisation(octets, rate_bit_per_s),
        whole: serialisation(octets - GAP_BYTES, rate_bit_per_s) + propagation,
    }
}
