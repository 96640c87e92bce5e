//! The server as a process of its own: it listens at every address of its guest, serves all clients that come, and ends
//! when it is killed.

use super::super::Workload;
use super::super::parse;
use super::super::tcp;
use super::passive::Passive;
use super::server::{Doors, Server};
use crate::probe::parameters::Idle;
use crate::probe::run::Run;
use crate::probe::socket;
use crate::probe::spool::Budget;
use crate::probe::watchdog;
use anyhow::{Context, bail};
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use std::fs::OpenOptions;
use std::net::{IpAddr, SocketAddr};
use virtlab_load::forwards::Bounds;
use virtlab_load::parameters::request_response::RequestResponse as Parameters;
use virtlab_system::transport::Writer;

/// Command-line options.
#[derive(clap::Args)]
pub struct Options {
    /// What it does for each request: an object of parameters, as a Plan says them.
    #[arg(long)]
    parameters: String,
    #[arg(long)]
    port: u16,
    /// From which demands are drawn.
    #[arg(long)]
    seed: u64,
    /// Units of work that one processor does in a second, measured outside guests.
    #[arg(long)]
    work_per_s: u64,
    /// Among the servers of its service.
    #[arg(long, default_value_t = 0)]
    place: u16,
    /// Address of the active server, if this one is passive.
    #[arg(long, requires = "forwarding")]
    active: Option<IpAddr>,
    /// Of a passive server: an object of its bounds.
    #[arg(long)]
    forwarding: Option<String>,
}

/// Serves until it is killed.
///
/// # Errors
/// When the parameters cannot be played, the port is taken, or the server fails.
pub fn main(options: &Options) -> anyhow::Result<()> {
    let given = serde_json::from_str(&options.parameters).context("parameters")?;
    let mut parameters: Parameters = parse(&given)?;
    parameters.work_per_s = Some(options.work_per_s);
    parameters.check().context("parameters")?;
    let nobody = OpenOptions::new().write(true).open("/dev/null").context("cannot open /dev/null")?;
    let run = Run::new("service", Writer::new(nobody.into()), Budget::new(0));
    let listener = tcp::listen_to_all(options.port, parameters.buffers())?;
    fcntl(&listener, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
    watchdog::tell().context("cannot start a thread")?;
    let (seed, port, idle, place) = (options.seed, options.port, Idle::Sleep, options.place);
    if let (Some(active), Some(bounds)) = (options.active, &options.forwarding) {
        let bounds: Bounds = serde_json::from_str(bounds).context("forwarding")?;
        let active = SocketAddr::new(active, port);
        return Passive::new(listener, active, parameters.buffers(), bounds)?.serve(&run);
    }
    let datagrams = socket::udp_from_all(port).with_context(|| format!("cannot bind UDP port {port}"))?;
    super::datagrams::ready(&datagrams, parameters.buffers())?;
    let doors = Doors { listener: Some(listener), datagrams: Some(datagrams) };
    let writer = super::writer::Writer::new(&parameters)?;
    let report = Box::new(Server { parameters, doors, port, idle, seed, writer, place }).run(&run);
    match report.failure {
        Some(failure) => bail!(failure),
        None => Ok(()),
    }
}
