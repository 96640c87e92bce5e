"""check-published: which of the source's values and statements hold."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from virtlab.cli.rt.options import JsonOption, show_json
from virtlab.terminal import say


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("check-published")(check_published)


def check_published(
    file: Annotated[
        Path | None,
        typer.Argument(
            help="published values or statements; default: the tables of the nearest folder published/, else those "
            "that are shipped",
            show_default=False,
        ),
    ] = None,
    sets: Annotated[int, typer.Option("--sets", min=10, max=100_000, help="task sets per scenario")] = 200,
    seed: Annotated[int, typer.Option("--seed", min=0, help="of the random task sets")] = 1,
    json: JsonOption = False,
) -> None:
    """Computes every published value and statement again and says which hold and which do not.

    Example: virtlab rt check-published --sets 1000
    """
    from virtlab.realtime.published import check_published as run

    checks = run(*([file] if file else _nearest()), sets=sets, seed=seed)
    if json:
        show_json({"checks": [asdict(check) for check in checks]})
        return
    words = {True: "holds", False: "DOES NOT", None: "-"}
    for check in checks:
        note = f"  ({check.note})" if check.note and not check.holds else ""
        say(
            f"{words[check.holds]:8}  {check.case} | {check.metric}: published {check.published}, here {check.here}{note}"
        )
    held = sum(check.holds is True for check in checks)
    failed = sum(check.holds is False for check in checks)
    say(f"{held} hold, {failed} do not, {len(checks) - held - failed} cannot be computed")


def _nearest() -> list[Path]:
    """The tables of the nearest folder `published` that has them all, else the shipped ones."""
    from virtlab.realtime.published import SHIPPED, TABLES

    here = Path.cwd()
    for folder in (here, *here.parents):
        if all((folder / "published" / name).is_file() for name in TABLES):
            return [folder / "published" / name for name in TABLES]
    return list(SHIPPED)
