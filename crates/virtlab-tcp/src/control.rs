//! The congestion window, in packets as Linux counts it: slow start, avoidance, reduction.
//!
//! Slow start adds a packet per packet acknowledged (RFC 5681 with the byte counting of RFC 3465, L unbounded),
//! avoidance one per window (NewReno) or as CUBIC says. A loss or an ECN echo halves the window (NewReno) or takes
//! CUBIC's 0.7 of it, two packets at least; a time-out leaves one packet and slow start up to there.

use crate::cubic::Cubic;
use crate::hystart::HyStart;
use crate::options::{Algorithm, Options};

/// State of one flow.
#[derive(Clone, Copy, Debug)]
pub struct Control {
    algorithm: Algorithm,
    hystart: Option<HyStart>,
    cubic: Cubic,
    /// Packets that may be under way.
    pub window: u32,
    /// Below it, slow start.
    pub threshold: u32,
    credit: f64,
}

/// An acknowledgement, as growth sees it.
#[derive(Clone, Copy, Debug)]
pub struct Growth {
    /// Packets newly acknowledged.
    pub packets: u32,
    /// Acknowledged up to, and next to be sent.
    pub front: [u64; 2],
    /// The instant.
    pub now_ns: u64,
    /// Round trip that came with it.
    pub rtt_ns: Option<u64>,
    /// Shortest round trip so far.
    pub least_rtt_ns: u64,
}

impl Control {
    /// At the initial window.
    pub fn new(options: &Options) -> Self {
        let cubic = options.algorithm == Algorithm::Cubic;
        Self {
            algorithm: options.algorithm,
            hystart: (cubic && options.hystart).then(HyStart::default),
            cubic: Cubic::default(),
            window: options.initial_window_packets,
            threshold: u32::MAX,
            credit: 0.0,
        }
    }

    /// Whether in slow start.
    pub fn starting(&self) -> bool {
        self.window < self.threshold
    }

    /// Grows after an acknowledgement.
    pub fn grow(&mut self, growth: Growth) {
        let mut packets = growth.packets;
        if self.starting() {
            if let Some(hystart) = &mut self.hystart
                && hystart.leave(self.window, growth.front, growth.now_ns, growth.rtt_ns, growth.least_rtt_ns)
            {
                self.threshold = self.window;
            }
            let room = self.threshold.saturating_sub(self.window).min(packets);
            self.window += room;
            packets -= room;
            if packets == 0 {
                return;
            }
        }
        let per = match self.algorithm {
            Algorithm::NewReno => f64::from(self.window),
            Algorithm::Cubic => {
                self.cubic.packets_per_growth(self.window, packets, growth.now_ns, growth.least_rtt_ns)
            }
        };
        self.credit += f64::from(packets);
        let whole = (self.credit / per) as u32;
        self.window += whole;
        self.credit -= f64::from(whole) * per;
    }

    /// Congestion: the threshold falls; the window follows by the caller's recovery.
    pub fn reduce(&mut self) {
        self.threshold = match self.algorithm {
            Algorithm::NewReno => self.window / 2,
            Algorithm::Cubic => self.cubic.reduce(self.window),
        }
        .max(2);
        self.credit = 0.0;
    }

    /// A time-out's last part: all growth so far is void.
    pub fn collapse(&mut self, window: u32) {
        self.cubic.forget();
        self.window = window;
        self.credit = 0.0;
    }

    /// After a pause of sending.
    pub fn idle(&mut self, for_ns: u64, now_ns: u64) {
        self.cubic.idle(for_ns, now_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn growth(packets: u32) -> Growth {
        Growth { packets, front: [0, 1], now_ns: 0, rtt_ns: None, least_rtt_ns: 1 }
    }

    fn reno() -> Control {
        Control::new(&Options { algorithm: Algorithm::NewReno, ..Options::default() })
    }

    #[test]
    fn slow_start_doubles_a_round_and_avoidance_adds_one() {
        let mut control = reno();
        for round in 0..4 {
            assert_eq!(control.window, 10 << round);
            (0..control.window).for_each(|_| control.grow(growth(1)));
        }
        control.threshold = control.window;
        for round in 0..50 {
            assert_eq!(control.window, 160 + round);
            (0..control.window).for_each(|_| control.grow(growth(1)));
        }
    }

    #[test]
    fn newreno_halves_and_cubic_keeps_seven_tenths() {
        let mut control = reno();
        control.window = 100;
        control.reduce();
        assert_eq!(control.threshold, 50);
        let mut control = Control::new(&Options::default());
        control.window = 100;
        control.reduce();
        assert_eq!(control.threshold, 70);
        control.window = 2;
        control.reduce();
        assert_eq!(control.threshold, 2);
    }
}
