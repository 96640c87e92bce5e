//! What a guest knows of a neighbour's hardware address: Linux's neighbour unreachability detection (RFC 4861, section
//! 7.3), which its ARP (RFC 826) shares.
//!
//! ```text
//! unknown --send--> incomplete --answer--> reachable --30 s, half to one and a half times--> stale --send--> delay --5 s--> probe
//! ```
//! Packets wait while an entry is incomplete, and only then: one that is stale is used while it is looked after. A
//! neighbour is asked three times, a second apart, then given up: all are asked while its place is unknown, it alone
//! afterwards. Who was asked by a neighbour knows it from then on (stale), and TCP that gets on confirms an entry as an
//! answer does.

/// Between two questions, and after the last.
const RETRANSMIT_NS: u64 = 1_000_000_000;
/// Questions before a neighbour is given up.
const QUESTIONS: u32 = 3;
/// A stale entry that is used is looked after when nothing has confirmed it for so long.
const DELAY_NS: u64 = 5_000_000_000;
/// How long an answer is believed on average.
pub const REACHABLE_NS: u64 = 30_000_000_000;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Unknown,
    Incomplete(u32),
    Reachable,
    Stale,
    Delay,
    Probe(u32),
}

/// Whom a guest asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// Everyone: broadcast, or the neighbour's multicast group.
    Everybody,
    /// The neighbour, at the address that it had.
    Itself,
}

/// What follows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Then {
    /// Whether packets may go.
    pub usable: bool,
    /// A question to send.
    pub ask: Option<Ask>,
    /// When to come back.
    pub alarm_ns: Option<u64>,
    /// What waits is given up.
    pub failed: bool,
}

/// One neighbour of one vNIC.
#[derive(Clone, Debug, Default)]
pub struct Neighbour {
    state: State,
    alarm_ns: Option<u64>,
    confirmed_ns: u64,
    /// How long its answers are believed.
    reachable_ns: u64,
}

impl Neighbour {
    /// Not resolved yet; an answer will be believed for this time.
    pub fn believed_for(reachable_ns: u64) -> Self {
        Self { reachable_ns, ..Self::default() }
    }

    /// A packet for it.
    pub fn send(&mut self, now_ns: u64) -> Then {
        match self.state {
            State::Unknown => self.ask(State::Incomplete(1), Ask::Everybody, now_ns),
            State::Stale => self.delay(now_ns),
            State::Reachable if now_ns > self.confirmed_ns + self.reachable_ns => self.delay(now_ns),
            _ => self.as_it_is(),
        }
    }

    /// An instant that was requested has come; one that has been put off means nothing.
    pub fn alarm(&mut self, now_ns: u64) -> Then {
        if self.alarm_ns != Some(now_ns) {
            return self.as_it_is();
        }
        self.alarm_ns = None;
        match self.state {
            State::Incomplete(asked) if asked < QUESTIONS => {
                self.ask(State::Incomplete(asked + 1), Ask::Everybody, now_ns)
            }
            State::Probe(asked) if asked < QUESTIONS => {
                self.ask(State::Probe(asked + 1), Ask::Itself, now_ns)
            }
            State::Incomplete(_) | State::Probe(_) => {
                self.state = State::Unknown;
                Then { failed: true, ..Then::default() }
            }
            State::Delay if now_ns <= self.confirmed_ns + DELAY_NS => {
                self.state = State::Reachable;
                self.as_it_is()
            }
            State::Delay => self.ask(State::Probe(1), Ask::Itself, now_ns),
            State::Unknown | State::Reachable | State::Stale => self.as_it_is(),
        }
    }

    /// It has answered.
    pub fn answered(&mut self, now_ns: u64) -> Then {
        (self.state, self.alarm_ns, self.confirmed_ns) = (State::Reachable, None, now_ns);
        self.as_it_is()
    }

    /// It has asked.
    pub fn heard(&mut self) -> Then {
        if matches!(self.state, State::Unknown | State::Incomplete(_)) {
            (self.state, self.alarm_ns) = (State::Stale, None);
        }
        self.as_it_is()
    }

    /// All that was known of it is lost.
    pub fn forget(&mut self) {
        (self.state, self.alarm_ns, self.confirmed_ns) = (State::Unknown, None, 0);
    }

    /// What was sent to it has got there.
    pub fn confirm(&mut self, now_ns: u64) {
        self.confirmed_ns = now_ns;
    }

    fn as_it_is(&self) -> Then {
        let usable = !matches!(self.state, State::Unknown | State::Incomplete(_));
        Then { usable, ..Then::default() }
    }

    fn delay(&mut self, now_ns: u64) -> Then {
        self.state = State::Delay;
        self.at(now_ns + DELAY_NS)
    }

    fn ask(&mut self, state: State, whom: Ask, now_ns: u64) -> Then {
        self.state = state;
        Then { ask: Some(whom), ..self.at(now_ns + RETRANSMIT_NS) }
    }

    fn at(&mut self, alarm_ns: u64) -> Then {
        self.alarm_ns = Some(alarm_ns);
        Then { alarm_ns: self.alarm_ns, ..self.as_it_is() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn known_at(now_ns: u64) -> Neighbour {
        let mut entry = Neighbour::believed_for(REACHABLE_NS);
        entry.send(now_ns);
        entry.answered(now_ns);
        entry
    }

    #[test]
    fn who_never_answers_is_asked_three_times_and_then_anew() {
        let mut entry = Neighbour::default();
        let first = entry.send(0);
        assert_eq!((first.usable, first.ask, first.alarm_ns), (false, Some(Ask::Everybody), Some(SECOND)));
        assert_eq!(entry.send(5), Then::default(), "it waits beside the first");
        assert_eq!(entry.alarm(SECOND).ask, Some(Ask::Everybody));
        assert_eq!(entry.alarm(2 * SECOND).ask, Some(Ask::Everybody));
        assert!(entry.alarm(3 * SECOND).failed);
        assert_eq!(entry.send(4 * SECOND).ask, Some(Ask::Everybody));
    }

    #[test]
    fn an_old_answer_is_used_on_and_looked_after_behind_the_packets_back() {
        let mut entry = known_at(0);
        assert_eq!(entry.send(30 * SECOND), Then { usable: true, ..Then::default() });
        assert_eq!(entry.send(31 * SECOND).alarm_ns, Some(36 * SECOND));
        let probe = entry.alarm(36 * SECOND);
        assert_eq!((probe.usable, probe.ask), (true, Some(Ask::Itself)));
        assert!(entry.answered(36 * SECOND).usable);
        assert_eq!(entry.alarm(37 * SECOND).ask, None, "the answer came before the next question");
    }

    #[test]
    fn a_flow_that_gets_on_keeps_its_neighbour_known_without_questions() {
        let mut entry = known_at(0);
        for second in 0..100 {
            assert_eq!(entry.send(second * SECOND).ask, None);
            assert_eq!(entry.alarm(second * SECOND).ask, None);
            entry.confirm(second * SECOND);
        }
    }

    #[test]
    fn who_was_asked_answers_without_a_question_of_its_own() {
        let mut entry = Neighbour::default();
        assert!(entry.heard().usable);
        assert_eq!(entry.send(0), Then { usable: true, alarm_ns: Some(5 * SECOND), ..Then::default() });
    }
}
