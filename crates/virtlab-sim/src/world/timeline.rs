//! The timeline: events in, actions out.
//!
//! An action begins once, when its trigger's events have all happened: at the instant of the last of them (`any`: of the
//! first) plus its delay. One whose trigger can no longer come is void. All is over when every action is over or void and
//! every window has both its ends or cannot get them.

use crate::input::{Act, Action};
use std::collections::BTreeMap;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Waiting,
    Due(u64),
    Begun,
    Over,
    Void,
}

/// The state of one pass.
#[derive(Debug)]
pub struct Timeline {
    actions: Vec<Action>,
    states: Vec<State>,
    deadlines: Vec<Option<u64>>,
    edges: Vec<String>,
    pub marks: BTreeMap<String, u64>,
    pub censored: Vec<String>,
    pub failures: Vec<String>,
}

impl Timeline {
    pub fn new(actions: &[Action], edges: Vec<String>) -> Self {
        let mut timeline = Self {
            actions: actions.to_vec(),
            states: vec![State::Waiting; actions.len()],
            deadlines: vec![None; actions.len()],
            edges,
            marks: BTreeMap::new(),
            censored: Vec::new(),
            failures: Vec::new(),
        };
        timeline.settle();
        timeline
    }

    pub fn action(&self, index: usize) -> &Action {
        &self.actions[index]
    }

    /// `ACTION.WORD` happened; false when it had before.
    pub fn event(&mut self, name: &str, now_ns: u64) -> bool {
        if self.marks.contains_key(name) {
            return false;
        }
        self.marks.insert(name.to_owned(), now_ns);
        let (id, word) = name.rsplit_once('.').unwrap_or((name, ""));
        let ends = matches!(word, "finished" | "done" | "failed" | "timeout" | "cancelled");
        if let Some(index) = self.actions.iter().position(|action| action.id == id)
            && ends
        {
            self.states[index] = State::Over;
            self.deadlines[index] = None;
            if word == "finished" {
                self.marks.entry(format!("{id}.done")).or_insert(now_ns);
            }
        }
        self.settle();
        true
    }

    /// The next action to begin at `now_ns`.
    pub fn due(&mut self, now_ns: u64) -> Option<usize> {
        let index = self.states.iter().position(|state| matches!(state, State::Due(at) if *at <= now_ns))?;
        if let State::Due(at) = self.states[index] {
            self.deadlines[index] = self.actions[index].timeout_ns.map(|timeout| at.saturating_add(timeout));
        }
        self.states[index] = State::Begun;
        Some(index)
    }

    /// The next action whose time-out has passed, with the event's word.
    pub fn expired(&mut self, now_ns: u64) -> Option<(usize, &'static str)> {
        let index = self.deadlines.iter().position(|at| at.is_some_and(|at| at <= now_ns))?;
        self.deadlines[index] = None;
        let action = &self.actions[index];
        match action.on_timeout.as_deref() {
            Some("censor") => self.censored.push(action.id.clone()),
            Some("cancel") => return Some((index, "cancelled")),
            _ => self.failures.push(format!(
                "timeline.{}: not over within {} s",
                action.id,
                action.timeout_ns.unwrap_or(0) as f64 / 1e9
            )),
        }
        Some((index, "timeout"))
    }

    /// The next instant at which something is due or expires.
    pub fn next_ns(&self) -> Option<u64> {
        let due = self.states.iter().filter_map(|state| match state {
            State::Due(at) => Some(*at),
            _ => None,
        });
        due.chain(self.deadlines.iter().flatten().copied()).min()
    }

    /// Whether nothing is left to happen.
    pub fn over(&self) -> bool {
        let idle = |(state, action): (&State, &Action)| match state {
            State::Waiting | State::Due(_) => false,
            State::Begun => action.act == Act::Start,
            State::Over | State::Void => true,
        };
        self.states.iter().zip(&self.actions).all(idle) && self.edges.iter().all(|edge| self.resolved(edge))
    }

    /// Begun actions that started a role and are not over.
    pub fn actions_of(&self, role: usize) -> Vec<String> {
        let begun = self.states.iter().zip(&self.actions).filter(|(state, action)| {
            **state == State::Begun
                && action.role == Some(role)
                && matches!(action.act, Act::Start | Act::Run)
        });
        begun.map(|(_, action)| action.id.clone()).collect()
    }

    fn resolved(&self, event: &str) -> bool {
        let id = event.rsplit_once('.').map_or(event, |(id, _)| id);
        self.marks.contains_key(event)
            || self
                .actions
                .iter()
                .position(|action| action.id == id)
                .is_none_or(|index| matches!(self.states[index], State::Over | State::Void))
    }

    fn settle(&mut self) {
        let mut changed = true;
        while changed {
            changed = false;
            for index in 0..self.actions.len() {
                if self.states[index] == State::Waiting {
                    self.states[index] = self.triggered(index);
                    changed |= self.states[index] != State::Waiting;
                }
            }
        }
    }

    fn triggered(&self, index: usize) -> State {
        let Some(trigger) = &self.actions[index].after else { return State::Due(0) };
        let happened: Vec<u64> =
            trigger.events.iter().filter_map(|name| self.marks.get(name).copied()).collect();
        let impossible = trigger
            .events
            .iter()
            .filter(|name| !self.marks.contains_key(*name) && self.resolved(name))
            .count();
        let instant = if trigger.any {
            happened.iter().min()
        } else if happened.len() == trigger.events.len() {
            happened.iter().max()
        } else {
            None
        };
        match instant {
            Some(at) => State::Due(at.saturating_add(trigger.plus_ns)),
            None if impossible > 0 && (!trigger.any || impossible == trigger.events.len()) => State::Void,
            None => State::Waiting,
        }
    }
}
