//! What every test of `psping` reports: its requests, and what the probe counts.

use crate::samples::{RequestRow, Table};
use crate::workloads::workload::Counters;
use virtlab_load::parameters::psping::RequestPlan;

/// A request that is over, or lost without `finished_ns`.
pub fn row(plan: &RequestPlan, k: u64, sent_ns: u64, finished_ns: Option<u64>) -> RequestRow {
    RequestRow {
        seq: plan.seq(k),
        sent_ns: sent_ns as i64,
        finished_ns: finished_ns.map_or(-1, |instant| instant as i64),
        payload_bytes: plan.payload_bytes(),
    }
}

/// What every test counts, as the probe does.
pub fn report(
    stream: &str,
    plan: &RequestPlan,
    rows: &[RequestRow],
    sent: u64,
    more: &[(&'static str, u64)],
    server: Vec<(&'static str, u64)>,
) -> (Vec<Table>, Counters) {
    let answered = rows.iter().filter(|row| row.finished_ns >= 0).count() as u64;
    let mut client = vec![
        ("sent_requests", sent),
        ("answered_requests", answered),
        ("sent_bytes", sent * plan.sizes.0),
        ("received_bytes", answered * plan.sizes.1),
        ("unsent_requests", plan.total - sent),
        ("send_errors", 0),
    ];
    client.extend(more);
    (Table::of(stream, rows).into_iter().collect(), [client, server])
}
