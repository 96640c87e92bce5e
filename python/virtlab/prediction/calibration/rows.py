"""What runs say about costs: rows of `fit`, each a number measured beyond an ideal world.

| row | measured | laid to |
|---|---|---|
| `path` | median of an echo from kernel stamp to kernel stamp | vNICs, bridges, links, the far process |
| `process` | median of what the process sees beyond that | its call, its wake-up, its message |
| `first` | how much longer the first packet took than both | the first packet of a flow |
| `whole` | median of a request and its answer, or of a datagram's way, where no echo is measured | all of these |
| `period` | usual time between two packets of a flood | the next call, or the links' player where packets were sent faster |

What one ns of a cost adds to `path` and `process` is found by simulating the same Plan with that cost alone, so the
design is the simulator's own. A frame that stays in the links for less than their player needs to notice it leaves
late by the rest, so there its stay is added to the excess, and the row has the notice itself. Medians keep single
stalls out; a row weighs by its standard error (1.2533 * (interquartile range / 1.349) / sqrt(n) of a median).

Calibration's own designs have one role, `probe` or `flood`; `rows_of_role` takes any role of any run.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from virtlab.campaign import CampaignObserver
from virtlab.catalogue import QDISCS, WORKLOADS
from virtlab.errors import ExperimentError, MachineError
from virtlab.lazy import NDArray, np
from virtlab.plan import Outcome, Plan, Trial
from virtlab.prediction.calibration.designs import BESIDE, BUSY, FLOOD, OTHER_VSWITCHES, PROBE
from virtlab.prediction.calibration.spread import passage
from virtlab.prediction.simulation.worlds import alone
from virtlab.results import Dataset, RunRecord
from virtlab.simulator import Simulator
from virtlab.simulator.profile import Parameter, Profile, Quantiles, wakeups
from virtlab.simulator.stay import stay_byte_ns
from virtlab.units.ethernet import HEADER_AND_FCS_BYTES

Kind = Literal["path", "process", "first", "period", "whole"]
UNIT_NS = 1000.0  # of a cost in the worlds that give the design
NOTICE_NS = 45_000  # frames that stay for less are over before a player that slept has noticed them
LEAST_REPLIES = 20
PATH_ERROR_NS = 1000.0  # least standard error of a median
FIRST_ERROR_NS = 50_000.0  # of a first packet: a single sample
PERIOD_ERROR = 0.03
SLOWER = 1.05  # packets come so much farther apart than they were sent: the links' player was the slower part
FEW_NS = 100_000_000  # of a stream, where a few of its messages show all
BLOCK = 256  # packets of a flood over which its pace is taken
WIRE_BYTES = 38  # beyond an IP packet
NOTICE, LATE = "links.notice", "links.lateness"
FIRST = "flow.first_packet_ns"


def usable(dataset: Dataset) -> list[RunRecord]:
    """Good runs, and tainted ones of floods through links and of busy neighbours: those are what they look for."""
    tainted = [
        run
        for run in dataset.runs("tainted")
        if {BUSY, BESIDE} & run.plan.point.keys() or (FLOOD in run.plan.roles and run.plan.world.links)
    ]
    return [*dataset.runs("ok"), *tainted]


@dataclass(frozen=True, slots=True)
class Row:
    """One number in ns, its standard error, and what one ns of each cost adds to it."""

    kind: Kind
    excess_ns: float
    error_ns: float
    design: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Spread:
    """Deviations of a run from its medians, in ns: of wake-ups, and of passages through links; tables they belong
    to.
    """

    wakeup: str
    process_ns: NDArray[Any]
    passage: str | None
    path_ns: NDArray[Any]


def rows_of(records: Iterable[RunRecord], names: Sequence[str]) -> tuple[list[Row], list[Spread]]:
    """Rows and spreads of good runs of the designs. MachineError when an echo has too few samples."""
    rows: list[Row] = []
    spreads: list[Spread] = []
    designs: dict[str, Design] = {}
    for record in records:
        if {BUSY, BESIDE} & record.plan.point.keys():
            continue  # `contention` and `steering` read them
        for role in (PROBE, FLOOD):
            if role in record.plan.roles:
                found, spread = rows_of_role(record, role, names, designs)
                if not found and role == PROBE:
                    cure = "calibrate again on a quieter machine"
                    raise MachineError(record.name, f"has fewer than {LEAST_REPLIES} replies", cure)
                rows += found
                spreads += spread
    return rows, spreads


Numbers = dict[str, tuple[float, float]]  # kind of row -> median in ns, and its standard error
Design = tuple[
    Numbers, dict[str, dict[str, float]]
]  # of an ideal world; and kind -> cost -> what one ns of it adds


def rows_of_role(
    record: RunRecord, role: str, names: Sequence[str], designs: dict[str, Design], *, contended: bool = False
) -> tuple[list[Row], list[Spread]]:
    """Rows of one role of a run; none where it measures nothing that costs show in, or too little of it.

    `names` are the costs in question. `designs` are kept from run to run: runs of one design point that differ by
    their seed alone should be given with one key, see `key_of`. `contended`: other roles run at the same time, and are
    played too.
    """
    plan = record.plan
    if is_flood(plan, role):
        return list(_flood(record, role)), []
    found = numbers_of(record, role)
    if found is None:
        return [], []
    numbers, deviations = found
    key = key_of(plan, role)
    if key not in designs:
        designs[key] = _ideal_and_design(plan, names, role, contended=contended)
    ideal, design = designs[key]
    stay = _stay_ns(plan, role)
    short = 0 < stay < NOTICE_NS
    rows = []
    for kind, (median, error) in numbers.items():
        excess, own = median - ideal.get(kind, (0.0, 0.0))[0], design.get(kind, {})
        if kind == "first":
            excess = median
        elif kind in {"path", "whole"} and short:
            passages = 1.0 if kind == "whole" and WORKLOADS[plan.roles[role].workload].pace else 2.0
            excess, own = excess + passages * stay, own | {NOTICE: passages}
        rows.append(Row(kind, excess, error, own))  # type: ignore[arg-type]
    if "whole" in deviations and not contended:  # two processes wake, one at each end
        one = passage([deviations["whole"]])
        return rows, [Spread(_wakeup(plan, role), one, None, one)]
    if "path" not in deviations:
        return rows, []
    through = (NOTICE if short else LATE) if plan.world.links else None
    return rows, [Spread(_wakeup(plan, role), deviations["process"], through, deviations["path"])]


def numbers_of(record: RunRecord, role: str) -> tuple[Numbers, dict[str, NDArray[Any]]] | None:
    """Medians of a role's run by kind of row, and deviations from them; None where there are too few."""
    return _numbers(record.plan, role, lambda schema, columns: record.samples(role, schema, columns))


