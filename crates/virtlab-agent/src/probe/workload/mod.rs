//! Workloads: one file each, all with the same life. `prepare` opens sockets and checks every parameter; `run` is
//! called at once on a thread of the role, answers what it must answer, waits for the start gate where it originates
//! traffic, and returns a report when it is done or stopped.

mod arrivals;
mod burst_load;
mod by_threads;
mod content;
mod dirty;
mod echo;
mod files;
pub mod http;
mod http_get;
mod meters;
pub mod objects;
pub(super) mod operations;
mod paced;
mod psping;
mod raw_stream;
pub mod request_response;
mod ring;
mod rt_tasks;
mod rtt;
mod tcp;
mod tcp_rr;
mod tcp_stream;
mod udp_stream;

use super::endpoint::Endpoint;
use super::parameters::{Common, Meter};
use super::report::Report;
use super::run::Run;
use super::socket::{keep_stamping, with_code_point};
use anyhow::{Context, bail};
use operations::Objects;
use serde::Deserialize;
use serde_json::{Map, Value};
use std::net::SocketAddr;
use std::sync::Arc;
use virtlab_load::parameters::Role;

/// Which end of a role this guest is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Side {
    /// The role's `from`.
    Client,
    /// The role's `to`.
    Server,
}

/// Everything that a workload is prepared from.
#[derive(Debug)]
pub struct Arming<'a> {
    /// The role that is armed.
    pub run: &'a Run,
    /// Which end.
    pub side: Side,
    /// What all workloads may be given.
    pub common: Common,
    /// The workload's own parameters.
    pub own: Map<String, Value>,
    /// This end.
    pub local: Endpoint,
    /// The other end.
    pub peer: Endpoint,
    /// For everything drawn at random.
    pub seed: u64,
}

impl Arming<'_> {
    /// Where the server listens.
    ///
    /// # Errors
    /// When it is not armed.
    fn peer_port(&self) -> anyhow::Result<u16> {
        self.peer.port.context("peer.port is missing; arm the server first")
    }

    /// Of the client's sockets: its own address with any port, and the server's.
    ///
    /// # Errors
    /// When an end has no address, or the server is not armed.
    fn ends(&self) -> anyhow::Result<(SocketAddr, SocketAddr)> {
        let peer = SocketAddr::new(self.peer.ip("peer")?, self.peer_port()?);
        Ok((SocketAddr::new(self.local.ip("local")?, 0), peer))
    }
}

/// A prepared workload.
pub trait Workload: Send {
    /// Where the server listens.
    fn port(&self) -> Option<u16> {
        None
    }

    /// Whether what is measured changes when this process stands still: not where the kernel answers, nor where being
    /// held back is what is measured.
    fn counts_on_us(&self) -> bool {
        true
    }

    /// What it knows of objects that a role in another guest may take over.
    fn objects(&self) -> Option<Arc<dyn Objects>> {
        None
    }

    /// Makes and answers traffic until done or stopped.
    fn run(self: Box<Self>, run: &Run) -> Report;
}

/// A workload that also opens its sockets while it runs (TCP's connections) with a code point.
struct Classed {
    dscp: u8,
    workload: Box<dyn Workload>,
}

impl Workload for Classed {
    fn port(&self) -> Option<u16> {
        self.workload.port()
    }

    fn counts_on_us(&self) -> bool {
        self.workload.counts_on_us()
    }

    fn objects(&self) -> Option<Arc<dyn Objects>> {
        self.workload.objects()
    }

    fn run(self: Box<Self>, run: &Run) -> Report {
        with_code_point(self.dscp, || self.workload.run(run))
    }
}

/// Checks tunable values of a role whose workload has moved to its thread.
pub type ValueCheck = Box<dyn Fn(&str, &Value) -> anyhow::Result<()> + Send>;

