"""Several sources beside each other: the interval plots of what is compared, coloured by source."""

from __future__ import annotations

from dataclasses import replace

from virtlab.report import names
from virtlab.report.figures.grammar.figure import Figure
from virtlab.report.figures.grammar.panels import main_factor
from virtlab.report.figures.samples.intervals import interval_figure
from virtlab.report.gather.contrasts.comparison import source_factor, worth_drawing
from virtlab.report.gather.gathered import Gathered

GROUP = "beside"


def comparison_figures(data: Gathered) -> list[Figure]:
    """An interval plot per quantity: source is the colour, the main factor the axis, the rest panels."""
    main = main_factor(data.design.factors)
    found = []
    for one in worth_drawing(data):
        factors = [source_factor(one), *data.design.factors]
        plot = names.slug(f"beside {one.quantity.path}")
        figure = interval_figure(plot, one.result, factors, main.name if main else None, split=False)
        found.append(replace(figure, group=GROUP, title=f"{figure.title}, several sources"))
    return found
