"""From a dataset to what a report shows. Nothing else of the report reads a dataset.

Values come from the analysis, curves from DuckDB, conditions from the runs as they were built. Runs that did not
end well are listed with their reasons, and are in no estimate.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from virtlab.analysis.claims import ordered
from virtlab.analysis.effects.accounted import accounted
from virtlab.analysis.effects.added import effects_of
from virtlab.analysis.published import read_table
from virtlab.analysis.searches.goals import Goals
from virtlab.analysis.shares import METRIC as SHARE
from virtlab.analysis.shares import PROCESSORS, VCPUS, kinds_of
from virtlab.analysis.table import RunTable
from virtlab.analysis.window import beside_of
from virtlab.errors import DatasetError, ExperimentError
from virtlab.experiment import Experiment, load_text
from virtlab.report.gather import conditions, wire
from virtlab.report.gather.around_moves import around_moves_of
from virtlab.report.gather.clients import client_notes
from virtlab.report.gather.distributions.curves import curves_of
from virtlab.report.gather.distributions.histograms import histograms_of
from virtlab.report.gather.distributions.over_time import over_time_of
from virtlab.report.gather.distributions.recurrence import recurring_of
from virtlab.report.gather.distributions.samples import declare_windows
from virtlab.report.gather.fairness import axis_of_experiment
from virtlab.report.gather.gathered import Design, Gathered, Influences, Origin, Samples, Source, World
from virtlab.report.gather.goals import goal_notes, luck_notes, with_goals
from virtlab.report.gather.migrations import moves_of
from virtlab.report.gather.model import Factor, RunRow
from virtlab.report.gather.processing import courses_of
from virtlab.report.gather.pushback import own_drops, pushbacks
from virtlab.report.gather.queues import in_flight_notes, queues
from virtlab.report.gather.results import results_of, values
from virtlab.report.gather.searches import searches_of
from virtlab.report.gather.sources.published import overlays
from virtlab.report.gather.sources.source_figures import FILE_NAME, Figures, read_figures
from virtlab.report.gather.verdicts import verdicts_of
from virtlab.report.words import plural
from virtlab.results import Dataset, RunRecord
from virtlab.results.record import MOVE
from virtlab.stats import planned_sizes

PUBLISHED = "published"  # beside a study, and below SOURCE: the folder of its published tables
SOURCE = "source"  # below the report: figures.yaml and published tables as they were used


@dataclass(frozen=True, slots=True)
class _Files:
    """A study's figures.yaml and the folder of its published tables; None if absent."""

    figures: Path | None
    published: Path | None

    @classmethod
    def of(cls, dataset: Dataset, figures: Path | None, published: Path | None) -> _Files:
        """Those that are named, else those around the dataset."""
        kept = dataset.report_folder / SOURCE
        if figures and not published:  # a study that is named has its tables with it
            published = nearest(figures.parent, PUBLISHED)
        figures = figures or nearest(kept, FILE_NAME)
        published = (
            published or nearest(kept, PUBLISHED) or (nearest(figures, PUBLISHED) if figures else None)
        )
        return cls(figures, published)

    def used(self, claims: Iterable[Any], figures: Figures) -> Iterator[Path]:
        """figures.yaml, and the published tables that a claim or a plot refers to."""
        if self.figures is not None:
            yield self.figures
        if self.published is not None:
            named = [claim.published.file for claim in claims if claim.published]
            named += [one.file for one in figures.published]
            yield from (
                self.published / name for name in dict.fromkeys(named) if _is_table(self.published, name)
            )


