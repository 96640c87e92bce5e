"""`virtlab platforms`: what each platform declares of itself, and whether it works on this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from virtlab.cli.options import AsJson
from virtlab.terminal import console, json_text, say

if TYPE_CHECKING:
    from collections.abc import Mapping

    from virtlab.catalogue import Platform

app = typer.Typer(add_completion=False)


@app.command()
def platforms(
    *,
    as_json: AsJson = False,
    tried: Annotated[bool, typer.Option(help="find out what works on this machine")] = True,
) -> None:
    """The feature table of the platforms that a guest can be on: kind, limits, migration, snapshots, licence.

    Example: virtlab platforms --json
    """
    from virtlab.catalogue import PLATFORMS

    here: Mapping[str, str | None] = {}
    if tried:
        from virtlab.testbed import Testbed

        here = Testbed().capabilities().platforms
    rows = [_facts(platform, here, tried=tried) for platform in PLATFORMS.values()]
    if as_json:
        say(json_text({"schema": "virtlab.platforms/1", "platforms": rows}, indent=2))
        return
    _print(rows)


def _facts(platform: Platform, here: Mapping[str, str | None], *, tried: bool) -> dict[str, Any]:
    features = platform.features
    facts: dict[str, Any] = {
        "name": platform.name,
        "meaning": platform.meaning,
        "type": features.type,
        "virtualisation": list(features.virtualisation),
        "own_kernel": features.own_kernel,
        "guests_per_host": platform.guests_max,
        "virtual_switch": platform.vswitch,
        "limits": list(platform.limits),
        "vnic_models": list(platform.vnic_models),
        "migration": features.migration,
        "snapshots": features.snapshots,
        "licence": features.licence,
        "simulator": platform.arms["simulator"],
    }
    if tried:
        facts["here"] = here.get(platform.name, "this testbed does not start it")
    return facts


def _print(rows: list[dict[str, Any]]) -> None:
    from rich.markup import escape
    from rich.table import Table

    out = console()
    out = out if out.is_terminal else console(width=120)
    labels = {
        "meaning": "a guest is", "type": "type", "virtualisation": "virtualisation", "own_kernel": "own kernel",
        "guests_per_host": "guests on a host", "virtual_switch": "on a virtual switch", "limits": "limits",
        "vnic_models": "vNIC models", "migration": "migration", "snapshots": "snapshots", "licence": "licence",
        "simulator": "simulated", "here": "on this machine",
    }  # fmt: skip
    table = Table(show_edge=False)
    table.add_column("")
    for row in rows:
        table.add_column(row["name"], overflow="fold")
    for key, label in labels.items():
        if key in rows[0]:
            table.add_row(label, *(escape(_said(key, row[key])) for row in rows))
    out.print(table)


def _said(key: str, value: Any) -> str:
    if key in {"here", "simulator"}:
        return "yes" if value is None else f"no: {value}"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(value) or "none"
    if value is None:
        return "any number"
    return str(value)
