//! A Plan's timeline as a pure state machine: events in, actions out. The testbed plays it with a clock, the simulator
//! in virtual time; instants are passed in, and nothing here waits, reads or sends.
//!
//! An action begins once, when its trigger's events have all happened: at the instant of the last of them (`any`: of
//! the first) plus its delay. An action whose trigger can no longer come is void. The run is over when every action is
//! over or void and every window has both its ends or cannot get them.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};

/// The event with which an action begins; with every other event of its own, it is over.
const STARTED: &str = "started";

/// When an action begins and ends; what it does is its player's.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// Its name; its events are `ID.WORD`.
    pub id: String,
    /// When it begins; absent: with the run.
    #[serde(default)]
    pub after: Option<Trigger>,
    /// Whether it begins a role's traffic, which players prepare a while ahead.
    #[serde(default)]
    pub begins: bool,
    /// Whether the run does not wait for its end.
    #[serde(default)]
    pub open_ended: bool,
    /// When it is given up.
    #[serde(default)]
    pub timeout_ns: Option<u64>,
    /// What that means; absent: the run has failed.
    #[serde(default)]
    pub on_timeout: Option<OnTimeout>,
}

/// When an action begins.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Trigger {
    /// As `ACTION.WORD`.
    pub events: Vec<String>,
    /// Whether the first of them is enough.
    pub any: bool,
    /// Delay after the event.
    pub plus_ns: u64,
}

/// What it means that an action is not over in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnTimeout {
    /// The run has failed.
    Fail,
    /// It ends, as intended.
    Cancel,
    /// How long it would have taken is unknown.
    Censor,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Waiting,
    Due(u64),
    Begun,
    Over,
    Void,
}

/// The state of one pass.
#[derive(Clone, Debug)]
pub struct Timeline {
    steps: Vec<Step>,
    states: Vec<State>,
    deadlines: Vec<Option<u64>>,
    /// Plain waits: the instant at which each is over, the action's place.
    waits: BTreeSet<(u64, usize)>,
    windows: BTreeMap<String, (String, String)>,
    begin_ns: u64,
    /// Instants of what happened.
    pub marks: BTreeMap<String, u64>,
    /// Actions of which it is unknown how long they would have taken.
    pub censored: Vec<String>,
    /// Why the run has failed.
    pub failures: Vec<String>,
}

impl Timeline {
    /// A pass in which actions without a trigger begin at `begin_ns`. Windows are intervals between two events.
    #[must_use]
    pub fn new(steps: Vec<Step>, windows: BTreeMap<String, (String, String)>, begin_ns: u64) -> Self {
        let mut timeline = Self {
            states: vec![State::Waiting; steps.len()],
            deadlines: vec![None; steps.len()],
            steps,
            waits: BTreeSet::new(),
            windows,
            begin_ns,
            marks: BTreeMap::new(),
            censored: Vec::new(),
            failures: Vec::new(),
        };
        timeline.settle();
        timeline
    }

    /// `ACTION.WORD` happened; the first of a name counts. Returns the events that are marked now: none if it was
    /// before, two where it says another, too.
    pub fn event(&mut self, name: &str, t_ns: u64) -> Vec<String> {
        if self.marks.contains_key(name) {
            return Vec::new();
        }
        let mut marked = vec![name.to_owned()];
        let (id, word) = name.rsplit_once('.').unwrap_or((name, STARTED));
        if let Some(place) = self.place(id).filter(|_| word != STARTED) {
            self.states[place] = State::Over;
            self.deadlines[place] = None;
            self.waits.retain(|(_, waiting)| *waiting != place);
            // What finished is done, too; both are marked before anything is decided from either.
            let done = format!("{id}.done");
            if word == "finished" && !self.marks.contains_key(&done) {
                marked.push(done);
            }
        }
        self.marks.extend(marked.iter().map(|event| (event.clone(), t_ns)));
        self.settle();
        marked
    }

