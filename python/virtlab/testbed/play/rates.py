"""Rates of links that change while a run plays: what sends into a link sends more slowly from then on.

The soft switch is told; where the kernel shapes links, the class of HTB that holds a link's rate is. The queue in front
of a host's wire, which holds its guests back at the rate of the wire, goes with it. A guest's own vNIC behind a virtual
switch keeps its rate, as a card does whose switch has a slow port further on: what it sends too fast waits in front of
the link. In a FIFO of the soft switch frames that wait already leave as they would have: when each starts is known as
it comes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from virtlab.agents.requests.leader import Apply
from virtlab.agents.requests.switch import Forward, ForwardNoMore, SetRate
from virtlab.errors import MachineError
from virtlab.plan import Plan
from virtlab.planner.topology.cuts import cut_links
from virtlab.testbed.kinds.lowered import Lowered
from virtlab.testbed.leader.channels import SWITCH
from virtlab.testbed.leader.control import Control
from virtlab.testbed.play import cuts
from virtlab.testbed.queues.pacing import AT_RATE
from virtlab.testbed.steps.operations import ClassAdd

RATE, CEIL = "rate_bit_per_s", "ceil_bit_per_s"


def change(control: Control, plan: Plan, lowered: Lowered, link: str, rate_bit_per_s: int) -> None:
    """Gives a link a rate. AgentError where the kernel or the soft switch does not take it."""
    _reshape(control, plan, lowered, {link: rate_bit_per_s})
    if lowered.soft_switch is not None:
        control.call(SetRate(link, rate_bit_per_s), channel=SWITCH)


def renew(control: Control, plan: Plan, lowered: Lowered) -> None:
    """Gives links that the timeline slows the rates that they have at the beginning, and makes those that it cuts
    whole: the soft switch begins again, with nothing of the trial before in it.
    """
    slowed = {action.link for action in plan.timeline if action.link is not None and RATE in action.args}
    cut = cut_links(plan)
    if slowed or cut:
        own = {name: plan.world.links[name].rate_bit_per_s for name in sorted(slowed)}
        _reshape(control, plan, lowered, own)
        cuts.mend(control, lowered, cut)
        if lowered.soft_switch is not None:
            control.call(ForwardNoMore(), channel=SWITCH)
            control.call(Forward(), channel=SWITCH)


def _reshape(control: Control, plan: Plan, lowered: Lowered, rates: Mapping[str, int]) -> None:
    held = []
    for link, rate in rates.items():
        found = list(classes(plan, lowered, link, rate))
        if not found and lowered.soft_switch is None:
            what = f"no class of the kernel holds the rate of {plan.world.links[link].rate_bit_per_s} bit/s"
            raise MachineError(f"links.{link}", what, "write 'realise: shaping' or 'realise: soft_switch'")
        held += found
    if held:
        control.call(Apply([operation.json() for operation in held]))


def classes(plan: Plan, lowered: Lowered, name: str, rate_bit_per_s: int) -> Iterator[ClassAdd]:
    """Classes of the kernel that hold a link's own rate, with another one."""
    link = plan.world.links[name]
    ends = {lowered.uplinks[end] for end in link.ends if end in lowered.uplinks}
    places = {(place.namespace, place.link) for place in ends}
    places |= {(queue.namespace, queue.link) for key, queue in lowered.queues.items() if key[0] == name}
    for step in lowered.steps:
        held = step.op
        if isinstance(held, ClassAdd) and held.handle == AT_RATE and (held.namespace, held.link) in places:
            options = held.discipline.options
            if options.get(RATE) == link.rate_bit_per_s:
                slower = replace(
                    held.discipline, options={**options, RATE: rate_bit_per_s, CEIL: rate_bit_per_s}
                )
                yield replace(held, discipline=slower)
