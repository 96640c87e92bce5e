"""Clusters: services with one active server, to which those of their other guests forward, and where requests enter at
them.

The active server is that of the guest at which roles end; the others are passive. A service without an active server
has as many servers as guests, and each role ends at one of them, or asks all in turn.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from virtlab.catalogue import SERVICES, WORKLOADS
from virtlab.catalogue.sockets import ROUND_ROBIN
from virtlab.catalogue.workloads.request_response import REQUEST_RESPONSE
from virtlab.plan import Plan, Role, Service
from virtlab.planner.topology.ends import RoleEnd, role_ends


@dataclass(frozen=True, slots=True)
class Entry:
    """A server at which requests of a role enter."""

    place: int  # among the guests of its service
    guest: str
    ends: tuple[RoleEnd, RoleEnd]  # the client towards it, and its own


def active(service: Service) -> str | None:
    """The guest of its active server; None where none of its servers is passive."""
    kind = SERVICES.get(service.kind)
    return service.parameters.get(kind.active) if kind is not None and kind.active is not None else None


def service_of(plan: Plan, role: Role) -> Service | None:
    """The service at which a role ends."""
    return plan.world.services.get(str(role.parameters.get("service")))


def entered(plan: Plan, role: Role) -> tuple[str, ...]:
    """Guests at which requests of a role enter: first the one at which it ends, then those of passive servers or, in
    turn, of all others.
    """
    if role.to is None:
        return ()
    service = service_of(plan, role)
    if service is None or not (
        role.parameters.get("passive_share_ratio") or role.parameters.get(ROUND_ROBIN)
    ):
        return (role.to,)
    return (role.to, *(guest for guest in service.on if guest != role.to))


def serving(plan: Plan, role: Role) -> tuple[str, ...]:
    """Guests whose servers work for a role."""
    found = entered(plan, role)
    return found if role.parameters.get(ROUND_ROBIN) else found[:1]


def towards(role: Role, guest: str) -> Role:
    """The role as if it ended at that guest."""
    return role.model_copy(update={"to": guest})


def entries(plan: Plan, role: Role) -> Iterator[Entry]:
    """Where requests of a role enter at its service on several guests; none of other roles."""
    service = service_of(plan, role)
    declared = WORKLOADS[role.workload].at_service
    if service is None or len(service.on) < 2 or declared is None or not declared.places:
        return
    for guest in entered(plan, role):
        ends = role_ends(plan, towards(role, guest))
        if ends is not None:
            yield Entry(service.on.index(guest), guest, ends)


@dataclass(frozen=True, slots=True)
class Way:
    """The way of requests from a passive server to its active one."""

    service: str
    passive: str
    active: str

    @property
    def role(self) -> Role:
        """A role with the same two ends."""
        return Role.model_validate(
            {"workload": REQUEST_RESPONSE.name, "from": self.passive, "to": self.active}
        )


def ways_of_requests(plan: Plan) -> Iterator[Way]:
    """The ways between the servers of all clusters."""
    for name, service in plan.world.services.items():
        own = active(service)
        for guest in service.on if own is not None else ():
            if own is not None and guest != own:
                yield Way(name, guest, own)
