"""What is pushed: every estimate with its interval, every verdict, and the count of runs, each under one name and
labels.

The names are those of Prometheus: base units, which end the name. Every number has the time at which the last run of
its dataset ended, so pushing a dataset twice changes nothing at the receiver.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from virtlab.report.gather.gathered import Gathered
from virtlab.report.gather.model import Cell, Quantity
from virtlab.terminal import one_line

if TYPE_CHECKING:
    from virtlab.results import Dataset

TIME_MAX_NS = (1 << 63) - 1  # as receivers hold times: the year 2262
VERDICTS = ("holds", "refuted", "undecided")


class Unit(NamedTuple):
    """A unit as names end with it, in UCUM as OTLP writes it, and how many of ours one of it is."""

    suffix: str
    ucum: str
    size: float = 1.0


UNITS = {
    "ns": Unit("seconds", "s", 1e9), "ratio": Unit("ratio", "1"), "bit/s": Unit("bits_per_second", "bit/s"),
    "byte/s": Unit("bytes_per_second", "By/s"), "1/s": Unit("per_second", "1/s"), "bytes": Unit("bytes", "By"),
    "count": Unit("", ""), "instant": Unit("timestamp_seconds", "s", 1e9),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Number:
    """One number of one series. `words` are its name without prefix and unit; no label is empty."""

    words: tuple[str, ...]
    unit: Unit
    about: str
    labels: Mapping[str, str]
    value: float
    time_ns: int

    @property
    def name(self) -> str:
        """As Prometheus writes it: `virtlab_rtt_low_seconds`."""
        return "_".join(filter(None, ("virtlab", *self.words, self.unit.suffix)))


def numbers_of(dataset: Dataset, data: Gathered) -> list[Number]:
    """All numbers of a dataset, those of one name together."""
    found: dict[str, list[Number]] = {}
    common = {
        "experiment": dataset.manifest.name,
        "dataset": data.origin.dataset,
        "backend": data.origin.backend,
    }
    for number in _all(dataset, data, common, _ended(dataset)):
        found.setdefault(number.name, []).append(number)
    return [number for one in found.values() for number in one]


def _all(dataset: Dataset, data: Gathered, common: Mapping[str, str], time_ns: int) -> Iterator[Number]:
    factors = _factor_labels([factor.name for factor in data.design.factors])
    for result in data.results:
        for cell in result.cells:
            yield from _estimate(result.quantity, cell, common, factors, time_ns)
    about = "Verdict on a claim: 1 for the one that was reached, 0 for the others."
    for one in data.verdicts:
        of = {**common, "claim": one.claim, "id": one.name}
        for verdict in VERDICTS:
            yield _number(
                ("claim",), "count", about, {**of, "verdict": verdict}, verdict == one.verdict, time_ns
            )
    for status, count in sorted(Counter(run.status for run in data.runs).items()):
        yield _number(
            ("runs",), "count", "Runs in the dataset.", {**common, "status": status}, count, time_ns
        )
    if dataset.runs():
        yield _number(("last_run",), "instant", "When the last run ended.", common, time_ns, time_ns)


def _estimate(
    quantity: Quantity, cell: Cell, common: Mapping[str, str], factors: Mapping[str, str], time_ns: int
) -> Iterator[Number]:
    """Mean over the runs of a setting, the ends of its interval, the number of runs; nothing where no run has a
    value.
    """
    if cell.estimate is None:
        return
    about = quantity.declaration.definition
    labels = {
        **common, "role": quantity.role, "statistic": quantity.statistic, "goal": quantity.goal, "links": cell.realisation,
        **{factors[name]: level for name, level in cell.point.items()},
    }  # fmt: skip
    ends = (("", cell.estimate.point), ("low", cell.estimate.low), ("high", cell.estimate.high))
    for part, value in ends:
        if value is not None:
            yield _number((quantity.metric, part), quantity.unit, about, labels, value, time_ns)
    yield _number(
        (quantity.metric, "runs"),
        "count",
        f"Runs in an estimate. {about}",
        labels,
        len(cell.present),
        time_ns,
    )


def _number(
    words: tuple[str, ...], unit: str, about: str, labels: Mapping[str, str], value: float, time_ns: int
) -> Number:
    clean = {name: one_line(text) for name, text in labels.items() if text}
    known = UNITS[unit]
    return Number(
        tuple(filter(None, words)), known, one_line(about), clean, float(value) / known.size, time_ns
    )


def _factor_labels(names: Sequence[str]) -> dict[str, str]:
    """A label per factor: a name of letters, digits and underscores that no other factor has.

    >>> _factor_labels(["switches", "burst-size", "burst_size"])
    {'switches': 'factor_switches', 'burst-size': 'factor_burst_size', 'burst_size': 'factor_burst_size_2'}
    """
    found: dict[str, str] = {}
    for name in names:
        label = plain = "factor_" + re.sub(r"\W", "_", name, flags=re.ASCII)
        number = 1
        while label in found.values():
            number += 1
            label = f"{plain}_{number}"
        found[name] = label
    return found


def _ended(dataset: Dataset) -> int:
    """When the last run ended, ns since 1970; when the dataset was made, if no run says. A dataset of somebody else may
    say any time; one that no receiver can hold says nothing.
    """
    ends = []
    for record in dataset.runs():
        if (began := _instant(record.started)) is not None:
            ended = began + record.timings.get("total", 0)
            ends += [ended] if 0 <= ended <= TIME_MAX_NS else []
    return max(ends, default=_instant(dataset.manifest.created) or 0)


def _instant(text: str) -> int | None:
    """ISO 8601 as ns since 1970; None for anything else, and for what is before or beyond all runs.

    >>> _instant("1970-01-01T00:00:02+00:00"), _instant(""), _instant("9999-12-31T00:00:00+00:00")
    (2000000000, None, None)
    """
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    ns = int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()) * 1_000_000_000
    return ns if 0 <= ns <= TIME_MAX_NS else None
