//! Departures told as soon as they are certain: when its last transmitter takes a frame nothing can call it back.
//!
//! Such a frame stays with the fabric, by its slot, until its owner takes it or lets it go.

use super::{Fabric, PortId};
use crate::Frame;
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
    pub(super) slot: usize,
    /// Whether it had no event where it met others: [`Fabric::met`].
    pub met: bool,
}

impl<P: Clone> Fabric<P> {
    /// From now on every departure is told as soon as it is certain, which is when its last transmitter takes the frame:
    /// nothing can call it back from there. It then costs no event of its own. Fetch them with [`Fabric::foretold`].
    ///
    /// # Panics
    /// When a frame is inside.
    pub fn foretell(&mut self) {
        assert!(self.inside() == 0, "departures are foretold from the beginning");
        self.foretells = true;
        self.set_course();
    }

    /// Whether a departure has become certain since the last call of [`Fabric::foretold`].
    #[must_use]
    #[inline]
    pub fn has_foretold(&self) -> bool {
        !self.foretold.is_empty()
    }

    /// Moves the departures that have become certain since the last call into an empty list; their times may lie ahead, and
    /// never go back at one port.
    #[inline]
    pub fn foretold(&mut self, into: &mut Vec<Foretold>) {
        debug_assert!(into.is_empty());
        std::mem::swap(&mut self.foretold, into);
    }

    /// Length and payload of a frame that met others without an event, until all have been looked at.
    #[must_use]
    #[inline]
    pub fn met(&self, foretold: &Foretold) -> &(u32, P) {
        &self.met[foretold.slot]
    }

    /// All that met others have been looked at.
    #[inline]
    pub fn forget_met(&mut self) {
        self.met.clear();
    }

    /// The frame of a departure that was foretold and not taken, and has not met others without an event.
    #[must_use]
    #[inline]
    pub fn frame(&self, foretold: &Foretold) -> &Frame<P> {
        &self.held[foretold.slot].as_ref().expect("a foretold frame is held until it is taken").frame
    }

    /// Takes the frame of a departure out of the fabric.
    #[inline]
    pub fn take(&mut self, foretold: &Foretold) -> Frame<P> {
        self.release_slot(foretold.slot).frame
    }

    /// Lets the frame of a departure go.
    #[inline]
    pub fn forget(&mut self, foretold: &Foretold) {
        self.held[foretold.slot] = None;
        self.vacant.push(foretold.slot);
    }
}
