"""The worlds that a prediction compares: those of a Plan without a part of what is built or played there.

What is left stays as it was: names, and with them all random streams, do not change.
"""

from __future__ import annotations

from collections.abc import Set

from virtlab.catalogue.actions import WAIT
from virtlab.catalogue.workloads.dirty import DIRTY
from virtlab.plan import Plan
from virtlab.plan.model import Trigger


def without_propagation(plan: Plan) -> Plan:
    """Cables of no length."""
    links = {name: link.model_copy(update={"propagation_ns": 0}) for name, link in plan.world.links.items()}
    return plan.model_copy(update={"world": plan.world.model_copy(update={"links": links})})


def without_processing(plan: Plan) -> Plan:
    """Switches that take no time."""
    switches = {
        name: each.model_copy(update={"processing_ns": 0}) for name, each in plan.world.switches.items()
    }
    return plan.model_copy(update={"world": plan.world.model_copy(update={"switches": switches})})


def alone(plan: Plan, role: str) -> Plan:
    """The others stand by."""
    return without(plan, set(plan.roles) - {role})


def unwritten(plan: Plan) -> Plan:
    """No role writes to the memory of a guest."""
    return without(plan, {name for name, role in plan.roles.items() if role.workload == DIRTY.name})


def without(plan: Plan, gone: Set[str]) -> Plan:
    """Roles stand by: their actions become waits of no length, they are gone."""
    timeline = tuple(
        action.model_copy(update={"do": WAIT.name, "role": None, "for_ns": 0, "args": {}})
        if action.role in gone
        else action
        for action in plan.timeline
    )
    word = {
        action.id: {"started": "started", "finished": "done", "done": "done"}
        for action in plan.timeline
        if action.role in gone
    }

    def renamed(event: str) -> str:
        name, _, what = event.rpartition(".")
        return f"{name}.{word[name].get(what, 'done')}" if name in word else event

    def trigger(after: Trigger | None) -> Trigger | None:
        if after is None:
            return None
        event = renamed(after.event) if after.event is not None else None
        several = {"any": tuple(map(renamed, after.any)), "all": tuple(map(renamed, after.all))}
        return after.model_copy(update={"event": event, **several})

    timeline = tuple(action.model_copy(update={"after": trigger(action.after)}) for action in timeline)
    windows = {
        name: window.model_copy(update={"from_": renamed(window.from_), "to": renamed(window.to)})
        for name, window in plan.windows.items()
    }
    kept = tuple(name for name in plan.collect.packets if name not in gone)
    collect = plan.collect.model_copy(update={"packets": kept})
    roles = {name: role for name, role in plan.roles.items() if name not in gone}
    return plan.model_copy(
        update={"roles": roles, "timeline": timeline, "windows": windows, "collect": collect}
    )
