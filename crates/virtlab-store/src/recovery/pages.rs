//! How far a node has answered a question whose answer comes in pages.

/// What has come, and where the next page begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pages<P> {
    /// All before a place, and whether the node was whole at each page.
    Before(P, bool),
    /// All of it, and the same.
    All(bool),
}

impl<P: Copy + Default> Pages<P> {
    /// Nothing has come yet.
    pub(super) fn none() -> Self {
        Self::Before(P::default(), true)
    }

    /// Where the next page begins: of a node that was not whole, at the beginning again. `None`: no page is missing.
    pub(super) fn next(&self) -> Option<P> {
        match *self {
            Self::Before(place, _) => Some(place),
            Self::All(whole) => (!whole).then(P::default),
        }
    }

    /// A page has come of a node that is whole or not, and where the next one begins, if there is one.
    pub(super) fn turn(&mut self, whole: bool, next: Option<P>) {
        let whole = whole && !matches!(self, Self::Before(_, false));
        *self = next.map_or(Self::All(whole), |place| Self::Before(place, whole));
    }

    /// Whether all of it has come, of a node that was whole all the time.
    pub(super) fn is_whole(&self) -> bool {
        matches!(self, Self::All(true))
    }
}
