//! `dirty`: memory of this guest that is written to at a rate, page after page; it sends no traffic.
//!
//! The memory is filled when the role is armed. So a guest that moves has it to be copied from the start.

use super::{Arming, Kind, Prepared, Side, StandBy, Workload, parse};
use crate::probe::pacing::{Pacer, Pacing};
use crate::probe::report::Report;
use crate::probe::run::Run;
use crate::probe::spool::{Spool, available_bytes};
use anyhow::{Context, bail};
use std::sync::atomic::Ordering;
use virtlab_load::pages::{Due, Filling, PAGE_BYTES};
use virtlab_load::parameters::dirty::{Dirty, NAME};
use virtlab_system::clock;
use virtlab_wire::Nanos;
use virtlab_wire::rows::MemoryRow;

/// Between two looks at what is due.
const LOOK: Nanos = Nanos(2_000_000);
/// Of a row.
const INTERVAL: Nanos = Nanos(100_000_000);
/// Pages written between two looks at whether there is time for more.
const LOOK_PAGES: u64 = 256;
const PAGE_WORDS: usize = PAGE_BYTES as usize / size_of::<u64>();
/// What the guest keeps for everything else.
const LEFT_BYTES: u64 = 8 << 20;
const RATE: &str = "rate_byte_per_s";

/// In the table of workloads.
pub const KIND: Kind = Kind { sends: false, ..Kind::of(NAME, prepare) };

fn prepare(arming: Arming<'_>) -> anyhow::Result<Prepared> {
    if arming.side == Side::Server {
        return Ok(Prepared::fixed(StandBy));
    }
    let own: Dirty = parse(&arming.own)?;
    own.check()?;
    let free = available_bytes().saturating_sub(LEFT_BYTES);
    if own.working_set_bytes > free {
        bail!("working_set_bytes: the guest has {free} B left; give it more memory");
    }
    let mut memory = Vec::new();
    let words = own.working_set_bytes as usize / size_of::<u64>();
    memory.try_reserve_exact(words).context("no memory for the working set")?;
    memory.resize(words, 0);
    let mut filling = Filling::new(arming.seed);
    memory.chunks_exact_mut(PAGE_WORDS).for_each(|page| filling.fill(page));
    let check = |parameter: &str, value: &serde_json::Value| {
        if parameter != RATE || value.as_u64().is_none() {
            bail!("parameter '{parameter}' cannot be changed to {value}: {RATE} can, to a whole number");
        }
        Ok(())
    };
    Ok(Prepared { workload: Box::new(Writer { own, memory, filling }), check: Box::new(check) })
}

struct Writer {
    own: Dirty,
    memory: Vec<u64>,
    filling: Filling,
}

impl Workload for Writer {
    /// What it could not write is counted.
    fn counts_on_us(&self) -> bool {
        false
    }

    fn run(mut self: Box<Self>, run: &Run) -> Report {
        let mut report = Report::default();
        let Some(start) = run.begun() else {
            return report;
        };
        let pacer = Pacer::new(Pacing::Sleep);
        let mut due = Due::new(self.own.rate_byte_per_s, start);
        let mut rows = Spool::new(&run.budget);
        let (mut place, mut written, mut tuned) = (0, 0, 0);
        let (mut begin, mut before) = (start, (0, 0));
        let mut alive = true;
        while alive {
            alive = pacer.wait_until(clock::raw() + LOOK, &run.stop);
            let now = clock::raw();
            let owed = due.take(now);
            for done in 0..owed {
                // A rate that the machine cannot reach holds up neither a stop nor a row.
                let looks = done % LOOK_PAGES == LOOK_PAGES - 1;
                if looks && (run.stopped() || clock::raw() >= now + INTERVAL) {
                    due.missed += owed - done;
                    break;
                }
                let page = &mut self.memory[place..place + PAGE_WORDS];
                self.filling.fill(page);
                // Nothing reads it, and it has to be written all the same.
                std::hint::black_box(page);
                place = (place + PAGE_WORDS) % self.memory.len();
                written += 1;
            }
            if !alive || now >= begin + INTERVAL {
                rows.push(MemoryRow {
                    begin_ns: begin.0 as i64,
                    end_ns: now.0 as i64,
                    written_pages: (written - before.0) as i64,
                    missed_pages: (due.missed - before.1) as i64,
                });
                (begin, before) = (now, (written, due.missed));
            }
            let count = run.tuned_count.load(Ordering::Acquire);
            if count != tuned {
                tuned = count;
                if let Some(rate) = run.tuned(RATE).and_then(|value| value.as_u64()) {
                    due.change(rate, now);
                }
            }
        }
        report.add("written_pages", written);
        report.add("missed_pages", due.missed);
        report.complete = true;
        report.table(rows);
        report
    }
}
