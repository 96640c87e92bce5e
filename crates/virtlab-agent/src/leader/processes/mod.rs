//! What the leader starts: agents and commands, how they are confined, and what becomes of those that outlive it.

pub mod child;
mod confined;
mod keyring;
pub mod orphans;
