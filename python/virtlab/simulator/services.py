"""A service that stands for its costs: a role that ends at it has a server of virtlab's own with the costs declared.

The role's parameters say what is asked, those of the service what an answer costs. No request is
refused: all of them wait. Two roles at one server would need one queue for both, and are refused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from virtlab.catalogue.services.program import SIMULATED_AS
from virtlab.plan import Plan, Refusal, Role

OF_SERVICE = frozenset({"service", "protocol", "port", "path", "keep_alive"})


def as_simulated(plan: Plan, role: Role) -> dict[str, Any]:
    """The role's parameters, with the server that stands for the service at which it ends, if it does."""
    cost = _cost(plan, role)
    if cost is None:
        return role.parameters
    own = {key: value for key, value in role.parameters.items() if key not in OF_SERVICE}
    return {**own, **cost, "full": "wait"}


def refusals_of_services(plan: Plan) -> Iterator[Refusal]:
    """Roles at services whose costs cannot stand for them."""
    ending = {name: role for name, role in plan.roles.items() if _cost(plan, role) is not None}
    asked = Counter((role.parameters["service"], role.to) for role in ending.values())
    for name, role in ending.items():
        service = role.parameters["service"]
        if asked[service, role.to] > 1:
            reason = f"another role ends at '{service}' on {role.to}, and a simulated server has one queue for each role"
            yield Refusal(
                f"roles.{name}.to",
                reason,
                "let one role ask it, at both rates together, or run it on the testbed",
            )
        if role.parameters.get("keep_alive") is False:
            reason = "connections that come and go are not modelled"
            yield Refusal(f"roles.{name}.keep_alive", reason, "remove it, or run the file on the testbed")


def _cost(plan: Plan, role: Role) -> dict[str, Any] | None:
    service = plan.world.services.get(str(role.parameters.get("service")))
    return None if service is None else service.parameters.get(SIMULATED_AS)