def gather(
    dataset: Dataset,
    *,
    figures_file: Path | None = None,
    published: Path | None = None,
    curves: bool = True,
) -> Gathered:
    """Everything a report says.

    `figures_file` is the study's figures.yaml, `published` the folder of published tables; both are looked
    for around the dataset when not given. `curves` False leaves distributions and courses out (terminal and
    JSON need none).
    """
    files = _Files.of(dataset, figures_file, published)
    figures = read_figures(files.figures) if files.figures else Figures("", (), ())
    records = dataset.runs()
    used = [record for record in records if record.status == "ok"]
    experiment = load_text(dataset.experiment_text, runs_max=None)
    points = {point.index: dict(point.levels) for point in experiment.points()}
    _of_the_experiment(records, points)
    declared = declared_factors(experiment)
    varying = tuple(factor for factor in declared if len(factor.levels) > 1)
    settings = {index: _varying_part(levels, varying) for index, levels in points.items()}
    repeat = experiment.repeat
    looks = planned_sizes(repeat.minimum, repeat.maximum) if repeat.until else ()
    table = values(used, looks, experiment.factors)
    claims = [claim.parsed() for claim in experiment.claims]
    overlay = overlays(claims, figures.published, files.published, declared)
    results = results_of(table, settings, repeat.confidence, overlay, roles=experiment.role_workloads())
    goals = Goals.of_runs(used)
    results = with_goals(results, goals)
    samples = Samples()
    from_samples: dict[str, Any] = {}
    drops: list[str] = []
    with dataset.database() as db:
        in_flight = in_flight_notes(db, used, settings)
        if curves:
            declare_windows(db, used)
            samples = Samples(
                *curves_of(db, results, settings, figures.plots),
                recurring_of(db, results, settings, repeat.confidence),
                histograms_of(db, used, results, settings),
                courses_of(db, used, settings),
                over_time_of(db, results),
                moves_of(db, used, settings),
                around_moves_of(db, used, settings),
            )
            queued, classes = queues(db, used, settings)
            quality = conditions.link_quality(db, used)
            drops = own_drops(db, used)
            from_samples = {"link_quality": quality, "queues": queued, "classes": classes}
    return Gathered(
        origin=Origin(
            title=experiment.title,
            description=description_of(dataset.experiment_text),
            dataset=dataset.path.name,
            backend=dataset.manifest.backend,
            created=dataset.manifest.created.partition("T")[0],
            experiment_text=dataset.experiment_text,
        ),
        design=Design(
            factors=varying,
            conditions={factor.name: factor.levels[0] for factor in declared if len(factor.levels) == 1},
            points=tuple(settings.values()),
            fairness=axis_of_experiment(experiment, [factor.name for factor in varying]),
        ),
        runs=tuple(
            _run_row(one, varying) for one in sorted(records, key=lambda each: (each.started, each.name))
        ),
        verdicts=verdicts_of(experiment, claims, table, goals, files.published),
        results=results,
        samples=samples,
        searches=searches_of(used, varying),
        influences=Influences(
            effects_of(table, {one.point: one.plan for one in used}, repeat.confidence),
            accounted(table, {factor.name: factor.levels for factor in varying}, repeat.confidence),
        ),
        world=World(
            plan=largest_plan(used),
            machine=conditions.machine(dataset, records),
            realised=conditions.realised(used),
            wire=wire.facts({record.point: record.plan for record in used}.values()),
            pushbacks=pushbacks({record.point: record.plan for record in used}.values()),
            **from_samples,
        ),
        source=Source(figures.source, figures.entries, tuple(files.used(claims, figures))),
        notes=(
            *_notes(records, points, len(table.mixed_points)),
            *_load_notes(used),
            *drops,
            *in_flight,
            *conditions.without_effect(used),
            *share_notes(table, varying),
            *client_notes(table, used),
            *goal_notes(goals),
            *luck_notes(used),
        ),
    )


def _of_the_experiment(records: Iterable[RunRecord], points: Mapping[int, Mapping[str, str]]) -> None:
    """Every run is of a design point of the experiment. DatasetError when one is not."""
    for record in records:
        if dict(record.levels) != points.get(record.point):
            what = f"has other levels than the experiment's point {record.point}"
            raise DatasetError(str(record.folder), what, MOVE)


def _is_table(folder: Path, name: str) -> bool:
    """Whether what is named is a published table; nothing else is kept with a report."""
    try:
        return bool(read_table(folder, name))
    except ExperimentError:
        return False


def nearest(place: Path, name: str) -> Path | None:
    """The nearest file or folder of that name in a folder or one around it; None if absent."""
    places = [place.absolute(), *place.absolute().parents]
    return next((place / name for place in places if (place / name).exists()), None)


