"""Imported results as a dataset: the experiment's own design points, Plans and roles; other hands and another clock.

All files are read before anything is written, so a mistake leaves no dataset. A run keeps what the tool said as samples
and summaries, the output itself as an artefact, and in `realised` which tool, which file (SHA-256) and what it says of
its own parameters. Machine and conditions are the source's words: this machine's would be a lie.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from virtlab.documents import read_bytes, read_text
from virtlab.errors import ExperimentError
from virtlab.experiment import DesignPoint, Experiment, load_text
from virtlab.imported.entities import name_host
from virtlab.imported.mapping import ImportFile, ImportRun, Sources
from virtlab.imported.output import Point, ToolOutput, UnreadableError
from virtlab.imported.readers import read
from virtlab.lazy import np
from virtlab.plan import Columns, Outcome, Plan, Realised, RealisedObject
from virtlab.plan.blocks import STOPPED
from virtlab.planner import plan_run
from virtlab.results import Dataset
from virtlab.results.record import RunKey
from virtlab.results.writer import RunWriter
from virtlab.units import same_level

BACKEND = "imported"
FILE_MAX_BYTES = 256 << 20
UNKNOWN_CLOCK = "of each tool's own; one-way delays between machines are not estimable"
_COMPARED = ("message_bytes", "request_bytes", "response_bytes", "payload_bytes", "ip_packet_bytes")


@dataclass(frozen=True, slots=True)
class Imported:
    """What was imported; `differences`: where tools differ from the experiment file, and what of them is not as
    expected.
    """

    runs: int
    samples: int
    differences: tuple[str, ...]


@dataclass(slots=True)
class _Read:
    """One run, read."""

    where: str
    key: RunKey
    plan: Plan
    roles: dict[str, tuple[ImportFile, ToolOutput, bytes]] = field(default_factory=dict)
    series: list[tuple[ImportFile, ToolOutput, bytes]] = field(default_factory=list)


def import_results(
    sources: Sources, folder: Path, progress: Callable[[str], None] = lambda _: None
) -> Imported:
    """Makes the dataset. ExperimentError with file and line of an output that cannot be read; nothing is left then."""
    text = read_text(sources.experiment, cure="name an experiment file")
    experiment = load_text(text, name=str(sources.experiment), runs_max=None)
    runs = _all(experiment, sources.runs)
    differences = [words for run in runs for words in (*_notes(run), *_differences(run))]
    machine = {"source": sources.source}
    with Dataset.create(
        folder, text, name=experiment.name, seed=experiment.seed, backend=BACKEND, made_elsewhere=machine
    ) as dataset:
        for run in runs:
            with dataset.begin_run(run.key, run.plan, backend=BACKEND) as writer:
                _write(writer, run, sources.source)
            progress(
                f"{run.key.name}: {', '.join([*run.roles, *(output.tool for _, output, _ in run.series)])}"
            )
    return Imported(len(runs), sum(_samples(run) for run in runs), tuple(differences))


def _all(experiment: Experiment, wanted: Sequence[ImportRun]) -> list[_Read]:
    seen: dict[int, int] = {}
    found = []
    for one in wanted:
        point = _point(experiment, one)
        repetition = seen.get(point.index, 0)
        seen[point.index] = repetition + 1
        plan = plan_run(experiment, point, repetition)
        run = _Read(one.where, RunKey(point.index, repetition, 0), plan)
        for role, file in one.roles.items():
            run.roles[role] = file, *_role(f"{one.where}.roles.{role}", role, file, plan)
        for at, file in enumerate(one.series):
            output, content = _output_of(file)
            if not output.points:
                raise ExperimentError(
                    f"{one.where}.series[{at}]", f"{file.path.name} is of {output.tool}, which measures roles",
                    "name it under 'roles'",
                )  # fmt: skip
            if file.host:
                name_host(output, file.host, plan, f"{one.where}.series[{at}]")
            run.series.append((file, output, content))
        _once(run)
        found.append(run)
    return found


def _once(run: _Read) -> None:
    """Where two files report the same entity, the first one counts: two tools or hosts would be mixed otherwise."""
    seen: set[tuple[str, str]] = set()
    for file, output, _ in run.series:
        mine = {(point.entity, point.metric) for point in output.points}
        twice = mine & seen
        seen |= mine
        if twice:
            output.points = [point for point in output.points if (point.entity, point.metric) not in twice]
            named = ", ".join(f"{entity}.{metric}" for entity, metric in sorted(twice)[:3])
            more = f" and {len(twice) - 3} more" if len(twice) > 3 else ""
            output.notes.append(
                f"{named}{more} left out, an earlier file has it; if that is of another host, name both: "
                f"{{file: {file.path.name}, host: NAME}}"
            )


def _point(experiment: Experiment, run: ImportRun) -> DesignPoint:
    """The design point with these levels, however their units are written."""
    for name in run.levels:
        if name not in experiment.factors:
            known = ", ".join(experiment.factors) or "no factor"
            raise ExperimentError(
                f"{run.where}.levels.{name}", "is not a factor of the experiment", f"it has {known}"
            )
    points = experiment.points()
    found = [
        point
        for point in points
        if all(same_level(point.levels[name], level) for name, level in run.levels.items())
    ]
    if len(found) == 1:
        return found[0]
    if not found:
        shown = ", ".join(f"{name} = {level}" for name, level in run.levels.items())
        raise ExperimentError(
            f"{run.where}.levels", f"no design point has {shown}", "see `virtlab check FILE`"
        )
    lacking = [name for name in experiment.factors if name not in run.levels]
    raise ExperimentError(
        f"{run.where}.levels",
        f"{len(found)} design points have these levels",
        f"say {', '.join(lacking)} too",
    )


def _role(where: str, role: str, file: ImportFile, plan: Plan) -> tuple[ToolOutput, bytes]:
    if role not in plan.roles:
        known = ", ".join(plan.roles) or "none"
        raise ExperimentError(where, "is not a role of that design point", f"it has {known}")
    output, content = _output_of(file)
    workload = plan.roles[role].workload
    if workload not in output.workloads:
        of = (
            f"can be {' or '.join(output.workloads)}"
            if output.workloads
            else "is a series, and goes under 'series'"
        )
        raise ExperimentError(
            where, f"the role is {workload}; {file.path.name}, of {output.tool}, {of}", "name another file"
        )
    return output, content


def _output_of(file: ImportFile) -> tuple[ToolOutput, bytes]:
    """The parsed output in a file, and the file's content."""
    content = read_bytes(file.path, cure="name a file, or a part of it", largest_bytes=FILE_MAX_BYTES)
    return content_of(file, content), content


