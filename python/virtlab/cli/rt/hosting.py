"""host: many guests on the cores of one host."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from virtlab.cli.rt.answers import table
from virtlab.cli.rt.options import JsonOption, show_json
from virtlab.terminal import say


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("host")(host)


def host(
    file: Annotated[Path, typer.Argument(help="host file: cores, scheduler, guests with their tasks")],
    more: Annotated[str, typer.Option("--more", help="how many more of this guest fit")] = "",
    json: JsonOption = False,
) -> None:
    """Do these guests fit, on how many cores, with which period and budget each? Exit 1 when they do not.

    Example: virtlab rt host host.yaml --more control
    """
    from virtlab.realtime.hosts import how_many_more, load_host, place
    from virtlab.units import show_time

    given = load_host(file)
    found = place(given)
    extra = how_many_more(given, more) if more and found.fits else None
    if json:
        show_json(found.to_json() | ({"more": {"guest": more, "count": extra}} if more else {}))
    elif not found.fits:
        say(f"they do not fit: {found.reason}")
    else:
        rows = [("vCPU", "core", "period", "budget", "share", "starts per period")]
        for one in found.placed:
            rows.append(
                (
                    one.name,
                    str(one.core),
                    show_time(one.period_ns),
                    show_time(one.budget_ns),
                    f"{one.share:.4f}",
                    str(one.starts),
                )
            )
        table(rows)
        say(f"they fit on {found.cores} of {given.cores} cores ({found.choice})")
        if more:
            say(f"{extra} more of {more} fit")
    if not found.fits:
        raise typer.Exit(1)
