//! The private world: its namespaces, the operations that change it, and how it is read back.

pub mod apply;
pub mod folder;
pub mod namespaces;
pub mod observe;
pub mod operation;
mod owned;
pub mod reach;
pub mod shift;
mod values;
