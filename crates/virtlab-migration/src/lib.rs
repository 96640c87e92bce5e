//! How long guests take to move to another host, and how long they are paused meanwhile.
//!
//! A guest has V bytes of memory that are not zero and dirties them while it runs: in a time t it dirties U(t) =
//! min(D t, W) different bytes, of a rate D and a writable working set W (all of V where none is given). Pre-copy sends
//! all of V in its first round and, in each further one, what was dirtied during the round before: V(i+1) = U(V(i) / R)
//! at a bandwidth R. It stops by one of two rules (`Rule`), pauses the guest, and sends what is left within the pause.
//! Hot migration pauses first and sends everything; post-copy resumes first and fetches everything; cold migration
//! sends no memory. Several guests move one after another, or together with equal shares of R.
//!
//! Sources: C. Clark et al., "Live Migration of Virtual Machines", NSDI 2005, section 3 (rounds and writable working
//! set); QEMU 7.2, migration/migration.c `migration_iteration_run` and migration/ram.c `ram_state_pending_exact` (rule
//! `qemu`). Deviation: bytes are a fluid and not pages, and times that no model knows are parameters (`Fixed`).
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

mod course;
mod least;
mod moving;
mod question;
mod throttle;
mod together;
mod written;

pub use course::{Course, End, Round};
pub use least::{Least, least};
pub use moving::{Moving, Stage};
pub use question::{Fixed, Guest, Mode, Order, Policy, Question, Rule};

/// The course of each guest's migration, in the order of the guests.
///
/// # Errors
/// What of the question makes no sense.
pub fn courses(question: &Question) -> Result<Vec<Course>, String> {
    question.check()?;
    Ok(match question.order {
        Order::Together => {
            together::together(&question.guests, &question.policy, question.bandwidth_byte_per_s, 0.0)
        }
        Order::InTurn => {
            let mut found: Vec<Course> = Vec::new();
            for guest in &question.guests {
                let begin_s = found.last().map_or(0.0, |before: &Course| before.begin_s + before.total_s);
                if found.last().is_some_and(|before| before.end == End::Never) {
                    found.push(Course::not_begun());
                    continue;
                }
                found.extend(together::together(
                    std::slice::from_ref(guest),
                    &question.policy,
                    question.bandwidth_byte_per_s,
                    begin_s,
                ));
            }
            found
        }
    })
}

#[cfg(test)]
mod tests;
