"""Tables, plots, the page: what an experiment found, from its dataset alone.

Every number has its unit, interval, number of runs and conditions. Missing is not zero. Nothing here
measures, judges or estimates: values and verdicts come from the analysis, intervals from stats.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from virtlab.lazy import later
from virtlab.report.names import expected_names, slug

if TYPE_CHECKING:
    from virtlab.report.gather.sources.drawable import names_of_experiment
    from virtlab.report.gather.sources.source_figures import Problem, check_figures
    from virtlab.report.page.terminal import as_json, summary
    from virtlab.report.page.writer import write_report

__all__ = [
    "Problem", "as_json", "check_figures", "expected_names", "names_of_experiment", "slug", "summary",
    "write_report",
]  # fmt: skip

__getattr__ = later(
    __name__,
    {
        "gather.sources.drawable": "names_of_experiment",
        "gather.sources.source_figures": "Problem check_figures",
        "page.terminal": "as_json summary",
        "page.writer": "write_report",
    },
)