    /// A plain wait ends at an instant; its event is dated there, not when somebody looked.
    pub fn expect(&mut self, place: usize, at_ns: u64) {
        self.waits.insert((at_ns, place));
    }

    /// The next plain wait that is over, and at which instant.
    pub fn waited(&mut self, now_ns: u64) -> Option<(usize, u64)> {
        let (at_ns, place) = self.waits.first().copied().filter(|(at_ns, _)| *at_ns <= now_ns)?;
        self.waits.remove(&(at_ns, place));
        Some((place, at_ns))
    }

    /// The next action to begin, and the instant at which to: a role up to `lead_ns` ahead of it.
    pub fn due(&mut self, now_ns: u64, lead_ns: u64) -> Option<(usize, u64)> {
        let (place, at_ns) = (0..self.steps.len()).find_map(|place| {
            let (at_ns, told_ns) = self.instants(place, lead_ns)?;
            (told_ns <= now_ns).then_some((place, at_ns))
        })?;
        self.states[place] = State::Begun;
        self.deadlines[place] = self.steps[place].timeout_ns.map(|timeout| at_ns.saturating_add(timeout));
        Some((place, at_ns))
    }

    /// The next action whose time-out has passed, with the word of the event that it is; says in `censored` and
    /// `failures` what that means.
    pub fn expired(&mut self, now_ns: u64) -> Option<(usize, &'static str)> {
        let place = self.deadlines.iter().position(|at_ns| at_ns.is_some_and(|at_ns| at_ns <= now_ns))?;
        self.deadlines[place] = None;
        let step = &self.steps[place];
        match step.on_timeout.unwrap_or(OnTimeout::Fail) {
            OnTimeout::Cancel => return Some((place, "cancelled")),
            OnTimeout::Censor => self.censored.push(step.id.clone()),
            OnTimeout::Fail => {
                let limit_s = step.timeout_ns.unwrap_or(0) as f64 / 1e9;
                self.failures.push(format!("timeline.{}: not over within {limit_s} s", step.id));
            }
        }
        Some((place, "timeout"))
    }

    /// The next instant at which `waited`, `due` or `expired` has something.
    #[must_use]
    pub fn next_ns(&self, lead_ns: u64) -> Option<u64> {
        let due = (0..self.steps.len()).filter_map(|place| Some(self.instants(place, lead_ns)?.1));
        let waited = self.waits.first().map(|(at_ns, _)| *at_ns);
        due.chain(self.deadlines.iter().flatten().copied()).chain(waited).min()
    }

    /// Whether nothing is left to happen.
    #[must_use]
    pub fn over(&self) -> bool {
        let settled = |(state, step): (&State, &Step)| match state {
            State::Waiting | State::Due(_) => false,
            State::Begun => step.open_ended,
            State::Over | State::Void => true,
        };
        let mut ends = self.windows.values().flat_map(|(from, to)| [from, to]);
        self.states.iter().zip(&self.steps).all(settled) && ends.all(|event| self.resolved(event))
    }

    /// Windows that have both ends.
    #[must_use]
    pub fn windows(&self) -> BTreeMap<String, (u64, u64)> {
        let interval = |(name, (from, to)): (&String, &(String, String))| {
            let ends = (*self.marks.get(from)?, *self.marks.get(to)?);
            (ends.0 <= ends.1).then(|| (name.clone(), ends))
        };
        self.windows.iter().filter_map(interval).collect()
    }

    /// Actions that began a role and are not over.
    pub fn running(&self) -> impl Iterator<Item = usize> {
        (0..self.steps.len())
            .filter(move |place| self.states[*place] == State::Begun && self.steps[*place].begins)
    }

    /// When an action that is due begins, and from when on `due` returns it.
    fn instants(&self, place: usize, lead_ns: u64) -> Option<(u64, u64)> {
        let State::Due(at_ns) = self.states[place] else { return None };
        let ahead_ns = if self.steps[place].begins { lead_ns } else { 0 };
        Some((at_ns, at_ns.saturating_sub(ahead_ns)))
    }

