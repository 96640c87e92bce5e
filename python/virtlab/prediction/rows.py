"""What runs say about costs: rows of `fit`, each a number measured beyond an ideal world.

| row | measured | laid to |
|---|---|---|
| `path` | median of an echo from kernel stamp to kernel stamp | vNICs, bridges, links, the far process |
| `process` | median of what the process sees beyond that | its call, its wake-up, its message |
| `first` | how much longer the first packet took than both | the first packet of a flow |
| `period` | usual time between two packets of a flood | the next call, or the links' player where packets were sent faster |

What one ns of a cost adds to `path` and `process` is found by simulating the same Plan with that cost alone, so the design
is the simulator's own. A frame that stays in the links for less than their player needs to notice it leaves late by the
rest, so there its stay is added to the excess, and the row tells the notice itself. Medians keep single stalls out; a row
weighs by its standard error (1.2533 * (interquartile range / 1.349) / sqrt(n) of a median).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from virtlab.errors import MachineError
from virtlab.prediction.designs import FLOOD, PROBE
from virtlab.simulator import Simulator
from virtlab.simulator.profile import Parameter, Profile, Quantiles, wakeups
from virtlab.simulator.stay import stay_byte_ns

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from virtlab.plan import Outcome, Plan
    from virtlab.results import Dataset, RunRecord

Kind = Literal["path", "process", "first", "period"]
UNIT_NS = 1000.0  # of a cost in the worlds that give the design
NOTICE_NS = 45_000  # frames that stay for less are over before a player that slept has noticed them
LEAST_REPLIES = 20
PATH_ERROR_NS = 1000.0  # least standard error of a median
FIRST_ERROR_NS = 50_000.0  # of a first packet: a single sample
PERIOD_ERROR = 0.03
SLOWER = 1.05  # packets come so much farther apart than they were sent: the links' player was the slower part
BLOCK = 256  # packets of a flood over which its pace is taken
WIRE_BYTES = 38  # beyond an IP packet
NOTICE, LATE = "links.notice", "links.lateness"
FIRST = "flow.first_packet_ns"


def usable(dataset: Dataset) -> list[RunRecord]:
    """Good runs, and those of floods through links that were tainted."""
    flooded = [run for run in dataset.runs("tainted") if FLOOD in run.plan.roles and run.plan.world.links]
    return [*dataset.runs("ok"), *flooded]


@dataclass(frozen=True, slots=True)
class Row:
    """One number in ns, its standard error, and what one ns of each cost adds to it."""

    kind: Kind
    excess_ns: float
    error_ns: float
    design: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Spread:
    """Deviations of a run from its medians, in ns: of wake-ups, and of passages through links; tables they belong to."""

    wakeup: str
    process_ns: NDArray[Any]
    passage: str | None
    path_ns: NDArray[Any]


def rows_of(records: Iterable[RunRecord], names: Sequence[str]) -> tuple[list[Row], list[Spread]]:
    """Rows and spreads of good runs of the designs. MachineError when an echo has too few samples."""
    rows: list[Row] = []
    spreads: list[Spread] = []
    designs: dict[str, tuple[Echo, list[dict[str, float]]]] = {}
    for record in records:
        if PROBE in record.plan.roles:
            key = record.plan.identity()
            if key not in designs:
                designs[key] = _ideal_and_design(record.plan, names)
            found, spread = _echoes(record, *designs[key])
            rows += found
            spreads.append(spread)
        if FLOOD in record.plan.roles:
            rows += _flood(record)
    return rows, spreads


@dataclass(frozen=True, slots=True)
class Echo:
    """Medians of a run's echoes in ns, their standard errors, and how much longer the first took."""

    path: float
    process: float
    path_error: float
    process_error: float
    first: float | None


def _echo(columns: Mapping[str, NDArray[Any]]) -> Echo:
    import numpy as np

    path = columns["path_rtt_ns"]
    process = columns["rtt_ns"] - path
    medians = float(np.median(path)), float(np.median(process))
    first = columns["rtt_ns"][columns["seq"] == 0]
    longer = max(float(first[0]) - sum(medians), 0.0) if len(first) else None
    return Echo(*medians, _error(path), _error(process), longer)


def _error(values: NDArray[Any]) -> float:
    """Standard error of the median."""
    import numpy as np

    low, high = (float(each) for each in np.quantile(values, [0.25, 0.75]))
    return max(1.2533 * (high - low) / 1.349 / math.sqrt(len(values)), PATH_ERROR_NS)


def _echoes(record: RunRecord, ideal: Echo, design: list[dict[str, float]]) -> tuple[list[Row], Spread]:
    import numpy as np

    plan = record.plan
    columns = record.samples(PROBE, "rtt/1", ["seq", "rtt_ns", "path_rtt_ns"])
    if len(columns["rtt_ns"]) < LEAST_REPLIES:
        cure = "calibrate again on a quieter machine"
        raise MachineError(record.name, f"has fewer than {LEAST_REPLIES} replies", cure)
    echo = _echo(columns)
    stay = _stay_ns(plan)
    short = 0 < stay < NOTICE_NS
    path = echo.path - ideal.path + (2 * stay if short else 0.0)
    rows = [
        Row("path", path, echo.path_error, design[0] | ({NOTICE: 2.0} if short else {})),
        Row("process", echo.process - ideal.process, echo.process_error, design[1]),
    ]
    if echo.first is not None:
        rows.append(Row("first", echo.first, FIRST_ERROR_NS, design[2]))
    process = columns["rtt_ns"] - columns["path_rtt_ns"]
    return rows, Spread(
        _wakeup(plan),
        process - np.median(process),
        (NOTICE if short else LATE) if plan.world.links else None,
        columns["path_rtt_ns"] - np.median(columns["path_rtt_ns"]),
    )


