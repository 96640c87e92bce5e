"""From designed runs to a platform profile.

Every run gives three numbers beyond an ideal world: the median path delay (kernel stamp to kernel stamp), what the process
sees beyond it (send call and wake-up), and how much longer the first packet took. What a cost adds to each is found by
simulating the same Plan with that cost alone, so the design of the fit is the simulator's own. Medians keep single stalls
out. Spread becomes tables: of wake-ups from `rtt - path_rtt`, of lateness from path delays over links, where two independent
passages make each echo, so their deviations are divided by the square root of two.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from virtlab.errors import MachineError
from virtlab.prediction.fit import Fit, fit
from virtlab.simulator import Simulator
from virtlab.simulator.profile import Parameter, Profile, Quantiles

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from virtlab.plan import Outcome, Plan
    from virtlab.results import RunRecord

PARAMETERS = (
    "platform.namespace.send_ns", "platform.namespace.message_ns", "platform.namespace.crossing_ns",
    "platform.namespace.crossing_byte_ns", "vswitch.linux_bridge.packet_ns", "vswitch.linux_bridge.byte_ns",
    "qdisc.htb.packet_ns", "links.departure_ns", "flow.first_packet_ns", "wakeup.sleep",
)  # fmt: skip
UNIT_NS = 1000.0  # of a cost in the worlds that give the design
PROBABILITIES = (0.0, 0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 1.0)
ROLE = "probe"

_WORLD = """version: 1
name: calibrate-{name}
title: Costs of this machine, {name}
seed: 11
factors:
  size: {sizes}
  protocol: [icmp, udp]
{factors}
{world}
roles:
  probe:
    workload: rtt
    from: {near}
    to: {far}
    size: "${{size}}"
    protocol: "${{protocol}}"
    interval: 3.1 ms
    count: {count}
timing: {{warmup: 100 ms, drain: 50 ms}}
repeat: {{minimum: {repeat}, maximum: {repeat}}}
"""


def designs(*, quick: bool) -> dict[str, str]:
    """Experiment files by name: one bridge; one and two switches. Sizes and protocols vary in each."""
    many = {
        "sizes": "[100 B ip_packet, 1500 B ip_packet]"
        if quick
        else "[100 B ip_packet, 700 B ip_packet, 1500 B ip_packet]",
        "count": 200 if quick else 500,
        "repeat": 2 if quick else 5,
    }
    return {
        "bridge": _WORLD.format(
            name="bridge",
            factors="",
            world="hosts: 1\nhost: {guests: 2}\ntopology: none",
            near="h1.g1",
            far="h1.g2",
            **many,
        ),
        "links": _WORLD.format(
            name="links",
            factors="  switches: [1, 2]",
            world='hosts: 2\ntopology: {shape: line, switches: "${switches}"}\nlink: {rate: 100 Mbit/s}',
            near="h1.g1",
            far="h2.g1",
            **many,
        ),
    }


@dataclass(frozen=True, slots=True)
class Excess:
    """What a run took beyond an ideal world, in ns: path, process, first packet; and the samples' deviations."""

    plan: Plan
    values: tuple[float, float, float]
    process_ns: NDArray[Any]
    path_ns: NDArray[Any]


@dataclass(frozen=True)
class Calibrated:
    """The profile and the fit it comes from."""

    profile: Profile
    fit: Fit
    runs: int


def excess_of(record: RunRecord) -> Excess:
    """Of a run of one of the designs. MachineError when it has too few samples."""
    columns = record.samples(ROLE, "rtt/1", ["seq", "rtt_ns", "path_rtt_ns"])
    if len(columns["rtt_ns"]) < 20:
        raise MachineError(record.name, "has fewer than 20 replies", "calibrate again on a quieter machine")
    values = _statistics(columns["seq"], columns["rtt_ns"], columns["path_rtt_ns"])
    ideal = _played(record.plan, Profile("ideal"))
    excess = tuple(mine - theirs for mine, theirs in zip(values, ideal, strict=True))
    process = columns["rtt_ns"] - columns["path_rtt_ns"]
    return Excess(record.plan, (excess[0], excess[1], excess[2]), process, columns["path_rtt_ns"])


def calibrate(
    records: Iterable[RunRecord], *, processors: int, provenance: Mapping[str, Any], name: str
) -> Calibrated:
    """Fits the profile to good runs of the designs. MachineError without any."""
    import numpy as np

    found = [excess_of(record) for record in records]
    if not found:
        raise MachineError("calibrate", "no run came out well", "calibrate again on a quieter machine")
    rows: dict[str, list[list[float]]] = {}
    for one in found:
        if one.plan.identity() not in rows:
            rows[one.plan.identity()] = _design(one.plan)
    design = np.array([row for one in found for row in rows[one.plan.identity()]])
    result = fit(PARAMETERS, design, np.array([value for one in found for value in one.values]), seed=1)
    return Calibrated(_profile(result, found, processors, provenance, name), result, len(found))


