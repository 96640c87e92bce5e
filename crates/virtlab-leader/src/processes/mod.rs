//! What the leader starts: agents and commands, how they are confined, and how those end that outlive it.

pub mod child;
mod confined;
mod keyring;
pub mod orphans;
mod user;
