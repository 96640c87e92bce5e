//! How requests ended: a row for each that its workload has one of, and their counts.

use super::exchange::{Answer, UNSERVED};
use crate::probe::live::Tally;
use crate::probe::report::Report;
use crate::probe::run::Run;
use crate::probe::spool::Spool;
use crate::probe::waits::Waits;
use std::sync::Arc;
use virtlab_load::Histogram;
use virtlab_load::parameters::request_response::Ending;
use virtlab_load::requests::Counted;
use virtlab_wire::Nanos;
use virtlab_wire::rows::{ResponseRow, TransactionRow};

/// A request that was due then, where it enters, and when its first octets left.
#[derive(Clone, Copy)]
pub struct Due {
    pub intended: Nanos,
    /// Among the entries of its role.
    pub entry: usize,
    pub sent: Option<Nanos>,
}

/// What a workload records of its requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record {
    /// A row of each, however it ended.
    Responses,
    /// A row of each that was successful; the others are counted alone.
    Transactions,
}

enum Rows {
    Responses(Spool<ResponseRow>),
    Transactions(Spool<TransactionRow>),
}

/// Of one client.
pub struct Ledger {
    rows: Rows,
    /// Of transactions: how long answers waited for this thread.
    waits: Option<Waits>,
    tally: Arc<Tally>,
    pub pacing: Histogram,
    pub counted: Counted,
    /// Of each entry: which server of the service that is.
    places: Vec<i32>,
}

impl Ledger {
    /// Empty.
    pub fn new(run: &Run, record: Record, places: Vec<i32>) -> Self {
        let (rows, waits) = match record {
            Record::Responses => (Rows::Responses(Spool::new(&run.budget)), None),
            Record::Transactions => (Rows::Transactions(Spool::new(&run.budget)), Some(Waits::new())),
        };
        Self {
            rows,
            waits,
            tally: run.tally(),
            pacing: Histogram::default(),
            counted: Counted::default(),
            places,
        }
    }

    /// An answer that is read is dealt with; `since_came`: how long ago the kernel got its last octets.
    pub fn dealt_with(&mut self, finished: Nanos, since_came: impl FnOnce() -> Option<Nanos>) {
        if let Some(waits) = &mut self.waits {
            waits.dealt_with(finished, since_came);
        }
    }

    /// One that came back on a connection.
    pub fn answered(&mut self, connection: usize, due: Due, finished: Nanos, answer: Answer) {
        let server = answer.server.unwrap_or(self.places[due.entry]);
        self.end(connection, due, finished, server, answer.ending);
        if answer.ending == Ending::Answered {
            self.tally.seen(answer.bytes);
            self.tally.took(finished.since(due.intended).0);
        }
    }

    /// One that did not, on a connection or before it had one.
    pub fn unanswered(&mut self, due: Due, finished: Nanos, ending: Ending) {
        self.end(0, due, finished, UNSERVED, ending);
    }

    fn end(&mut self, connection: usize, due: Due, finished: Nanos, server: i32, ending: Ending) {
        self.counted.end(ending);
        match &mut self.rows {
            Rows::Responses(rows) => rows.push(ResponseRow {
                intended_ns: due.intended.0 as i64,
                sent_ns: due.sent.map_or(-1, |sent| sent.0 as i64),
                finished_ns: finished.0 as i64,
                entry: self.places[due.entry],
                served_by: server,
                error: ending as i32,
            }),
            Rows::Transactions(rows) if ending == Ending::Answered => rows.push(TransactionRow {
                flow: connection as i32,
                started_ns: due.intended.0 as i64,
                finished_ns: finished.0 as i64,
            }),
            Rows::Transactions(_) => {}
        }
    }

    /// All of it.
    pub fn close(self, report: &mut Report) {
        let counters = match &self.rows {
            Rows::Responses(_) => self.counted.counters(),
            Rows::Transactions(_) => self.counted.counters_of_transactions(),
        };
        for (counter, value) in counters {
            report.add(counter, value);
        }
        if let Some(waits) = self.waits {
            waits.close(report);
        }
        report.pacing.merge(&self.pacing);
        match self.rows {
            Rows::Responses(rows) => report.table(rows),
            Rows::Transactions(rows) => report.table(rows),
        }
    }
}
