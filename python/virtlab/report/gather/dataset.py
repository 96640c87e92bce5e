"""From a dataset to what a report shows. Nothing else of the report reads a dataset.

Values come from the analysis, curves from DuckDB, conditions from the runs as they were built. Only runs that
ended well are in an estimate; the others are listed with their reasons. Runs of different link realisations
never share a cell.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from virtlab.analysis.published import read_table
from virtlab.errors import DatasetError, ExperimentError
from virtlab.metrics import METRICS, MetricPath
from virtlab.report import names
from virtlab.report.figures.selection import DISTRIBUTIONS, RECURRING, bucketed, lead
from virtlab.report.gather import conditions, wire
from virtlab.report.gather.fairness import axis_of_experiment
from virtlab.report.gather.goals import goal_notes, goal_of_paths, luck_notes, with_goals
from virtlab.report.gather.histograms import Histogram, Wish, buckets_of
from virtlab.report.gather.model import (
    Cell,
    ClassSeen,
    Curve,
    Factor,
    Gathered,
    Published,
    Quantity,
    Result,
    RunRow,
    RunValue,
    Sampled,
    Verdict,
)
from virtlab.report.gather.published import overlays
from virtlab.report.gather.queues import queues
from virtlab.report.gather.recurrence import Recurring, settings_of
from virtlab.report.gather.samples import SAMPLED, course, declare_windows, distributions
from virtlab.report.gather.searches import searches_of
from virtlab.report.gather.source_figures import FILE_NAME, Figures, read_figures
from virtlab.report.quantities import significant
from virtlab.report.words import plural
from virtlab.results.record import MOVE

if TYPE_CHECKING:
    import duckdb

    from virtlab.analysis.table import RunTable
    from virtlab.experiment import Experiment
    from virtlab.results import Dataset, RunRecord
    from virtlab.stats import Estimate

EXEMPLARS = 3
PUBLISHED = "published"  # beside a study, and below SOURCE: the folder of its published tables
SOURCE = "source"  # below the report: figures.yaml and published tables as they were used


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
    from virtlab.analysis.effects import effects_of
    from virtlab.analysis.goals import Goals
    from virtlab.experiment import load_text
    from virtlab.stats import planned_sizes

    kept = dataset.report_folder / SOURCE
    if figures_file and not published:  # a study that is named has its tables with it
        published = beside(figures_file.parent, PUBLISHED)
    figures_file = figures_file or beside(kept, FILE_NAME)
    published = (
        published or beside(kept, PUBLISHED) or (beside(figures_file, PUBLISHED) if figures_file else None)
    )
    records = dataset.runs()
    used = [record for record in records if record.status == "ok"]
    experiment = load_text(dataset.experiment_text, runs_max=None)
    declared = declared_factors(experiment)
    points = {point.index: dict(point.levels) for point in experiment.points()}
    _of_the_experiment(records, points)
    varying = tuple(factor for factor in declared if len(factor.levels) > 1)
    repeat = experiment.repeat
    looks = planned_sizes(repeat.minimum, repeat.maximum) if repeat.until else ()
    table = _values(used, looks, experiment.factors)
    figures = read_figures(figures_file) if figures_file else Figures("", (), ())
    claims = [claim.parsed() for claim in experiment.claims]
    overlay = overlays(claims, figures.published, published, declared)
    results = _results(table, varying, points, repeat.confidence, overlay, roles=experiment.role_workloads())
    goals = Goals.of_runs(used)
    results = with_goals(results, goals)
    sampled: tuple[tuple[Sampled, ...], tuple[Sampled, ...]] = ((), ())
    recurring: tuple[Recurring, ...] = ()
    histograms: tuple[Histogram, ...] = ()
    quality: tuple[dict[str, str], ...] = ()
    queued: tuple[Mapping[str, str], ...] = ()
    classes: tuple[ClassSeen, ...] = ()
    if curves:
        with dataset.database() as db:
            sampled = _sampled(db, used, results, varying, points, asked=figures.plots)
            recurring = _recurring(db, results, varying, points, repeat.confidence)
            histograms = _histograms(db, used, results, varying, points)
            quality = conditions.link_quality(db, used)
            settings = {index: _varying_part(levels, varying) for index, levels in points.items()}
            queued, classes = queues(db, used, settings)
    return Gathered(
        effects=effects_of(table, {one.point: one.plan for one in used}, repeat.confidence),
        title=experiment.title,
        description=description_of(dataset.experiment_text),
        dataset=dataset.path.name,
        backend=dataset.manifest.backend,
        created=dataset.manifest.created.partition("T")[0],
        factors=varying,
        conditions={factor.name: factor.levels[0] for factor in declared if len(factor.levels) == 1},
        points=tuple(_varying_part(point, varying) for point in points.values()),
        verdicts=tuple(
            _verdict(name, verdict, goal_of_paths(verdict.claim.expression.paths(), goals))
            for name, verdict in zip(
                (claim.id for claim in experiment.claims),
                _judge(claims, table, repeat.confidence, published),
                strict=True,
            )
        ),
        results=results,
        distributions=sampled[0],
        courses=sampled[1],
        recurring=recurring,
        histograms=histograms,
        runs=tuple(
            _run_row(record, varying) for record in sorted(records, key=lambda one: (one.started, one.name))
        ),
        machine=conditions.machine(dataset, records),
        link_quality=quality,
        queues=queued,
        classes=classes,
        realised=conditions.realised(used),
        experiment_text=dataset.experiment_text,
        plan=largest_plan(used),
        glossary=glossary(results),
        entries=figures.entries,
        source=figures.source,
        claimed=frozenset(str(path) for claim in claims for path in claim.expression.paths()),
        searches=searches_of(used, varying),
        wire=wire.facts({record.point: record.plan for record in used}.values()),
        fairness=axis_of_experiment(experiment, [factor.name for factor in varying]),
        sources=tuple(one for one in (figures_file, *_tables_used(claims, figures, published)) if one),
        notes=(
            *_notes(records, points, len(table.mixed_points())),
            *_load_notes(used),
            *conditions.without_effect(used),
            *goal_notes(goals),
            *luck_notes(used),
        ),
    )


def _values(
    used: Sequence[RunRecord], looks: tuple[int, ...], declared: Mapping[str, Sequence[str]]
) -> RunTable:
    """Run-level values, two runs at a time: reading and sorting samples leaves Python's lock free."""
    from virtlab.analysis import RunTable
    from virtlab.analysis.kept import values_of
    from virtlab.analysis.table import worlds_of

    with ThreadPoolExecutor(2, "virtlab-values") as pool:
        rows = tuple(row for values in pool.map(values_of, used) for row in values)
    return RunTable(rows, looks, declared, worlds_of(used))


