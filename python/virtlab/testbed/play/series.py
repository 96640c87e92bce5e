"""Whom series are asked of: the leader of the world, and leaders of guests with a kernel of their own, each for its
machine.

A machine that we boot has what runs on it sampled from outside, by this machine's kernel; inside it only its memory
is looked at, which no other knows. A host that exists already is its own machine: all its series are its
kernel's, under `guests.NAME`. Its samples wait there until the series end, since their way here may be the network
that is measured. Where every guest is such a host, nothing of the experiment runs on this machine, whose processors
and memory are no one's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from virtlab.catalogue import PLATFORMS
from virtlab.plan import Plan, Refusal
from virtlab.testbed.kinds.lowered import Lowered
from virtlab.testbed.leader.control import CALL_TIMEOUT_S, Control
from virtlab.testbed.platforms.guests import Guests

OF_EACH_KERNEL = ("memory",)  # series that machines have of their own
OF_VCPUS = "guest.vcpus"
END_TIMEOUT_S = 300.0  # what was held comes before the answer, over whatever network there is
Sources = Sequence[Mapping[str, Any]]


def elsewhere(plan: Plan) -> bool:
    """Whether every guest exists already, so that nothing of the world is on this machine."""
    found = [PLATFORMS.get(guest.platform) for guest in plan.world.guests.values()]
    return bool(found) and all(platform is not None and platform.existing for platform in found)


def ask(control: Control, plan: Plan, lowered: Lowered, guests: Guests, sources: Sources) -> None:
    """Begins series (`source`, `every_ns`) wherever they are had. With none, ends them: what was held comes first."""
    if not elsewhere(plan):
        control.call("sample", {"sources": list(sources)})
    inside = [each for each in sources if each["source"] in OF_EACH_KERNEL]
    machines = any(each.source in OF_EACH_KERNEL for each in plan.collect.series)
    asked: list[tuple[str, Mapping[str, Any], int]] = []
    for name, reach in guests.alive().items():
        if PLATFORMS[plan.world.guests[name].platform].existing:
            asked.append(("sample", {"sources": list(sources), "hold": bool(sources)}, reach.leader))
        elif name in lowered.machines and machines:
            asked.append(("sample", {"sources": inside}, reach.leader))
    control.call_all(asked, timeout_s=CALL_TIMEOUT_S if sources else END_TIMEOUT_S)


def sampling_refusals(plan: Plan) -> Iterator[Refusal]:
    """Series that hosts that exist already do not have, if no other machine has them."""
    if elsewhere(plan) and any(each.source == OF_VCPUS for each in plan.collect.series):
        reason = "every guest exists already: whose threads its virtual processors are, only the machine beneath knows"
        cure = "write host.cpu, whose steal is what the machine beneath took away"
        yield Refusal(f"collect.series.{OF_VCPUS}", reason, cure)
