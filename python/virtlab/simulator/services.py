"""Work in simulated guests: virtlab's own server, or the declared cost of one that stands for a program.

The role's parameters say what is asked, those of the service what an answer costs. All roles that end at a service in
one guest share its server there. One that stands for a program refuses nothing: all requests wait.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from virtlab.catalogue import SERVICES
from virtlab.catalogue.actions import CALL
from virtlab.catalogue.costs import SIMULATED_AS
from virtlab.catalogue.declaration import why_not
from virtlab.catalogue.services.demand_server import DEMAND_SERVER, of_server
from virtlab.catalogue.workloads.program import METERED
from virtlab.catalogue.workloads.request_response import UDP, works
from virtlab.plan import Action, Plan, Refusal, Role, Service
from virtlab.planner.guests.stores import is_store

OF_CONNECTION = frozenset({"protocol", "port", "path", "keep_alive"})


def as_simulated(plan: Plan, role: Role) -> dict[str, Any]:
    """The role's parameters, with those of the server of the service at which it ends, if it does; of a program what it
    works.
    """
    if (cost := role.parameters.get(SIMULATED_AS)) is not None:
        return {key: value for key, value in cost.items() if key != METERED}
    server = server_of(_service(plan, role))
    if server is None:
        return role.parameters
    own = {key: value for key, value in role.parameters.items() if key not in OF_CONNECTION}
    datagrams = {"protocol": UDP} if role.parameters.get("protocol") == UDP else {}
    return {**own, **datagrams, **server}


def works_itself(role: Role) -> bool:
    """Whether a program works at its own end."""
    return works(role.parameters.get(SIMULATED_AS) or {})


def refusals_of_services(plan: Plan) -> Iterator[Refusal]:
    """What a simulated server does not do, and how it is not asked."""
    for name, service in plan.world.services.items():
        declared = SERVICES.get(service.kind)
        played = declared is not None and why_not(declared, "simulator", service.parameters) is None
        if played and server_of(service) is None and not is_store(service):
            yield Refusal(
                f"services.{name}.kind", f"'{service.kind}' is not modelled", "run the file on the testbed"
            )
    for name, role in plan.roles.items():
        if server_of(_service(plan, role)) is not None and role.parameters.get("keep_alive") is False:
            reason = "connections that come and go are not modelled"
            yield Refusal(f"roles.{name}.keep_alive", reason, "remove it, or run the file on the testbed")


def operation(plan: Plan, action: Action, guests: Mapping[str, int]) -> dict[str, Any]:
    """What an action does to servers, or which it waits for, as the core reads it; nothing of other actions."""
    if action.until is not None and action.until.call is not None:
        name = action.until.call.partition(".")[0]
        asked = [guests[guest] for guest in plan.world.services[name].on]
        return {"service": name, "guests": asked, "every_ns": action.until.every_ns}
    if action.do != CALL.name:
        return {}
    service = plan.world.services[str(action.service)]
    declared = SERVICES[service.kind].operations[str(action.op)]
    on = (action.args["guest"],) if "guest" in action.args else service.on
    return {
        "service": action.service, "guests": [guests[guest] for guest in on],
        "ends": declared.ends, "starts": declared.starts,
    }  # fmt: skip


def _service(plan: Plan, role: Role) -> Service | None:
    return plan.world.services.get(str(role.parameters.get("service")))


def server_of(service: Service | None) -> Mapping[str, Any] | None:
    """Parameters of virtlab's own server that serves, or stands for what serves; None where the simulator plays
    neither.
    """
    if service is None:
        return None
    cost = service.parameters.get(SIMULATED_AS)
    if cost is not None:
        return {**cost, "full": "wait"}
    return of_server(service.parameters) if service.kind == DEMAND_SERVER.name else None
