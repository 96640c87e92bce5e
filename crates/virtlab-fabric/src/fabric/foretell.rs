//! Departures told as soon as they are certain: when its last transmitter takes a frame nothing can call it back.
//!
//! Such a frame stays with the fabric, by its slot, until its owner takes it or lets it go.

use super::forecast::Foretold;
use super::machine::Fabric;
use crate::Frame;

impl<P: Clone> Fabric<P> {
    /// From now on every departure is told as soon as it is certain, which is when its last transmitter takes the
    /// frame: nothing can call it back from there. It then costs no event of its own. Fetch them with
    /// [`Fabric::foretold`].
    ///
    /// # Panics
    /// When a frame is inside.
    pub fn foretell(&mut self) {
        assert!(self.inside() == 0, "departures are foretold from the beginning");
        self.forecast.on = true;
        self.set_course();
    }

    /// Whether a departure has become certain since the last call of [`Fabric::foretold`].
    #[must_use]
    #[inline]
    pub fn has_foretold(&self) -> bool {
        !self.forecast.foretold.is_empty()
    }

    /// Moves the departures that have become certain since the last call into an empty list; their times may lie ahead,
    /// and never go back at one port.
    #[inline]
    pub fn foretold(&mut self, into: &mut Vec<Foretold>) {
        debug_assert!(into.is_empty());
        std::mem::swap(&mut self.forecast.foretold, into);
    }

    /// Length and payload of a frame that met others without an event, until all have been looked at.
    #[must_use]
    #[inline]
    pub fn met(&self, foretold: &Foretold) -> &(u32, P) {
        &self.comings.met[foretold.slot]
    }

    /// All that met others have been looked at.
    #[inline]
    pub fn forget_met(&mut self) {
        self.comings.met.clear();
    }

    /// The frame of a departure that was foretold and not taken, and has not met others without an event.
    #[must_use]
    #[inline]
    pub fn frame(&self, foretold: &Foretold) -> &Frame<P> {
        self.store.frame_in(foretold.slot)
    }

    /// Takes the frame of a departure out of the fabric.
    #[inline]
    pub fn take(&mut self, foretold: &Foretold) -> Frame<P> {
        self.store.release_slot(foretold.slot).frame
    }

    /// Lets the frame of a departure go.
    #[inline]
    pub fn forget(&mut self, foretold: &Foretold) {
        self.store.forget(foretold.slot);
    }
}
