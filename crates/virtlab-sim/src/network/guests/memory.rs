//! What workloads write to the memory of guests: how fast, and to how much of it.

use std::collections::BTreeMap;

/// From an instant on so many bytes a second are written, of so many that were to be.
pub type Since = (u64, u64, u64);

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
    /// Guests whose processors are stopped for a part of the time, in percent.
    slowed: BTreeMap<usize, u32>,
}

impl Memory {
    /// A role writes to its guest's memory from now on, or at another rate.
    pub fn write(&mut self, role: usize, guest: usize, (rate, working_set): (u64, u64), now_ns: u64) {
        let since = self.since(guest, rate, now_ns);
        let own = self.writers.entry(role).or_insert(Writer {
            guest,
            working_set_bytes: working_set,
            rate_byte_per_s: rate,
            course: Vec::new(),
        });
        own.rate_byte_per_s = rate;
        own.course.push(since);
    }

    /// What a guest writes from now on that is to write so many bytes a second: its clock stands still while it does.
    fn since(&self, guest: usize, rate: u64, now_ns: u64) -> Since {
        if self.frozen.contains(&guest) {
            return (now_ns, 0, 0);
        }
        let slowed = self.slowed.get(&guest).copied().unwrap_or(0);
        (now_ns, rate * u64::from(100 - slowed.min(100)) / 100, rate)
    }

    /// The processors of a guest are stopped for a part of the time from now on, in percent.
    pub fn slow(&mut self, guest: usize, percent: u32, now_ns: u64) {
        if self.slowed.get(&guest).copied().unwrap_or(0) != percent {
            self.slowed.insert(guest, percent);
            self.note(guest, now_ns);
        }
    }

    fn note(&mut self, guest: usize, now_ns: u64) {
        let mut writers = std::mem::take(&mut self.writers);
        for own in writers.values_mut().filter(|own| own.guest == guest) {
            own.course.push(self.since(guest, own.rate_byte_per_s, now_ns));
        }
        self.writers = writers;
    }

    /// A role writes no longer: how fast it did, in order, the last of it 0.
    pub fn cease(&mut self, role: usize, now_ns: u64) -> Vec<Since> {
        let Some(mut own) = self.writers.remove(&role) else { return Vec::new() };
        own.course.push((now_ns, 0, 0));
        own.course
    }

    /// A guest stands still, or runs again.
    pub fn stand(&mut self, guest: usize, still: bool, now_ns: u64) {
        self.frozen.retain(|each| *each != guest);
        if still {
            self.frozen.push(guest);
        }
        self.note(guest, now_ns);
    }

    /// How fast a guest dirties its memory, in bytes a second, and how much of it; `None` where no role writes to it.
    pub fn dirtied(&self, guest: usize) -> Option<(u64, u64)> {
        let mine = self.writers.values().filter(|own| own.guest == guest);
        mine.map(|own| (own.rate_byte_per_s, own.working_set_bytes))
            .reduce(|sum, each| (sum.0 + each.0, sum.1 + each.1))
    }
}
