//! Smoothed jitter of RFC 3550 section 6.4.1, step by step as iperf3's `iperf_udp_recv` takes it.
//!
//! For each packet: transit = arrival - sent; D = |transit - previous transit|; J += (D - J) / 16, in doubles. iperf3
//! takes the first packet's transit as "previous" for itself, so J starts at 0, and it takes packets in order of
//! arrival.

/// J so far.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Jitter {
    previous_transit_ns: Option<i64>,
    jitter_ns: f64,
}

impl Jitter {
    /// Takes the next packet: when it was sent and when it arrived. The clocks may differ by a constant.
    pub fn record(&mut self, sent_ns: i64, received_ns: i64) {
        let transit = received_ns - sent_ns;
        if let Some(previous) = self.previous_transit_ns {
            let difference = transit.abs_diff(previous) as f64;
            self.jitter_ns += (difference - self.jitter_ns) / 16.0;
        }
        self.previous_transit_ns = Some(transit);
    }

    /// J in ns; `None` before the second packet.
    #[must_use]
    pub fn ns(&self) -> Option<f64> {
        self.previous_transit_ns.map(|_| self.jitter_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_step_of_16_moves_it_by_1_and_fades_by_a_sixteenth() {
        let mut jitter = Jitter::default();
        assert_eq!(jitter.ns(), None);
        for (sent, received) in [(0, 100), (1000, 1116), (2000, 2116)] {
            jitter.record(sent, received);
        }
        assert_eq!(jitter.ns(), Some(1.0 - 1.0 / 16.0));
    }

    proptest! {
        #[test]
        fn it_never_exceeds_the_largest_difference(transits in prop::collection::vec(0i64..1_000_000, 2..100), offset in -1_000_000i64..1_000_000) {
            let (mut jitter, mut shifted) = (Jitter::default(), Jitter::default());
            for (index, transit) in transits.iter().enumerate() {
                let sent = index as i64 * 1000;
                jitter.record(sent, sent + transit);
                shifted.record(sent, sent + transit + offset);
            }
            let largest = transits.windows(2).map(|pair| pair[0].abs_diff(pair[1])).max().unwrap();
            prop_assert!(jitter.ns().unwrap() <= largest as f64);
            prop_assert_eq!(jitter, Jitter { previous_transit_ns: jitter.previous_transit_ns, ..shifted });
        }
    }
}
