//! Auto-converge: QEMU slows a guest's processors, and its dirtying with them, while rounds do not get shorter.
//!
//! Source: QEMU 7.2, migration/ram.c `migration_bitmap_sync`, `migration_trigger_throttle` and
//! `mig_throttle_guest_down`, with the defaults of its parameters. Each time the bitmap of dirty pages is read, more
//! than a second after the last look, it is seen whether more than half as much was dirtied as was sent; every second
//! time that it was, the share of time for which processors stand still becomes 20 %, and then 10 percentage points
//! more, up to 99 %.

/// At least so long between two looks, in seconds.
const LOOKS_EVERY_S: f64 = 1.0;
/// `throttle-trigger-threshold`: of what was sent.
const TRIGGER: f64 = 0.5;
/// How often more was dirtied, until processors are slowed.
const TIMES: u32 = 2;
/// `cpu-throttle-initial`, `cpu-throttle-increment` and `max-cpu-throttle`, in percent.
const INITIAL_PERCENT: u32 = 20;
const STEP_PERCENT: u32 = 10;
const MOST_PERCENT: u32 = 99;

/// How much a guest is slowed, and what was seen since the last look.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Throttle {
    percent: u32,
    exceeded: u32,
    looked_s: f64,
    sent_bytes: f64,
    dirtied_bytes: f64,
}

impl Throttle {
    /// Of the time, the share for which processors stand still now.
    pub(crate) const fn percent(self) -> u32 {
        self.percent
    }

    /// What is left of a rate at which the guest would dirty its memory, now.
    pub(crate) fn leaves(self) -> f64 {
        1.0 - f64::from(self.percent) / 100.0
    }

    /// The bitmap is read: when, what had been sent by then in all, and what was dirtied since it was read before.
    pub(crate) fn read(&mut self, now_s: f64, sent_bytes: f64, dirtied_bytes: f64) {
        self.dirtied_bytes += dirtied_bytes;
        if now_s <= self.looked_s + LOOKS_EVERY_S {
            return;
        }
        if self.dirtied_bytes > (sent_bytes - self.sent_bytes) * TRIGGER {
            self.exceeded += 1;
            if self.exceeded >= TIMES {
                self.exceeded = 0;
                self.percent = match self.percent {
                    0 => INITIAL_PERCENT,
                    percent => (percent + STEP_PERCENT).min(MOST_PERCENT),
                };
            }
        }
        (self.looked_s, self.sent_bytes, self.dirtied_bytes) = (now_s, sent_bytes, 0.0);
    }
}
