//! Which line leads where.

use super::bound::Way;
use crate::Mac;
use crate::layout::End;

/// A port of a fabric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PortId(pub usize);

/// No line, or no timer.
pub(crate) const NONE: usize = usize::MAX;

/// The ends of a line.
pub(crate) struct LineEnds {
    pub(crate) link: String,
    pub(crate) direction: &'static str,
    pub(crate) far: End,
    /// The line back.
    pub(crate) reverse: usize,
    /// From its far end.
    pub(crate) ways: Vec<Way>,
    /// Whether its discipline is asked frame by frame, so that its transmitter has a timer.
    pub(crate) asked: bool,
}

/// What a frame in passing needs to know of a line.
#[derive(Clone, Copy)]
pub(crate) struct Course {
    pub(crate) far: End,
    /// The line back.
    pub(crate) reverse: usize,
    /// Its timers; [`NONE`] where it needs none.
    pub(crate) start: usize,
    pub(crate) arrival: usize,
    /// The line that gets all its frames from this one, so that they may be offered before they come; else [`NONE`].
    pub(crate) next: usize,
    /// The address last met behind its far end that the switch there need not learn.
    pub(crate) settled: Option<Mac>,
    /// Whether it is a FIFO in closed form of a fabric that foretells.
    pub(crate) closed: bool,
}

/// Ports, and by line its ends and its course.
pub(crate) struct Graph {
    pub(crate) ports: Vec<String>,
    /// By port, the line that begins there.
    pub(crate) port_lines: Vec<usize>,
    pub(crate) ends: Vec<LineEnds>,
    pub(crate) courses: Vec<Course>,
}
