"""What changed: two datasets against each other, quantity by quantity, and many over time.

A dataset is reduced to a `Baseline` first: run-level values with the facts that they depend on, small enough to be kept
in a repository as a file. Knows no dataset, no report and no terminal.
"""

from virtlab.changes.baseline import Baseline, Measured, Quantity
from virtlab.changes.differences import Change, Changes, differences
from virtlab.changes.margins import Margins
from virtlab.changes.steps import Step, steps_of
from virtlab.changes.trend import Series, trend

__all__ = [
    "Baseline", "Change", "Changes", "Margins", "Measured", "Quantity", "Series", "Step", "differences", "steps_of",
    "trend",
]  # fmt: skip
