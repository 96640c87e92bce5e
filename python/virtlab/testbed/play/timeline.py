"""The timeline of one pass, with the Plan's actions in place of their numbers and marks with their bounds.

The state machine is `crates/virtlab-timeline`, which the simulator plays, too. Time is passed in; nothing here waits,
reads or sends.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from virtlab.catalogue.actions import ACTIONS, begins
from virtlab.plan import Action, Mark, Plan
from virtlab.planner.steps import step


class Timeline:
    """The state of one pass. `begin_ns` is the instant at which actions without a trigger begin."""

    def __init__(self, plan: Plan, begin_ns: int) -> None:
        from virtlab._native import Timeline as Machine

        self.begin_ns = begin_ns
        self.marks: dict[str, Mark] = {}
        self._actions = plan.timeline
        self._places = {action.id: place for place, action in enumerate(plan.timeline)}
        steps = [
            {**step(action), "begins": begins(action.do), "open_ended": ACTIONS[action.do].open_ended}
            for action in plan.timeline
        ]
        windows = {name: (window.from_, window.to) for name, window in plan.windows.items()}
        self._machine = Machine(json.dumps(steps), windows, begin_ns)

    @property
    def censored(self) -> list[str]:
        """Actions that timed out and of which it is unknown how long they would have taken."""
        return list(self._machine.censored)

    @property
    def failures(self) -> list[str]:
        """Why the run has failed: what was not over in time."""
        return list(self._machine.failures)

    def event(self, name: str, t_ns: int, bound_ns: int = 0) -> None:
        """An event `ACTION.WORD` happened; the first of a name counts."""
        self.marks |= dict.fromkeys(self._machine.event(name, t_ns), Mark(t_ns, bound_ns))

    def expect(self, action: str, at_ns: int) -> None:
        """A plain wait ends at an instant; its event is dated there, not when somebody looked."""
        self._machine.expect(self._places[action], at_ns)

    def waited(self, now_ns: int) -> Iterator[tuple[str, int]]:
        """Plain waits that are over, each once, with their instants."""
        while (found := self._machine.waited(now_ns)) is not None:
            yield f"{self._actions[found[0]].id}.done", found[1]

    def due(self, now_ns: int, lead_ns: int = 0) -> Iterator[tuple[Action, int]]:
        """Actions to begin, each once, with the instant at which to; a role's up to `lead_ns` ahead of it."""
        while (found := self._machine.due(now_ns, lead_ns)) is not None:
            yield self._actions[found[0]], found[1]

    def expired(self, now_ns: int) -> Iterator[Action]:
        """Actions whose time-out has passed, each once; says in `censored` and `failures` what that means."""
        while (found := self._machine.expired(now_ns)) is not None:
            action = self._actions[found[0]]
            self.event(f"{action.id}.{found[1]}", now_ns)
            yield action

    def next_ns(self, lead_ns: int = 0) -> int | None:
        """The next instant at which `waited`, `due` or `expired` has something."""
        instant: int | None = self._machine.next_ns(lead_ns)
        return instant

    def over(self) -> bool:
        """Whether nothing is left to happen."""
        return bool(self._machine.over())

    def windows(self) -> dict[str, tuple[int, int]]:
        """Windows that have both ends, ns."""
        return dict(self._machine.windows())

    def actions_of(self, role: str) -> list[str]:
        """Ids of begun actions that started a role and are not over."""
        running = (self._actions[place] for place in self._machine.running())
        return [action.id for action in running if action.role == role]
