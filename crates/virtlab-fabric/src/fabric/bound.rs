//! The least time that a frame still needs to leave the fabric, so that a player in real time can sleep
//! through the model's inner events: they have no effect outside before that time.
//!
//! From the far end of a line every way out costs a fixed time (propagation and processing) and a time per octet
//! (the sum over its lines). Of the ways out only those remain of which none is both fixed and per octet better.

use virtlab_wire::Nanos;
use virtlab_wire::ethernet::{GAP_BYTES, wire_bytes};

/// Cost of one way out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Way {
    pub(crate) fixed_ns: u64,
    pub(crate) ps_per_octet: u64,
}

/// The line's part of a way.
pub(crate) fn step(rate_bit_per_s: u64, delay_ns: u64) -> Way {
    Way { fixed_ns: delay_ns, ps_per_octet: 8_000_000_000_000 / rate_bit_per_s }
}

/// The Pareto-optimal paths: none has both a lower delay and a lower time per octet.
pub(crate) fn best(mut paths: Vec<Way>) -> Vec<Way> {
    paths.sort_unstable();
    let mut kept: Vec<Way> = Vec::new();
    for way in paths {
        if kept.last().is_none_or(|last| way.ps_per_octet < last.ps_per_octet) {
            kept.push(way);
        }
    }
    kept
}

/// Least time out for a frame of `bytes`; `None` when there is no way out.
pub(crate) fn least(paths: &[Way], bytes: u32) -> Option<Nanos> {
    let octets = u64::from(wire_bytes(bytes) - GAP_BYTES);
    paths.iter().map(|way| Nanos(way.fixed_ns + way.ps_per_octet * octets / 1000)).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_way_that_is_worse_in_both_is_forgotten() {
        let (near, fast, bad) = (step(10_000_000, 5), step(1_000_000_000, 900), step(10_000_000, 900));
        assert_eq!(best(vec![bad, fast, near]), [near, fast]);
        assert_eq!(least(&[near, fast], 60), Some(Nanos(900 + 576)));
    }

    #[test]
    fn no_way_out_takes_for_ever() {
        assert_eq!(least(&[], 60), None);
    }
}
