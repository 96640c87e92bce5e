//! What workloads write to the memory of guests: how fast, and to how much of it.

use std::collections::BTreeMap;

/// From an instant on so many bytes a second are written.
pub type Since = (u64, u64);

/// What one role writes.
#[derive(Debug)]
struct Writer {
    guest: usize,
    working_set_bytes: u64,
    rate_byte_per_s: u64,
    /// As it was at all times, its guest's pauses included.
    course: Vec<Since>,
}

/// All of a world.
#[derive(Debug, Default)]
pub struct Memory {
    /// By role; those that write now.
    writers: BTreeMap<usize, Writer>,
    /// Guests that stand still.
    frozen: Vec<usize>,
}

impl Memory {
    /// A role writes to its guest's memory from now on, or at another rate.
    pub fn write(&mut self, role: usize, guest: usize, (rate, working_set): (u64, u64), now_ns: u64) {
        let stands = self.frozen.contains(&guest);
        let own = self.writers.entry(role).or_insert(Writer {
            guest,
            working_set_bytes: working_set,
            rate_byte_per_s: rate,
            course: Vec::new(),
        });
        own.rate_byte_per_s = rate;
        own.course.push((now_ns, if stands { 0 } else { rate }));
    }

    /// A role writes no longer: how fast it did, in order, the last of it 0.
    pub fn cease(&mut self, role: usize, now_ns: u64) -> Vec<Since> {
        let Some(mut own) = self.writers.remove(&role) else { return Vec::new() };
        own.course.push((now_ns, 0));
        own.course
    }

    /// A guest stands still, or runs again.
    pub fn stand(&mut self, guest: usize, still: bool, now_ns: u64) {
        self.frozen.retain(|each| *each != guest);
        if still {
            self.frozen.push(guest);
        }
        for own in self.writers.values_mut().filter(|own| own.guest == guest) {
            own.course.push((now_ns, if still { 0 } else { own.rate_byte_per_s }));
        }
    }

    /// How fast a guest dirties its memory, in bytes a second, and how much of it; `None` where no role writes to it.
    pub fn dirtied(&self, guest: usize) -> Option<(u64, u64)> {
        let mine = self.writers.values().filter(|own| own.guest == guest);
        mine.map(|own| (own.rate_byte_per_s, own.working_set_bytes))
            .reduce(|sum, each| (sum.0 + each.0, sum.1 + each.1))
    }
}
