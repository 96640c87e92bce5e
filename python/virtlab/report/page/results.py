"""The sections of results: sources beside each other, a section per primary metric, further metrics role by role,
searches, classes of queues, the health of the measurement, and what one more switch or guest does.

Every plot and every table of a metric is in its section; a sentence lists what never changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from virtlab.metrics import METRICS
from virtlab.metrics.benchmarks import BENCHMARKS
from virtlab.report import names
from virtlab.report.figures.grammar.figure import Figure
from virtlab.report.figures.machines import classes, cores, migrations
from virtlab.report.figures.samples import comparison
from virtlab.report.gather.contrasts.comparison import worth_drawing
from virtlab.report.gather.gathered import Gathered
from virtlab.report.gather.model import Result
from virtlab.report.gather.selection import HEALTH, LEADING, leads, primary
from virtlab.report.page.section import Pictures, drawn, section, titled
from virtlab.report.tables.accounted import accounted_table
from virtlab.report.tables.benchmarks import tests_table
from virtlab.report.tables.comparison import difference_table
from virtlab.report.tables.effects import effects_table
from virtlab.report.tables.estimates import settings_table, values_table
from virtlab.report.tables.health import health_table
from virtlab.report.tables.histograms import buckets_table
from virtlab.report.tables.moves import blackouts_table, rounds_table
from virtlab.report.tables.recurrence import recurrence_table
from virtlab.report.tables.searches import trials_table
from virtlab.report.tables.table import Block
from virtlab.report.words import plural
from virtlab.units import display

Groups = dict[str, list[Result]]  # ROLE.METRIC -> its results by statistic


def sections(data: Gathered, figures: Sequence[Figure], pictures: Pictures) -> list[Block]:
    """Every section of results, in the order of the page."""
    return list(_Results(data, figures, pictures).all())


@dataclass(frozen=True, slots=True)
class _Results:
    data: Gathered
    figures: Sequence[Figure]
    pictures: Pictures

    def all(self) -> Iterator[Block]:
        tiers = self._tiers()
        if self.data.comparisons:
            yield self._comparisons()
        for path, results in tiers["primary"].items():
            yield self._metrics(path, {path: results})
        for role in dict.fromkeys(results[0].quantity.role for results in tiers["further"].values()):
            of_role = {path: all_ for path, all_ in tiers["further"].items() if all_[0].quantity.role == role}
            yield self._metrics(role, of_role)
        for role in self.data.searched_roles:
            yield self._search(role)
        moves, blackouts = self._drawn(migrations.GROUP), blackouts_table(self.data)
        rounds = rounds_table(self.data)
        if moves or blackouts is not None:
            yield section(
                "moves", "Guests that move", short="moves", figures=moves, table=blackouts,
                nested=[rounds] if rounds else [],
                about="What clients see of guests and services, what processors and disks do, and what is left to be "
                "copied, from the start of the first move of a run; before it, time is negative. Requests without a "
                "reply have no response time: they are in the blackout.",
            )  # fmt: skip
        if queues := self._drawn(classes.GROUP):
            yield section(
                "queues", "Classes of queues", short="classes", figures=queues,
                about="How long frames of each class waited and which share was dropped, in the directions in which it was "
                "worst. Every direction is in the table under the conditions.",
            )  # fmt: skip
        if tiers["health"]:
            yield self._health(tiers["health"])
        if self.data.influences.effects:
            yield self._effects()
        if self.data.influences.accounted:
            yield section(
                "accounted", "What each factor accounts for", short="factors", table=accounted_table(self.data),
                about="All combinations of levels have the same weight. A factor's share is the variance of the means at "
                "its levels; 'together' is what factors do beyond their sum, 'runs' what differs at equal levels. They "
                "add up to the whole. Shares are of these levels: others would give others.",
            )  # fmt: skip

    def _tiers(self) -> dict[str, Groups]:
        """Metrics in the order of the page: a section each, a section per role, and those of the measuring itself."""
        tiers: dict[str, Groups] = {"primary": {}, "further": {}, "health": {}}
        groups: Groups = {}
        for result in self.data.results:
            if result.quantity.metric in BENCHMARKS and self.data.searches:
                continue  # they are shown with their search
            groups.setdefault(f"{result.quantity.role}.{result.quantity.metric}", []).append(result)
        for path, results in groups.items():
            quantity = results[0].quantity
            metric = quantity.declaration
            plotted = any(figure.group == path for figure in self.figures)
            tier = "primary" if primary(quantity) else "further"
            of_measuring = metric.of == "entity" or metric.key in HEALTH
            tiers["health" if of_measuring and not plotted else tier][path] = results
        return tiers

    def _drawn(self, group: str) -> list[Block]:
        return drawn((one for one in self.figures if one.group == group), self.pictures, _tab)

    def _comparisons(self) -> Block:
        chosen = worth_drawing(self.data)
        sources = ", ".join(dict.fromkeys(label for one in chosen for label in one.labels))
        published = " and published numbers" if any(one.result.published for one in chosen) else ""
        paths = {names.slug(f"beside {one.quantity.path}"): one.quantity.path for one in chosen}
        plots = [figure for figure in self.figures if figure.group == comparison.GROUP]
        return section(
            "beside", "Several sources beside each other", short="several sources",
            about=f"{sources}{published}: setting by setting, never pooled. A difference is the other source less the "
            "first, with Welch's interval over independent runs.",
            figures=drawn(plots, self.pictures, lambda figure: paths[figure.name]),
            tables=[difference_table(self.data, one) for one in chosen],
        )  # fmt: skip

    def _metrics(self, key: str, groups: Groups) -> Block:
        """A metric of a role, or with `key` a role several of its metrics."""
        several = len(groups) > 1 or next(iter(groups)) != key
        plots = [figure for path in groups for figure in self.figures if figure.group == path]
        first = next(iter(groups.values()))[0].quantity
        words = first.title or first.metric
        about = [_about(groups, {figure.group for figure in plots}), self.data.world.wire.get(first.role)]
        return section(
            names.slug(f"results {key}"),
            f"More on {key}"
            if several
            else f"{words[:1].upper()}{words[1:]} of {first.role}{first.qualifier}",
            short=f"{key}, more" if several else key,
            about=" ".join(part for part in about if part),
            figures=drawn(plots, self.pictures, _full_tab if several else _tab),
            tables=[
                titled(table, f"{path.removeprefix(key + '.')}: " if several else "")
                for path, results in groups.items()
                for table in self._tables(path, results, several=several)
            ],
        )

    def _tables(self, path: str, results: Sequence[Result], *, several: bool) -> Iterator[Block]:
        data, samples = self.data, self.data.samples
        wanted = {figure.statistic for figure in self.figures if figure.group == path} | set(LEADING)
        for one in results:
            shown = one.quantity.statistic in wanted or one.quantity.path in data.claimed
            if shown and (not several or _is_lead(one)):
                yield settings_table(data, one)
        yield from (
            recurrence_table(data, one) for one in samples.recurring if f"{one.role}.{one.metric}" == path
        )
        yield from (
            buckets_table(data, one) for one in samples.histograms if f"{one.role}.{one.metric}" == path
        )
        yield values_table(data, path, results)

    def _search(self, role: str) -> Block:
        """The search trial by trial, and the tests after it."""
        key, tested = names.search_section(role), tests_table(self.data, role)
        plots = [one for one in self.figures if one.group == key or _benchmark_of(one.group, role)]
        trials = trials_table(role, self.data.searches, self.data.design.varying)
        return section(
            names.slug(f"results {key}"), f"Search of {role}" + (", and the tests after it" if tested else ""), short=key,
            about="Which loads were tried, the outcome of each, and how the bounds closed in. A result means nothing "
            "without its goal, which the title of each such number states.",
            figures=drawn(plots, self.pictures, lambda figure: figure.title),
            tables=[*([tested] if tested else []), trials],
        )  # fmt: skip

    def _health(self, groups: Groups) -> Block:
        """What the measuring says of itself; roles' values per run fold out."""
        table, zero = health_table([one for results in groups.values() for one in results])
        quiet = (
            f" {plural(zero, 'counter')} of hosts, guests and links stayed zero in every run." if zero else ""
        )
        of_roles = {path: all_ for path, all_ in groups.items() if all_[0].quantity.declaration.of == "role"}
        return section(
            "health", "Health of the measurement", short="health", table=table, figures=self._drawn(cores.GROUP),
            about="What probes, machine and queues say of the measuring itself: late packets, stalls, drops at the "
            f"probe's own buffers, CPU. They say whether the numbers above may be believed.{quiet}",
            nested=[titled(values_table(self.data, path, all_), f"{path}: ") for path, all_ in of_roles.items()],
        )  # fmt: skip

    def _effects(self) -> Block:
        table, left_out = effects_table(self.data)
        more = f" {left_out} further settings are left out." if left_out else ""
        return section(
            "effects", "One more switch, one more guest", short="effects", table=table,
            about="Differences of means between neighbouring settings, per switch or per guest on every host, with Welch's "
            f"interval over independent runs. What else a level changes is part of its effect.{more}",
        )  # fmt: skip


