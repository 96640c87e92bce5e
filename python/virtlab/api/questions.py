"""What commands of the same names answer: comparisons, predictions, capacity."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from virtlab.api.building import given
from virtlab.api.results import Results
from virtlab.api.tables import Table

if TYPE_CHECKING:
    from virtlab.changes import Changes
    from virtlab.experiment import Experiment
    from virtlab.prediction.questions.capacity import Capacity


def compare(
    old: str | Path | Results,
    new: str | Path | Results,
    *,
    margins: Sequence[str] = (),
    quantities: Sequence[str] = (),
    level: float = 0.95,
) -> Changes:
    """Two datasets or baseline files against each other, as `virtlab compare` does: `.rows`, `.notes`, `.exit_code`.

    - `old`, `new`: a dataset's folder, a baseline file, or Results
    - `margins`: which differences matter, `"5 %"` of the old value (the default), or `"probe.rtt.mean=100 us"` for one
    - `quantities`: the only ones to compare, `"probe.rtt.p99"`; empty: the leading ones, and those of claims
    - `level`: how sure a finding is, over all comparisons together

    DatasetError or ExperimentError for what is neither a dataset nor a baseline, or an option that fits neither.
    """
    from virtlab.changes import Margins, differences
    from virtlab.cli.dataset.sources import read_source

    margin = Margins.parse(margins)
    paths = [*quantities, *margin.by_path]
    before, after = (
        read_source(each.path if isinstance(each, Results) else Path(each), paths, every=False)
        for each in (old, new)
    )
    return differences(before, after, margin, paths=quantities, level=level)


def predict(
    experiment: str | Path | Experiment,
    *,
    metric: str | None = None,
    profile: str | None = None,
    points: str | None = None,
    repetitions: int = 5,
    draws: int = 0,
) -> Table:
    """What an experiment would measure, by simulation: a row per design point and metric, with its interval.

    The columns are the factors, `metric`, `unit`, `value`, `low`, `high` and `bound_ns`; values are in SI units.

    - `experiment`: a file, or an experiment built in Python
    - `metric`: the only one, ROLE.METRIC.STATISTIC; None: the means of rtt, goodput and response_time
    - `profile`: what platforms cost, `"ideal"` (the default), `"local"` or a file
    - `points`: only these design points, `"0,3-5"` or `"load=30 kB"`
    - `repetitions`: simulated runs per design point, 2 at least
    - `draws`: runs per point with the profile's parameters drawn from their intervals; 0: none

    ExperimentError for what cannot be predicted.
    """
    from virtlab.campaign import select_points
    from virtlab.cli.prediction.predict import predicted
    from virtlab.prediction.questions.limits import measuring_path, refuse_search
    from virtlab.simulator.profile import chosen_profile

    found = given(experiment)
    refuse_search(found)
    costs = chosen_profile(profile)
    selected = select_points(found.points(), points) if points else None
    chosen = [point for point in found.points() if selected is None or point.index in selected]
    path = measuring_path(metric, found.role_workloads(), "metric") if metric else None
    answers, _ = predicted(found, costs, [path] if path else [], chosen, repetitions, draws)
    factors = list(dict.fromkeys(name for one in answers for name in one["point"]))
    columns = dict.fromkeys(factors, "VARCHAR") | {"metric": "VARCHAR", "unit": "VARCHAR"}
    columns |= dict.fromkeys(("value", "low", "high", "bound_ns"), "DOUBLE")
    rows = [
        [
            *(one["point"].get(name) for name in factors),
            *(one[name] for name in list(columns)[len(factors) :]),
        ]
        for one in answers
    ]
    return Table.of(columns, rows)


def capacity(
    experiment: str | Path | Experiment,
    *,
    until: Sequence[str],
    vary: str,
    first: str | None = None,
    last: str | None = None,
    step: str | None = None,
    points: str | None = None,
    confidence: float = 0.95,
    runs: int = 30,
    draws: int = 8,
    profile: str | None = None,
) -> list[Capacity]:
    """The largest level of an input that keeps all limits, one answer per combination of the other factors.

    - `experiment`: a file, or an experiment built in Python
    - `until`: the limits to keep, `"probe.rtt.p99 < 5 ms"`
    - `vary`: the input, a factor, or a place such as `host.guests` or `load.burst`
    - `first`, `last`: the lowest and the highest level; None: a factor's own levels, else open
    - `step`: from one level to the next
    - `points`: only with these levels of the other factors, `"load=30 kB"`
    - `confidence`: of all that is said together, from 0.5 to 0.9999
    - `runs`: the most simulated runs of one level or candidate, from 2 to 1000
    - `draws`: simulated runs of each with the profile's parameters drawn from their intervals; 0: none
    - `profile`: what platforms cost, `"ideal"` (the default), `"local"` or a file

    ExperimentError for what cannot be asked.
    """
    from virtlab.cli.prediction.capacity import answers
    from virtlab.simulator.profile import chosen_profile

    costs = chosen_profile(profile)
    return answers(
        given(experiment), costs, until=until, vary=vary, first=first, last=last, step=step,
        points=(points,) if points else (),
        confidence=confidence, runs=runs, draws=draws,
    )  # fmt: skip
