//! Departures that are told as soon as they are certain.

use super::graph::PortId;
use crate::Train;
use virtlab_wire::Nanos;

/// A frame that will leave. It stays with the fabric, which can be asked about it, until it is taken.
#[derive(Clone, Copy, Debug)]
pub struct Foretold {
    /// Where.
    pub port: PortId,
    /// When its last bit reaches that port.
    pub at: Nanos,
    /// Whether a discipline marked it.
    pub marked: bool,
    pub(crate) slot: usize,
    /// Whether it had no event where it met others: [`Fabric::met`](super::Fabric::met).
    pub met: bool,
}

/// What is known ahead.
#[derive(Default)]
pub(crate) struct Forecast {
    /// Whether departures are told as soon as they are certain, and those not fetched yet.
    pub(crate) on: bool,
    pub(crate) foretold: Vec<Foretold>,
    /// Whether a frame has come whose way is not known from the start.
    pub(crate) strays: bool,
    /// Trains between two lines, while they are passed on.
    pub(crate) passing: Vec<Train>,
}
