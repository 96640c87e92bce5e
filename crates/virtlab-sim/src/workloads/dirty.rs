//! `dirty`: a guest's memory is written to at a rate. It takes no processor; a guest that stands still writes nothing,
//! and its clock stands still, too, so a pause is in no interval.

use crate::input::{Finding, Role};
use crate::ip::Message;
use crate::network::Network;
use crate::samples::{MemoryRow, Table};
use crate::workloads::workload::{Counters, Kind, Workload, finding, parse};
use serde_json::Value;
use virtlab_load::pages::PAGE_BYTES;
use virtlab_load::parameters::{Dirty as Parameters, dirty};

/// How a role of it is made.
pub const KIND: Kind = Kind {
    name: dirty::NAME,
    make: |index, role, network| Ok(Box::new(Dirty::new(index, role, network)?)),
    tags: false,
};

/// As long as an interval of its samples.
const INTERVAL_NS: u64 = 100_000_000;
const SECOND_NS: u128 = 1_000_000_000;

/// One role.
pub struct Dirty {
    role: usize,
    guest: usize,
    own: Parameters,
    started: bool,
    /// How fast it wrote, and was to write, once it is over.
    course: Option<Vec<(u64, u64, u64)>>,
}

impl Dirty {
    fn new(role: usize, input: &Role, network: &Network) -> Result<Self, Finding> {
        let own: Parameters = parse(input)?;
        own.check().map_err(|error| finding(input, &error.to_string()))?;
        let guest = network.guest_with(input.ends[0].vnic);
        Ok(Self { role, guest, own, started: false, course: None })
    }

    fn write(&self, network: &mut Network) {
        let asked = (self.own.rate_byte_per_s, self.own.working_set_bytes);
        network.write_memory(self.role, self.guest, asked);
    }

    /// Intervals of the guest's clock, and what was written in each.
    fn rows(&self) -> Vec<MemoryRow> {
        let mut rows = Vec::new();
        let course = self.course.as_deref().unwrap_or_default();
        let (mut sent, mut written): (u128, u64) = (0, 0);
        let (mut asked, mut due): (u128, u64) = (0, 0);
        for pair in course.windows(2) {
            let [(begin_ns, rate, wanted), (end_ns, ..)] = [pair[0], pair[1]];
            let mut at_ns = begin_ns;
            while wanted > 0 && at_ns < end_ns {
                let until_ns = (at_ns + INTERVAL_NS).min(end_ns);
                sent += u128::from(rate) * u128::from(until_ns - at_ns);
                let whole = (sent / SECOND_NS / u128::from(PAGE_BYTES)) as u64;
                asked += u128::from(wanted) * u128::from(until_ns - at_ns);
                let whole_due = (asked / SECOND_NS / u128::from(PAGE_BYTES)) as u64;
                rows.push(MemoryRow {
                    begin_ns: at_ns as i64,
                    end_ns: until_ns as i64,
                    written_pages: (whole - written) as i64,
                    missed_pages: (whole_due - due) as i64 - (whole - written) as i64,
                });
                (at_ns, written, due) = (until_ns, whole, whole_due);
            }
        }
        rows
    }
}

impl Workload for Dirty {
    fn start(&mut self, network: &mut Network) {
        self.started = true;
        self.write(network);
    }

    fn tick(&mut self, _side: usize, _generation: u32, _network: &mut Network) {}

    fn take(&mut self, _message: Message, _network: &mut Network) {}

    fn stop(&mut self, network: &mut Network) {
        if self.course.is_none() {
            self.course = Some(network.cease_memory(self.role));
        }
    }

    fn set(&mut self, parameter: &str, value: &Value, network: &mut Network) {
        if let ("rate_byte_per_s", Some(rate)) = (parameter, value.as_u64()) {
            self.own.rate_byte_per_s = rate;
            if self.started && self.course.is_none() {
                self.write(network);
            }
        }
    }

    fn finished(&self) -> bool {
        self.course.is_some()
    }

    fn report(&self, stream: &str) -> (Vec<Table>, Counters) {
        let rows = self.rows();
        let written = rows.iter().map(|row| row.written_pages as u64).sum();
        let missed = rows.iter().map(|row| row.missed_pages).sum::<i64>().max(0) as u64;
        let counters = [vec![("written_pages", written), ("missed_pages", missed)], Vec::new()];
        (Table::of(stream, &rows).into_iter().collect(), counters)
    }
}
