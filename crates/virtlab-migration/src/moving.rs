//! Guests that move at once, from event to event: those that send have equal shares of the bandwidth.

use crate::course::{Course, End, Round};
use crate::question::{Guest, Mode, Policy, Rule};

/// More rounds than any hypervisor makes: pre-copy that needs them has no end.
pub(crate) const MOST_ROUNDS: usize = 10_000;
/// What is left of a transfer when it is over: rounding of a fluid.
const DUST_BYTES: f64 = 1e-3;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Until its setup is over.
    Setup,
    /// A round of pre-copy.
    Round,
    /// Paused, and sending.
    Paused,
    /// Paused, with what is fixed.
    Devices,
    /// At the destination, and fetching.
    Fetching,
    Over,
    /// Every further round would leave as much.
    Stuck,
}

/// One guest on its way.
struct Moving<'a> {
    guest: &'a Guest,
    policy: &'a Policy,
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
    course: Course,
}

/// The courses of guests that all begin at an instant.
pub(crate) fn together(
    guests: &[Guest],
    policy: &Policy,
    bandwidth_byte_per_s: f64,
    begin_s: f64,
) -> Vec<Course> {
    let mut all: Vec<Moving> = guests.iter().map(|guest| Moving::new(guest, policy, begin_s)).collect();
    let mut now_s = 0.0;
    loop {
        let share = bandwidth_byte_per_s / all.iter().filter(|one| one.sends()).count().max(1) as f64;
        let Some(step_s) = all.iter().filter_map(|one| one.next_s(share)).min_by(f64::total_cmp) else {
            break;
        };
        if all.iter().all(|one| matches!(one.stage, Stage::Over | Stage::Stuck)) {
            break; // no guest is left whose arrival would give more bandwidth to those that are stuck
        }
        now_s += step_s;
        for one in &mut all {
            one.pass(step_s, share);
        }
        let senders = all.iter().filter(|one| one.sends()).count();
        for one in &mut all {
            one.turn(now_s, bandwidth_byte_per_s / senders.max(1) as f64);
        }
    }
    all.into_iter().map(|one| one.done(now_s)).collect()
}

impl<'a> Moving<'a> {
    fn new(guest: &'a Guest, policy: &'a Policy, begin_s: f64) -> Self {
        Self {
            guest,
            policy,
            stage: Stage::Setup,
            left_bytes: 0.0,
            left_s: guest.fixed.setup_s,
            round: (0.0, 0.0, 0.0),
            behind_bytes: 0.0,
            paused_s: 0.0,
            course: Course::new(begin_s),
        }
    }

    fn sends(&self) -> bool {
        matches!(self.stage, Stage::Round | Stage::Paused | Stage::Fetching | Stage::Stuck)
    }

    /// How long until its stage is over.
    fn next_s(&self, share: f64) -> Option<f64> {
        match self.stage {
            Stage::Over => None,
            Stage::Setup | Stage::Devices => Some(self.left_s),
            _ => Some(self.left_bytes / share),
        }
    }

    fn pass(&mut self, seconds: f64, share: f64) {
        if self.sends() {
            let sent = (share * seconds).min(self.left_bytes);
            self.left_bytes -= sent;
            self.course.bytes += sent;
        } else {
            self.left_s -= seconds;
        }
    }

    /// Goes to the next stage where this one is over.
    fn turn(&mut self, now_s: f64, share: f64) {
        let over = if self.sends() { self.left_bytes <= DUST_BYTES } else { self.left_s <= 0.0 };
        if !over {
            return;
        }
        match self.stage {
            Stage::Over => {}
            Stage::Setup => self.begin(now_s, share),
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
        let remaining_bytes = (self.behind_bytes + self.guest.dirtied(seconds)).min(most_bytes);
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
            let limited = self.policy.rounds_limit.is_some();
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

    fn done(mut self, now_s: f64) -> Course {
        if self.stage == Stage::Stuck {
            self.course.end = End::Never;
            self.course.total_s = now_s;
        }
        self.course
    }
}
