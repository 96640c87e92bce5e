//! The server as a process of its own: it listens at every address of its guest, serves all clients that come, and ends when
//! it is killed.

use super::super::Workload;
use super::super::parse;
use super::super::tcp;
use super::server::Server;
use crate::probe::parameters::Idle;
use crate::probe::run::Run;
use crate::probe::spool::Budget;
use crate::transport::Writer;
use anyhow::{Context, bail};
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use std::fs::OpenOptions;
use virtlab_load::parameters::request_response::RequestResponse as Parameters;

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
    let writer = super::writer::Writer::new(&parameters)?;
    let (seed, port, idle) = (options.seed, options.port, Idle::Sleep);
    let report = Box::new(Server { parameters, listener, port, idle, seed, writer }).run(&run);
    match report.failure {
        Some(failure) => bail!(failure),
        None => Ok(()),
    }
}
