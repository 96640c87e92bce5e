"""Run-level values: one number per run, role, metric and statistic. The run is the unit of replication.

A metric that could not be had is present as a value of None with its reason, never as zero. `Collector` is
what the files under `workloads/` fill; it looks units and statistics up in the registry, so none can be
invented there.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from virtlab.lazy import NDArray, np
from virtlab.metrics import METRICS, STATISTICS, Metric, MetricPath, unit_of


@dataclass(frozen=True, slots=True)
class RunValue:
    """A statistic of one metric of one role in one run, in the SI unit `unit`; `samples` is how many it rests
    on.

    `value` is None if it does not exist, and `reason` says why. `levels` is the design point as the file
    writes it.
    """

    run: str
    point: int
    levels: Mapping[str, str]
    repetition: int
    realisation: str
    role: str
    metric: str
    statistic: str
    value: float | None
    unit: str
    samples: int = 0
    reason: str = ""
    declared: Metric | None = field(
        default=None, compare=False, repr=False
    )  # where the experiment declares it

    @property
    def path(self) -> MetricPath:
        """`role.metric.statistic`."""
        return MetricPath(self.role, self.metric, self.statistic, self.declared)

    @property
    def path_text(self) -> str:
        """The path as people write it."""
        return f"{self.role}.{self.metric}.{self.statistic}"


@functools.cache
def _unit(metric: Metric, statistic: str) -> str:
    assert statistic in metric.statistics, f"{metric.key} does not declare {statistic}"
    return unit_of(metric, STATISTICS[statistic])


@dataclass(slots=True)
class Collector:
    """Takes values of one run; `role` (or entity) changes as the caller goes along. `declared` are the metrics that the
    experiment declares of the role.
    """

    run: str
    point: int
    levels: Mapping[str, str]
    repetition: int
    realisation: str
    role: str = ""
    values: list[RunValue] = field(default_factory=list)
    declared: Mapping[str, Metric] = field(default_factory=dict)

    def metric(self, key: str) -> Metric:
        """The metric of a key."""
        return self.declared.get(key) or METRICS[key]

    def add(self, metric: str, statistic: str, value: float | None, samples: int, reason: str = "") -> None:
        """One value. An undefined number (no samples, a division by zero) is kept as None."""
        unit = _unit(self.metric(metric), statistic)
        number = None if value is None or not math.isfinite(value) else float(value)
        why = reason if number is None else ""
        self.values.append(
            RunValue(
                self.run, self.point, self.levels, self.repetition, self.realisation, self.role, metric,
                statistic, number, unit, samples, why or ("" if number is not None else "undefined"),
                self.declared.get(metric),
            )
        )  # fmt: skip

    def absent(self, metric: str, reason: str) -> None:
        """All statistics of the metric are missing, for one reason."""
        for statistic in self.metric(metric).statistics:
            self.add(metric, statistic, None, 0, reason)

    def distribution(
        self, metric: str, samples: NDArray[Any], *, shift: float = 0.0, skip: Iterable[str] = ()
    ) -> None:
        """Every statistic that the metric declares, of `samples - shift` (one dimension, in the metric's
        unit).

        Quantiles interpolate linearly (numpy's default); mdev is the population standard deviation as ping
        prints it.
        """
        wanted = [key for key in self.metric(metric).statistics if key not in set(skip)]
        samples = present(samples)
        with np.errstate(over="ignore", invalid="ignore"):  # of samples that are not finite: `add` keeps None
            found = statistics_of(samples, wanted, shift)
        for key, value in found.items():
            least = STATISTICS[key].least_samples
            reason = f"{samples.size} samples, {key} needs {least}" if samples.size else "no samples"
            self.add(metric, key, value, int(samples.size), reason)

    def shifted(self, metric: str, like: str, shift: float) -> None:
        """A distribution whose samples are those of another metric minus `shift`: its statistics are too."""
        known = {
            value.statistic: value for value in self.values if (value.role, value.metric) == (self.role, like)
        }
        for key in self.metric(metric).statistics:
            other = known[key]
            value = None if other.value is None else other.value - shift
            self.add(metric, key, value, other.samples, other.reason)


def present(samples: NDArray[Any]) -> NDArray[Any]:
    """The samples without those that are missing, which are masked: a missing sample is no value, and not zero."""
    return samples.compressed() if isinstance(samples, np.ma.MaskedArray) else samples


def _quantile(ordered: NDArray[Any], q: float) -> float:
    """Quantile of sorted samples, interpolated linearly: `numpy.quantile` to the last bit, for a tenth of its time."""
    if math.isnan(last := float(ordered[-1])):
        return last
    place = (ordered.size - 1) * q
    before = int(place)
    low, high, share = ordered[before], ordered[min(before + 1, ordered.size - 1)], place - before
    return float(high - (high - low) * (1 - share) if share >= 0.5 else low + (high - low) * share)


def statistics_of(
    samples: NDArray[Any], wanted: Iterable[str], shift: float = 0.0
) -> dict[str, float | None]:
    """Statistics of an array by key; None where it holds too few samples for one.

    >>> import numpy as np
    >>> statistics_of(np.array([1, 2, 3, 6]), ["mean", "median", "range", "mdev", "p99"])
    {'mean': 3.0, 'median': 2.5, 'range': 5.0, 'mdev': 1.8708286933869707, 'p99': None}
    """
    keys, samples = list(wanted), present(samples)
    size = int(samples.size)
    found: dict[str, float | None] = dict.fromkeys(keys)
    usable = [key for key in keys if size >= STATISTICS[key].least_samples]
    quantiles = [(key, q) for key in usable if (q := STATISTICS[key].quantile) is not None]
    if quantiles:
        ordered = np.sort(np.asarray(samples))
        found.update({key: _quantile(ordered, q) - shift for key, q in quantiles})
    if not {"min", "max", "range", "mean", "sd", "mdev"}.isdisjoint(usable):
        low, high = float(samples.min()), float(samples.max())
        # Deviations from a sample keep precision: instants and delays in ns are far from zero against their
        # spread.
        origin = float(samples[0])
        deviations = samples.astype(np.float64)
        deviations -= origin
        mean = float(deviations.mean())
        simple = {"min": low - shift, "max": high - shift, "range": high - low, "mean": mean + origin - shift}
        found.update({key: simple[key] for key in usable if key in simple})
        if not {"sd", "mdev"}.isdisjoint(usable):
            deviations -= mean
            square_sum = float(np.dot(deviations, deviations))
            if "mdev" in usable:
                found["mdev"] = math.sqrt(square_sum / size)
            if "sd" in usable:
                found["sd"] = math.sqrt(square_sum / (size - 1))
    return found
