"""Folders of objects in a store, which roles share: at once in one guest, and one after the other in several.

What is in a folder is known to the agent of one guest at a time. A role of another guest takes that over before it
begins, so it must not begin while others are at work there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

from virtlab.catalogue import WORKLOADS
from virtlab.catalogue.actions import begins, ends_role
from virtlab.plan import Action, Plan, Refusal, Role
from virtlab.planner.guests.stores import client_roles
from virtlab.planner.mobility.moves import over_before
from virtlab.testbed.services.service import services

Place = tuple[str, ...]  # a service, and a folder in it


def folder_of(name: str, role: Role) -> str:
    """The folder of a role: its own, where it says none."""
    return str(role.parameters.get("folder") or name)


def place_of(plan: Plan, name: str) -> Place | None:
    """Where the objects of a role are, if other guests reach them there, too."""
    role = plan.roles[name]
    if (asked := role.parameters.get("service")) is not None:
        return (str(asked), folder_of(name, role)) if name in client_roles(plan, str(asked)) else None
    directory = role.parameters.get(WORKLOADS[role.workload].directory or "")
    if directory is None:
        return None
    for store, service in plan.world.services.items():
        copies = services.of(service.kind).copies
        if copies is not None and name in copies.roles(plan, store):
            return store, str(directory), folder_of(name, role)
    return None


def folders_at_once(plan: Plan, service: str, *others: str) -> Iterator[Refusal]:
    """Roles of several guests that may be at work in one folder at once: each agent would take the same names for other
    objects. `others`: cures beside those that are always there.
    """
    places = {name: place for name in plan.roles if (place := place_of(plan, name)) and place[0] == service}
    plays = {name: [action for action in plan.timeline if action.role == name] for name in places}
    for first, second in combinations(places, 2):
        if places[first] != places[second] or plan.roles[first].from_ == plan.roles[second].from_:
            continue
        orders = ((first, second), (second, first))
        if not any(_is_over(plan, plays[before], plays[after]) for before, after in orders):
            cures = (
                "begin one with 'after' the end of the other", "let both be of one guest",
                "give each a 'folder' of its own", *others,
            )  # fmt: skip
            reason = f"{second} and {first} may work in one folder at once, from different guests"
            yield Refusal(f"roles.{second}.folder", reason, f"{', '.join(cures[:-1])}, or {cures[-1]}")


def _is_over(plan: Plan, before: Sequence[Action], after: Sequence[Action]) -> bool:
    """Whether a role has ended whenever another begins, by the actions of both."""
    ends = {action.id for action in before if begins(action.do) or ends_role(action.do)}
    return all(ends & over_before(plan, action) for action in after if begins(action.do))