def largest_plan(records: Sequence[RunRecord]) -> dict[str, Any] | None:
    """The Plan with most in it: of all design points the one that shows most of the experiment."""
    plans = {record.point: record.plan for record in records}.values()
    if not plans:
        return None
    plan = max(plans, key=lambda each: len(each.world.switches) + len(each.world.guests) + len(each.roles))
    return plan.model_dump(mode="json", by_alias=True)


def _notes(
    records: Sequence[RunRecord], points: Mapping[int, Mapping[str, str]], mixed: int
) -> tuple[str, ...]:
    """What a reader must know before the first number."""
    notes = []
    reached = {record.point for record in records if record.status == "ok"}
    if lacking := len(points) - len(reached):
        notes.append(
            f"{lacking} of {plural(len(points), 'design point')} have no valid run yet: absent, not zero."
        )
    if mixed:
        notes.append(
            f"{plural(mixed, 'design point')} ran over several link realisations. They stand apart in every "
            "plot, table and verdict and are never pooled."
        )
    return tuple(notes)


def share_notes(table: RunTable, varying: Sequence[Factor]) -> list[str]:
    """Which settings have vCPUs and which threads, where shares of guests are of both: they are no numbers of one
    thing.
    """
    mixed = {
        entity
        for entity in {guest for of in table.shares.values() for guest in of}
        if len(set(kinds_of(table.shares, entity, SHARE).values())) > 1
    }
    if not mixed:
        return []
    levels = {row.point: row.levels for row in table.runs.values()}
    kinds = {point: {of[entity] for entity in mixed if entity in of} for point, of in table.shares.items()}
    for factor in varying:
        by_level: dict[str, set[str]] = {}
        for point, own in kinds.items():
            by_level.setdefault(levels[point][factor.name], set()).update(own)
        if all(len(own) == 1 for own in by_level.values()):
            of = {
                kind: [level for level, own in by_level.items() if own == {kind}]
                for kind in (VCPUS, PROCESSORS)
            }
            where = [
                f"with {factor.name} {' and '.join(of[VCPUS])}",
                f"with {factor.name} {' and '.join(of[PROCESSORS])}",
            ]
            break
    else:
        where = ["in some settings", "in others"]
    text = (
        f"Guests are machines {where[0]} and have vCPUs; {where[1]} they are not, and threads of their servers take that "
        f"place. These are not compared as numbers of vCPUs: cpu_share of {', '.join(sorted(mixed))} is a share of vCPUs "
        "there and of processors here, and no claim or comparison sets one against the other."
    )
    return [text]


def _load_notes(used: Sequence[RunRecord]) -> list[str]:
    """Beside which measuring role a load is valued, where there are several."""
    found = {(role, beside_of(record, role)) for record in used for role in record.plan.roles}
    return [
        f"Values of {role} are of the time while {beside} ran, not of the other measurements."
        for role, beside in sorted((role, beside) for role, beside in found if beside)
    ]


def declared_factors(experiment: Experiment) -> tuple[Factor, ...]:
    """Factors with the levels that occur among the design points, quantities from low to high."""
    points = [point.levels for point in experiment.points()]
    found = []
    for name, written in experiment.factors.items():
        present = [level for level in written if any(point[name] == level for point in points)]
        found.append(Factor(name, tuple(ordered(present) or present)))
    return tuple(found)


def description_of(text: str) -> str:
    """The comment at the top of an experiment file: its author's own words.

    >>> description_of("# Two hosts,\\n# one switch.\\nversion: 1\\n")
    'Two hosts, one switch.'
    """
    lines = []
    for line in text.splitlines():
        if not line.startswith("#"):
            break
        lines.append(line.lstrip("#").strip())
    return " ".join(part for part in lines if part)


def _varying_part(point: Mapping[str, str], varying: Sequence[Factor]) -> dict[str, str]:
    return {factor.name: point[factor.name] for factor in varying if factor.name in point}


def _run_row(record: RunRecord, varying: Sequence[Factor]) -> RunRow:
    return RunRow(
        run=record.name,
        point=_varying_part(record.levels, varying),
        repetition=record.repetition,
        attempt=record.attempt,
        status=record.status,
        reasons=tuple(record.reasons),
        started=record.started,
        realisation=record.link_realisation,
        used=record.status == "ok",
    )
