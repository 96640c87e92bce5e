"""Links that are cut while a run plays, and carry frames again.

The soft switch is told. Where the kernel shapes links, the queue in front of either end gives way to one that takes
nothing: the kernel drops and counts what waited, and whatever comes. Once the link is whole, the queue is what it was
at first. Interfaces keep their carrier, as at both ends of a cable that is cut between two media converters: no kernel
of a guest or host learns of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from virtlab.agents.requests.leader import Apply
from virtlab.agents.requests.switch import SetState
from virtlab.errors import MachineError
from virtlab.plan import Plan
from virtlab.planner.topology.cuts import UP
from virtlab.testbed.kinds.lowered import Lowered
from virtlab.testbed.leader.channels import SWITCH
from virtlab.testbed.leader.control import Control
from virtlab.testbed.queues.pacing import AT_RATE, CLOSED
from virtlab.testbed.steps.operations import QdiscAdd

DEAD = "9:"  # handle of the queue that takes nothing


def change(control: Control, plan: Plan, lowered: Lowered, link: str, state: str) -> None:
    """Cuts a link, or makes it whole; nothing changes where it is. AgentError where the kernel or the soft switch does
    not take it.
    """
    if lowered.soft_switch is not None:
        control.call(SetState(link, state == UP), channel=SWITCH)
        return
    queues = list(in_front(lowered, link))
    if not queues:
        what = f"no queue of the kernel holds the rate of {plan.world.links[link].rate_bit_per_s} bit/s"
        raise MachineError(f"links.{link}", what, "write 'realise: shaping' or 'realise: soft_switch'")
    _put(control, queues if state == UP else map(dead, queues))


def mend(control: Control, lowered: Lowered, links: Iterable[str]) -> None:
    """Makes links whole where the kernel shapes them, as each trial begins."""
    queues = [queue for link in links for queue in in_front(lowered, link)]
    if queues and lowered.soft_switch is None:
        _put(control, queues)


def in_front(lowered: Lowered, link: str) -> Iterator[QdiscAdd]:
    """The kernel's queues in front of both directions of a link that it shapes, as they were made."""
    places = {(queue.namespace, queue.link) for key, queue in lowered.queues.items() if key[0] == link}
    for step in lowered.steps:
        held = step.op
        if isinstance(held, QdiscAdd) and held.parent == AT_RATE and (held.namespace, held.link) in places:
            yield held


def dead(queue: QdiscAdd) -> QdiscAdd:
    """What is in the place of a queue while its link is cut."""
    return QdiscAdd(queue.namespace, queue.link, CLOSED, parent=queue.parent, handle=DEAD)


def _put(control: Control, queues: Iterable[QdiscAdd]) -> None:
    control.call(Apply([queue.json() for queue in queues]))
