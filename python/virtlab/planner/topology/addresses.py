"""What the references in a command's words stand for in a Plan: addresses as its guest reaches them, and ports."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from virtlab.catalogue.references import PORT, of_service
from virtlab.catalogue.workloads.program import PROGRAM
from virtlab.plan import Plan, Role
from virtlab.planner.topology.ends import interfaces, role_ends


def resolved(
    plan: Plan, references: Iterable[str], guest: str, ends: Mapping[str, str | None], family: Any = None
) -> dict[str, str]:
    """Each reference with its text, for a command in a guest. `ends` are guests by their words.
    ValueError("WHAT; CURE").
    """
    found = {}
    for reference in references:
        service = None if reference in plan.world.guests else of_service(reference, plan.world.services)
        if service is not None and service[1] == PORT:
            found[reference] = _port(plan, service[0])
        else:
            whose = plan.world.services[service[0]].on[0] if service is not None else reference
            whose = ends.get(reference) or whose
            towards = ends.get("to") if whose == guest else whose
            found[reference] = _address(plan, guest, towards, own=whose == guest, family=family)
    return found


def _port(plan: Plan, service: str) -> str:
    ready = plan.world.services[service].ready
    if ready is None or ready.port is None:
        raise ValueError(f"'{service}' has no port; say the 'port' in its 'ready'")
    return str(ready.port)


def _address(plan: Plan, guest: str, towards: str | None, *, own: bool, family: Any) -> str:
    """The address of the other end, or the guest's own: the one by which it reaches another, else its first."""
    if own and towards is None:
        first = next((str(each.ip) for _, _, each in interfaces(plan.world.guests[guest])), None)
        if first is None:
            raise ValueError(f"{guest} has no address; give it IPv4 or IPv6")
        return first
    words = {} if family is None else {"family": family}
    role = Role.model_validate({"workload": PROGRAM.name, "from": guest, "to": towards, **words})
    ends = role_ends(plan, role)
    address = ends[0 if own else 1].address if ends is not None else None
    if address is None:
        raise ValueError(
            f"{guest} has no address in common with {towards}; give both guests IPv4 or both IPv6"
        )
    return str(address.ip)
