"""All plots of a report, from what was gathered: chosen, named, ready to be rendered."""

from __future__ import annotations

from virtlab.report import names
from virtlab.report.curves import ecdf_figure, series_figure
from virtlab.report.figure import Figure
from virtlab.report.intervals import interval_figure
from virtlab.report.model import Gathered
from virtlab.report.recurrence import runs_figure
from virtlab.report.selection import interval_plots


def figures_of(data: Gathered) -> list[Figure]:
    """Interval plots, then distributions, then courses; within a section in that order too."""
    split = len(data.realisations) > 1
    asked = frozenset(plot for entry in data.entries for plot in entry.plots)
    found = [
        interval_figure(name, result, data.factors, x, split=split)
        for result, x, name in interval_plots(data.results, data.factors, asked, data.claimed)
    ]
    for one in data.distributions:
        name = names.ecdf_plot(one.role, one.metric)
        found.append(ecdf_figure(name, one, data.factors, split=split))
    found += [runs_figure(one, data.factors, split=split) for one in data.recurring]
    found += [series_figure(names.series_plot(one.role, one.metric), one) for one in data.courses]
    return found
