//! A guest on its way, from event to event: its owner says how fast it is copied, and when time has passed.

use crate::course::{Course, End, Round};
use crate::question::{Guest, Mode, Policy, Rule};
use crate::throttle::Throttle;
use crate::written::Written;

/// More rounds than any hypervisor makes: pre-copy that needs them has no end.
pub(crate) const MOST_ROUNDS: usize = 10_000;
/// What is left of a transfer when it is over: rounding of a fluid.
const DUST_BYTES: f64 = 1e-3;

/// What a guest on its way does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// It waits until its setup is over.
    Setup,
    /// It runs, and its disk is sent.
    Disk,
    /// It runs, and a round of pre-copy is sent.
    Round,
    /// It is paused, and memory is sent.
    Paused,
    /// It is paused, with what is fixed.
    Devices,
    /// It runs at the destination, and its memory is fetched.
    Fetching,
    /// It runs at the destination, with all of its state.
    Over,
    /// As `Round`, and at this bandwidth every further round would leave as much.
    Stuck,
}

/// One guest on its way: a state machine that knows bytes and seconds since its request, and neither clock nor link.
#[derive(Clone, Debug)]
pub struct Moving {
    guest: Guest,
    policy: Policy,
    stage: Stage,
    /// Of a stage that sends.
    left_bytes: f64,
    /// Of a stage that waits.
    left_s: f64,
    /// What the stage set out to send, when it began, and at what share.
    round: (f64, f64, f64),
    /// What remains beside the round.
    behind_bytes: f64,
    paused_s: f64,
    throttle: Throttle,
    written: Written,
    course: Course,
}

impl Moving {
    /// One that is requested now, which is `begin_s` after the first.
    #[must_use]
    pub fn new(guest: Guest, policy: Policy, begin_s: f64) -> Self {
        Self {
            guest,
            policy,
            stage: Stage::Setup,
            left_bytes: 0.0,
            left_s: guest.fixed.setup_s,
            round: (0.0, 0.0, 0.0),
            behind_bytes: 0.0,
            paused_s: 0.0,
            throttle: Throttle::default(),
            written: Written::default(),
            course: Course::new(begin_s),
        }
    }

    /// What it does now.
    #[must_use]
    pub const fn stage(&self) -> Stage {
        self.stage
    }

    /// Whether its processors stand still.
    #[must_use]
    pub const fn is_paused(&self) -> bool {
        matches!(self.stage, Stage::Paused | Stage::Devices)
    }

    /// What remains to be sent, as far as the hypervisor knows: not what was dirtied since it looked last.
    #[must_use]
    pub fn remaining_bytes(&self) -> f64 {
        let sending = if self.sends() { self.left_bytes } else { 0.0 };
        sending + if self.is_copied_while_it_runs() { self.behind_bytes } else { 0.0 }
    }

    /// How fast it dirtied memory during its last round, in byte/s; 0 before one is over.
    #[must_use]
    pub fn dirty_byte_per_s(&self) -> f64 {
        self.course.rounds.last().map_or(0.0, |round| {
            if round.seconds > 0.0 { self.written.last_bytes / round.seconds } else { 0.0 }
        })
    }

    /// How many different bytes it wrote during its last round; 0 before one is over.
    #[must_use]
    pub const fn dirtied_bytes(&self) -> f64 {
        self.written.last_bytes
    }

    /// For how much of the time its processors are stopped, so that it dirties less, in percent; 0: they are not.
    #[must_use]
    pub const fn throttled_percent(&self) -> u32 {
        if self.is_copied_while_it_runs() { self.throttle.percent() } else { 0 }
    }

    /// From now on it dirties its memory so fast, and so much of it.
    pub fn dirty(&mut self, byte_per_s: f64, working_set_bytes: Option<f64>) {
        if byte_per_s != self.guest.dirty_byte_per_s && self.is_copied_while_it_runs() {
            self.written.change(&self.guest, self.throttle.leaves());
        }
        self.guest.dirty_byte_per_s = byte_per_s;
        self.guest.working_set_bytes = working_set_bytes;
    }

    /// From now on nothing writes to its memory; what was written before is still to be sent.
    pub fn rest(&mut self) {
        self.dirty(0.0, self.guest.working_set_bytes);
    }

    /// It has written so much to a disk that is copied with it, which the copy is written, too: as part of what the
    /// disk has still to send, and once both are alike, beside its memory.
    pub fn write_to_disk(&mut self, bytes: f64) {
        match self.stage {
            Stage::Disk => self.left_bytes += bytes,
            _ if self.guest.disk_bytes > DUST_BYTES && self.is_copied_while_it_runs() => {
                self.course.disk_bytes += bytes;
            }
            _ => {}
        }
    }

    /// What is known of its course so far.
    #[must_use]
    pub const fn course(&self) -> &Course {
        &self.course
    }

    const fn is_copied_while_it_runs(&self) -> bool {
        matches!(self.stage, Stage::Round | Stage::Stuck)
    }

    /// Whether it has something to send now, so that it takes its share of the bandwidth.
    #[must_use]
    pub const fn sends(&self) -> bool {
        matches!(self.stage, Stage::Disk | Stage::Round | Stage::Paused | Stage::Fetching | Stage::Stuck)
    }

    /// How many seconds until its stage is over at a share of the bandwidth, in byte/s; `None` once all is over.
    #[must_use]
    pub fn next_s(&self, share: f64) -> Option<f64> {
        match self.stage {
            Stage::Over => None,
            Stage::Setup | Stage::Devices => Some(self.left_s),
            _ => Some(self.left_bytes / share),
        }
    }