def key_of(plan: Plan, role: str) -> str:
    """Equal for runs of one design point: what a cost adds does not depend on the seed."""
    return f"{role} {plan.model_copy(update={'seed': 0, 'repetition': 0}).identity()}"


def is_flood(plan: Plan, role: str) -> bool:
    """Whether a role sends as fast as it can: then only its pace shows costs."""
    declared = WORKLOADS[plan.roles[role].workload]
    return declared.pace is not None and declared.fills(plan.roles[role].parameters)


def _numbers(
    plan: Plan, role: str, read: Callable[[str, list[str]], Mapping[str, NDArray[Any]]]
) -> tuple[Numbers, dict[str, NDArray[Any]]] | None:
    """Medians by kind of row, and deviations from them; None where the role shows nothing."""
    schema = WORKLOADS[plan.roles[role].workload].tells(plan.roles[role].parameters)
    if schema == "rtt/1":
        columns = read("rtt/1", ["seq", "rtt_ns", "path_rtt_ns"])
        known = columns["path_rtt_ns"] >= 0
        path, rtt = columns["path_rtt_ns"][known].astype(np.float64), columns["rtt_ns"][known]
        if len(path) < LEAST_REPLIES:
            return None
        process = rtt - path
        numbers = {"path": _median(path), "process": _median(process)}
        if len(first := rtt[columns["seq"][known] == 0]):
            medians = numbers["path"][0] + numbers["process"][0]
            numbers["first"] = (max(float(first[0]) - medians, 0.0), FIRST_ERROR_NS)
        return numbers, {"path": path - np.median(path), "process": process - np.median(process)}
    if schema == "transaction/1":
        columns = read("transaction/1", ["started_ns", "finished_ns"])
        whole = columns["finished_ns"] - columns["started_ns"]
    elif schema == "request/1":
        columns = read("request/1", ["seq", "sent_ns", "finished_ns"])
        answered = (columns["finished_ns"] >= 0) & (columns["seq"] >= 0)
        whole = (columns["finished_ns"] - columns["sent_ns"])[answered]
    elif schema == "packet/1":
        columns = read("packet/1", ["sent_ns", "received_ns"])
        whole = (columns["received_ns"] - columns["sent_ns"])[columns["received_ns"] >= 0]
    else:
        return None
    if len(whole) < LEAST_REPLIES:
        return None
    deviations = {} if schema == "packet/1" else {"whole": whole - np.median(whole)}
    return {"whole": _median(whole)}, deviations


