"""What the `cpu_share` of a guest is a share of: of a virtual machine its vCPUs, of any other guest the processors that
it may use.

A namespace or a container has no virtual processors: what works in it are threads of its servers. Two shares of
different things are no two values of one quantity, so they are never set against each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from virtlab.analysis.values import RunValue
from virtlab.catalogue import PLATFORMS
from virtlab.plan import Plan
from virtlab.results.record import RunRecord

METRIC = "cpu_share"
VCPUS, PROCESSORS = "vCPUs", "processors"
WORDS = {VCPUS: "of its vCPUs", PROCESSORS: "of the processors that it may use"}

Shares = Mapping[int, Mapping[str, str]]  # design point -> entity of a guest -> VCPUS or PROCESSORS


def of_guests(plan: Plan) -> dict[str, str]:
    """The guests of a Plan as entities, with what their `cpu_share` is of; those of an unknown platform are left
    out.
    """
    return {
        f"guests.{name}": PROCESSORS if PLATFORMS[guest.platform].vcpus(guest.vcpus) is None else VCPUS
        for name, guest in plan.world.guests.items()
        if guest.platform in PLATFORMS
    }


def shares_of(records: Iterable[RunRecord], rows: Iterable[RunValue]) -> dict[int, dict[str, str]]:
    """By design point; nothing where no guest's share was sampled."""
    points = {row.point for row in rows if row.metric == METRIC and row.role.startswith("guests.")}
    found: dict[int, dict[str, str]] = {}
    for record in records:
        if record.point in points and record.point not in found:
            found[record.point] = of_guests(record.plan)
    return found


def of_one_thing(share: str, other: str) -> bool:
    """Whether two shares are of the same thing, as far as it is known."""
    return "" in (share, other) or share == other


def kinds_of(shares: Shares, entity: str, metric: str) -> dict[int, str]:
    """What a metric of an entity is a share of, by design point; empty where it is no share of a guest."""
    return {point: of[entity] for point, of in shares.items() if entity in of} if metric == METRIC else {}
