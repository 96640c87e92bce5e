//! What every test of `psping` counts.

use crate::probe::report::Report;
use crate::probe::spool::Spool;
use virtlab_load::parameters::psping::RequestPlan;
use virtlab_wire::rows::RequestRow;

/// Adds what every test counts.
pub fn close(report: &mut Report, plan: &RequestPlan, rows: Spool<RequestRow>, answered: u64, sent: u64) {
    report.add("sent_requests", sent);
    report.add("answered_requests", answered);
    report.add("sent_bytes", sent * plan.sizes.0);
    report.add("received_bytes", answered * plan.sizes.1);
    report.add("unsent_requests", plan.total - sent);
    report.add("send_errors", 0);
    report.table(rows);
}
