"""The table of effects: what one more switch, and one more guest on every host, does to delay, jitter and throughput."""

from __future__ import annotations

from virtlab.report.gather.model import Gathered
from virtlab.report.quantities import display, interval
from virtlab.report.tables.table import Block, cell, head

LIST_MAX = 200  # rows; averages always stand


def effects_section(data: Gathered) -> Block | None:
    """The section; None where no two design points differ in one of the two numbers alone."""
    if not data.effects:
        return None
    paths = list(dict.fromkeys(one.path for one in data.effects))
    units = {
        path: display(
            path.unit,
            [abs(one.estimate.point) for one in data.effects if one.path == path],
        )
        for path in paths
    }
    rows: dict[tuple[str, ...], dict[str, str]] = {}
    split = len({one.realisation for one in data.effects}) > 1
    for one in data.effects:
        where = (
            "on average"
            if one.average
            else ", ".join(f"{name} {level}" for name, level in one.levels.items() if name in data.varying)
        )
        key = (one.what, f"{one.factor} {one.before} to {one.after}", where, one.realisation)
        estimate = one.estimate
        text = interval(estimate.low, estimate.point, estimate.high, units[one.path])
        rows.setdefault(key, {})[str(one.path)] = text if estimate.low is not None else f"{text}, no interval"
    order = sorted(rows, key=lambda key: (key[0] != "switch", key[2] != "on average"))
    kept = [key for key in order if key[2] == "on average"] + [
        key for key in order if key[2] != "on average"
    ][:LIST_MAX]
    names = [str(path) for path in paths]
    columns = ["one more", "from", "where", *(["links"] if split else []), *names]
    table = {
        "head": head(*columns, numbers=names),
        "rows": [
            {
                "cells": [
                    cell("switch" if key[0] == "switch" else "guest on every host"), cell(key[1]), cell(key[2] or "always"),
                    *([cell(key[3])] if split else []),
                    *(cell(rows[key].get(name, "no value"), "number" if name in rows[key] else "absent") for name in names),
                ],
                "out": False,
            }
            for key in kept
        ],
        "caption": "Effect of one more switch and of one more guest on every host, with its interval",
    }  # fmt: skip
    more = f" {len(order) - len(kept)} further settings are left out." if len(order) > len(kept) else ""
    return {
        "id": "effects",
        "title": "One more switch, one more guest",
        "short": "effects",
        "about": "Differences of means between neighbouring settings, per switch or per guest on every host, with Welch's "
        f"interval over independent runs. What else a level changes is part of its effect.{more}",
        "figures": [],
        "table": table,
        "tables": [],
        "nested": [],
    }
