//! Frames without an event that come to a line: they wait, in order, until they are offered to it.

use virtlab_wire::Nanos;

/// So many frames may come to a line before somebody should gather them.
const CROWD: usize = 16;

/// A frame that comes to a switch.
#[derive(Clone, Debug)]
pub(crate) struct Coming<P> {
    pub(crate) at: Nanos,
    /// The line it comes over.
    pub(crate) from: u32,
    pub(crate) bytes: u32,
    pub(crate) payload: P,
}

impl<P> Coming<P> {
    fn place(&self) -> (Nanos, usize) {
        (self.at, self.from as usize)
    }
}

/// Frames without an event.
pub(crate) struct Comings<P> {
    /// By line, those that come to it, in order.
    by_line: Vec<Vec<Coming<P>>>,
    /// How many these are in all.
    count: usize,
    /// Those that have been foretold: their lengths and payloads.
    pub(crate) met: Vec<(u32, P)>,
}

impl<P> Comings<P> {
    /// None to any of so many lines.
    pub(crate) fn new(lines: usize) -> Self {
        Self { by_line: std::iter::repeat_with(Vec::new).take(lines).collect(), count: 0, met: Vec::new() }
    }

    /// Whether none comes to any line.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// A frame that is sent at `sent` comes to a line; whether many have come there that wait to be gathered.
    #[inline]
    pub(crate) fn insert(&mut self, line: usize, new: Coming<P>, sent: Nanos) -> bool {
        let coming = &mut self.by_line[line];
        let behind = coming.iter().rev().take_while(|other| other.place() > new.place()).count();
        coming.insert(coming.len() - behind, new);
        self.count += 1;
        coming.len() >= CROWD && coming[CROWD / 2].at <= sent
    }

    /// When the last of all comes.
    pub(crate) fn last(&self) -> Option<Nanos> {
        self.by_line.iter().filter_map(|coming| coming.last()).map(|last| last.at).max()
    }

    /// Whether some come to a line before an event: one at this instant, over a line of this number.
    #[inline]
    pub(crate) fn some_before(&self, line: usize, event: (Nanos, usize)) -> bool {
        self.count > 0 && self.by_line[line].first().is_some_and(|first| first.place() < event)
    }

    /// All that come to a line, and how many of them before an event, which are taken out; the others are to be given
    /// back.
    pub(crate) fn take(&mut self, line: usize, event: (Nanos, usize)) -> (Vec<Coming<P>>, usize) {
        let coming = core::mem::take(&mut self.by_line[line]);
        let count = coming.iter().take_while(|each| each.place() < event).count();
        self.count -= count;
        (coming, count)
    }

    /// Those that still come to a line.
    pub(crate) fn give_back(&mut self, line: usize, coming: Vec<Coming<P>>) {
        self.by_line[line] = coming;
    }
}
