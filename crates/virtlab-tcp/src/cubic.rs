//! CUBIC's growth between losses: RFC 9438, in Linux's form.
//!
//! `W(t) = C (t - K)^3 + W_max`, `K = cbrt((W_max - cwnd) / C)`, C = 0.4 packet/s^3, beta = 0.7 (Linux: 717/1024).
//! Linux's deviations, taken here: the window aimed at is W(t + least RTT); a new epoch begins at the window after
//! the loss, not at beta W_max; before any loss it grows by 5 % a round trip at most; never by more than half a
//! packet per packet acknowledged. Where Reno would be faster (its window estimated with the additive increase that
//! its share calls for, 3 (1 - beta) / (1 + beta) per round trip) that is followed. Real arithmetic, not Linux's
//! fixed point of 1/1024 s.

const C: f64 = 0.4;
/// Multiplicative decrease.
pub const BETA: f64 = 717.0 / 1024.0;

/// State of one flow; windows in packets.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cubic {
    max: f64,
    epoch: Option<Epoch>,
}

#[derive(Clone, Copy, Debug)]
struct Epoch {
    begun_ns: u64,
    k_s: f64,
    origin: f64,
    reno: f64,
}

/// Real root by Newton's method: the same bits on every machine, which a library's cbrt is not.
fn cube_root(value: f64) -> f64 {
    if value <= 0.0 {
        return 0.0;
    }
    let mut root = value.max(1.0);
    for _ in 0..200 {
        let next = (2.0 * root + value / (root * root)) / 3.0;
        if next >= root {
            break;
        }
        root = next;
    }
    root
}

impl Cubic {
    /// The window after a loss; fast convergence when it came below the last maximum.
    pub fn reduce(&mut self, window: u32) -> u32 {
        let window = f64::from(window);
        self.epoch = None;
        self.max = if window < self.max { window * (1.0 + BETA) / 2.0 } else { window };
        (window * BETA) as u32
    }

    /// Begins again, after a time-out.
    pub fn forget(&mut self) {
        *self = Self::default();
    }

    /// Nothing was sent for a while: time that passed so does not count (Linux shifts the epoch likewise).
    pub fn idle(&mut self, for_ns: u64, now_ns: u64) {
        if let Some(epoch) = &mut self.epoch {
            epoch.begun_ns = (epoch.begun_ns + for_ns).min(now_ns);
        }
    }

    /// Packets that have to be acknowledged for each packet of growth.
    pub fn packets_per_growth(&mut self, window: u32, acked: u32, now_ns: u64, least_rtt_ns: u64) -> f64 {
        let window = f64::from(window);
        let max = self.max;
        let epoch = self.epoch.get_or_insert_with(|| {
            let (k_s, origin) =
                if max <= window { (0.0, window) } else { (cube_root((max - window) / C), max) };
            Epoch { begun_ns: now_ns, k_s, origin, reno: window }
        });
        let t = (now_ns - epoch.begun_ns + least_rtt_ns) as f64 / 1e9 - epoch.k_s;
        let target = epoch.origin + C * t * t * t;
        let mut per = if target > window { window / (target - window) } else { 100.0 * window };
        if max == 0.0 {
            per = per.min(20.0);
        }
        epoch.reno += 3.0 * (1.0 - BETA) / (1.0 + BETA) * f64::from(acked) / window;
        if epoch.reno > window {
            per = per.min(window / (epoch.reno - window));
        }
        per.max(2.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_root_is_the_root() {
        for value in [1e-9, 0.001, 0.4, 1.0, 8.0, 27.0, 1e6, 1e12] {
            let root = cube_root(value);
            assert!((root * root * root / value - 1.0).abs() < 1e-12, "{value}");
        }
    }

    /// With long round trips the window follows RFC 9438's W(t) from the loss to twice K.
    #[test]
    fn the_window_follows_the_rfcs_cubic_between_losses() {
        let (rtt_ns, before) = (100_000_000u64, 1000u32);
        let mut cubic = Cubic::default();
        let mut window = cubic.reduce(before);
        let k_s = ((f64::from(before) - f64::from(window)) / C).cbrt();
        let (mut now_ns, mut credit) = (0u64, 0.0);
        while (now_ns as f64) < 2e9 * k_s {
            let round = window;
            for _ in 0..round {
                credit += 1.0 / cubic.packets_per_growth(window, 1, now_ns, rtt_ns);
                now_ns += rtt_ns / u64::from(round);
                if credit >= 1.0 {
                    credit -= 1.0;
                    window += 1;
                }
            }
            let t = now_ns as f64 / 1e9 - k_s;
            let due = C * t * t * t + f64::from(before);
            assert!((f64::from(window) / due - 1.0).abs() < 0.02, "{window} {due} at {now_ns}");
        }
        assert!(window > before);
    }

    #[test]
    fn a_second_loss_below_the_maximum_gives_way() {
        let mut cubic = Cubic::default();
        assert_eq!(cubic.reduce(100), 70);
        assert_eq!(cubic.reduce(80), 56);
        assert!((cubic.max - 80.0 * (1.0 + BETA) / 2.0).abs() < 1e-9);
    }
}
