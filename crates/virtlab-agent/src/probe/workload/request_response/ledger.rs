//! How requests ended: a row for each, and their counts.

use super::exchange::{Answer, UNSERVED};
use crate::probe::live::Tally;
use crate::probe::report::Report;
use crate::probe::run::Run;
use crate::probe::spool::Spool;
use std::sync::Arc;
use virtlab_load::Histogram;
use virtlab_load::parameters::request_response::Ending;
use virtlab_load::requests::Counted;
use virtlab_wire::Nanos;
use virtlab_wire::rows::ResponseRow;

/// A request that was due then, where it enters, and when its first octets left.
#[derive(Clone, Copy)]
pub struct Due {
    pub intended: Nanos,
    /// Among the entries of its role.
    pub entry: usize,
    pub sent: Option<Nanos>,
}

/// Of one client.
pub struct Ledger {
    rows: Spool<ResponseRow>,
    tally: Arc<Tally>,
    pub pacing: Histogram,
    pub counted: Counted,
    /// Of each entry: which server of the service that is.
    places: Vec<i32>,
}

impl Ledger {
    /// Empty.
    pub fn new(run: &Run, places: Vec<i32>) -> Self {
        Self {
            rows: Spool::new(&run.budget),
            tally: run.tally(),
            pacing: Histogram::default(),
            counted: Counted::default(),
            places,
        }
    }

    /// One that came back.
    pub fn answered(&mut self, due: Due, finished: Nanos, answer: Answer) {
        self.row(due, finished, answer.server.unwrap_or(self.places[due.entry]), answer.ending);
        if answer.ending == Ending::Answered {
            self.tally.seen(answer.bytes);
            self.tally.took(finished.since(due.intended).0);
        }
    }

    /// One that did not.
    pub fn unanswered(&mut self, due: Due, finished: Nanos, ending: Ending) {
        self.row(due, finished, UNSERVED, ending);
    }

    fn row(&mut self, due: Due, finished: Nanos, server: i32, ending: Ending) {
        self.counted.end(ending);
        self.rows.push(ResponseRow {
            intended_ns: due.intended.0 as i64,
            sent_ns: due.sent.map_or(-1, |sent| sent.0 as i64),
            finished_ns: finished.0 as i64,
            entry: self.places[due.entry],
            served_by: server,
            error: ending as i32,
        });
    }

    /// All of it.
    pub fn close(self, report: &mut Report) {
        for (counter, value) in self.counted.counters() {
            report.add(counter, value);
        }
        report.pacing.merge(&self.pacing);
        report.table(self.rows);
    }
}
