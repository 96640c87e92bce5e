//! Guests that move at once: those that send have equal shares of the bandwidth.

use crate::course::Course;
use crate::moving::{Moving, Stage};
use crate::question::{Guest, Policy};

/// The courses of guests that all begin at an instant.
pub(crate) fn together(
    guests: &[Guest],
    policy: &Policy,
    bandwidth_byte_per_s: f64,
    begin_s: f64,
) -> Vec<Course> {
    let mut all: Vec<Moving> = guests.iter().map(|guest| Moving::new(*guest, *policy, begin_s)).collect();
    let mut now_s = 0.0;
    loop {
        let share = bandwidth_byte_per_s / all.iter().filter(|one| one.sends()).count().max(1) as f64;
        let Some(step_s) = all.iter().filter_map(|one| one.next_s(share)).min_by(f64::total_cmp) else {
            break;
        };
        if all.iter().all(|one| matches!(one.stage(), Stage::Over | Stage::Stuck)) {
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
