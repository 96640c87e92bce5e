//! The fabric as the sum of its parts.

use super::comings::Comings;
use super::forecast::Forecast;
use super::graph::{Graph, PortId};
use super::schedule::Schedule;
use super::store::Store;
use super::switch::Switch;
use crate::QueueLayout;
use crate::line::Line;
use std::collections::BTreeMap;
use virtlab_qdisc::Dropped;
use virtlab_wire::Nanos;

/// A frame that leaves.
#[derive(Clone, Debug)]
pub struct Departure<P> {
    /// Where.
    pub port: PortId,
    /// When its last bit reaches that port.
    pub at: Nanos,
    /// When it came in.
    pub arrived: Nanos,
    /// Header and payload, no FCS.
    pub bytes: u32,
    /// Whether a discipline marked it; its owner writes CE into the header.
    pub marked: bool,
    /// What came with it.
    pub payload: P,
}

/// Model time so far.
#[derive(Default)]
pub(crate) struct Clock {
    /// No line is asked about an instant before this.
    pub(crate) present: Nanos,
    /// All events up to here have been played.
    pub(crate) played: Nanos,
    /// Frames that came in so late that an effect of theirs lies before that.
    pub(crate) late_arrivals: u64,
}

/// What disciplines look at, so that frames need it.
pub(crate) struct Wants {
    pub(crate) flow: bool,
    pub(crate) ecn: bool,
    pub(crate) headers: bool,
}

/// A loop-free graph of switches and links. `P` is what the owner gets back with each frame; a flood clones it.
pub struct Fabric<P> {
    pub(super) graph: Graph,
    pub(super) switches: Vec<Switch>,
    pub(super) lines: Vec<Line>,
    pub(super) schedule: Schedule,
    pub(super) store: Store<P>,
    pub(super) comings: Comings<P>,
    pub(super) forecast: Forecast,
    pub(super) clock: Clock,
    pub(super) wants: Wants,
    /// What a line drops, until it is released.
    pub(super) drops: Vec<Dropped>,
    /// Of lines that may be cut, the queues as they are at first.
    pub(super) queues: BTreeMap<usize, QueueLayout>,
}

impl<P: Clone> Fabric<P> {
    /// The port of this name.
    #[must_use]
    pub fn port(&self, name: &str) -> Option<PortId> {
        self.graph.ports.iter().position(|port| port == name).map(PortId)
    }

    /// The names of all ports, by [`PortId`].
    #[must_use]
    pub fn ports(&self) -> &[String] {
        &self.graph.ports
    }

    /// Whether frames need their [`Frame::flow`](crate::Frame::flow).
    #[must_use]
    pub fn wants_flow(&self) -> bool {
        self.wants.flow
    }

    /// Whether frames need their [`Frame::ecn`](crate::Frame::ecn).
    #[must_use]
    pub fn wants_ecn(&self) -> bool {
        self.wants.ecn
    }

    /// Whether frames need their [`Frame::headers`](crate::Frame::headers).
    #[must_use]
    pub fn wants_headers(&self) -> bool {
        self.wants.headers
    }

    /// Frames inside, copies of a flood each counted.
    #[must_use]
    pub fn inside(&self) -> u64 {
        self.store.len() as u64
    }

    /// Frames that came in so late that an effect of theirs lies before what was already played.
    #[must_use]
    pub fn late_arrivals(&self) -> u64 {
        self.clock.late_arrivals
    }
}