def _median(values: NDArray[Any]) -> tuple[float, float]:
    """The median, and its standard error."""
    low, middle, high = (float(each) for each in np.quantile(values, [0.25, 0.5, 0.75]))
    return middle, max(1.2533 * (high - low) / 1.349 / math.sqrt(len(values)), PATH_ERROR_NS)


def _stay_ns(plan: Plan, role: str) -> float:
    values = plan.roles[role].parameters
    guest, there = plan.roles[role].from_, plan.roles[role].to
    if guest is None or there is None:
        return 0.0
    ip_bytes = values.get("ip_packet_bytes")
    if ip_bytes is None and values.get("payload_bytes") is not None:
        ip_bytes = int(values["payload_bytes"]) + 28
    if ip_bytes is None and values.get("frame_bytes") is not None:
        ip_bytes = int(values["frame_bytes"]) - HEADER_AND_FCS_BYTES
    if ip_bytes is None:
        ip_bytes = max(int(values.get("request_bytes") or 0), 1) + 52
    mtu = next(iter(plan.world.guests[guest].vnics.values())).mtu_bytes
    return stay_byte_ns(plan) * (min(int(ip_bytes), mtu) + WIRE_BYTES)


def _wakeup(plan: Plan, role: str) -> str:
    guest = plan.roles[role].from_
    assert guest is not None
    return wakeups(plan, plan.world.guests[guest].idle)[0]


def _flood(record: RunRecord, role: str) -> Iterator[Row]:
    """The usual time between two packets that came; laid to the links' player only where they were sent faster."""
    plan = record.plan
    columns = record.samples(role, "packet/1", ["seq", "sent_ns", "received_ns", "payload_bytes"])
    came = np.sort(columns["received_ns"][columns["received_ns"] >= 0])
    if len(came) < LEAST_REPLIES:
        return
    sent = columns["sent_ns"]
    period, offered = _pace(came), _pace(np.sort(sent))
    workload = plan.roles[role].workload
    parameters = plan.roles[role].parameters
    bytes_ = (
        int(parameters["frame_bytes"]) - 4
        if "frame_bytes" in parameters
        else int(parameters["payload_bytes"]) + 42
        if "payload_bytes" in parameters
        else int(parameters["ip_packet_bytes"]) + 14
    )
    if not plan.world.links:
        name = f"flood.{workload}"
        calls = {f"{name}.packet_ns": 1.0, f"{name}.byte_ns": float(bytes_)}
        forwarded = _forwarded(plan, role, bytes_)
        # The sending times of frames that a guest dropped are unknown; numbers say how many there were.
        numbers = int(columns["seq"].max()) - int(columns["seq"].min())
        sent_each = float(sent.max() - sent.min()) / max(numbers, 1)
        held_by_guest = bool(forwarded) and period > SLOWER * sent_each
        yield Row("period", period, PERIOD_ERROR * period, ({} if held_by_guest else calls) | forwarded)
    elif period > SLOWER * offered:
        kind = next(iter(plan.world.links.values())).queue.ab.kind
        design = {"links.frame_ns": 1.0, "links.frame_byte_ns": float(bytes_)}
        more = {} if QDISCS[kind].calibrated is None else {f"qdisc.{kind}.frame_ns": 1.0}
        yield Row("period", period, PERIOD_ERROR * period, design | more)


FORWARDING = tuple(
    f"platform.namespace.{way}_{part}" for way in ("forward", "bridge") for part in ("ns", "byte_ns")
)


def _forwarded(plan: Plan, role: str, bytes_: int) -> dict[str, float]:
    """What a frame's way by a guest adds to the sender's time, whose processor carries it all the way."""
    via = plan.roles[role].parameters.get("via")
    if not via:
        return {}
    guest = plan.world.guests[via[0]]
    way = f"platform.{guest.platform}.{'bridge' if guest.bridges else 'forward'}"
    return {f"{way}_ns": 1.0, f"{way}_byte_ns": float(bytes_)}


def _pace(instants: NDArray[Any]) -> float:
    """Time between two of them, as the median over blocks: a pause of the processor falls into few."""
    size = min(BLOCK, len(instants) - 1)
    return float(np.median((instants[size:] - instants[:-size]) / size))


