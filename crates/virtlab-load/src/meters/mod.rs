//! Meters: samples in, the field's own figures out, each as its source defines it.
//!
//! | figure | source |
//! |---|---|
//! | min, avg, max, mdev of round trips | `ping` of iputils: mdev is the population standard deviation |
//! | smoothed jitter | RFC 3550 section 6.4.1, as iperf3 computes it: J += (|D| - J) / 16 |
//! | IPDV | RFC 3393: delay minus delay of the packet before, by sequence |
//! | PDV | RFC 5481: delay minus the smallest delay |
//! | loss, duplicates | RFC 7680, RFC 5560 |
//! | reordering | RFC 4737: type-P reordered, against the next expected number |

pub mod delay;
pub mod jitter;
pub mod sequence;
pub mod throughput;

pub use delay::{RttSummary, ipdv_ns, pdv_ns};
pub use jitter::Jitter;
pub use sequence::{Arrival, Sequence};
pub use throughput::Throughput;
