//! Whether a line's link is whole.

use virtlab_wire::Nanos;

/// Whether the link is whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct State {
    /// It is cut at present.
    down: bool,
    /// When it was whole again: what had come before is lost, however late it is known here.
    since: Nanos,
}

impl State {
    pub(crate) const UP: Self = Self::up_since(Nanos::ZERO);
    pub(crate) const DOWN: Self = Self { down: true, since: Nanos::ZERO };

    /// It is whole from an instant on.
    pub(crate) const fn up_since(since: Nanos) -> Self {
        Self { down: false, since }
    }

    /// Whether a frame that comes at an instant is lost.
    pub(crate) fn is_down_at(self, now: Nanos) -> bool {
        self.down || now < self.since
    }
}