class _Samples:
    """Keeps blocks of one pass in memory, by stream and schema."""

    def __init__(self) -> None:
        self.blocks: dict[tuple[str, str], list[Mapping[str, Any]]] = {}

    def block(self, stream: str, schema: str, columns: Mapping[str, Any]) -> None:
        """Keeps it."""
        self.blocks.setdefault((stream, schema), []).append(columns)

    def columns(self, stream: str, schema: str, names: list[str]) -> Mapping[str, NDArray[Any]]:
        """Columns of a stream over all its blocks; empty ones without any."""
        blocks = self.blocks.get((stream, schema), [])
        return {
            name: np.concatenate([each[name] for each in blocks]) if blocks else np.empty(0, dtype=np.int64)
            for name in names
        }

    def event(self, event: Any) -> None:
        """Events say nothing here."""

    def artefact(self, name: str, chunks: Iterable[bytes]) -> None:
        """Designed runs keep no artefacts."""


def played(plan: Plan, profile: Profile, role: str) -> Numbers:
    """Medians of a role in a simulated run. ExperimentError when the simulator refuses it, or it fails."""
    samples = _Samples()
    backend = Simulator(profile)
    if refused := backend.check(plan):
        raise ExperimentError(refused[0].path, refused[0].reason, refused[0].cure)
    with backend.open(plan, CampaignObserver()) as session:
        outcome: Outcome = session.run(Trial("t0", plan.seed), samples)
    if outcome.status != "ok":
        raise ExperimentError(
            "simulation", f"a run did not end well ({'; '.join(outcome.reasons)})", "mend the file"
        )
    found = _numbers(plan, role, lambda schema, names: samples.columns(role, schema, names))
    return {} if found is None else found[0]


def _ideal_and_design(plan: Plan, names: Sequence[str], role: str, *, contended: bool) -> Design:
    """An ideal world's numbers, and what one ns of each cost adds to each. Few messages suffice: all are alike.

    Where others run beside, what they do counts, so all of it is played.
    """
    few = plan if contended else _few(plan, role)
    known = {name: Parameter(0.0) for name in names if not name.startswith("wakeup.")}
    nothing = played(few, Profile("none", 64, known), role)
    design: dict[str, dict[str, float]] = {kind: {} for kind in nothing}
    mine = set(wakeups(plan, "sleep")[:1]) | set(wakeups(plan, "poll")[:1])
    kinds = {each.kind for each in plan.world.vswitches.values()}
    elsewhere = {name for name in names if name.startswith("vswitch.") and name.split(".")[1] not in kinds}
    for name in names:
        tables: dict[str, Quantiles] = {}
        costs = known
        if name.startswith("wakeup."):
            if name not in mine:
                continue
            tables = {name: Quantiles((0.0, 1.0), (UNIT_NS, UNIT_NS))}
        elif name in elsewhere:
            continue
        else:
            costs = known | {name: Parameter(UNIT_NS)}
        some = played(few, Profile("one", 64, costs, tables), role)
        for kind, (number, _) in some.items():
            if kind in nothing and kind != "first" and number != nothing[kind][0]:
                design[kind][name] = (number - nothing[kind][0]) / UNIT_NS
    if "first" in nothing:
        asked = {f"vswitch.{kind}.upcall_ns" for kind in kinds if kind in OTHER_VSWITCHES}
        design["first"] = {
            name: added
            for name in (FIRST, *sorted(asked))
            if (
                added := _first_ns(few, Profile("one", 64, known | {name: Parameter(UNIT_NS)}), role, nothing)
            )
        }
    return played(few, IDEAL_LIKE, role), design


def _first_ns(plan: Plan, profile: Profile, role: str, nothing: Numbers) -> float:
    """What one ns of a profile's cost adds to the first packet beyond the others."""
    return (played(plan, profile, role)["first"][0] - nothing["first"][0]) / UNIT_NS


IDEAL_LIKE = Profile("ideal")


def _few(plan: Plan, role: str) -> Plan:
    """The role alone, with few messages."""
    only = alone(plan, role) if len(plan.roles) > 1 else plan
    one = only.roles[role]
    values = one.parameters
    fewer: dict[str, Any] = {}
    if values.get("count"):
        fewer["count"] = min(int(values["count"]), 2 * LEAST_REPLIES)
    if values.get("duration_ns"):
        fewer["duration_ns"] = min(int(values["duration_ns"]), FEW_NS)
    return only.model_copy(update={"roles": {role: one.model_copy(update=fewer)}})
