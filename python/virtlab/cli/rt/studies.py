"""study: the three-task example, the 81 scenarios, the effect of the overhead; tables and plots."""

from __future__ import annotations

import csv
import io
import time
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from virtlab.drawing import EXTRA, can_draw
from virtlab.errors import ExperimentError
from virtlab.folders import Folder
from virtlab.terminal import say

if TYPE_CHECKING:
    from virtlab.realtime.studies import Overheads, Row, Scenarios


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("study")(study)


def study(
    what: Annotated[
        str, typer.Argument(help="three-task, scenarios, overhead, all, or a study file (.yaml)")
    ] = "all",
    form: Annotated[str, typer.Option("--form", help="quick, full or published")] = "quick",
    sets: Annotated[
        int, typer.Option("--sets", min=0, help="task sets per scenario; 0: as the form says")
    ] = 0,
    seed: Annotated[int, typer.Option("--seed", min=0, help="of the random task sets")] = 1,
    spread: Annotated[
        str, typer.Option("--periods", help="distribution of periods: uniform or log")
    ] = "uniform",
    wcets: Annotated[str, typer.Option("--wcets", help="execution times: scaled or uunifast")] = "scaled",
    threads: Annotated[int, typer.Option("--threads", min=0, help="0: all cores")] = 0,
    output: Annotated[Path, typer.Option("--output", "-o", help="folder for tables and plots")] = Path(
        "realtime-vm.study"
    ),
) -> None:
    """Runs a study: tables (CSV) and plots (SVG, PNG; else HTML) in a folder, the findings here.

    Example: virtlab rt study three-task --output three-task.study
    """
    from virtlab.realtime.forms import FORMS, PARTS, load_study, override

    if what.endswith((".yaml", ".yml")):
        parts, scenarios, overheads = load_study(Path(what))
    else:
        if form not in FORMS:
            raise ExperimentError("--form", f"'{form}' is unknown", f"choose one of {', '.join(FORMS)}")
        if what not in {*PARTS, "all"}:
            raise ExperimentError(
                "study", f"'{what}' is unknown", f"choose one of {', '.join(PARTS)}, all, or a file"
            )
        parts = list(PARTS) if what == "all" else [what]
        scenarios, overheads = FORMS[form]
        chosen: dict[str, Any] = {"seed": seed, "spread": spread, "wcets": wcets, "threads": threads}
        if sets:
            chosen["sets"] = sets
        scenarios, overheads = override(scenarios, chosen, "study"), override(overheads, chosen, "study")
    try:
        output.mkdir(parents=True, exist_ok=True)
        if "three-task" in parts:
            _three_task(output)
        if "scenarios" in parts:
            _scenarios(output, scenarios)
        if "overhead" in parts:
            _overhead(output, overheads)
    except OSError as error:
        raise ExperimentError(
            "--output", f"{output} cannot be written ({error.strerror})", "name another folder"
        ) from None
    say(f"tables and plots are in {output}")
    if not can_draw():
        say(f"each plot is a page that draws it; for PNG and SVG: pip install '{EXTRA}'")


def _three_task(output: Path) -> None:
    from virtlab.realtime import periods
    from virtlab.realtime.curves import worst_supply
    from virtlab.realtime.examples import THREE_TASKS, UNIT_NS, example, three_task_curve
    from virtlab.realtime.plots import three_task_intervals, three_task_ratios, time_to_supply, write_plots
    from virtlab.realtime.plots import worst_supply as supply_over_time

    share = Fraction(2, 5)
    say("three tasks (16, 2), (24, 1), (36, 4):")
    for count in (1, 2, 3):
        found = periods(example(*THREE_TASKS[:count]), share=share)
        say(f"  share 0.4, tasks 1-{count}: largest period {_units(found.max_period_ns, UNIT_NS)}")
    found = periods(example(*THREE_TASKS), share=share)
    intervals = [(low / UNIT_NS, high / UNIT_NS) for low, high in found.intervals_ns]
    shown = [
        f"{{{high}}}" if low == high else f"{'(0' if low == 0 else f'[{low}'}, {high}]"
        for low, high in intervals
    ]
    say(f"  all periods at share 0.4: {' u '.join(shown)}")
    half = periods(example(*THREE_TASKS), share=Fraction(1, 2))
    say(
        f"  share 0.5: largest period {_units(half.max_period_ns, UNIT_NS)}, critical task {half.critical_task}"
    )
    rows = three_task_curve(share)
    _table(output / "three-task.csv", rows)
    plots = {
        "three-task-ratios": three_task_ratios(rows),
        "three-task-intervals": three_task_intervals(intervals, "0.4"),
        "worst-supply": supply_over_time(supplied := worst_supply()),
        "time-to-supply": time_to_supply(supplied),
    }
    write_plots(output, plots)


