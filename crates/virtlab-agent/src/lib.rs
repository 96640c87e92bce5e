//! `virtlab-agent`: leader, probe and soft switch in one static binary. The leader is a crate of its own.
//!
//! Python decides, the agent does. Every role speaks the same framed protocol over a byte stream it is handed as an
//! open descriptor; none listens on a port.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

mod answers;
mod bring;
mod console;
pub mod fuzzing;
mod polled;
mod probe;
mod rt;
mod switch;

use clap::{Parser, Subcommand};
use std::process::ExitCode;
use virtlab_leader as leader;
use virtlab_system::memory;

/// What the leader says of this agent.
const BUILD: leader::Build = leader::Build {
    name: env!("VIRTLAB_BUILD"),
    workloads: &probe::WORKLOADS,
    on_store: probe::serve_on_store,
    mount: probe::mount_on_store,
};

#[derive(Parser)]
#[command(version, about = "The data plane of virtlab; started by virtlab, not by hand")]
struct Arguments {
    #[command(subcommand)]
    role: Role,
}

#[derive(Subcommand)]
enum Role {
    /// Builds a private world and is its PID 1.
    Leader(leader::Options),
    /// Leads a whole guest from inside: a virtual machine through its serial port, a container through a descriptor.
    Inside(leader::inside::Options),
    /// Leads an existing host or guest, over the standard input and output of an ssh connection.
    Remote(leader::remote::Options),
    /// Joins another ssh connection to a leader whose own was cut.
    Rejoin(leader::remote::RejoinOptions),
    /// Passes frames on between a descriptor and the terminal that is a guest's console.
    Console(console::Options),
    /// Gives a root file system to the users of a user namespace.
    Shift(leader::shift::Options),
    /// Makes and measures traffic inside a guest.
    Probe(probe::Options),
    /// Plays the physical switches and links of a testbed on real packets.
    Switch(switch::Options),
    /// Serves requests as a service of this guest.
    Serve(probe::ServiceOptions),
    /// Keeps objects as a node of a store, or asks its nodes as a proxy.
    Store(probe::StoreOptions),
    /// Tries whether a service of this guest answers.
    Answers(answers::Options),
    /// Runs a program with files of its own, which it is handed.
    Bring(bring::Options),
    /// Runs a program of a role, and polls something beside it.
    Polled(polled::Options),
    /// Runs hard-deadline tasks in a guest with a CPU budget.
    Rt(rt::Options),
}

/// A shipped agent has no tables to walk its stack by, and libgcc ends a process that tries, which errors and panics do
/// where a variable asks for that.
fn ask_for_no_backtraces() {
    for name in ["RUST_BACKTRACE", "RUST_LIB_BACKTRACE"] {
        // SAFETY: this is the only thread yet.
        unsafe { std::env::remove_var(name) };
    }
}

/// Plays the role that the command line asks for.
#[must_use]
pub fn main() -> ExitCode {
    ask_for_no_backtraces();
    let role = Arguments::parse().role;
    memory::give_back();
    let outcome = match role {
        Role::Leader(options) => leader::main(options, BUILD),
        Role::Inside(options) => leader::inside::main(&options, BUILD),
        Role::Remote(options) => leader::remote::main(&options, BUILD),
        Role::Rejoin(options) => leader::remote::rejoin(&options),
        Role::Console(options) => console::main(&options),
        Role::Shift(options) => leader::shift::main(&options),
        Role::Probe(options) => probe::main(options),
        Role::Switch(options) => switch::main(options),
        Role::Serve(options) => probe::serve(&options),
        Role::Store(options) => probe::store(&options),
        Role::Answers(options) => answers::main(&options),
        Role::Bring(options) => bring::main(&options),
        Role::Polled(options) => polled::main(&options),
        Role::Rt(options) => rt::main(options),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("virtlab-agent: {error:#}");
            ExitCode::FAILURE
        }
    }
}
