"""From designed runs to a platform profile.

Rows of all runs (`rows`) are fitted together by robust non-negative least squares (`fit`), each weighed by its error.
Costs that no run here depends on are left out; costs that only come together are kept with a note, since only their sum
is known. Spread becomes tables (`spread`): of wake-ups from `rtt - path_rtt`, of passages through links from path
delays, where two independent passages make each echo.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from virtlab.errors import MachineError
from virtlab.lazy import NDArray, np
from virtlab.prediction.calibration.contention import Contention, contention
from virtlab.prediction.calibration.designs import DISCIPLINES, OTHER_VSWITCHES, designs
from virtlab.prediction.calibration.fit import Fit, Fitted, fit
from virtlab.prediction.calibration.rows import FORWARDING, LATE, NOTICE, Row, Spread, rows_of
from virtlab.prediction.calibration.spread import passage, table
from virtlab.prediction.calibration.steering import STEER, Steering, steering
from virtlab.results import RunRecord
from virtlab.simulator.profile import BUSY_CROSSING, BUSY_WAKEUP, FLOODS, Parameter, Profile, Quantiles

__all__ = ["Calibrated", "calibrate", "designs"]

ECHO_COSTS = (
    "platform.namespace.send_ns", "platform.namespace.message_ns", "platform.namespace.crossing_ns",
    "platform.namespace.crossing_byte_ns", "vswitch.linux_bridge.packet_ns", "vswitch.linux_bridge.byte_ns",
    "qdisc.htb.packet_ns", "links.departure_ns",
    *(f"vswitch.{kind}.{part}" for kind in OTHER_VSWITCHES for part in ("packet_ns", "byte_ns")),
)  # fmt: skip
WAKEUPS = ("wakeup.sleep", "wakeup.poll", "wakeup.sleep.links", "wakeup.poll.links")
PARAMETERS = (
    *ECHO_COSTS,
    *WAKEUPS,
    NOTICE,
    "flow.first_packet_ns",
    *(f"vswitch.{kind}.upcall_ns" for kind in OTHER_VSWITCHES),
    *(f"flood.{workload}.{part}" for workload in FLOODS for part in ("packet_ns", "byte_ns")),
    *FORWARDING,
    "links.frame_ns",
    "links.frame_byte_ns",
    *(f"qdisc.{kind}.frame_ns" for kind in DISCIPLINES),
)


@dataclass(frozen=True)
class Calibrated:
    """The profile and the fit it comes from. `residuals`: of each kind of row, number, median and 90th percentile in
    ns.
    """

    profile: Profile
    fit: Fit
    runs: int
    residuals: Mapping[str, tuple[int, float, float]]
    contention: Contention = field(default_factory=Contention)
    steering: Steering = field(default_factory=Steering)


def calibrate(
    records: Iterable[RunRecord], *, processors: int, provenance: Mapping[str, Any], name: str
) -> Calibrated:
    """Fits the profile to good runs of the designs. MachineError without any."""
    runs = list(records)
    rows, spreads = rows_of(runs, (*ECHO_COSTS, *WAKEUPS))
    if not rows:
        raise MachineError("calibrate", "no run came out well", "calibrate again on a quieter machine")
    found = fitted(
        rows, spreads, PARAMETERS, runs=len(runs), processors=processors, provenance=provenance, name=name
    )
    busy = contention(runs, found.profile, processors)
    parameters, tables = dict(found.profile.parameters), dict(found.profile.tables)
    if busy.table is not None and busy.crossing is not None:
        parameters[BUSY_CROSSING], tables[BUSY_WAKEUP] = busy.crossing, busy.table
    steered = steering(runs, replace(found.profile, parameters=parameters, tables=tables))
    if steered.cost is not None:
        parameters[STEER] = steered.cost
    about = {**found.profile.fit, **busy.about(), **steered.about()}
    profile = replace(found.profile, parameters=parameters, tables=tables, fit=about)
    return replace(found, profile=profile, contention=busy, steering=steered)


def fitted(
    rows: Sequence[Row], spreads: Sequence[Spread], names: Sequence[str], *, runs: int, processors: int,
    provenance: Mapping[str, Any], name: str,
) -> Calibrated:  # fmt: skip
    """The profile of these rows and spreads; `names` are the costs that they may be laid to."""
    design = np.array([[row.design.get(name, 0.0) for name in names] for row in rows])
    excess = np.array([row.excess_ns for row in rows])
    result = fit(names, design, excess, seed=1, errors=np.array([row.error_ns for row in rows]))
    values = np.array([one.value for one in result.costs])
    residuals = _residuals(rows, np.abs(excess - design @ values))
    profile = _profile(result, spreads, residuals, processors, provenance, name)
    return Calibrated(profile, result, runs, residuals)


def _residuals(rows: Sequence[Row], sizes: NDArray[Any]) -> dict[str, tuple[int, float, float]]:
    found = {}
    for kind in ("path", "process", "first", "period", "whole"):
        some = sizes[[row.kind == kind for row in rows]]
        if len(some):
            found[kind] = (len(some), float(np.median(some)), float(np.quantile(some, 0.9)))
    return found


def _profile(
    result: Fit,
    spreads: Sequence[Spread],
    residuals: Mapping[str, tuple[int, float, float]],
    processors: int,
    provenance: Mapping[str, Any],
    name: str,
) -> Profile:
    found = {one.name: one for one in result.costs}
    tables: dict[str, Quantiles] = {}
    for name_of in WAKEUPS:
        if (wake := found.get(name_of)) is not None and wake.seen:
            mine = [one.process_ns for one in spreads if one.wakeup == name_of]
            tables[name_of] = replace(table(mine, wake.value), low=wake.low, high=wake.high)
    parameters = {
        one.name: Parameter(one.value, one.low, one.high, one.identified, _why(one))
        for one in result.costs
        if one.seen and one.name not in (*WAKEUPS, NOTICE)
    }
    late = [one.path_ns for one in spreads if one.passage == LATE]
    if late and (departure := parameters.get("links.departure_ns")):
        one_way = table([passage(late)], departure.value)
        steady = min(one_way.ns[0], departure.value)
        tables[LATE] = Quantiles(one_way.probability, tuple(value - steady for value in one_way.ns))
        why = "; ".join(text for text in (departure.why, f"the rest of its median is in {LATE}") if text)
        parameters["links.departure_ns"] = Parameter(
            steady, min(departure.low or 0.0, steady), departure.high, departure.identified, why
        )
    if (notice := found.get(NOTICE)) is not None and notice.seen:
        noticed = [passage([one.path_ns for one in spreads if one.passage == NOTICE])]
        tables[NOTICE] = replace(table(noticed, notice.value), low=notice.low, high=notice.high)
    about: dict[str, Any] = {"rows": sum(count for count, _, _ in residuals.values())}
    for kind, (count, median, p90) in residuals.items():
        about |= {
            f"{kind}_rows": count,
            f"{kind}_residual_median_ns": round(median, 1),
            f"{kind}_residual_p90_ns": round(p90, 1),
        }
    about |= {
        "rank": result.rank,
        "condition": round(result.condition, 1),
        "unseen": [one.name for one in result.costs if not one.seen],
    }
    draws = {
        one.name: tuple(row[at] - one.value for row in result.draws)
        for at, one in enumerate(result.costs)
        if one.seen and (one.name in parameters or one.name in tables)
    }
    return Profile(name, processors, parameters, tables, provenance, about, draws)


def _why(parameter: Fitted) -> str:
    return f"only as a sum with {', '.join(parameter.together)}" if parameter.together else ""