def _scenarios(output: Path, settings: Scenarios) -> None:
    from virtlab.realtime.plots import (
        bound_over_share,
        period_spread,
        scenario_mean,
        scenario_spread,
        write_plots,
    )
    from virtlab.realtime.published import printed_bounds
    from virtlab.realtime.studies import scenarios

    began = time.perf_counter()
    found = scenarios(settings)
    spent = time.perf_counter() - began
    _table(output / "scenarios.csv", found.cells)
    write_plots(
        output,
        {
            "scenarios-mean": scenario_mean(found.cells),
            "scenarios-spread": scenario_spread(found.cells),
            "scenarios-spread-of-period": period_spread(found.cells),
            "period-bound": bound_over_share(found.cells, printed_bounds()),
        },
    )
    say(f"{len(found.cells)} scenarios of {settings.sets} task sets, exact, in {spent:.2f} s")
    above = [cell for cell in found.cells if cell["largest_ratio"] > cell["bound"]]
    say(f"  the bound P/T1 < 1/(2(1 - share)) holds in {len(found.cells) - len(above)} of them")
    for tasks in settings.tasks:
        spreads = [
            cell["spread"] for cell in found.cells if cell["tasks"] == tasks and cell["spread"] is not None
        ]
        say(f"  n = {tasks}: spread of P/T1 up to {max(spreads, default=0):.3g}")


def _overhead(output: Path, settings: Overheads) -> None:
    from virtlab.realtime.curves import lines_around
    from virtlab.realtime.plots import overhead_curves, overhead_fraction, three_lines_around, write_plots
    from virtlab.realtime.studies import overheads

    found = overheads(settings)
    _table(output / "overhead.csv", found.cells)
    _table(output / "overhead-curves.csv", found.curves)
    write_plots(
        output,
        {
            "overhead-curves": overhead_curves(found.curves),
            "overhead-fraction": overhead_fraction(found.curves),
            "three-lines": three_lines_around(lines_around(settings)),
        },
    )
    count = len(found.cells)
    inside = sum(cell["exact_inside_model"] for cell in found.cells) / count
    empty = [cell["model_interval_empty"] for cell in found.cells if cell["model_interval_empty"] is not None]
    say(f"overhead: {count} combinations of {settings.sets} task sets")
    say(f"  the exact periods lie inside the three-line model's interval for {inside:.1%} of the task sets")
    say(f"  on average {sum(empty) / max(len(empty), 1):.0%} of that interval is no usable period")
    hidden = [
        cell for cell in found.cells if cell["mean_curve_below_one"] and not cell["a_period_safe_for_all"]
    ]
    say(
        f"  in {len(hidden)} combinations the mean curve looks schedulable though no period suits all task sets"
    )


def _units(value: Fraction | None, unit: int) -> str:
    return "none" if value is None else str(value / unit)


def _table(path: Path, rows: list[Row]) -> None:
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, fieldnames=list(rows[0]))
    writer.writeheader()
    writer.writerows(rows)
    with Folder.open(path.parent) as folder:
        folder.write(path.name, text.getvalue().encode())
