"""Whom series are asked of: the leader of the world, and leaders of guests with a kernel of their own, each for its
machine.

A machine that we boot has what runs on it sampled from outside, by this machine's kernel. Its own kernel samples what
no other knows: its memory, and as telemetry its processors (`guests.NAME.cpuN`, with the steal that it sees) and disks.
A host that exists already is its own machine: all its series are its kernel's, under `guests.NAME`. Its samples wait
there until the series end, since their way here may be the network that is measured. Where every guest is such a
host, nothing of the experiment runs on this machine, whose processors and memory are no one's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from virtlab.agents.requests.leader import Sample
from virtlab.catalogue import PLATFORMS
from virtlab.catalogue.collected import COUNTERS, DIRTY_RATE, GUEST_CPU, GUEST_VCPUS, HOST_CPU, SERIES
from virtlab.plan import Plan, Refusal, SeriesRequest
from virtlab.planner.guests.disks import counted
from virtlab.planner.mobility.moves import moves
from virtlab.testbed.kinds.lowered import Lowered
from virtlab.testbed.leader.control import CALL_TIMEOUT_S, Control
from virtlab.testbed.platforms.guests import Guests

DIRTY_LEAST_NS = 1_000_000_000
END_TIMEOUT_S = 300.0  # what was held comes before the answer, over whatever network there is
NOTHING_COUNTED = (
    "no guest has a disk of which operations are counted: a folder in memory has no such counters"
)
CURE_COUNTED = "remove it, or give a guest of platform qemu a 'disk'"
Sources = Sequence[Mapping[str, Any]]


def wanted(plan: Plan) -> list[SeriesRequest]:
    """The series of a Plan, and the telemetry that it does not name.

    Virtual processors are threads only where a guest has a kernel of its own. What runs on a hypervisor is no process
    of the kernel beside it.
    """
    if not plan.collect.telemetry_ns:
        return list(plan.collect.series)
    platforms = [PLATFORMS[guest.platform] for guest in plan.world.guests.values()]
    nobodys = {each.source for each in plan.collect.series}
    if all(platform.shares_kernel or platform.existing for platform in platforms):
        nobodys.add(GUEST_VCPUS.name)
    if moves(plan):
        nobodys.add(GUEST_VCPUS.name)  # two machines have threads of one name
    if any(platform.hypervisor for platform in platforms):
        nobodys |= {GUEST_CPU.name, GUEST_VCPUS.name}
    more = [
        SeriesRequest(source=name, every_ns=plan.collect.telemetry_ns)
        for name, series in SERIES.items()
        if series.telemetry and name not in nobodys and (not series.of_disks or counted(plan))
    ]
    return [*plan.collect.series, *more]


def elsewhere(plan: Plan) -> bool:
    """Whether every guest exists already, so that nothing of the world is on this machine."""
    found = [PLATFORMS.get(guest.platform) for guest in plan.world.guests.values()]
    return bool(found) and all(platform is not None and platform.existing for platform in found)


def ask(control: Control, plan: Plan, lowered: Lowered, guests: Guests, sources: Sources) -> None:
    """Begins series (`source`, `every_ns`) wherever they are had. With none, ends them: what was held comes first."""
    sources = [each for each in sources if SERIES[each["source"]].sampler == "agent"]
    if not elsewhere(plan):
        shared = guests.confinement.shared() if sources and guests.confinement is not None else []
        control.call(Sample(list(sources), shared=shared or None))
    inside = [each for each in sources if SERIES[each["source"]].each_kernel]
    if sources and (every_ns := plan.collect.telemetry_ns):
        asked_for = {each["source"] for each in inside}
        inside += [
            {"source": name, "every_ns": every_ns}
            for name, series in SERIES.items()
            if series.inside and name not in asked_for
        ]
    machines = bool(plan.collect.telemetry_ns) or any(
        SERIES[each.source].each_kernel for each in plan.collect.series
    )
    asked: list[tuple[Sample, int]] = []
    for name, reach in guests.alive().items():
        if PLATFORMS[plan.world.guests[name].platform].existing:
            asked.append((Sample(list(sources), hold=bool(sources)), reach.leader))
        elif name in lowered.machines and machines and name not in moves(plan):
            asked.append((Sample(inside), reach.leader))
    control.call_all(asked, timeout_s=CALL_TIMEOUT_S if sources else END_TIMEOUT_S)


def sampling_refusals(plan: Plan) -> Iterator[Refusal]:
    """Series of disks where none is counted, and those that hosts that exist already do not have, if no other has
    them.
    """
    for series in plan.collect.series:
        if series.source in SERIES and SERIES[series.source].of_disks and not counted(plan):
            yield Refusal(f"collect.series.{series.source}", NOTHING_COUNTED, CURE_COUNTED)
    for group in plan.collect.counters:
        if group in COUNTERS and COUNTERS[group].of_disks and not counted(plan):
            yield Refusal(f"collect.counters.{group}", NOTHING_COUNTED, CURE_COUNTED)
    if elsewhere(plan) and any(each.source == GUEST_VCPUS.name for each in plan.collect.series):
        reason = "every guest exists already: whose threads its virtual processors are, only the machine beneath knows"
        cure = f"write {HOST_CPU.name}, whose steal is what the machine beneath took away"
        yield Refusal(f"collect.series.{GUEST_VCPUS.name}", reason, cure)
    for series in plan.collect.series:
        if series.source == DIRTY_RATE.name:
            yield from _dirty_rates(plan, series)


def _dirty_rates(plan: Plan, series: SeriesRequest) -> Iterator[Refusal]:
    path = f"collect.series.{series.source}"
    able = [name for name, platform in PLATFORMS.items() if platform.moves]
    if not any(guest.platform in able for guest in plan.world.guests.values()):
        reason = "no guest has a hypervisor that measures how fast it dirties its memory"
        yield Refusal(path, reason, f"take a guest of platform {', '.join(able)}, or remove it")
    if series.every_ns < DIRTY_LEAST_NS:
        yield Refusal(path, "pages are sampled for a second at least", "write '1 s' or more")
