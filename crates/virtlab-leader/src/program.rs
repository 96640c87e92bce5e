//! The program that this process runs: what it says of itself, and from what it starts agents of the world.

use anyhow::Context;
use std::os::fd::OwnedFd;

/// What the agent says of itself to the control plane.
#[derive(Clone, Copy, Debug)]
pub struct Build {
    /// Its version, and a hash of its sources.
    pub name: &'static str,
    /// The workloads that its probes know.
    pub workloads: &'static [&'static str],
    /// How it keeps the blocks of a disk in a store.
    pub on_store: crate::OnStore,
    /// The same as a file system.
    pub mount: crate::Mount,
}

/// The agent, as it runs here.
#[derive(Debug)]
pub struct Program {
    /// Its file, held open: it may be removed meanwhile.
    pub file: OwnedFd,
    /// What it says of itself.
    pub build: Build,
}

impl Program {
    /// That of this process.
    ///
    /// # Errors
    /// When /proc does not show it.
    pub fn own(build: Build) -> anyhow::Result<Self> {
        let file = std::fs::File::open("/proc/self/exe").context("cannot open the own executable")?;
        Ok(Self { file: file.into(), build })
    }
}
