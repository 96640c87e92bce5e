"""All plots of a report, from what was gathered: chosen, named, ready to be rendered."""

from __future__ import annotations

from virtlab.report import names
from virtlab.report.figures.classes import class_figures
from virtlab.report.figures.cores import cores_figure
from virtlab.report.figures.distributions import ecdf_figure, series_figure
from virtlab.report.figures.figure import Figure
from virtlab.report.figures.intervals import interval_figure
from virtlab.report.figures.load import benchmark_figures
from virtlab.report.figures.selection import interval_plots
from virtlab.report.gather.fairness import NAME, FairnessAxis
from virtlab.report.gather.histograms import histogram_figure
from virtlab.report.gather.model import Gathered
from virtlab.report.gather.recurrence import runs_figure
from virtlab.report.gather.searches import search_figure
from virtlab.report.tables.comparison import beside_figures


def figures_of(data: Gathered) -> list[Figure]:
    """Interval plots, then distributions, histograms, runs and courses; within a section in that order too."""
    split = len(data.realisations) > 1
    asked = frozenset(plot for entry in data.entries for plot in entry.plots)
    found = [
        interval_figure(name, result, data.factors, x, split=split)
        for result, x, name in interval_plots(data.results, data.factors, asked, data.claimed)
    ]
    for role in dict.fromkeys(one.role for one in data.searches):
        found.append(search_figure(role, data.searches, data.factors, split=split))
    found += benchmark_figures(data, split=split)
    if data.fairness is not None:
        found += _against_fairness(data, data.fairness, asked, split=split)
    for one in data.distributions:
        name = names.of_metric("ecdf", one.role, one.metric)
        found.append(ecdf_figure(name, one, data.factors, split=split))
    found += beside_figures(data)
    found += [histogram_figure(one, data.factors, split=split) for one in data.histograms]
    found += [runs_figure(one, data.factors, split=split) for one in data.recurring]
    found += [series_figure(names.of_metric("series", one.role, one.metric), one) for one in data.courses]
    found += class_figures(data)
    cores = cores_figure(data)
    return [*found, cores] if cores is not None else found


def _against_fairness(
    data: Gathered, axis: FairnessAxis, asked: frozenset[str], *, split: bool
) -> list[Figure]:
    """Each interval plot over the factor that decides J once more, over J."""
    factors = axis.factors(data.factors)
    others = [factor.name for factor in factors]
    over = {
        result.quantity.path
        for result, x, _ in interval_plots(data.results, data.factors, asked, data.claimed)
        if x == axis.factor
    }
    found = []
    for result in data.results:
        quantity = result.quantity
        name = names.interval_plot(quantity.role, quantity.metric, quantity.statistic, NAME, others)
        if name in asked or quantity.path in over:
            found.append(interval_figure(name, axis.result(result), factors, NAME, split=split))
    return found
