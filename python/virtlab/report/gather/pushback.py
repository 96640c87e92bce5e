"""Who queued on hosts, in words: where frames waited that guests sent faster than their host's wire takes them.

What a queue that guests share had no room for was never on the way. A role that lost it counts it as lost all the same,
so the report says how much of that it was.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from virtlab.plan import Plan
from virtlab.planner.queues.pushback import UPLINK_PACKETS

if TYPE_CHECKING:
    import duckdb

    from virtlab.results.record import RunRecord

WORDS = {
    "uplink": f"uplink: a host's guests share one queue of {UPLINK_PACKETS} packets in front of its wire",
    "guest": "guest: each vNIC holds its own sender back",
    "none": "none: frames wait in the links' queues only",
}


def pushbacks(plans: Iterable[Plan]) -> tuple[str, ...]:
    """Every kind that a host with guests behind a virtual switch and a wire has, in a fixed order."""
    found = {
        plan.world.hosts[vswitch.host].pushback
        for plan in plans
        for vswitch in plan.world.vswitches.values()
        if vswitch.uplinks
    }
    return tuple(kind for kind in WORDS if kind in found)


def own_drops(db: duckdb.DuckDBPyConnection, used: Sequence[RunRecord]) -> list[str]:
    """A sentence if a queue that guests share dropped anything."""
    shared = {name for record in used for name in record.realised.objects if name.startswith("uplinks.")}
    if not shared:
        return []
    rows = db.execute(
        "SELECT entity, sum(dropped), count(*) FROM (SELECT run, entity, max(value) - min(value) AS dropped FROM counter "
        "WHERE counter = 'drops' AND status = 'ok' GROUP BY ALL) WHERE dropped > 0 GROUP BY entity ORDER BY entity"
    ).fetchall()
    said = [
        f"{int(dropped)} at {entity.removeprefix('uplinks.')} in {int(runs)} run{'' if runs == 1 else 's'}"
        for entity, dropped, runs in rows
        if entity in shared
    ]
    if not said:
        return []
    told = (
        "Packets for which the queue that guests share in front of their host's wire had no room "
        f"({', '.join(said)}) are their senders' own: they are lost, and never were on the way."
    )
    return [told]
