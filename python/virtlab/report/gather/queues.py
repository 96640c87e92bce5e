"""Queues of link directions, a row per class: what passed, was dropped or marked, how long it waited, and who queued.

Counts are of the whole run, from its first mark to its last, as medians over the runs of a setting; waits are as the
queue itself told them (a kernel reports none: its mean wait is by Little's law from the sampled backlog). Of the rows
of a setting the one with the longest mean wait is marked: there packets really waited. Left out are classes in which
nothing came and, where no host says where its queues are, queues of one FIFO that dropped nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import median
from typing import TYPE_CHECKING

from virtlab.catalogue import QDISCS
from virtlab.plan import Queue, RealisedObject, Vnic
from virtlab.planner.mobility.moves import vswitch_there
from virtlab.planner.queues.ports import guest_ports, ports_elsewhere
from virtlab.planner.queues.pushback import UPLINK_PACKETS, shared_queues
from virtlab.planner.topology.port_names import port_of, port_there
from virtlab.report.gather.model import ClassSeen
from virtlab.report.words import plural
from virtlab.units import display

if TYPE_CHECKING:
    import duckdb

    from virtlab.results.record import RunRecord

ROWS_MAX = 240
LOST = "lost at a cut"
COUNTS = {"packets": "packets", "drops": "drops", "link_down_drops": LOST, "marked_packets": "marked"}
WAITS = {
    "residence_ns": "mean wait",
    "residence_p50_ns": "median wait",
    "residence_p99_ns": "p99 wait",
    "residence_max_ns": "longest wait",
}
LEFT = {"backlog_max_packets": "most waiting", "backlog_packets": "waiting at the end"}
MARK = "waited most"
IN_FLIGHT_MAX = 0.001  # of the packets that came to a queue
Row = Mapping[str, str]


def queues(
    db: duckdb.DuckDBPyConnection,
    records: Sequence[RunRecord],
    settings: Mapping[int, Mapping[str, str]],
) -> tuple[tuple[Row, ...], tuple[ClassSeen, ...]]:
    """Rows of the table, and the same as numbers. `settings`: the varying part of each design point."""
    counted: dict[str, dict[str, dict[str, tuple[int, int]]]] = {}
    for run, entity, counter, first, last in db.execute(
        "SELECT run, entity, counter, arg_min(value, t_ns), arg_max(value, t_ns) FROM counter "
        "WHERE (entity LIKE 'links.%' OR entity LIKE 'uplinks.%') AND status = 'ok' GROUP BY ALL"
    ).fetchall():
        counted.setdefault(run, {}).setdefault(entity, {})[counter] = (int(first), int(last))
    found: dict[tuple[int, str, str, str, str], list[dict[str, float]]] = {}
    placed = any(True for record in records for _ in guest_ports(record.plan))
    for record in records:
        for line, queue, by, far in _directions(record):
            for entity, values in counted.get(record.name, {}).items():
                if not (entity == line or entity.startswith(f"{line}.")):
                    continue
                of_class = entity.removeprefix(line).removeprefix(".")
                told = _counted(values)
                silent = not told.get("packets") and not told.get("drops")
                plain = not of_class and QDISCS[queue.kind].tail_drop and not told.get("drops")
                if silent or (plain and not placed):
                    continue
                place = f"{queue.kind}, {_placed(by)}"
                found.setdefault((record.point, far, place, line, of_class), []).append(told)
    rows, seen = [], []
    for (point, far, place, _, of_class), runs in sorted(found.items()):
        setting = ", ".join(f"{key} {value}" for key, value in settings.get(point, {}).items())
        rows.append(
            {"setting": setting, "direction": far, "queue": place, "class": of_class or "all", **_shown(runs)}
        )
        seen.append(_seen(setting, far, of_class, runs))
    longest = _longest(seen)
    marked = tuple({**row, MARK: "here" if at in longest else ""} for at, row in enumerate(rows))
    return marked, tuple(seen)


def in_flight_notes(
    db: duckdb.DuckDBPyConnection,
    records: Sequence[RunRecord],
    settings: Mapping[int, Mapping[str, str]],
) -> list[str]:
    """A warning where more than `IN_FLIGHT_MAX` of what came to a queue still waited in it when the timeline ended."""
    waiting: dict[tuple[str, str], dict[str, int]] = {}
    for run, entity, counter, first, last in db.execute(
        "SELECT run, entity, counter, arg_min(value, t_ns), arg_max(value, t_ns) FROM counter "
        "WHERE regexp_matches(entity, '^(links|uplinks|guests)[.]') AND status = 'ok' "
        "AND counter IN ('packets', 'sent_packets', 'backlog_packets') GROUP BY ALL"
    ).fetchall():
        told = waiting.setdefault((run, entity), {})
        if counter == "backlog_packets":
            told["left"] = last
        else:
            told["came" if counter == "packets" else "sent"] = last - first
    worst: tuple[float, int, str, int] | None = None
    runs = 0
    for record in records:
        shares = []
        places = {line: far for line, _, _, far in _directions(record)} | _senders(record)
        for line, far in places.items():
            told = waiting.get((record.name, line), {})
            left = told.get("left", 0)
            came = max(told.get("came", 0), left) if "sent" not in told else told["sent"] + left
            if left > IN_FLIGHT_MAX * came:
                shares.append((left / came, left, far, record.point))
        if shares:
            runs += 1
            worst = max([*shares, *([worst] if worst else [])])
    if worst is None:
        return []
    share, left, far, point = worst
    at = ", ".join(f"{name} {level}" for name, level in settings.get(point, {}).items())
    where = f"{far}{f' at {at}' if at else ''}"
    warning = (
        f"In {plural(runs, 'run')} frames still waited in a queue when the timeline ended, at most {left} "
        f"({share:.1%}) on {where}. They are in flight: the loss of a stream leaves them out, that of other "
        "roles counts them. Let the timeline end with a longer 'drain'."
    )
    return [warning]


def _longest(rows: Sequence[ClassSeen]) -> set[int]:
    """The place of the row in which packets waited longest in the mean, of each setting with several rows."""
    found: dict[str, list[tuple[float, int]]] = {}
    for at, each in enumerate(rows):
        found.setdefault(each.setting, []).append((each.wait_mean_ns or 0.0, -at))
    several = (max(waits) for waits in found.values() if len(waits) > 1)
    return {-at for wait_ns, at in several if wait_ns > 0}


def _seen(setting: str, direction: str, name: str, runs: Sequence[Mapping[str, float]]) -> ClassSeen:
    def middle(counter: str) -> float | None:
        present = [run[counter] for run in runs if counter in run]
        return median(present) if present else None

    came = [(run.get("drops", 0.0), run.get("packets", 0.0) + run.get("drops", 0.0)) for run in runs]
    return ClassSeen(
        setting, direction, name, len(runs), middle("residence_ns"), middle("residence_p99_ns"),
        median(drops / all_of_them for drops, all_of_them in came),
    )  # fmt: skip


def _directions(record: RunRecord) -> Iterator[tuple[str, Queue, str, str]]:
    """Counters' name, queue, who queued and the direction, of all links and of ports towards guests that have a
    queue.
    """
    world, objects = record.plan.world, record.realised.objects
    for name, link in world.links.items():
        thing = objects.get(f"links.{name}")
        by = thing.by if thing is not None else record.backend
        for direction, queue in (("ab", link.queue.ab), ("ba", link.queue.ba)):
            far = " → ".join(link.ends if direction == "ab" else reversed(link.ends))
            yield f"links.{name}.{direction}", queue, by, far
    for shared in shared_queues(record.plan):
        if (thing := objects.get(shared.path)) is not None:
            waits = Queue(limit_packets=UPLINK_PACKETS)
            yield (
                shared.path,
                waits,
                _SHARED.get(thing.by, thing.by),
                f"guests of {shared.host} → {shared.port}",
            )
    for guest, name, vnic in guest_ports(record.plan):
        assert vnic.queue is not None
        port = port_of(guest, name)
        yield f"links.{port}.ab", vnic.queue, _paced_by(port, vnic, objects), f"{vnic.vswitch} → {guest}"
    for guest, name, host, vnic in ports_elsewhere(record.plan):
        assert vnic.queue is not None
        port, above = port_there(guest, name, host), vswitch_there(record.plan, guest, name, host)
        yield f"links.{port}.ab", vnic.queue, _paced_by(port, vnic, objects), f"{above} → {guest}"


def _paced_by(port: str, vnic: Vnic, objects: Mapping[str, RealisedObject]) -> str:
    """Who queues at a port: the player of its link, else the kernel, which shapes it where it has a rate."""
    thing = objects.get(f"links.{port}")
    if thing is not None:
        return thing.by
    return "shaping" if vnic.port_rate_bit_per_s is not None else "kernel"


def _senders(record: RunRecord) -> dict[str, str]:
    """Counters' name of each guest's vNIC, where its own sender is held back, and its place in words."""
    return {
        f"guests.{guest}.vnics.{name}": f"{guest}.{name}"
        for guest, entry in record.plan.world.guests.items()
        for name in entry.vnics
    }


_SHARED = {"kernel": "shaping"}  # it stands inside HTB


def _placed(by: str) -> str:
    """Who queued, in words."""
    return {
        "soft_switch": "virtlab in the soft switch",
        "shaping": "kernel, shaped by HTB",
        "netem": "kernel, netem",
        "kernel": "kernel, at the port itself",
        "simulated": "virtlab in virtual time",
        "simulator": "virtlab in virtual time",
    }.get(by, by.replace("_", " "))


def _counted(values: Mapping[str, tuple[int, int]]) -> dict[str, float]:
    told: dict[str, float] = {
        name: float(values[name][1] - values[name][0]) for name in COUNTS if name in values
    }
    told |= {name: float(values[name][1]) for name in LEFT if name in values}
    for name in WAITS:
        if name not in values:
            continue
        if name != "residence_ns":
            told[name] = float(values[name][1])
        elif told.get("packets"):
            told[name] = (values[name][1] - values[name][0]) / told["packets"]
    return told


def _shown(runs: Sequence[Mapping[str, float]]) -> dict[str, str]:
    shown = {"runs": str(len(runs))}
    for name, title in {**COUNTS, **LEFT, **WAITS}.items():
        present = [run[name] for run in runs if name in run]
        if not present:
            shown[title] = ""
        elif name in WAITS:
            shown[title] = display("ns", [median(present)]).text(median(present))
        else:
            shown[title] = f"{median(present):g}"
    return shown
