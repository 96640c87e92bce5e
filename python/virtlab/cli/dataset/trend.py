"""`virtlab trend`: the values of many datasets over time, and the steps in them, on one page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from virtlab.cli.dataset.sources import read_source
from virtlab.cli.options import AsJson
from virtlab.errors import MachineError
from virtlab.folders import put
from virtlab.terminal import json_text, say

SCHEMA = "virtlab.trend/1"
app = typer.Typer(add_completion=False)


@app.command()
def trend(
    folders: Annotated[
        list[Path], typer.Argument(help="datasets, or baseline files, in any order", show_default=False)
    ],
    *,
    quantity: Annotated[
        list[str] | None,
        typer.Option(help="only this one, e.g. probe.rtt.p99; may be repeated", show_default=False),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="every quantity that has a better direction")] = False,
    level: Annotated[
        float, typer.Option(help="how sure a step is, over all series together", min=0.5, max=0.9999)
    ] = 0.95,
    output: Annotated[Path, typer.Option(help="the page to write")] = Path("trend.html"),
    as_json: AsJson = False,
) -> None:
    """Shows the values of many datasets over time on one page, and finds the steps in them.

    A series is one quantity at one setting, with one value per dataset. In series of five datasets or more, steps are
    searched: between datasets of equal systems the chance of any false step is 5 %, over all series together.

    Example: virtlab trend monday.results tuesday.results wednesday.results
    """
    from virtlab.changes import trend as found
    from virtlab.report.page.trend import step_rows, step_text, trend_html

    series = found(
        [read_source(each, quantity or [], every=every) for each in folders],
        paths=quantity or (),
        level=level,
    )
    title = f"{len(folders)} datasets"
    try:
        put(output, trend_html(title, series, level).encode())
    except OSError as error:
        raise MachineError(
            str(output), f"cannot be written ({error.strerror})", "name another --output"
        ) from None
    if as_json:
        say(
            json_text(
                {"schema": SCHEMA, "page": str(output), "series": len(series), "steps": step_rows(series)},
                indent=2,
            )
        )
        return
    steps = [step_text(one, step) for one in series for step in one.steps]
    say("\n".join(steps) if steps else f"no step in {len(series)} series")
    say(f"page: {output}")
