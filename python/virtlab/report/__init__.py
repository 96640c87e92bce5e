"""Tables, plots, the page: what an experiment found, from its dataset alone.

Every number has its unit, interval, number of runs and conditions. Missing is not zero. Nothing here
measures, judges or estimates: values and verdicts come from the analysis, intervals from stats.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from virtlab.lazy import later

if TYPE_CHECKING:
    from virtlab.report.page.terminal import as_json, summary
    from virtlab.report.page.writer import write_report

__all__ = ["as_json", "summary", "write_report"]

__getattr__ = later(
    __name__,
    {
        "page.terminal": "as_json summary",
        "page.writer": "write_report",
    },
)
