"""A dataset as a baseline: what a report gathered of it, reduced to what later datasets are compared with.

Without a choice these are the quantities that a report makes most of, and those that claims speak about.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import cast

from pydantic import ValidationError

from virtlab.changes import Baseline, Measured, Quantity
from virtlab.errors import DatasetError
from virtlab.metrics.metric import Better
from virtlab.report.gather.gathered import Gathered
from virtlab.report.gather.model import Result
from virtlab.report.gather.selection import leads, primary
from virtlab.results import Dataset

FACTS = ("kernel", "cpu", "cpus", "architecture", "distribution")


def baseline_of(
    dataset: Dataset, data: Gathered, *, paths: Collection[str] = (), every: bool = False
) -> Baseline:
    """The quantities of `paths` beside the leading ones, or every one that has a better direction."""
    manifest = dataset.manifest
    chosen = [one for one in data.results if every or one.quantity.path in paths or _leads(one, data)]
    facts = {name: str(manifest.machine[name]) for name in FACTS if name in manifest.machine}
    facts |= {"version of virtlab": manifest.versions.get("virtlab", "")}
    facts |= {name: value for name, value in manifest.fingerprint.items() if name == "profile"}
    facts |= {"pushback": " and ".join(data.world.pushbacks)} if data.world.pushbacks else {}
    try:
        return _reduced(dataset, data, chosen, paths, facts)
    except ValidationError as error:
        place = ".".join(str(part) for part in error.errors()[0]["loc"])
        what = f"has a value that cannot be compared ({place}: {error.errors()[0]['msg']})"
        raise DatasetError(str(dataset.path), what, "name another dataset") from None


def _reduced(
    dataset: Dataset, data: Gathered, chosen: Sequence[Result], paths: Collection[str], facts: dict[str, str]
) -> Baseline:
    manifest = dataset.manifest
    return Baseline(
        name=dataset.path.name,
        created=manifest.created,
        backend=manifest.backend,
        experiment_sha256=manifest.experiment_sha256,
        runs=sum(run.used for run in data.runs),
        facts=facts,
        quantities=[
            Quantity(
                path=one.quantity.path,
                unit=one.quantity.unit,
                better=cast("Better", one.quantity.better or "neither"),
                title=one.quantity.title,
                goal=one.quantity.goal,
                measured=[
                    Measured(
                        levels={**data.design.conditions, **cell.point},
                        links=cell.realisation,
                        values=cell.present,
                        share_of=cell.share_of,
                    )
                    for cell in one.cells
                ],
            )
            for one in chosen
            if one.quantity.path in paths or one.quantity.better in {"lower", "higher"}
        ],
    )


def _leads(result: Result, data: Gathered) -> bool:
    quantity = result.quantity
    leading = primary(quantity) and leads(quantity)
    return leading or quantity.path in data.claimed