    fn place(&self, id: &str) -> Option<usize> {
        self.steps.iter().position(|step| step.id == id)
    }

    /// Whether an event has happened or cannot any more.
    fn resolved(&self, event: &str) -> bool {
        let id = event.rsplit_once('.').map_or(event, |(id, _)| id);
        let closed = |place: usize| matches!(self.states[place], State::Over | State::Void);
        self.marks.contains_key(event) || self.place(id).is_none_or(closed)
    }

    fn settle(&mut self) {
        let mut changed = true;
        while changed {
            changed = false;
            for place in 0..self.steps.len() {
                if self.states[place] == State::Waiting {
                    self.states[place] = self.triggered(place);
                    changed |= self.states[place] != State::Waiting;
                }
            }
        }
    }

    fn triggered(&self, place: usize) -> State {
        let Some(trigger) = &self.steps[place].after else { return State::Due(self.begin_ns) };
        let happened = || trigger.events.iter().filter_map(|name| self.marks.get(name));
        let impossible = trigger
            .events
            .iter()
            .filter(|name| !self.marks.contains_key(*name) && self.resolved(name))
            .count();
        let instant = if trigger.any {
            happened().min()
        } else if happened().count() == trigger.events.len() {
            happened().max()
        } else {
            None
        };
        match instant {
            Some(at_ns) => State::Due(at_ns.saturating_add(trigger.plus_ns)),
            None if impossible > 0 && (!trigger.any || impossible == trigger.events.len()) => State::Void,
            None => State::Waiting,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timeline(steps: &str) -> Timeline {
        Timeline::new(serde_json::from_str(steps).unwrap(), BTreeMap::new(), 1000)
    }

    #[test]
    fn a_role_is_told_ahead_and_other_actions_at_their_instant() {
        let mut play = timeline(r#"[{"id": "wait"}, {"id": "role", "begins": true}]"#);
        assert_eq!((play.next_ns(0), play.next_ns(30)), (Some(1000), Some(970)));
        assert_eq!((play.due(969, 30), play.due(970, 30)), (None, Some((1, 1000))));
        assert_eq!((play.due(999, 30), play.due(1000, 30)), (None, Some((0, 1000))));
        assert_eq!((play.due(u64::MAX, 30), play.running().collect::<Vec<_>>()), (None, vec![1]));
    }

    #[test]
    fn what_finished_is_done_too_and_both_are_told() {
        let mut play = timeline(
            r#"[{"id": "a"}, {"id": "b", "after": {"events": ["a.done"], "any": false, "plus_ns": 5}}]"#,
        );
        assert_eq!(play.due(1000, 0), Some((0, 1000)));
        assert_eq!(play.event("a.finished", 1200), ["a.finished", "a.done"]);
        assert_eq!((play.event("a.done", 1300), play.marks["a.done"]), (Vec::<String>::new(), 1200));
        assert_eq!(play.due(1205, 0), Some((1, 1205)));
    }

    #[test]
    fn waits_come_in_order_of_their_instants_and_not_after_their_action() {
        let mut play = timeline(r#"[{"id": "a"}, {"id": "b"}, {"id": "c"}]"#);
        for (place, at_ns) in [(0, 1070), (1, 1050), (2, 1060)] {
            play.expect(place, at_ns);
        }
        play.event("c.cancelled", 1040);
        assert_eq!(
            (play.waited(1049), play.waited(2000), play.waited(2000)),
            (None, Some((1, 1050)), Some((0, 1070)))
        );
        assert_eq!(play.waited(u64::MAX), None);
    }

    #[test]
    fn a_time_out_without_a_meaning_fails_the_run() {
        let mut play = timeline(r#"[{"id": "a", "timeout_ns": 2500000000}]"#);
        play.due(1000, 0);
        assert_eq!(play.expired(2_500_000_999), None);
        assert_eq!(play.expired(2_500_001_000), Some((0, "timeout")));
        assert_eq!(play.failures, ["timeline.a: not over within 2.5 s"]);
        assert_eq!(play.expired(u64::MAX), None);
    }
}