def content_of(file: ImportFile, content: bytes) -> ToolOutput:
    """What the bytes of a file say. ExperimentError with the line where they are no output of its tool."""
    try:
        return read(_decoded(content), file.tool)
    except UnreadableError as error:
        line = f", line {error.line}" if error.line else ""
        cure = error.cure or "see docs/reference/import.md for what is read of each tool"
        raise ExperimentError(f"{file.path}{line}", error.what, cure) from error


def _decoded(content: bytes) -> str:
    """Tools of Windows write UTF-16 into files; what is no text at all becomes text that no tool wrote."""
    if content[:2] in {b"\xff\xfe", b"\xfe\xff"}:
        return content.decode("utf-16", errors="replace")
    return content.decode("utf-8", errors="replace")


def _notes(run: _Read) -> list[str]:
    files = [*run.roles.values(), *run.series]
    return [f"{file.path.name}: {note}" for file, output, _ in files for note in output.notes]


def _differences(run: _Read) -> list[str]:
    """Where a tool's own words differ from the Plan's."""
    found = []
    for name, (file, output, _) in run.roles.items():
        planned = run.plan.roles[name].parameters
        for key in _COMPARED:
            if key in output.facts and key in planned and planned[key] != output.facts[key]:
                found.append(
                    f"{file.path.name}: {key} is {output.facts[key]}, the experiment says {planned[key]} for {name}"
                )
        duration_ns, told_s = planned.get("duration_ns"), output.facts.get("duration_s")
        if duration_ns and told_s and abs(told_s - duration_ns / 1e9) > 0.1 * duration_ns / 1e9:
            found.append(
                f"{file.path.name}: took {told_s:g} s, the experiment says {duration_ns / 1e9:g} s for {name}"
            )
    return found