    /// Time passes, within its stage.
    pub fn pass(&mut self, seconds: f64, share: f64) {
        if self.is_copied_while_it_runs() {
            self.written.pass(seconds);
        }
        if self.sends() {
            let sent = (share * seconds).min(self.left_bytes);
            self.left_bytes -= sent;
            match self.stage {
                Stage::Disk => self.course.disk_bytes += sent,
                _ => self.course.bytes += sent,
            }
        } else {
            self.left_s -= seconds;
        }
    }

    /// Goes to the next stage if this one is over; `now_s` since the request of the first, `share` its bandwidth from
    /// now on.
    pub fn turn(&mut self, now_s: f64, share: f64) {
        let over = if self.sends() { self.left_bytes <= DUST_BYTES } else { self.left_s <= 0.0 };
        if !over {
            return;
        }
        match self.stage {
            Stage::Over => {}
            Stage::Setup if self.guest.disk_bytes > DUST_BYTES => {
                (self.stage, self.left_bytes) = (Stage::Disk, self.guest.disk_bytes);
            }
            Stage::Setup | Stage::Disk => self.begin(now_s, share),
            Stage::Round | Stage::Stuck => self.judge(now_s, share),
            Stage::Paused => self.devices(),
            Stage::Devices => self.resume(now_s),
            Stage::Fetching => self.finish(now_s),
        }
    }

    fn begin(&mut self, now_s: f64, share: f64) {
        let memory_bytes = self.guest.memory_bytes;
        match self.policy.mode {
            Mode::PreCopy => self.send(memory_bytes, now_s, share),
            Mode::Hot => self.pause(memory_bytes, now_s),
            Mode::PostCopy | Mode::Cold => self.pause(0.0, now_s),
        }
    }

    /// Begins a round with so much to send.
    fn send(&mut self, remaining_bytes: f64, now_s: f64, share: f64) {
        let bytes = match self.policy.rule {
            Rule::Textbook => remaining_bytes,
            Rule::Qemu => {
                let window_bytes = share * self.policy.window_s;
                let above_bytes = (remaining_bytes - share * self.policy.downtime_limit_s).max(0.0);
                (((above_bytes / window_bytes).floor() + 1.0) * window_bytes).min(remaining_bytes)
            }
        };
        self.stage = Stage::Round;
        self.left_bytes = bytes;
        self.behind_bytes = remaining_bytes - bytes;
        self.round = (bytes, now_s, share);
    }

    /// A round is over: another, or the pause.
    fn judge(&mut self, now_s: f64, share: f64) {
        let (bytes, began_s, began_share) = self.round;
        let seconds = now_s - began_s;
        let most_bytes = if self.course.rounds.is_empty() {
            self.guest.memory_bytes
        } else {
            self.guest.writable_bytes().max(self.behind_bytes)
        };
        let before_bytes = bytes + self.behind_bytes;
        let dirtied_bytes = self.written.end(&self.guest, seconds, self.throttle.leaves());
        let remaining_bytes = (self.behind_bytes + dirtied_bytes).min(most_bytes);
        if self.policy.auto_converge {
            self.throttle.read(now_s, self.course.bytes, dirtied_bytes);
        }
        self.course.rounds.push(Round { bytes, seconds, remaining_bytes });
        let enough_bytes = share * self.policy.downtime_limit_s;
        let small = match self.policy.rule {
            Rule::Textbook => remaining_bytes <= enough_bytes,
            Rule::Qemu => remaining_bytes < enough_bytes,
        };
        let rounds = self.course.rounds.len();
        if small || remaining_bytes <= DUST_BYTES {
            self.pause(remaining_bytes, now_s);
        } else if self.policy.rounds_limit.is_some_and(|limit| rounds >= limit as usize) {
            self.course.end = End::Forced;
            self.pause(remaining_bytes, now_s);
        } else {
            // U grows with the time, so at an unchanged share no later round leaves less than this one, either. Windows
            // of QEMU's rule end at other bytes in each round: only their number says so.
            let as_much = self.policy.rule == Rule::Textbook && remaining_bytes >= before_bytes;
            let limited = self.policy.rounds_limit.is_some() || self.policy.auto_converge;
            let stuck = (as_much && !limited && began_share == share) || rounds >= MOST_ROUNDS;
            self.send(remaining_bytes, now_s, share);
            self.stage = if stuck { Stage::Stuck } else { Stage::Round };
        }
    }

    fn pause(&mut self, bytes: f64, now_s: f64) {
        self.course.pause_at_s = now_s;
        self.paused_s = now_s;
        self.left_bytes = bytes;
        self.stage = Stage::Paused;
        if bytes <= DUST_BYTES {
            self.devices();
        }
    }

    fn devices(&mut self) {
        let fixed = &self.guest.fixed;
        self.left_s = match self.policy.mode {
            Mode::Cold => fixed.shutdown_s + fixed.boot_s,
            _ => fixed.device_state_s,
        };
        self.stage = Stage::Devices;
    }

    fn resume(&mut self, now_s: f64) {
        self.course.pause_s = now_s - self.paused_s;
        self.course.blackout_s = self.course.pause_s + self.guest.fixed.reconvergence_s;
        if self.policy.mode == Mode::PostCopy {
            self.left_bytes = self.guest.memory_bytes;
            self.stage = Stage::Fetching;
        } else {
            self.finish(now_s);
        }
    }

    fn finish(&mut self, now_s: f64) {
        self.course.total_s = now_s;
        self.stage = Stage::Over;
    }

    pub(crate) fn done(mut self, now_s: f64) -> Course {
        if self.stage == Stage::Stuck {
            self.course.end = End::Never;
            self.course.total_s = now_s;
        }
        self.course
    }
}