def _statistics(seq: NDArray[Any], rtt_ns: NDArray[Any], path_ns: NDArray[Any]) -> tuple[float, float, float]:
    import numpy as np

    path, process = float(np.median(path_ns)), float(np.median(rtt_ns - path_ns))
    first = rtt_ns[seq == 0]
    return path, process, max(float(first[0]) - path - process, 0.0) if len(first) else 0.0


def _design(plan: Plan) -> list[list[float]]:
    """What one ns of each cost adds to each of the three numbers of a run."""
    known = dict.fromkeys((name for name in PARAMETERS if not name.startswith("wakeup.")), Parameter(0.0))
    nothing = _played(plan, Profile("none", 64, known))
    columns = []
    for name in PARAMETERS:
        tables = {name: Quantiles((0.0, 1.0), (UNIT_NS, UNIT_NS))} if name.startswith("wakeup.") else {}
        costs = known if tables else known | {name: Parameter(UNIT_NS)}
        some = _played(plan, Profile("one", 64, costs, tables))
        columns.append([(mine - none) / UNIT_NS for mine, none in zip(some, nothing, strict=True)])
    return [[column[row] for column in columns] for row in range(3)]


class _Samples:
    """Keeps blocks of one pass in memory."""

    def __init__(self) -> None:
        self.columns: Mapping[str, Any] = {}

    def block(self, stream: str, schema: str, columns: Mapping[str, Any]) -> None:
        """Keeps those of the probe."""
        if (stream, schema) == (ROLE, "rtt/1"):
            self.columns = columns

    def event(self, event: Any) -> None:
        """Events say nothing here."""

    def artefact(self, name: str, chunks: Iterable[bytes]) -> None:
        """There is none."""


def _played(plan: Plan, profile: Profile) -> tuple[float, float, float]:
    from virtlab.campaign import CampaignObserver
    from virtlab.plan import Trial

    samples = _Samples()
    with Simulator(profile).open(plan, CampaignObserver()) as session:
        outcome: Outcome = session.run(Trial("t0", plan.seed), samples)
    assert outcome.status == "ok", outcome.reasons
    return _statistics(samples.columns["seq"], samples.columns["rtt_ns"], samples.columns["path_rtt_ns"])


def _profile(
    result: Fit, found: list[Excess], processors: int, provenance: Mapping[str, Any], name: str
) -> Profile:
    import numpy as np

    parameters, fitted = {}, {one.name: one.value for one in result.costs}
    for one in result.costs:
        why = f"only as a sum with {', '.join(one.together)}" if one.together else ""
        why = why if one.seen else "no run depends on it"
        if one.name != "wakeup.sleep":
            parameters[one.name] = Parameter(one.value, one.low, one.high, one.identified, why)
    process = [each.process_ns - np.median(each.process_ns) for each in found]
    path = [(each.path_ns - np.median(each.path_ns)) / 2**0.5 for each in found if each.plan.world.links]
    tables = {"wakeup.sleep": _table(np.concatenate(process), fitted["wakeup.sleep"])}
    if path:
        late = _table(np.concatenate(path), fitted["links.departure_ns"])
        departure = parameters["links.departure_ns"]
        steady = min(late.ns[0], departure.value)
        tables["links.lateness"] = Quantiles(late.probability, tuple(value - steady for value in late.ns))
        why = "; ".join(
            text for text in (departure.why, "the rest of its median is in links.lateness") if text
        )
        parameters["links.departure_ns"] = Parameter(steady, 0.0, departure.high, departure.identified, why)
    about = {
        "rows": 3 * len(found),
        "residual_median_ns": round(result.residual_median, 1),
        "residual_p90_ns": round(result.residual_p90, 1),
        "rank": result.rank,
        "condition": round(result.condition, 1),
        "wakeup_median_ns": round(fitted["wakeup.sleep"], 1),
    }
    return Profile(name, processors, parameters, tables, provenance, about)


def _table(deviations: NDArray[Any], median: float) -> Quantiles:
    """Quantiles of deviations about a median; none below zero."""
    import numpy as np

    values = np.maximum(np.quantile(deviations, PROBABILITIES) + median, 0.0)
    return Quantiles(PROBABILITIES, tuple(float(value) for value in np.maximum.accumulate(values)))
