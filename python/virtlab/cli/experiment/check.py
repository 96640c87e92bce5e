"""`virtlab check`: every mistake of an experiment file, or what it amounts to."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from virtlab.cli.options import AsJson, ExperimentFile, Yes
from virtlab.cli.outputs import Junit, Markdown, write_cases
from virtlab.terminal import json_text, say

if TYPE_CHECKING:
    from virtlab.experiment import Experiment, FileMistakesError
    from virtlab.experiment.read.model import HostSpec

WORLD = {"hosts": "host", "guests": "guest", "switches": "switch", "routers": "router", "links": "link"}
app = typer.Typer(add_completion=False)


@app.command()
def check(
    file: ExperimentFile,
    *,
    yes: Yes = False,
    as_json: AsJson = False,
    junit: Junit = None,
    markdown: Markdown = None,
) -> None:
    """Finds every mistake of an experiment file at once; nothing is built.

    Each mistake says line, column and path, what is wrong, and the cure. The exit code is 2 when there is
    one, else 0, and then a summary says what the file amounts to: guests, design points, runs, about how long
    and how many bytes.

    Example: virtlab check experiments/switched-network/quick.yaml
    """
    from virtlab.cli.guest_commands import lines
    from virtlab.experiment import FileMistakesError, load
    from virtlab.experiment.experiment import RUNS_MAX

    try:
        experiment = load(file, runs_max=None if yes else RUNS_MAX)
    except FileMistakesError as error:
        if junit is not None or markdown is not None:
            from virtlab.report.exchange.cases import of_mistakes

            write_cases(of_mistakes(str(file), [line.strip() for line in error.lines()[1:]]), junit, markdown)
        if not as_json:
            raise
        say(_json(_refused(file, error)))
        raise typer.Exit(error.exit_code) from None
    summary = _summary(file, experiment)
    if junit is not None or markdown is not None:
        from virtlab.report.exchange.cases import of_mistakes

        told = [line.strip() for line in _text(summary, []).splitlines()[1:]]
        write_cases(of_mistakes(str(file), [], told), junit, markdown)
    say(_json(summary) if as_json else _text(summary, lines(experiment)))


def _json(values: dict[str, Any]) -> str:

    return json_text(values, indent=2)


def _refused(file: Path, error: FileMistakesError) -> dict[str, Any]:
    return {"file": str(file), "ok": False, "mistakes": error.as_json()}


def _summary(file: Path, experiment: Experiment) -> dict[str, Any]:
    """What the file amounts to; ranges over its design points."""
    from virtlab.cli.guest_commands import brought, digest, executed
    from virtlab.planner.estimate import Cost, estimate_points

    points = experiment.points()
    shapes = {
        tuple(len(part) for part in (w.hosts, w.stations, w.switches, w.routers, w.cables))
        for w in (experiment.study(point).wiring for point in points)
    }
    counts = [sorted({shape[position] for shape in shapes}) for position in range(5)]
    cost = sum(estimate_points(experiment), Cost(0, 0))
    repeat = experiment.repeat
    return {
        "file": str(file), "ok": True, "name": experiment.name, "title": experiment.title,
        "hosts": counts[0], "guests": counts[1], "switches": counts[2], "routers": counts[3], "links": counts[4],
        "roles": experiment.role_workloads(),
        "factors": {name: list(levels) for name, levels in experiment.factors.items()},
        "points": len(points), "repetitions": [repeat.minimum, repeat.maximum],
        "runs": [len(points) * repeat.minimum, len(points) * repeat.maximum],
        "time_ns": cost.time_ns * repeat.minimum, "disk_bytes": cost.disk_bytes * repeat.minimum,
        "searches": _searches(experiment),
        "installed": _installed(experiment),
        "commands": [each.json() for each in executed(experiment)],
        "brought": [each._asdict() for each in brought(experiment)], "sha256": digest(experiment),
        "claims": [{"id": claim.id, "text": claim.text} for claim in experiment.claims],
    }  # fmt: skip


def _installed(experiment: Experiment) -> list[str]:
    """What the file only names and this machine has to hold: recipes, root file systems, disks, existing hosts.

    A file is data; these are what runs.
    """
    from virtlab.experiment.world.topology import image_of

    found: dict[str, None] = {}
    for point in experiment.points():
        study = experiment.study(point)
        for station in study.wiring.stations.values():
            host = study.wiring.hosts.get(station.host)
            image = image_of(study.wiring, station)
            if image is not None:
                found[f"{station.platform} {image}"] = None
            if host is not None and host.address is not None:
                domain = f" domain {host.domain} of {_connection(host)}" if host.domain is not None else ""
                found[f"{station.platform} {host.address}{domain}"] = None
    return sorted(found)


def _connection(host: HostSpec) -> str:
    """The daemon that a domain of libvirt is of, and what the user's settings say that it is."""
    from virtlab.catalogue.platforms.libvirt import DEFAULT
    from virtlab.settings import load_trusted

    named = host.hypervisor or DEFAULT
    uri = load_trusted().hypervisors.get(named)
    return named if uri is None else f"{named} ({uri})"


def _searches(experiment: Experiment) -> list[str]:
    """What is searched, with its goals: one text for each search that differs from those before."""
    found: dict[str, str] = {}
    for point in experiment.points():
        search = experiment.study(point).search
        if search is None:
            return []
        until = None if search.until is None else search.until.text
        key = repr((search.written, search.method, search.goals, search.loss_per, until))
        if key not in found:
            from virtlab.campaign.execution.search import goal_texts

            found[key] = f"{search.written}: {' | '.join(goal_texts(search).values())}"
    return list(dict.fromkeys(found.values()))


def _text(summary: dict[str, Any], commands: list[str]) -> str:
    from virtlab.planner.estimate import about_bytes, about_time

    low, high = summary["runs"]
    runs = f"{low}" if low == high else f"{low} to {high}, until the interval is narrow enough"
    repetitions = " to ".join(dict.fromkeys(str(number) for number in summary["repetitions"]))
    lines = [
        f"{summary['file']}: no mistakes",
        f"  {summary['title']}",
        "  world     "
        + ", ".join(
            f"{_range(summary[what])} {one if summary[what] == [1] else what}"
            for what, one in WORLD.items()
            if summary[what] != [0]
        ),
        "  roles     " + ", ".join(f"{name} ({workload})" for name, workload in summary["roles"].items()),
    ]
    lines += [
        f"  {'factors' if not n else '':10}{name}: {_levels(levels)}"
        for n, (name, levels) in enumerate(summary["factors"].items())
    ]
    lines += [f"  {'' if n else 'search':10}{text}" for n, text in enumerate(summary["searches"])]
    lines += [f"  {'' if n else 'installed':10}{text}" for n, text in enumerate(summary["installed"])]
    lines += [f"  {'' if n else 'executes':10}{text}" for n, text in enumerate(commands)]
    lines += [
        f"  runs      {summary['points']} design points x {repetitions} = {runs}",
        f"  needs     about {about_time(summary['time_ns'])} and {about_bytes(summary['disk_bytes'])}",
        f"  claims    {len(summary['claims']) or 'none'}",
    ]
    return "\n".join(lines)


def _range(numbers: list[int]) -> str:
    return str(numbers[0]) if len(numbers) == 1 else f"{numbers[0]} to {numbers[-1]}"


def _levels(levels: list[str]) -> str:
    return (
        ", ".join(levels)
        if len(levels) <= 8
        else f"{', '.join(levels[:3])}, ... {levels[-1]} ({len(levels)} levels)"
    )