def _samples(run: _Read) -> int:
    rows = sum(
        len(next(iter(columns.values())))
        for _, output, _ in run.roles.values()
        for columns in output.blocks.values()
    )
    return rows + sum(len(output.points) for _, output, _ in run.series)


def _write(writer: RunWriter, run: _Read, source: str) -> None:
    objects: dict[str, RealisedObject] = {}
    counters: list[tuple[str, str, int]] = []
    for role, (file, output, content) in run.roles.items():
        for schema, columns in output.blocks.items():
            writer.block(role, schema, {name: np.array(values) for name, values in columns.items()})
        writer.block(role, "summary/1", _summaries(output))
        counters += [(role, name, value) for name, value in output.counters.items()]
        objects[f"import.{role}"] = _object(file, output, content)
        writer.artefact(f"{role}-{_plain(file.path.name)}", [content])
    points: list[Point] = []
    for number, (file, output, content) in enumerate(run.series):
        points += output.points
        objects[f"import.series{number}"] = _object(file, output, content)
        writer.artefact(f"series{number}-{_plain(file.path.name)}", [content])
    if points:
        writer.block("series", "series/1", _series(points))
    if counters:
        writer.block("counters", "counter/1", _counters(counters))
    by = f"{BACKEND} from {source}"
    for name in list(run.plan.world.links) or ["none"]:
        objects[f"links.{name}"] = RealisedObject({}, {}, {}, by)
    clocks = {"bound_ns": None, "says": UNKNOWN_CLOCK} | {
        name: output.clock for name, (_, output, _) in run.roles.items()
    }
    writer.commit(Outcome("ok", clocks=clocks), Realised(objects, {"source": source}))


def _object(file: ImportFile, output: ToolOutput, content: bytes) -> RealisedObject:
    about = {"file": file.path.name, "sha256": hashlib.sha256(content).hexdigest(), "started": output.started}
    return RealisedObject({}, about, {"clock": output.clock, **output.facts}, output.tool)


def _plain(name: str) -> str:
    return "".join(
        letter if letter.isascii() and (letter.isalnum() or letter in "._-") else "_" for letter in name
    )[:80]


def _summaries(output: ToolOutput) -> Columns:
    return {
        "metric": np.array([one.metric for one in output.summaries], dtype=object),
        "statistic": np.array([one.statistic for one in output.summaries], dtype=object),
        "value": np.array([one.value for one in output.summaries], dtype=np.float64),
        "samples": np.array([one.samples for one in output.summaries], dtype=np.int64),
    }


def _series(points: Sequence[Point]) -> Columns:
    return {
        "t_ns": np.array([one.t_ns for one in points], dtype=np.int64),
        "entity": np.array([one.entity for one in points], dtype=object),
        "metric": np.array([one.metric for one in points], dtype=object),
        "value": np.array([one.value for one in points], dtype=np.float64),
    }


def _counters(rows: Sequence[tuple[str, str, int]]) -> Columns:
    columns: Mapping[str, Any] = {
        "t_ns": np.zeros(len(rows), dtype=np.int64),
        "mark": np.array([STOPPED] * len(rows), dtype=object),
        "entity": np.array([row[0] for row in rows], dtype=object),
        "counter": np.array([row[1] for row in rows], dtype=object),
        "value": np.array([row[2] for row in rows], dtype=np.int64),
    }
    return dict(columns)
