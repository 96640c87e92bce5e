"""A guest that is reset: all its vNICs go down, and come up again with its routes and neighbours as they were built.

The kernel drops a link's routes and neighbours when it goes down, as a device loses them when it is restarted, so
coming up is bringing the links up and telling the guest again what its configuration told it. Addresses stay. How
long the rest takes, carrier on the far ends included, is what a reset measures.
"""

from __future__ import annotations

from virtlab.errors import MachineError
from virtlab.testbed.control import Control, RefusedError
from virtlab.testbed.lower import Lowered
from virtlab.testbed.operations import LinkSet, NeighbourAdd, Operation, RouteAdd


def down(lowered: Lowered, guest: str) -> list[Operation]:
    """What takes a guest's vNICs down."""
    return [LinkSet(namespace, link, up=False) for namespace, link in _links(lowered, guest)]


def up(lowered: Lowered, guest: str) -> list[Operation]:
    """What brings them up, and gives back what was built on them; gateways after the networks they stand in."""
    links = _links(lowered, guest)
    kept = [
        step.op
        for step in lowered.steps
        if isinstance(step.op, (NeighbourAdd, RouteAdd)) and (step.op.namespace, step.op.link) in links
    ]
    kept.sort(key=lambda op: isinstance(op, RouteAdd) and op.via is not None)
    return [*(LinkSet(namespace, link, up=True) for namespace, link in links), *kept]


def apply(control: Control, operations: list[Operation], guest: str) -> None:
    """Applies them at once. MachineError with the kernel's words."""
    try:
        control.call("apply", {"batch": [operation.json() for operation in operations]})
    except RefusedError as error:
        what = error.error.get("kernel") or error.error.get("what")
        raise MachineError(f"guests.{guest}", f"cannot be reset: {what}") from error


def _links(lowered: Lowered, guest: str) -> list[tuple[str, str]]:
    return [(place.namespace, place.link) for (name, _), place in lowered.vnics.items() if name == guest]
