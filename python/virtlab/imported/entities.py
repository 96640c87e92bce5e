"""What tools call a host and its guests, by the names of the experiment.

A tool knows the machine that it ran on as `host`, or by a name that this has elsewhere (vCenter);
`{file: FILE, host: h1}` of a mapping says which host of the experiment it is. Claims name a host's processors as
`hosts.h1.cpu`, all its disks together as `hosts.h1.disks`, and its guests as `guests.h1.NAME`, so this is what they are
called here, whichever tool told them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace

from virtlab.errors import ExperimentError
from virtlab.imported.output import Point, ToolOutput
from virtlab.plan import Plan

DISKS = frozenset({"disk_read", "disk_written"})
DOMAIN_0 = "domain-0"


def name_host(output: ToolOutput, host: str, plan: Plan, where: str) -> None:
    """Calls the host and guests of an output as the experiment does. ExperimentError where that cannot be."""
    if host not in plan.world.hosts:
        known = ", ".join(plan.world.hosts)
        raise ExperimentError(
            f"{where}.host", f"{host!r} is not a host of that design point", f"write one of: {known}"
        )
    if len(output.hosts) > 1:
        named = ", ".join(output.hosts[:3])
        raise ExperimentError(
            f"{where}.host", f"{output.tool} has {len(output.hosts)} hosts there ({named}), of which one may be {host}",
            "export each into a file of its own",
        )  # fmt: skip
    _sum_domains(output, host, plan)
    shared = {point.entity for point in output.points if point.metric == "cpu_share"}
    guests = {
        name.removeprefix(f"{host}."): name for name in plan.world.guests if name.startswith(f"{host}.")
    }
    found: list[Point] = []
    for point in output.points:
        own = _own(point, output.hosts)
        if own is not None:
            found += _of_host(own, host)
            continue
        guest = next((short for short in guests if _is_of(point.entity, f"guests.{short}")), None)
        if guest is None:
            found.append(point)
            continue
        vcpus = plan.world.guests[guests[guest]].vcpus
        renamed = replace(
            point, entity=f"guests.{guests[guest]}{point.entity.removeprefix(f'guests.{guest}')}"
        )
        found.append(renamed)
        whole = point.entity == f"guests.{guest}" and point.metric == "cpu"
        if whole and vcpus and point.entity not in shared:
            found.append(replace(renamed, metric="cpu_share", value=point.value / vcpus))
    output.points = found


def _is_of(entity: str, owner: str) -> bool:
    return entity == owner or entity.startswith(f"{owner}.")


def _own(point: Point, hosts: tuple[str, ...]) -> Point | None:
    """The point as one of `host`; None: it is of no host."""
    if _is_of(point.entity, "host"):
        return point
    for name in hosts:
        if _is_of(point.entity, f"hosts.{name}"):
            return replace(point, entity=f"host{point.entity.removeprefix(f'hosts.{name}')}")
    return None


def _of_host(point: Point, host: str) -> Iterator[Point]:
    """`host.cpu` is the host's use of its processors, and what is written to no disk in particular, to all of them."""
    entity = "host.disks" if point.entity == "host" and point.metric in DISKS else point.entity
    yield replace(point, entity=f"hosts.{host}{entity.removeprefix('host')}")
    if (point.entity, point.metric) == ("host.cpu", "cpu"):
        yield replace(point, entity=f"hosts.{host}")


def _sum_domains(output: ToolOutput, host: str, plan: Plan) -> None:
    """On Xen, Domain-0 and all other domains are what uses the host's processors."""
    if not any(point.entity == DOMAIN_0 for point in output.points):
        return
    cpus = plan.world.hosts[host].cpus
    if cpus is None:
        output.notes.append(
            f"hosts.{host}.cpu is missing: xentop does not say how many processors {host} has; write its 'cpus'"
        )
        return
    sums: dict[int, float] = defaultdict(float)
    for point in output.points:
        if point.metric == "cpu" and (point.entity == DOMAIN_0 or point.entity.startswith("guests.")):
            sums[point.t_ns] += point.value
    output.points += [Point(t_ns, "host.cpu", "cpu", value / cpus) for t_ns, value in sums.items()]
