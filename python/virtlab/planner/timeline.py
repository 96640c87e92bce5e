"""The timeline of a run: the file's own, or the usual one derived from the roles.

Derived: loads start; `settle` waits for the warm-up; measuring roles run, one after another or together; loads stop;
`drain` lets what is still under way arrive. Action ids are the roles' names, `stop-ROLE`, `settle` and `drain`.
A role that makes no traffic at this point has no action; in a timeline of the file its actions become waits of
no length, so what comes after them still comes.
"""

from __future__ import annotations

from collections.abc import Mapping

from virtlab.experiment import Study
from virtlab.experiment.roles import RoleSpec
from virtlab.experiment.timeline import ActionSpec, TriggerSpec
from virtlab.plan import Action, Trigger, Wait, Window

ROLE_ACTIONS = {"start", "stop", "run", "set"}


def timeline_of(study: Study) -> tuple[Action, ...]:
    """The actions of one run."""
    if study.timeline is not None:
        idle = {
            action.id
            for action in study.timeline
            if action.do in ROLE_ACTIONS and not study.roles[action.fields["role"]].active
        }
        return tuple(_written(action, idle) for action in study.timeline)
    return tuple(_derived(study))


def _derived(study: Study) -> list[Action]:
    loads = [role for role in study.roles.values() if role.active and role.part == "load"]
    measures = [role for role in study.roles.values() if role.active and role.part == "measure"]
    timing = study.timing
    actions = [Action(id=role.name, do="start", role=role.name) for role in loads]
    if timing.warmup:
        actions.append(Action(id="settle", do="wait", for_ns=timing.warmup, after=_after([f"{role.name}.started" for role in loads])))
        before = ["settle.done"]
    else:
        before = [f"{role.name}.started" for role in loads]
    first = before
    pause = 0
    for role in measures:
        actions.append(Action(id=role.name, do="run", role=role.name, after=_after(first if timing.together else before, pause)))
        before = [*before, f"{role.name}.finished"] if timing.together else [f"{role.name}.finished"]
        pause = 0 if timing.together else timing.pause
    if timing.together and measures:
        before = [f"{role.name}.finished" for role in measures]
    actions += [Action(id=f"stop-{role.name}", do="stop", role=role.name, after=_after(before)) for role in loads]
    if timing.drain:
        after = [f"stop-{role.name}.done" for role in loads] or before
        actions.append(Action(id="drain", do="wait", for_ns=timing.drain, after=_after(after)))
    return actions


def _after(events: list[str], plus_ns: int = 0) -> Trigger | None:
    if not events:
        return None
    if len(events) == 1:
        return Trigger(event=events[0], plus_ns=plus_ns)
    return Trigger(all=tuple(events), plus_ns=plus_ns)


def _written(action: ActionSpec, idle: set[str]) -> Action:
    after = _trigger(action.after, idle) if action.after is not None else None
    if action.id in idle:
        return Action(id=action.id, do="wait", for_ns=0, after=after)
    fields = dict(action.fields)
    if fields.get("until") is not None:
        fields["until"] = Wait(**fields["until"])
    return Action(id=action.id, do=action.do, after=after, **fields)


def _trigger(trigger: TriggerSpec, idle: set[str]) -> Trigger:
    def real(event: str) -> str:
        name = event.partition(".")[0]
        return f"{name}.done" if name in idle else event

    return Trigger(
        event=real(trigger.event) if trigger.event else None,
        plus_ns=trigger.plus_ns,
        any=tuple(real(event) for event in trigger.any),
        all=tuple(real(event) for event in trigger.all),
    )


def windows_of(study: Study, actions: tuple[Action, ...]) -> dict[str, Window]:
    """The file's windows; else `measured` over all measurements, and one per measuring role when there are several."""
    if study.windows is not None:
        gone = {action.id for action in actions if action.do == "wait" and action.for_ns == 0}
        ids = {action.id for action in actions} - gone
        return {
            name: Window(from_=begin, to=end)
            for name, (begin, end) in study.windows.items()
            if begin.partition(".")[0] in ids and end.partition(".")[0] in ids
        }
    runs = {action.role: action.id for action in actions if action.do == "run" and action.role is not None}
    if not runs:
        return {}
    ids = list(runs.values())
    last = max(runs, key=lambda name: traffic_ns(study.roles[name])) if study.timing.together else list(runs)[-1]
    windows = {"measured": Window(from_=f"{ids[0]}.started", to=f"{runs[last]}.finished")}
    if len(runs) > 1:
        windows |= {role: Window(from_=f"{action}.started", to=f"{action}.finished") for role, action in runs.items()}
    return windows


def traffic_ns(role: RoleSpec) -> int:
    """How long a measuring role takes at most; 0 for a load."""
    duration_ns = role.declaration.duration_ns(role.parameters) if role.part == "measure" else 0
    return duration_ns or 0


def length_ns(study: Study, actions: tuple[Action, ...]) -> int:
    """About how long the timeline takes: its longest chain of actions."""
    by_id = {action.id: action for action in actions}
    ends: dict[str, int] = {}

    def end_ns(action: Action) -> int:
        if action.id not in ends:
            ends[action.id] = 0  # a cycle was refused when the file was loaded
            ends[action.id] = _begin_ns(action, by_id, ends, end_ns) + _own_ns(study.roles, action)
        return ends[action.id]

    return max((end_ns(action) for action in actions), default=0)


def _begin_ns(action: Action, by_id: Mapping[str, Action], ends: Mapping[str, int], end_ns: object) -> int:
    if action.after is None:
        return 0
    assert callable(end_ns)
    events = [action.after.event] if action.after.event else [*action.after.any, *action.after.all]
    names = [event.partition(".")[0] for event in events if event]
    return action.after.plus_ns + max((int(end_ns(by_id[name])) for name in names if name in by_id), default=0)


def _own_ns(roles: Mapping[str, RoleSpec], action: Action) -> int:
    if action.do == "run" and action.role is not None:
        return traffic_ns(roles[action.role])
    if action.until is not None:
        return action.timeout_ns or 0
    return action.for_ns or 0
