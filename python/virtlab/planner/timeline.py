"""The timeline of a run: the file's own, or the usual one derived from the roles.

Derived: loads start; `settle` waits for the warm-up; measuring roles run, one after another or together;
loads stop; `drain` lets what is still under way arrive. Action ids are the roles' names, `stop-ROLE`,
`settle` and `drain`. A role that makes no traffic at this point has no action; in a timeline of the file its
actions become waits of no length, so what comes after them still comes.

Actions are described here as the file describes them; `compose` makes the Plan's of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from virtlab.catalogue import WORKLOADS
from virtlab.catalogue.actions import CALL, RUN, START, STOP, WAIT, moves_guest
from virtlab.experiment import Study
from virtlab.experiment.work.roles import RoleSpec
from virtlab.experiment.work.timeline import ActionSpec, TriggerSpec

if TYPE_CHECKING:  # `virtlab check` needs no Plan
    from virtlab.plan import Action, Plan

Actions = tuple[ActionSpec, ...]
A = TypeVar("A", "ActionSpec", "Action")


def timeline_of(study: Study) -> Actions:
    """The actions of one run."""
    if study.timeline is None:
        return tuple(_derived(study))
    idle = {
        action.id
        for action in study.timeline
        if action.fields.get("role") is not None and not study.roles[action.fields["role"]].active
    }
    return tuple(_without_idle(action, idle) for action in study.timeline)


def _derived(study: Study) -> list[ActionSpec]:
    loads = [role.name for role in study.roles.values() if role.active and role.part == "load"]
    measures = [role.name for role in study.roles.values() if role.active and role.part == "measure"]
    timing = study.timing
    actions = [ActionSpec(name, START.name, None, {"role": name}) for name in loads]
    before = [f"{name}.started" for name in loads]
    if timing.warmup:
        actions.append(ActionSpec("settle", WAIT.name, _after(before), {"for_ns": timing.warmup}))
        before = ["settle.done"]
    if timing.together:
        actions += [ActionSpec(name, RUN.name, _after(before), {"role": name}) for name in measures]
        before = [f"{name}.finished" for name in measures] or before
    else:
        for position, name in enumerate(measures):
            actions.append(
                ActionSpec(name, RUN.name, _after(before, timing.pause if position else 0), {"role": name})
            )
            before = [f"{name}.finished"]
    actions += [ActionSpec(f"stop-{name}", STOP.name, _after(before), {"role": name}) for name in loads]
    if timing.drain:
        before = [f"stop-{name}.done" for name in loads] or before
        actions.append(ActionSpec("drain", WAIT.name, _after(before), {"for_ns": timing.drain}))
    return actions


def _after(events: list[str], plus_ns: int = 0) -> TriggerSpec | None:
    if not events:
        return None
    if len(events) == 1:
        return TriggerSpec(event=events[0], plus_ns=plus_ns)
    return TriggerSpec(all=tuple(events), plus_ns=plus_ns)


def _without_idle(action: ActionSpec, idle: set[str]) -> ActionSpec:
    """The action, with those of inactive roles turned into waits of no length."""
    after = action.after
    if after is not None:
        after = TriggerSpec(
            event=_real(after.event, idle) if after.event else None,
            plus_ns=after.plus_ns,
            any=tuple(_real(event, idle) for event in after.any),
            all=tuple(_real(event, idle) for event in after.all),
        )
    if action.id in idle:
        return ActionSpec(action.id, WAIT.name, after, {"for_ns": 0})
    return action._replace(after=after)


def _real(event: str, idle: set[str]) -> str:
    name = event.partition(".")[0]
    return f"{name}.done" if name in idle else event


def windows_of(study: Study, actions: Actions) -> dict[str, tuple[str, str]]:
    """Windows by name as (from, to) events.

    The file's; else `measured` over all measurements, and one per measuring role when there are several. A
    window of the file that hangs on an inactive role does not exist at this point.
    """
    if study.windows is not None:
        idle = {
            action.id for action in actions if action.do == WAIT.name and action.fields.get("for_ns") == 0
        }
        ids = {action.id for action in actions} - idle
        return {
            name: ends
            for name, ends in study.windows.items()
            if all(event.partition(".")[0] in ids for event in ends)
        }
    runs = {str(action.fields["role"]): action.id for action in actions if action.do == RUN.name}
    if not runs:
        return {}
    last = (
        max(runs, key=lambda name: traffic_ns(study.roles[name])) if study.timing.together else list(runs)[-1]
    )
    windows = {"measured": (f"{next(iter(runs.values()))}.started", f"{runs[last]}.finished")}
    if len(runs) > 1:
        windows |= {role: (f"{action}.started", f"{action}.finished") for role, action in runs.items()}
    return windows


def traffic_ns(role: RoleSpec) -> int:
    """How long a measuring role takes at most, time-outs of lost packets included; 0 for a load."""
    duration_ns = role.declaration.duration_ns(role.parameters) if role.part == "measure" else 0
    return duration_ns or 0


def length_ns(study: Study, actions: Actions, *, at_most: bool = True) -> int:
    """How long the timeline takes: its longest chain of actions; at most, or when no packet is waited for in vain."""
    return _longest_ns(actions, lambda action: _own_ns(study.roles, action, at_most=at_most))


def plan_length_ns(plan: Plan) -> int:
    """The same of a Plan, when no packet is waited for in vain; at most its limit."""

    def own_ns(action: Action) -> int:
        role = plan.roles.get(str(action.role)) if action.do == RUN.name else None
        if role is None or role.workload not in WORKLOADS:
            return action.for_ns or 0
        workload = WORKLOADS[role.workload]
        values = workload.complete(role.parameters)
        return (workload.duration_ns(values) or 0) - int(values.get("timeout_ns", 0))

    return min(_longest_ns(plan.timeline, own_ns), plan.limits.run_ns)


def _longest_ns(actions: Sequence[A], own_ns: Callable[[A], int]) -> int:
    """The longest chain of actions, each after those that its trigger names."""
    ends: dict[str, int] = {}
    waiting = list(actions)
    while waiting:
        known = {action.id for action in waiting}
        # A Plan that no file made may have a cycle: none of it begins.
        ready = [action for action in waiting if known.isdisjoint(_awaited(action))]
        if not ready:
            break
        for action in ready:
            after = action.after
            begin_ns = 0 if after is None else after.plus_ns
            ends[action.id] = begin_ns + max((ends.get(name, 0) for name in _awaited(action)), default=0)
            ends[action.id] += own_ns(action)
        waiting = [action for action in waiting if action.id not in ends]
    return max(ends.values(), default=0)


def _awaited(action: ActionSpec | Action) -> set[str]:
    events = action.after.events() if action.after is not None else ()
    return {event.rpartition(".")[0] for event in events}


def _own_ns(roles: Mapping[str, RoleSpec], action: ActionSpec, *, at_most: bool) -> int:
    if action.do == RUN.name:
        role = roles[action.fields["role"]]
        return traffic_ns(role) - (0 if at_most else int(role.parameters.get("timeout_ns", 0)))
    if action.fields.get("until") is not None or (action.do == CALL.name or moves_guest(action.do)):
        return int(action.fields.get("timeout_ns") or 0)
    return int(action.fields.get("for_ns") or 0)