def _tables_used(claims: Iterable[Any], figures: Figures, published: Path | None) -> list[Path]:
    """Published tables that stand beside a claim or over a plot."""
    if published is None:
        return []
    named = [claim.published.file for claim in claims if claim.published] + [
        one.file for one in figures.published
    ]
    return [published / name for name in dict.fromkeys(named) if _is_table(published, name)]


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


def beside(place: Path, name: str) -> Path | None:
    """The file or folder of that name in a folder or in one around it; None when there is none."""
    places = [place.absolute(), *place.absolute().parents]
    return next((place / name for place in places if (place / name).exists()), None)


def largest_plan(records: Sequence[RunRecord]) -> dict[str, Any] | None:
    """The Plan with most in it: of all design points the one that shows most of the experiment."""
    plans = {record.point: record.plan for record in records}.values()
    if not plans:
        return None
    plan = max(plans, key=lambda one: len(one.world.switches) + len(one.world.guests) + len(one.roles))
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


def _load_notes(used: Sequence[RunRecord]) -> list[str]:
    """Beside which measuring role a load is valued, where there are several."""
    from virtlab.analysis.window import beside_of

    found = {(role, beside_of(record, role)) for record in used for role in record.plan.roles}
    return [
        f"Values of {role} are of the time while {beside} ran, not of the other measurements."
        for role, beside in sorted((role, beside) for role, beside in found if beside)
    ]


def _judge(claims: list[Any], table: RunTable, level: float, published: Path | None) -> list[Any]:
    from virtlab.analysis import judge

    return judge(claims, table, level, published=published) if claims else []


def _verdict(name: str, verdict: Any, goal: str) -> Verdict:
    """As the analysis judged it; the sentence is its own, and the goal of the search behind it."""
    from virtlab.analysis.published import together

    decided = verdict.comparison
    effect = ""
    if decided is not None and decided.effect is not None:
        effect = f"{decided.effect_name} {significant(decided.effect, 3)}".strip()
    return Verdict(
        name=name,
        claim=verdict.claim.text,
        verdict=verdict.ruling,
        sentence=f"{verdict.text} Goal: {goal}." if goal else verdict.text,
        because="; ".join(verdict.notes),
        unit=verdict.estimate.unit if verdict.estimate is not None else "",
        estimate=verdict.estimate,
        required=decided.required if decided is not None else (None, None),
        place=decided.label if decided is not None else "",
        effect=effect,
        n=" + ".join(str(count) for count in decided.runs) if decided is not None else "none",
        published=together(verdict.published),
        more_runs=verdict.more_runs,
        goal=goal,
    )