/// A workload and what the control thread keeps of it.
pub struct Prepared {
    /// To be run.
    pub workload: Box<dyn Workload>,
    /// Refuses impossible values of `set`.
    pub check: ValueCheck,
}

impl Prepared {
    /// A workload without tunable parameters.
    pub fn fixed(workload: impl Workload + 'static) -> Self {
        let check = |parameter: &str, value: &Value| {
            bail!(
                "parameter '{parameter}' cannot be changed to {value}: this workload has no tunable parameter"
            )
        };
        Self { workload: Box::new(workload), check: Box::new(check) }
    }
}

/// Prepares either end of a role.
type Prepare = fn(Arming<'_>) -> anyhow::Result<Prepared>;

/// A workload that a role can have.
pub struct Kind {
    /// As a Plan calls it.
    name: &'static str,
    /// By this probe's own meter.
    prepare: Prepare,
    /// By programs that measure the same.
    meters: &'static [(Meter, Prepare)],
    /// Whether it sends anything, which can have a code point then.
    sends: bool,
}

impl Kind {
    /// One that sends, and that no other program measures.
    const fn of(name: &'static str, prepare: Prepare) -> Self {
        Self { name, prepare, meters: &[], sends: true }
    }

    fn measured_by(&self, meter: Meter) -> Option<Prepare> {
        self.meters.iter().find(|(known, _)| *known == meter).map(|(_, prepare)| *prepare)
    }
}

/// The workloads of this probe.
const KINDS: [Kind; 13] = [
    rtt::KIND,
    burst_load::KIND,
    udp_stream::KIND,
    tcp_stream::KIND,
    tcp_rr::KIND,
    http_get::KIND,
    request_response::KIND,
    psping::KIND,
    raw_stream::KIND,
    rt_tasks::KIND,
    dirty::KIND,
    objects::KIND,
    files::KIND,
];

/// Their names.
pub const NAMES: [&str; KINDS.len()] = {
    let mut names = [""; KINDS.len()];
    let mut place = 0;
    while place < names.len() {
        names[place] = KINDS[place].name;
        place += 1;
    }
    names
};

/// Prepares the named workload.
///
/// # Errors
/// When it is unknown, a parameter is wrong, or the guest does not allow what it needs.
pub fn prepare(name: &str, arming: Arming<'_>) -> anyhow::Result<Prepared> {
    let Some(kind) = KINDS.iter().find(|kind| kind.name == name) else {
        bail!("no workload '{name}'; this probe knows {}", NAMES.join(", "));
    };
    let meter = arming.common.meter;
    if meter != Meter::Virtlab {
        let Some(prepare) = kind.measured_by(meter) else {
            let able = KINDS.iter().filter(|kind| kind.measured_by(meter).is_some());
            let names: Vec<_> = able.map(|kind| kind.name).collect();
            bail!("meter {meter} measures {}, not {name}; use meter virtlab", names.join(" and "));
        };
        return prepare(arming);
    }
    keep_stamping();
    let dscp = arming.common.dscp;
    if dscp > 0 && !kind.sends {
        bail!("parameters.dscp: workload {name} sends nothing");
    }
    let mut prepared = with_code_point(dscp, || (kind.prepare)(arming))?;
    if dscp > 0 {
        prepared.workload = Box::new(Classed { dscp, workload: prepared.workload });
    }
    Ok(prepared)
}

/// An end that only stands by: the kernel answers for it.
pub struct StandBy;

impl Workload for StandBy {
    fn counts_on_us(&self) -> bool {
        false
    }

    fn run(self: Box<Self>, run: &Run) -> Report {
        run.wait_for_stop();
        Report { complete: false, ..Report::default() }
    }
}

/// The workload's own parameters.
///
/// # Errors
/// When one is unknown, missing or of the wrong kind; the message names it.
fn parse<T: Role>(own: &Map<String, Value>) -> anyhow::Result<T> {
    virtlab_load::parameters::read(own).context("parameters")
}
