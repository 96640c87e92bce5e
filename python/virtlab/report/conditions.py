"""Under what conditions the numbers came about: machine, kernel, versions; what was built, applied and read
back.

Values are grouped over runs: a condition that was the same everywhere is told once, one that changed is told
with how often each value held.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from virtlab.report.model import Realisation
from virtlab.report.words import plural
from virtlab.units import Size

if TYPE_CHECKING:
    from virtlab.results import Dataset, RunRecord


def machine(dataset: Dataset, records: Sequence[RunRecord]) -> dict[str, dict[str, str]]:
    """Groups of named facts: the machine, what could change between runs, versions, what the backend says of
    itself.
    """
    manifest = dataset.manifest
    groups = {
        "Machine": {_words(name): _value(name, value) for name, value in manifest.machine.items()},
        "Kernel, clock and load, per run": _over_runs([record.conditions for record in records]),
        "Backend": {_words(name): _value(name, value) for name, value in manifest.fingerprint.items()},
        "Versions": {name: str(value) for name, value in manifest.versions.items()},
        "Versions of what built the runs": _over_runs([record.realised.versions for record in records]),
    }
    groups["Dataset"] = {
        "created": manifest.created,
        "seed": str(manifest.seed),
        "experiment file": manifest.experiment_sha256[:16],
    }
    return {title: facts for title, facts in groups.items() if facts}


def _words(name: str) -> str:
    return name.removesuffix("_bytes").replace("_", " ")


def _value(name: str, value: Any) -> str:
    if name.endswith("_bytes") and isinstance(value, int):
        gibibytes = value / 2**30
        return f"{gibibytes:.1f} GiB" if gibibytes >= 1 else str(Size(value))
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True)


def _over_runs(facts: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Each fact once when all runs agree, else its values with how many runs had each; numbers as a range."""
    found: dict[str, str] = {}
    for name in dict.fromkeys(key for one in facts for key in one):
        values = Counter(_value(name, one[name]) for one in facts if name in one)
        if len(values) == 1:
            found[_words(name)] = next(iter(values))
        elif len(values) > 4 and (numbers := _numbers(values)):
            found[_words(name)] = f"{min(numbers):g} to {max(numbers):g}"
        else:
            shown = [f"{text} ({plural(count, 'run')})" for text, count in values.most_common(4)]
            more = len(values) - len(shown)
            found[_words(name)] = "; ".join(shown) + (f"; {more} more" if more else "")
    return found


def _numbers(values: Iterable[str]) -> list[float]:
    try:
        return [float(value) for value in values]
    except ValueError:
        return []


def realised(records: Iterable[RunRecord]) -> tuple[Realisation, ...]:
    """Every state that an object of the world had, with the number of runs in which it was so."""
    states: dict[tuple[str, str], list[Any]] = {}
    for record in records:
        for path, thing in record.realised.objects.items():
            key = json.dumps(
                [thing.by, thing.intended, thing.applied, thing.read_back], sort_keys=True, default=str
            )
            states.setdefault((path, key), [thing, 0])[1] += 1
    return tuple(
        Realisation(path, thing.by, thing.intended, thing.applied, thing.read_back, runs)
        for (path, _), (thing, runs) in sorted(states.items(), key=lambda pair: pair[0])
    )


def link_quality(records: Iterable[RunRecord]) -> tuple[dict[str, Any], ...]:
    """What the realisation of the links says of its own quality, per realisation: smallest, median, largest
    over runs.
    """
    return ()