def declared_factors(experiment: Experiment) -> tuple[Factor, ...]:
    """Factors with the levels that occur among the design points, quantities from low to high."""
    from virtlab.analysis.claims import ordered

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


def _results(
    table: RunTable,
    varying: Sequence[Factor],
    points: Mapping[int, Mapping[str, str]],
    level: float,
    overlay: Mapping[str, tuple[Published, ...]],
    *,
    roles: Mapping[str, str],
) -> tuple[Result, ...]:
    """Every path that some run has a value for: measuring roles, loads, entities; metrics as the registry orders them."""
    from virtlab.catalogue import WORKLOADS

    order = {key: at for at, key in enumerate(METRICS)}
    measuring = [name for name, workload in roles.items() if WORKLOADS[workload].part == "measure"]
    rank = {name: at for at, name in enumerate(dict.fromkeys([*measuring, *roles]))}
    paths = [path for path in table.paths() if path.metric in METRICS]

    def key(path: MetricPath) -> tuple[Any, ...]:
        metric = METRICS[path.metric]
        place = rank.get(path.role, len(rank))
        return (
            metric.of == "entity",
            place,
            path.role,
            order[path.metric],
            metric.statistics.index(path.statistic),
        )

    return tuple(
        replace(_result(table, path, varying, points, level), published=overlay.get(str(path), ()))
        for path in sorted(paths, key=key)
    )


def _result(
    table: RunTable,
    path: MetricPath,
    varying: Sequence[Factor],
    points: Mapping[int, Mapping[str, str]],
    level: float,
) -> Result:
    from virtlab.stats import look_level

    stated, looks = level, tuple(table.planned_looks)
    groups: dict[tuple[int, str], list[RunValue]] = {}
    counts: dict[tuple[int, str], int] = {}
    for row in table.of(path).values():
        counts[row.point, row.realisation] = counts.get((row.point, row.realisation), 0) + row.samples
        groups.setdefault((row.point, row.realisation), []).append(
            RunValue(row.run, row.repetition, row.value, row.reason)
        )
    cells = []
    for realisation in table.realisations:
        for index, point in points.items():
            values = tuple(sorted(groups.get((index, realisation), ()), key=lambda one: one.run))
            if not values and len(table.realisations) > 1:
                continue
            present = [one.value for one in values if one.value is not None]
            early = len(looks) > 1 and len(values) < looks[-1]  # the last planned size keeps the stated level
            level = look_level(looks, stated) if early else stated
            estimate = _estimate(path, present, counts.get((index, realisation), 0), level)
            cells.append(Cell(_varying_part(point, varying), realisation, values, estimate))
    metric = METRICS[path.metric]
    quantity = Quantity(path.role, path.metric, path.statistic, path.unit, metric.better, metric.title())
    return Result(quantity, tuple(cells))


def _estimate(path: MetricPath, present: Sequence[float], counted: int, level: float) -> Estimate | None:
    """The mean over runs; a share that no run differs in by what was counted over all of them, as claims judge it."""
    from virtlab.analysis.judging.cells import SHARES
    from virtlab.stats import mean_interval, proportion_interval

    if path.metric in SHARES and path.statistic == "ratio" and counted and len(set(present)) == 1:
        hits = round(present[0] * counted)
        return proportion_interval(hits, counted, level=level, metric=path.metric, runs=len(present))
    return mean_interval(present, level=level, metric=path.metric, unit=path.unit)


def _sampled(
    db: duckdb.DuckDBPyConnection,
    used: Sequence[RunRecord],
    results: Sequence[Result],
    varying: Sequence[Factor],
    points: Mapping[int, Mapping[str, str]],
    *,
    asked: frozenset[str],
) -> tuple[tuple[Sampled, ...], tuple[Sampled, ...]]:
    """Distributions and courses of the metrics that have single samples and are drawn."""
    shown = {index: _varying_part(point, varying) for index, point in points.items()}
    leads = {}
    for result in results:
        quantity = result.quantity
        if quantity.metric in SAMPLED and quantity.statistic == lead(METRICS[quantity.metric].statistics):
            leads[quantity.role, quantity.metric] = result
    spread, courses = [], []
    declare_windows(db, used)
    for (role, metric), result in leads.items():
        drawn = metric in DISTRIBUTIONS
        about = {
            "role": role,
            "metric": metric,
            "unit": METRICS[metric].unit,
            "title": METRICS[metric].title(),
        }
        if drawn or names.of_metric("ecdf", role, metric) in asked:
            curves = distributions(db, role, SAMPLED[metric], shown)
            spread.append(
                Sampled(**about, curves=tuple(curves), note="every sample of a setting's runs pooled")
            )
        if drawn or names.of_metric("series", role, metric) in asked:
            chosen = _courses(db, role, metric, result)
            courses.append(Sampled(**about, curves=tuple(chosen)))
    return tuple(spread), tuple(courses)


