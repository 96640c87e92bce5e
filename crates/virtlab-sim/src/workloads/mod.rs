//! Workloads as the simulator plays them: each in its own file, all through [`workload::Workload`].

pub mod burst_load;
pub mod dirty;
pub mod forwarding;
pub mod objects;
pub mod program;
pub mod psping;
pub mod request_response;
pub mod rt_tasks;
pub mod rtt;
pub mod scatter;
pub mod store;
pub mod stream;
pub mod tcp_rr;
pub mod tcp_stream;
pub mod workload;

use crate::input::Finding;
use workload::Kind;

/// Those that a Plan can name.
static KINDS: [Kind; 12] = [
    rtt::KIND,
    burst_load::KIND,
    stream::DATAGRAMS,
    stream::FRAMES,
    tcp_stream::KIND,
    tcp_rr::KIND,
    request_response::KIND,
    psping::KIND,
    program::KIND,
    rt_tasks::KIND,
    dirty::KIND,
    objects::KIND,
];

static YARDSTICK: Kind = scatter::KIND;

/// The workload of that name.
///
/// # Errors
/// No workload has that name: the finding, at `path`, lists those that a Plan can name.
pub fn kind(path: &str, name: &str) -> Result<&'static Kind, Finding> {
    KINDS.iter().chain([&YARDSTICK]).find(|kind| kind.name == name).ok_or_else(|| {
        let names: Vec<_> = KINDS.iter().map(|kind| kind.name).collect();
        let reason = format!("the simulator has no workload '{name}'");
        Finding::new(path, reason, format!("use one of {}", names.join(", ")))
    })
}
