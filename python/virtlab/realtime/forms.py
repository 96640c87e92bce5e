"""Forms of the studies: quick, full (our design) and published (the source's own procedure), and study files.

The published form: 10 programs per scenario, a program without a period counts as 0, VM periods 0..500, execution times
from 100 (1000 in the scenarios) to T_i before scaling.
"""

from __future__ import annotations

from dataclasses import fields, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, TypeVar

from virtlab.documents import read_yaml
from virtlab.errors import ExperimentError
from virtlab.realtime.studies import Overheads, Scenarios

Settings = TypeVar("Settings", Scenarios, Overheads)
FORMS: dict[str, tuple[Scenarios, Overheads]] = {
    "quick": (Scenarios(sets=100), Overheads(sets=20, step=5)),
    "full": (Scenarios(sets=1000), Overheads(sets=200)),
    "published": (Scenarios(sets=10, unschedulable="zero"), Overheads(sets=10)),
}
PARTS = ("three-task", "scenarios", "overhead")


def load_study(path: Path) -> tuple[list[str], Scenarios, Overheads]:
    """A study file: `version: 1`, `study: realtime-vm`, a `form` to start from, and per part what differs.

    ExperimentError for unknown keys and values of the wrong kind.
    """
    content = read_yaml(path)
    if not isinstance(content, dict) or content.get("study") != "realtime-vm" or content.get("version") != 1:
        raise ExperimentError(
            str(path), "is not a real-time study", "begin with 'version: 1' and 'study: realtime-vm'"
        )
    known = {"version", "study", "form", "parts", "scenarios", "overhead"}
    if unknown := set(content) - known:
        where = f"{path}: {sorted(map(str, unknown))[0]}"
        raise ExperimentError(
            where, "is not a key of a real-time study", f"there are {', '.join(sorted(known))}"
        )
    form = content.get("form", "full")
    if form not in FORMS:
        raise ExperimentError(f"{path}: form", f"'{form}' is unknown", f"choose one of {', '.join(FORMS)}")
    parts = content.get("parts", list(PARTS))
    if not isinstance(parts, list) or not set(parts) <= set(PARTS):
        raise ExperimentError(
            f"{path}: parts", "names no parts of the study", f"choose among {', '.join(PARTS)}"
        )
    scenarios, overheads = FORMS[form]
    return (
        parts,
        override(scenarios, content.get("scenarios") or {}, f"{path}: scenarios"),
        override(overheads, content.get("overhead") or {}, f"{path}: overhead"),
    )


def override(settings: Settings, values: dict[str, Any], where: str) -> Settings:
    """The settings with some replaced; ExperimentError names the key."""
    known = {field.name: getattr(settings, field.name) for field in fields(settings)}
    changed: dict[str, Any] = {}
    for key, value in values.items():
        if key not in known:
            raise ExperimentError(f"{where}.{key}", "is not a setting", f"there are {', '.join(known)}")
        before = known[key]
        try:
            if isinstance(before, tuple):
                kind = type(before[0])
                changed[key] = tuple(kind(str(item)) if kind is Fraction else kind(item) for item in value)
            else:
                changed[key] = type(before)(value)
        except (TypeError, ValueError):
            raise ExperimentError(
                f"{where}.{key}", f"'{value}' is of another kind", f"write as in {before!r}"
            ) from None
        numbers = changed[key] if isinstance(changed[key], tuple) else (changed[key],)
        if any(
            not isinstance(item, str) and item < (0 if key in {"seed", "threads"} else 1e-9)
            for item in numbers
        ):
            raise ExperimentError(f"{where}.{key}", f"'{value}' must be more than zero", "write more")
    return replace(settings, **changed)
