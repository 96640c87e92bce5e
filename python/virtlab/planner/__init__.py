"""One design point and repetition as a Plan; the order of runs and their seeds; pure.

Loading this package is cheap; the Plan's nouns are imported when `plan_run` is called for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from virtlab.lazy import later

if TYPE_CHECKING:
    from virtlab.planner.compose import plan_run

__all__ = ["plan_run"]

__getattr__ = later(
    __name__,
    {
        "compose": "plan_run",
    },
)
