"""Folders of objects in a store. Roles of one guest alone share one, since what is in it is known to its agent."""

from __future__ import annotations

from collections.abc import Iterator

from virtlab.plan import Plan, Refusal, Role
from virtlab.planner.guests.stores import client_roles


def folder_of(name: str, role: Role) -> str:
    """The folder of a role: its own, where it says none."""
    return str(role.parameters.get("folder") or name)


def folders_of_several_guests(plan: Plan, name: str, *others: str) -> Iterator[Refusal]:
    """Roles of several guests with one folder: each agent would take the same names for other objects. `others`: cures
    beside those that are always there.
    """
    clients: dict[str, tuple[str, str | None]] = {}
    for each, role in client_roles(plan, name).items():
        first, guest = clients.setdefault(folder_of(each, role), (each, role.from_))
        if guest != role.from_:
            cures = ("let both be of one guest", "give each a 'folder' of its own", *others)
            cure = f"{', '.join(cures[:-1])}{',' if len(cures) > 2 else ''} or {cures[-1]}"
            reason = f"{each} and {first} share a folder but run in different guests"
            yield Refusal(f"roles.{each}.folder", reason, cure)
