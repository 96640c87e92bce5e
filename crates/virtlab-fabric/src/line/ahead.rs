//! What waits in a FIFO in closed form: frames whose start lies ahead.

use std::collections::VecDeque;
use virtlab_qdisc::Backlog;
use virtlab_wire::Nanos;

/// Start and bytes of each, in order.
#[derive(Default)]
pub(crate) struct Ahead {
    pub(crate) starts: VecDeque<(Nanos, u32)>,
    bytes: u64,
}

impl Ahead {
    /// A frame waits behind the others.
    #[inline]
    pub(crate) fn push(&mut self, start: Nanos, bytes: u32) {
        self.starts.push_back((start, bytes));
        self.bytes += u64::from(bytes);
    }

    /// Forgets those that have started by `until`.
    #[inline]
    pub(crate) fn pass(&mut self, until: Nanos) {
        while let Some(&(start, bytes)) = self.starts.front() {
            if start > until {
                break;
            }
            self.starts.pop_front();
            self.bytes -= u64::from(bytes);
            if self.starts.is_empty() {
                self.starts.clear(); // begins at the front again, which is in the cache
            }
        }
    }

    /// All of them have started.
    #[inline]
    pub(crate) fn clear(&mut self) {
        if !self.starts.is_empty() {
            self.starts.clear();
            self.bytes = 0;
        }
    }

    /// All of them.
    #[inline]
    pub(crate) fn backlog(&self) -> Backlog {
        Backlog { packets: self.starts.len() as u64, bytes: self.bytes }
    }

    /// Those that start after `now`.
    pub(crate) fn backlog_at(&self, now: Nanos) -> Backlog {
        let waits = self.starts.iter().filter(|(start, _)| *start > now);
        waits.fold(Backlog::default(), |sum, (_, bytes)| Backlog {
            packets: sum.packets + 1,
            bytes: sum.bytes + u64::from(*bytes),
        })
    }
}