def _recurring(
    db: duckdb.DuckDBPyConnection,
    results: Sequence[Result],
    varying: Sequence[Factor],
    points: Mapping[int, Mapping[str, str]],
    level: float,
) -> tuple[Recurring, ...]:
    """Runs beside each other, of the metrics that are drawn so, where some setting has two runs."""
    shown = {index: _varying_part(point, varying) for index, point in points.items()}
    found = []
    for result in results:
        role, metric = result.quantity.role, result.quantity.metric
        leading = result.quantity.statistic == lead(METRICS[metric].statistics)
        if metric in RECURRING and leading and any(len(cell.present) > 1 for cell in result.cells):
            settings = settings_of(db, role, SAMPLED[metric], shown, level)
            about = METRICS[metric]
            found.append(Recurring(role, metric, about.unit, about.title(), tuple(settings)))
    return tuple(found)


def _histograms(
    db: duckdb.DuckDBPyConnection,
    used: Sequence[RunRecord],
    results: Sequence[Result],
    varying: Sequence[Factor],
    points: Mapping[int, Mapping[str, str]],
) -> tuple[Histogram, ...]:
    """Histograms of the roles whose workload has them, with the buckets that they ask for."""
    shown = {index: _varying_part(point, varying) for index, point in points.items()}
    roles = {name: role for record in used for name, role in record.plan.roles.items()}
    found = []
    for result in results:
        name, metric = result.quantity.role, result.quantity.metric
        role = roles.get(name)
        leading = result.quantity.statistic == lead(METRICS[metric].statistics)
        if role is None or not bucketed(role.workload, metric) or not leading:
            continue
        if any(cell.present for cell in result.cells):
            wish = Wish.of(role.parameters)
            settings = buckets_of(db, name, SAMPLED[metric], shown, wish)
            about = METRICS[metric]
            found.append(Histogram(name, metric, about.unit, about.title(), wish.edges, tuple(settings)))
    return tuple(found)


def _courses(db: duckdb.DuckDBPyConnection, role: str, metric: str, result: Result) -> Iterable[Curve]:
    """The settings of lowest, middle and highest mean, each by the run whose value is the median of its
    repetitions.
    """
    cells = sorted(
        (cell for cell in result.cells if cell.present),
        key=lambda cell: sum(cell.present) / len(cell.present),
    )
    at = sorted({0, len(cells) // 2, len(cells) - 1}) if cells else []
    for cell in (cells[index] for index in at[:EXEMPLARS]):
        runs = sorted(
            (one for one in cell.values if one.value is not None), key=lambda one: (one.value, one.run)
        )
        curve = course(db, role, SAMPLED[metric], runs[(len(runs) - 1) // 2].run, cell.point)
        if curve is not None:
            yield curve


def glossary(results: Iterable[Result]) -> tuple[Mapping[str, str], ...]:
    """Every metric and statistic of the report, as the registry defines it."""
    from virtlab.metrics import STATISTICS

    metrics: dict[str, list[str]] = {}
    for result in results:
        metrics.setdefault(result.quantity.metric, []).append(result.quantity.statistic)
    entries = []
    for key in METRICS:
        if key in metrics:
            metric = METRICS[key]
            better = f", {metric.better} is better" if metric.better != "neither" else ""
            entries.append(
                {
                    "key": key,
                    "term": metric.title(),
                    "unit": f"{key}, in {metric.unit}{better}",
                    "definition": metric.definition,
                    "source": metric.source,
                }
            )
    used = {statistic for found in metrics.values() for statistic in found}
    entries += [
        {
            "term": statistic.label or key,
            "unit": f"statistic {key}",
            "definition": statistic.definition,
            "source": "",
        }
        for key, statistic in STATISTICS.items()
        if key in used
    ]
    return tuple(entries)
