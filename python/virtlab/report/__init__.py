"""Tables, plots, the page: what an experiment found, from its dataset alone.

Every number has its unit, interval, number of runs and conditions. Missing is not zero. Nothing here
measures, judges or estimates: values and verdicts come from the analysis, intervals from stats.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from virtlab.report.names import expected_names, slug

if TYPE_CHECKING:
    from virtlab.report.gather.drawable import names_of_experiment
    from virtlab.report.gather.source_figures import Problem, check_figures
    from virtlab.report.page.terminal import as_json, summary
    from virtlab.report.page.writer import write_report

_LATER = {
    "Problem": "gather.source_figures", "check_figures": "gather.source_figures",
    "names_of_experiment": "gather.drawable",
    "as_json": "page.terminal", "summary": "page.terminal", "write_report": "page.writer",
}  # fmt: skip

__all__ = [
    "Problem", "as_json", "check_figures", "expected_names", "names_of_experiment", "slug", "summary",
    "write_report",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module 'virtlab.report' has no attribute '{name}'")
    from importlib import import_module

    return getattr(import_module(f"virtlab.report.{_LATER[name]}"), name)
