"""Plays a timeline: events in, actions out. Time is passed in; nothing here waits, reads or sends.

An action begins once, when its trigger's events have all happened: at the instant of the last of them (`any`: of the
first) plus `plus_ns`. An action whose trigger can no longer come is void. The run is over when every action is over
or void and every window has both its ends or cannot get them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from virtlab.catalogue.actions import ACTIONS, begins
from virtlab.plan import Action, Mark, Plan, Trigger

ENDS = frozenset({"finished", "done", "failed", "timeout", "cancelled"})

State = Literal["waiting", "due", "begun", "over", "void"]


@dataclass(slots=True)
class _Entry:
    action: Action
    state: State = "waiting"
    at_ns: int = 0
    deadline_ns: int | None = None


@dataclass(slots=True)
class Timeline:
    """The state of one pass. `begin_ns` is the instant at which actions without a trigger begin."""

    plan: Plan
    begin_ns: int
    marks: dict[str, Mark] = field(default_factory=dict)
    censored: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    _entries: dict[str, _Entry] = field(default_factory=dict)
    _waits: dict[str, int] = field(default_factory=dict)  # action -> instant at which its plain wait is done

    def __post_init__(self) -> None:
        self._entries = {action.id: _Entry(action) for action in self.plan.timeline}
        self._settle()

    def event(self, name: str, t_ns: int, bound_ns: int = 0) -> None:
        """An event `ACTION.WORD` happened; the first of a name counts."""
        if name in self.marks:
            return
        self.marks[name] = Mark(t_ns, bound_ns)
        action, _, word = name.rpartition(".")
        entry = self._entries.get(action)
        if entry is not None and word in ENDS:
            entry.state = "over"
            entry.deadline_ns = None
            self._waits.pop(action, None)
            # What finished is done, too; both are marked before anything is decided from either.
            if word == "finished":
                self.marks.setdefault(f"{action}.done", Mark(t_ns, bound_ns))
        self._settle()

    def expect(self, action: str, at_ns: int) -> None:
        """A plain wait ends at an instant; its event is dated there, not when somebody looked."""
        self._waits[action] = at_ns

    def waited(self, now_ns: int) -> Iterator[tuple[str, int]]:
        """Plain waits that are over, each once, with their instants."""
        for action, at_ns in sorted(self._waits.items(), key=lambda entry: entry[1]):
            if at_ns <= now_ns:
                del self._waits[action]
                yield f"{action}.done", at_ns

    def due(self, now_ns: int, lead_ns: int = 0) -> Iterator[tuple[Action, int]]:
        """Actions to begin, each once, with the instant at which to; up to `lead_ns` ahead of it."""
        for entry in self._entries.values():
            if entry.state == "due" and entry.at_ns - (lead_ns if begins(entry.action.do) else 0) <= now_ns:
                entry.state = "begun"
                if entry.action.timeout_ns is not None:
                    entry.deadline_ns = entry.at_ns + entry.action.timeout_ns
                yield entry.action, entry.at_ns

    def expired(self, now_ns: int) -> Iterator[Action]:
        """Actions whose time-out has passed, each once; says in `censored` and `failures` what that means."""
        for entry in self._entries.values():
            if entry.state == "begun" and entry.deadline_ns is not None and entry.deadline_ns <= now_ns:
                entry.deadline_ns = None
                action = entry.action
                if action.on_timeout == "censor":
                    self.censored.append(action.id)
                elif action.on_timeout == "fail" or action.on_timeout is None:
                    self.failures.append(
                        f"timeline.{action.id}: not over within {(action.timeout_ns or 0) / 1e9:g} s"
                    )
                self.event(
                    f"{action.id}.{'cancelled' if action.on_timeout == 'cancel' else 'timeout'}", now_ns
                )
                yield action

    def next_ns(self, lead_ns: int = 0) -> int | None:
        """The next instant at which `due` or `expired` has something."""
        instants = [
            entry.at_ns - (lead_ns if begins(entry.action.do) else 0)
            for entry in self._entries.values()
            if entry.state == "due"
        ]
        instants += [entry.deadline_ns for entry in self._entries.values() if entry.deadline_ns is not None]
        instants += self._waits.values()
        return min(instants, default=None)

    def over(self) -> bool:
        """Whether nothing is left to happen."""
        for entry in self._entries.values():
            if entry.state in {"waiting", "due"} or (
                entry.state == "begun" and not ACTIONS[entry.action.do].open_ended
            ):
                return False
        return all(
            self._resolved(window.from_) and self._resolved(window.to)
            for window in self.plan.windows.values()
        )

    def windows(self) -> dict[str, tuple[int, int]]:
        """Windows that have both ends, ns."""
        found = {}
        for name, window in self.plan.windows.items():
            begin, end = self.marks.get(window.from_), self.marks.get(window.to)
            if begin is not None and end is not None and begin.t_ns <= end.t_ns:
                found[name] = (begin.t_ns, end.t_ns)
        return found

    def actions_of(self, role: str) -> list[str]:
        """Ids of begun actions that started a role and are not over."""
        return [
            name
            for name, entry in self._entries.items()
            if entry.action.role == role and begins(entry.action.do) and entry.state == "begun"
        ]

    def _resolved(self, event: str) -> bool:
        """Whether an event has happened or cannot any more."""
        if event in self.marks:
            return True
        entry = self._entries.get(event.rpartition(".")[0])
        return entry is None or entry.state in {"over", "void"}

    def _settle(self) -> None:
        changed = True
        while changed:
            changed = False
            for entry in self._entries.values():
                if entry.state == "waiting":
                    state, at_ns = self._trigger(entry.action.after)
                    if state != "waiting":
                        entry.state, entry.at_ns = state, at_ns
                        changed = True

    def _trigger(self, trigger: Trigger | None) -> tuple[State, int]:
        if trigger is None:
            return "due", self.begin_ns
        names = trigger.events()
        happened = [self.marks[name].t_ns for name in names if name in self.marks]
        impossible = [name for name in names if name not in self.marks and self._resolved(name)]
        if trigger.any:
            if happened:
                return "due", min(happened) + trigger.plus_ns
            return ("void", 0) if len(impossible) == len(names) else ("waiting", 0)
        if len(happened) == len(names):
            return "due", max(happened) + trigger.plus_ns
        return ("void", 0) if impossible else ("waiting", 0)
