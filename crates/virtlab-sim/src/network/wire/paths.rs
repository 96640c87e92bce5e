//! What is known of paths through the fabric.

use virtlab_fabric::{Meeting, Passage, PortId, Train};

/// What is known of the way of a socket's frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Not asked yet.
    Unknown,
    /// It is played by events.
    Played,
    /// Frames go to one address, then to another.
    Changing,
    /// The place of a certain way.
    Certain(u32),
    /// It is played by events, in the fabric: the place of the road there.
    Along(u32),
    /// The place of a way on which frames meet others, for frames that are only counted.
    Meeting(u32),
}

/// A certain way, from a vNIC to another.
pub struct CertainWay {
    pub passage: Passage,
    /// Where its frames enter the fabric.
    pub at: PortId,
    /// The vNIC at its end.
    pub to: usize,
}

/// A path on which frames may meet others at one switch.
#[derive(Clone, Copy)]
pub struct MeetingWay {
    /// Where its frames enter the fabric.
    pub at: PortId,
    pub meeting: Meeting,
    /// The vNIC at its end.
    pub to: u32,
}

/// How frames come from a vNIC to the fabric.
#[derive(Clone, Copy)]
pub struct Road {
    /// Where they enter it.
    pub at: PortId,
    /// The queue that guests share before it.
    pub queue: Option<usize>,
    /// Whether nothing else enters the fabric there, so that a frame may be in it before it leaves its host; then,
    /// whether it takes its socket's room until it has left that queue.
    pub early: Option<bool>,
}

/// What is known of the paths of sockets, each by its kind.
#[derive(Default)]
pub struct Paths {
    certain: Vec<CertainWay>,
    meetings: Vec<MeetingWay>,
    roads: Vec<Road>,
    /// Whether every frame has its events, because one has come whose way is not known from the start.
    by_events: bool,
    /// Whether no way without events is looked for.
    none: bool,
    /// What is left of a train at its way's end, while that is looked at.
    pub left: Vec<Train>,
}

impl Paths {
    pub fn new(by_events: bool) -> Self {
        Self { by_events, ..Self::default() }
    }

    /// Whether every frame has its events.
    #[inline]
    pub fn by_events(&self) -> bool {
        self.by_events
    }

    /// From now on every frame has its events.
    pub fn play_by_events(&mut self) {
        self.by_events = true;
    }

    /// From the beginning no frame goes without its events.
    pub fn know_none(&mut self) {
        (self.by_events, self.none) = (true, true);
    }

    /// Whether frames may go without events where they meet others.
    #[inline]
    pub fn may_meet(&self) -> bool {
        !self.none
    }

    /// Keeps a certain way.
    pub fn keep_certain(&mut self, way: CertainWay) -> Way {
        self.certain.push(way);
        Way::Certain(self.certain.len() as u32 - 1)
    }

    /// Keeps a way on which frames meet others.
    pub fn keep_meeting(&mut self, way: MeetingWay) -> Way {
        self.meetings.push(way);
        Way::Meeting(self.meetings.len() as u32 - 1)
    }

    /// Keeps how frames come to the fabric.
    pub fn keep_road(&mut self, road: Road) -> Way {
        self.roads.push(road);
        Way::Along(self.roads.len() as u32 - 1)
    }

    /// How frames come to the fabric.
    #[inline]
    pub fn road(&self, place: u32) -> Road {
        self.roads[place as usize]
    }

    /// A certain way.
    #[inline]
    pub fn certain(&self, place: u32) -> &CertainWay {
        &self.certain[place as usize]
    }

    /// A way on which frames meet others.
    #[inline]
    pub fn meeting(&self, place: u32) -> MeetingWay {
        self.meetings[place as usize]
    }
}
