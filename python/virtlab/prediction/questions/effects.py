"""The effect of one more switch, and of one more guest on every host, predicted at a design point.

The same world is simulated as it is, with one switch more in its topology, and with one guest more on every host,
between which every load of the file runs once more (a file without a load: the new guests are idle, and it is said).
The role names, and with them all random streams of what was there before, stay what they were, so runs are compared in
pairs.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from virtlab.analysis import RunTable
from virtlab.analysis.effects.added import Added, paths_of
from virtlab.catalogue import WORKLOADS
from virtlab.errors import ExperimentError
from virtlab.experiment import Experiment
from virtlab.experiment.overrides import alone, reread
from virtlab.metrics import MetricPath
from virtlab.planner import plan_run
from virtlab.prediction.simulation.simulate import simulate
from virtlab.simulator.profile import Profile
from virtlab.stats import Estimate, mean_interval


@dataclass(frozen=True, slots=True)
class Predicted:
    """An effect in the path's unit; `how` says what the new guest does. `estimate` is None with the reason in `why`."""

    added: Added
    path: MetricPath | None
    estimate: Estimate | None
    base: Estimate | None
    how: str = ""
    why: str = ""


def predicted_effects(
    experiment: Experiment,
    profile: Profile,
    levels: Mapping[str, str],
    *,
    repetitions: int,
    level: float = 0.95,
) -> list[Predicted]:
    """Effects at a design point, of every path of delay, jitter and throughput."""
    values = alone(experiment, levels)
    plain = reread(values, "the design point")
    base = simulate(plain, profile, repetitions=repetitions)
    paths = paths_of(base, [plan_run(plain, plain.points()[0], 0)])
    found: list[Predicted] = []
    added: Added
    for added, altered in (("switch", _one_switch_more), ("guest", _one_guest_more)):
        try:
            more, how = altered(copy.deepcopy(values))
            table = simulate(reread(more, f"one more {added}"), profile, repetitions=repetitions)
        except ExperimentError as error:
            found.append(Predicted(added, None, None, None, why=str(error)))
            continue
        found += [_difference(added, path, base, table, repetitions, level, how) for path in paths]
    return found


def _difference(
    added: Added, path: MetricPath, base: RunTable, more: RunTable, repetitions: int, level: float, how: str
) -> Predicted:
    def by_repetition(table: RunTable) -> dict[int, float]:
        return {row.repetition: row.value for row in table.of(path).values() if row.value is not None}

    first, second = by_repetition(base), by_repetition(more)
    own = mean_interval(list(first.values()), level=level, metric=path.metric, unit=path.unit)
    if len(first) != repetitions or len(second) != repetitions:
        return Predicted(added, path, None, own, how, "a run has no value of it")
    differences = [second[at] - first[at] for at in range(repetitions)]
    return Predicted(
        added, path, mean_interval(differences, level=level, metric=path.metric, unit=path.unit), own, how
    )


def _one_switch_more(values: dict[str, Any]) -> tuple[dict[str, Any], str]:
    topology = values.get("topology")
    shaped = {"shape": topology} if isinstance(topology, str) else topology
    if not isinstance(shaped, dict) or shaped.get("shape") in {"none", "direct"}:
        raise ExperimentError(
            "topology", "has no number of switches", "write e.g. 'topology: {shape: line, switches: 1}'"
        )
    if values.get("links"):
        raise ExperimentError(
            "links", "are named after the switches there are", "say what all have in common in 'link'"
        )
    values["topology"] = {**shaped, "switches": int(shaped.get("switches", 1)) + 1}
    return values, ""


def _one_guest_more(values: dict[str, Any]) -> tuple[dict[str, Any], str]:
    hosts = values["hosts"]
    common = values.setdefault("host", {})
    named: dict[str, str] = {}  # host -> its new guest
    if isinstance(hosts, dict):
        for name, entry in hosts.items():
            own = entry if isinstance(entry, dict) else {}
            if "guests" in own:
                own["guests"], named[name] = _and_one(own["guests"])
    names = [f"h{at + 1}" for at in range(hosts)] if isinstance(hosts, int) else list(hosts)
    rest = [name for name in names if name not in named]
    if rest:
        common["guests"], new = _and_one(common.get("guests", 1))
        named |= dict.fromkeys(rest, new)
    copied = []
    roles: dict[str, Any] = values["roles"]
    for name, role in list(roles.items()):
        workload = WORKLOADS.get(role.get("workload", ""))
        part = role.get("as", workload.part if workload else "measure")
        ends = [str(role.get(end, "")).partition(".")[0] for end in ("from", "to")]
        if part == "load" and role.get("enabled", True) and all(end in named for end in ends):
            roles[f"{name}-more"] = {
                **role,
                "from": f"{ends[0]}.{named[ends[0]]}",
                "to": f"{ends[1]}.{named[ends[1]]}",
            }
            copied.append(name)
    return values, f"with {' and '.join(copied)} once more" if copied else "idle"


def _and_one(guests: Any) -> tuple[Any, str]:
    """One guest more, and its name."""
    if isinstance(guests, int):
        return guests + 1, f"g{guests + 1}"
    if isinstance(guests, list):
        return [*guests, "one-more"], "one-more"
    if isinstance(guests, dict):
        return {**guests, "one-more": {}}, "one-more"
    return 2, "g2"
