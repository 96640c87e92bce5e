"""All plots of a report, and which of all possible ones these are: few enough to read, and every one that was
requested.

Drawn always: of a workload's primary metrics the leading statistic over every factor, mean, median and p99 over the
main factor, distribution and course; of its other metrics the leading statistic over the main factor. Drawn when
asked: what a claim speaks about, and what the study's figures.yaml names. The probe's own health is shown in
tables. A value that was the same in every run is said in a sentence.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from virtlab.metrics.benchmarks import BENCHMARKS
from virtlab.report import names
from virtlab.report.figures.grammar.figure import Figure
from virtlab.report.figures.grammar.panels import main_factor
from virtlab.report.figures.machines.around_moves import around_moves_figures
from virtlab.report.figures.machines.classes import class_figures
from virtlab.report.figures.machines.cores import cores_figure
from virtlab.report.figures.machines.disks import disk_figures
from virtlab.report.figures.machines.load import load_figures
from virtlab.report.figures.machines.migrations import migration_figures
from virtlab.report.figures.machines.processing import processing_figures
from virtlab.report.figures.samples.comparison import comparison_figures
from virtlab.report.figures.samples.courses import course_figure
from virtlab.report.figures.samples.distributions import distribution_figure
from virtlab.report.figures.samples.histograms import histogram_figure
from virtlab.report.figures.samples.intervals import interval_figure
from virtlab.report.figures.samples.over_time import over_time_figures
from virtlab.report.figures.samples.runs import runs_figure
from virtlab.report.figures.searches import search_figure
from virtlab.report.gather.fairness import NAME, FairnessAxis
from virtlab.report.gather.gathered import Gathered
from virtlab.report.gather.model import Factor, Result
from virtlab.report.gather.selection import AGAINST_LOAD, HEALTH, LEADING, leads, primary


def figures_of(data: Gathered) -> list[Figure]:
    """Interval plots, then distributions, histograms, runs and courses; within a section in that order too."""
    split = len(data.realisations) > 1
    asked = data.source.plots
    plots = interval_plots(data.results, data.design.factors, asked, data.claimed)
    cores = cores_figure(data)
    return [
        *(interval_figure(name, result, data.design.factors, x, split=split) for result, x, name in plots),
        *(
            search_figure(role, data.searches, data.design.factors, split=split)
            for role in data.searched_roles
        ),
        *load_figures(data, split=split),
        *(
            _against_fairness(data, data.design.fairness, plots, asked, split=split)
            if data.design.fairness
            else []
        ),
        *(distribution_figure(one, data.design.factors, split=split) for one in data.samples.distributions),
        *comparison_figures(data),
        *(histogram_figure(one, data.design.factors, split=split) for one in data.samples.histograms),
        *(runs_figure(one, data.design.factors, split=split) for one in data.samples.recurring),
        *(course_figure(one) for one in data.samples.courses),
        *over_time_figures(data.samples.over_time),
        *class_figures(data),
        *([cores] if cores is not None else []),
        *processing_figures(data),
        *disk_figures(data),
        *around_moves_figures(data),
        *migration_figures(data),
    ]


Chosen = list[tuple[Result, str | None, str]]  # result, axis factor, name


def _against_fairness(
    data: Gathered, axis: FairnessAxis, plots: Chosen, wanted: frozenset[str], *, split: bool
) -> list[Figure]:
    """Each interval plot over the factor that decides J once more, over J."""
    factors = axis.factors(data.design.factors)
    others = [factor.name for factor in factors]
    over = {result.quantity.path for result, x, _ in plots if x == axis.factor}
    found = []
    for result in data.results:
        quantity = result.quantity
        name = names.interval_plot(quantity.role, quantity.metric, quantity.statistic, NAME, others)
        if name in wanted or quantity.path in over:
            found.append(interval_figure(name, axis.result(result), factors, NAME, split=split))
    return found


def interval_plots(
    results: Iterable[Result], factors: Sequence[Factor], wanted: frozenset[str], claimed: frozenset[str]
) -> Chosen:
    """Every interval plot to draw, in the order of the page."""
    main = main_factor(factors)
    varying = [factor.name for factor in factors]
    axes: list[str | None] = [*varying] if varying else [None]
    if main is not None:
        axes.sort(key=lambda name: name != main.name)
    chosen = []
    for result in results:
        quantity = result.quantity
        for x in axes:
            name = names.interval_plot(quantity.role, quantity.metric, quantity.statistic, x, varying)
            at_main = main is None or x == main.name
            if name in wanted or _unasked(result, at_main=at_main, claimed=quantity.path in claimed):
                chosen.append((result, x, name))
    return chosen


def _unasked(result: Result, *, at_main: bool, claimed: bool) -> bool:
    quantity = result.quantity
    metric = quantity.declaration
    values = {value for cell in result.cells for value in cell.present}
    if not values or metric.of == "entity":
        return False
    if claimed and at_main:
        return True
    if quantity.metric in AGAINST_LOAD or (quantity.role.count(".") > 1 and quantity.metric in BENCHMARKS):
        return False  # they are drawn against load; of single flows at a load they are in a table
    if len(values) == 1 or quantity.metric in HEALTH:
        return False
    leading = leads(quantity)
    if not primary(quantity):
        return leading and at_main
    return leading or (at_main and quantity.statistic in LEADING)