def _stay_ns(plan: Plan) -> float:
    return stay_byte_ns(plan) * (int(plan.roles[PROBE].parameters["ip_packet_bytes"]) + WIRE_BYTES)


def _wakeup(plan: Plan) -> str:
    guest = plan.roles[PROBE].from_
    assert guest is not None
    return wakeups(plan, plan.world.guests[guest].idle)[0]


def _flood(record: RunRecord) -> Iterator[Row]:
    """The usual time between two packets that came; laid to the links' player only where they were sent faster."""
    import numpy as np

    plan = record.plan
    columns = record.samples(FLOOD, "packet/1", ["seq", "sent_ns", "received_ns", "payload_bytes"])
    came = np.sort(columns["received_ns"][columns["received_ns"] >= 0])
    if len(came) < LEAST_REPLIES:
        return
    sent = columns["sent_ns"]
    period, offered = _pace(came), _pace(np.sort(sent))
    workload = plan.roles[FLOOD].workload
    parameters = plan.roles[FLOOD].parameters
    bytes_ = (
        int(parameters["frame_bytes"]) - 4
        if "frame_bytes" in parameters
        else int(parameters["payload_bytes"]) + 42
    )
    if not plan.world.links:
        name = f"flood.{workload}"
        calls = {f"{name}.packet_ns": 1.0, f"{name}.byte_ns": float(bytes_)}
        forwarded = _forwarded(plan, bytes_)
        # Of frames that a guest dropped nobody knows when they were sent; numbers say how many there were.
        numbers = int(columns["seq"].max()) - int(columns["seq"].min())
        sent_each = float(sent.max() - sent.min()) / max(numbers, 1)
        held_by_guest = bool(forwarded) and period > SLOWER * sent_each
        yield Row("period", period, PERIOD_ERROR * period, ({} if held_by_guest else calls) | forwarded)
    elif period > SLOWER * offered:
        kind = next(iter(plan.world.links.values())).queue.ab.kind
        design = {"links.frame_ns": 1.0, "links.frame_byte_ns": float(bytes_)}
        more = {} if kind == "fifo" else {f"qdisc.{kind}.frame_ns": 1.0}
        yield Row("period", period, PERIOD_ERROR * period, design | more)


FORWARDING = tuple(
    f"platform.namespace.{way}_{part}" for way in ("forward", "bridge") for part in ("ns", "byte_ns")
)


def _forwarded(plan: Plan, bytes_: int) -> dict[str, float]:
    """What a frame's way by a guest adds to the sender's time, whose processor carries it all the way."""
    via = plan.roles[FLOOD].parameters.get("via")
    if not via:
        return {}
    way = "bridge" if plan.world.guests[via[0]].bridges else "forward"
    return {f"platform.namespace.{way}_ns": 1.0, f"platform.namespace.{way}_byte_ns": float(bytes_)}


def _pace(instants: NDArray[Any]) -> float:
    """Time between two of them, as the median over blocks: a pause of the processor falls into few."""
    import numpy as np

    size = min(BLOCK, len(instants) - 1)
    return float(np.median((instants[size:] - instants[:-size]) / size))


class _Samples:
    """Keeps blocks of one pass in memory."""

    def __init__(self) -> None:
        self.columns: Mapping[str, Any] = {}

    def block(self, stream: str, schema: str, columns: Mapping[str, Any]) -> None:
        """Keeps those of the probe."""
        if (stream, schema) == (PROBE, "rtt/1"):
            self.columns = columns

    def event(self, event: Any) -> None:
        """Events say nothing here."""

    def artefact(self, name: str, chunks: Iterable[bytes]) -> None:
        """There is none."""


def _played(plan: Plan, profile: Profile) -> Echo:
    from virtlab.campaign import CampaignObserver
    from virtlab.plan import Trial

    samples = _Samples()
    with Simulator(profile).open(plan, CampaignObserver()) as session:
        outcome: Outcome = session.run(Trial("t0", plan.seed), samples)
    assert outcome.status == "ok", outcome.reasons
    return _echo(samples.columns)


def _ideal_and_design(plan: Plan, names: Sequence[str]) -> tuple[Echo, list[dict[str, float]]]:
    """An ideal world's numbers, and what one ns of each cost adds to path and process. Few echoes tell it: all are alike."""
    few = plan.model_copy(update={"roles": {PROBE: _few(plan)}})
    known = {name: Parameter(0.0) for name in names if not name.startswith("wakeup.")}
    nothing = _played(few, Profile("none", 64, known))
    design: list[dict[str, float]] = [{}, {}]
    for name in names:
        tables = {}
        costs = known
        if name.startswith("wakeup."):
            if name != _wakeup(plan):
                continue
            tables = {name: Quantiles((0.0, 1.0), (UNIT_NS, UNIT_NS))}
        elif name in known:
            costs = known | {name: Parameter(UNIT_NS)}
        some = _played(few, Profile("one", 64, costs, tables))
        for at, (mine, none) in enumerate(((some.path, nothing.path), (some.process, nothing.process))):
            if mine != none:
                design[at][name] = (mine - none) / UNIT_NS
    first = _played(few, Profile("one", 64, known | {FIRST: Parameter(UNIT_NS)}))
    design.append({FIRST: ((first.first or 0.0) - (nothing.first or 0.0)) / UNIT_NS})
    return _played(few, Profile("ideal")), design


def _few(plan: Plan) -> Any:
    role = plan.roles[PROBE]
    return role.model_copy(update={"count": 2 * LEAST_REPLIES})
