"""What is compared: a dataset's folder, or a baseline file that stands for one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from virtlab.changes import Baseline


def read_source(path: Path, paths: Sequence[str], *, every: bool) -> Baseline:
    """A baseline file as it is; of a dataset, the leading quantities and `paths`, or `every` one."""
    from virtlab.changes import Baseline

    if not path.is_dir():
        return Baseline.load(path)
    from virtlab.report.gather.contrasts.baseline import baseline_of
    from virtlab.report.gather.dataset import gather
    from virtlab.results import Dataset

    dataset = Dataset.open(path)
    return baseline_of(dataset, gather(dataset, curves=False), paths=paths, every=every)
