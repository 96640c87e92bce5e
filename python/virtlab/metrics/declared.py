"""Metrics that an experiment file declares: what a program of its own prints, by a name and a unit of its own.

They belong to a role. Two files may give one name to different quantities, so a metric is looked up by
its role and key: `metric_of` is the one query, for virtlab's own metrics and for declared ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args

from virtlab.lazy import pattern
from virtlab.metrics.metric import Better, Metric
from virtlab.metrics.registry import METRICS
from virtlab.metrics.statistic import DISTRIBUTION
from virtlab.units.scales import SCALES

NAME = pattern(r"[a-z][a-z0-9_]{0,39}\Z")
BETTER: tuple[str, ...] = get_args(Better)
SOURCE = "declared in the experiment file"
DECLARED = "metrics"  # the parameter of a role that declares them
OVER_TIME = ("time", "http", "file")  # keys of an entry whose numbers are a series
PROGRESS = "progress"  # of a role without a program: answers, packets or transactions that have come so far

Declared = Mapping[str, Mapping[str, Metric]]  # role -> key -> metric
NONE: Declared = {}


def base_unit(written: str) -> tuple[str, float]:
    """The SI unit in which values of a unit are kept, and how many of it one is. ValueError for no unit of a metric.

    >>> base_unit("ms"), base_unit("%")
    (('ns', 1000000.0), ('ratio', 0.01))
    """
    for unit, scales in SCALES.items():
        if written in scales and written:
            return unit, scales[written]
    raise ValueError(f"'{written}' is not a unit of a metric")


def metric_of(role: str, key: str, declared: Declared = NONE) -> Metric | None:
    """The metric of that key: declared of the role, else virtlab's own; None where neither is."""
    return declared.get(role, {}).get(key) or METRICS.get(key)


def keys_of(role: str, declared: Declared = NONE) -> list[str]:
    """Every key that `metric_of` answers for."""
    return [*declared.get(role, {}), *METRICS]


def declared_metric(key: str, entry: Mapping[str, Any]) -> Metric:
    """The metric of an entry of `metrics`, as a Plan holds it. ValueError when it declares no metric."""
    unit, _ = base_unit(str(entry.get("unit")))
    better, meaning = entry.get("better"), entry.get("meaning", "what the program prints of it")
    if better not in BETTER or not isinstance(meaning, str) or not NAME.match(key) or key in METRICS:
        raise ValueError(f"'{key}' declares no metric")
    over_time = any(name in entry for name in OVER_TIME)
    return Metric(key, unit, better, meaning, SOURCE, DISTRIBUTION, "role", over_time=over_time)  # type: ignore[arg-type]


def declared_of(parameters: Mapping[str, Any]) -> dict[str, Metric]:
    """The metrics that a role's parameters declare, by key. ValueError when an entry declares no metric."""
    entries = parameters.get(DECLARED)
    if not isinstance(entries, Mapping):
        return {}
    return {key: declared_metric(key, entry) for key, entry in entries.items() if isinstance(entry, Mapping)}
