"""`reset`: a guest restarts, by as much of a device's reset as its platform has.

A virtual machine has a reset button (QMP `system_reset`): its firmware and kernel begin again, and it gets again
its configuration of when the world was built, an appliance on its console. A paravirtualised domain of Xen has a power
switch only: it is destroyed and made again, with new ports, which its host's switch gets again. A guest
without a kernel of its own has neither. All its vNICs go down, and come up again with its routes and neighbours as
they were built: the kernel drops a link's routes and neighbours when it goes down, as a device loses them when it
is restarted, so coming up is bringing the links up and telling the guest again what its configuration told it.
Addresses stay. How long all that takes, carrier on the far ends included, is what a reset measures.
"""

from __future__ import annotations

from virtlab.agents.requests.leader import Apply
from virtlab.catalogue import PLATFORMS
from virtlab.errors import MachineError
from virtlab.plan import Action, Plan
from virtlab.testbed.kinds.lowered import Lowered
from virtlab.testbed.leader.control import Control, RefusedError
from virtlab.testbed.play.actions.action import ActionKind, Playing
from virtlab.testbed.play.timeline import Timeline
from virtlab.testbed.steps.operations import LinkSet, NeighbourAdd, Operation, RouteAdd


def begin(trial: Playing, action: Action, at_ns: int, timeline: Timeline) -> None:
    """Takes a guest away; where it is away for a time, nothing of it may come back by itself before `end`."""
    del at_ns
    guest = str(action.guest)
    how = PLATFORMS[trial.plan.world.guests[guest].platform].reset
    assert how is not None, "refused before"
    trial.tell(f"{action.id}.how", trial.site.now(), {"guest": guest, "text": how.how})
    trial.note(timeline, f"{action.id}.started", trial.site.now())
    trial.counting.reset.add(guest)
    if how.boots:
        trial.guests.owners[guest].reset(guest, held=bool(action.for_ns))
        trial.lose_commands(guest, timeline)
    else:
        apply(trial.control, down(trial.lowered, guest), guest)
    timeline.expect(action.id, trial.site.now() + (action.for_ns or 0))


def end(trial: Playing, action: Action) -> int:
    """Brings it back, and returns when it is."""
    guest = str(action.guest)
    if boots(trial.plan, guest):
        trial.guests.owners[guest].restart(guest, trial.observe)
    else:
        apply(trial.control, up(trial.lowered, guest), guest)
    return trial.site.now()


def boots(plan: Plan, guest: str) -> bool:
    """Whether the guest's kernel begins again, and what ran in it is gone."""
    reset = PLATFORMS[plan.world.guests[guest].platform].reset
    return reset is not None and reset.boots


def down(lowered: Lowered, guest: str) -> list[Operation]:
    """The operations that take a guest's vNICs down."""
    return [LinkSet(namespace, link, up=False) for namespace, link in _links(lowered, guest)]


def up(lowered: Lowered, guest: str) -> list[Operation]:
    """What brings them up, and gives back what was built on them; gateways after the networks they are in."""
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
        control.call(Apply([operation.json() for operation in operations]))
    except RefusedError as error:
        what = error.error.get("kernel") or error.error.get("what")
        raise MachineError(f"guests.{guest}", f"cannot be reset: {what}") from error


def _links(lowered: Lowered, guest: str) -> list[tuple[str, str]]:
    return [(place.namespace, place.link) for (name, _), place in lowered.vnics.items() if name == guest]


IMPLEMENTATION = ActionKind(begin, end)