def _is_lead(result: Result) -> bool:
    return leads(result.quantity)


def _benchmark_of(group: str, role: str) -> bool:
    """Whether a group is that of a benchmark metric of a role, which was requested or claimed."""
    own, _, metric = group.rpartition(".")
    return metric in BENCHMARKS and own.partition(".")[0] == role


def _tab(figure: Figure) -> str:
    return figure.statistic + (f" by {figure.x}" if figure.x else "")


def _title(metric: str) -> str:
    """In words; one that the experiment declares has its key."""
    return METRICS[metric].title() if metric in METRICS else metric.replace("_", " ")


def _full_tab(figure: Figure) -> str:
    return f"{_title(figure.group.rpartition('.')[2])}, {_tab(figure)}"


def _about(groups: Groups, plotted: set[str]) -> str:
    """The definition, and in words what is not drawn because it never changed."""
    definition = next(iter(groups.values()))[0].quantity.declaration.definition if len(groups) == 1 else ""
    same = [_constant(path, results) for path, results in groups.items() if path not in plotted]
    return " ".join(part for part in (definition, *same) if part)


def _constant(path: str, results: Sequence[Result]) -> str:
    leading = next((one for one in results if _is_lead(one)), results[0])
    values = [value for one in leading.cells for value in one.present]
    if not values:
        return f"No run has a value of `{path}`; that is not zero."
    if len(set(values)) > 1:
        return ""
    return f"`{path}` was {display(leading.quantity.unit, values).text(values[0])} in all of {plural(len(values), 'run')}."
